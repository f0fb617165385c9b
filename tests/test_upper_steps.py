import numpy as np
import pytest
from reference_problems import logistic_data

import nbo
from nbo.oracles import CountedProblem
from nbo.upper_steps import AdaptiveStep, Directions, ScheduledStep


def directions(d_x, **changes):
    values = {
        "d_x": np.asarray(d_x, float), "y": np.ones(3), "u": np.ones(3), "y_at": np.zeros(3), "u_change": np.zeros(3),
        "lower_grad_norm": 0.0, "adjoint_residual": 0.0, "upper_grad_norm": 1.0, "correction": 0.0, "value_error": 0.0, "memory": {},
    }  # fmt: skip
    return Directions(**(values | changes))


@pytest.fixture
def view():
    return CountedProblem(nbo.problems.Quadratic.family(3, 2, 4))


def test_a_scheduled_step_is_projected(view):
    move = ScheduledStep(lambda k: 1 / (k + 1)).move(view, 1, np.zeros(2), directions([2, -4]), lambda x: x.clip(-9, 1))
    np.testing.assert_array_equal(move.x, [-1, 1])
    assert view.counts == nbo.OracleCounts()


def test_x_rests_while_the_estimate_is_poor(view):
    x = np.zeros(2)
    for poor in ({"adjoint_residual": 1.0}, {"u_change": np.full(3, 10.0)}):
        move = AdaptiveStep().move(view, 0, x, directions([1, 1], **poor), lambda x: x)
        np.testing.assert_array_equal(move.x, x)
        np.testing.assert_array_equal(move.y, np.ones(3))  # y and u go on
    assert view.counts.upper_value == 0


def test_the_first_step_moves_the_largest_entry_by_one(view):
    move = AdaptiveStep().move(view, 0, np.zeros(2), directions([1e-3, -4e-3]), lambda x: x)
    np.testing.assert_allclose(move.x, [-0.25, 1.0])


def test_a_rise_goes_back_and_two_put_the_anchor_in_doubt():
    problem = nbo.problems.Quadratic.family(3, 2, 4)
    view, step = CountedProblem(problem), AdaptiveStep()
    x0 = np.zeros(2)
    move = step.move(view, 0, x0, directions([1.0, 0.0]), lambda x: x)
    for expected in (-0.25, 0.0):  # a quarter of the step, then the anchor itself
        worse = directions([1.0, 0.0], y_at=np.full(3, 1e3), y=np.zeros(3), memory=move.memory)
        move = step.move(view, 1, move.x, worse, lambda x: x)
        np.testing.assert_allclose(move.x, [expected, 0.0])
        np.testing.assert_array_equal(move.y, np.ones(3))  # restored
    assert move.memory["upper"].anchor is None
    assert move.memory["upper"].accuracy == pytest.approx(AdaptiveStep.ACCURACY / 3)


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
