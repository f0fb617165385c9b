import numpy as np
import pytest
from reference_problems import Overriding, logistic_data

import nbo
from nbo.problem import provides


def test_default_lower_model_calls_the_plain_oracles():
    problem = Overriding()
    rng = np.random.default_rng(0)
    x, y, V = rng.standard_normal(2), rng.standard_normal(3), rng.standard_normal((4, 3))
    model = problem.lower_model(x, y)
    assert model.value() == problem.lower_value(x, y)
    np.testing.assert_array_equal(model.grad_y_and_hvp(V[0])[0], problem.lower_grad_y(x, y))
    np.testing.assert_array_equal(model.hvp(V), [problem.lower_hvp(x, y, v) for v in V])
    np.testing.assert_array_equal(model.jvp(V[1]), problem.lower_jvp(x, y, V[1]))


@pytest.mark.parametrize("make", ["plain", "logistic"])
def test_hessian_is_a_linear_operator(make):
    problem = Overriding() if make == "plain" else nbo.problems.BinaryLogistic(*logistic_data(p=3))
    x, y = np.zeros(problem.dim_x), np.ones(3)
    hessian = problem.lower_model(x, y).hessian
    dense = hessian @ np.eye(3)
    np.testing.assert_allclose(dense, dense.T, atol=1e-14)
    np.testing.assert_allclose(hessian.T @ np.ones(3), dense @ np.ones(3))
    np.testing.assert_allclose(hessian @ y, problem.lower_hvp(x, y, y), atol=1e-14)


class Bare(nbo.BilevelProblem):
    """The six oracles that every problem has, and no other."""

    dim_x, dim_y = 2, 3
    upper_value = upper_grad = lower_value = lower_grad_y = lower_hvp = lower_jvp = lambda self, *arguments: 0.0


def test_missing_oracles_are_named():
    problem = Bare()
    for name, arguments in (("lower_grad_x", 2), ("upper_hvp", 3), ("upper_jvp", 3)):
        assert not provides(problem, name)
        with pytest.raises(NotImplementedError, match=f"Bare does not define {name}"):
            getattr(problem, name)(*[np.ones(3)] * arguments)
    with pytest.raises(NotImplementedError, match="constants"):
        problem.constants()
    assert provides(nbo.problems.Quadratic.family(3, 2, 4), "lower_grad_x")


def test_an_oracle_set_on_the_instance_counts_as_provided():
    problem = Bare()
    assert not provides(problem, "lower_grad_x")
    problem.lower_grad_x = lambda x, y: np.zeros(2)
    assert provides(problem, "lower_grad_x")


def test_default_projection_and_fingerprint():
    problem = Overriding()
    problem.bounds = (-1, np.array([1.0, 2.0]))
    np.testing.assert_array_equal(problem.project(np.array([-5.0, 5.0])), [-1, 2])
    assert problem.fingerprint().endswith("Overriding:2x3:float64")
