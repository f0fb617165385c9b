"""The passes over dense and sparse rows against plain formulas, bounded by a forward error analysis."""

from __future__ import annotations

import hashlib
import pickle
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from nbo.kernels import engine
from nbo.kernels.logistic import LogisticMean

STORAGES = ["dense", "int32", "int64", "mixed"]


class Case(NamedTuple):
    data: object
    A: np.ndarray  # dense copy in float64
    b: np.ndarray
    y: np.ndarray
    V: np.ndarray


def stored(A, storage):
    """The same rows in a storage, with an empty row's and a doubled entry's share of sparse oddities."""
    if storage == "dense":
        return A
    matrix = sp.csr_array(A)
    if storage != "int32":
        matrix.indices = matrix.indices.astype(np.int64)
    if storage == "int64":
        matrix.indptr = matrix.indptr.astype(np.int64)
    return matrix


def make_case(seed, n, p, k=2, storage="dense", dtype=np.float64, margin=1.0):
    """A case whose largest sum |A| |y| is `margin`."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, p)).astype(dtype)
    if storage != "dense":
        A *= rng.random((n, p)) < 0.3
    y = rng.standard_normal(p)
    y = (y * margin / max(float((abs(A) @ abs(y)).max()), 1e-3)).astype(dtype)
    b = np.where(rng.random(n) < 0.5, -1, 1).astype(dtype)
    V = rng.standard_normal((k, p)).astype(dtype)
    return Case(stored(A, storage), A.astype(np.float64), b, y, V)


def underflow(dtype):
    """What a curvature weight that underflows may cost in a product."""
    return 1e5 * float(np.finfo(dtype).tiny)


def assert_close(found, expected, bound, dtype):
    assert found.dtype == dtype
    assert found.shape == expected.shape
    assert np.all(abs(found.astype(np.float64) - expected) <= bound + underflow(dtype))


def check(case):
    """Compare all methods with double-precision formulas, within what rounding can explain."""
    data, A, b, y, V = case
    dtype, (n, p) = data.dtype, A.shape
    eps = float(np.finfo(dtype).eps)
    mean = LogisticMean(data, b)
    b, y, V = (a.astype(np.float64) for a in (b, y, V))
    t = b * (A @ y)
    shift = (p + 10) * eps * (abs(A) @ abs(y))  # error of the margins
    coefficients, w = -b * expit(-t) / n, expit(t) * expit(-t) / n
    w_error = w * np.expm1(2 * shift) + 10 * eps * w
    g_error = abs(A).T @ (w * np.expm1(2 * shift) + (n + 20) * eps * abs(coefficients))
    products = (A.T @ (w[:, np.newaxis] * (A @ V.T))).T
    h_error = (abs(A).T @ ((w_error + (n + p + 20) * eps * w)[:, np.newaxis] * (abs(A) @ abs(V).T))).T

    values = np.logaddexp(0, -t)
    value_error = np.sum(abs(coefficients) * n * np.expm1(2 * shift) + (n * 2e-16 + 10 * eps) * values) / n
    assert abs(mean.value(case.y) - values.mean()) <= value_error + underflow(dtype)
    gradient, weights = mean.gradient(case.y)
    assert_close(gradient, A.T @ coefficients, g_error, dtype)
    assert_close(weights, w, w_error, dtype)
    gradient, product, weights = mean.gradient_and_hvp(case.y, case.V[0])
    assert_close(gradient, A.T @ coefficients, g_error, dtype)
    assert_close(product, products[0], h_error[0], dtype)
    assert_close(weights, w, w_error, dtype)
    assert_close(mean.hvp(weights, case.V), products, h_error, dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("storage", STORAGES)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 70),
    p=st.integers(1, 40),
    k=st.integers(1, 10),
    margin=st.sampled_from([0.01, 1.0, 30.0, 1e4]),
)
def test_matches_formulas(storage, dtype, seed, n, p, k, margin):
    check(make_case(seed, n, p, k, storage, dtype, margin))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("storage", ["dense", "int32"])
@pytest.mark.parametrize(("n", "p"), [(1, 1), (3000, 3), (2051, 50), (259, 700), (5, 4000)])
def test_matches_formulas_over_many_blocks(storage, dtype, n, p):
    check(make_case(n, n, p, 3, storage, dtype))


def test_single_precision_sums_stay_close_to_double():
    case = make_case(0, 200_003, 3, dtype=np.float32)
    A = abs(case.A)  # one sign, so that no cancellation hides a long sum's drift
    data, b = A.astype(np.float32), np.ones(len(A), np.float32)
    single, double = LogisticMean(data, b), LogisticMean(A, b.astype(np.float64))
    y, V = case.y, abs(case.V)
    for found, expected in zip(single.gradient_and_hvp(y, V[0]), double.gradient_and_hvp(y, V[0]), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    weights = double.gradient(y)[1]
    found = single.hvp(weights.astype(np.float32), V)
    np.testing.assert_allclose(found, double.hvp(weights, V), rtol=1e-6)
    assert single.value(y) == pytest.approx(double.value(y), rel=1e-6)


@pytest.mark.parametrize("storage", ["dense", "int32"])
def test_derivatives_have_the_right_taylor_slopes(storage):
    case = make_case(3, 60, 7, storage=storage)
    mean = LogisticMean(case.data, case.b)
    y, d = case.y, case.V[0]
    gradient, product, _ = mean.gradient_and_hvp(y, d)
    steps = 2.0 ** -np.arange(3, 9)
    moved = [y + h * d for h in steps]
    errors = [
        [abs(mean.value(z) - mean.value(y) - h * gradient @ d) for h, z in zip(steps, moved, strict=True)],
        [np.linalg.norm(mean.gradient(z)[0] - gradient - h * product) for h, z in zip(steps, moved, strict=True)],
    ]
    for remainder in errors:
        slopes = np.diff(np.log2(remainder)) / np.diff(np.log2(steps))
        np.testing.assert_allclose(slopes[-3:], 2, atol=0.1)


@pytest.mark.parametrize("storage", ["dense", "int32"])
def test_hessian_is_symmetric_and_a_wide_product_forms_it(storage):
    case = make_case(4, 50, 20, storage=storage)
    mean = LogisticMean(case.data, case.b)
    weights = mean.gradient(case.y)[1]
    H = mean.hvp(weights, np.eye(20))
    np.testing.assert_allclose(H, H.T, rtol=1e-13, atol=1e-16)
    np.testing.assert_allclose(H, case.A.T @ (weights[:, np.newaxis] * case.A), rtol=1e-12, atol=1e-16)
    columns = np.concatenate([mean.hvp(weights, np.eye(20)[[c]]) for c in range(20)])
    np.testing.assert_allclose(H, columns, rtol=1e-12, atol=1e-16)


def test_empty_rows_and_duplicate_entries():
    values, indices, indptr = np.array([1.0, 2.0, 4.0]), np.array([1, 1, 0], np.int32), np.array([0, 0, 3, 3], np.int32)
    matrix = sp.csr_array((values, indices, indptr), shape=(3, 2))
    A = np.array([[0.0, 0.0], [4.0, 3.0], [0.0, 0.0]])
    y, V = np.array([0.1, -0.2]), np.array([[1.0, 2.0], [0.5, -1.0]])
    check(Case(matrix, A, np.array([1.0, -1.0, 1.0]), y, V))
    check(Case(sp.csr_array((2, 3)), np.zeros((2, 3)), np.array([1.0, -1.0]), np.ones(3), np.ones((2, 3))))


def mapped(array, path):
    """A read-only memory map with the same content."""
    array.tofile(path)
    return np.memmap(path, array.dtype, "r", shape=array.shape)


def frozen(array, path):
    array = array.copy()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("protect", [mapped, frozen])
@pytest.mark.parametrize("storage", ["dense", "int32"])
def test_protected_inputs_share_the_compilation_of_writable_ones(storage, protect, tmp_path):
    case = make_case(5, 40, 6, storage=storage)

    def run(mean, y, V):
        *vectors, weights = mean.gradient_and_hvp(y, V[0])
        return [np.float64(mean.value(y)), *vectors, weights, mean.hvp(weights, V), mean.hvp(weights, V[:1])]

    expected = run(LogisticMean(case.data, case.b), case.y, case.V)
    before = len(engine._dispatchers)
    protected = iter(protect(a, tmp_path / f"{i}") for i, a in enumerate([case.b, case.y, *parts(case.data), case.V]))
    b, y = next(protected), next(protected)
    if storage == "dense":
        data = next(protected)
    else:
        data = sp.csr_array(case.data)
        data.data, data.indices, data.indptr = (next(protected) for _ in range(3))
    for found, wanted in zip(run(LogisticMean(data, b), y, next(protected)), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert len(engine._dispatchers) == before
    assert all(len(kernel.signatures) == 1 for kernel in engine._dispatchers.values())


def parts(data):
    return [data] if isinstance(data, np.ndarray) else [data.data, data.indices, data.indptr]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("storage", STORAGES)
def test_inputs_are_unchanged_and_results_repeat_bit_by_bit(storage, dtype):
    case = make_case(6, 900, 11, 3, storage, dtype)
    inputs = [*parts(case.data), case.b, case.y, case.V]

    def digest():
        return [hashlib.sha256(a.tobytes()).hexdigest() for a in inputs]

    before, results = digest(), []
    for _ in range(2):
        mean = LogisticMean(case.data, case.b)
        gradient, product, weights = mean.gradient_and_hvp(case.y, case.V[0])
        results.append([np.float64(mean.value(case.y)), gradient, product, weights, mean.hvp(weights, case.V)])
    for first, second in zip(*results, strict=True):
        assert first.tobytes() == second.tobytes()
    assert digest() == before


def test_data_are_viewed_and_not_copied():
    case = make_case(7, 30, 5, storage="int32")
    views = LogisticMean(case.data, case.b)._rows.arrays
    assert all(np.shares_memory(view, part) for view, part in zip(views, parts(case.data), strict=True))
    assert np.shares_memory(LogisticMean(case.A, case.b)._rows.arrays, case.A)


@pytest.mark.parametrize("storage", STORAGES)
def test_pickled_copy_gives_the_same_and_carries_no_machine_code(storage):
    case = make_case(10, 30, 5, storage=storage)
    mean = LogisticMean(case.data, case.b)
    expected = mean.gradient(case.y)[0]
    copy = pickle.loads(pickle.dumps(mean))
    assert not copy._kernels
    np.testing.assert_array_equal(copy.gradient(case.y)[0], expected)


def test_vectors_of_another_dtype_are_converted():
    case = make_case(8, 30, 5, dtype=np.float32)
    mean = LogisticMean(case.data, case.b)
    wide = case.y.astype(np.float64)
    assert mean.value(wide) == mean.value(case.y)
    np.testing.assert_array_equal(mean.gradient(wide)[0], mean.gradient(case.y)[0])
    assert mean.gradient(list(wide))[0].dtype == np.float32


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("storage", ["dense", "int32"])
def test_divergence_is_not_hidden(storage, bad):
    case = make_case(9, 30, 5, storage=storage)
    mean = LogisticMean(case.data, case.b)
    y = case.y.copy()
    y[2] = bad
    assert not np.isfinite(mean.value(y))
    if np.isnan(bad):
        assert np.isnan(mean.gradient(y)[0]).any()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"A": np.zeros((4, 3), np.int64)}, ValueError, "A has dtype int64, expected float64 or float32"),
        ({"A": np.zeros((3, 4)).T}, ValueError, "A must be C-contiguous"),
        ({"A": np.zeros(4)}, ValueError, "A has 1 dimensions, expected 2"),
        ({"A": [[0.0] * 3] * 4}, TypeError, "A is a list, expected a numpy array"),
        ({"A": sp.csc_array((4, 3))}, TypeError, "A is a sparse matrix in csc format, expected CSR"),
        ({"b": np.zeros(33, np.uint8)[1:].view(np.float64)}, ValueError, "b must be C-contiguous and aligned"),
        ({"b": np.ones(5)}, ValueError, r"b has shape \(5,\)"),
        ({"b": np.ones(4, np.float32)}, ValueError, "b has shape .* dtype float32, expected .* float64"),
        ({"y": np.ones(2)}, ValueError, r"y has shape \(2,\), expected \(3,\)"),
        ({"V": np.ones(3)}, ValueError, r"V has shape \(3,\), expected \(k, 3\)"),
        ({"weights": np.ones(3)}, ValueError, r"weights has shape \(3,\)"),
    ],
)
def test_bad_arguments_are_named(change, error, message):
    valid = {"A": np.zeros((4, 3)), "b": np.ones(4), "y": np.ones(3), "V": np.ones((2, 3)), "weights": np.ones(4)}
    given = valid | change
    with pytest.raises(error, match=message):
        mean = LogisticMean(given["A"], given["b"])
        mean.gradient(given["y"])
        mean.hvp(given["weights"], given["V"])
