"""The compiled loop on the non-quadratic family does what the solvers do."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nbo
from nbo.kernels import complexity
from nbo.problems import NonQuadratic
from nbo.theory import theoretical_parameters

METHODS = ("nbo-gd", "nbo-cg", "amigo-gd", "amigo-cg", "aid-bio")


def members():
    """The family, and a member with other sizes, a full B and e that is not zero."""
    rng = np.random.default_rng(3)
    B = rng.standard_normal((5, 3)) / 3
    other = NonQuadratic(B, 2 * rng.standard_normal(5), rng.standard_normal(3), mu=0.1, L=1.2, s=0.8, rho=0.05)
    return [NonQuadratic.family(6.0, rho=0.2), other]


def start(problem):
    rng = np.random.default_rng(1)
    return complexity.Iterate(*(rng.standard_normal(n) for n in (problem.dim_x, problem.dim_y, problem.dim_y)))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("problem", members(), ids=["family", "other"])
def test_iterates_and_products_are_those_of_the_solvers(problem, method):
    parameters = theoretical_parameters(problem.constants(), method)
    iterate = start(problem)
    x0, y0, u0 = (v.copy() for v in iterate)
    formulas, plan = complexity.formulas(problem), complexity.plan(parameters)
    plan = plan._replace(alpha=0.02)  # so that x moves
    found = complexity.run(formulas, plan, iterate, -1.0, 50)
    options = parameters.options() | {"step_size": 0.02}
    result = nbo.minimize(problem, x0, y0=y0, u0=u0, method=method, options=options, tol=0.0, max_iter=50)
    assert found.iterations == result.nit == 50
    for ours, theirs in zip(iterate, (result.x, result.y, result.u), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
    assert np.linalg.norm(result.x - x0) > 0.01
    if plan.krylov:  # at the floor of rounding one more step or less
        assert found.products == pytest.approx(result.counts.lower_hvp, rel=0.1)
        assert found.products < 50 * parameters.solver().cost_per_iteration(problem.dim_y).lower_hvp
    else:
        assert found.products == result.counts.lower_hvp


@pytest.mark.parametrize("problem", members(), ids=["family", "other"])
def test_square_is_that_of_the_gradient_of_phi(problem):
    parameters = theoretical_parameters(problem.constants(), "nbo-gd")
    for scale in (-30.0, -1.0, 0.0, 1.0, 30.0):
        iterate = start(problem)
        iterate.x[:] *= scale
        x = iterate.x.copy()
        found = complexity.run(complexity.formulas(problem), complexity.plan(parameters), iterate, -1.0, 0)
        assert found.iterations == found.products == 0
        assert found.square == pytest.approx(np.sum(problem.grad_phi(x) ** 2), rel=1e-11)


def test_run_ends_at_the_first_gradient_that_is_small_and_in_pieces_at_the_same():
    problem = NonQuadratic.family(3.0)
    formulas = complexity.formulas(problem)
    plan = complexity.plan(theoretical_parameters(problem.constants(), "nbo-cg"))._replace(alpha=0.02)
    whole, pieces = start(problem), start(problem)
    found = complexity.run(formulas, plan, whole, 1e-2, 10**6)
    assert 50 < found.iterations < 10**6
    assert found.square <= 1e-2
    first = complexity.run(formulas, plan, pieces, 1e-2, found.iterations - 1)
    assert first.square > 1e-2
    second = complexity.run(formulas, plan, pieces, 1e-2, 10**6)
    assert second.iterations == 1
    assert first.products + second.products == found.products
    np.testing.assert_array_equal(whole.x, pieces.x)


def test_divergence_ends_a_run():
    problem = NonQuadratic.family(3.0)
    plan = complexity.plan(theoretical_parameters(problem.constants(), "nbo-gd"))._replace(gamma=1e4)
    found = complexity.run(complexity.formulas(problem), plan, start(problem), 1e-4, 10**6)
    assert found.iterations < 10**6
    assert not math.isfinite(found.square)
