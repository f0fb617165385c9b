"""SUSTAIN, MRBO and VRBO against loops written out by hand, and where they become simpler methods."""

import numpy as np
import pytest
from reference_problems import Recorded, SampledQuadratic

import nbo
from nbo.sampling import coin, make_streams, seed_of
from nbo.schedules import PowerDecay, PowerRise

STEPS = {"step_size": 0.05, "inner_step_size": 0.2, "batch_size": 5, "sampler": "window", "n_linear_steps": 4}
X0, Y0 = np.array([0.5, -0.3, 0.2]), np.array([0.1, 0.2, -0.4, 0.3])


def record(method, n_iter=12, seed=3, **options):
    problem = Recorded(SampledQuadratic())
    result = nbo.minimize(
        problem, X0, y0=Y0, method=method, max_iter=n_iter, random_state=seed, options=STEPS | options
    )
    return result, problem.replay()


def hypergradient(replay, x, y, products, eta=0.2, factor=1.0, sums=True):
    """grad_1 f - J u, u by a sum or the last term of it."""
    grad_1, grad_2 = replay.upper_grad(x, y)
    term = factor * eta * grad_2
    u = term.copy()
    for _ in range(products):
        term = term - eta * replay.lower_hvp(x, y, term)
        u = u + term if sums else term
    return grad_1 - replay.lower_jvp(x, y, u)


def momentum_loop(replay, n_iter, beta, direction, alpha=lambda k: 0.05, rho=lambda k: 0.2):
    x, y, old = X0.copy(), Y0.copy(), None
    for k in range(n_iter):
        new_y, new_x = replay.lower_grad_y(x, y), direction(k, x, y)
        if old is None or beta(k) == 0:
            d_y, d_x = new_y, new_x
        else:
            d_y = new_y + beta(k) * (d_y - replay.lower_grad_y(*old))
            d_x = new_x + beta(k) * (d_x - direction(k, *old))
        old = x, y
        x, y = x - alpha(k) * d_x, y - rho(k) * d_y
    return x, y


def assert_result(result, expected):
    np.testing.assert_allclose(result.x, expected[0], rtol=0, atol=1e-13)
    np.testing.assert_allclose(result.y, expected[1], rtol=0, atol=1e-13)


@pytest.mark.parametrize("sampler", ["window", "iid"])
@pytest.mark.parametrize("momentum", [0.7, PowerRise(0.5, 0.5), lambda k: 0.3])
def test_mrbo(momentum, sampler):
    result, replay = record("mrbo", momentum=momentum, sampler=sampler)
    beta = momentum if callable(momentum) else lambda k: momentum
    assert_result(result, momentum_loop(replay, 12, beta, lambda k, x, y: hypergradient(replay, x, y, 4)))


def test_mrbo_makes_one_update_an_iteration_and_never_starts_its_schedules_again():
    """Public code resets them in every epoch, here of 5 iterations, and makes two updates an iteration."""
    schedules = {"step_size": PowerDecay(0.05, 1 / 3), "inner_step_size": PowerDecay(0.2, 1 / 3)}
    result, replay = record("mrbo", n_iter=20, linear_step_size=0.1, **schedules)
    beta = PowerRise(1.0, 2 / 3)
    expected = momentum_loop(
        replay, 20, lambda k: beta(k), lambda k, x, y: hypergradient(replay, x, y, 4, 0.1),
        lambda k: 0.05 / (k + 1) ** (1 / 3), lambda k: 0.2 / (k + 1) ** (1 / 3),
    )  # fmt: skip
    assert_result(result, expected)
    first = nbo.OracleCounts(upper_grad=1, lower_grad_y=1, lower_jvp=1, lower_hvp=4)
    assert result.counts == first * 39  # the first iteration has no old point


def test_sustain_draws_the_same_truncation_at_both_points():
    result, replay = record("sustain", n_iter=20, momentum=0.6)
    streams = make_streams(1, seed_of(3), nbo.SUSTAIN(step_size=1).streams(SampledQuadratic()), True)

    def direction(k, x, y):
        return hypergradient(replay, x, y, int(coin(streams, k) * 4), factor=4, sums=False)

    assert_result(result, momentum_loop(replay, 20, lambda k: 0.6, direction))


def test_sustain_with_a_sum_is_mrbo():
    same, _ = record("mrbo", n_linear_steps=3)
    result, _ = record("sustain", truncation="sum")  # four terms take three products
    np.testing.assert_array_equal(result.x, same.x)


@pytest.mark.parametrize("method", ["mrbo", "sustain"])
def test_without_a_past_it_is_sgd(method):
    """eta = 1 in the notation of STORM: no weight on the past, and one point an iteration."""
    result, replay = record(method, momentum=0.0, **({"truncation": "sum"} if method == "sustain" else {}))
    N = 3 if method == "sustain" else 4
    assert_result(result, momentum_loop(replay, 12, lambda k: 0.0, lambda k, x, y: hypergradient(replay, x, y, N)))
    assert result.counts.lower_grad_y == result.counts.lower_jvp == 12 and result.counts.lower_hvp == 12 * N


@pytest.mark.parametrize("method", ["mrbo", "sustain", "vrbo"])
def test_the_first_direction_is_the_first_gradient(method):
    """Public code starts from a memory of zeros."""
    options = {"truncation": "sum"} if method == "sustain" else {}
    result, replay = record(method, n_iter=1, momentum=0.9, **options) if method != "vrbo" else record(method, 1)
    first = hypergradient(replay, X0, Y0, 3 if method == "sustain" else 4)
    np.testing.assert_allclose(result.x, X0 - 0.05 * first, rtol=0, atol=1e-14)


def vrbo_loop(replay, n_iter, Q, period):
    x, y = X0.copy(), Y0.copy()
    for k in range(n_iter):
        if k % period == 0:
            d_y, d_x = replay.lower_grad_y(x, y), hypergradient(replay, x, y, 4)
        old, x = (x, y), x - 0.05 * d_x
        for q in range(Q + 1):  # the first correction is that of the step on x
            if q:
                old, y = (x, y), y - 0.2 * d_y
            new_y, new_x = replay.lower_grad_y(x, y), hypergradient(replay, x, y, 4)
            d_y = d_y + new_y - replay.lower_grad_y(*old)
            d_x = d_x + new_x - hypergradient(replay, *old, 4)
    return x, y


@pytest.mark.parametrize("sampler", ["window", "iid"])
@pytest.mark.parametrize("period", [1, 3, 100])
def test_vrbo(period, sampler):
    result, replay = record("vrbo", n_lower_steps=2, period=period, sampler=sampler)
    assert_result(result, vrbo_loop(replay, 12, 2, period))
    solver = nbo.VRBO(step_size=1, n_lower_steps=2, n_linear_steps=4)
    full = nbo.OracleCounts(upper_grad=1, lower_grad_y=1, lower_jvp=1, lower_hvp=4) * -(-12 // period)
    assert result.counts == solver.cost_per_iteration(4) * 12 + full


@pytest.mark.parametrize("period", [1, 5])
def test_vrbo_on_full_batches_has_exact_directions(period):
    """The corrections then telescope, so that D is the full direction at every point."""
    result, _ = record("vrbo", batch_size="full", period=period)
    other, _ = record("vrbo", batch_size="full", period=1000)
    assert_result(result, (other.x, other.y))


def test_vrbo_with_period_one_moves_x_along_the_direction_of_all_samples():
    """Whatever the minibatches of the steps on y were."""
    problem = SampledQuadratic()
    path = []
    nbo.minimize(
        problem, X0, y0=Y0, method="vrbo", max_iter=6, random_state=0, options=STEPS | {"period": 1, "eval_every": 1},
        callback=lambda intermediate_result: path.append((intermediate_result.x, intermediate_result.y)),
    )  # fmt: skip
    full = Recorded(problem)
    full.upper_grad = lambda x, y: problem.upper_grad(x, y)
    full.lower_hvp = lambda x, y, v: problem.lower_hvp(x, y, v)
    full.lower_jvp = lambda x, y, u: problem.lower_jvp(x, y, u)
    for (x, y), (following, _) in zip([(X0, Y0), *path], path, strict=False):
        np.testing.assert_allclose(following, x - 0.05 * hypergradient(full, x, y, 4), rtol=0, atol=1e-14)


def test_the_default_period_of_vrbo_is_an_epoch_of_its_batches():
    result, _ = record("vrbo", n_iter=5, n_lower_steps=1, batch_size=3)  # 8 blocks, 2 batches an iteration
    assert result.counts.lower_grad_y - 5 * 4 == 2  # iterations 0 and 4


@pytest.mark.parametrize(
    ("method", "option", "value", "message"),
    [
        ("vrbo", "period", 0, "period: found 0"),
        ("vrbo", "n_lower_steps", 0, "n_lower_steps: found 0"),
        ("mrbo", "momentum", 1.5, "momentum: found 1.5"),
        ("mrbo", "n_linear_steps", True, "n_linear_steps: found True"),
        ("sustain", "truncation", 3, "truncation: found 3"),
        ("sustain", "linear_step_size", 0, "linear_step_size: found 0"),
    ],
)
def test_bad_options(method, option, value, message):
    with pytest.raises((TypeError, ValueError), match=message):
        record(method, **{option: value})


@pytest.mark.parametrize("method", ["stocbio", "alset", "mrbo", "vrbo", "f2sa"])
def test_numbers_beyond_the_integers_of_loops_are_refused(method):
    for name in {"n_lower_steps", "n_linear_steps", "period"} & nbo.methods()[method].options.keys():
        with pytest.raises(ValueError, match=f"{name}: found {10**30}; expected an integer"):
            nbo.methods()[method].solver(step_size=0.1, **{name: 10**30})
