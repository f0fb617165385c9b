"""The convex toy: its oracles, its solution, a published trajectory, and how methods refuse it."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_problems import CHOOSING

import nbo
from nbo.linear_solvers import CurvatureError
from nbo.problems import ConvexToy


@settings(max_examples=25)
@given(st.integers(1, 6), st.integers(0, 99))
def test_oracles(n, seed):
    problem, rng = ConvexToy(n), np.random.default_rng(seed)
    x, y = rng.standard_normal(n), rng.standard_normal(2 * n)
    report = nbo.check_problem(problem, x, y, random_state=seed)
    assert report, str(report)
    names = {check.name for check in report.checks}
    assert {"upper_hvp", "upper_jvp", "lower_grad_x"} <= names


@given(st.integers(1, 6), st.integers(0, 99))
def test_formulas(n, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal(n), rng.standard_normal(2 * n)
    f = sum((x[i] - y[n + i]) ** 2 + (y[i] - 1) ** 2 for i in range(n)) / 2
    g = sum(y[i] ** 2 / 2 - x[i] * y[i] for i in range(n))
    assert ConvexToy(n).upper_value(x, y) == pytest.approx(f, abs=1e-12)
    assert ConvexToy(n).lower_value(x, y) == pytest.approx(g, abs=1e-12)


def test_the_solution_is_optimistic_and_unique():
    """Over lower-level solutions (x, y_2), f is |x - y_2|^2/2 + |x - e|^2/2, whose Hessian is positive definite."""
    problem = ConvexToy(3)
    x, y = problem.solution
    assert problem.upper_value(x, y) == 0
    np.testing.assert_array_equal(problem.lower_grad_y(x, y), 0)
    rng = np.random.default_rng(0)
    for x, y_2 in rng.standard_normal((20, 2, 3)):
        y = np.concatenate([x, y_2])
        np.testing.assert_array_equal(problem.lower_grad_y(x, y), 0)
        assert problem.upper_value(x, y) > 0


def test_the_hessian_is_singular():
    hessian = ConvexToy(4).lower_model(*ConvexToy(4).start).hessian @ np.eye(8)
    np.testing.assert_array_equal(hessian, np.diag([1.0] * 4 + [0.0] * 4))


def test_size_start_and_fingerprint():
    problem = ConvexToy()
    assert (problem.dim_x, problem.dim_y) == (100, 200)
    for found, size in zip(problem.start, (100, 200), strict=True):
        np.testing.assert_array_equal(found, np.full(size, 0.01))
    problem.start[0][:] = 5
    assert problem.start[0][0] == 0.01
    assert ConvexToy(3).fingerprint() == ConvexToy(3).fingerprint() != ConvexToy(4).fingerprint()
    bounded = ConvexToy(3)
    bounded.bounds = (-1, 1)
    assert bounded.fingerprint() != ConvexToy(3).fingerprint()
    with pytest.raises(ValueError, match="n: found 0; expected an integer >= 1"):
        ConvexToy(0)


def aggregated(problem, weight):
    """Gradient and products of weight f + (1 - weight) g."""
    rest = 1 - weight
    return (
        lambda x, y: weight * problem.upper_grad(x, y)[1] + rest * problem.lower_grad_y(x, y),
        lambda x, y, v: weight * problem.upper_hvp(x, y, v) + rest * problem.lower_hvp(x, y, v),
        lambda x, y, u: weight * problem.upper_jvp(x, y, u) + rest * problem.lower_jvp(x, y, u),
    )


@pytest.mark.parametrize(("name", "n_inner"), [("bamm", 0), ("bamm_nbo_T5", 5)])
def test_trajectories_of_an_independent_implementation(repository, name, n_inner):
    """Gradient steps on both systems of the aggregated lower level, from the stored start."""
    stored = json.loads((repository / "tests" / "golden" / "trajectories.json").read_text())["problems"]["toy"]
    problem = ConvexToy(len(stored["x0"]))
    gamma, alpha = stored["step_yu"], stored["alpha"]
    x, y, u = (np.array(stored[part]) for part in ("x0", "y0", "u0"))
    for k in range(20):
        gradient, hvp, jvp = aggregated(problem, 0.9 / (k + 1) ** 0.1)
        grad_1, grad_2 = problem.upper_grad(x, y)
        rhs = np.stack([gradient(x, y), hvp(x, y, u) - grad_2])
        steps = gamma * rhs
        for _ in range(n_inner):
            steps = steps + gamma * (rhs - np.stack([hvp(x, y, step) for step in steps]))
        x, y, u = x - alpha * (grad_1 - jvp(x, y, u)), y - steps[0], u - steps[1]
        expected = stored["algorithms"][name].get(str(k + 1))
        if expected:
            for part, value in zip("xyu", (x, y, u), strict=True):
                np.testing.assert_allclose(value, expected[part], rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", CHOOSING)
@pytest.mark.parametrize("seed", [None, 0])
def test_no_method_for_strongly_convex_lower_levels_claims_success(method, seed):
    problem = ConvexToy(4)
    x0, y0 = problem.start if seed is None else map(np.random.default_rng(seed).standard_normal, (4, 8))
    try:
        result = nbo.minimize(problem, x0, y0=y0, method=method, max_iter=100)
    except CurvatureError as error:
        assert "g must be strongly convex in y" in str(error)
    else:
        assert not result.success
        assert result.status in (nbo.Status.DIVERGED, nbo.Status.ITERATION_LIMIT, nbo.Status.STALLED)


def test_where_h_is_factorised_the_message_names_its_curvature():
    problem = ConvexToy(4)
    x0, y0 = problem.start
    with pytest.raises(CurvatureError, match="curvature 0 at this point; g must be strongly convex in y"):
        nbo.minimize(problem, x0, y0=y0, method="nbo-cholesky")
    with pytest.raises(CurvatureError, match="g must be strongly convex in y"):
        nbo.hypergradient(problem, np.full(4, 0.5))
    result = nbo.minimize(problem, x0, y0=y0, method="nbo-cg")
    assert result.status == nbo.Status.DIVERGED
    assert "curvature 0 at this point; g must be strongly convex in y" in result.message
