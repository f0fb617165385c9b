"""The kernels of linear models: passes over blocks of rows in every storage, and sums over ranges of rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_problems import LinearCase

import nbo
from nbo._kernel_forms import KERNELS as FORMS
from nbo.kernels.blocks import BLOCK, MOST, STRIDE, accumulate, margins, workspace
from nbo.kernels.engine import compiled, entry_point
from nbo.kernels.linear_models import KERNELS
from nbo.kernels.loops import run_kernel, type_of
from nbo.minibatches import Data

STORAGES = ["dense", "int32", "int64"]


def store(rows, lo, hi, first, second, products):
    margins(rows, lo, hi, (first, second), products)


def add(rows, lo, hi, coefficients, first, second):
    accumulate(rows, lo, hi, coefficients, (first, second))


def room(like, columns, out):
    work = workspace(like, columns)
    for q in range(columns):
        for i in range(work.shape[1]):
            work[q, i] = q + i
    for q in range(columns):
        for i in range(work.shape[1]):
            out[q, i] = work[q, i]
    out[columns, 0] = work.shape[1]


def call(function, *arguments):
    """Run a function compiled for its arguments."""
    kinds = tuple(map(type_of, arguments))
    entry_point(compiled(function, kinds), kinds)(*arguments)


def stored(A, storage):
    """Rows as kernels read them."""
    if storage == "dense":
        return A
    kind = np.uint32 if storage == "int32" else np.uint64
    matrix = sp.csr_array(A)
    return matrix.data, matrix.indices.astype(kind), matrix.indptr.astype(kind)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("storage", STORAGES)
def test_passes_over_a_block(storage, dtype):
    """Rows and columns up to and past what vectors and groups hold; columns after the p-th are left alone."""
    eps = float(np.finfo(dtype).eps)

    @settings(max_examples=120)
    @given(
        st.integers(1, BLOCK), st.sampled_from([1, 2, 3, 7, 8, 9, 15, 16, 17, 22, 33, 65, 130]),
        st.integers(1, 6), st.integers(1, 9), st.integers(0, 2), st.integers(0, 5), st.integers(0, 999),
    )  # fmt: skip
    def check(count, p, k, k2, extra, lo, seed):
        rng = np.random.default_rng(seed)
        A = (rng.standard_normal((count + 7, p)) * (rng.random((count + 7, p)) < 0.5)).astype(dtype)
        A[lo + count // 2] = 0  # an empty row
        first, second = (rng.standard_normal((rows, p + extra)).astype(dtype) for rows in (k, k2))
        both, wide = np.vstack([first, second])[:, :p].astype(float), A[lo : lo + count].astype(float)
        products = np.zeros((k + k2 + 1, BLOCK), dtype)
        products[-1] = 7
        call(store, stored(A, storage), lo, lo + count, first, second, products)
        bound = 4 * (p + 5) * eps * (abs(both) @ abs(wide).T)
        assert (abs(products[:-1, :count] - both @ wide.T) <= bound).all()
        assert (products[-1] == 7).all()
        coefficients = rng.standard_normal((k + k2, BLOCK)).astype(dtype)
        sums = [first.copy(), second.copy()]
        call(add, stored(A, storage), lo, lo + count, coefficients, *sums)
        chosen = coefficients[:, :count].astype(float)
        bound = 4 * (count + 5) * eps * (abs(chosen) @ abs(wide) + abs(both))
        assert (abs(np.vstack(sums)[:, :p] - both - chosen @ wide) <= bound).all()
        for after, before in zip(sums, (first, second), strict=True):
            np.testing.assert_array_equal(after[:, p:], before[:, p:])

    check()


def test_doubled_entries_and_empty_matrices():
    values, indices = np.array([1.0, 2.0, 4.0]), np.array([1, 1, 0], np.uint32)
    indptr = np.array([0, 0, 3, 3], np.uint32)
    V = np.array([[0.1, -0.2], [1.0, 2.0], [0.5, -1.0]])
    products, none = np.ones((3, BLOCK)), np.empty((0, 2))
    call(store, (values, indices, indptr), 0, 3, V, none, products)
    np.testing.assert_allclose(products[:, :3], V @ np.array([[0.0, 4, 0], [0, 3, 0]]), rtol=1e-15)
    sums = np.zeros((3, 2))
    call(add, (values, indices, indptr), 0, 3, np.full((3, BLOCK), 2.0), none, sums)
    np.testing.assert_array_equal(sums, [[8.0, 6.0]] * 3)
    call(store, (np.empty(0), np.empty(0, np.uint32), np.zeros(4, np.uint32)), 0, 3, V, none, products)
    assert not products[:, :3].any()


@pytest.mark.parametrize("columns", [1, 64, 65, MOST, MOST + 1, 300])
def test_room_for_any_number_of_columns(columns):
    """On the stack while it fits, and of as many rows as fit."""
    out = np.zeros((columns + 1, BLOCK))
    call(room, np.zeros(1), columns, out)
    rows = int(out[columns, 0])
    assert rows == (BLOCK if columns <= 64 else STRIDE)
    np.testing.assert_array_equal(out[:columns, :rows], np.add.outer(np.arange(columns), np.arange(rows)))


# What the kernels add over ranges of rows, against the formulas


def outputs(problem, n_rows, x, V):
    """Room for every kernel's outputs."""
    m, n = problem.dim_x, problem.dim_y
    in_x = n_rows if problem.x_per_sample else m
    shapes = {
        "lower_value": [1], "upper_value": [1], "lower_grad_y": [n], "upper_grad": [m, n], "lower_jvp": [in_x],
        "lower_grad_x": [in_x], "upper_jvp": [m], "lower_hvp": [V.shape], "upper_hvp": [V.shape],
        "lower_grad_y_and_hvp": [(2, n)], "lower_parts": [(2, n), in_x],
        "lower_pass": [n, V.shape, (problem.n_curvatures, problem.n_samples_lower)], "lower_kept_hvp": [V.shape],
    }  # fmt: skip
    return {name: [np.zeros(shape) for shape in found] for name, found in shapes.items()}


def arguments(problem, x, y, u, V):
    """What every kernel reads, of a problem in double precision."""
    curvatures = problem.kept_pass(x, y, V[:0])[2]
    inputs = dict.fromkeys(KERNELS, (x, y))
    inputs |= dict.fromkeys(("lower_hvp", "upper_hvp", "lower_pass"), (x, y, V))
    inputs |= dict.fromkeys(("lower_jvp", "upper_jvp", "lower_grad_y_and_hvp", "lower_parts"), (x, y, u))
    return inputs | {"lower_kept_hvp": (x, curvatures, V)}


def over_rows(problem, name, data, lo, hi, scale, inputs, into):
    run_kernel(problem, name, data, lo, hi, scale, (*inputs, *into))


def means(case, x, y, u, V, rows):
    """What every kernel adds for the scale 1 over the number of rows, from the formulas."""
    plain, model = case.plain, case.plain.hessian(x, y, rows)
    in_x = {"lower_jvp": plain.lower_jvp(x, y, u, rows), "lower_grad_x": plain.lower_grad_x(x, y, rows)}
    if case.problem.x_per_sample:
        in_x = {name: value[rows] for name, value in in_x.items()}
    gradient = plain.lower_grad_y(x, y, rows)
    upper_products = np.stack([plain.upper_hvp(x, y, v, rows) for v in V])
    return {
        "lower_value": [[plain.lower_value(x, y, rows)]], "upper_value": [[plain.upper_value(x, y, rows)]],
        "lower_grad_y": [gradient], "upper_grad": [*plain.upper_grad(x, y, rows)], "lower_hvp": [V @ model],
        "upper_hvp": [upper_products], "upper_jvp": [np.zeros(len(x))], "lower_kept_hvp": [V @ model],
        "lower_grad_y_and_hvp": [[gradient, model @ u]], "lower_parts": [[gradient, model @ u], in_x["lower_jvp"]],
        "lower_pass": [gradient, V @ model], **{name: [value] for name, value in in_x.items()},
    }  # fmt: skip


def check(case, lo, hi, k, cuts=()):
    """Compare all kernels over rows lo .. hi - 1, perhaps in parts, with what was there before."""
    problem, rows = case.problem, np.arange(lo, hi)
    x, y, u = case.point()
    V = case.rng.standard_normal((k, problem.dim_y))
    inputs, wanted = arguments(problem, x, y, u, V), means(case, x, y, u, V, rows)
    for name in problem.kernels:
        into = outputs(problem, hi - lo, x, V)[name]
        for total in into:
            total += 1
        edges = [lo, *cuts, hi]
        for start, stop in itertools.pairwise(edges):
            by_rows = (problem.x_per_sample and output == "samples" for output in FORMS[name].outputs)
            parts = [t[start - lo : stop - lo] if cut else t for t, cut in zip(into, by_rows, strict=True)]
            over_rows(problem, name, problem.data, start, stop, 1 / (hi - lo), inputs[name], parts)
        for found, expected in zip(into, wanted[name], strict=False):  # what is kept has no formula
            expected = np.asarray(expected)
            scale = max(1.0, float(np.abs(expected).max(initial=0)))
            np.testing.assert_allclose(found - 1, expected, rtol=0, atol=1e-12 * scale, err_msg=name)


ONES = st.sampled_from([1, 2, 3, 5])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["binary", "multinomial", "cleaning"])
def test_sums_over_ranges_of_rows(kind):
    """Longer than a block and shorter than a vector, any number of columns and directions, added to what is there."""

    @settings(max_examples=25)
    @given(
        st.sampled_from([1, 3, 22]), ONES, ONES, st.integers(0, 149), st.integers(1, 150), st.booleans(),
        st.integers(0, 9),
    )  # fmt: skip
    def check_all(p, c, k, lo, size, intercept, seed):
        prior = None if kind == "cleaning" else (0.3, 0.6)
        case = LinearCase(
            kind, penalty="feature", n=150, n_val=150, p=p, c=c + 1, seed=seed, intercept=intercept, weighted=True,
            prior=prior,
        )  # fmt: skip
        hi = min(lo + size, 150)
        check(case, lo, hi, k, cuts=sorted({lo + (hi - lo) // 3, lo + (hi - lo) // 2} - {lo, hi}))

    check_all()


@pytest.mark.parametrize(("c", "k"), [(3, 60), (70, 2), (150, 1)])
def test_more_columns_than_the_stack_has_room_for(c, k):
    check(LinearCase("multinomial", n=160, n_val=160, p=3, c=c, penalty="shared"), 5, 131, k)


@pytest.mark.parametrize("p", [BLOCK - 1, BLOCK, 2 * BLOCK + 5])
@pytest.mark.parametrize("penalty", ["feature", "entries", "rows", "shared"])
def test_penalties_of_more_columns_than_a_block(penalty, p):
    check(LinearCase("multinomial", n=70, n_val=70, p=p, c=2, penalty=penalty, intercept=True), 0, 9, 2)


def level_with(problem, name, A):
    """The problem's data with other rows in a level."""
    return problem.data._replace(**{name: (A, *getattr(problem.data, name)[1:])})


@pytest.mark.parametrize("kind", ["binary", "multinomial", "cleaning"])
def test_rows_outside_the_range_do_not_matter_and_nan_inside_does(kind):
    case = LinearCase(kind, n=90, n_val=90)
    problem = case.problem
    x, y, u = case.point()
    V = np.stack([u, y])
    inputs = arguments(problem, x, y, u, V)
    levels = ("lower", "upper")
    outside, inside = ({level: getattr(problem.data, level)[0].copy() for level in levels} for _ in range(2))
    for level in ("lower", "upper"):
        outside[level][:10] = outside[level][50:] = np.nan
        inside[level][37, 1] = np.nan
    for name in problem.kernels:
        level = name.partition("_")[0]
        results = []
        for A in (getattr(problem.data, level)[0], outside[level], inside[level]):
            results.append(outputs(problem, 40, x, V)[name])
            over_rows(problem, name, level_with(problem, level, A), 10, 50, 1.0, inputs[name], results[-1])
        for first, second in zip(*results[:2], strict=True):
            np.testing.assert_array_equal(first, second)
        if name == "upper_jvp" or (name in ("lower_jvp", "lower_grad_x") and kind != "cleaning"):
            continue  # which no row enters
        assert any(np.isnan(found).any() for found in results[2]), name
        if name in ("lower_grad_y", "lower_hvp", "upper_hvp", "lower_kept_hvp"):
            assert np.isnan(results[2][0][..., 1]).all(), name


@pytest.mark.parametrize("kind", ["binary", "multinomial", "cleaning"])
def test_nan_in_a_direction_or_model_propagates(kind):
    case = LinearCase(kind, n=70, n_val=70)
    problem = case.problem
    x, y, u = case.point()
    V = np.stack([u, y])
    inputs = arguments(problem, x, y, u, V)
    for name in set(problem.kernels) - {"upper_jvp"}:
        place = 1 if name != "lower_kept_hvp" else 2
        spoilt = [a.copy() for a in inputs[name]]
        spoilt[place][..., 1] = np.nan
        into = outputs(problem, 70, x, V)[name]
        over_rows(problem, name, problem.data, 0, 70, 1.0, spoilt, into)
        assert any(np.isnan(found).any() for found in into), name


@pytest.mark.slow
def test_long_sums_in_single_precision_stay_close():
    """One sign, so that no cancellation hides the drift of a long sum."""
    rng = np.random.default_rng(0)
    A = np.abs(rng.standard_normal((200_003, 3))).astype(np.float32)
    b = np.where(np.arange(len(A)) < 100, -1, 1)
    single = nbo.problems.BinaryLogistic(A, b, A, b)
    double = nbo.problems.BinaryLogistic(A.astype(float), b, A.astype(float), b)
    x, y, V = np.zeros(3), np.full(3, 0.1), np.array([[0.5, 1.0, 2.0], [1.0, 1.0, 1.0]])
    np.testing.assert_allclose(single.upper_grad(x, y)[1], double.upper_grad(x, y)[1], rtol=1e-6)
    for _ in range(2):
        models = [p.lower_model(x, y) for p in (single, double)]
        np.testing.assert_allclose(models[0].hvp(V), models[1].hvp(V), rtol=1e-6)
        np.testing.assert_allclose(models[0].hvp(V), models[1].hvp(V), rtol=1e-6)
        np.testing.assert_allclose(models[0].grad_y(), models[1].grad_y(), rtol=1e-6)


def test_protected_inputs_share_the_compilation_of_writable_ones():
    from nbo.kernels import engine

    case = LinearCase("multinomial")
    x, y, _ = case.point()
    expected = case.problem.lower_grad_y(x, y)
    before = len(engine._dispatchers)
    arrays = [np.array(a) for a in (*case.data, x, y)]
    for array in arrays:
        array.flags.writeable = False
    problem = type(case.problem)(*arrays[:4], **case.options)
    np.testing.assert_array_equal(problem.lower_grad_y(*arrays[4:]), expected)
    assert len(engine._dispatchers) == before
    assert isinstance(problem.data, Data)
