"""The forms of kernels: what is optional, what belongs together, and problems that keep curvatures."""

from __future__ import annotations

import numpy as np
import pytest
import reference_kernels
from reference_kernels import compiled_logistic, sigmoid
from reference_problems import ByBatches, logistic_data

import nbo
from nbo._kernel_forms import KEEPING, KERNELS, OPTIONAL_KERNELS, OPTIONAL_ORACLES, checked_kernels

DATA = logistic_data(23, 17, 4)
POINT = np.array([-1.5]), np.array([0.3, -0.2, 0.5, 1.0])


def lower_pass(data, lo, hi, scale, x, y, V, out_y, out_V, out_curvatures):
    A, b, _ = data.lower
    for i in range(lo, hi):
        s = sigmoid(b[i] * np.dot(A[i], y))
        out_curvatures[0, i] = s * (1 - s)
        for j in range(y.shape[0]):
            out_y[j] += scale * (-b[i] * (1 - s) * A[i, j] + np.exp(x[0]) * y[j])
        for k in range(V.shape[0]):
            product = s * (1 - s) * np.dot(A[i], V[k])
            for j in range(y.shape[0]):
                out_V[k, j] += scale * (product * A[i, j] + np.exp(x[0]) * V[k, j])


def lower_kept_hvp(data, lo, hi, scale, x, curvatures, V, out):
    A, _, _ = data.lower
    for i in range(lo, hi):
        for k in range(V.shape[0]):
            product = curvatures[0, i] * np.dot(A[i], V[k])
            for j in range(V.shape[1]):
                out[k, j] += scale * (product * A[i, j] + np.exp(x[0]) * V[k, j])


def lower_parts(data, lo, hi, scale, x, y, u, out_pair, out_samples):
    A, b, _ = data.lower
    for i in range(lo, hi):
        s = sigmoid(b[i] * np.dot(A[i], y))
        product = s * (1 - s) * np.dot(A[i], u)
        for j in range(y.shape[0]):
            out_pair[0, j] += scale * (-b[i] * (1 - s) * A[i, j] + np.exp(x[0]) * y[j])
            out_pair[1, j] += scale * (product * A[i, j] + np.exp(x[0]) * u[j])
        out_samples[0] += scale * np.exp(x[0]) * np.dot(y, u)


KEPT = {"lower_pass": lower_pass, "lower_kept_hvp": lower_kept_hvp}
ALL = reference_kernels.KERNELS | KEPT | {"lower_parts": lower_parts}


def keeping(kernels=ALL, **changes):
    return compiled_logistic(*DATA, **{"kernels": kernels, "n_curvatures": 1} | changes)


@pytest.mark.slow
def test_a_problem_that_keeps_curvatures_checks_out():
    report = nbo.check_problem(keeping(), *POINT)
    assert report, report


def test_it_multiplies_as_the_plain_kernels_do():
    model, plain = keeping().lower_model(*POINT), compiled_logistic(*DATA).lower_model(*POINT)
    V = np.stack([POINT[1], np.ones(4)])
    for _ in range(2):  # by a pass, and then with what it kept
        np.testing.assert_allclose(model.hvp(V), plain.hvp(V), rtol=1e-13)
    np.testing.assert_allclose(model.grad_y(), plain.grad_y(), rtol=1e-13)
    runs = [
        nbo.minimize(p, [-2.0], method="nbo-cg", max_iter=8, bounds=(-9, 9)) for p in (keeping(), ByBatches(keeping()))
    ]
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=1e-9)


@pytest.mark.slow
def test_one_kernel_for_a_shared_batch():
    """Loops call it alone, and count what it stands for."""
    options = {"step_size": 0.3, "inner_step_size": 0.1, "batch_size": 6, "share_batches": True}
    problem = keeping(reference_kernels.KERNELS | {"lower_parts": lower_parts}, n_curvatures=0)
    runs = [
        nbo.minimize(p, [-1.0], method="soba", max_iter=20, random_state=1, options=options)
        for p in (problem, ByBatches(keeping()))
    ]
    for part in "xyu":
        np.testing.assert_allclose(runs[1][part], runs[0][part], rtol=0, atol=1e-12)
    assert (runs[1].counts, runs[1].samples) == (runs[0].counts, runs[0].samples)
    assert not {"lower_grad_y", "lower_jvp", "lower_hvp"} & {name for name, _ in problem.compiled_kernels}
    assert abs(runs[0].x[0] + 1) > 1e-3


def wrong_order(data, lo, hi, scale, x, V, curvatures, out):
    return


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"kernels": {k: f for k, f in ALL.items() if k != "lower_pass"}}, ValueError,
         "kernels: found lower_kept_hvp alone; expected lower_pass and lower_kept_hvp, or neither"),
        ({"kernels": {k: f for k, f in ALL.items() if k != "lower_kept_hvp"}}, ValueError,
         "kernels: found lower_pass alone; expected lower_pass and lower_kept_hvp, or neither"),
        ({"kernels": ALL | {"lower_kept_hvp": wrong_order}}, TypeError,
         r"kernels\['lower_kept_hvp'\]: found parameters in the order \(data, lo, hi, scale, x, V, curvatures, out\)"),
        ({"kernels": ALL | {"lower_parts": ALL["lower_jvp"]}}, TypeError,
         r"kernels\['lower_parts'\]: found parameters .*; expected \(data, .* u, out_pair, out_samples\)"),
        ({"n_curvatures": 0}, ValueError, "n_curvatures: found 0; expected .*1"),
        ({"n_curvatures": 1.5}, TypeError, "n_curvatures: found 1.5"),
        ({"n_curvatures": -1}, ValueError, "n_curvatures: found -1"),
    ],
)  # fmt: skip
def test_bad_kernels_and_settings(changes, error, message):
    with pytest.raises(error, match=message):
        keeping(**changes)


def test_the_table_of_forms():
    """Every kernel has data, a range and a factor first; what may be left out is named."""
    for name, form in KERNELS.items():
        assert form.parameters[:4] == ("data", "lo", "hi", "scale"), name
        assert len(form.parameters) == 4 + len(form.inputs) + len(form.outputs)
    assert set(OPTIONAL_KERNELS) == {*OPTIONAL_ORACLES, *KEEPING, "lower_parts"} <= set(KERNELS)
    found = checked_kernels(reference_kernels.KERNELS)
    assert found == reference_kernels.KERNELS and found is not reference_kernels.KERNELS
