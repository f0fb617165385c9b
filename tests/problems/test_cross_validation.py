"""Cross-validation as one problem against the problems of its folds."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from reference_problems import LinearCase
from sklearn.model_selection import KFold, RepeatedKFold, StratifiedKFold

import nbo
from nbo.problems import CrossValidation

KINDS = ("binary", "multinomial", "ridge", "targets")
LAYOUTS = {"dense": np.asarray, "fortran": np.asfortranarray, "csr": sp.csr_matrix, "csc": sp.csc_array}
PRIOR = (-0.5, 0.7)
BOX = (-3.0, 0.5)
EVERYTHING = {"intercept": True, "weighted": True, "prior": PRIOR, "noise_variance": 2.5}
PAIRS = [(np.arange(8, 30), np.arange(8)), (np.r_[0:8, 20:30], np.r_[19:7:-1]), (np.r_[0:20], np.r_[20:30])]


def folded(kind, folds=PAIRS, *, layout="dense", dtype=np.float64, **options):
    """A case and its cross-validation."""
    case = LinearCase(kind, layout=LAYOUTS[layout], dtype=dtype, **options)
    return case, CrossValidation(case.problem, folds)


def separate(case, train, held_out):
    """The problem of one fold by its usual constructor, without a prior."""
    A, b, _, _ = case.data
    weights = case.options["sample_weight"]
    options = case.options | {"prior": None, "bounds": case.problem.bounds}
    for name, rows in (("sample_weight", train), ("sample_weight_val", held_out)):
        options[name] = None if weights is None else weights[rows]
    return type(case.problem)(A[train], b[train], A[held_out], b[held_out], **options)


def point(problem, seed=0):
    rng = np.random.default_rng(seed)
    y, u = rng.standard_normal((2, problem.dim_y)).astype(problem.dtype)
    return rng.standard_normal(problem.dim_x), y, u


def weight_shares(case):
    weights = case.options["sample_weight"]
    sums = np.array([held_out.size if weights is None else weights[held_out].sum() for _, held_out in PAIRS])
    return sums.sum(), sums / sums.sum()


def close(found, expected, tolerance=1e-12):
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * max(1.0, np.abs(expected).max(initial=0.0)))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_taylor_slopes(kind, layout):
    _, problem = folded(kind, layout=layout, **EVERYTHING)
    report = nbo.check_problem(problem, *point(problem)[:2])
    assert report, report
    assert {"lower_grad_x", "upper_hvp", "upper_jvp", "lower_model"} <= {check.name for check in report.checks}


@pytest.mark.parametrize("kind", KINDS)
def test_single_precision(kind):
    _, problem = folded(kind, dtype=np.float32, **EVERYTHING)
    x, y, u = point(problem)
    report = nbo.check_problem(problem, x, y)
    assert report, report
    assert {part.dtype for part in (problem, *problem.problems)} == {np.dtype(np.float32)}
    _, double = folded(kind, **EVERYTHING)  # of the same data up to rounding
    close(problem.lower_grad_y(x, y), double.lower_grad_y(x, y.astype(float)), 1e-5)
    close(problem.lower_hvp(x, y, u), double.lower_hvp(x, y.astype(float), u.astype(float)), 1e-5)
    close(problem.lower_model(x, y).hvp(u[None])[0], problem.lower_hvp(x, y, u), 1e-6)


@pytest.mark.parametrize("options", [{}, EVERYTHING], ids=["bare", "everything"])
@pytest.mark.parametrize("kind", KINDS)
def test_oracles_are_those_of_separate_problems(kind, options):
    case, problem = folded(kind, **options)
    parts = [separate(case, *pair) for pair in PAIRS]
    n_val, shares = weight_shares(case)
    x, y, u = point(problem)
    ys, us = y.reshape(3, -1), u.reshape(3, -1)
    rows = list(zip(parts, ys, us, strict=True))
    stiffness, offset = 0.0, x - PRIOR[0]
    if options:
        stiffness = (2.5 if kind in ("ridge", "targets") else 1.0) / (PRIOR[1] ** 2 * n_val)

    prior = stiffness / 2 * offset @ offset
    close(problem.upper_value(x, y), shares @ [p.upper_value(x, v) for p, v, _ in rows] + prior)
    first, second = problem.upper_grad(x, y)
    close(first, stiffness * offset)
    close(second, np.concatenate([w * p.upper_grad(x, v)[1] for w, (p, v, _) in zip(shares, rows, strict=True)]))
    expected = [w * p.upper_hvp(x, v, d) for w, (p, v, d) in zip(shares, rows, strict=True)]
    close(problem.upper_hvp(x, y, u), np.concatenate(expected))
    close(problem.upper_jvp(x, y, u), np.zeros(problem.dim_x))
    close(problem.lower_value(x, y), sum(p.lower_value(x, v) for p, v, _ in rows))
    close(problem.lower_grad_y(x, y), np.concatenate([p.lower_grad_y(x, v) for p, v, _ in rows]))
    close(problem.lower_grad_x(x, y), sum(p.lower_grad_x(x, v) for p, v, _ in rows))
    close(problem.lower_hvp(x, y, u), np.concatenate([p.lower_hvp(x, v, d) for p, v, d in rows]))
    close(problem.lower_jvp(x, y, u), sum(p.lower_jvp(x, v, d) for p, v, d in rows))


@pytest.mark.parametrize("kind", KINDS)
def test_the_hypergradient_is_the_weighted_mean(kind):
    case, problem = folded(kind, intercept=True, weighted=True)
    x, shares = point(problem)[0], weight_shares(case)[1]
    parts = [nbo.hypergradient(separate(case, *pair), x, tol=1e-10) for pair in PAIRS]
    whole = nbo.hypergradient(problem, x, tol=1e-10)
    close(whole.value, shares @ [part.value for part in parts], 1e-8)
    close(whole.grad, shares @ [part.grad for part in parts], 1e-8)
    close(problem.fold_models(whole.y), np.stack([part.y for part in parts]), 1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_one_fold_is_the_plain_problem(kind):
    train, held_out = PAIRS[1]
    case, problem = folded(kind, [(train, held_out)], **EVERYTHING)
    A, b, _, _ = case.data
    w = case.options["sample_weight"]
    options = case.options | {"sample_weight": w[train], "sample_weight_val": w[held_out]}
    plain = type(case.problem)(A[train], b[train], A[held_out], b[held_out], **options)
    x, y, u = point(problem)
    close(problem.upper_value(x, y), plain.upper_value(x, y))
    for found, expected in zip(problem.upper_grad(x, y), plain.upper_grad(x, y), strict=True):
        close(found, expected)
    close(problem.lower_grad_y(x, y), plain.lower_grad_y(x, y))
    close(problem.lower_hvp(x, y, u), plain.lower_hvp(x, y, u))
    both = [nbo.hypergradient(each, x, tol=1e-10).grad for each in (problem, plain)]
    close(both[0], both[1], 1e-8)


def test_one_fold_has_the_constants_of_the_plain_problem():
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((30, 3)), np.where(np.arange(30) % 3, 1, -1)
    train, held_out = PAIRS[0]
    whole = nbo.problems.BinaryLogistic(A, b, A, b, prior=PRIOR, bounds=BOX)
    plain = nbo.problems.BinaryLogistic(A[train], b[train], A[held_out], b[held_out], prior=PRIOR, bounds=BOX)
    found, expected = CrossValidation(whole, [(train, held_out)]).constants(), plain.constants()
    for name in ("mu", "L_g1", "L_g2", "L_f0", "L_f1", "C_f0", "kind"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name)), name


def test_weights_are_repeated_rows():
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((30, 3)), np.where(np.arange(30) % 3, 1, -1)
    weights = rng.integers(1, 4, 30)
    which = np.repeat(np.arange(30), weights)
    repeated = [tuple(np.flatnonzero(np.isin(which, part)) for part in pair) for pair in PAIRS]
    settings = {"prior": PRIOR, "fit_intercept": True}
    one = CrossValidation(nbo.problems.BinaryLogistic(A, b, A, b, sample_weight=weights, **settings), PAIRS)
    other = CrossValidation(nbo.problems.BinaryLogistic(A[which], b[which], A, b, **settings), repeated)
    x, y, u = point(one)
    close(one.upper_value(x, y), other.upper_value(x, y))
    close(one.lower_grad_y(x, y), other.lower_grad_y(x, y))
    close(one.lower_hvp(x, y, u), other.lower_hvp(x, y, u))
    close(one.bounds, other.bounds)


def test_validation_rows_do_not_count():
    A, b = np.random.default_rng(0).standard_normal((30, 3)), np.where(np.arange(30) % 3, 1, -1)
    one, other = (
        CrossValidation(nbo.problems.BinaryLogistic(A, b, rows, labels, prior=PRIOR), PAIRS)
        for rows, labels in ((A, b), (2 * A[:16], b[:16]))
    )
    x, y, _ = point(one)
    assert one.upper_value(x, y) == other.upper_value(x, y)
    assert one.fingerprint() == other.fingerprint()


class Calls:
    """A model of a fold that notes how many directions it multiplies."""

    def __init__(self, model, counts):
        self.model, self.counts = model, counts

    def hvp(self, V):
        self.counts.append(len(V))
        return self.model.hvp(V)

    def grad_y(self):
        return self.model.grad_y()

    def grad_y_and_hvp(self, u):
        self.counts.append(1)
        return self.model.grad_y_and_hvp(u)


@pytest.mark.parametrize("kind", ["binary", "ridge"])
def test_blocks_of_zeros_are_not_multiplied(kind):
    _, problem = folded(kind)
    x, y, u = point(problem)
    model, counts = problem.lower_model(x, y), ([], [], [])
    model.models = tuple(map(Calls, model.models, counts))
    V = np.stack([u, -u, 2 * u])
    blocks = problem.blocks("v", V)  # a view
    blocks[:2, 0], blocks[:, 1], blocks[0, 2] = 0, 0, 0
    close(model.hvp(V), np.stack([problem.lower_hvp(x, y, v) for v in V]))
    assert counts == ([1], [], [2])
    gradient, product = model.grad_y_and_hvp(V[1])
    close(gradient, problem.lower_grad_y(x, y))
    close(product, problem.lower_hvp(x, y, V[1]))
    assert counts == ([1], [], [2, 1])
    assert model.hvp(V[:0]).shape == (0, problem.dim_y)


def test_curvatures_are_kept(monkeypatch):
    _, problem = folded("multinomial")
    x, y, u = point(problem)
    model = problem.lower_model(x, y)
    model.grad_y()
    for part in problem.problems:
        monkeypatch.setattr(part, "kept_pass", lambda *_: pytest.fail("a second pass over the margins"))
    close(model.hvp(u[None])[0], problem.lower_hvp(x, y, u))


def test_constants_with_an_intercept_are_estimates():
    A, b = np.random.default_rng(0).standard_normal((30, 3)), np.where(np.arange(30) % 3, 1, -1)
    whole = nbo.problems.BinaryLogistic(A, b, A, b, fit_intercept=True)
    assert CrossValidation(whole, PAIRS).constants(BOX).kind == "estimate"
    with pytest.raises(ValueError, match=r"^bounds: found an infinite bound"):
        CrossValidation(whole, PAIRS).constants((-np.inf, 0.0))


def test_a_missing_class_is_kept_with_a_warning():
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((30, 3)), np.repeat(["a", "b", "c"], 10)
    whole = nbo.problems.MultinomialLogistic(A, b, A, b, penalty="class", fit_intercept=True)
    with pytest.warns(UserWarning, match=r"fold 0 none of 'a'.*fold 2 none of 'c'.*no finite.*stratify") as caught:
        problem = CrossValidation(whole, KFold(3))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert all(part.classes.tolist() == ["a", "b", "c"] for part in problem.problems)
    x, y, _ = point(problem)
    assert nbo.check_problem(problem, x, y)

    codes = np.where(b == "a", -1, 1)
    binary = nbo.problems.BinaryLogistic(A, codes, A, codes)
    with pytest.warns(UserWarning, match=r"fold 1 none of -1\.0.*: it is kept"):
        problem = CrossValidation(binary, [(np.r_[5:20], np.r_[0:5]), (np.r_[10:30], np.r_[0:10])])
    found = nbo.hypergradient(problem, np.zeros(3))
    assert np.isfinite(found.error) and found.error < 1e-6 and np.abs(found.grad).max() > 1e-4


def test_a_number_of_folds_is_shuffled_and_stratified():
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((30, 3)), np.where(np.arange(30) % 5, 1, -1)
    problem = CrossValidation(nbo.problems.BinaryLogistic(A, b, A, b), 3, random_state=4)
    expected = StratifiedKFold(3, shuffle=True, random_state=4).split(A, b)
    for found, wanted in zip(problem.folds, expected, strict=True):
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)
    assert problem.n_folds == problem.lower_blocks == 3
    assert nbo.problems.BinaryLogistic.lower_blocks == 1
    ridge = nbo.problems.Ridge(A, A @ np.ones(3), A, A @ np.ones(3))
    draws = [CrossValidation(ridge, random_state=np.random.default_rng(1)).folds for _ in range(2)]
    assert len(draws[0]) == 5
    np.testing.assert_array_equal(draws[0][0][1], draws[1][0][1])
    assert CrossValidation(ridge, RepeatedKFold(n_splits=2, n_repeats=3)).n_folds == 6


def test_masks_stand_for_rows_and_inputs_are_copied():
    A, b = np.random.default_rng(0).standard_normal((30, 3)), np.where(np.arange(30) % 3, 1, -1)
    mask, held_out = np.arange(30) < 20, np.arange(20, 30)
    problem = CrossValidation(nbo.problems.BinaryLogistic(A, b, A, b), iter([(mask, held_out)]))
    held_out[0] = 25
    np.testing.assert_array_equal(problem.folds[0][0], np.arange(20))
    np.testing.assert_array_equal(problem.folds[0][1], np.arange(20, 30))
    assert not any(rows.flags.writeable for rows in problem.folds[0])


@pytest.mark.parametrize(
    ("folds", "error", "words"),
    [
        (1, ValueError, "found 1; expected an integer >= 2"),
        (31, ValueError, "found 31; expected an integer from 2 to 30"),
        (25, ValueError, "found 25, which do not fit the labels"),
        (2.0, TypeError, "expected an integer"),
        (True, TypeError, "expected an integer"),
        ("five", TypeError, r"expected an integer >= 2, an object with split"),
        (None, TypeError, r"expected an integer >= 2, an object with split"),
        ([], ValueError, "found no pairs"),
        ([np.arange(3)], TypeError, "as fold 0; expected a pair"),
        ([(range(9), [])], ValueError, "found the held-out part of fold 0 empty"),
        ([([0, 1, 1], [2])], ValueError, "found the training part of fold 0 with 1 repetitions"),
        ([([0, 1], [1, 2])], ValueError, "found 1 rows, such as 1, in both parts of fold 0"),
        ([([0, -1], [1, 2])], ValueError, "from -1 to 0; expected different row numbers from 0 to 29"),
        ([([0, 30], [1, 2])], ValueError, "from 0 to 30"),
        ([([0.0, 1.0], [2])], TypeError, "of type float64"),
        ([([[0, 1]], [2])], TypeError, r"shape \(1, 2\)"),
        ([(np.ones(5, bool), [7])], TypeError, "of type bool"),
        ([([0, 1, 3], [2, 4])], ValueError, "all rows of the held-out part of fold 0 have weight 0"),
    ],
)
def test_bad_folds_are_refused(folds, error, words):
    A, b = np.random.default_rng(0).standard_normal((30, 3)), np.where(np.arange(30) % 2, 1, -1)
    weights = np.ones(30)
    weights[[2, 4]] = 0
    problem = nbo.problems.BinaryLogistic(A, b, A, b, sample_weight=weights)
    with pytest.raises(error, match=f"^folds: .*{words}"):
        CrossValidation(problem, folds)


def test_other_bad_arguments_are_refused():
    case, problem = folded("binary")
    with pytest.raises(TypeError, match=r"^problem: found ConvexToy; expected a BinaryLogistic"):
        CrossValidation(nbo.problems.ConvexToy(3))
    with pytest.raises(ValueError, match=r"^random_state: found 0 beside folds"):
        CrossValidation(case.problem, PAIRS, random_state=0)
    for folds in (None, "5", [], np.array(3), KFold):
        with pytest.raises((TypeError, ValueError), match=r"^folds: found .*; expected an integer >= 2, an object"):
            CrossValidation(case.problem, folds, random_state=0)
    with pytest.raises(ValueError, match=r"^random_state: found 4294967296"):
        CrossValidation(case.problem, 3, random_state=2**32)
    with pytest.raises(ValueError, match=r"^y: found shape \(5,\); expected \(12,\)"):
        problem.fold_models(np.zeros(5))
    x, y, _ = point(problem)
    with pytest.raises(ValueError, match=r"^v: found shape \(1,\); expected \(12,\)"):
        problem.lower_hvp(x, y, y[:1])


@pytest.mark.parametrize("kind", KINDS)
def test_other_penalties_on_the_same_rows(kind):
    """They give the problem that is built with them, prior and bounds included, and copy no data."""
    case = LinearCase(kind, intercept=True, weighted=True)
    built = LinearCase(kind, penalty="shared", intercept=True, weighted=True, prior=PRIOR, noise_variance=2.5)
    noise = {"noise_variance": 2.5} if kind in ("ridge", "targets") else {}
    for first, wanted in (
        (case.problem, built.problem),
        (CrossValidation(case.problem, PAIRS), CrossValidation(built.problem, PAIRS)),
    ):
        found = first.penalised("shared", PRIOR, bounds=wanted.bounds, **noise)
        x, y, u = point(wanted)
        assert found.fingerprint() == wanted.fingerprint()
        assert found.upper_value(x, y) == wanted.upper_value(x, y)
        for one, other in zip(found.upper_grad(x, y), wanted.upper_grad(x, y), strict=True):
            close(one, other)
        close(found.lower_jvp(x, y, u), wanted.lower_jvp(x, y, u))
        assert first.dim_x > found.dim_x == 1
        assert np.shares_memory(found.problems[0].A if hasattr(found, "problems") else found.A, parts_of(first).A)


def parts_of(problem):
    return problem.problems[0] if isinstance(problem, CrossValidation) else problem


@pytest.mark.parametrize("kind", KINDS)
def test_pickled_problems_are_the_same(kind):
    _, problem = folded(kind, layout="csr", **EVERYTHING)
    other = pickle.loads(pickle.dumps(problem))
    x, y, u = point(problem)
    assert other.fingerprint() == problem.fingerprint()
    assert other.upper_value(x, y) == problem.upper_value(x, y)
    np.testing.assert_array_equal(other.lower_hvp(x, y, u), problem.lower_hvp(x, y, u))


def test_the_fingerprint_tells_data_folds_and_settings():
    A, b = np.random.default_rng(0).standard_normal((30, 3)), np.where(np.arange(30) % 3, 1, -1)

    def make(data=A, labels=b, folds=PAIRS, **settings):
        return CrossValidation(nbo.problems.BinaryLogistic(data, labels, A, b, **settings), folds).fingerprint()

    changed = [
        make(), make(2 * A), make(labels=-b), make(folds=PAIRS[:2]), make(folds=PAIRS[::-1]), make(penalty="shared"),
        make(prior=PRIOR), make(prior=(0, 0.7)), make(bounds=(-3, 1)), make(fit_intercept=True),
        make(sample_weight=np.arange(30) + 1.0),
    ]  # fmt: skip
    assert len(set(changed)) == len(changed)
    assert make() == make()


def test_memory_maps_are_read_and_not_written(tmp_path):
    A, b = np.random.default_rng(0).standard_normal((30, 3)), np.where(np.arange(30) % 3, 1, -1)
    np.save(tmp_path / "A.npy", A)
    mapped = np.load(tmp_path / "A.npy", mmap_mode="r")
    one, other = (CrossValidation(nbo.problems.BinaryLogistic(rows, b, rows, b), PAIRS) for rows in (A, mapped))
    x, y, _ = point(one)
    np.testing.assert_array_equal(one.lower_grad_y(x, y), other.lower_grad_y(x, y))


def test_minimize_finds_the_best_shared_penalty():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 8))
    b = np.where(A[:, 0] + 2 * rng.standard_normal(60) > 0, 1, -1)
    problem = CrossValidation(nbo.problems.BinaryLogistic(A, b, A, b, penalty="shared"), 4, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        res = nbo.minimize(problem, [-3.0], tol=1e-6)
    assert res.success
    values = [nbo.hypergradient(problem, [x]).value for x in np.linspace(-6, 3, 10)]
    assert res.fun <= min(values) + 1e-8
