"""A compiled problem as a user writes one: logistic loss, one log penalty for all coefficients, no cleverness."""

from __future__ import annotations

import numba
import numpy as np

import nbo


@numba.njit
def sigmoid(t):
    return 1 / (1 + np.exp(-t))


def lower_value(data, lo, hi, scale, x, y, out):
    A, b, _ = data.lower
    for i in range(lo, hi):
        out[0] += scale * (np.log1p(np.exp(-b[i] * np.dot(A[i], y))) + np.exp(x[0]) * np.dot(y, y) / 2)


def lower_grad_y(data, lo, hi, scale, x, y, out):
    A, b, _ = data.lower
    for i in range(lo, hi):
        slope = -b[i] * sigmoid(-b[i] * np.dot(A[i], y))
        for j in range(y.shape[0]):
            out[j] += scale * (slope * A[i, j] + np.exp(x[0]) * y[j])


def lower_hvp(data, lo, hi, scale, x, y, V, out):
    A, _, _ = data.lower
    for i in range(lo, hi):
        s = sigmoid(np.dot(A[i], y))
        for k in range(V.shape[0]):
            product = s * (1 - s) * np.dot(A[i], V[k])
            for j in range(y.shape[0]):
                out[k, j] += scale * (product * A[i, j] + np.exp(x[0]) * V[k, j])


@numba.njit(error_model="numpy")
def lower_grad_y_and_hvp(data, lo, hi, scale, x, y, u, out):
    A, b, _ = data.lower
    for i in range(lo, hi):
        s = sigmoid(b[i] * np.dot(A[i], y))
        slope, product = -b[i] * (1 - s), s * (1 - s) * np.dot(A[i], u)
        for j in range(y.shape[0]):
            out[0, j] += scale * (slope * A[i, j] + np.exp(x[0]) * y[j])
            out[1, j] += scale * (product * A[i, j] + np.exp(x[0]) * u[j])


def lower_jvp(data, lo, hi, scale, x, y, u, out):
    out[0] += scale * (hi - lo) * np.exp(x[0]) * np.dot(y, u)


def upper_value(data, lo, hi, scale, x, y, out):
    A, b, _ = data.upper
    for i in range(lo, hi):
        out[0] += scale * np.log1p(np.exp(-b[i] * np.dot(A[i], y)))


def upper_grad(data, lo, hi, scale, x, y, out_x, out_y):
    A, b, _ = data.upper
    for i in range(lo, hi):
        slope = -b[i] * sigmoid(-b[i] * np.dot(A[i], y))
        for j in range(y.shape[0]):
            out_y[j] += scale * slope * A[i, j]


KERNELS = {
    "lower_value": lower_value,
    "lower_grad_y": lower_grad_y,
    "lower_hvp": lower_hvp,
    "lower_grad_y_and_hvp": lower_grad_y_and_hvp,
    "lower_jvp": lower_jvp,
    "upper_value": upper_value,
    "upper_grad": upper_grad,
}


def compiled_logistic(A, b, A_val, b_val, **changes):
    """The problem, equal to `BinaryLogistic` with a shared penalty."""
    arguments = {
        "lower": (A, b.astype(A.dtype)),
        "upper": (A_val, b_val.astype(A.dtype)),
        "kernels": KERNELS,
        "dim_x": 1,
        "dim_y": A.shape[1],
    }
    return nbo.CompiledProblem(**arguments | changes)
