"""Both inner problems at one x: what is asked for is reached, and the estimates of errors tell the truth."""

import numpy as np
import pytest
from reference_problems import logistic_data

import nbo
from nbo.inexact_newton import LowerPoint
from nbo.inner_solutions import Accuracy, InnerSolver
from nbo.oracles import CountedProblem
from nbo.preconditioning import InnerSystem, SystemMemory

PROBLEMS = {
    "logistic": lambda: nbo.problems.BinaryLogistic(*logistic_data(120, 60, 5)),
    "ill-conditioned": lambda: nbo.problems.BinaryLogistic(
        logistic_data(120, 60, 80, seed=1)[0] * np.geomspace(1, 0.01, 80),
        *logistic_data(120, 60, 80, seed=1)[1:2],
        logistic_data(120, 60, 80, seed=1)[2] * np.geomspace(1, 0.01, 80),
        *logistic_data(120, 60, 80, seed=1)[3:],
    ),
    "quadratic": lambda: nbo.problems.Quadratic.family(n=30, m=4, kappa=1e3),
}


def solver_of(problem, x, n_steps=50):
    view = CountedProblem(problem)
    return InnerSolver(view, x, InnerSystem(view, SystemMemory(), 300), n_steps), view


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("accuracy", [1e-1, 1e-3, 1e-6])
def test_estimates_of_errors_are_near_the_truth(name, accuracy):
    problem = PROBLEMS[name]()
    x = np.full(problem.dim_x, -2.0)
    solver, _ = solver_of(problem, x)
    found = solver.solve(np.zeros(problem.dim_y), np.zeros(problem.dim_y), Accuracy(np.inf, accuracy, accuracy))
    truth = nbo.hypergradient(problem, x, tol=1e-10)
    assert found.accurate
    y_error = np.linalg.norm(found.point.y - truth.y)
    assert y_error <= max(20 * found.y_error, 1e-11)
    assert found.y_error <= accuracy * np.linalg.norm(found.point.y)
    assert found.residual <= max(accuracy * found.upper_grad_norm, 1e-12)
    value = problem.upper_value(x, found.point.y) - found.correction
    assert abs(value - truth.value) <= 20 * found.value_error + 1e-11 * abs(value)
    assert np.linalg.norm(found.d_x - truth.grad) <= 50 * found.error + 1e-10


def test_the_corrected_value_is_better_by_orders():
    problem = PROBLEMS["logistic"]()
    x = np.full(5, -2.0)
    found = solver_of(problem, x)[0].solve(np.zeros(5), np.zeros(5), Accuracy(np.inf, 1e-1, 1e-2))
    truth = nbo.hypergradient(problem, x, tol=1e-10).value
    plain = problem.upper_value(x, found.point.y)
    assert abs(plain - found.correction - truth) < abs(plain - truth) / 5


def test_steps_that_do_not_suffice_leave_a_point():
    problem = PROBLEMS["logistic"]()
    solver, view = solver_of(problem, np.full(5, -2.0), n_steps=1)
    found = solver.solve(np.zeros(5), np.zeros(5), Accuracy(np.inf, 1e-9, 1e-2))
    assert isinstance(found, LowerPoint) and view.counts.upper_grad == 0


def test_sharpening_and_refining():
    problem = PROBLEMS["ill-conditioned"]()
    x = np.full(80, -4.0)
    solver, _ = solver_of(problem, x)
    rough = solver.solve(np.zeros(80), np.zeros(80), Accuracy(np.inf, 1e-1, 1e-1))
    sharper = solver.sharpen(rough, 0.1)
    assert sharper.residual <= 0.1 * rough.residual and sharper.point is rough.point
    finer = solver.refine(rough)
    assert finer.point.norm < 0.1 * rough.point.norm and finer.residual < rough.residual
    truth = nbo.hypergradient(problem, x, tol=1e-10).grad
    errors = [np.linalg.norm(found.d_x - truth) for found in (rough, sharper, finer)]
    assert errors[2] < errors[0]


def test_at_the_solution_nothing_is_done():
    problem = PROBLEMS["quadratic"]()
    x = np.ones(4)
    truth = nbo.hypergradient(problem, x)
    solver, view = solver_of(problem, x)
    solver.solve(np.zeros(30), np.zeros(30), Accuracy(np.inf, 1e-9, 1e-9))
    before = view.counts
    found = solver.solve(truth.y, truth.u, Accuracy(np.inf, 1e-3, 1e-3))
    used = view.counts - before
    assert used.lower_grad_y <= 2 and found.accurate
