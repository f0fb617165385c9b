"""Constants of the problems with linear models against derivatives sampled inside the tube."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from reference_problems import logistic_data

import nbo
from nbo.problems import _constants

BOX = (-3.0, 0.5)
PRIOR = (-1.0, 1.0)
SIZE, SIZE_VAL, P, C = 24, 16, 4, 3
BY_COLUMN, BY_ENTRY = np.array([0, 1, 1, 0]), np.arange(12).reshape(C, P) % 5
CASES = [
    *[("logistic", penalty) for penalty in ("feature", "shared", BY_COLUMN)],
    *[("softmax", penalty) for penalty in ("class", "feature", "shared", "class-feature", BY_COLUMN, BY_ENTRY)],
    *[("one target", penalty) for penalty in ("feature", "shared")],
    *[("targets", penalty) for penalty in ("target", "feature", "target-feature", BY_ENTRY)],
    ("cleaning", 0.2),
]
KINDS = [("logistic", "feature"), ("softmax", "class"), ("targets", BY_ENTRY), ("cleaning", 0.05)]
EXACT = ("mu", "L_g1", "L_g2", "L_f0", "L_f1", "C_f0")


def data(scale=1.0, p=P):
    """Rows that are off centre, classes and targets: A, A_val, labels, labels_val, targets, targets_val."""
    rng = np.random.default_rng(0)
    A, A_val = rng.standard_normal((SIZE, p)) + 0.3, rng.standard_normal((SIZE_VAL, p)) + 0.3
    truth = 2 * rng.standard_normal((C, p))
    scores = [X @ truth.T + rng.standard_normal((len(X), C)) for X in (A, A_val)]
    return scale * A, scale * A_val, *(s.argmax(axis=1) for s in scores), *scores


def weights(whole=True):
    rng = np.random.default_rng(1)
    given = rng.integers(0, 4, SIZE), rng.integers(0, 4, SIZE_VAL)
    return given if whole else (given[0] + 0.3, given[1] + 0.1)


def build(kind, penalty, *, weighted=False, rows=None, **settings):
    A, A_val, b, b_val, t, t_val = rows or data()
    if weighted:
        settings |= dict(zip(("sample_weight", "sample_weight_val"), weights(), strict=True))
    if kind != "cleaning":
        settings |= {"penalty": penalty, "prior": PRIOR}
    if kind == "logistic":
        b, b_val = np.where(b > 0, 1, -1), np.where(b_val > 0, 1, -1)
        return nbo.problems.BinaryLogistic(A, b, A_val, b_val, **settings)
    if kind == "softmax":
        return nbo.problems.MultinomialLogistic(A, b, A_val, b_val, **settings)
    if kind == "cleaning":
        return nbo.problems.HyperCleaning(A, b, A_val, b_val, ridge=penalty, **settings)
    columns = slice(0, 1) if kind == "one target" else slice(None)
    return nbo.problems.Ridge(A, t[:, columns], A_val, t_val[:, columns], **settings)


def unit(rng, n):
    v = rng.standard_normal(n)
    return v / np.linalg.norm(v)


def size(parts):
    """The norm of a vector, or the spectral norm of a matrix."""
    return np.linalg.norm(parts, 2)


class Derivatives:
    """All derivatives at one point, as dense arrays."""

    def __init__(self, problem, x, y):
        directions = np.eye(problem.dim_y)
        self.second = problem.lower_model(x, y).hvp(directions)
        self.mixed = np.stack([problem.lower_jvp(x, y, u) for u in directions])
        self.grad_1, self.grad_2 = problem.upper_grad(x, y)


def points(problem, box, constants, count):
    """Points of the box and, for each, a point in the tube, on its border or at its centre."""
    rng = np.random.default_rng(2)
    for k in range(count):
        x = rng.choice(box, problem.dim_x) if k % 2 else rng.uniform(*box, problem.dim_x)
        if k < 2:
            x = np.full(problem.dim_x, box[k])
        y = nbo.solve_lower_level(problem, x, tol=1e-10).y
        radius = rng.choice([0.0, 0.5, 0.999]) * constants.mu / (2 * constants.L_g2)
        yield x, y + radius * unit(rng, problem.dim_y)


def moves(problem, second):
    """Small moves of (x, y): in x alone, in y alone, along eigenvectors, and in both."""
    rng, (m, n) = np.random.default_rng(3), (problem.dim_x, problem.dim_y)
    ends = np.linalg.eigh(second)[1][:, [0, -1]].T
    for dx, dy in [
        (np.ones(m) / np.sqrt(m), np.zeros(n)), (np.eye(m)[rng.integers(m)], np.zeros(n)), (np.zeros(m), ends[0]),
        (np.zeros(m), ends[1]), (np.zeros(m), unit(rng, n)), (unit(rng, m), unit(rng, n)),
    ]:  # fmt: skip
        yield 1e-4 * dx, 1e-4 * dy


def ratios(problem, box, count=8):
    """Each constant over the largest value that samples need, and what samples allow over mu."""
    c = problem.constants(bounds=box)
    needed = dict.fromkeys(["1/mu", "L_g1", "L_g2", "L_f0", "L_f1", "C_f0"], 0.0)

    def need(name, value):
        needed[name] = max(needed[name], value)

    for x, y in points(problem, box, c, count):
        here = Derivatives(problem, x, y)
        eigenvalues = np.linalg.eigvalsh(here.second)
        need("1/mu", 1 / eigenvalues[0])
        need("L_g1", max(eigenvalues[-1], size(here.mixed)))
        need("L_f0", size(here.grad_2))
        need("C_f0", size(here.grad_1))
        for dx, dy in moves(problem, here.second):
            there, length = Derivatives(problem, x + dx, y + dy), np.hypot(size(dx), size(dy))
            changes = max(size(there.second - here.second), size(there.mixed - here.mixed))
            need("L_g2", changes / length)
            need("L_f1", np.hypot(size(there.grad_1 - here.grad_1), size(there.grad_2 - here.grad_2)) / length)
    constants = {"1/mu": 1 / c.mu} | {name: getattr(c, name) for name in EXACT[1:]}
    return {name: constants[name] / value for name, value in needed.items() if value}


def deviation(parts):
    """The root mean square of how far single rows are from their mean."""
    parts = np.asarray(parts)
    return np.sqrt(np.mean([size(part) ** 2 for part in parts - parts.mean(axis=0)]))


def row_derivatives(kind, A, b, W):
    """First and second derivatives of every row's loss in its margins, (n, c) and (n, c, c)."""
    margins, eye = A @ W.T, np.eye(len(W))
    if kind == "targets":
        return margins - b, np.broadcast_to(eye, (len(A), *eye.shape))
    if kind == "logistic":
        chances, right = 1 / (1 + np.exp(-margins)), (b[:, None] > 0)
    else:
        chances, right = np.exp(margins), eye[b]
        chances /= chances.sum(axis=1, keepdims=True)
    return chances - right, chances[:, :, None] * eye - chances[:, :, None] * chances[:, None, :]


def noise_ratios(kind, problem, box, count=3):
    """The bounds over the deviations of w l' a', w l'' (x) a a', and for learned weights w sigma' l' a' in one row."""
    c, least = problem.constants(bounds=box), {}
    A, A_val, b, b_val, t, t_val = data()
    w, w_val = problem.data.lower[2], problem.data.upper[2]
    b, b_val = (t, t_val) if kind == "targets" else (b, b_val)
    for x, y in points(problem, box, c, count):
        W, trust = y.reshape(problem.n_outputs, -1), np.ones(SIZE)
        if kind == "cleaning":
            trust = 1 / (1 + np.exp(-x))
        first, second = row_derivatives(kind, A, b, W)
        upper = w_val[:, None] * row_derivatives(kind, A_val, b_val, W)[0]
        slopes = np.einsum("iq,ij->iqj", w[:, None] * first, A).reshape(SIZE, -1)
        products = np.einsum("iqr,ij,ik->iqjrk", (w * trust)[:, None, None] * second, A, A)
        mixed = np.eye(SIZE)[:, :, None] * ((1 - trust) * trust)[:, None, None] * slopes[:, None, :]
        for name, bound, parts in [
            ("f1", c.sigma_f1, np.einsum("iq,ij->iqj", upper, A_val).reshape(SIZE_VAL, -1)),
            ("g1", c.sigma_g1, trust[:, None] * slopes),
            ("g2", c.sigma_g2, products.reshape(SIZE, y.size, y.size)),
            ("mixed", c.sigma_g2, mixed),
        ]:
            if found := deviation(parts):
                least[name] = min(least.get(name, np.inf), bound / found)
    return least


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("kind", "penalty"), CASES, ids=lambda v: v if isinstance(v, str) else None)
def test_constants_bound_sampled_derivatives(kind, penalty, weighted):
    problem = build(kind, penalty, weighted=weighted)
    box = (-4.0, 4.0) if kind == "cleaning" else BOX
    found = ratios(problem, box)
    print({name: round(float(value), 2) for name, value in found.items()})  # shown by pytest -rP
    assert min(found.values()) > 1 - 1e-6, found
    assert problem.constants(bounds=box).kind == "bound"


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("kind", "penalty"), KINDS, ids=lambda v: v if isinstance(v, str) else None)
def test_noise_of_single_rows(kind, penalty, weighted):
    found = noise_ratios(kind, build(kind, penalty, weighted=weighted), BOX)
    assert {"f1", "g1", "g2"} <= set(found) and min(found.values()) >= 1, found


@pytest.mark.parametrize("scale", [0.02, 0.3, 3.0])
@pytest.mark.parametrize("same", [False, True])
def test_mixed_derivatives_of_cleaning(scale, same):
    """In small rows they are larger than the second ones; in equal rows all entries of x act together."""
    A, *rest = data(scale)
    problem = build("cleaning", 1e-3 * scale, rows=(np.tile(A[:1], (SIZE, 1)) if same else A, *rest))
    assert min(ratios(problem, (-2.0, 2.0), count=4).values()) > 1 - 1e-6


@pytest.mark.parametrize(("kind", "penalty"), KINDS[:3], ids=lambda v: v if isinstance(v, str) else None)
def test_weak_penalties_and_more_columns_than_rows(kind, penalty):
    p = SIZE + 6
    penalty = penalty if isinstance(penalty, str) else np.arange(C * p).reshape(C, p) % 5
    assert min(ratios(build(kind, penalty, rows=data(p=p)), (-6.0, -5.0), count=3).values()) > 1 - 1e-6


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("kind", "penalty"), KINDS[:3])
def test_constants_of_folds_bound_samples(kind, penalty, weighted):
    """Those of cross-validation, whose mixed derivative has a block a fold."""
    whole = build(kind, penalty, weighted=weighted)
    rows = np.arange(SIZE)
    problem = nbo.problems.CrossValidation(whole, [(rows[rows % 3 != k], rows[rows % 3 == k]) for k in range(3)])
    found = ratios(problem, BOX, count=5)
    assert set(found) == {"1/mu", "L_g1", "L_g2", "L_f0", "L_f1", "C_f0"}
    assert min(found.values()) > 1 - 1e-6, found
    assert max(found[name] for name in ("1/mu", "L_g1", "L_f1")) < 40, found


def test_one_shared_penalty_has_a_larger_cross_derivative():
    """A = I, b = 1, e^x = 1e-3: |nabla_12 g| exceeds what a per-feature formula would give."""
    A, b = np.eye(100), np.ones(100)
    b[0] = -1
    problem = nbo.problems.BinaryLogistic(A, b, A, b, penalty="shared")
    x = np.log([1e-3])
    y = nbo.solve_lower_level(problem, x).y
    cross = abs(problem.lower_jvp(x, y, y / np.linalg.norm(y))[0])
    assert 0.0105 < cross <= problem.constants(bounds=(x, x)).L_g1


@pytest.mark.parametrize(("kind", "penalty"), KINDS[:3], ids=lambda v: v if isinstance(v, str) else None)
def test_whole_weights_are_repeated_rows(kind, penalty):
    """But for the noise: a row with weight 2 is drawn as often as others and counts twice, two rows are two draws."""
    w, w_val = weights()
    repeated = [np.repeat(array, w if len(array) == SIZE else w_val, axis=0) for array in data()]
    one, many = build(kind, penalty, weighted=True), build(kind, penalty, rows=repeated)
    first, second = one.constants(bounds=BOX), many.constants(bounds=BOX)
    for name in EXACT:
        assert getattr(first, name) == pytest.approx(getattr(second, name), rel=1e-9), name
    assert first.sigma_f1 > second.sigma_f1 and first.sigma_g1 > second.sigma_g1


def test_weights_count_relative_to_their_mean():
    plain, weighted = build("softmax", "class"), build("softmax", "class", sample_weight=np.full(SIZE, 7.0))
    for name, value in dataclasses.asdict(plain.constants()).items():
        assert getattr(weighted.constants(bounds=plain.bounds), name) == (
            value if isinstance(value, str) else pytest.approx(value)
        )


@pytest.mark.parametrize(("kind", "penalty"), KINDS, ids=lambda v: v if isinstance(v, str) else None)
@pytest.mark.parametrize("tol", [1e-2, 1e-5])
def test_errors_of_hypergradients_are_bounds(kind, penalty, tol):
    problem = build(kind, penalty, weighted=True)
    x = np.linspace(-2, 0, problem.dim_x)
    found = nbo.hypergradient(problem, x, tol=tol)
    accurate = nbo.hypergradient(problem, x, y0=found.y, tol=1e-12)
    assert accurate.error_kind == "bound"
    if found.error_kind == "bound":
        assert size(found.grad - accurate.grad) <= found.error + accurate.error
    assert accurate.error < 1e-8


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("kind", "penalty"), KINDS, ids=lambda v: v if isinstance(v, str) else None)
def test_intercepts_make_estimates(kind, penalty, weighted):
    problem = build(kind, penalty, weighted=weighted, fit_intercept=True)
    c = problem.constants(bounds=BOX)
    x = np.full(problem.dim_x, BOX[0])
    y = nbo.solve_lower_level(problem, x).y
    smallest = np.linalg.eigvalsh(Derivatives(problem, x, y).second)[0]
    assert c.kind == "estimate" and smallest / 30 < c.mu < 1.01 * smallest
    found = ratios(problem, BOX, count=3)
    assert min(value for name, value in found.items() if name != "1/mu") > 1 - 1e-6, found
    assert nbo.hypergradient(problem, x).error_kind == "estimate"


def test_intercepts_of_a_squared_loss_need_no_estimate():
    """Its Hessian depends on x alone, and most at the lower corner."""
    assert ratios(build("targets", "target", fit_intercept=True), BOX, count=4)["1/mu"] > 1 - 1e-6


def test_intercepts_of_cleaning_without_bounds():
    problem = build("cleaning", 0.2, fit_intercept=True)
    assert problem.constants().mu == problem.constants(bounds=(0.0, 9.0)).mu > problem.constants(bounds=(-9.0, 0)).mu


def test_large_matrices_are_bounded_by_the_frobenius_norm(monkeypatch):
    exact = build("softmax", "class").constants(bounds=BOX)
    monkeypatch.setattr(_constants, "_LARGEST_GRAM", 3)
    found = build("softmax", "class").constants(bounds=BOX)
    assert found.L_g1 > exact.L_g1 and found.L_g2 > exact.L_g2 and found.L_f1 > exact.L_f1
    assert found.mu == exact.mu


def doubled(A):
    """A as a CSR matrix with every entry stored in two halves."""
    matrix = sp.csr_matrix(A)
    parts = np.repeat(matrix.data / 2, 2), np.repeat(matrix.indices, 2), 2 * matrix.indptr
    return sp.csr_matrix(parts, shape=A.shape)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_matrix, sp.csr_array, doubled])
@pytest.mark.parametrize("shape", [(30, 4), (4, 30)])
@pytest.mark.parametrize("with_one", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_moments_of_any_layout(convert, shape, with_one, dtype, monkeypatch):
    monkeypatch.setattr(_constants, "_ENTRIES", 50)  # several blocks
    rng = np.random.default_rng(0)
    A, w = rng.standard_normal(shape).astype(dtype), rng.uniform(0, 2, shape[0])
    rows = np.hstack([A, np.ones((shape[0], int(with_one)))])
    expected = np.linalg.eigvalsh((rows.T * w) @ rows / shape[0])
    smallest, largest = _constants._moment(convert(A), w, np.linalg.norm(rows, axis=1), with_one)
    assert largest == pytest.approx(expected[-1], rel=1e-6) and largest >= expected[-1] * (1 - 1e-15)
    assert smallest == pytest.approx(max(expected[0], 0), rel=1e-6, abs=1e-9) and smallest <= max(expected[0], 0)
    found = _constants._columns(convert(A), w)
    np.testing.assert_allclose(found, [w @ np.abs(A) / shape[0], w @ A.astype(float) ** 2 / shape[0]], rtol=1e-6)


def test_constants_of_cleaning_need_no_box():
    problem = build("cleaning", 0.2)
    assert problem.constants() == problem.constants(bounds=(np.full(SIZE, -1.0), 3.0))
    with pytest.raises(ValueError, match="bounds: found lower 1 > upper 0"):
        problem.constants(bounds=(1, 0))


@pytest.mark.parametrize(("kind", "penalty"), KINDS[:3], ids=lambda v: v if isinstance(v, str) else None)
def test_constants_need_a_finite_box(kind, penalty):
    with pytest.raises(ValueError, match="infinite bound"):
        build(kind, penalty, bounds=(-np.inf, 1)).constants()


@pytest.mark.parametrize(("dtype", "limit"), [(np.float64, 175), (np.float32, 85)])
def test_constants_beyond_what_is_representable(dtype, limit):
    A, b, A_val, b_val = logistic_data()
    problem = nbo.problems.BinaryLogistic(A.astype(dtype), b, A_val, b_val)
    with pytest.raises(nbo.theory.NoConstantsError, match=rf"representable for x between -{limit} and {limit}"):
        problem.constants(bounds=(-limit - 1, 0))
    with pytest.raises(nbo.theory.NoConstantsError, match="representable for x between"):
        problem.constants(bounds=(0, limit + 1))


def test_hypergradients_without_constants_have_estimated_errors():
    problem = nbo.problems.BinaryLogistic(*logistic_data())
    assert problem.constants(bounds=(-175, 175)).mu == pytest.approx(np.exp(-175))
    for x in (-1000.0, 700.0):
        assert nbo.hypergradient(problem, np.full(5, x)).error_kind == "estimate"
    A, b, A_val, b_val = logistic_data()
    huge = nbo.problems.BinaryLogistic(1e160 * A, b, A_val, b_val, penalty="shared")
    with pytest.raises(nbo.theory.NoConstantsError, match="rescale the data"):
        huge.constants(bounds=(0, 0))
