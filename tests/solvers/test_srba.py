"""SRBA: SARAH recursions with a period."""

import numpy as np
import pytest
from reference_problems import Recorded, SampledQuadratic

import nbo

STEPS = {"step_size": 0.05, "inner_step_size": 0.2, "batch_size": 5, "sampler": "window"}
START = {"x0": [0.5, -0.3, 0.2], "y0": [0.1, 0.2, -0.4, 0.3], "u0": [1.0, -0.5, 0.2, 0.4]}


def record(method="srba", n_iter=14, **options):
    problem = Recorded(SampledQuadratic())
    result = nbo.minimize(problem, method=method, max_iter=n_iter, random_state=2, options=STEPS | options, **START)
    return result, problem.replay()


def parts(replay, x, y, u):
    d_y, product, jvp = replay.lower_grad_y(x, y), replay.lower_hvp(x, y, u), replay.lower_jvp(x, y, u)
    grad_1, grad_2 = replay.upper_grad(x, y)
    return grad_1 - jvp, d_y, product - grad_2


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("period", [1, 4, 50])
def test_the_iteration(period, share):
    result, replay = record(period=period, share_batches=share)
    z, alpha = tuple(map(np.array, START.values())), (0.05, 0.2, 0.2)
    old = D = z
    for k in range(14):
        new = parts(replay, *z)
        if k % period:
            new = tuple(d + n - o for d, n, o in zip(D, new, parts(replay, *old), strict=True))
        D, old = new, z
        z = tuple(part - step * d for part, step, d in zip(z, alpha, D, strict=True))
    for found, expected in zip((result.x, result.y, result.u), z, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


def test_period_one_is_the_full_batch_method():
    found, _ = record(period=1)
    full, _ = record("soba", batch_size="full")
    np.testing.assert_allclose(found.x, full.x, rtol=0, atol=1e-14)
    assert found.counts == full.counts and found.samples == full.samples


def test_the_default_period_is_an_epoch():
    found, _ = record(n_iter=12)  # 5 blocks: iterations 0, 5 and 10 are full
    assert 2 * 12 - found.counts.lower_grad_y == 3


@pytest.mark.parametrize("value", [0, -1, 2.5, "often"])
def test_bad_periods(value):
    with pytest.raises((TypeError, ValueError), match="period: found"):
        record(period=value)
