"""Iterative differentiation: the pass back, its bias, and the number of steps that grows."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_problems import PlainLogistic, SelfCounting, logistic_data

import nbo
from nbo.oracles import CountedProblem
from nbo.solvers.driver import State
from nbo.solvers.itd import ITD

STEPS = {"step_size": 0.01, "inner_step_size": 0.5}


@pytest.fixture
def problem():
    return nbo.problems.Quadratic.family(n=5, m=3, kappa=8)


def nonquadratic():
    return nbo.problems.NonQuadratic([[1.0, 0.2], [-0.3, 0.8]], [2.0, -1.5], [0.0, 0.5], mu=0.2, L=1.0)


def directions(problem, solver, x, y):
    """What one iteration computes at (x, y)."""
    return solver.directions(CountedProblem(problem), State(0, x, y, np.zeros_like(y)))


def biased_solution(problem, eta, N):
    """Where grad_1 f - J u_N is zero, with the Neumann sum u_N = P H^{-1} grad_2 f, P = I - (I - eta H)^N."""
    H, B = problem.H, problem.B
    n, m = B.shape
    weight = problem.s * B.T @ (np.eye(n) - np.linalg.matrix_power(np.eye(n) - eta * H, N)) @ np.linalg.inv(H)
    slope, offset = np.linalg.solve(H, B), np.linalg.solve(H, problem.c)
    return np.linalg.solve(
        problem.rho * np.eye(m) + weight @ slope, problem.rho * problem.e + weight @ (problem.d - offset)
    )


@settings(max_examples=20)
@given(st.booleans(), st.integers(1, 6), st.floats(0.05, 1.2), st.integers(0, 99))
def test_the_pass_back_is_the_derivative_of_the_steps(logistic, N, eta, seed):
    """By central differences of x -> f(x, y_N(x)), on problems whose H and J differ from step to step."""
    problem = PlainLogistic(*logistic_data(p=2)) if logistic else nonquadratic()
    x, y0 = np.random.default_rng(seed).standard_normal((2, 2))

    def value(x):
        y = y0
        for _ in range(N):
            y = y - eta * problem.lower_grad_y(x, y)
        return problem.upper_value(x, y)

    found = directions(problem, ITD(n_lower_steps=N, inner_step_size=eta), x, y0)
    h = 1e-5
    numeric = [(value(x + h * e) - value(x - h * e)) / (2 * h) for e in np.eye(2)]
    scale = max(1.0, abs(value(x)), *np.abs(numeric))
    np.testing.assert_allclose(found.d_x, numeric, atol=1e-7 * scale)


@settings(max_examples=20)
@given(st.integers(1, 9), st.floats(0.05, 1.2), st.integers(0, 99))
def test_at_the_lower_solution_u_is_the_neumann_sum(N, eta, seed):
    problem = nonquadratic()
    x = np.random.default_rng(seed).standard_normal(2)
    y = problem.y_star(x)
    grad_2 = problem.upper_grad(x, y)[1]
    H = np.diag(problem.lower_hvp(x, y, np.ones(2)))
    u, term = np.zeros(2), grad_2
    for _ in range(N):
        u, last, term = u + eta * term, term, term - eta * H @ term
    found = directions(problem, ITD(n_lower_steps=N, inner_step_size=eta), x, y)
    np.testing.assert_allclose(found.u, u, atol=1e-12)
    np.testing.assert_allclose(found.d_x, problem.upper_grad(x, y)[0] - problem.lower_jvp(x, y, u), atol=1e-12)
    assert found.adjoint_residual == pytest.approx(np.linalg.norm(last))


def test_an_iteration_by_hand(problem):
    x, y = np.full(3, 0.1), np.ones(5)
    result = nbo.minimize(problem, x, y0=y, method=ITD(**STEPS, n_lower_steps=4), tol=0, max_iter=3)
    for _ in range(3):
        ys = [y]
        for _ in range(4):
            ys.append(ys[-1] - 0.5 * problem.lower_grad_y(x, ys[-1]))
        G, a = problem.upper_grad(x, ys[-1])
        u = np.zeros(5)
        for y_k in reversed(ys[:-1]):
            G, u, a = G - 0.5 * problem.lower_jvp(x, y_k, a), u + 0.5 * a, a - 0.5 * problem.lower_hvp(x, y_k, a)
        x, y = x - 0.01 * G, ys[-1]
    for found, expected in ((result.x, x), (result.y, y), (result.u, u), (result.jac, G)):
        np.testing.assert_allclose(found, expected, atol=1e-13)


@pytest.mark.parametrize("N", [2, 12])
def test_a_given_number_of_steps_ends_at_its_biased_solution(problem, N):
    solver = ITD(step_size=0.005, inner_step_size=0.7, n_lower_steps=N)
    result = nbo.minimize(problem, np.zeros(3), method=solver, tol=1e-8, max_iter=1500)
    biased = biased_solution(problem, 0.7, N)
    np.testing.assert_allclose(result.x, biased, atol=1e-8)
    assert np.abs(biased - problem.x_star()).max() > 1e-3
    assert result.status == "iteration_limit" and result.hypergrad_norm < 1e-8 < result.adjoint_residual


def test_without_warm_start_the_steps_start_at_the_first_y(problem):
    x, y0 = np.full(3, 0.1), np.ones(5)
    solver = ITD(**STEPS, n_lower_steps=3, warm_start=False)
    result = nbo.minimize(problem, x, y0=y0, method=solver, tol=0, max_iter=4)
    y = y0
    x_before = nbo.minimize(problem, x, y0=y0, method=solver, tol=0, max_iter=3).x
    for _ in range(3):
        y = y - 0.5 * problem.lower_grad_y(x_before, y)
    np.testing.assert_allclose(result.y, y, atol=1e-14)


@pytest.mark.parametrize("options", [{}, {"step_size": 0.01}, {"step_size": 0.01, "inner_step_size": 0.5}])
def test_left_out_the_number_grows_until_the_solution_is_accurate(problem, options):
    result = nbo.minimize(problem, np.zeros(3), method=ITD(**options), tol=1e-8, max_iter=5000)
    assert result.status == "converged", result.message
    np.testing.assert_allclose(result.x, problem.x_star(), atol=1e-6)
    np.testing.assert_allclose(result.y, problem.y_star(result.x), atol=1e-6)
    np.testing.assert_allclose(result.u, problem.u_star(result.x), atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"step_size": 0.1}])
def test_a_nonquadratic_problem(options):
    problem = nonquadratic()
    result = nbo.minimize(problem, [0.5, 0.5], method=ITD(**options), tol=1e-8, max_iter=5000)
    assert result.success, result.message
    np.testing.assert_allclose(problem.grad_phi(result.x), 0, atol=1e-6)
    np.testing.assert_allclose(result.u, problem.u_star(result.x), atol=1e-6)


def test_the_number_is_capped(problem, monkeypatch):
    monkeypatch.setattr(ITD, "MOST", 20)
    result = nbo.minimize(SelfCounting(problem), np.zeros(3), method=ITD(), tol=1e-12, max_iter=100)
    assert result.counts.lower_grad_y <= 100 * 20
    assert np.isfinite(result.x).all() and result.status == "iteration_limit"


def test_an_estimated_inner_step_that_is_too_long_is_halved_before_the_steps_overflow():
    """The curvature at y0 is a sixtieth of that at y*."""
    problem = nbo.problems.NonQuadratic(np.eye(3), np.ones(3), np.full(3, 2.0), mu=0.05, L=3.0)
    y0 = np.full(3, -20.0)
    counting, solver = SelfCounting(problem), ITD(step_size=0.1, n_lower_steps=400)
    result = nbo.minimize(counting, np.full(3, 2.0), y0=y0, method=solver, tol=0, max_iter=1)
    assert result.lower_grad_norm < 1e-6
    assert result.counts + result.evaluation_counts == counting.seen()
    given = dataclasses.replace(solver, inner_step_size=20.0)
    told = nbo.minimize(problem, np.full(3, 2.0), y0=y0, method=given, tol=0, max_iter=1)
    assert not told.lower_grad_norm < 1e-6  # a given one is the user's


def test_gradients_at_the_rounding_floor_do_not_shorten_the_inner_step(problem):
    """There they grow and shrink by chance."""
    solver = ITD(step_size=0.005, n_lower_steps=150)
    chosen = [
        nbo.minimize(SelfCounting(problem), np.zeros(3), method=solver, tol=0, max_iter=k).counts for k in (40, 80)
    ]
    assert chosen[1].lower_hvp - chosen[0].lower_hvp == 40 * 149  # no new estimate


@pytest.mark.parametrize("N", [1, 7])
def test_counts(problem, N):
    counting = SelfCounting(problem)
    solver = ITD(**STEPS, n_lower_steps=N)
    result = nbo.minimize(counting, np.zeros(3), method=solver, tol=0, max_iter=9)
    assert result.counts + result.evaluation_counts == counting.seen()
    assert result.counts == 9 * solver.cost_per_iteration(5)
    assert result.counts == 9 * nbo.OracleCounts(upper_grad=1, lower_grad_y=N, lower_hvp=N - 1, lower_jvp=N)
    assert ITD().cost_per_iteration(5) == ITD(n_lower_steps=10).cost_per_iteration(5)


class ByPoint(nbo.LowerModel):
    """A lower model that needs its gradient before products, as those that store curvatures."""

    def grad_y(self):
        self.ready = True
        return super().grad_y()

    def hvp(self, V):
        assert self.ready
        return super().hvp(V)


def test_products_come_from_the_models_of_the_steps(problem, monkeypatch):
    monkeypatch.setattr(type(problem), "lower_model", lambda self, x, y: ByPoint(self, x, y))
    result = nbo.minimize(problem, np.zeros(3), method=ITD(**STEPS), tol=0, max_iter=3)
    assert result.nit == 3 and result.counts.lower_hvp > 0  # each of them a product that ByPoint has seen


def test_the_same_call_gives_the_same_bits_and_keeps_inputs(problem):
    x0, y0, u0 = np.ones(3), np.ones(5), np.ones(5)
    solver = ITD()
    first, second = (nbo.minimize(problem, x0, y0=y0, u0=u0, method=solver, max_iter=40) for _ in range(2))
    for part in "xyu":
        np.testing.assert_array_equal(first[part], second[part])
    assert first.counts == second.counts and first.method == "itd"
    assert all((a == 1).all() for a in (x0, y0, u0))


@pytest.mark.parametrize("options", [{}, STEPS, {"warm_start": False}])
@pytest.mark.parametrize("kind", ["quadratic", "plain32"])
def test_a_resumed_run_is_the_straight_one(problem, tmp_path, options, kind):
    if kind == "plain32":
        A, b, A_val, b_val = logistic_data(61, 43, 7)
        problem = PlainLogistic(A.astype(np.float32), b, A_val.astype(np.float32), b_val)
    x0 = np.full(problem.dim_x, -1.0)
    straight = nbo.minimize(problem, x0, method=ITD(**options), tol=0, max_iter=46)
    nbo.minimize(problem, x0, method=ITD(**options), tol=0, max_iter=23).save(tmp_path / "run.npz")
    resumed = nbo.resume(tmp_path / "run.npz", problem, max_iter=46, method=ITD(**options))
    for part in "xyu":
        assert resumed[part].tobytes() == straight[part].tobytes()
    assert resumed.counts == straight.counts


def test_a_step_far_too_large_diverges_to_the_best_finite_point(problem):
    for options in ({"step_size": 1e6, "inner_step_size": 0.5}, {"step_size": 0.01, "inner_step_size": 1e8}):
        result = nbo.minimize(problem, np.ones(3), y0=np.full(5, 1e6), method=ITD(**options))
        assert result.status == "diverged" and np.isfinite(result.x).all() and result.fun == result.best.fun


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_compiled_problem(dtype):
    A, b, A_val, b_val = logistic_data()
    problem = nbo.problems.BinaryLogistic(A.astype(dtype), b, A_val.astype(dtype), b_val, prior=(-3.0, 1.0))
    result = nbo.minimize(problem, np.full(5, -3.0), method=ITD(), tol=1e-4)
    assert result.success, result.message
    assert np.abs(nbo.hypergradient(problem, result.x).grad).max() < 1e-3


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"n_lower_steps": 0}, "n_lower_steps"),
        ({"n_lower_steps": 2.5}, "n_lower_steps"),
        ({"inner_step_size": -1.0}, "inner_step_size"),
        ({"warm_start": 1}, "warm_start"),
        ({"step_size": 0.0}, "step_size"),
    ],
)
def test_bad_options(options, error):
    with pytest.raises((ValueError, TypeError), match=f"^{error}: found"):
        ITD(**options)
