"""Functions with one source for plain Python and compiled loops."""

from __future__ import annotations

import inspect
from typing import NamedTuple

import numba
import numpy as np
import pytest

import nbo  # noqa: F401 - marks the functions
from nbo._dual import MARKED, Choice, Dual, by_class, dual
from nbo.kernels.engine import array, compiled
from nbo.kernels.loops import type_of
from nbo.sampling import B1, B3, EPOCH, INNER, WINDOW, Stream, below, coin, draw, make_streams, mix, reorder, unit

OURS = [m for m in MARKED if m.plain.__module__.startswith("nbo.")]
needs_compiler = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="NUMBA_DISABLE_JIT is set")


def _shift_compiled(target, amount):
    for i in range(target.shape[0]):
        target[i] += 10 * amount  # differs from the plain form, to tell them apart


@dual(compiled=_shift_compiled)
def shift(target, amount):
    target += amount


@dual
def same(target):
    shift(target, 1.0)


class Line(NamedTuple):
    slope: float


class Parabola(NamedTuple):
    curvature: float
    slope: float


@dual
def line(shape, t):
    return shape.slope * t


@dual
def parabola(shape, t):
    return shape.slope * t + shape.curvature * t * t


height = by_class({Line: line, Parabola: parabola})


def heights(shape, out):
    for i in range(out.shape[0]):
        out[i] = height(shape, float(i))


def shift_all(target):
    shift(target, 2.0)
    same(target)


def test_in_plain_python_a_marked_function_is_itself():
    target = np.zeros(2)
    shift_all(target)
    np.testing.assert_array_equal(target, [3.0, 3.0])
    assert Dual(shift, _shift_compiled) in MARKED and Dual(same, same) in MARKED


def test_in_plain_python_the_class_of_the_first_argument_chooses():
    out = np.zeros(4)
    for shape, expected in ((Line(2.0), [0, 2, 4, 6]), (Parabola(1.0, 2.0), [0, 3, 8, 15])):
        heights(shape, out)
        np.testing.assert_array_equal(out, expected)
    with pytest.raises(KeyError):
        height((2.0,), 1.0)


@needs_compiler
def test_compiled_code_calls_the_compiled_form():
    target = np.zeros(2)
    compiled(shift_all, (array(np.float64, 1, writable=True),))(target)
    np.testing.assert_array_equal(target, [30.0, 30.0])


@needs_compiler
def test_compiled_code_chooses_by_class():
    found, expected = np.zeros(4), np.zeros(4)
    for shape in (Line(2.0), Parabola(1.0, 2.0)):
        compiled(heights, (type_of(shape), array(np.float64, 1, writable=True)))(shape, found)
        heights(shape, expected)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("marked", OURS, ids=lambda m: m.plain.__qualname__)
def test_both_forms_have_the_same_parameters(marked):
    forms = marked if isinstance(marked, Dual) else marked.table.values()
    names = {tuple(inspect.signature(form).parameters)[isinstance(marked, Choice) :] for form in forms}
    assert len(names) == 1
    assert marked.plain not in [other.plain for other in MARKED if other is not marked]


def test_choices_are_between_marked_functions():
    plain = {m.plain for m in MARKED if isinstance(m, Dual)}
    choices = [m for m in OURS if isinstance(m, Choice)]
    chosen = [function for m in choices for function in m.table.values()]
    # functions of kernels are compiled only, so that nothing has to tell their two forms apart
    assert chosen and all(f in plain or f.__module__.startswith("nbo.kernels.") for f in chosen)


def draws(streams, role, first, out, coins):
    """Fill rows with draws of one role, bits, and coins."""
    for i in range(out.shape[0]):
        batch = draw(streams, role, first + i)
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = batch.lo, batch.hi, batch.rest, batch.block
        bits = mix(streams.table[role, 0], first + i)
        out[i, 4], out[i, 5] = below(bits, 1000), below(mix(bits, i), 17)
        coins[i, 0], coins[i, 1], coins[i, 2] = batch.scale, unit(bits), coin(streams, first + i)


def permute(key, order):
    reorder(mix(key, 3), order)


@needs_compiler
@pytest.mark.parametrize("kind", [EPOCH, WINDOW], ids=["epoch", "window"])
def test_draws_are_the_same_plain_and_compiled(kind):
    roles = [Stream("upper" if r == B3 else "lower", 23 + r, 4 + r) for r in range(INNER + 2)]
    for seed in (0, 2**64 - 1, 2**63 + 12345):
        for role in (B1, B3, INNER + 1):
            results = []
            for run in (draws, None):
                streams = make_streams(kind, seed, roles, wraps=True)
                arguments = streams, role, 1000, np.zeros((60, 6), dtype=np.int64), np.zeros((60, 3))
                (run or compiled(draws, tuple(map(type_of, arguments))))(*arguments)
                results.append(arguments[3:])
            for plain, jitted in zip(*results, strict=True):
                np.testing.assert_array_equal(plain, jitted)


@needs_compiler
def test_permutations_are_the_same_plain_and_compiled():
    for key in (0, 2**62 + 99):
        plain, jitted = np.zeros(50, dtype=np.int64), np.zeros(50, dtype=np.int64)
        permute(key, plain)
        compiled(permute, (type_of(key), type_of(jitted)))(key, jitted)
        np.testing.assert_array_equal(plain, jitted)
