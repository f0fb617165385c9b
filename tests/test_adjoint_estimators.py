"""Estimates of u on Hessians of batches: their limits, rates and means."""

import numpy as np
import pytest
from reference_problems import SampledQuadratic

import nbo
from nbo.adjoint_estimators import (
    NeumannDraw,
    NeumannSum,
    WarmSteps,
    adjoint,
    hypergradient_at,
    hypergradient_memory,
    most_products,
)
from nbo.coordinates import Dense, Room
from nbo.minibatches import Kernels, Oracles
from nbo.oracles import KINDS
from nbo.plain_oracles import PlainOracles
from nbo.sampling import B1, EPOCH, Stream, coin, make_streams

PROBLEM = SampledQuadratic()
H, B = PROBLEM.H.mean(0), PROBLEM.B.mean(0)
ETA = 1 / np.linalg.eigvalsh(H)[-1]
X, Y = np.array([0.3, -0.2, 0.7]), np.array([0.5, -1.0, 0.4, 0.1])
GRAD_2 = PROBLEM.upper_grad(X, Y)[1]


def oracles(size="full", seed=3):
    n, n_upper = PROBLEM.n_samples_lower, PROBLEM.n_samples_upper
    roles = [Stream("lower", n, n if size == "full" else size) for _ in range(4)]
    roles[2] = Stream("upper", n_upper, n_upper)
    backend = PlainOracles(PROBLEM)
    streams = make_streams(EPOCH, seed, [*roles, Stream("none", 1, 1, 0)], wraps=True)
    counts = np.zeros((2, len(KINDS)), dtype=np.int64)
    return Oracles(backend.kernels(Kernels._fields), backend.data(seed), streams, counts, Dense())


def estimate(kind, n_steps, *, k=0, u=None, o=None):
    """u, the residual, and the calls."""
    o = o or oracles()
    memory = hypergradient_memory(kind, Room(3, 3), 4, np.float64)
    u, residual = np.zeros(4) if u is None else u.copy(), np.zeros(4)
    adjoint(memory.estimator, o, k, X, Y, u, GRAD_2, residual, ETA, n_steps)
    return u, residual, dict(zip(KINDS, o.counts[0], strict=True))


def partial_sum(n_terms):
    return sum(ETA * np.linalg.matrix_power(np.eye(4) - ETA * H, q) @ GRAD_2 for q in range(n_terms))


@pytest.mark.parametrize("n_steps", [1, 2, 7])
def test_the_neumann_sum_has_all_its_terms_and_all_are_scaled(n_steps):
    """Public code scales the last term alone, and leaves out the first."""
    u, residual, counts = estimate(NeumannSum, n_steps)
    np.testing.assert_allclose(u, partial_sum(n_steps + 1), rtol=0, atol=1e-14)
    np.testing.assert_allclose(residual, H @ partial_sum(n_steps) - GRAD_2, rtol=0, atol=1e-13)  # before the last term
    assert counts["lower_hvp"] == n_steps == most_products(NeumannSum, n_steps)


def test_the_neumann_sum_tends_to_the_solution_at_the_geometric_rate():
    exact = np.linalg.solve(H, GRAD_2)
    rate = 1 - ETA * np.linalg.eigvalsh(H)[0]
    errors = [np.linalg.norm(estimate(NeumannSum, n)[0] - exact) for n in range(12, 25, 4)]
    np.testing.assert_allclose(np.divide(errors[1:], errors[:-1]), rate**4, rtol=1e-2)
    for n in (1, 10, 50):
        assert np.linalg.norm(estimate(NeumannSum, n)[0] - exact) <= rate ** (n + 1) * np.linalg.norm(exact)


def test_the_hypergradient_of_a_long_sum_is_exact():
    y, u, exact = PROBLEM.exact(X)
    memory = hypergradient_memory(NeumannSum, Room(3, 3), 4, np.float64)
    found, at, residual = np.zeros(3), np.zeros(4), np.zeros(4)
    hypergradient_at(memory, oracles(), 0, X, y, at, residual, ETA, 2000, found)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-10)
    np.testing.assert_allclose(at, u, rtol=0, atol=1e-10)


@pytest.mark.parametrize("n_steps", [1, 2, 6])
def test_the_mean_of_a_random_truncation_is_the_truncated_sum(n_steps):
    """Exactly over its equally likely lengths, and the lengths are equally likely."""
    o = oracles()
    by_length = {}
    for k in range(2000):
        length = int(coin(o.streams, k) * n_steps)
        u, _, counts = estimate(NeumannDraw, n_steps, k=k) if length not in by_length else by_length[length]
        by_length[length] = u, _, counts
        assert counts["lower_hvp"] == length
    assert sorted(by_length) == list(range(n_steps)) and most_products(NeumannDraw, n_steps) == n_steps - 1
    mean = np.mean([u for u, *_ in by_length.values()], axis=0)
    np.testing.assert_allclose(mean, partial_sum(n_steps), rtol=0, atol=1e-13)
    lengths = np.bincount([int(coin(o.streams, k) * n_steps) for k in range(6000)], minlength=n_steps)
    assert np.abs(lengths - 6000 / n_steps).max() < 5 * np.sqrt(6000 / n_steps)


def test_one_drawn_term_is_the_product_of_its_factors():
    o = oracles()
    k = next(k for k in range(100) if int(coin(o.streams, k) * 6) == 4)
    u, _, _ = estimate(NeumannDraw, 6, k=k)
    np.testing.assert_allclose(u, 6 * ETA * np.linalg.matrix_power(np.eye(4) - ETA * H, 4) @ GRAD_2, rtol=0, atol=1e-13)


def test_warm_steps_start_from_the_last_estimate():
    start = np.array([1.0, -1.0, 0.5, 2.0])
    u, residual, counts = estimate(WarmSteps, 5, u=start)
    for _ in range(5):
        last = H @ start - GRAD_2
        start = start - ETA * last
    np.testing.assert_allclose(u, start, rtol=0, atol=1e-14)
    np.testing.assert_allclose(residual, last, rtol=0, atol=1e-14)
    assert counts["lower_hvp"] == 5


@pytest.mark.parametrize("kind", [WarmSteps, NeumannSum, NeumannDraw])
def test_every_product_has_a_fresh_batch(kind):
    """Consecutive estimates go on in the same stream, whose epochs hold each block once."""
    drawn = []

    class Noting(PlainOracles):
        def _lower_hvp(self, data, lo, hi, scale, x, y, V, out):
            drawn.append(lo)
            super()._lower_hvp(data, lo, hi, scale, x, y, V, out)

    o = oracles(size=4)
    o = o._replace(kernels=Noting(PROBLEM).kernels(Kernels._fields))
    blocks = int(o.streams.table[B1, 3])
    if kind is NeumannDraw:
        estimate(kind, 60, k=0, o=o)
        drawn = drawn[: blocks * (len(drawn) // blocks)]
    else:
        for k in range(blocks):
            estimate(kind, 2, k=k, o=o)
    assert len(drawn) >= blocks
    for start in range(0, len(drawn), blocks):
        assert len(set(drawn[start : start + blocks])) == blocks
    assert nbo.OracleCounts(*o.counts[1]).lower_hvp >= len(drawn)
