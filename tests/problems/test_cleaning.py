"""HyperCleaning: its formulas, and minibatch runs that touch no more of x than their batches."""

from __future__ import annotations

import numpy as np
import pytest
from reference_problems import N_VAL, STOCHASTIC, ByBatches, LinearCase, N
from scipy.special import expit, logsumexp, softmax

import nbo
from nbo.coordinates import Entries, Scattered, coordinates_for
from nbo.solvers import REGISTRY

CASE = LinearCase("cleaning")
A, B, A_VAL, B_VAL = CASE.data
START = np.random.default_rng(5).standard_normal(N)
RUNS = {"step_size": 20.0, "inner_step_size": 0.1, "batch_size": 7}


def cleaning(**options):
    return nbo.problems.HyperCleaning(A, B, A_VAL, B_VAL, **{"ridge": 0.15} | options)


def run(problem, method, x0=START, max_iter=17, **options):
    return nbo.minimize(problem, x0, method=method, max_iter=max_iter, random_state=3, options=RUNS | options)


def test_the_ridge_is_not_halved():
    """g = mean sigma(x_i) loss_i + ridge |W|^2, without the intercepts."""
    x, y, _ = CASE.point()
    W = y.reshape(3, -1)
    M = A @ W.T
    losses = logsumexp(M, axis=1) - M[np.arange(N), B]
    for ridge in (0.15, 2.0):
        expected = np.mean(expit(x) * losses) + ridge * np.sum(W**2)
        assert cleaning(ridge=ridge).lower_value(x, y) == pytest.approx(expected, rel=1e-13)
    offsets = np.array([0.4, -0.1, 0.2])
    with_intercept = cleaning(fit_intercept=True)
    M = M + offsets
    losses = logsumexp(M, axis=1) - M[np.arange(N), B]
    expected = np.mean(expit(x) * losses) + 0.15 * np.sum(W**2) + np.sum(offsets) ** 2 / 2
    found = with_intercept.lower_value(x, np.hstack([W, offsets[:, None]]).ravel())
    assert found == pytest.approx(expected, rel=1e-13)
    assert nbo.problems.HyperCleaning(A, B, A_VAL, B_VAL).ridge == 0.2


def test_entries_of_the_mixed_derivative():
    """Entry i of J u is sigma'(x_i)/n times the derivative of the loss of row i along u."""
    x, y, u = CASE.point()
    M, U = A @ y.reshape(3, -1).T, A @ u.reshape(3, -1).T
    along = (softmax(M, axis=1) * U).sum(axis=1) - U[np.arange(N), B]
    expected = expit(x) * expit(-x) * along / N
    np.testing.assert_allclose(CASE.problem.lower_jvp(x, y, u), expected, rtol=0, atol=1e-15)
    batch = np.array([4, 4, 31])
    part = np.zeros(N)
    part[4], part[31] = 2 * expected[4] * N / 3, expected[31] * N / 3
    np.testing.assert_allclose(CASE.problem.lower_jvp(x, y, u, batch=batch), part, rtol=0, atol=1e-15)
    assert not CASE.problem.upper_grad(x, y)[0].any() and not CASE.problem.upper_uses_x


def test_dimensions_and_bounds():
    problem = cleaning()
    assert (problem.dim_x, problem.dim_y, problem.x_per_sample) == (N, 12, True)
    assert np.isinf(problem.bounds).all()
    np.testing.assert_array_equal(cleaning(bounds=(-3, 4)).bounds, [[-3.0] * N, [4.0] * N])


SPARSE = {"soba", "nsbo-sgd", "amigo-sgd", "stocbio", "alset", "bsa", "ttsa", "f2sa"}


@pytest.mark.parametrize("method", STOCHASTIC)
def test_where_the_numbers_of_x_lie(method):
    """Methods that keep nothing in the space of x work with entries for a batch."""
    solver = REGISTRY[method](step_size=0.1)
    found, room = coordinates_for(CASE.problem, N, 7, solver.touches_batches_only())
    assert isinstance(found, Entries if method in SPARSE else Scattered)
    assert room == ((7, 0) if method in SPARSE else (N, 0))


class Noting(ByBatches):
    """Notes which samples J u and grad_1 g were asked for."""

    def __init__(self, problem):
        super().__init__(problem)
        self.seen = set()

    def _note(self, batch):
        self.seen |= set(np.arange(N)[slice(None) if batch is None else batch].tolist())

    def lower_jvp(self, x, y, u, batch=None):
        self._note(batch)
        return super().lower_jvp(x, y, u, batch)

    def lower_grad_x(self, x, y, batch=None):
        self._note(batch)
        return super().lower_grad_x(x, y, batch)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["epoch", "window", "iid"])
@pytest.mark.parametrize(
    ("method", "share"), [("soba", False), ("soba", True), ("nsbo-sgd", False), ("amigo-sgd", None), ("f2sa", True)]
)
def test_a_run_touches_the_entries_of_its_batches_alone(method, sampler, share):
    options = {"sampler": sampler} | ({} if share is None else {"share_batches": share})
    noting = Noting(cleaning())
    run(noting, method, max_iter=3, **options)
    touched = np.isin(np.arange(N), list(noting.seen))
    assert 7 <= touched.sum() <= 21
    found = run(cleaning(), method, max_iter=3, **options).x
    np.testing.assert_array_equal(found[~touched], START[~touched])
    assert (found[touched] != START[touched]).sum() >= 7  # all but those of a first batch, where u is zero


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", ["saba", "nsbo-storm", "nsbo-page", "soba", "nsbo-sgd", "amigo-sgd", "stocbio", "mrbo", "f2sa"]
)
def test_compiled_loops_equal_plain_ones(method):
    """Past bounds and with samples that are drawn twice; counts and samples are the same."""
    for sampler in ["epoch"] if method == "saba" else ["epoch", "window", "iid"]:
        case = LinearCase("cleaning", intercept=True, weighted=True)
        problems = case.problem, ByBatches(case.problem), case.plain
        for problem in problems:
            problem.bounds = (-1.2, np.linspace(0, 2, N))
        start = np.clip(START, *problems[0].bounds)
        runs = [run(p, method, start, sampler=sampler, batch_size=13) for p in problems]
        for other in runs[1:]:
            for part in ("x", "y", "u"):
                np.testing.assert_allclose(other[part], runs[0][part], rtol=0, atol=1e-11, err_msg=f"{sampler} {part}")
            assert (other.counts, other.samples) == (runs[0].counts, runs[0].samples)
            np.testing.assert_allclose(other.history["hypergrad_norm"], runs[0].history["hypergrad_norm"], atol=1e-11)
        assert np.abs(runs[0].x - start).max() > 0.1
        assert (runs[0].x <= problems[0].bounds[1]).all() and (runs[0].x >= -1.2).all()


def test_counts_and_samples_of_a_run():
    found = run(cleaning(), "soba", max_iter=12, batch_sizes={"B4": 5, "B3": 11}, sampler="window", share_batches=False)
    assert (found.counts.lower_jvp, found.counts.lower_grad_y, found.counts.upper_grad) == (12, 12, 12)
    assert (found.samples.lower_jvp, found.samples.lower_grad_y, found.samples.upper_grad) == (60, 84, 132)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["soba", "saba"])
def test_runs_go_on_from_a_checkpoint(method, tmp_path):
    whole = run(cleaning(), method, max_iter=30)
    run(cleaning(), method, max_iter=13).save(tmp_path / "run.npz")
    found = nbo.resume(tmp_path / "run.npz", cleaning(), max_iter=30)
    for part in "xyu":
        np.testing.assert_array_equal(found[part], whole[part])
    assert (found.counts, found.samples) == (whole.counts, whole.samples)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["soba", "auto"])
def test_wrong_labels_lose_trust(method):
    rng = np.random.default_rng(0)
    truth = 3 * rng.standard_normal((6, 3))
    rows, rows_val = rng.standard_normal((300, 6)), rng.standard_normal((200, 6))
    labels, labels_val = (np.argmax(X @ truth, axis=1) for X in (rows, rows_val))
    wrong = np.arange(300) < 60
    noisy = np.where(wrong, (labels + rng.integers(1, 3, 300)) % 3, labels)
    problem = nbo.problems.HyperCleaning(rows, noisy, rows_val, labels_val, ridge=0.01)
    options = {"step_size": 100.0, "inner_step_size": 0.3, "batch_size": 30} if method == "soba" else {}
    found = nbo.minimize(
        problem, np.zeros(300), method=method, max_iter=600 if method == "soba" else 15, random_state=0, options=options
    )
    assert found.x[wrong].mean() < found.x[~wrong].mean() - 0.5
    assert found.fun < problem.upper_value(np.zeros(300), nbo.solve_lower_level(problem, np.zeros(300)).y)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ridge": 0}, "ridge: found 0"),
        ({"ridge": -0.1}, "ridge: found -0.1"),
        ({"ridge": np.inf}, "ridge: found inf"),
        ({"ridge": "0.1"}, "ridge: found '0.1'"),
        ({"n_classes": 2}, r"b: found labels \{0, 1, 2\}; expected 0 .. 1"),
        ({"bounds": (np.zeros(3), 1)}, r"bounds \(lower\): found shape \(3,\)"),
        ({"penalty": "shared"}, "penalty"),
        ({"prior": (0, 1)}, "prior"),
    ],
)
def test_bad_arguments(changes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        cleaning(**changes)


def test_a_class_that_a_part_lacks_is_kept_with_a_warning():
    with pytest.warns(UserWarning, match=r"b_val: the validation rows have no sample of \{0\}"):
        problem = nbo.problems.HyperCleaning(A, B, A_VAL, np.maximum(B_VAL, 1))
    assert problem.classes.tolist() == [0, 1, 2] and problem.n_samples_upper == N_VAL
    assert isinstance(problem.predict(A, np.zeros(12))[0], np.integer)


def test_samples_without_weight_are_never_trusted_or_blamed():
    """Their entries of J u are zero, and x stays where it is."""
    weights = np.where(np.arange(N) % 2, 1.0, 0.0)
    problem, (x, y, u) = cleaning(sample_weight=weights), CASE.point()
    assert not problem.lower_jvp(x, y, u)[::2].any() and not problem.lower_grad_x(x, y)[::2].any()
    found = run(problem, "soba")
    np.testing.assert_array_equal(found.x[::2], START[::2])
    assert (found.x[1::2] != START[1::2]).any()
