"""AmIGO, StocBiO, ALSET, BSA and TTSA on minibatches, against loops written out by hand."""

import numpy as np
import pytest
from reference_problems import Recorded, SampledQuadratic

import nbo
from nbo.sampling import coin, make_streams, seed_of
from nbo.schedules import PowerDecay

STEPS = {"step_size": 0.05, "inner_step_size": 0.2, "batch_size": 5, "sampler": "window"}
START = np.array([0.5, -0.3, 0.2])


def record(method, n_iter=12, seed=3, **options):
    problem = Recorded(SampledQuadratic())
    result = nbo.minimize(
        problem, START, y0=[0.1, 0.2, -0.4, 0.3], method=method, max_iter=n_iter, random_state=seed,
        options=STEPS | options,
    )  # fmt: skip
    return result, problem.replay()


def double_loop(replay, adjoint, n_iter, alpha, rho, Q):
    """The common iteration, with `adjoint` (k, x, y, u, grad_2) -> u."""
    x, y, u = START.copy(), np.array([0.1, 0.2, -0.4, 0.3]), np.zeros(4)
    for k in range(n_iter):
        for _ in range(Q):
            y = y - rho(k) * replay.lower_grad_y(x, y)
        grad_1, grad_2 = replay.upper_grad(x, y)
        u = adjoint(k, x, y, u, grad_2)
        x = x - alpha(k) * (grad_1 - replay.lower_jvp(x, y, u))
    return x, y, u


def assert_result(result, expected):
    for found, wanted in zip((result.x, result.y, result.u), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-13)


def neumann_sum(replay, eta, N):
    def adjoint(k, x, y, u, grad_2):
        term = eta * grad_2
        total = term.copy()
        for _ in range(N):
            term = term - eta * replay.lower_hvp(x, y, term)
            total += term
        return total

    return adjoint


@pytest.mark.parametrize("sampler", ["window", "iid"])
def test_stocbio(sampler):
    result, replay = record("stocbio", n_lower_steps=3, n_linear_steps=4, sampler=sampler)
    expected = double_loop(replay, neumann_sum(replay, 0.2, 4), 12, lambda k: 0.05, lambda k: 0.2, 3)
    assert_result(result, expected)
    assert result.counts == nbo.StocBiO(step_size=1, n_lower_steps=3, n_linear_steps=4).cost_per_iteration(4) * 12


def test_the_series_has_a_step_of_its_own():
    result, replay = record("stocbio", linear_step_size=0.1, n_linear_steps=4, n_lower_steps=2)
    assert_result(result, double_loop(replay, neumann_sum(replay, 0.1, 4), 12, lambda k: 0.05, lambda k: 0.2, 2))


def test_a_decaying_inner_step_does_not_shorten_the_series():
    """Its first value is eta; a schedule of eta is used as it is."""
    steps = {"inner_step_size": PowerDecay(0.2, 0.4), "step_size": PowerDecay(0.05, 0.6)}
    result, replay = record("stocbio", n_lower_steps=1, n_linear_steps=3, **steps)
    expected = double_loop(
        replay, neumann_sum(replay, 0.2, 3), 12, lambda k: 0.05 / (k + 1) ** 0.6, lambda k: 0.2 / (k + 1) ** 0.4, 1
    )
    assert_result(result, expected)
    functions, _ = record(
        "stocbio", n_lower_steps=1, n_linear_steps=3,
        **{name: (lambda k, s=schedule: s(k)) for name, schedule in steps.items()}, linear_step_size=lambda k: 0.2,
    )  # fmt: skip
    assert_result(functions, expected)


def drawn_product(replay, eta, N, seed):
    role = nbo.StocBiO(step_size=1).streams(SampledQuadratic())
    streams = make_streams(0, seed_of(seed), role, True)

    def adjoint(k, x, y, u, grad_2):
        term = N * eta * grad_2
        for _ in range(int(coin(streams, k) * N)):
            term = term - eta * replay.lower_hvp(x, y, term)
        return term

    return adjoint


@pytest.mark.parametrize(("method", "Q"), [("alset", 4), ("bsa", 4), ("ttsa", 1)])
def test_randomly_truncated_products(method, Q):
    result, replay = record(method, n_iter=20, n_linear_steps=5, **({} if Q == 1 else {"n_lower_steps": Q}))
    assert_result(result, double_loop(replay, drawn_product(replay, 0.2, 5, 3), 20, lambda k: 0.05, lambda k: 0.2, Q))
    assert 20 < result.counts.lower_hvp < 60 and result.counts.lower_grad_y == 20 * Q


@pytest.mark.parametrize("method", ["alset", "bsa", "ttsa"])
def test_the_sum_in_place_of_the_drawn_product(method):
    result, replay = record(method, n_linear_steps=5, n_lower_steps=2, truncation="sum")
    assert_result(result, double_loop(replay, neumann_sum(replay, 0.2, 4), 12, lambda k: 0.05, lambda k: 0.2, 2))
    same, _ = record("stocbio", n_linear_steps=4, n_lower_steps=2)
    np.testing.assert_array_equal(result.x, same.x)


def test_one_term_needs_no_products():
    for method in ("alset", "ttsa"):
        result, _ = record(method, n_linear_steps=1)
        assert result.counts.lower_hvp == 0
        np.testing.assert_array_equal(result.x, record(method, n_linear_steps=1, truncation="sum")[0].x)


def test_amigo_moves_x_from_the_first_iteration_on():
    """Public code took u from the start of a chunk, so that x rested throughout the first one."""
    for every in (1, 12):
        result, replay = record("amigo-sgd", n_lower_steps=2, n_linear_steps=3, eval_every=every)

        def warm(k, x, y, u, grad_2, replay=replay):
            for _ in range(3):
                u = u - 0.2 * (replay.lower_hvp(x, y, u) - grad_2)
            return u

        assert_result(result, double_loop(replay, warm, 12, lambda k: 0.05, lambda k: 0.2, 2))
    first, _ = record("amigo-sgd", n_iter=1)
    assert np.abs(first.x - START).min() > 1e-3


@pytest.mark.parametrize("N", [3, 12])
def test_the_bias_of_stocbio_is_that_of_its_truncation(N):
    """Over all samples x tends to the zero of grad_1 f - J u_N, u_N the truncated sum, and with N to the solution."""
    problem = SampledQuadratic()
    H, B, c = problem.H.mean(0), problem.B.mean(0), problem.c.mean(0)
    eta = 1 / np.linalg.eigvalsh(H)[-1]
    S = sum(eta * np.linalg.matrix_power(np.eye(4) - eta * H, q) for q in range(N + 1))

    def biased(x):
        grad_1, grad_2 = problem.upper_grad(x, np.linalg.solve(H, B @ x + c))
        return grad_1 + (S @ grad_2) @ B

    offset = biased(np.zeros(3))
    expected = np.linalg.solve(np.array([biased(e) - offset for e in np.eye(3)]).T, -offset)
    result = nbo.minimize(
        problem, START, method="stocbio", max_iter=6000,
        options={"step_size": 0.05, "inner_step_size": eta, "batch_size": "full", "n_linear_steps": N},
    )  # fmt: skip
    np.testing.assert_allclose(result.x, expected, rtol=0, atol=1e-6)
    distance = np.linalg.norm(expected - problem.solution())
    rate = 1 - eta * np.linalg.eigvalsh(H)[0]
    assert distance <= 20 * rate ** (N + 1) and (N > 5 or distance > 1e-3)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("n_linear_steps", 0, "n_linear_steps: found 0"),
        ("n_lower_steps", 1.5, "n_lower_steps: found"),
        ("linear_step_size", -1.0, "linear_step_size: found"),
        ("truncation", "none", "truncation: found 'none'"),
        ("batch_sizes", {"B1t": 5}, "batch_sizes: found B1t"),
        ("momentum", 0.5, "'alset' has no option 'momentum'"),
    ],
)
def test_bad_options(option, value, message):
    with pytest.raises((TypeError, ValueError), match=message):
        record("alset", **{option: value})
