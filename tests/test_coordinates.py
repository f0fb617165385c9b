"""Where J u and D_x lie: a vector, one scattered from entries, or entries alone, which all mean the same."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_problems import ByBatches

import nbo
from nbo.coordinates import (
    Dense,
    Entries,
    Room,
    Scattered,
    coordinates_for,
    dense_direction,
    hypergradient_from,
    keep_jvp,
    move_along,
    room_for_jvp,
    start_jvp,
)
from nbo.feasible_sets import Box

M = 6


class Sized:
    """What `coordinates_for` looks at."""

    def __init__(self, **declared):
        self.dim_x = M
        for name, value in declared.items():
            setattr(self, name, value)


@pytest.mark.parametrize(
    ("declared", "sparse", "kind", "room"),
    [
        ({}, True, Dense, Room(M, M)),
        ({"upper_uses_x": False}, True, Dense, Room(M, 0)),
        ({"x_per_sample": False, "upper_uses_x": True}, False, Dense, Room(M, M)),
        ({"x_per_sample": True, "upper_uses_x": False}, True, Entries, Room(4, 0)),
        ({"x_per_sample": True, "upper_uses_x": False}, False, Scattered, Room(M, 0)),
        ({"x_per_sample": True}, True, Scattered, Room(M, M)),
        ({"x_per_sample": True, "upper_uses_x": True}, False, Scattered, Room(M, M)),
    ],
)
def test_what_a_method_works_with(declared, sparse, kind, room):
    coordinates, found = coordinates_for(Sized(**declared), M, 4, sparse)
    assert type(coordinates) is kind and found == room
    if kind is Entries:
        assert coordinates.rows.shape == (4,) and coordinates.size.tolist() == [0]
    if kind is Scattered:
        assert coordinates.entries.shape == (M,)


def put(coordinates, out, stored, ranges, values):
    """Do what loops do for one batch: kernels add to the room of each range of stored rows."""
    start_jvp(coordinates, out)
    done = 0
    for lo, hi in ranges:
        last = done + hi - lo
        room = room_for_jvp(coordinates, out, done, last)
        assert room.shape == (hi - lo,) and not room.any()
        room += values[lo:hi]
        keep_jvp(coordinates, out, stored, lo, done, last)
        done = last


BATCHES = st.tuples(st.permutations(range(M)), st.integers(0, M - 1), st.integers(1, M), st.integers(0, 99))


def ranges_of(start, size):
    """A window from `start` on, past the end from the beginning."""
    end = min(start + size, M)
    rest = start + size - end
    return [(start, end), *([(0, rest)] if rest else [])]


@given(st.lists(BATCHES, min_size=1, max_size=4), st.booleans())
def test_entries_and_scattered_ones_are_the_same_vector(batches, twice):
    """Batch after batch, with what the one before left behind; samples may be drawn twice."""
    entries, scattered = Entries(np.full(M, 99), np.zeros(1, np.int64)), Scattered(np.full(M, 7.0))
    sparse, dense = np.full(M, 5.0), np.full(M, 5.0)
    for order, start, size, seed in batches:
        stored = np.array(order) // 2 if twice else np.array(order)
        values = np.random.default_rng(seed).standard_normal(M)
        ranges = ranges_of(start, size)
        for coordinates, out in ((entries, sparse), (scattered, dense)):
            put(coordinates, out, stored, ranges, values)
        expected = np.zeros(M)
        for lo, hi in ranges:
            np.add.at(expected, stored[lo:hi], values[lo:hi])
        np.testing.assert_allclose(dense, expected, rtol=0, atol=1e-14)
        np.testing.assert_allclose(dense_direction(entries, sparse, M), expected, rtol=0, atol=1e-14)
        assert entries.size[0] == size
        bounds = Box(np.full(M, -0.4), np.full(M, 0.3))
        x = np.linspace(-0.4, 0.3, M)
        moved = [x.copy(), x.copy()]
        move_along(entries, moved[0], 0.5, sparse, bounds)
        move_along(scattered, moved[1], 0.5, dense, bounds)
        np.testing.assert_allclose(moved[0], np.clip(x - 0.5 * expected, -0.4, 0.3), rtol=0, atol=1e-14)
        np.testing.assert_allclose(moved[1], moved[0], rtol=0, atol=1e-14)


def test_a_dense_direction_is_a_copy():
    d_x = np.arange(3.0)
    for coordinates in (Dense(), Scattered(np.zeros(3))):
        found = dense_direction(coordinates, d_x, 3)
        assert found is not d_x and not np.shares_memory(found, d_x)
        np.testing.assert_array_equal(found, d_x)


def test_kernels_add_to_vectors_as_they_are():
    out = np.ones(3)
    start_jvp(Dense(), out)
    assert not out.any()
    room = room_for_jvp(Dense(), out, 2, 9)
    assert room is out
    keep_jvp(Dense(), out, np.arange(9), 0, 2, 9)
    assert not out.any()


def test_the_hypergradient_where_f_does_not_depend_on_x():
    jvp, found = np.array([1.0, -2.0]), np.empty(2)
    hypergradient_from(found, np.array([0.5, 0.5]), jvp)
    np.testing.assert_array_equal(found, [-0.5, 2.5])
    hypergradient_from(found, np.empty(0), jvp)
    np.testing.assert_array_equal(found, [-1.0, 2.0])


# A problem as a user writes one: g = mean e^{x_i}/2 (a_i'y - b_i)^2 + 0.15 |y|^2, and f with or without x.


def lower_value(data, lo, hi, scale, x, y, out):
    A, b, row = data.lower
    for i in range(lo, hi):
        out[0] += scale * (np.exp(x[row[i]]) * (np.dot(A[i], y) - b[i]) ** 2 / 2 + 0.15 * np.dot(y, y))


def lower_grad_y(data, lo, hi, scale, x, y, out):
    A, b, row = data.lower
    for i in range(lo, hi):
        slope = np.exp(x[row[i]]) * (np.dot(A[i], y) - b[i])
        for j in range(y.shape[0]):
            out[j] += scale * (slope * A[i, j] + 0.3 * y[j])


def lower_hvp(data, lo, hi, scale, x, y, V, out):
    A, _, row = data.lower
    for k in range(V.shape[0]):
        for i in range(lo, hi):
            slope = np.exp(x[row[i]]) * np.dot(A[i], V[k])
            for j in range(y.shape[0]):
                out[k, j] += scale * (slope * A[i, j] + 0.3 * V[k, j])


def lower_grad_y_and_hvp(data, lo, hi, scale, x, y, u, out):
    A, b, row = data.lower
    for i in range(lo, hi):
        factor = np.exp(x[row[i]])
        slope, product = factor * (np.dot(A[i], y) - b[i]), factor * np.dot(A[i], u)
        for j in range(y.shape[0]):
            out[0, j] += scale * (slope * A[i, j] + 0.3 * y[j])
            out[1, j] += scale * (product * A[i, j] + 0.3 * u[j])


def lower_jvp(data, lo, hi, scale, x, y, u, out):
    A, b, row = data.lower
    for i in range(lo, hi):
        out[i - lo] += scale * np.exp(x[row[i]]) * (np.dot(A[i], y) - b[i]) * np.dot(A[i], u)


def lower_parts(data, lo, hi, scale, x, y, u, out_pair, out_samples):
    A, b, row = data.lower
    for i in range(lo, hi):
        factor, residual, along = np.exp(x[row[i]]), np.dot(A[i], y) - b[i], np.dot(A[i], u)
        for j in range(y.shape[0]):
            out_pair[0, j] += scale * (factor * residual * A[i, j] + 0.3 * y[j])
            out_pair[1, j] += scale * (factor * along * A[i, j] + 0.3 * u[j])
        out_samples[i - lo] += scale * factor * residual * along


def upper_value(data, lo, hi, scale, x, y, out):
    A, b, _ = data.upper
    for i in range(lo, hi):
        out[0] += scale * ((np.dot(A[i], y) - b[i]) ** 2 / 2 + data.common[0] / 2 * np.dot(x, x))


def upper_grad(data, lo, hi, scale, x, y, out_x, out_y):
    A, b, _ = data.upper
    for i in range(lo, hi):
        slope = np.dot(A[i], y) - b[i]
        for j in range(y.shape[0]):
            out_y[j] += scale * slope * A[i, j]
    if data.common[0] > 0:
        for j in range(x.shape[0]):
            out_x[j] += scale * (hi - lo) * data.common[0] * x[j]


KERNELS = {
    function.__name__: function
    for function in (
        lower_value, lower_grad_y, lower_hvp, lower_grad_y_and_hvp, lower_jvp, lower_parts, upper_value, upper_grad
    )
}  # fmt: skip


def data():
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape) for shape in ((23, 3), 23, (17, 3), 17)]


def trusting(weight=0.0, **changes):
    """The problem, with weight/2 |x|^2 in f."""
    A, b, A_val, b_val = data()
    arguments = {
        "lower": (A, b), "upper": (A_val, b_val), "kernels": KERNELS, "dim_x": 23, "dim_y": 3,
        "common": (float(weight),), "x_per_sample": True, "upper_uses_x": weight > 0,
    }  # fmt: skip
    return nbo.CompiledProblem(**arguments | changes)


class PlainTrusting(nbo.FiniteSumProblem):
    """The same in NumPy, where x is a vector like any other."""

    dim_x, dim_y, n_samples_lower, n_samples_upper = 23, 3, 23, 17

    def __init__(self, weight=0.0):
        self.A, self.b, self.A_val, self.b_val = data()
        self.weight = weight

    def _lower(self, x, y, batch):
        batch = np.arange(23) if batch is None else batch
        A = self.A[batch]
        return batch, A, np.exp(x[batch]), A @ y - self.b[batch]

    def lower_value(self, x, y, batch=None):
        _, _, factors, residuals = self._lower(x, y, batch)
        return float(np.mean(factors * residuals**2) / 2 + 0.15 * y @ y)

    def lower_grad_y(self, x, y, batch=None):
        _, A, factors, residuals = self._lower(x, y, batch)
        return A.T @ (factors * residuals) / len(A) + 0.3 * y

    def lower_hvp(self, x, y, v, batch=None):
        _, A, factors, _ = self._lower(x, y, batch)
        return A.T @ (factors * (A @ v)) / len(A) + 0.3 * v

    def lower_jvp(self, x, y, u, batch=None):
        rows, A, factors, residuals = self._lower(x, y, batch)
        out = np.zeros(23)
        np.add.at(out, rows, factors * residuals * (A @ u) / len(A))
        return out

    def upper_value(self, x, y, batch=None):
        batch = slice(None) if batch is None else batch
        return float(np.mean((self.A_val[batch] @ y - self.b_val[batch]) ** 2) / 2 + self.weight / 2 * x @ x)

    def upper_grad(self, x, y, batch=None):
        batch = slice(None) if batch is None else batch
        A = self.A_val[batch]
        return self.weight * x, A.T @ (A @ y - self.b_val[batch]) / len(A)


X, Y = np.linspace(-1, 1, 23), np.array([0.5, -1.0, 2.0])


@pytest.mark.slow
def test_a_problem_of_the_users_checks_out():
    for problem in (trusting(0.4), PlainTrusting(0.4), PlainTrusting()):
        report = nbo.check_problem(problem, X, Y)
        assert report, report


@pytest.mark.slow
@pytest.mark.parametrize(("method", "weight"), [("soba", 0.0), ("saba", 0.4)])
def test_a_problem_of_the_users_runs_as_its_plain_one(method, weight):
    """With entries alone, and with a vector that f adds to."""
    options = {"step_size": 0.5, "inner_step_size": 0.1, "batch_size": 5, "share_batches": True}
    problem = trusting(weight)
    for sampler in ["epoch"] if method == "saba" else ["epoch", "window", "iid"]:
        runs = [
            nbo.minimize(p, X, method=method, max_iter=25, random_state=1, options=options | {"sampler": sampler})
            for p in (problem, ByBatches(problem), PlainTrusting(weight))
        ]
        for other in runs[1:]:
            for part in "xyu":
                np.testing.assert_allclose(other[part], runs[0][part], rtol=0, atol=1e-12)
            assert (other.counts, other.samples) == (runs[0].counts, runs[0].samples)
        assert np.abs(runs[0].x - X).max() > 1e-2


def test_oracles_over_batches_lie_in_the_space_of_x():
    problem, plain = trusting(), PlainTrusting()
    for batch in (None, slice(3, 9), np.array([4, 4, 0])):
        np.testing.assert_allclose(problem.lower_jvp(X, Y, Y, batch=batch), plain.lower_jvp(X, Y, Y, batch), atol=1e-15)


def test_x_has_an_entry_for_each_lower_sample_or_none():
    with pytest.raises(ValueError, match="dim_x: found 22; expected 23, the number of lower samples, with x_per_s"):
        trusting(dim_x=22)
    for name in ("x_per_sample", "upper_uses_x"):
        with pytest.raises(TypeError, match=f"{name}: found"):
            trusting(**{name: "yes"})


def by_stored_row(data, lo, hi, scale, x, y, u, out):
    """Wrong: an entry for each stored row, though `out` starts with the row lo."""
    A, b, row = data.lower
    for i in range(lo, hi):
        out[i] += scale * np.exp(x[row[i]]) * (np.dot(A[i], y) - b[i]) * np.dot(A[i], u)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kernels": KERNELS | {"lower_jvp": by_stored_row}}, r"kernels\['lower_jvp'\]: IndexError"),
        ({"common": (0.4,), "upper_uses_x": False}, "grad_1 f is not zero; expected upper_uses_x=True"),
    ],
)
def test_what_would_write_outside_of_arrays_is_found_before_it_does(changes, message):
    report = nbo.check_problem(trusting(**changes), X, Y)
    assert not report
    assert re.search(message, str(report))
