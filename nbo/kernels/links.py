"""Exponential and logistic functions that a loop over an array can vectorise.

The functions behind ``math.exp`` are opaque calls. These are branch-free: a range reduction, a polynomial, and
powers of two written straight into exponent bits. Each exists in double and in single precision from one source,
and runs the same in plain Python. NaN arguments give NaN. Method: J.-M. Muller, Elementary Functions, 3rd
edition, 2016, chapters 11 and 12.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from nbo.kernels.engine import ORDERED_FLAGS, by_precision, helper


class _Precision(NamedTuple):
    """What differs between double and single precision."""

    real: Any
    integer: Any
    mantissa_bits: int
    bias: int
    log2_bits: int  # leading bits of log(2) whose product with any exponent is exact
    exp_degree: int
    log_terms: int
    smallest: float  # exp is 0 below
    largest: float  # and infinite above


_DOUBLE = _Precision(np.float64, np.int64, 52, 1023, 32, 13, 10, -746.0, 710.0)
_SINGLE = _Precision(np.float32, np.int32, 23, 127, 12, 7, 5, -104.0, 89.0)


def _exponential(precision: _Precision) -> Callable[..., Any]:
    """Build exp: x = k log(2) + r with |r| <= log(2)/2, then 2^k times the Taylor polynomial in r."""
    real, integer, mantissa_bits, bias = precision[:4]
    smallest, largest = real(precision.smallest), real(precision.largest)
    high = math.floor(math.log(2) * 2**precision.log2_bits) / 2**precision.log2_bits
    log2_high, log2_low = real(high), real(Decimal(2).ln() - Decimal(high))
    log2_inverse = real(1 / math.log(2))
    # Adding this number rounds to an integer and leaves that integer in the low bits of the sum.
    shift = real(1.5 * 2**mantissa_bits)
    shift_bits = shift.view(integer)
    coefficients = tuple(real(1 / math.factorial(i)) for i in range(precision.exp_degree - 1, -1, -1))
    leading = real(1 / math.factorial(precision.exp_degree))

    @helper(**ORDERED_FLAGS)
    def exp(x):  # type: ignore[no-untyped-def]
        x = smallest if x < smallest else x
        x = largest if x > largest else x
        shifted = x * log2_inverse + shift
        k = shifted - shift
        r = (x - k * log2_high) - k * log2_low
        value = leading
        for c in coefficients:
            value = value * r + c
        # Two factors, since 2^k itself may be out of range where the result is not.
        exponent = integer(real(shifted).view(integer) - shift_bits)
        half = exponent >> 1
        first = integer((half + bias) << mantissa_bits).view(real)
        second = integer((exponent - half + bias) << mantissa_bits).view(real)
        return value * first * second

    return exp


def _logarithm(precision: _Precision) -> Callable[..., Any]:
    """Build log(1 + e) for 0 <= e <= 1: 2 artanh(f / (2 + f)), after a division of 1 + e by 2 if it is large."""
    real = precision.real
    one, two, half, zero = real(1), real(2), real(0.5), real(0)
    threshold, log2 = real(math.sqrt(2) - 1), real(math.log(2))
    coefficients = tuple(real(1 / (2 * i + 1)) for i in range(precision.log_terms - 1, -1, -1))
    leading = real(1 / (2 * precision.log_terms + 1))

    @helper(**ORDERED_FLAGS)
    def log1p_unit(e):  # type: ignore[no-untyped-def]
        large = e > threshold
        f = (e - one) * half if large else e
        s = f / (two + f)
        square = s * s
        value = leading
        for c in coefficients:
            value = value * square + c
        return (log2 if large else zero) + two * s * value

    return log1p_unit


def _logistic(precision: _Precision) -> tuple[Callable[..., Any], ...]:
    """Build exp, log(1 + e^t), its derivative and the first two derivatives of log(1 + e^-t)."""
    one, zero = precision.real(1), precision.real(0)
    exp, log1p_unit = _exponential(precision), _logarithm(precision)

    @helper(**ORDERED_FLAGS)
    def softplus(t):  # type: ignore[no-untyped-def]
        return (t if t > zero else zero) + log1p_unit(exp(-abs(t)))

    @helper(**ORDERED_FLAGS)
    def sigmoid(t):  # type: ignore[no-untyped-def]
        e = exp(-abs(t))
        return (e if t < zero else one) / (one + e)

    @helper(**ORDERED_FLAGS)
    def loss_derivatives(t):  # type: ignore[no-untyped-def]
        e = exp(-abs(t))
        d = one / (one + e)
        return -(e if t > zero else one) * d, e * d * d

    return exp, softplus, sigmoid, loss_derivatives


#: exp(x), to about 1e-15 relative (1e-6 in single precision), with gradual underflow and overflow to infinity.
#: softplus(t) = log(1 + e^t) and sigmoid(t) = 1 / (1 + e^-t), without overflow for any t.
#: loss_derivatives(t) = (-sigmoid(-t), sigmoid(t) sigmoid(-t)): of log(1 + e^-t), from one exponential.
exp, softplus, sigmoid, loss_derivatives = (
    by_precision(double, single) for double, single in zip(_logistic(_DOUBLE), _logistic(_SINGLE), strict=True)
)
