"""FSLA against a loop written out by hand, and SOBA as its special case."""

import numpy as np
import pytest
from reference_problems import Recorded, SampledQuadratic

import nbo

STEPS = {"step_size": 0.05, "inner_step_size": 0.2, "batch_size": 5, "sampler": "window"}
START = {"x0": [0.5, -0.3, 0.2], "y0": [0.1, 0.2, -0.4, 0.3], "u0": [1.0, -0.5, 0.2, 0.4]}


def record(method="fsla", n_iter=15, **options):
    problem = Recorded(SampledQuadratic())
    result = nbo.minimize(problem, method=method, max_iter=n_iter, random_state=2, options=STEPS | options, **START)
    return result, problem.replay()


@pytest.mark.parametrize("share", [True, False])
def test_the_iteration(share):
    result, replay = record(momentum=0.7, share_batches=share)
    x, y, u = map(np.array, START.values())
    old, d_x = (x, y, u), np.zeros(3)
    for k in range(15):
        d_y, product = replay.lower_grad_y(x, y), replay.lower_hvp(x, y, u)
        jvp = replay.lower_jvp(x, y, u)
        grad_1, grad_2 = replay.upper_grad(x, y)
        new = grad_1 - jvp
        if k > 0:
            jvp = replay.lower_jvp(*old)
            new = new + 0.7 * (d_x - (replay.upper_grad(*old[:2])[0] - jvp))
        d_x, old = new, (x, y, u)
        x, y, u = x - 0.05 * d_x, y - 0.2 * d_y, u - 0.2 * (product - grad_2)
    for found, expected in zip((result.x, result.y, result.u), (x, y, u), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


def test_the_momentum_starts_at_the_first_gradient():
    """Public code starts it at zero, so that the first step is wrong."""
    first, _ = record(n_iter=1, momentum=0.9)
    soba, _ = record("soba", n_iter=1)
    np.testing.assert_array_equal(first.x, soba.x)
    assert np.abs(first.x - START["x0"]).max() > 1e-3


@pytest.mark.parametrize("share", [True, False])
def test_without_momentum_it_is_soba(share):
    found, _ = record(momentum=0.0, share_batches=share)
    soba, _ = record("soba", share_batches=share)
    for part in "xyu":
        np.testing.assert_allclose(found[part], soba[part], rtol=0, atol=1e-14)


def test_over_all_samples_it_is_soba_whatever_the_momentum():
    found, _ = record(momentum=0.9, batch_size="full")
    soba, _ = record("soba", batch_size="full")
    np.testing.assert_allclose(found.x, soba.x, rtol=0, atol=1e-13)


def test_shared_batches_are_one_batch_at_both_points():
    problem = Recorded(SampledQuadratic())
    nbo.minimize(problem, method="fsla", max_iter=6, random_state=2, options=STEPS, **START)
    at_new = problem.batches["lower_jvp"][:1] + problem.batches["lower_jvp"][1::2]
    for new, old, grad in zip(
        at_new[1:], problem.batches["lower_jvp"][2::2], problem.batches["lower_grad_y"][1:], strict=True
    ):
        np.testing.assert_array_equal(new, old)
        np.testing.assert_array_equal(new, grad)
