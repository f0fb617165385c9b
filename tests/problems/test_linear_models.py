"""What all problems with linear models have in common, against plain NumPy formulas and against one another."""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_problems import N_VAL, ByBatches, LinearCase, N, P

import nbo
from nbo.compiled import CompiledProblem
from nbo.kernels import linear_models

KINDS = LinearCase.KINDS
#: Penalties by the kind of a problem; "rows" and "entries" are "class" and "class-feature" or "target" and so on.
IDS, ENTRY_IDS = np.array([0, 1, 1, 2]), np.array([[0, 1, 1, 2], [2, 2, 0, 1], [3, 0, 3, 4]])
_SINGLE = {"feature": "feature", "shared": "shared", "ids": IDS, "row": IDS[None]}
_SEVERAL = {
    "rows": "rows", "feature": "feature", "shared": "shared", "entries": "entries", "ids": IDS, "all": ENTRY_IDS
}  # fmt: skip
PENALTIES = {
    "binary": _SINGLE,
    "ridge": _SINGLE,
    "multinomial": _SEVERAL,
    "targets": _SEVERAL,
    "cleaning": {"ridge": "shared"},
}
CASES = [(kind, name) for kind, penalties in PENALTIES.items() for name in penalties]
PRIOR = (-0.5, 0.7)
EVERYTHING = {"intercept": True, "weighted": True, "prior": PRIOR}
TOLERANCE = {np.float64: 1e-12, np.float32: 2e-5}


def case_of(kind, penalty="feature", *, prior=None, **options):
    """A case; hyper-cleaning has no prior."""
    prior = None if kind == "cleaning" else prior
    return LinearCase(kind, penalty=PENALTIES[kind].get(penalty, penalty), prior=prior, **options)


def close(found, expected, dtype=np.float64, **note):
    """Compare relative to the largest number, since sums cancel."""
    expected = np.asarray(expected, dtype=float)
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE[dtype] * scale, **note)


def own_upper(problem, x, y, **batch):
    return np.concatenate(problem.upper_grad(x, y, **batch))


#: Oracles as functions of (problem, x, y, u) and perhaps a batch.
ORACLES = {
    "upper_value": lambda p, x, y, u, **b: p.upper_value(x, y, **b),
    "upper_grad": lambda p, x, y, u, **b: own_upper(p, x, y, **b),
    "upper_hvp": lambda p, x, y, u, **b: p.upper_hvp(x, y, u, **b),
    "upper_jvp": lambda p, x, y, u, **b: p.upper_jvp(x, y, u, **b),
    "lower_value": lambda p, x, y, u, **b: p.lower_value(x, y, **b),
    "lower_grad_y": lambda p, x, y, u, **b: p.lower_grad_y(x, y, **b),
    "lower_grad_x": lambda p, x, y, u, **b: p.lower_grad_x(x, y, **b),
    "lower_hvp": lambda p, x, y, u, **b: p.lower_hvp(x, y, u, **b),
    "lower_jvp": lambda p, x, y, u, **b: p.lower_jvp(x, y, u, **b),
}
BATCHES = [None, slice(7, 29), np.array([3, 3, 29, 0, 3])]


@pytest.mark.parametrize("options", [{}, EVERYTHING], ids=["bare", "everything"])
@pytest.mark.parametrize(("kind", "penalty"), CASES)
def test_the_formulas_have_the_right_taylor_slopes(kind, penalty, options):
    """Of plain NumPy, so that what the problems are compared with is right."""
    case = case_of(kind, penalty, **options)
    x, y, _ = case.point()
    report = nbo.check_problem(case.plain, x, y)
    assert report, report


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "penalty"), CASES)
def test_oracles_equal_the_formulas(kind, penalty):
    """With and without an intercept, weights and a prior, over all samples and over batches."""
    for intercept, weighted, prior in itertools.product((False, True), (False, True), (None, PRIOR)):
        case = case_of(kind, penalty, intercept=intercept, weighted=weighted, prior=prior, noise_variance=2.5)
        x, y, u = case.point()
        for (name, oracle), batch in itertools.product(ORACLES.items(), BATCHES):
            wanted = oracle(case.plain, x, y, u, batch=batch)
            note = f"{name} {batch} {intercept} {weighted} {prior}"
            close(oracle(case.problem, x, y, u, batch=batch), wanted, err_msg=note)


@pytest.mark.parametrize(("kind", "penalty"), CASES)
def test_second_derivatives_as_matrices(kind, penalty):
    """H is the formula's, symmetric and positive definite, and so is J, column by column."""
    case = case_of(kind, penalty, **EVERYTHING)
    x, y, _ = case.point()
    n = case.problem.dim_y
    H = case.problem.lower_model(x, y).hvp(np.eye(n))
    close(H, case.plain.hessian(x, y))
    np.testing.assert_allclose(H, H.T, rtol=0, atol=1e-13 * np.abs(H).max())
    assert np.linalg.eigvalsh((H + H.T) / 2)[0] > 0
    J = np.stack([case.problem.lower_jvp(x, y, e) for e in np.eye(n)], axis=1)
    close(J, case.plain.cross(x, y))
    assert np.abs(J).max() > 1e-3


@pytest.mark.slow
def test_check_problem_passes():
    """Kernels, as looked at by their indices, stay within their arrays; weights of the samples are learnt here."""
    case = case_of("cleaning", **EVERYTHING)
    x, y, _ = case.point()
    report = nbo.check_problem(case.problem, x, y)
    assert report, report
    assert {"lower_grad_x", "upper_hvp", "upper_jvp", "lower_model", "kernels stay within arrays"} <= {
        check.name for check in report.checks
    }


def parts(problem, x, y, u):
    """grad_2 g, H u and J u by the one kernel for all three."""
    pair, in_x = problem.call_over_all_samples("lower_parts", x, y, u)
    if problem.x_per_sample:
        in_x = in_x[np.argsort(problem.data.lower[-1])]
    return np.concatenate([pair.ravel(), in_x])


def fused_parts(plain, x, y, u):
    return np.concatenate([plain.lower_grad_y(x, y), plain.lower_hvp(x, y, u), plain.lower_jvp(x, y, u)])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_one_kernel_for_three_oracles(kind):
    for options in ({}, EVERYTHING):
        case = case_of(kind, **options)
        point = case.point()
        close(parts(case.problem, *point), fused_parts(case.plain, *point))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "layout", "dtype"),
    [
        *((kind, "csr", np.float64) for kind in KINDS),
        *((kind, "dense", np.float32) for kind in KINDS),
        ("binary", "csr", np.float32),
        ("cleaning", "csr", np.float32),
    ],
)
def test_other_layouts_and_types_equal_the_formulas(kind, layout, dtype):
    """With what methods call most: each kernel takes time to compile, for every layout and type anew."""
    layout = {"csr": sp.csr_array, "dense": np.asarray}[layout]
    for penalty, options in (("rows", EVERYTHING), ("feature", {})):
        penalty = penalty if penalty in PENALTIES[kind] else "shared"
        case = case_of(kind, penalty, layout=layout, dtype=dtype, **options)
        assert case.problem.dtype == dtype
        x, y, u = case.point(0.5)
        wide = x, y.astype(float), u.astype(float)
        close(parts(case.problem, x, y, u), fused_parts(case.plain, *wide), dtype)
        close(own_upper(case.problem, x, y), own_upper(case.plain, *wide[:2]), dtype)
        V = np.stack([u, y, u - y])
        found = case.problem.lower_model(x, y).hvp(V)
        assert found.shape == V.shape
        close(found, V.astype(float) @ case.plain.hessian(*wide[:2]), dtype)
        if kind == "cleaning":
            np.testing.assert_allclose(case.problem.lower_value(x, y), case.plain.lower_value(*wide[:2]), rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("convert", [np.asfortranarray, sp.csc_matrix, sp.coo_array])
def test_other_layouts_are_converted_once(kind, convert):
    case, wanted = case_of(kind, layout=convert), np.asarray if convert is np.asfortranarray else sp.csr_array
    other = case_of(kind, layout=wanted)
    assert sp.issparse(case.problem.A) == sp.issparse(other.problem.A)
    for name in ("A", "A_val"):
        pair = [getattr(c.problem, name) for c in (case, other)]
        dense = [m.toarray() if sp.issparse(m) else m for m in pair]
        np.testing.assert_array_equal(*dense)
        assert getattr(pair[0], "format", "csr") == "csr" and dense[0].flags.c_contiguous
    x, y, _ = case.point()
    close(own_upper(case.problem, x, y), own_upper(case.plain, x, y))


@pytest.mark.parametrize("kind", KINDS)
def test_the_lower_model_before_and_after_a_stored_pass(kind):
    case = case_of(kind, **EVERYTHING)
    x, y, u = case.point()
    gradient, V = case.plain.lower_grad_y(x, y), np.stack([u, y, y + u])
    products = V @ case.plain.hessian(x, y)

    def kept(model):
        return getattr(model, "_curvatures", None) is not None

    steps = {
        "hvp": lambda m: close(m.hvp(V), products),
        "grad_y": lambda m: close(m.grad_y(), gradient),
        "both": lambda m: [close(a, b) for a, b in zip(m.grad_y_and_hvp(u), (gradient, products[0]), strict=True)],
        "one row": lambda m: close(m.hvp(V[1:2]), products[1:2]),
    }
    for order in itertools.permutations(steps, 2):
        model = case.problem.lower_model(x, y)
        assert not kept(model)
        for name in order:
            steps[name](model)
        assert kept(model) == ("lower_pass" in case.problem.kernels)
    model = case.problem.lower_model(x, y)
    assert model.hvp(np.empty((0, len(y)))).shape == (0, len(y))
    close([model.value()], [case.plain.lower_value(x, y)])
    close(model.jvp(u), case.plain.lower_jvp(x, y, u))
    close(model.grad_x(), case.plain.lower_grad_x(x, y))


def repeated(case, counts, counts_val):
    """The problem with every row as often as its whole weight says."""
    A, b, A_val, b_val = case.data
    options = {key: value for key, value in case.options.items() if not key.startswith("sample_weight")}
    rows = [np.repeat(X, k, axis=0) for X, k in ((A, counts), (b, counts), (A_val, counts_val), (b_val, counts_val))]
    return type(case.problem)(*rows, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_whole_weights_count_as_repeated_rows(kind):
    """In both levels and in the prior; repeats of hyper-cleaning share one x_i."""
    case = case_of(kind, intercept=True, prior=PRIOR)
    rng = np.random.default_rng(1)
    counts, counts_val = rng.integers(0, 4, N), rng.integers(0, 3, N_VAL)
    weights = {"sample_weight": counts, "sample_weight_val": counts_val}
    weighted = type(case.problem)(*case.data, **(case.options | weights))
    other = repeated(case, counts, counts_val)
    owner = np.repeat(np.arange(N), counts)
    x, y, u = case.point()
    in_x = {"lower_jvp", "lower_grad_x"} if kind == "cleaning" else set()
    for name, oracle in ORACLES.items():
        if name in ("upper_jvp", "upper_grad"):
            continue
        found = oracle(other, x[owner] if kind == "cleaning" else x, y, u)
        found = np.bincount(owner, found, minlength=N) if name in in_x else found
        close(oracle(weighted, x, y, u), found, err_msg=name)
    at = x[owner] if kind == "cleaning" else x
    close(weighted.upper_grad(x, y)[1], other.upper_grad(at, y)[1])
    if kind != "cleaning":
        close(weighted.upper_grad(x, y)[0], other.upper_grad(at, y)[0])
        assert np.abs(weighted.upper_grad(x, y)[0]).max() > 0
        default = {"bounds": None}
        bounds = [type(case.problem)(*c.data, **(case.options | weights | default)).bounds[0] for c in (case,)]
        np.testing.assert_allclose(bounds[0], -np.log(counts.sum()) - 9.2)


@pytest.mark.parametrize("kind", KINDS)
def test_the_scale_of_weights_does_not_matter(kind):
    """But for bounds and priors, which know the number of samples."""
    case = case_of(kind, weighted=True)
    x, y, u = case.point()
    weights = case.options["sample_weight"]
    for factor in (1e-290, 7.0, 1e290):
        scaled = type(case.problem)(*case.data, **(case.options | {"sample_weight": weights * factor}))
        for name in ("lower_grad_y", "lower_jvp", "lower_value"):
            close(ORACLES[name](scaled, x, y, u), ORACLES[name](case.problem, x, y, u))


@pytest.mark.parametrize("kind", KINDS)
def test_full_batches_are_means_over_an_epoch(kind):
    """With weights, blocks of the stored order weigh as their samples are many."""
    case = case_of(kind, **EVERYTHING)
    x, y, u = case.point()
    for (name, oracle), size in itertools.product(ORACLES.items(), (7, N)):
        n = N_VAL if name.startswith("upper") else N
        order = np.random.default_rng(0).permutation(n)
        blocks = [order[lo : lo + size] for lo in range(0, n, size)]
        mean = sum(len(block) / n * np.asarray(oracle(case.problem, x, y, u, batch=block)) for block in blocks)
        close(mean, oracle(case.problem, x, y, u), err_msg=name)


RUNS = {"step_size": 0.3, "inner_step_size": 0.1, "batch_size": 7}


def run(problem, method, x0, **options):
    x0 = np.zeros(problem.dim_x) if x0 is None else x0
    return nbo.minimize(problem, x0, method=method, max_iter=17, random_state=3, options=RUNS | options)


def same_runs(runs, atol=1e-12):
    for other in runs[1:]:
        for part in "xyu":
            np.testing.assert_allclose(other[part], runs[0][part], rtol=0, atol=atol, err_msg=part)
        assert (other.counts, other.samples) == (runs[0].counts, runs[0].samples)
    assert np.abs(runs[0].x).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("method", ["soba", "saba", "amigo-sgd"])
def test_compiled_loops_equal_plain_ones(method):
    """Against the problem's own oracles batch by batch, and against the formulas."""
    case = case_of("multinomial", "entries", **EVERYTHING)
    for sampler in ["epoch"] if method == "saba" else ["epoch", "window", "iid"]:
        problems = case.problem, ByBatches(case.problem), case.plain
        same_runs([run(p, method, np.full(p.dim_x, -1.0), sampler=sampler) for p in problems])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["binary", "targets", "multinomial"])
def test_one_loop_of_every_problem(kind):
    """With one lower batch for all, by one kernel."""
    case = case_of(kind, "shared", **EVERYTHING)
    for sampler in ("epoch", "window", "iid"):
        options = {"sampler": sampler, "share_batches": True}
        same_runs([run(p, "soba", [-1.0], **options) for p in (case.problem, ByBatches(case.problem), case.plain)])


@pytest.mark.slow
def test_the_hash_of_the_kernels_is_made_once_for_each_set_of_them():
    codes = {}
    for kind in ("binary", "multinomial", "ridge"):
        problem = LinearCase(kind).problem
        codes[kind] = problem.code
        assert problem.code == CompiledProblem.code.func(problem)
    assert codes["ridge"] != codes["binary"] == codes["multinomial"]


@pytest.mark.parametrize("kind", ["multinomial", "cleaning"])
def test_loops_over_sparse_rows_equal_those_over_dense_ones(kind):
    options = {"share_batches": True, "sampler": "window"}
    same_runs([run(case_of(kind, layout=to).problem, "soba", None, **options) for to in (np.asarray, sp.csr_array)])


@pytest.mark.slow
def test_loops_in_single_precision_are_close():
    cases = [case_of("cleaning", dtype=dtype) for dtype in (np.float64, np.float32)]
    runs = [run(case.problem, "soba", None, share_batches=True) for case in cases]
    for part in "xyu":
        np.testing.assert_allclose(runs[1][part], runs[0][part], rtol=0, atol=2e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [12.0, 700.0, 1e6])
def test_extreme_hyperparameters_are_finite(kind, size):
    case = case_of(kind, intercept=True)
    _, y, u = case.point(1e-3)
    for x in (np.full(case.problem.dim_x, size), np.full(case.problem.dim_x, -size)):
        for name, oracle in ORACLES.items():
            assert np.isfinite(oracle(case.problem, x, y, u)).all(), name
        if size == 12:
            close(case.problem.lower_hvp(x, y, u), case.plain.lower_hvp(x, y, u))


@pytest.mark.parametrize("kind", ["binary", "multinomial", "cleaning"])
def test_logits_of_ten_thousand_are_finite(kind):
    case = case_of(kind)
    x, y, u = case.point(1e4)
    for name, oracle in ORACLES.items():
        found = oracle(case.problem, x, y, u)
        assert np.isfinite(found).all(), name
        close(found, oracle(case.plain, x, y, u), err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_divergence_is_not_hidden(kind, bad):
    case = case_of(kind)
    x, y, u = case.point()
    y[2] = bad
    assert not np.isfinite(case.problem.lower_value(x, y))
    assert not np.isfinite(case.problem.upper_value(x, y))
    if np.isnan(bad):
        for name in ("lower_grad_y", "upper_grad", "lower_jvp", "lower_grad_x"):
            assert np.isnan(ORACLES[name](case.problem, x, y, u)).any(), name
    y[2], u[2] = 0.5, bad
    for name in ("lower_hvp", "lower_jvp"):
        assert not np.isfinite(ORACLES[name](case.problem, x, y, u)).all(), name


@settings(max_examples=15)
@given(st.sampled_from(KINDS), st.integers(3, 9), st.integers(1, 12), st.booleans(), st.integers(0, 99))
def test_small_and_wide_data(kind, n, p, intercept, seed):
    """One column, more columns than rows, one sample a class, a column twice and a constant one."""
    case = LinearCase(kind, penalty="shared", n=n, n_val=3, p=p, intercept=intercept, seed=seed)
    A, b, A_val, b_val = case.data
    A = A.copy()
    A[:, -1], A[:, 0] = A[:, 0], 1.0
    problem = type(case.problem)(A, b, A_val, b_val, **case.options | {"bounds": (-4, 4)})
    x = np.zeros(problem.dim_x)
    found = nbo.solve_lower_level(problem, x, tol=1e-9)
    assert np.linalg.norm(problem.lower_grad_y(x, found.y)) < 1e-8
    result = nbo.minimize(problem, x, max_iter=3)
    assert np.isfinite(result.fun)


def test_inputs_are_never_written():
    for kind, to in itertools.product(KINDS, (np.asarray, sp.csr_array)):
        case = case_of(kind, layout=to, weighted=True)
        arrays = [a for X in case.data for a in ([X.data, X.indices, X.indptr] if sp.issparse(X) else [X])]
        arrays += [case.options["sample_weight"], case.options["sample_weight_val"]]
        before = [a.copy() for a in arrays]
        x, y, u = case.point()
        parts(case.problem, x, y, u)
        own_upper(case.problem, x, y)
        if to is np.asarray:
            nbo.minimize(case.problem, np.zeros(case.problem.dim_x), max_iter=2)
        for a, b in zip(arrays, before, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_pickles_give_the_same_numbers(kind):
    case = case_of(kind, **EVERYTHING)
    x, y, u = case.point()
    again = pickle.loads(pickle.dumps(case.problem))
    assert again.fingerprint() == case.problem.fingerprint()
    assert not again.compiled_kernels
    for name, oracle in ORACLES.items():
        np.testing.assert_array_equal(oracle(again, x, y, u), oracle(case.problem, x, y, u), err_msg=name)
    np.testing.assert_array_equal(
        again.decision_function(case.data[0], y), case.problem.decision_function(case.data[0], y)
    )


def changed(array, place, by=1):
    array = array.copy()
    array[place] += by
    return array


@pytest.mark.parametrize("kind", KINDS)
def test_fingerprints_differ_when_anything_does(kind):
    case = case_of(kind, weighted=True)
    A, b, A_val, b_val = case.data
    relabelled = np.where(np.arange(N) == np.flatnonzero(b == b[1])[-1], b[0], b) if kind == "binary" else None
    labels = changed(b, 5, 0.5) if kind in ("ridge", "targets") else relabelled
    labels = np.roll(b, 1) if labels is None else labels
    options = [
        {}, {"fit_intercept": True}, {"bounds": (-3, 3)}, {"sample_weight": None}, {"sample_weight_val": None},
        {"sample_weight": changed(case.options["sample_weight"], 3)},
    ]  # fmt: skip
    if kind == "cleaning":
        options += [{"ridge": 0.16}, {"n_classes": 4}]
    else:
        options += [{"penalty": "shared"}, {"penalty": IDS}, {"prior": PRIOR}, {"prior": (-0.5, 0.8)}]
    problems = [type(case.problem)(changed(A, (3, 2), 1e-9), b, A_val, b_val, **case.options)]
    problems += [type(case.problem)(A, labels, A_val, b_val, **case.options)]
    problems += [type(case.problem)(A, b, changed(A_val, (2, 1), 1e-9), b_val, **case.options)]
    problems += [type(case.problem)(sp.csr_array(A), b, A_val, b_val, **case.options)]
    with pytest.warns(UserWarning) if kind == "cleaning" else contextlib.nullcontext():
        problems += [type(case.problem)(*case.data, **case.options | changes) for changes in options]
    assert len({problem.fingerprint() for problem in problems}) == len(problems)
    assert type(case.problem)(*case.data, **case.options).fingerprint() == case.problem.fingerprint()


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_predictions(kind, intercept):
    case = case_of(kind, intercept=intercept)
    A, c = case.data[2], case.problem.n_outputs
    _, y, _ = case.point()
    W = y.reshape(c, P + intercept)
    coef, offsets = case.problem.coefficients(y)
    np.testing.assert_array_equal(coef, W[:, :P])
    np.testing.assert_array_equal(offsets, W[:, -1] if intercept else np.zeros(c))
    scores = A @ W[:, :P].T + offsets
    for rows in (A, A.tolist(), sp.csr_matrix(A), sp.csc_array(A)):
        found = case.problem.decision_function(rows, y)
        np.testing.assert_allclose(found, scores[:, 0] if c == 1 else scores, rtol=0, atol=1e-13)
    if kind in ("multinomial", "cleaning"):
        np.testing.assert_array_equal(case.problem.predict(A, y), case.problem.classes[scores.argmax(axis=1)])
    if kind == "binary":
        np.testing.assert_array_equal(case.problem.predict(A, y), np.sign(scores[:, 0]))
    with pytest.raises(ValueError, match=r"y: found shape \(1,\)"):
        case.problem.coefficients([0.0])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_to_predict_for_have_the_columns_of_the_model(kind):
    case = CASE[kind]
    with pytest.raises(ValueError, match=r"^A: found 2 columns; expected 4"):
        case.problem.decision_function(case.data[0][:, :2], np.zeros(case.problem.dim_y))


def mapped(array, path):
    np.save(path, array)
    return np.load(path, mmap_mode="r")


@pytest.mark.parametrize("kind", KINDS)
def test_memory_maps_and_foreign_arrays(kind, tmp_path):
    """Maps are shared; what is unaligned, of another byte order or longer is converted."""
    case = case_of(kind)
    A, b, A_val, b_val = case.data
    x, y, _ = case.point()
    raw = np.zeros(A.nbytes + 1, np.uint8)[1:].view(np.float64).reshape(A.shape)
    raw[:] = A
    rows = mapped(A, tmp_path / "A.npy")
    for other in (rows, raw, A.astype(">f8"), A.astype(np.longdouble)):
        problem = type(case.problem)(other, b, A_val, b_val, **case.options)
        assert np.shares_memory(problem.A, other) == (other is rows)
        np.testing.assert_array_equal(problem.lower_grad_y(x, y), case.problem.lower_grad_y(x, y))


CASE = {kind: case_of(kind) for kind in KINDS}
A, A_VAL = CASE["binary"].data[0], CASE["binary"].data[2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"A": A[0]}, r"A: found shape \(4,\); expected a real matrix"),
        ({"A": A.astype(complex)}, "A: found type complex128"),
        ({"A": A.astype(str)}, "A: found type <U"),
        ({"A": changed(A, (1, 2), np.nan)}, r"A: found nan at index \(1, 2\)"),
        ({"A": sp.csr_array(changed(A, (0, 0), np.inf))}, r"A \(stored values\): found inf"),
        ({"A": np.empty((0, 4))}, r"A: found shape \(0, 4\); expected at least one row"),
        ({"A": np.empty((N, 0))}, r"A: found shape \(40, 0\); expected at least one row and one column"),
        ({"A": np.ma.masked_less(A, 0)}, "A: found a masked array"),
        ({"A_val": A_VAL[:, :3]}, "A_val: found 3 columns; expected 4, as in A"),
        ({"A": A[:-1]}, r"b: found shape \(40"),
        ({"A_val": A_VAL[1:]}, r"b_val: found shape \(30"),
        ({"b": np.ma.masked_array(np.ones(N), np.arange(N) < 1)}, "b: found a masked array"),
        ({"sample_weight": np.ones(3)}, r"sample_weight: found shape \(3,\); expected \(40,\)"),
        ({"sample_weight": -np.ones(N)}, "sample_weight: found weights from -1 to -1; expected none below 0"),
        ({"sample_weight": np.zeros(N)}, "sample_weight: found weights from 0 to 0; expected none below 0, one above"),
        ({"sample_weight": np.full(N, np.nan)}, "sample_weight: found nan"),
        ({"sample_weight": np.full(N, np.inf)}, "sample_weight: found inf"),
        ({"sample_weight": ["a"] * N}, "sample_weight: found"),
        ({"sample_weight_val": np.zeros(N_VAL)}, "sample_weight_val: found weights from 0 to 0"),
        ({"sample_weight_val": np.ma.masked_less(np.ones(N_VAL), 2)}, "sample_weight_val: found a mask"),
        ({"fit_intercept": "yes"}, "fit_intercept: found 'yes'"),
        ({"bounds": (1, 0)}, "bounds: found lower 1 > upper 0"),
        ({"bounds": (np.zeros(7), np.ones(7))}, r"bounds \(lower\): found shape \(7,\)"),
    ],
)  # fmt: skip
def test_bad_arguments(kind, changes, message):
    case = CASE[kind]
    good = dict(zip(("A", "b", "A_val", "b_val"), case.data, strict=True)) | case.options
    with pytest.raises((TypeError, ValueError), match=message):
        type(case.problem)(**good | changes)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "cleaning"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"penalty": "l2"}, "penalty: found 'l2'; expected 'feature', 'shared'"),
        ({"penalty": [0, 1]}, r"penalty: found an array of shape \(2,\)"),
        ({"penalty": np.zeros(4)}, "penalty: found an array of shape .* and type float64"),
        ({"penalty": np.zeros((2, 4), int)}, r"penalty: found an array of shape \(2, 4\)"),
        ({"penalty": [0, 2, 2, 0]}, r"penalty: found group ids from 0 to 2, 2 different; expected 0 .. G-1"),
        ({"penalty": [-1, 0, 0, 0]}, "penalty: found group ids from -1"),
        ({"prior": 3}, "prior: found 3; expected None or a pair"),
        ({"prior": (0, 0)}, r"prior \(scale\): found 0"),
        ({"prior": (0, -1)}, r"prior \(scale\): found -1"),
        ({"prior": (np.nan, 1)}, r"prior \(center\): found nan"),
        ({"prior": (np.zeros(9), 1)}, r"prior \(center\): found shape \(9,\)"),
        ({"prior": (0, 1e-200)}, r"prior \(scale\): found 1e-200"),
    ],
)
def test_bad_penalties_and_priors(kind, changes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        type(CASE[kind].problem)(*CASE[kind].data, **CASE[kind].options | changes)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "cleaning"])
def test_default_bounds_of_small_weights_are_bounds(kind):
    """A sum of weights far below one must not put the lower bound above the upper one, which nobody gave."""
    case = CASE[kind]
    options = case.options | {"bounds": None, "sample_weight": np.full(N, 1e-12)}
    lower, upper = type(case.problem)(*case.data, **options).bounds
    assert (lower < upper).all()


def test_one_output_has_no_penalty_by_rows():
    for kind in ("binary", "ridge"):
        for name in ("class", "target", "class-feature", ""):
            with pytest.raises(ValueError, match=f"penalty: found '{name}'; expected 'feature', 'shared' or an array"):
                type(CASE[kind].problem)(*CASE[kind].data, penalty=name)


def test_the_kernels_of_a_quadratic_loss_keep_nothing():
    assert set(linear_models.KERNELS) - set(linear_models.UNKEPT) == {"lower_pass", "lower_kept_hvp"}
    for kind, case in CASE.items():
        constant = kind in ("ridge", "targets")
        assert set(case.problem.kernels) == set(linear_models.UNKEPT if constant else linear_models.KERNELS)


PLAIN_PYTHON = """
import sys
import numba, numpy as np
assert numba.config.DISABLE_JIT
import nbo
from reference_problems import LinearCase
for kind in ("multinomial", "cleaning"):
    case = LinearCase(kind, intercept=True, weighted=True)
    for method in ("soba", "saba"):
        found = nbo.minimize(case.problem, np.zeros(case.problem.dim_x), method=method, max_iter=6, random_state=3,
                             options={"step_size": 0.3, "inner_step_size": 0.1, "batch_size": 7})
        print(*(f"{number:.17g}" for part in "xyu" for number in found[part]))
"""


@pytest.mark.slow
def test_plain_python_gives_the_same_runs():
    """As with ``NUMBA_DISABLE_JIT=1``."""
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", PLAIN_PYTHON], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    lines = iter(done.stdout.splitlines())
    for kind in ("multinomial", "cleaning"):
        case = LinearCase(kind, intercept=True, weighted=True)
        for method in ("soba", "saba"):
            x0 = np.zeros(case.problem.dim_x)
            found = nbo.minimize(case.problem, x0, method=method, max_iter=6, random_state=3, options=RUNS)
            wanted = np.array([float(word) for word in next(lines).split()])
            np.testing.assert_allclose(np.concatenate([found[part] for part in "xyu"]), wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize(("n_classes", "k"), [(2, 1), (2, 5), (4, 1), (4, 3)])
@pytest.mark.parametrize("n_columns", [8, 400])
def test_sparse_products_with_many_outputs_are_those_of_dense_rows(dtype, fit_intercept, n_classes, k, n_columns):
    """Vectors are turned where there are many, and many entries a column: at 8 columns, not at 400."""
    rng = np.random.default_rng(0)
    A = (rng.standard_normal((300, n_columns)) * (rng.random((300, n_columns)) < 0.3)).astype(dtype)
    A[:, -1] = 0
    b = rng.integers(n_classes, size=300)
    settings = {"n_classes": n_classes, "fit_intercept": fit_intercept, "penalty": "shared"}
    products = []
    for rows in (A, sp.csr_array(A)):
        problem = nbo.problems.MultinomialLogistic(rows, b, rows, b, **settings)
        y, *V = np.random.default_rng(1).standard_normal((k + 1, problem.dim_y)).astype(dtype)
        V = np.stack(V)
        model = problem.lower_model(np.array([-3.0]), y)
        model.grad_y_and_hvp(V[0])
        products.append(model.hvp(V))
    np.testing.assert_allclose(products[1], products[0], rtol=1e-4 if dtype == np.float32 else 1e-12, atol=1e-6)
