"""Updates of vectors in place: the array expressions and the loops do the same."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nbo import _updates
from nbo._dual import MARKED, Dual
from nbo.feasible_sets import Box

#: What each function changes and reads (vectors by name, numbers by a value), in the order of its parameters.
ARGUMENTS = {
    "clear": ("vector",),
    "copy": ("vector", "vector"),
    "add_scaled": ("vector", -0.3, "vector"),
    "add_scaled_change": ("vector", -0.3, "vector", "vector"),
    "scale": ("vector", 1.7, "vector"),
    "subtract": ("vector", "vector", "vector"),
    "blend": ("vector", 0.9, "vector"),
    "correct": ("vector", 0.9, "vector", "vector"),
    "replace": ("vector", "vector", "double", 7),
    "move": ("double", 0.3, "double", "bounds"),
    "add_at": ("double", "places", 0, 3, "double"),
    "replace_at": ("double", "vector", "double", 7, "own places", 0, 1, "double"),
    "move_at": ("double", 0.3, "double", "places", 3, "bounds"),
}
LOOPS = {
    m.plain.__name__: m.compiled for m in MARKED if isinstance(m, Dual) and m.plain.__module__ == _updates.__name__
}


def test_all_functions_of_the_module_are_here():
    functions = {
        k for k, v in vars(_updates).items() if inspect.isfunction(v) and not k.startswith("_") and k != "dual"
    }
    assert functions == set(LOOPS) == set(ARGUMENTS)
    assert all(loop is not getattr(_updates, name) for name, loop in LOOPS.items())


def arguments_of(name, dtype, rng, n):
    """Random arguments; the pair of bounds stands for a box."""
    made = {
        "vector": lambda: rng.standard_normal(n).astype(dtype),
        "double": lambda: rng.standard_normal(n),
        "bounds": lambda: (np.full(n, -0.5), np.linspace(0.1, 1, n)),
        "places": lambda: rng.integers(n, size=max(n, 3)),  # some twice
        "own places": lambda: rng.permutation(n),
    }
    return [made[kind]() if isinstance(kind, str) else kind for kind in ARGUMENTS[name]]


def copies(arguments):
    return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]


def plain(name, arguments):
    """Run the array expressions, for which a feasible set is a function."""
    done = copies(arguments)
    getattr(_updates, name)(*(Box(*a) if isinstance(a, tuple) else a for a in done))
    return [a for a in done if isinstance(a, np.ndarray)]


def looped(loop, arguments):
    done = copies(arguments)
    loop(*done)
    return [a for a in done if isinstance(a, np.ndarray)]


def assert_same(found, expected, dtype):
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=0, atol=16 * float(np.finfo(dtype).eps))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ARGUMENTS)
@given(st.integers(3, 9), st.integers(0, 2**32 - 1))
def test_expressions_and_loops_agree(name, dtype, n, seed):
    arguments = arguments_of(name, dtype, np.random.default_rng(seed), n)
    assert_same(looped(LOOPS[name], arguments), plain(name, arguments), dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_expressions_and_compiled_loops_agree(name, dtype):
    from nbo.kernels.engine import array, compiled
    from nbo.kernels.loops import type_of

    rng = np.random.default_rng(3)
    arguments = arguments_of(name, dtype, rng, 33)
    loop = compiled(LOOPS[name], tuple(map(type_of, arguments)))
    assert type_of(arguments[0]) == array(arguments[0].dtype, 1, writable=True)
    for _ in range(5):
        arguments = arguments_of(name, dtype, rng, 33)
        assert_same(looped(loop, arguments), plain(name, arguments), dtype)


VECTORS = hnp.arrays(np.float64, 4, elements=st.floats(-1e3, 1e3))


@given(VECTORS, VECTORS, VECTORS, st.floats(0, 1))
def test_what_the_expressions_say(target, a, b, weight):
    """Each formula as its docstring states it."""
    expected = {
        "copy": (a, (a,)),
        "add_scaled": (target + weight * a, (weight, a)),
        "add_scaled_change": (target + weight * (a - b), (weight, a, b)),
        "scale": (weight * a, (weight, a)),
        "subtract": (a - b, (a, b)),
        "blend": (weight * target + (1 - weight) * a, (weight, a)),
        "correct": (a + weight * (target - b), (weight, a, b)),
        "move": (np.clip(target - weight * a, -1, 2), (weight, a, (np.full(4, -1.0), np.full(4, 2.0)))),
    }
    for name, (wanted, rest) in expected.items():
        np.testing.assert_allclose(plain(name, (target, *rest))[0], wanted, rtol=0, atol=1e-9, err_msg=name)
    estimate, row, mean = plain("replace", (target, a, b, 5))
    np.testing.assert_array_equal(row, target)
    np.testing.assert_allclose(estimate, target - a + b, rtol=0, atol=1e-9)
    np.testing.assert_allclose(mean, b + (target - a) / 5, rtol=0, atol=1e-9)


PLACES = st.lists(st.integers(0, 3), max_size=6).map(np.array).map(lambda places: places.astype(np.int64))


@given(VECTORS, PLACES, st.integers(0, 5), st.floats(0, 1), st.integers(0, 99))
def test_what_is_done_at_some_places_is_done_to_a_vector_with_zeros_elsewhere(x, places, lo, step, seed):
    """Places that occur twice count twice; the bounds apply once, at the end, and to no other place."""
    lo = min(lo, len(places))
    entries = np.random.default_rng(seed).standard_normal(len(places))
    dense, part = np.zeros(4), np.zeros(4)
    np.add.at(dense, places, entries)
    np.add.at(part, places[lo:], entries[: len(places) - lo])
    bounds = np.full(4, -0.5), np.full(4, 0.5)
    touched = np.isin(np.arange(4), places)
    for run in (plain, lambda name, arguments: looped(LOOPS[name], arguments)):
        added = run("add_at", (x, places, lo, len(places), entries))[0]
        np.testing.assert_allclose(added, x + part, rtol=0, atol=1e-12)
        moved = run("move_at", (x, step, entries, places, len(places), bounds))[0]
        np.testing.assert_allclose(moved[touched], np.clip(x - step * dense, *bounds)[touched], rtol=0, atol=1e-12)
        np.testing.assert_array_equal(moved[~touched], x[~touched])
        first = run("move_at", (x, step, np.append(entries, 9.0), np.append(places, 0), len(places), bounds))[0]
        np.testing.assert_array_equal(first, moved)  # what lies beyond the count is room


@given(VECTORS, VECTORS, st.permutations(range(4)), st.integers(0, 3), st.integers(0, 4), st.integers(1, 9))
def test_a_row_of_entries_is_replaced_as_a_whole_row_is(new, mean, places, lo, count, n_rows):
    """`replace` on rows with zeros outside of the places: the same estimate and the same mean."""
    rows, hi = np.array(places), min(lo + count, 4)
    kept = np.linspace(-3, 3, 4)
    old_row, new_row = np.zeros(4), np.zeros(4)
    old_row[rows[lo:hi]], new_row[rows[lo:hi]] = kept[lo:hi], new[: hi - lo]
    expected = plain("replace", (new_row, old_row, mean, n_rows))
    for run in (plain, lambda name, arguments: looped(LOOPS[name], arguments)):
        estimate, row, found, *_ = run("replace_at", (np.full(4, 7.0), kept, mean, n_rows, rows, lo, hi, new))
        np.testing.assert_allclose(estimate, expected[0], rtol=0, atol=1e-9)
        np.testing.assert_allclose(found, expected[2], rtol=0, atol=1e-9)
        np.testing.assert_array_equal(row[lo:hi], new[: hi - lo])
        np.testing.assert_array_equal(np.delete(row, range(lo, hi)), np.delete(kept, range(lo, hi)))


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_weights_at_the_ends_are_exact(weight):
    """Whatever the size of the past, with the weight 0 nothing of it is left."""
    target, a, b = np.array([1e16, 0.1]), np.array([0.1, 0.2]), np.array([1e16, 0.1])
    for run in (lambda name, *args: plain(name, args), lambda name, *args: looped(LOOPS[name], args)):
        correct = run("correct", target, weight, a, b)[0]
        np.testing.assert_array_equal(correct, a)  # the two estimates at the old point cancel
        if weight == 0:
            np.testing.assert_array_equal(run("blend", target, 0.0, a)[0], a)


def test_the_mean_follows_what_a_row_of_less_precision_holds():
    """A float64 estimate in a float32 row: the mean moves by what was stored."""
    exact = np.array([0.1, 1 / 3])
    for run in (lambda *args: plain("replace", args), lambda *args: looped(LOOPS["replace"], args)):
        estimate, row, mean = run(exact, np.zeros(2, np.float32), np.zeros(2), 1)
        np.testing.assert_array_equal(row, exact.astype(np.float32))
        np.testing.assert_array_equal(mean, row.astype(np.float64))
        np.testing.assert_array_equal(estimate, row.astype(np.float64))


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf])
def test_moves_at_places_keep_what_is_not_finite(entry):
    x, bounds = np.array([0.0, 5.0, 0.0]), (np.full(3, -1.0), np.full(3, 2.0))
    arguments = (x, 1.0, np.array([entry, 0.0]), np.array([2, 1]), 2, bounds)
    for moved in (plain("move_at", arguments), looped(LOOPS["move_at"], arguments)):
        np.testing.assert_array_equal(moved[0], [0.0, 2.0, np.nan])


def test_moves_keep_a_nan():
    """A clip that turned it into a bound would hide that a run has diverged."""
    x, bounds = np.array([np.nan, 5.0, -5.0]), (np.full(3, -1.0), np.full(3, 2.0))
    for moved in (plain("move", (x, 0.5, np.zeros(3), bounds)), looped(LOOPS["move"], (x, 0.5, np.zeros(3), bounds))):
        np.testing.assert_array_equal(moved[0], [np.nan, 2.0, -1.0])


@pytest.mark.parametrize("infinite", [np.inf, -np.inf])
def test_moves_show_an_infinite_direction(infinite):
    x, d, bounds = np.zeros(3), np.array([infinite, 1e308, 0.0]), (np.full(3, -1.0), np.full(3, 2.0))
    with np.errstate(over="ignore"):
        found = plain("move", (x, 10.0, d, bounds)), looped(LOOPS["move"], (x, 10.0, d, bounds))
    for moved in found:
        np.testing.assert_array_equal(moved[0], [np.nan, np.nan, 0.0])


@pytest.mark.parametrize("name", [name for name in ARGUMENTS if "replace" not in name])
def test_only_the_first_argument_changes(name):
    arguments = arguments_of(name, np.float64, np.random.default_rng(0), 5)
    for done in (plain(name, arguments), looped(LOOPS[name], arguments)):
        vectors = [a for a in arguments if isinstance(a, np.ndarray)]
        assert not np.array_equal(done[0], vectors[0])
        for after, before in zip(done[1:], vectors[1:], strict=True):
            np.testing.assert_array_equal(after, before)
