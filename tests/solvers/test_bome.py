"""BOME against a hand-written loop, its exact first-order costs, its guard, and the two parts of its bias."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_problems import LinearCase, Required, SelfCounting, logistic_data

import nbo
from nbo.feasible_sets import Box
from nbo.oracles import CountedProblem
from nbo.schedules import PowerDecay
from nbo.solvers import REGISTRY
from nbo.solvers.bome import BOME
from nbo.solvers.driver import State

STEPS = {"step_size": 0.01, "inner_step_size": 0.5}


class FirstOrder(SelfCounting):
    """Counts every call, and has no second derivatives."""

    def lower_grad_x(self, x, y):
        return self._call("lower_grad_x", x, y)

    def lower_hvp(self, x, y, v):
        raise AssertionError("a first-order method asked for a product")

    lower_jvp = lower_hvp


@pytest.fixture
def problem():
    return nbo.problems.Quadratic.family(n=5, m=3, kappa=8)


def by_hand(problem, x, y, *, alpha, beta, gamma, eta, T, n_iterations):
    """The method as published: one vector (x, y), one gradient of q."""
    m = problem.dim_x
    z = y
    for _ in range(n_iterations):
        z = y
        for _ in range(T):
            z = z - gamma * problem.lower_grad_y(x, z)
        grad_f = np.concatenate(problem.upper_grad(x, y))
        grad_q = np.concatenate([problem.lower_grad_x(x, y) - problem.lower_grad_x(x, z), problem.lower_grad_y(x, y)])
        squared = grad_q @ grad_q
        lam = 0.0 if squared == 0 else max(eta * squared - grad_f @ grad_q, 0) / squared
        direction = grad_f + lam * grad_q
        x, y = x - alpha * direction[:m], y - beta * direction[m:]
    return x, y, z


@settings(max_examples=25)
@given(st.integers(1, 6), st.integers(1, 4), st.floats(1, 20), st.integers(1, 6), st.floats(0.05, 2), st.booleans())
def test_a_hand_written_loop(n, m, kappa, T, eta, own_step):
    problem = nbo.problems.Quadratic.family(n, m, kappa if n > 1 else 1.0)
    x, y = np.full(m, 0.3), np.linspace(-1, 1, n)
    method = BOME(
        step_size=0.01, lower_step_size=0.03 if own_step else None, inner_step_size=0.6, n_lower_steps=T, control=eta
    )
    result = nbo.minimize(problem, x, y0=y, method=method, tol=0, max_iter=7)
    beta = 0.03 if own_step else 0.01
    expected = by_hand(problem, x, y, alpha=0.01, beta=beta, gamma=0.6, eta=eta, T=T, n_iterations=7)
    for part, value in zip("xyu", expected, strict=True):  # u holds z
        np.testing.assert_allclose(result[part], value, atol=1e-10)


def test_a_hand_written_loop_on_a_nonquadratic_problem():
    problem = nbo.problems.NonQuadratic([[1.0, 0.2], [-0.3, 0.8]], [2.0, -1.5], [0.0, 0.5], mu=0.2, L=1.0)
    method = BOME(step_size=0.02, inner_step_size=0.8, n_lower_steps=4)
    result = nbo.minimize(problem, [0.5, 0.5], y0=[1.0, -1.0], method=method, tol=0, max_iter=50)
    start = np.array([0.5, 0.5]), np.array([1.0, -1.0])
    expected = by_hand(problem, *start, alpha=0.02, beta=0.02, gamma=0.8, eta=0.5, T=4, n_iterations=50)
    for part, value in zip("xyu", expected, strict=True):
        np.testing.assert_allclose(result[part], value, atol=1e-10)


@pytest.mark.parametrize("T", [1, 2, 10])
def test_counts(problem, T):
    counting = FirstOrder(problem)
    method = BOME(**STEPS, n_lower_steps=T, eval_every=5)
    result = nbo.minimize(counting, np.zeros(3), method=method, tol=0, max_iter=23)
    expected = nbo.OracleCounts(upper_grad=1, lower_grad_y=T, lower_grad_x=2)
    assert method.cost_per_iteration(5) == expected
    assert result.counts == 23 * expected
    assert result.counts + result.evaluation_counts == counting.seen()
    parts = dict(reversed(part.split(" ")) for part in BOME.cost.split(", "))
    assert nbo.OracleCounts(**{kind: eval(cost, {"Q": T}) for kind, cost in parts.items()}) == expected


def test_a_problem_without_lower_grad_x_is_refused(problem):
    counting = Required(problem)
    with pytest.raises(TypeError, match="Required does not define lower_grad_x, which method 'bome' needs"):
        nbo.minimize(counting, np.zeros(3), method=BOME(**STEPS))
    assert counting.seen() == nbo.OracleCounts()


def test_the_inner_step_is_found_by_gradients(problem):
    """By differences of gradients in 5 Lanczos steps, two each, and no product."""
    counting = SelfCounting(problem)
    result = nbo.minimize(counting, np.zeros(3), method=BOME(step_size=0.01), tol=0, max_iter=4)
    assert result.counts == 4 * BOME(step_size=0.01).cost_per_iteration(5) + nbo.OracleCounts(lower_grad_y=10)
    assert result.counts + result.evaluation_counts == counting.seen()
    largest = np.linalg.eigvalsh(problem.H)[-1]
    given = nbo.minimize(problem, np.zeros(3), method=BOME(step_size=0.01, inner_step_size=1 / largest), max_iter=4)
    np.testing.assert_allclose(result.x, given.x, rtol=1e-6)


def test_z_starts_as_y(problem):
    result = nbo.minimize(problem, np.zeros(3), y0=np.ones(5), method=BOME(**STEPS), max_iter=0)
    np.testing.assert_array_equal(result.u, 1)


# --- guards


@pytest.mark.parametrize("distance", [0.0, 1e-170, 1e-200])
def test_a_gradient_of_zero(problem, distance):
    """At y = y*(x) exactly, or where only the square of grad q underflows, nothing is divided by zero."""
    lower = nbo.problems.Quadratic(np.eye(2), np.eye(2), [0.0, 0.0], [1.0, 1.0], [1.0, 1.0])
    x, y = np.zeros(2), np.array([distance, 0.0])
    result = nbo.minimize(lower, x, y0=y, method=BOME(step_size=0.1, inner_step_size=0.5), tol=0, max_iter=1)
    assert np.isfinite(result.x).all() and np.isfinite(result.y).all()
    if distance == 0:  # lam = 0: plain descent on f
        np.testing.assert_allclose(result.y, 0.1)
        np.testing.assert_allclose(result.x, 0.01)
    assert result.lower_grad_norm == pytest.approx(distance, abs=1e-160)


def test_without_a_conflict_f_alone_counts():
    """Where descent on f lowers q faster than the barrier asks, lam is zero."""
    problem = nbo.problems.Quadratic(np.eye(2), np.eye(2), [0.0, 0.0], [0.0, 0.0], [0.0, 0.0], s=5.0)
    x, y = np.array([0.0, 0.0]), np.array([1.0, 1.0])
    method = BOME(step_size=0.01, inner_step_size=0.5, control=0.1)
    result = nbo.minimize(problem, x, y0=y, method=method, tol=0, max_iter=1)
    np.testing.assert_allclose(result.y, y - 0.01 * 5 * y, rtol=1e-15)


@pytest.mark.parametrize("bad", [{"step_size": 1e6}, {"inner_step_size": 1e8}])
def test_steps_far_too_large_diverge(problem, bad):
    result = nbo.minimize(problem, np.ones(3), method=BOME(**STEPS | bad), max_iter=3000)
    assert result.status == "diverged" and "smaller step_size" in result.message
    for part in "xyu":
        np.testing.assert_array_equal(result[part], result.best._asdict()[part])


def test_a_badly_conditioned_lower_level_is_no_crash():
    problem = nbo.problems.Quadratic(np.diag([1.0, 1e-19]), np.eye(2), [1.0, 0.0], [0.0, 0.0], [0.0, 0.0])
    assert np.isfinite(nbo.minimize(problem, [0.1, 0.0], method=BOME(**STEPS), max_iter=60).x).all()


# --- where it goes


def neumann_point(problem, T, gamma):
    """Where rho (x - e) + B'u_T = 0 with u_T = (I - (I - gamma H)^T) H^{-1} s (y*(x) - d)."""
    H, inverse = problem.H, np.linalg.inv(problem.H)
    part = (
        problem.B.T @ (np.eye(problem.dim_y) - np.linalg.matrix_power(np.eye(problem.dim_y) - gamma * H, T)) @ inverse
    )
    matrix = problem.rho * np.eye(problem.dim_x) + problem.s * part @ inverse @ problem.B
    return np.linalg.solve(matrix, problem.rho * problem.e - problem.s * part @ (inverse @ problem.c - problem.d))


@pytest.mark.slow
def test_the_bias_is_that_of_the_neumann_series_plus_a_multiple_of_the_step(problem):
    """Ten times shorter steps bring x about ten times nearer to the biased point, which Q moves to x*."""
    x_star = problem.x_star()
    assert 5e-3 < np.abs(neumann_point(problem, 10, 1.0) - x_star).max() < 1e-2
    np.testing.assert_allclose(neumann_point(problem, 200, 1.0), x_star, atol=1e-9)
    errors = []
    for step in (0.03, 0.003):
        method = BOME(step_size=step, inner_step_size=1.0, eval_every=10**6)
        result = nbo.minimize(problem, np.zeros(3), method=method, tol=1e-8, max_iter=int(18 / step))
        assert result.status == "iteration_limit"
        errors.append(np.abs(result.x - neumann_point(problem, 10, 1.0)).max())
    assert errors[0] < 0.05 and errors[1] < errors[0] / 5 and errors[1] < 4e-3


@pytest.fixture(scope="module")
def near_the_end():
    """A run with decreasing steps on a problem where Q = 10 inner steps leave nothing, and its next iteration."""
    problem = nbo.problems.Quadratic.family(n=5, m=3, kappa=2)
    method = BOME(step_size=PowerDecay(0.3, 0.6), inner_step_size=1.3, eval_every=10**6)
    result = nbo.minimize(problem, np.zeros(3), method=method, tol=1e-8, max_iter=8000)
    return problem, result, nbo.minimize(problem, result.x, y0=result.y, method=method, tol=0, max_iter=1)


@pytest.mark.slow
def test_decreasing_steps_reach_the_solution(near_the_end):
    problem, result, _ = near_the_end
    np.testing.assert_allclose(result.x, problem.x_star(), atol=1e-3)
    np.testing.assert_allclose(result.y, problem.y_star(result.x), atol=1e-2)


@pytest.mark.slow
def test_lam_times_z_minus_y_estimates_u(near_the_end):
    problem, result, following = near_the_end
    d_y = problem.lower_grad_y(result.x, result.y)
    lam = np.linalg.norm(problem.upper_grad(result.x, result.y)[1]) / np.linalg.norm(d_y)
    u, u_star = lam * (following.u - result.y), problem.u_star(result.x)
    assert np.linalg.norm(u - u_star) < 0.1 * np.linalg.norm(u_star)


def test_it_converges_where_the_gradient_of_f_vanishes():
    """d = y*(e): both levels agree at x = e, and no barrier is left."""
    problem = nbo.problems.Quadratic.family(n=5, m=3, kappa=8)
    agreeing = nbo.problems.Quadratic(problem.H, problem.B, problem.c, problem.y_star(problem.e), problem.e, rho=1.0)
    method = BOME(step_size=0.02, inner_step_size=1.0, eval_every=10**6)
    result = nbo.minimize(agreeing, np.zeros(3), method=method, tol=1e-6, max_iter=20_000)
    assert result.success, result.message
    np.testing.assert_allclose(result.x, problem.e, atol=1e-4)


# --- contracts


def test_a_run_goes_on_exactly(problem, tmp_path, monkeypatch):
    monkeypatch.setitem(REGISTRY, "bome", BOME)
    run = {"method": "bome", "options": STEPS | {"lower_step_size": PowerDecay(0.1)}, "tol": 0.0}
    straight = nbo.minimize(problem, np.zeros(3), max_iter=14, **run)
    nbo.minimize(problem, np.zeros(3), max_iter=5, **run).save(tmp_path / "run.npz")
    gone_on = nbo.resume(tmp_path / "run.npz", problem, max_iter=14)
    for part in "xyu":
        np.testing.assert_array_equal(gone_on[part], straight[part])
    assert gone_on.counts == straight.counts


def test_the_same_call_gives_the_same_bits_and_keeps_inputs(problem):
    x0, y0 = np.ones(3), np.ones(5)
    method = BOME(**STEPS)
    runs = [nbo.minimize(problem, x0, y0=y0, method=method, max_iter=40) for _ in range(2)]
    for part in "xyu":
        np.testing.assert_array_equal(runs[0][part], runs[1][part])
    assert (x0 == 1).all() and (y0 == 1).all() and method == BOME(**STEPS)


def test_bounds(problem):
    method = BOME(step_size=0.01, inner_step_size=1.0)
    result = nbo.minimize(problem, np.zeros(3), method=method, bounds=(-0.1, 0.2), max_iter=500)
    assert (result.x >= -0.1).all() and (result.x <= 0.2).all() and (result.x == 0.2).any()


def test_compiled_and_plain_problems_agree():
    case = LinearCase("binary")
    method = BOME(step_size=0.05, inner_step_size=0.5)
    runs = [nbo.minimize(p, np.full(4, -2.0), method=method, max_iter=15, tol=0) for p in (case.problem, case.plain)]
    for part in "xyu":
        np.testing.assert_allclose(runs[0][part], runs[1][part], atol=1e-10)
    assert runs[0].counts == runs[1].counts


def test_single_precision_stays():
    A, b, A_val, b_val = logistic_data()
    problem = nbo.problems.BinaryLogistic(A.astype(np.float32), b, A_val.astype(np.float32), b_val)
    y = np.zeros(5, np.float32)
    state = State(0, np.full(5, -2.0), y, y)
    for _ in range(3):
        state = BOME(**STEPS).step(CountedProblem(problem), state, Box.unbounded(5), 0.0)
        assert state.y.dtype == state.u.dtype == np.float32


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "step_size: method 'bome' needs one"),
        (STEPS | {"step_size": 0.0}, "step_size: found 0"),
        (STEPS | {"inner_step_size": -1}, "inner_step_size: found -1"),
        (STEPS | {"lower_step_size": 0}, "lower_step_size: found 0"),
        (STEPS | {"lower_step_size": lambda k: -1.0}, r"lower_step_size \(the schedule at k = 0\): found -1"),
        (STEPS | {"n_lower_steps": 0}, "n_lower_steps: found 0; expected an integer >= 1"),
        (STEPS | {"control": 0.0}, "control: found 0.0; expected a positive number"),
    ],
)
def test_bad_options_are_named(problem, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        nbo.minimize(problem, np.zeros(3), method=BOME(**options))
