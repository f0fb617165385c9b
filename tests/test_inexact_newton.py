"""Newton steps on the lower level from any start."""

import numpy as np
import pytest
from reference_problems import SelfCounting, logistic_data

import nbo
from nbo.inexact_newton import NO_DESCENT, at_rounding, lower_point, newton_step
from nbo.oracles import CountedProblem


def exact(point, n):
    return np.linalg.solve(point.model.hvp(np.eye(n)), point.grad)


def descent(problem, x, y, most=60):
    """All points of Newton's method with exact directions, and what ended it."""
    view = CountedProblem(problem)
    points = [lower_point(view, x, y)]
    for _ in range(most):
        found = newton_step(view, x, points[-1], exact(points[-1], problem.dim_y))
        if isinstance(found, str):
            return points, found, view.counts
        points.append(found)
        if found.norm < 1e-13:
            break
    return points, "", view.counts


def test_a_quadratic_takes_one_step_without_a_value():
    problem = nbo.problems.Quadratic.family(n=6, m=2, kappa=1e4)
    points, _, counts = descent(problem, np.ones(2), np.full(6, 1e6))
    assert len(points) <= 3 and counts.lower_value == 0
    np.testing.assert_allclose(points[-1].y, problem.y_star(np.ones(2)), atol=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4])
def test_it_arrives_from_far_away(scale):
    problem = SelfCounting(nbo.problems.BinaryLogistic(*logistic_data(80, 20, 4)))
    x, rng = np.full(4, -3.0), np.random.default_rng(0)
    points, _, counts = descent(problem, x, scale * rng.standard_normal(4))
    assert points[-1].norm < 1e-12
    assert counts == problem.seen() - nbo.OracleCounts(lower_hvp=0)
    near = [point.norm for point in points if point.norm < 1e-2]
    assert len(near) <= 6  # quadratic convergence at the end


def test_values_decide_where_the_gradient_grows():
    """From far on the flat side of a logistic loss full steps overshoot."""
    A, b = np.array([[1.0], [1.0], [-1.0]]), np.array([1, 1, 1])
    b[2] = -1
    problem = nbo.problems.BinaryLogistic(A, b, A, b)
    points, _, counts = descent(problem, np.array([-9.0]), np.array([-6.0]))
    assert counts.lower_value > 0 and points[-1].norm < 1e-12
    values = [problem.lower_value(np.array([-9.0]), point.y) for point in points]
    assert values[-1] == min(values)


def test_it_ends_at_the_rounding_floor():
    problem = nbo.problems.BinaryLogistic(*logistic_data(80, 20, 4))
    view, x = CountedProblem(problem), np.full(4, -3.0)
    point = lower_point(view, x, descent(problem, x, np.zeros(4))[0][-1].y)
    before = view.counts
    for _ in range(3):
        found = newton_step(view, x, point, exact(point, 4))
        if isinstance(found, str):
            break
        point = found
    assert found == at_rounding(np.dtype(float)) and point.norm < 1e-14
    assert (view.counts - before).lower_value <= 3  # no search that cannot succeed


def test_oracles_that_do_not_fit_are_told():
    problem = nbo.problems.Quadratic.family(n=3, m=2, kappa=4)
    view = CountedProblem(problem)
    point = lower_point(view, np.ones(2), np.ones(3))
    assert newton_step(view, np.ones(2), point, -point.grad) == NO_DESCENT


def test_a_full_step_beyond_the_numbers_is_shortened():
    problem = nbo.problems.NonQuadratic(np.eye(2), np.ones(2), np.zeros(2), mu=0.5, L=1)
    view = CountedProblem(problem)
    point = lower_point(view, np.ones(2), np.ones(2))
    with np.errstate(all="ignore"):
        found = newton_step(view, np.ones(2), point, 1e12 * point.grad)
    assert found.norm < 1e3 * point.norm and np.isfinite(found.y).all()
    assert problem.lower_value(np.ones(2), found.y) < problem.lower_value(np.ones(2), point.y)
