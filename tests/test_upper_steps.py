import numpy as np
import pytest
from reference_problems import CHOOSING, logistic_data

import nbo
from nbo.feasible_sets import Box
from nbo.oracles import CountedProblem
from nbo.upper_steps import AdaptiveStep, Directions, Scales, ScheduledStep


def directions(d_x, **changes):
    values = {
        "d_x": np.asarray(d_x, float), "y": np.ones(3), "u": np.ones(3), "y_at": np.zeros(3),
        "y_change": np.zeros(3), "u_change": np.zeros(3), "jvp_norm": 1.0,
        "lower_grad_norm": 0.0, "adjoint_residual": 0.0, "upper_grad_norm": 1.0, "correction": 0.0, "value_error": 0.0,
        "memory": {},
    }  # fmt: skip
    return Directions(**(values | changes))


@pytest.fixture
def view():
    return CountedProblem(nbo.problems.Quadratic.family(3, 2, 4))


def free_box(size=2):
    return Box(np.full(size, -np.inf), np.full(size, np.inf))


def adaptive(view, x, step, solved=False):
    return AdaptiveStep().move(view, 0, x, step, free_box(), Scales(), solved)


def accepted(view, x, d_x):
    """The move away from a point that has been accepted after one rest."""
    resting = adaptive(view, x, directions(d_x))
    np.testing.assert_array_equal(resting.x, x)
    return adaptive(view, x, directions(d_x, memory=resting.memory))


def test_a_scheduled_step_is_projected(view):
    box = Box(np.full(2, -9.0), np.ones(2))
    move = ScheduledStep(lambda k: 1 / (k + 1)).move(view, 1, np.zeros(2), directions([2, -4]), box, Scales(), False)
    np.testing.assert_array_equal(move.x, [-1, 1])
    assert view.counts == nbo.OracleCounts() and not move.solved


def test_x_rests_while_the_estimate_is_poor(view):
    x, memory = np.zeros(2), {}
    for poor in ({}, {"adjoint_residual": 1.0}, {"u_change": np.full(3, 10.0)}, {"value_error": 1e9}):
        move = adaptive(view, x, directions([1, 1], memory=memory, **poor))
        np.testing.assert_array_equal(move.x, x)
        np.testing.assert_array_equal(move.y, np.ones(3))  # y and u go on
        memory = move.memory


def test_the_first_step_moves_the_largest_entry_by_one(view):
    move = accepted(view, np.zeros(2), [1e-3, -4e-3])
    np.testing.assert_allclose(move.x, [-0.25, 1.0])
    np.testing.assert_array_equal(move.shown[0], [0, 0])  # the accepted point is the iterate, the new x a trial


def test_a_rise_goes_back_and_three_put_the_anchor_in_doubt(view):
    move = accepted(view, np.zeros(2), [1.0, 0.0])
    for expected in (-0.25, -0.0625, 0.0):  # a quarter of the step, again, then the anchor itself
        high = {"y_at": np.full(3, 1e3), "y": np.zeros(3)}
        move = adaptive(view, move.x, directions([1.0, 0.0], memory=move.memory, **high))
        move = adaptive(view, move.x, directions([1.0, 0.0], memory=move.memory, **high))
        np.testing.assert_allclose(move.x, [expected, 0.0])
        np.testing.assert_array_equal(move.y, np.ones(3))  # restored
        np.testing.assert_array_equal(move.shown[0], [0, 0])
    assert move.memory["upper"].anchor is None
    assert move.memory["upper"].accuracy == pytest.approx(AdaptiveStep.ACCURACY / 3)


def test_a_trial_that_meets_the_tolerance_is_still_rejected_when_the_value_rose(view):
    move = accepted(view, np.zeros(2), [1.0, 0.0])
    for y_at, solution in ((np.full(3, 1e3), False), (view.problem.d, True)):
        flat = directions([0.0, 0.0], memory=move.memory, y_at=y_at)
        resting = adaptive(view, move.x, flat, solved=True)
        assert not resting.solved  # y has not followed x yet
        flat = flat._replace(memory=resting.memory)
        assert adaptive(view, move.x, flat, solved=True).solved == solution


def test_stagnation_gives_a_trial_up(view):
    move = accepted(view, np.zeros(2), [1.0, 0.0])
    trial = move.x
    for _ in range(AdaptiveStep.PATIENCE):
        move = adaptive(view, move.x, directions([1.0, 0.0], memory=move.memory, adjoint_residual=1.0))
        np.testing.assert_array_equal(move.x, trial)
    move = adaptive(view, move.x, directions([1.0, 0.0], memory=move.memory, adjoint_residual=1.0))
    np.testing.assert_allclose(move.x, trial / 4)


def test_a_start_whose_residuals_do_not_shrink_is_left_with_what_there_is(view):
    memory, x = {}, np.zeros(2)
    for _ in range(AdaptiveStep.PATIENCE + 1):
        move = adaptive(view, x, directions([1.0, 0.0], memory=memory, adjoint_residual=1.0))
        memory = move.memory
    assert move.shown is not None and move.x[0] == -1


def test_the_reach_of_errors_needs_no_units():
    scales, eps = Scales(1.0, 1.0), 1e-16
    for t in (1e-9, 1.0, 1e9):  # y and u in other units, with the residuals that belong to them
        step = directions([1.0], y_change=1e-3 * t * np.ones(3), y=t * np.ones(3), jvp_norm=2.0)
        step = step._replace(lower_grad_norm=1.0, adjoint_residual=1.0)
        assert step.reach(scales, eps) == pytest.approx(2e-3)
        assert step._replace(lag=10.0).reach(scales, eps) == pytest.approx(2e-2)
    assert directions([1.0], u_change=np.ones(3), u=np.ones(3), adjoint_residual=1.0).reach(scales, eps) == np.inf
    assert directions([1.0], u_change=np.ones(3), u=np.ones(3), adjoint_residual=1e-15).reach(scales, eps) == 0


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_scale_of_f_does_not_matter(scale):
    base = nbo.problems.Quadratic.family(6, 3, 30)
    scaled = nbo.problems.Quadratic(base.H, base.B, base.c, base.d, base.e, s=scale, rho=0.1 * scale)
    result = nbo.minimize(scaled, np.zeros(3), tol=0, max_iter=400)
    np.testing.assert_allclose(result.x, base.x_star(), atol=1e-6)


def test_accepted_values_do_not_rise_by_more_than_their_errors():
    """The evaluated upper values end far below the start, and the end is the best to rounding."""
    problem = nbo.problems.BinaryLogistic(*logistic_data(n=200, n_val=150, p=8), prior=(-4.0, 1.0))
    result = nbo.minimize(problem, np.full(8, 2.0), tol=1e-7)
    start, end = (nbo.hypergradient(problem, x) for x in (np.full(8, 2.0), result.x))
    assert result.success and end.value < start.value
    assert np.linalg.norm(end.grad) < 1e-6


METHODS = CHOOSING
NEWTON = ["nbo-cg", "nbo-lanczos", "nbo-block-cg", "nbo-cholesky"]


@pytest.mark.parametrize("method", METHODS)
def test_a_start_where_the_adjoint_vanishes_is_left(method):
    """grad_2 f = 0 at y*(x0), so that u and its residual are nothing but rounding there."""
    H = np.array([[5.0, 1.0], [1.0, 3.0]])
    problem = nbo.problems.Quadratic(H, np.eye(2), [1.0, 2.0], np.linalg.solve(H, [1.0, 2.0]), [1.0, 1.0])
    result = nbo.minimize(problem, np.zeros(2), method=method)
    assert result.success
    np.testing.assert_allclose(result.x, problem.x_star(), atol=1e-4)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("t", [1e-6, 1e6])
def test_the_scale_of_g_does_not_fake_convergence(method, t):
    base = nbo.problems.Quadratic.family(n=4, m=3, kappa=10)
    problem = nbo.problems.Quadratic(t * base.H, t * base.B, t * base.c, np.zeros(4), np.zeros(3))
    result = nbo.minimize(problem, np.zeros(3), method=method, max_iter=2000)
    assert not result.success or np.linalg.norm(problem.grad_phi(result.x)) < 1e-4
    if t < 1:
        assert result.success


def test_y_may_start_far_below_its_solution_in_value():
    problem = nbo.problems.Quadratic([[1e-7]], [[0.1]], [1.0], [0.0], [0.0])
    result = nbo.minimize(problem, [0.0])
    assert result.status != "diverged"
    np.testing.assert_allclose(result.x, -10, rtol=1e-6)


@pytest.mark.parametrize("method", NEWTON)
def test_converged_means_what_it_says(method):
    rng = np.random.default_rng(0)
    for i in range(25):
        n, m, kappa = int(rng.integers(1, 8)), int(rng.integers(1, 5)), 10 ** rng.uniform(0, 3)
        problem = (
            nbo.problems.Quadratic.family(n, m, kappa if n > 1 else 1.0)
            if i % 2
            else nbo.problems.NonQuadratic(
                rng.standard_normal((n, m)), rng.standard_normal(n), rng.standard_normal(m), mu=1 / kappa, L=1.0
            )
        )
        x0 = rng.standard_normal(m)
        result = nbo.minimize(problem, x0, method=method, max_iter=2000, tol=1e-5)
        assert problem.phi(result.x) <= problem.phi(x0) + 1e-9
        assert result.success and np.linalg.norm(problem.grad_phi(result.x)) <= 1.5e-5


@pytest.mark.parametrize("method", METHODS)
def test_the_end_is_no_worse_than_the_start_on_an_ill_conditioned_problem(method):
    base = nbo.problems.Quadratic.family(n=2, m=1, kappa=100)
    problem = nbo.problems.Quadratic(base.H, base.B, base.c, base.y_star([0.0]), [1.0])
    for limit in (100, 1000):
        result = nbo.minimize(problem, [0.0], method=method, max_iter=limit)
        assert problem.phi(result.x) <= problem.phi([0.0]) + 1e-9
