"""BinaryLogistic against plain formulas, over layouts, types and penalties."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_problems import logistic_data
from sklearn.linear_model import LogisticRegression

import nbo

PENALTIES = {"feature": "feature", "shared": "shared", "groups": np.array([0, 1, 1, 0, 2])}
LAYOUTS = {
    "C": lambda A: A,
    "F": np.asfortranarray,
    "csr": sp.csr_matrix,
    "csr_array": sp.csr_array,
    "csc": sp.csc_matrix,
    "coo": sp.coo_matrix,
    "read-only": lambda A: read_only(A),
    "strided": lambda A: np.repeat(A, 2, axis=1)[:, ::2],
}


def read_only(A):
    A = A.copy()
    A.flags.writeable = False
    return A


def reference(A, b, A_val, b_val, factors, y):
    """g, grad_2 g, H as plain NumPy formulas."""
    margins = b * (A @ y)
    sigma = 1 / (1 + np.exp(margins))
    g = np.mean(np.log1p(np.exp(-margins))) + factors @ y**2 / 2
    gradient = -A.T @ (b * sigma) / len(b) + factors * y
    hessian = (A.T * (sigma * (1 - sigma))) @ A / len(b) + np.diag(factors)
    return g, gradient, hessian


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_oracles_equal_the_formulas(penalty, layout):
    A, b, A_val, b_val = logistic_data()
    problem = nbo.problems.BinaryLogistic(
        LAYOUTS[layout](A), b, LAYOUTS[layout](A_val), b_val, penalty=PENALTIES[penalty]
    )
    assert problem.dtype == np.float64
    rng = np.random.default_rng(3)
    x, y, u = rng.standard_normal(problem.dim_x), *rng.standard_normal((2, 5))
    groups = {"feature": np.arange(5), "shared": np.zeros(5, int)}.get(penalty, PENALTIES[penalty])
    factors = np.exp(x)[groups]
    g, gradient, hessian = reference(A, b, A_val, b_val, factors, y)
    f, grad_2, _ = reference(A_val, b_val, None, None, np.zeros(5), y)
    jvp = np.bincount(groups, weights=factors * y * u)
    grad_x = np.bincount(groups, weights=factors * y**2) / 2
    model = problem.lower_model(x, y)
    for found, expected in [
        (problem.lower_value(x, y), g), (problem.lower_grad_y(x, y), gradient), (problem.upper_value(x, y), f),
        (problem.lower_hvp(x, y, u), hessian @ u), (problem.lower_jvp(x, y, u), jvp),
        (problem.lower_grad_x(x, y), grad_x), (problem.upper_grad(x, y)[1], grad_2),
        (problem.upper_grad(x, y)[0], np.zeros(problem.dim_x)),
        (model.hvp(np.stack([u, y])), [hessian @ u, hessian @ y]), (model.value(), g),
        (model.grad_y(), gradient), (model.grad_y_and_hvp(u)[1], hessian @ u), (model.jvp(u), jvp),
    ]:  # fmt: skip
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("prior", [None, (-2.0, 0.5)])
def test_taylor_slopes(penalty, prior):
    problem = nbo.problems.BinaryLogistic(*logistic_data(), penalty=PENALTIES[penalty], prior=prior)
    rng = np.random.default_rng(2)
    report = nbo.check_problem(problem, rng.standard_normal(problem.dim_x), rng.standard_normal(5))
    assert report, str(report)


def test_memory_maps_are_read_and_not_copied(tmp_path):
    A, b, A_val, b_val = logistic_data()
    paths = []
    for i, X in enumerate((A, A_val)):
        paths.append(tmp_path / f"{i}.npy")
        np.save(paths[-1], X)
    maps = [np.load(path, mmap_mode="r") for path in paths]
    mapped = nbo.problems.BinaryLogistic(maps[0], b, maps[1], b_val)
    assert np.shares_memory(mapped.A, maps[0])
    plain = nbo.problems.BinaryLogistic(A, b, A_val, b_val)
    results = [nbo.minimize(p, np.zeros(5), max_iter=10, tol=0) for p in (mapped, plain)]
    np.testing.assert_array_equal(results[0].x, results[1].x)


@pytest.mark.parametrize("method", ["nbo-gd", "nbo-cg", "amigo-cg", "nbo-cholesky"])
def test_sparse_equals_dense_and_float32_is_close(method):
    data = logistic_data()
    runs = []
    for convert in (np.asarray, sp.csr_matrix, lambda A: A.astype(np.float32)):
        A, b, A_val, b_val = data
        problem = nbo.problems.BinaryLogistic(convert(A), b, convert(A_val), b_val)
        runs.append(
            nbo.minimize(problem, np.full(5, -2.0), method=method, max_iter=40, tol=0, options={"step_size": 0.5})
        )
    for part in "xyu":
        np.testing.assert_allclose(runs[1][part], runs[0][part], atol=1e-10)
        np.testing.assert_allclose(runs[2][part], runs[0][part], atol=1e-4)
        assert runs[2][part].dtype == np.float64


def test_data_are_never_written():
    A, b, A_val, b_val = logistic_data()
    copies = [X.copy() for X in (A, b, A_val, b_val)]
    nbo.minimize(nbo.problems.BinaryLogistic(A, b, A_val, b_val), np.zeros(5), max_iter=20)
    for before, after in zip(copies, (A, b, A_val, b_val), strict=True):
        np.testing.assert_array_equal(before, after)
    sparse = sp.csr_matrix(A)
    sparse.indices[:2] = sparse.indices[:2][::-1].copy()  # unsorted
    before = sparse.indices.copy()
    nbo.minimize(nbo.problems.BinaryLogistic(sparse, b, A_val, b_val), np.zeros(5), max_iter=5)
    np.testing.assert_array_equal(sparse.indices, before)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_agrees_with_scikit_learn(C, weighted, intercept):
    """e^x = 1/(C n), with n the sum of the weights."""
    A, b, A_val, b_val = logistic_data()
    weights = np.random.default_rng(0).uniform(0.2, 3, 60) if weighted else None
    problem = nbo.problems.BinaryLogistic(
        A, b, A_val, b_val, penalty="shared", sample_weight=weights, fit_intercept=intercept
    )
    model = LogisticRegression(C=C, fit_intercept=intercept, tol=1e-11, max_iter=10_000).fit(A, b, weights)
    total = weights.sum() if weighted else 60
    y = nbo.solve_lower_level(problem, [-np.log(C * total)], tol=1e-10).y
    coef, offset = problem.coefficients(y)
    np.testing.assert_allclose(coef, model.coef_, atol=1e-6)
    np.testing.assert_allclose(offset, model.intercept_, atol=1e-6)
    np.testing.assert_array_equal(problem.predict(A_val, y), model.predict(A_val))


@settings(max_examples=25)
@given(st.lists(st.integers(0, 59), min_size=1, max_size=80), st.integers(0, 40), st.integers(1, 60))
def test_batches(indices, start, length):
    problem = nbo.problems.BinaryLogistic(*logistic_data())
    A, b, _, _ = logistic_data()
    x, y = np.linspace(-1, 1, 5), np.linspace(1, -1, 5)
    for batch in (np.array(indices), slice(start, start + length), slice(59, 20, -3)):
        sigma = 1 / (1 + np.exp(b[batch] * (A[batch] @ y)))
        expected = -A[batch].T @ (b[batch] * sigma) / len(b[batch]) + np.exp(x) * y
        np.testing.assert_allclose(problem.lower_grad_y(x, y, batch=batch), expected, atol=1e-12)
    whole = problem.lower_hvp(x, y, y)
    np.testing.assert_allclose(problem.lower_hvp(x, y, y, batch=np.arange(60)), whole, atol=1e-13)


@pytest.mark.parametrize(
    ("batch", "error", "message"),
    [
        (np.array([0.5]), TypeError, "batch: found an array of shape \\(1,\\) and type float64"),
        (np.array([], int), ValueError, "empty batch"),
        (slice(5, 5), ValueError, "empty batch"),
        (np.array([60]), IndexError, "batch: found indices from 60 to 60; expected 0 to 59"),
    ],
)
def test_bad_batches(batch, error, message):
    with pytest.raises(error, match=message):
        nbo.problems.BinaryLogistic(*logistic_data()).lower_grad_y(np.zeros(5), np.zeros(5), batch=batch)


def test_bounds_prior_and_dimensions():
    data = logistic_data()
    problem = nbo.problems.BinaryLogistic(*data)
    np.testing.assert_allclose(problem.bounds, [[-np.log(60) - 9.2] * 5, [12.0] * 5])
    assert (problem.n_samples_lower, problem.n_samples_upper) == (60, 40)
    with_prior = nbo.problems.BinaryLogistic(*data, prior=(np.arange(5.0), 2.0))
    x, y = np.ones(5), np.ones(5)
    added = np.sum((x - np.arange(5.0)) ** 2) / (2 * 4 * 40)
    assert with_prior.upper_value(x, y) - problem.upper_value(x, y) == pytest.approx(added)
    assert nbo.problems.BinaryLogistic(*data, bounds=(-1, 1)).bounds[0].tolist() == [-1.0] * 5


@pytest.mark.parametrize("size", [12.0, 700.0, 800.0, 1e6])
def test_extreme_penalties_stay_finite(size):
    problem = nbo.problems.BinaryLogistic(*logistic_data(), bounds=(-np.inf, np.inf))
    for x in (np.full(5, size), np.full(5, -size)):
        for y in (np.zeros(5), np.full(5, 1e-3)):
            assert np.isfinite(problem.lower_value(x, y)) and np.isfinite(problem.lower_grad_y(x, y)).all()
    result = nbo.minimize(problem, np.full(5, min(size, 800.0)), max_iter=20)
    assert np.isfinite(result.x).all() and np.isfinite(result.y).all()


def test_extreme_margins_stay_finite():
    problem = nbo.problems.BinaryLogistic(*logistic_data())
    y = np.full(5, 1e4)
    assert np.isfinite(problem.lower_value(np.zeros(5), y)) and np.isfinite(problem.lower_hvp(np.zeros(5), y, y)).all()


@settings(max_examples=20)
@given(st.integers(1, 12), st.integers(1, 8), st.integers(0, 99))
def test_small_and_wide_shapes(n, p, seed):
    rng = np.random.default_rng(seed)
    A, b = rng.standard_normal((n + 1, p)), np.where(np.arange(n + 1) % 2, 1, -1)
    A[:, 0] = 1.0  # a constant column
    problem = nbo.problems.BinaryLogistic(A, b, A[:1], b[:1], penalty="shared")
    result = nbo.minimize(problem, [0.0], tol=1e-6)
    assert result.success, result.message


def test_fingerprints():
    data = logistic_data()
    first = nbo.problems.BinaryLogistic(*data)
    assert first.fingerprint() == nbo.problems.BinaryLogistic(*data).fingerprint()
    changed = [X.copy() for X in data]
    changed[0][3, 2] += 1e-9
    others = [
        nbo.problems.BinaryLogistic(*changed),
        nbo.problems.BinaryLogistic(*data, penalty="shared"),
        nbo.problems.BinaryLogistic(*data, prior=(0, 1)),
        nbo.problems.BinaryLogistic(sp.csr_matrix(data[0]), *data[1:]),
    ]
    assert len({p.fingerprint() for p in [first, *others]}) == 5


A, B, A_VAL, B_VAL = logistic_data()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"A": A[0]}, r"A: found shape \(5,\); expected a real matrix"),
        ({"A": A.astype(complex)}, "A: found type complex128"),
        ({"A": A.astype(str)}, "A: found type <U"),
        ({"A": np.where(np.arange(300).reshape(60, 5) == 7, np.nan, A)}, r"A: found nan at index \(1, 2\)"),
        ({"A": np.where(np.arange(300).reshape(60, 5) == 7, np.inf, A)}, r"A: found inf at index \(1, 2\)"),
        ({"A": sp.csr_matrix(np.where(A[0, 0] == A, np.nan, A))}, r"A \(stored values\): found nan at index 0"),
        ({"A": np.empty((0, 5)), "b": np.empty(0)}, r"A: found shape \(0, 5\); expected at least one row"),
        ({"A_val": A_VAL[:, :3]}, r"A_val: found 3 columns; expected 5, as in A"),
        ({"A_val": np.full((40, 5), np.nan)}, "A_val: found nan"),
        ({"b": B[:-1]}, r"b: found shape \(59,\); expected \(60,\)"),
        (
            {"b": (B + 1) // 2},
            r"b: found labels \{0, 1\}; expected -1 and \+1 \(map them by np.where\(b == 1, 1, -1\)\)",
        ),
        ({"b": np.where(B > 0, "yes", "no")}, r"b: found labels \{'no', 'yes'\}.*np.where\(b == 'yes', 1, -1\)"),
        ({"b": np.arange(60)}, r"60 different labels"),
        ({"b": np.ones(60)}, r"b: found only the class \+1; expected both classes"),
        ({"b": np.zeros(60)}, r"b: found labels \{0.0\}.*only one class"),
        ({"b": np.where(B > 0, 1, np.nan)}, "b: found nan"),
        ({"b_val": B_VAL + 1}, r"b_val: found labels \{0, 2\}"),
        ({"penalty": "ridge"}, "penalty: found 'ridge'; expected 'feature', 'shared'"),
        ({"penalty": [0, 1]}, r"penalty: found an array of shape \(2,\)"),
        ({"penalty": np.zeros(5)}, "penalty: found an array of shape .* and type float64"),
        ({"penalty": [0, 2, 2, 0, 0]}, r"penalty: found group ids from 0 to 2, 2 different; expected 0 .. G-1"),
        ({"penalty": [-1, 0, 0, 0, 0]}, "penalty: found group ids from -1"),
        ({"prior": 3}, r"prior: found 3; expected None or a pair"),
        ({"prior": (0, 0)}, r"prior \(scale\): found 0.0"),
        ({"prior": (np.zeros(3), 1)}, r"prior \(center\): found shape \(3,\)"),
        ({"bounds": (1, 0)}, "bounds: found lower 1 > upper 0"),
    ],
)
def test_bad_arguments(changes, message):
    good = {"A": A, "b": B, "A_val": A_VAL, "b_val": B_VAL}
    with pytest.raises((TypeError, ValueError), match=message):
        nbo.problems.BinaryLogistic(**(good | changes))


def broken(change, format="csr"):
    matrix = getattr(sp, f"{format}_matrix")(A)
    change(matrix)
    return matrix


@pytest.mark.parametrize("format", ["csr", "csc"])
@pytest.mark.parametrize(
    "change",
    [
        lambda M: M.indices.__setitem__(0, 10**8),
        lambda M: M.indices.__setitem__(0, -1),
        lambda M: M.indices.__setitem__(0, M.shape[M.format == "csr"]),
        lambda M: M.indptr.__setitem__(-1, 10**6),
        lambda M: M.indptr.__setitem__(1, 10**6),
        lambda M: M.indptr.__setitem__(2, M.indptr[1] - 1),
        lambda M: M.indptr.__setitem__(0, 1),
    ],
)
def test_inconsistent_sparse_matrices_are_refused(change, format):
    """Compiled code would follow them out of memory."""
    with pytest.raises(ValueError, match=rf"A: found a {format} matrix"):
        nbo.problems.BinaryLogistic(broken(change, format), B, A_VAL, B_VAL)


@pytest.mark.parametrize("index", [np.int16, np.uint32, np.int32, np.int64, ">i4"])
def test_any_index_type_is_taken(index):
    matrix = sp.csr_matrix(A)
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    matrix.data = np.repeat(matrix.data, 2)[::2]  # strided
    x, y = np.zeros(5), np.ones(5)
    found = nbo.problems.BinaryLogistic(matrix, B, A_VAL, B_VAL).lower_grad_y(x, y)
    np.testing.assert_allclose(found, nbo.problems.BinaryLogistic(A, B, A_VAL, B_VAL).lower_grad_y(x, y))
    assert matrix.indices.dtype == np.dtype(index)


def test_unaligned_and_foreign_data_are_taken():
    raw = np.zeros(A.nbytes + 1, np.uint8)[1:]
    unaligned = raw.view(np.float64).reshape(A.shape)
    unaligned[:] = A
    x, y = np.zeros(5), np.ones(5)
    expected = nbo.problems.BinaryLogistic(A, B, A_VAL, B_VAL).lower_grad_y(x, y)
    for data in (unaligned, A.astype(">f8"), A.astype(np.longdouble)):
        np.testing.assert_allclose(nbo.problems.BinaryLogistic(data, B, A_VAL, B_VAL).lower_grad_y(x, y), expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"b": (B + 1).astype(object)}, r"b: found labels \{0, 2\}"),
        ({"b": np.array(["a", 1] * 30, dtype=object)}, "b: found labels of mixed types"),
        ({"prior": (0, 1e-200)}, r"prior \(scale\): found 1e-200"),
        ({"prior": (0, 1e200)}, r"prior \(scale\): found 1e\+200"),
        ({"A": np.ma.masked_less(A, 0)}, "A: found a masked array"),
        ({"b": np.ma.masked_less(B, 0)}, "b: found a masked array"),
    ],
)
def test_more_bad_arguments(changes, message):
    good = {"A": A, "b": B, "A_val": A_VAL, "b_val": B_VAL}
    with pytest.raises((TypeError, ValueError), match=message):
        nbo.problems.BinaryLogistic(**(good | changes))


def test_validation_data_too_large_for_the_type_of_the_training_data():
    for convert in (np.asarray, sp.csr_matrix):
        with pytest.raises(ValueError, match=r"A_val \(as float32, the type of A\): found -?inf"):
            nbo.problems.BinaryLogistic(convert(A.astype(np.float32)), B, convert(A_VAL * 1e300), B_VAL)
