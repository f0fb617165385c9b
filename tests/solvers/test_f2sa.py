"""F2SA against a loop written out by hand, its limits, and that it needs first derivatives alone."""

import numpy as np
import pytest
from reference_problems import PlainLogistic, Recorded, SampledQuadratic, logistic_data

import nbo
from nbo.oracles import CountedProblem

STEPS = {"step_size": 0.05, "inner_step_size": 0.2, "batch_size": 5, "sampler": "window", "n_lower_steps": 3}
X0, Y0 = np.array([0.5, -0.3, 0.2]), np.array([0.1, 0.2, -0.4, 0.3])


def record(n_iter=10, **options):
    problem = Recorded(SampledQuadratic())
    result = nbo.minimize(problem, X0, y0=Y0, method="f2sa", max_iter=n_iter, random_state=3, options=STEPS | options)
    return result, problem


@pytest.mark.parametrize("sampler", ["window", "iid"])
@pytest.mark.parametrize("share", [True, False])
def test_the_iteration(share, sampler):
    """Every gradient at the iterate where it belongs, which public code gets wrong for one of them."""
    result, problem = record(share_batches=share, sampler=sampler, multiplier=2.0, multiplier_increment=0.5)
    replay, (x, y, z) = problem.replay(), (X0, Y0, Y0)
    for k in range(10):
        lam = 2.0 + 0.5 * k
        for _ in range(3):
            at_y, at_z = replay.lower_grad_y(x, y), replay.lower_grad_y(x, z)
            y, z = y - 0.2 * (replay.upper_grad(x, y)[1] / lam + at_y), z - 0.2 * at_z
        penalty = replay.lower_grad_x(x, y) - replay.lower_grad_x(x, z)
        x = x - 0.05 * (replay.upper_grad(x, y)[0] + lam * penalty)
    for found, expected in zip((result.x, result.y, result.u), (x, y, z), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
    pairs = problem.batches["lower_grad_y"]
    same = [np.array_equal(a, b) for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
    assert all(same) == share


def test_it_calls_first_derivatives_alone():
    class FirstOrder(PlainLogistic):
        def lower_hvp(self, *arguments, **keywords):
            raise AssertionError("a product with H")

        def lower_jvp(self, *arguments, **keywords):
            raise AssertionError("a product with J")

    problem = FirstOrder(*logistic_data())
    for options in ({}, {"batch_size": 8}, {"batch_size": 8, "sampler": "iid"}):
        result = nbo.minimize(
            problem, np.zeros(5), method="f2sa", max_iter=50, random_state=0, options={"step_size": 0.1} | options
        )
        assert result.nit == 50 and result.fun < result.history.value[0]
        assert result.counts.lower_hvp == result.counts.lower_jvp == 0


def test_a_problem_without_the_gradient_in_x_is_refused():
    class Without(PlainLogistic):
        lower_grad_x = nbo.FiniteSumProblem.lower_grad_x

    with pytest.raises(TypeError, match="does not define lower_grad_x, which method 'f2sa' needs"):
        nbo.minimize(Without(*logistic_data()), np.zeros(5), method="f2sa", options={"step_size": 0.1})


def direction(problem, x, lam):
    """F2SA's direction with both lower problems solved."""
    result = nbo.minimize(
        problem, x, method="f2sa", max_iter=1,
        options={
            "step_size": 1e-12, "inner_step_size": 0.3, "n_lower_steps": 1000, "multiplier": lam, "batch_size": "full",
        },
    )  # fmt: skip
    return result.jac, lam * (result.u - result.y)


def test_the_direction_tends_to_the_hypergradient_like_one_over_the_multiplier():
    problem, x = SampledQuadratic(), np.array([0.3, -0.2, 0.7])
    _, u, exact = problem.exact(x)
    errors = []
    for lam in (10.0, 100.0, 1000.0):
        found, adjoint = direction(problem, x, lam)
        errors.append((np.linalg.norm(found - exact), np.linalg.norm(adjoint - u)))
    ratios = np.divide(errors[:-1], errors[1:])
    assert (ratios > 8).all() and (ratios < 11).all(), errors  # tenths, from 1/(lam + c)


@pytest.mark.slow
def test_a_growing_multiplier_leads_to_the_solution():
    problem = SampledQuadratic()
    exact = problem.solution()
    errors = []
    for n_iter in (150, 1200):
        result = nbo.minimize(
            problem, X0, method="f2sa", max_iter=n_iter,
            options={
                "step_size": 0.2, "inner_step_size": 0.3, "batch_size": "full", "n_lower_steps": 10,
                "multiplier_increment": 0.5,
            },
        )  # fmt: skip
        errors.append(np.linalg.norm(result.x - exact))
    assert errors[1] < 1e-2 and errors[1] < errors[0] / 6, errors


@pytest.mark.slow
def test_a_constant_multiplier_is_biased_as_it_should_be():
    """x tends to the minimum of f(x, y) + lam (g(x, y) - min g), y minimising the same."""
    problem, lam = SampledQuadratic(), 4.0
    H, B, c = problem.H.mean(0), problem.B.mean(0), problem.c.mean(0)
    s, r = problem.s.mean(), problem.r.mean()
    d, e = (problem.s * problem.d).mean(0), (problem.r * problem.e).mean(0)
    inverse = np.linalg.inv(H)
    # r x - e - lam B'(y - z) = 0 with z = H^{-1}(B x + c), and s y - d + lam (H y - B x - c) = 0
    system = np.block(
        [
            [r * np.eye(3) + lam * B.T @ inverse @ B, -lam * B.T],
            [-lam * B, s * np.eye(4) + lam * H],
        ]
    )
    expected = np.linalg.solve(system, np.concatenate([e - lam * B.T @ inverse @ c, d + lam * c]))
    result = nbo.minimize(
        problem, X0, method="f2sa", max_iter=1000,
        options={
            "step_size": 0.15, "inner_step_size": 0.3, "batch_size": "full", "multiplier": lam, "n_lower_steps": 8,
            "multiplier_increment": 0.0,
        },
    )  # fmt: skip
    np.testing.assert_allclose(np.concatenate([result.x, result.y]), expected, rtol=0, atol=1e-8)
    assert np.linalg.norm(expected[:3] - problem.solution()) > 1e-2


def test_u0_has_no_meaning():
    with_u0 = nbo.minimize(
        Recorded(SampledQuadratic()), X0, y0=Y0, u0=np.ones(4), method="f2sa", max_iter=10, random_state=3,
        options=STEPS,
    )  # fmt: skip
    np.testing.assert_array_equal(with_u0.u, record()[0].u)


def test_products_by_differences():
    problem = SampledQuadratic()
    view = CountedProblem(problem)
    x, y, V = np.ones(3), np.full(4, 0.3), np.eye(4)[:2] * [[1.0], [1e-3]]
    batch = np.array([0, 5, 7])
    for chosen, size in ((None, 23), (batch, 3)):
        before, samples = view.counts, view.samples
        products = view.batch_differences(x, y, chosen)(V)
        exact = [problem.lower_hvp(x, y, v, batch=chosen) for v in V]
        np.testing.assert_allclose(products, exact, rtol=1e-8, atol=1e-12)
        assert view.counts - before == nbo.OracleCounts(lower_grad_y=4)
        assert view.samples - samples == nbo.OracleCounts(lower_grad_y=4 * size)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("multiplier", 0.0, "multiplier: found 0.0"),
        ("multiplier", np.inf, "multiplier: found inf"),
        ("multiplier_increment", -0.1, "multiplier_increment: found -0.1"),
        ("n_lower_steps", 0, "n_lower_steps: found 0"),
        ("share_batches", 1, "share_batches: found 1"),
        ("batch_sizes", {"B1": 4}, "batch_sizes: found B1"),
        ("n_linear_steps", 3, "has no option 'n_linear_steps'"),
    ],
)
def test_bad_options(option, value, message):
    with pytest.raises((TypeError, ValueError), match=message):
        record(**{option: value})


def test_the_message_does_not_send_a_run_back_to_its_first_multiplier():
    """From x, y and z alone a run would begin with the first multiplier; a checkpoint goes on with the next."""
    message = record()[0].message
    assert "go on by res.save and nbo.resume" in message and "x0=res.x" not in message
    soba = nbo.minimize(SampledQuadratic(), X0, method="soba", max_iter=3, options={"step_size": 0.01}).message
    assert "go on from x0=res.x, y0=res.y, u0=res.u, or exactly by res.save" in soba
