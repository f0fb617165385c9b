"""Test rows, folds and scaling."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from nbo.datasets import DataError, TaskTable, read_table
from nbo.tuning.data import prepare, split_rows

NAMES = ("no", "yes", "maybe")


def dataset_of(A, b, task="binary"):
    names = tuple(f"f{j}" for j in range(A.shape[1]))
    labels = () if task == "regression" else NAMES[: 2 + (task == "multiclass")]
    return TaskTable(A, b, task, labels, "made", names, "a test", "made for a test")


def of_labels(b, task="binary"):
    return dataset_of(np.zeros((len(b), 1)), b, task)


@given(counts=st.tuples(*[st.integers(5, 400)] * 3), seed=st.integers(0, 2**32 - 1))
def test_split_is_a_stratified_partition(counts, seed):
    b = np.repeat([0, 1, 2], counts)
    development, test = split_rows(of_labels(b, "multiclass"), seed)
    np.testing.assert_array_equal(np.sort(np.concatenate([development, test])), np.arange(len(b)))
    assert abs(len(test) - 0.2 * len(b)) <= 1
    for label, count in enumerate(counts):
        found = np.sum(b[test] == label)
        assert 1 <= found <= count - 3 and abs(found - 0.2 * count) < 2


def test_split_depends_on_the_seed_alone():
    for task in ("binary", "regression"):
        first, again, other = (split_rows(of_labels(np.resize([0, 1], 100), task), seed)[1] for seed in (3, 3, 4))
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)


@pytest.mark.parametrize(("counts", "name"), [((4, 50), "no"), ((50, 0), "yes")])
def test_too_few_rows(counts, name):
    with pytest.raises(DataError, match=f"too few rows: label '{name}' has {min(counts)}; expected at least 5"):
        split_rows(of_labels(np.repeat([0, 1], counts)), 0)


def test_too_few_rows_of_a_regression():
    with pytest.raises(DataError, match="too few rows: found 9; expected at least 10"):
        split_rows(of_labels(np.arange(9.0), "regression"), 0)
    assert len(split_rows(of_labels(np.arange(10.0), "regression"), 0)[1]) == 2


def test_folds_hold_out_every_row_once_and_keep_the_classes():
    data = prepare(read_table("wine"), 4, 0)
    assert data.criterion == "4 stratified folds" and data.sizes() == {"tuning": 142, "test": 36}
    np.testing.assert_array_equal(np.sort(np.concatenate([held_out for _, held_out in data.folds])), np.arange(142))
    for train, held_out in data.folds:
        assert not set(train) & set(held_out) and set(data.development.b[held_out]) == {0, 1, 2}
    assert data.n_train == pytest.approx(0.75 * 142) and data.notes == ()


def test_a_single_split_is_60_20_20():
    data = prepare(read_table("diabetes"), 1, 0)
    ((train, held_out),) = data.folds
    assert abs(train.size - 0.6 * 442) < 2 and abs(held_out.size - 0.2 * 442) < 2
    assert data.n_train == train.size and data.criterion.startswith("one split")


def test_folds_without_a_class_are_noted():
    data = prepare(dataset_of(np.arange(45.0)[:, None], np.repeat([0, 1], (5, 40))), 5, 0)
    assert data.notes == (
        "data: a class has 4 rows, fewer than the 5 folds: some folds hold out none of it; fewer folds would",
    )
    with pytest.raises(ValueError, match="cv: found 37 folds for n_samples=36 rows"):
        prepare(dataset_of(np.arange(45.0)[:, None], np.repeat([0, 1], (5, 40))), 37, 0)


def test_dense_columns_are_standardised_by_the_rows_that_tune():
    data = prepare(read_table("breast_cancer"), 5, seed=0)
    np.testing.assert_allclose(data.development.A.mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(data.development.A.std(axis=0), 1)
    assert np.abs(data.test.A.mean(axis=0)).max() > 1e-3


def test_sparse_columns_stay_sparse():
    rng = np.random.default_rng(0)
    A = sp.random(200, 30, density=0.1, format="csr", random_state=0)
    data = prepare(dataset_of(A, rng.integers(2, size=200)), 5, seed=0)
    assert data.development.A.format == data.test.A.format == "csr"
    assert np.abs(data.development.A).max() == 1
    np.testing.assert_array_equal(data.center, 0)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("rows", [(), (3,)])
def test_original_units_give_the_same_scores(kind, rows):
    rng = np.random.default_rng(1)
    A = rng.normal(3, 5, size=(60, 4)) * (rng.random((60, 4)) < 0.5)
    A[:, 2] = 0  # constant: its scale is one and its coefficient harmless
    dataset = dataset_of(kind(A), np.resize([0, 1], 60))
    data, W, intercept = prepare(dataset, 5, seed=2), rng.normal(size=(*rows, 4)), rng.normal(size=rows)
    original, original_intercept = data.original_units(W, intercept)
    test = split_rows(dataset, 2)[1]
    np.testing.assert_allclose(A[test] @ original.T + original_intercept, data.test.A @ W.T + intercept, rtol=1e-10)


def test_inputs_are_not_modified():
    dataset = read_table("digits-3-8")
    before = dataset.A.copy()
    prepare(dataset, 5, seed=0)
    np.testing.assert_array_equal(dataset.A, before)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_columns_that_never_vary_in_the_rows_that_tune(kind):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(50, 4))
    A[:, 1], A[:, 2] = 0.0, 7.0
    b = np.resize([0, 1], 50)
    A[split_rows(of_labels(b), 0)[0], 3] = -1.0
    np.testing.assert_array_equal(prepare(dataset_of(kind(A), b), 5, 0).constant, [False, True, True, True])


# --- sizes of numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("size", [1e-279, 1e-200, 1e-160, 1e160, 1e200, 1e279])
def test_scaling_does_not_depend_on_the_size_of_numbers(kind, size):
    rng = np.random.default_rng(3)
    A, b, y = rng.uniform(-1, 1, size=(60, 2)), np.resize([0, 1], 60), rng.normal(size=3)
    plain, sized = prepare(dataset_of(kind(A), b), 5, 0), prepare(dataset_of(kind(A * size), b), 5, 0)
    assert not sized.constant.any()
    for one, other in ((plain.development.A, sized.development.A), (plain.test.A, sized.test.A)):
        np.testing.assert_allclose(abs(one - other).max(), 0, atol=1e-12)
    coefficients, intercept = sized.original_units(y[:-1], y[-1])
    rows = split_rows(of_labels(b), 0)[1]
    np.testing.assert_allclose((A[rows] * size) @ coefficients + intercept, sized.test.A @ y[:-1] + y[-1], rtol=1e-9)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize(("size", "word"), [(1e300, "large"), (1e-300, "small"), (5e-324, "small")])
def test_sizes_beyond_float64_are_refused(kind, size, word):
    A = np.random.default_rng(0).uniform(1, 2, size=(60, 2)) * [1, 1]
    A[:, 1] = size
    with pytest.raises(DataError, match=f"column 'f1' is too {word} to standardise: its largest magnitude in the"):
        prepare(dataset_of(kind(A), np.resize([0, 1], 60)), 5, 0)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("size", [1e30, -1e308])
def test_a_row_far_beyond_the_rows_that_tune_is_refused(kind, size):
    b = np.resize([0, 1], 60)
    A = np.random.default_rng(0).uniform(1, 2, size=(60, 2))
    row = split_rows(of_labels(b), 0)[1][3]
    A[row, 1] = size
    with pytest.raises(
        DataError,
        match=rf"column 'f1' is too large to standardise: it holds {size:.2g} in row {row + 1}".replace("+", r"\+"),
    ):
        prepare(dataset_of(kind(A), b), 5, 0)


def test_a_column_that_varies_little_around_a_large_value_is_kept():
    b = np.resize([0, 1], 60)
    A = 1e9 + np.random.default_rng(0).integers(2, size=(60, 1)) * 1e-6
    data = prepare(dataset_of(A, b), 5, 0)
    assert not data.constant.any()
    np.testing.assert_allclose(data.development.A[:, 0].std(), 1, rtol=0.01)
