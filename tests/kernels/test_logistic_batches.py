"""The minibatch kernels of logistic regression against the full-batch ones and the formulas of the penalties."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from nbo.kernels.engine import compiled, entry_point
from nbo.kernels.logistic import LogisticMean
from nbo.kernels.logistic_batches import KERNELS, common
from nbo.kernels.loops import signature, type_of
from nbo.minibatches import Data

N_LOWER, N_UPPER = 203, 150
WIDTHS = (1, 3, 22, 65)
TOLERANCE = {np.float64: 1e-12, np.float32: 2e-5}


def run(name, data, dtype, *arguments):
    """Call a kernel."""
    kinds = signature(name, type_of(data), dtype)
    entry_point(compiled(KERNELS[name], kinds), kinds)(data, *arguments)


class Case:
    """Data of one width, dtype and storage, with penalties in groups and a prior."""

    def __init__(self, p, *, dtype=np.float64, sparse=False, groups=None, curvature=0.3, seed=0):
        rng = np.random.default_rng(seed)
        self.dtype, self.sparse = dtype, sparse
        self.groups = np.arange(p) % max(1, p // 2) if groups is None else np.asarray(groups)
        m = int(self.groups.max()) + 1
        self.center, self.curvature = rng.standard_normal(m), curvature
        self.A = {
            level: rng.standard_normal((n, p)).astype(dtype) * (rng.random((n, p)) < 0.6)
            for level, n in (("lower", N_LOWER), ("upper", N_UPPER))
        }
        self.b = {level: np.where(rng.random(len(A)) < 0.5, -1, 1).astype(dtype) for level, A in self.A.items()}
        self.x, self.y = rng.standard_normal(m), rng.standard_normal(p).astype(dtype)
        self.u, self.V = rng.standard_normal(p).astype(dtype), rng.standard_normal((5, p)).astype(dtype)
        self.rng = rng

    @property
    def data(self):
        return Data(self.level("lower"), self.level("upper"), common(self.groups, self.center, self.curvature))

    def level(self, name):
        return (self.stored(name), self.b[name], np.arange(len(self.b[name])))

    def stored(self, name):
        if not self.sparse:
            return self.A[name]
        matrix = sp.csr_array(self.A[name])
        return matrix.data, matrix.indices.astype(np.uint32), matrix.indptr.astype(np.uint32)

    def call(self, name, lo, hi, scale, *arguments):
        """Run a kernel, which adds to its last argument."""
        run(name, self.data, self.dtype, lo, hi, scale, self.x, self.y, *arguments)
        return arguments[-1]

    def zeros(self, *shape):
        return np.zeros(shape, self.dtype)

    def loss(self, level, lo, hi):
        return LogisticMean(self.A[level][lo:hi], self.b[level][lo:hi])

    @property
    def factors(self):
        return np.exp(self.x)[self.groups]

    def cross(self, u):
        return np.bincount(self.groups, weights=self.factors * self.y * u, minlength=len(self.x))

    def penalised(self, lo, hi, V):
        """Products of the Hessian of the mean with the rows of V."""
        loss = self.loss("lower", lo, hi)
        return loss.hvp(loss.gradient(self.y)[1], V) + (self.factors * V).astype(self.dtype)

    def expected(self, name, lo, hi, k):
        """What a kernel adds for scale = 1 / (hi - lo), an output at a time."""
        lower = self.loss("lower", lo, hi)
        y = self.y.astype(np.float64)
        gradient = lower.gradient(self.y)[0] + (self.factors * self.y).astype(self.dtype)
        distance = self.x - self.center
        if name == "lower_value":
            return [np.array([lower.value(self.y) + self.factors @ (y * y) / 2])]
        if name == "lower_grad_y":
            return [gradient]
        if name == "lower_hvp":
            return [self.penalised(lo, hi, self.V[:k])]
        if name == "lower_grad_y_and_hvp":
            return [np.stack((gradient, self.penalised(lo, hi, self.u[None])[0]))]
        if name == "lower_jvp":
            return [self.cross(self.u)]
        if name == "lower_grad_x":
            return [self.cross(self.y) / 2]
        upper = self.loss("upper", lo, hi)
        if name == "upper_value":
            return [np.array([upper.value(self.y) + self.curvature / 2 * distance @ distance])]
        if name == "upper_grad":
            return [self.curvature * distance, upper.gradient(self.y)[0]]
        if name == "upper_hvp":
            return [upper.hvp(upper.gradient(self.y)[1], self.V[:k])]
        return [np.zeros(len(self.x))]

    def inputs(self, name, k):
        if name.endswith("hvp") and name != "lower_grad_y_and_hvp":
            return [self.V[:k]]
        return [self.u] if name in ("lower_grad_y_and_hvp", "lower_jvp", "upper_jvp") else []


def agree(case, name, found, wanted):
    """Compare relative to the largest entry, since sums cancel."""
    tolerance = TOLERANCE[np.float64 if name in ("lower_jvp", "lower_grad_x") else case.dtype]
    tolerance = max(tolerance, 1e-6) if case.dtype == np.float32 else tolerance
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * max(1.0, float(np.abs(wanted).max())))


def check(case, name, lo, hi, k=1):
    wanted = case.expected(name, lo, hi, k)
    outputs = [np.zeros_like(w) for w in wanted]
    case.call(name, lo, hi, 1 / (hi - lo), *case.inputs(name, k), *outputs)
    for found, one in zip(outputs, wanted, strict=True):
        assert np.abs(one).max() > 0 or not found.any()
        agree(case, name, found, one)


@st.composite
def ranges(draw):
    n = min(N_LOWER, N_UPPER)
    lo = draw(st.integers(0, n - 1))
    return lo, draw(st.integers(lo + 1, n))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@settings(deadline=None, max_examples=40)
@given(st.sampled_from(WIDTHS), ranges(), st.sampled_from((1, 2, 3, 5)), st.integers(0, 99))
def test_double_precision(name, sparse, p, rows, k, seed):
    check(Case(p, sparse=sparse, seed=seed), name, *rows, k)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@settings(deadline=None, max_examples=15)
@given(st.sampled_from(WIDTHS), ranges(), st.sampled_from((1, 2, 3)), st.integers(0, 99))
def test_single_precision(name, sparse, p, rows, k, seed):
    check(Case(p, dtype=np.float32, sparse=sparse, seed=seed), name, *rows, k)


@pytest.mark.parametrize("groups", [np.arange(22), np.zeros(22, int), np.arange(22) // 5], ids=["own", "one", "fives"])
@pytest.mark.parametrize("name", KERNELS)
def test_groups(name, groups):
    check(Case(22, groups=groups), name, 3, 90, 2)


@pytest.mark.parametrize("name", ["upper_value", "upper_grad"])
def test_without_a_prior(name):
    case = Case(22, curvature=0.0)
    wanted = case.expected(name, 0, 64, 1)
    outputs = [np.zeros_like(w) for w in wanted]
    case.call(name, 0, 64, 1 / 64, *outputs)
    for found, one in zip(outputs, wanted, strict=True):
        agree(case, name, found, one)
    if name == "upper_grad":
        assert not outputs[0].any()


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_kernels_add_and_parts_sum(name, sparse):
    case, k, scale = Case(22, sparse=sparse), 3, 0.01
    whole = case.expected(name, 5, 140, k)
    outputs = [np.ones_like(w) for w in whole]
    for lo, hi in ((5, 6), (6, 70), (70, 140)):
        case.call(name, lo, hi, scale, *case.inputs(name, k), *outputs)
    for found, one in zip(outputs, whole, strict=True):
        agree(case, name, found, 1 + scale * 135 * one)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
def test_rows_outside_the_range_do_not_matter(sparse):
    case = Case(22, sparse=sparse)
    before = case.call("lower_grad_y_and_hvp", 10, 50, 1.0, case.u, case.zeros(2, 22))
    case.A["lower"][:10] = case.A["lower"][50:] = np.nan
    after = case.call("lower_grad_y_and_hvp", 10, 50, 1.0, case.u, case.zeros(2, 22))
    np.testing.assert_array_equal(before, after)
    assert np.isfinite(after).all()


@pytest.mark.parametrize("name", [name for name in KERNELS if name not in ("lower_jvp", "lower_grad_x", "upper_jvp")])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("column", [0, 21])
def test_nan_propagates(name, sparse, column):
    case = Case(22, sparse=sparse)
    for A in case.A.values():
        A[37, column] = np.nan
    outputs = [np.zeros_like(w) for w in case.expected(name, 0, 1, 2)]
    case.call(name, 30, 64, 1.0, *case.inputs(name, 2), *outputs)
    assert np.isnan(outputs[-1]).any()
    if name not in ("lower_value", "upper_value"):
        assert np.isnan(outputs[-1][..., column]).all()


@pytest.mark.parametrize("name", KERNELS)
def test_nan_in_y_propagates(name):
    case = Case(22)
    case.y[4] = np.nan
    wanted = case.expected("lower_jvp" if name == "upper_jvp" else name, 0, 1, 2)
    outputs = [np.zeros_like(w) for w in wanted]
    case.call(name, 0, 64, 1.0, *case.inputs(name, 2), *outputs)
    assert np.isnan(outputs[-1]).any() or name == "upper_jvp"


@pytest.mark.parametrize("name", KERNELS)
def test_extreme_penalties_are_finite(name):
    case = Case(22, groups=np.arange(22))
    case.x = np.where(np.arange(22) % 2, 700.0, -700.0)
    check(case, name, 0, 64, 2)
    beyond = [np.zeros_like(w) for w in case.expected(name, 0, 64, 2)]
    clipped = [np.zeros_like(w) for w in beyond]
    case.curvature = 0.0
    case.call(name, 0, 64, 1 / 64, *case.inputs(name, 2), *clipped)
    case.x *= 3
    case.call(name, 0, 64, 1 / 64, *case.inputs(name, 2), *beyond)
    for one, other in zip(clipped, beyond, strict=True):
        assert np.isfinite(other).all()
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", KERNELS)
def test_large_margins_are_finite(name, dtype):
    case = Case(22, dtype=dtype)
    case.y *= dtype(1e4)
    wanted = case.expected(name, 0, 64, 2)
    outputs = [np.zeros_like(w) for w in wanted]
    case.call(name, 0, 64, 1 / 64, *case.inputs(name, 2), *outputs)
    for found, one in zip(outputs, wanted, strict=True):
        assert np.isfinite(found).all()
        agree(case, name, found, one)


def test_long_single_precision_sums():
    rng = np.random.default_rng(0)
    n = 50_000
    A = rng.standard_normal((n, 3)).astype(np.float32) + np.float32(1)
    b, y = np.ones(n, np.float32), np.full(3, 0.1, np.float32)
    level = (A, b, np.arange(n))
    data = Data(level, level, common(np.zeros(3, int), np.zeros(1), 0.0))
    found = np.zeros(3, np.float32)
    run("upper_grad", data, np.float32, 0, n, 1 / n, np.zeros(1), y, np.zeros(1), found)
    exact = LogisticMean(A.astype(np.float64), b.astype(np.float64)).gradient(y.astype(np.float64))[0]
    np.testing.assert_allclose(found, exact, rtol=5e-6)


def test_read_only_data_and_inputs():
    case = Case(22)
    for array in (*case.A.values(), *case.b.values(), case.x, case.y, case.u, case.V):
        array.flags.writeable = False
    check(case, "lower_grad_y_and_hvp", 0, 64)


@pytest.mark.slow
def test_plain_python():
    code = f"""
import numba
assert numba.config.DISABLE_JIT
import sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
import numpy as np
import test_logistic_batches as tests
for sparse in (False, True):
    for dtype in (np.float64, np.float32):
        case = tests.Case(5, sparse=sparse, dtype=dtype)
        for name in tests.KERNELS:
            tests.check(case, name, 3, 80, 3)
"""
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
