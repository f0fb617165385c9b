"""The vectorisable exponential and logistic functions against long double formulas."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st

from nbo.kernels import links
from nbo.kernels.engine import array, compiled

LONG = np.longdouble

#: Largest relative errors, in units in the last place.
ULPS = 6


def run_exp(t, out):
    for i in range(t.shape[0]):
        out[i] = links.exp(t[i])


def run_softplus(t, out):
    for i in range(t.shape[0]):
        out[i] = links.softplus(t[i])


def run_sigmoid(t, out):
    for i in range(t.shape[0]):
        out[i] = links.sigmoid(t[i])


def run_slope(t, out):
    for i in range(t.shape[0]):
        out[i] = links.loss_derivatives(t[i])[0]


def run_curvature(t, out):
    for i in range(t.shape[0]):
        out[i] = links.loss_derivatives(t[i])[1]


def sigmoid(t):
    return np.exp(np.minimum(t, LONG(0))) / (LONG(1) + np.exp(-abs(t)))


REFERENCES = {
    run_exp: np.exp,
    run_softplus: lambda t: np.maximum(t, LONG(0)) + np.log1p(np.exp(-abs(t))),
    run_sigmoid: sigmoid,
    run_slope: lambda t: -sigmoid(-t),
    run_curvature: lambda t: sigmoid(t) * sigmoid(-t),
}


def apply(function, t):
    """The function over an array, through the engine."""
    kernel = compiled(function, (array(t.dtype, 1), array(t.dtype, 1, writable=True)))
    out = np.empty_like(t)
    kernel(t, out)
    return out


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("function", REFERENCES, ids=lambda f: f.__name__)
def test_accurate_over_the_whole_range(function, dtype):
    limits = np.finfo(dtype)
    dense = np.linspace(-80, 80, 4001)
    tiny = np.concatenate((np.logspace(-30, 0, 61), -np.logspace(-30, 0, 61), [0.0, -0.0]))
    t = np.concatenate((dense, tiny)).astype(dtype)
    expected = REFERENCES[function](t.astype(LONG))
    normal = abs(expected) > limits.tiny
    error = abs(apply(function, t) - expected)
    assert np.all(error[normal] <= ULPS * limits.eps * abs(expected[normal]))
    assert np.all(error[~normal] <= ULPS * limits.tiny)


@given(st.floats(-1e300, 1e300, allow_subnormal=False))
def test_no_overflow_for_any_argument(t):
    one = np.array([t, -t])
    np.testing.assert_allclose(apply(run_softplus, one), np.logaddexp(0, one), rtol=4e-15, atol=1e-300)
    np.testing.assert_allclose(apply(run_sigmoid, one), scipy.special.expit(one), rtol=4e-15, atol=1e-300)
    assert np.all(np.isfinite(apply(run_curvature, one)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_limits_and_nan(dtype):
    t = np.array([np.inf, -np.inf, np.nan, 1e4, -1e4], dtype)
    np.testing.assert_array_equal(apply(run_exp, t), np.array([np.inf, 0, np.nan, np.inf, 0], dtype))
    np.testing.assert_array_equal(apply(run_softplus, t), np.array([np.inf, 0, np.nan, 1e4, 0], dtype))
    np.testing.assert_array_equal(apply(run_sigmoid, t), np.array([1, 0, np.nan, 1, 0], dtype))
    np.testing.assert_array_equal(apply(run_slope, t), np.array([0, -1, np.nan, 0, -1], dtype))
    np.testing.assert_array_equal(apply(run_curvature, t), np.array([0, 0, np.nan, 0, 0], dtype))


def test_exp_underflows_gradually_and_overflows_where_it_must():
    t = np.array([-745.0, -740.0, -709.0, 709.0, 709.7])
    np.testing.assert_allclose(apply(run_exp, t), np.exp(t), rtol=1e-13, atol=5e-324)
    assert apply(run_exp, np.array([709.8]))[0] == np.inf
    assert apply(run_exp, np.array([-746.0]))[0] == 0
