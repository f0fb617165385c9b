"""AggregatedProblem: its oracles, closed forms, what it hands on, and refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_problems import LinearCase, Required, SelfCounting

import nbo
from nbo.problem import provides
from nbo.problems import AggregatedProblem, ConvexToy, NonQuadratic, Quadratic

WEIGHTS = st.floats(0, 0.99)


def problems():
    """One of each: a quadratic, one with third derivatives, one whose f couples x and y, and two with data."""
    nonquadratic = NonQuadratic([[1.0, 0.2], [-0.3, 0.8]], [2.0, -1.5], [0.0, 0.5], mu=0.2, L=1.0)
    return {
        "quadratic": Quadratic.family(4, 3, 10),
        "nonquadratic": nonquadratic,
        "toy": ConvexToy(3),
        "binary": LinearCase("binary").problem,
        "targets": LinearCase("targets").problem,
    }


@pytest.mark.parametrize("name", problems())
@pytest.mark.parametrize("weight", [0.0, 0.3, 0.9])
def test_oracles(name, weight):
    inner = problems()[name]
    problem, rng = AggregatedProblem(inner, weight), np.random.default_rng(0)
    x, y, v = rng.standard_normal(inner.dim_x), *rng.standard_normal((2, inner.dim_y))
    report = nbo.check_problem(problem, x, y)
    assert report, str(report)
    assert {"lower_grad_x", "upper_hvp", "upper_jvp", "lower_model"} <= {check.name for check in report.checks}
    rest = 1 - weight
    grad_1, grad_2 = inner.upper_grad(x, y)
    for found, expected in (
        (problem.lower_value(x, y), weight * inner.upper_value(x, y) + rest * inner.lower_value(x, y)),
        (problem.lower_grad_y(x, y), weight * grad_2 + rest * inner.lower_grad_y(x, y)),
        (problem.lower_grad_x(x, y), weight * grad_1 + rest * inner.lower_grad_x(x, y)),
        (problem.lower_hvp(x, y, v), weight * inner.upper_hvp(x, y, v) + rest * inner.lower_hvp(x, y, v)),
        (problem.lower_jvp(x, y, v), weight * inner.upper_jvp(x, y, v) + rest * inner.lower_jvp(x, y, v)),
        (problem.upper_value(x, y), inner.upper_value(x, y)),
        (problem.upper_grad(x, y)[0], grad_1),
        (problem.upper_grad(x, y)[1], grad_2),
        (problem.upper_hvp(x, y, v), inner.upper_hvp(x, y, v)),
        (problem.upper_jvp(x, y, v), inner.upper_jvp(x, y, v)),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_blocks_of_directions():
    problem = AggregatedProblem(Quadratic.family(4, 3, 10), 0.25)
    model = problem.lower_model(np.ones(3), np.ones(4))
    V = np.arange(8.0).reshape(2, 4)
    np.testing.assert_allclose(model.hvp(V), V @ (0.25 * np.eye(4) + 0.75 * problem.problem.H), rtol=1e-14)
    assert model.hvp(V[:0]).shape == (0, 4)
    gradient, product = model.grad_y_and_hvp(V[1])
    np.testing.assert_array_equal(gradient, model.grad_y())
    np.testing.assert_array_equal(product, model.hvp(V)[1])


@settings(max_examples=25)
@given(st.integers(1, 6), st.integers(1, 4), st.floats(1, 50), WEIGHTS)
def test_on_a_quadratic_it_is_a_quadratic(n, m, kappa, weight):
    """phi = 1/2 y'Ky - y'((1 - w) B x + (1 - w) c + w s d) + ... with K = w s I + (1 - w) H."""
    inner = Quadratic.family(n, m, kappa if n > 1 else 1.0)
    rest = 1 - weight
    K = weight * inner.s * np.eye(n) + rest * inner.H
    same = Quadratic(K, rest * inner.B, rest * inner.c + weight * inner.s * inner.d, inner.d, inner.e)
    found = nbo.minimize(AggregatedProblem(inner, weight), np.zeros(m), tol=1e-9)
    assert found.success
    np.testing.assert_allclose(found.x, same.x_star(), atol=1e-6)
    np.testing.assert_allclose(found.y, same.y_star(found.x), atol=1e-6)


def test_small_weights_lead_to_the_best_solution_of_a_convex_lower_level():
    x0, y0 = ConvexToy(4).start
    for weight in (0.9, 0.1, 0.01):
        result = nbo.minimize(AggregatedProblem(ConvexToy(4), weight), x0, y0=y0, tol=1e-9)
        assert result.success
        np.testing.assert_allclose(np.concatenate([result.x, result.y]), 1, atol=1e-5)


def test_what_is_handed_on():
    class OnBall(Quadratic):
        def project(self, x):
            return x / max(1.0, np.linalg.norm(x))

    inner = Quadratic.family(4, 3, 10)
    inner.bounds = (-1.0, np.array([1.0, 2.0, 3.0]))
    problem = AggregatedProblem(inner, 0.5)
    assert (problem.dim_x, problem.dim_y, problem.dtype) == (3, 4, np.float64)
    assert problem.bounds is inner.bounds and not provides(problem, "project")
    ball = AggregatedProblem(OnBall(inner.H, inner.B, inner.c, inner.d, inner.e), 0.5)
    assert provides(ball, "project")
    result = nbo.minimize(ball, np.zeros(3), tol=1e-8)
    assert result.success and np.linalg.norm(result.x) <= 1 + 1e-12
    assert not provides(problem, "constants")


def test_an_absent_first_derivative_is_absent():
    class WithProducts(SelfCounting):
        _absent = frozenset(["lower_grad_x"])

        def upper_hvp(self, x, y, v):
            return v

        def upper_jvp(self, x, y, u):
            return np.zeros(self.dim_x)

    problem = AggregatedProblem(WithProducts(Quadratic.family(4, 3, 10)), 0.5)
    assert not provides(problem, "lower_grad_x") and provides(problem, "upper_hvp")
    assert "lower_grad_x" not in {check.name for check in nbo.check_problem(problem, np.ones(3), np.ones(4)).checks}


def test_single_precision():
    case = LinearCase("binary", dtype=np.float32)
    problem = AggregatedProblem(case.problem, 0.3)
    assert problem.dtype == np.float32
    result = nbo.minimize(problem, np.full(4, -2.0), tol=1e-3, max_iter=200)
    assert np.isfinite(result.x).all() and problem.lower_model(*case.point()[:2]).grad_y().shape == (4,)


def test_fingerprints():
    inner = Quadratic.family(4, 3, 10)
    found = AggregatedProblem(inner, 0.5).fingerprint()
    assert found == AggregatedProblem(Quadratic.family(4, 3, 10), 0.5).fingerprint()
    assert found != AggregatedProblem(inner, 0.25).fingerprint()
    assert found != AggregatedProblem(Quadratic.family(4, 3, 11), 0.5).fingerprint()


def test_an_aggregated_problem_can_be_aggregated():
    inner, x, y = Quadratic.family(4, 3, 10), np.ones(3), np.ones(4)
    twice = AggregatedProblem(AggregatedProblem(inner, 0.5), 0.5)
    np.testing.assert_allclose(twice.lower_grad_y(x, y), AggregatedProblem(inner, 0.75).lower_grad_y(x, y), rtol=1e-13)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (1.0, r"weight: found 1; expected a number in \[0, 1\)"),
        (-0.1, "weight: found -0.1; expected a number >= 0"),
        (np.nan, "weight: found nan"),
        ("half", r"weight: found 'half' \(str\)"),
        (True, r"weight: found True \(bool\)"),
    ],
)
def test_bad_weights_are_named(weight, message):
    with pytest.raises((TypeError, ValueError), match=message):
        AggregatedProblem(ConvexToy(2), weight)


def test_bad_problems_are_named():
    with pytest.raises(TypeError, match="problem: found int; expected a BilevelProblem"):
        AggregatedProblem(3, 0.5)
    with pytest.raises(TypeError, match="Required does not define upper_hvp, upper_jvp, which the aggregated"):
        AggregatedProblem(Required(ConvexToy(2)), 0.5)
