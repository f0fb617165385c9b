"""HOAG: certified residuals, tolerances that shrink, and the step that looks at values."""

import dataclasses

import numpy as np
import pytest
from reference_problems import PlainLogistic, SelfCounting, logistic_data

import nbo
from nbo.feasible_sets import Box
from nbo.oracles import CountedProblem
from nbo.solvers.driver import State
from nbo.solvers.hoag import HOAG, LipschitzStep
from nbo.upper_steps import Scales


@pytest.fixture
def problem():
    return nbo.problems.Quadratic.family(n=5, m=3, kappa=8)


def nonquadratic():
    return nbo.problems.NonQuadratic([[1.0, 0.2], [-0.3, 0.8]], [2.0, -1.5], [0.0, 0.5], mu=0.2, L=1.0)


def started(problem, nit, **arrays):
    """A state at iteration `nit`."""
    parts = {"x": np.zeros(problem.dim_x), "y": np.zeros(problem.dim_y), "u": np.zeros(problem.dim_y)} | arrays
    return State(nit, **parts)


@pytest.mark.parametrize(
    ("decrease", "by_hand"),
    [
        ("exponential", lambda k: 0.5 * 0.9**k),
        ("quadratic", lambda k: 0.5 / (k + 1) ** 2),
        ("cubic", lambda k: 0.5 / (k + 1) ** 3),
    ],
)
def test_residuals_are_those_at_the_point_of_the_hypergradient(problem, decrease, by_hand):
    solver = HOAG(tolerance=0.5, tolerance_decrease=decrease)
    for k in (0, 3, 20):
        view = CountedProblem(problem)
        x = np.array([0.3, -1.0, 0.5])
        found = solver.directions(view, started(problem, k, x=x))
        grad_1, grad_2 = problem.upper_grad(x, found.y_at)
        residuals = (
            np.linalg.norm(problem.lower_grad_y(x, found.y_at)), np.linalg.norm(problem.H @ found.u - grad_2)
        )  # fmt: skip
        assert (found.lower_grad_norm, found.adjoint_residual) == pytest.approx(residuals, abs=1e-14)
        assert 0 < residuals[0] <= by_hand(k) * np.linalg.norm(problem.lower_grad_y(x, np.zeros(5)))
        assert 0 < residuals[1] <= by_hand(k) * np.linalg.norm(grad_2)
        np.testing.assert_array_equal(found.y, found.y_at)
        np.testing.assert_allclose(found.d_x, grad_1 - problem.lower_jvp(x, found.y, found.u), atol=1e-13)
        assert found.correction == pytest.approx(found.u @ problem.lower_grad_y(x, found.y))
        # what is called certified, bounds the true error
        error = abs(problem.upper_value(x, found.y) - found.correction - problem.phi(x))
        assert error <= np.prod(residuals) * 8 + residuals[0] ** 2 * 8**2


def test_the_tolerance_has_floors(problem):
    assert HOAG().tolerance_at(10_000) == 1e-12
    start = dataclasses.replace(started(problem, 10_000), scales=Scales(1e10, 1e16))
    found = HOAG().directions(CountedProblem(problem), start)
    assert 1e-12 * 1e10 >= found.lower_grad_norm > 1e-6
    np.testing.assert_array_equal(found.u, 0)  # |grad_2 f| itself is rounding error at that scale


def test_the_hypergradient_has_the_direct_part_of_f(problem):
    """grad_1 f, which is not zero here; without it the run ends where rho (x - e) is left out."""
    result = nbo.minimize(problem, np.zeros(3), method=HOAG(), tol=1e-8, max_iter=2000)
    assert np.linalg.norm(problem.upper_grad(result.x, result.y)[0]) > 0.01
    np.testing.assert_allclose(result.x, problem.x_star(), atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"step_size": 0.02}, {"tolerance_decrease": "cubic"}, {"memory": 2}])
def test_reaches_the_closed_form(problem, options):
    result = nbo.minimize(problem, np.zeros(3), method=HOAG(**options), tol=1e-8, max_iter=5000)
    assert result.status == "converged", result.message
    np.testing.assert_allclose(result.x, problem.x_star(), atol=1e-6)
    np.testing.assert_allclose(result.y, problem.y_star(result.x), atol=1e-6)
    np.testing.assert_allclose(result.u, problem.u_star(result.x), atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"step_size": 0.1}])
def test_a_nonquadratic_problem(options):
    problem = nonquadratic()
    result = nbo.minimize(problem, [0.5, 0.5], method=HOAG(**options), tol=1e-8, max_iter=5000)
    assert result.success, result.message
    np.testing.assert_allclose(problem.grad_phi(result.x), 0, atol=1e-6)


def test_a_given_step_by_hand(problem):
    """With a tolerance at its floor from the start, the iteration is exact gradient descent on Phi."""
    result = nbo.minimize(problem, np.zeros(3), method=HOAG(step_size=0.02, tolerance=1e-12), tol=0, max_iter=6)
    x = np.zeros(3)
    for _ in range(6):
        x = x - 0.02 * problem.grad_phi(x)
    np.testing.assert_allclose(result.x, x, atol=1e-10)


def test_few_inner_steps_make_x_wait(problem):
    solver = HOAG(n_lower_steps=2, n_linear_steps=2)
    result = nbo.minimize(problem, np.zeros(3), method=solver, tol=1e-8, max_iter=5000)
    assert result.success, result.message
    assert result.counts.upper_value < 0.5 * result.nit
    np.testing.assert_allclose(result.x, problem.x_star(), atol=1e-6)


# The step


class Slope:
    """`Directions` of Phi(x) = a'x^2/2 in exact arithmetic, with an error that is claimed."""

    def __init__(self, curvature, x, memory, error=0.0):
        self.d_x, self.y, self.u = curvature * x, np.zeros(1), np.zeros(1)
        self.y_at, self.correction, self.value_error = self.y, 0.0, error
        self.memory = {"accurate": True, **memory}


class Values:
    """A view that knows f alone."""

    dtype = np.dtype(float)

    def __init__(self, curvature):
        self.curvature, self.calls = curvature, 0

    def upper_value(self, x, y):
        self.calls += 1
        return float(self.curvature @ x**2 / 2)


def steps_of(curvature, x, n_steps, box=(-np.inf, np.inf), error=0.0):
    """Iterates, L after each step, and what was shown."""
    curvature, x = np.asarray(curvature, float), np.asarray(x, float)
    project, view = Box(*(np.full(x.shape, b) for b in box)), Values(curvature)
    memory, out = {}, []
    for k in range(n_steps):
        move = LipschitzStep().move(view, k, x, Slope(curvature, x, memory, error), project, Scales(), False)
        x, memory = move.x, move.memory
        out.append((x, memory["upper"].L, move.shown[0]))
    assert view.calls == n_steps
    return out


def test_the_first_step_moves_the_largest_entry_by_one():
    (x, L, _), *_ = steps_of([3.0, 1.0], [5.0, -2.0], 1)
    assert L == 15.0
    np.testing.assert_allclose(x, [4.0, -2.0 + 2 / 15])


def test_a_kept_promise_shrinks_L_a_little():
    steps = steps_of([1.0, 1.0], [4.0, 1.0], 4)
    np.testing.assert_allclose([L for _, L, _ in steps], 4.0 * 0.95 ** np.arange(4))


def test_a_rise_is_taken_back_with_twice_L_and_every_second_time_the_point_is_evaluated_anew():
    start = np.array([0.02, 0.0])
    steps = steps_of([1000.0, 1.0], start, 9)  # L = 20 at first, 1000 is needed
    first = start - np.array([1000 * 0.02, 0]) / 20
    np.testing.assert_allclose(steps[0][0], first)
    np.testing.assert_allclose(steps[1][0], start - np.array([1000 * 0.02, 0]) / 40)
    np.testing.assert_allclose(steps[2][0], start)  # anew
    np.testing.assert_allclose(steps[3][0], start - np.array([1000 * 0.02, 0]) / 80)
    assert [L for _, L, _ in steps] == [20, 40, 80, 80, 160, 320, 320, 640, pytest.approx(640 / 0.95)]
    for _, _, shown in steps[:8]:
        np.testing.assert_array_equal(shown, start)  # trial points are not


def test_a_decrease_short_of_the_promise_lets_L_grow():
    steps = steps_of([15.0], [0.7], 2)  # L = 10.5, so the step overshoots but the value falls
    assert [L for _, L, _ in steps] == pytest.approx([10.5, 10.5 / 0.95])


def test_within_the_slack_curvature_decides_and_L_does_not_shrink():
    flat = steps_of([1.0], [4.0], 5, error=1e3)
    assert [L for _, L, _ in flat] == [4.0] * 5
    steep = steps_of([15.0], [0.7], 3, error=1e3)
    assert [L for _, L, _ in steep] == pytest.approx([10.5, 10.5 / 0.95, 10.5 / 0.95**2])


def test_steps_stay_in_the_box():
    steps = steps_of([1.0, 1.0], [4.0, 3.0], 30, box=(2.0, 10.0))
    np.testing.assert_array_equal(steps[-1][0], [2.0, 2.0])
    assert all((x >= 2).all() for x, _, _ in steps)


def test_bounds(problem):
    result = nbo.minimize(problem, np.zeros(3), method=HOAG(), bounds=(-0.2, 0.1), tol=1e-8)
    projected = result.x - np.clip(result.x - problem.grad_phi(result.x), -0.2, 0.1)
    assert result.success and (result.x >= -0.2).all() and (result.x <= 0.1).all()
    np.testing.assert_allclose(projected, 0, atol=1e-6)


# The contract


@pytest.mark.parametrize("options", [{}, {"step_size": 0.01}])
def test_counts(problem, options):
    counting, solver = SelfCounting(problem), HOAG(**options)
    result = nbo.minimize(counting, np.zeros(3), method=solver, tol=0, max_iter=30)
    assert result.counts + result.evaluation_counts == counting.seen()
    most = 30 * solver.cost_per_iteration(5)
    for kind, found in result.counts.as_dict().items():
        assert found <= getattr(most, kind) or (kind == "upper_value" and not options)
    assert result.counts.upper_grad == result.counts.lower_jvp == 30
    assert result.counts.upper_value == (0 if options else 30)


def test_an_iteration_at_solved_inner_problems_costs_one_of_each(problem):
    x = np.ones(3)
    view = CountedProblem(problem)
    state = started(problem, 0, x=x, y=problem.y_star(x), u=problem.u_star(x))
    state = dataclasses.replace(state, scales=Scales(1.0, 1.0))
    HOAG().directions(view, state)
    assert view.counts == nbo.OracleCounts(upper_grad=1, lower_grad_y=1, lower_hvp=1, lower_jvp=1)


def test_the_cost_of_an_iteration_is_reached_by_no_more_than_its_bound(problem):
    solver = HOAG(n_lower_steps=2, n_linear_steps=3, step_size=0.01)
    assert solver.cost_per_iteration(5) == nbo.OracleCounts(
        upper_grad=1, lower_value=61, lower_grad_y=61, lower_hvp=5, lower_jvp=1
    )
    view = CountedProblem(problem)
    solver.directions(view, started(problem, 10_000))
    assert view.counts.lower_hvp == 5  # residual, three steps, and the residual anew


def test_the_same_call_gives_the_same_bits_and_keeps_inputs(problem):
    x0, y0, u0 = np.ones(3), np.ones(5), np.ones(5)
    first, second = (nbo.minimize(problem, x0, y0=y0, u0=u0, method=HOAG(), max_iter=40) for _ in range(2))
    for part in "xyu":
        np.testing.assert_array_equal(first[part], second[part])
    assert first.counts == second.counts and first.method == "hoag"
    assert all((a == 1).all() for a in (x0, y0, u0))


@pytest.mark.parametrize("options", [{}, {"step_size": 0.05}, {"n_lower_steps": 1}])
@pytest.mark.parametrize("kind", ["quadratic", "plain32"])
def test_a_resumed_run_is_the_straight_one(problem, tmp_path, options, kind):
    if kind == "plain32":
        A, b, A_val, b_val = logistic_data(61, 43, 7)
        problem = PlainLogistic(A.astype(np.float32), b, A_val.astype(np.float32), b_val)
    x0 = np.full(problem.dim_x, -1.0)
    straight = nbo.minimize(problem, x0, method=HOAG(**options), tol=0, max_iter=20)
    for half in (1, 6, 13):
        nbo.minimize(problem, x0, method=HOAG(**options), tol=0, max_iter=half).save(tmp_path / "run.npz")
        resumed = nbo.resume(tmp_path / "run.npz", problem, max_iter=20, method=HOAG(**options))
        for part in "xyu":
            assert resumed[part].tobytes() == straight[part].tobytes()
        assert resumed.counts == straight.counts


def test_a_step_far_too_large_diverges_to_the_best_finite_point(problem):
    result = nbo.minimize(problem, np.ones(3), y0=np.full(5, 1e6), method=HOAG(step_size=1e6))
    assert result.status == "diverged" and np.isfinite(result.x).all() and result.fun == result.best.fun


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_compiled_problem(dtype):
    A, b, A_val, b_val = logistic_data()
    problem = nbo.problems.BinaryLogistic(A.astype(dtype), b, A_val.astype(dtype), b_val, prior=(-3.0, 1.0))
    result = nbo.minimize(problem, np.full(5, -3.0), method=HOAG(), tol=1e-5)
    assert result.success, result.message
    assert np.abs(nbo.hypergradient(problem, result.x).grad).max() < 1e-3


@pytest.mark.slow
def test_a_badly_conditioned_problem():
    problem = nbo.problems.Quadratic.family(n=8, m=3, kappa=1e3)
    result = nbo.minimize(problem, np.zeros(3), method=HOAG(), tol=1e-2, max_iter=1000)
    assert result.success, result.message
    np.testing.assert_allclose(result.x, problem.x_star(), atol=1e-4)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"tolerance": 0.0}, "tolerance"),
        ({"tolerance_decrease": "linear"}, "tolerance_decrease"),
        ({"n_lower_steps": 0}, "n_lower_steps"),
        ({"n_linear_steps": 0}, "n_linear_steps"),
        ({"memory": 1.5}, "memory"),
    ],
)
def test_bad_options(options, error):
    with pytest.raises((ValueError, TypeError), match=f"^{error}: found"):
        HOAG(**options)
