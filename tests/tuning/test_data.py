"""Splits and scaling."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from nbo.datasets import BinaryTable, DataError, read_binary
from nbo.tuning.data import prepare, split_rows, with_ones

NAMES = ("no", "yes")


def dataset_of(A, b):
    names = tuple(f"f{j}" for j in range(A.shape[1]))
    return BinaryTable(A, b, "made", names, NAMES, "a test", "made for a test")


@given(counts=st.tuples(st.integers(5, 400), st.integers(5, 400)), seed=st.integers(0, 2**32 - 1))
def test_split_is_a_stratified_partition(counts, seed):
    b = np.repeat([-1.0, 1.0], counts)
    parts = split_rows(b, NAMES, seed)
    assert list(parts) == ["validation", "test", "train"]
    np.testing.assert_array_equal(np.sort(np.concatenate(list(parts.values()))), np.arange(len(b)))
    shares = {"train": 0.6, "validation": 0.2, "test": 0.2}
    for name, rows in parts.items():
        assert abs(len(rows) - shares[name] * len(b)) <= 1
        for label, count in zip((-1, 1), counts, strict=True):
            found = np.sum(b[rows] == label)
            assert found >= 1
            assert abs(found - shares[name] * count) < 2


def test_split_depends_on_the_seed_alone():
    b = np.resize([-1.0, 1.0], 100)
    first, again, other = (split_rows(b, NAMES, seed)["test"] for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(("counts", "name"), [((4, 50), "no"), ((50, 0), "yes")])
def test_too_few_rows(counts, name):
    with pytest.raises(DataError, match=f"too few rows: label '{name}' has {min(counts)}; expected at least 5"):
        split_rows(np.repeat([-1.0, 1.0], counts), NAMES, 0)


def test_dense_columns_are_standardised_by_training_rows():
    data = prepare(read_binary("breast_cancer"), seed=0)
    assert data.sizes() == {"train": 341, "validation": 114, "test": 114}
    np.testing.assert_allclose(data.train.A[:, :-1].mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(data.train.A[:, :-1].std(axis=0), 1)
    assert np.abs(data.test.A[:, :-1].mean(axis=0)).max() > 1e-3
    for part in (data.train, data.validation, data.test, data.development):
        np.testing.assert_array_equal(part.A[:, -1], 1)
    np.testing.assert_array_equal(data.development.A, np.vstack([data.train.A, data.validation.A]))
    np.testing.assert_array_equal(data.development.b, np.concatenate([data.train.b, data.validation.b]))


def test_sparse_columns_stay_sparse():
    rng = np.random.default_rng(0)
    A = sp.random(200, 30, density=0.1, format="csr", random_state=0)
    data = prepare(dataset_of(A, rng.choice([-1.0, 1.0], 200)), seed=0)
    for part in (data.train, data.validation, data.test, data.development):
        assert part.A.format == "csr"
    assert np.abs(data.train.A).max() == 1
    np.testing.assert_array_equal(data.center, 0)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_original_units_give_the_same_scores(kind):
    rng = np.random.default_rng(1)
    A = rng.normal(3, 5, size=(60, 4)) * (rng.random((60, 4)) < 0.5)
    A[:, 2] = 0  # constant: its scale is one and its coefficient harmless
    dataset = dataset_of(kind(A), np.resize([-1.0, 1.0], 60))
    data, y = prepare(dataset, seed=2), rng.normal(size=5)
    coefficients, intercept = data.original_units(y[:-1], y[-1])
    rows = split_rows(dataset.b, NAMES, 2)["test"]
    np.testing.assert_allclose(A[rows] @ coefficients + intercept, data.test.A @ y, rtol=1e-10)


def test_inputs_are_not_modified():
    dataset = read_binary("digits-3-8")
    before = dataset.A.copy()
    prepare(dataset, seed=0)
    np.testing.assert_array_equal(dataset.A, before)


def test_ones():
    np.testing.assert_array_equal(with_ones(np.zeros((2, 1))), [[0, 1], [0, 1]])
    np.testing.assert_array_equal(with_ones(sp.csr_matrix((2, 1))).toarray(), [[0, 1], [0, 1]])


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_columns_that_never_vary_in_training_rows(kind):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(50, 4))
    A[:, 1], A[:, 2] = 0.0, 7.0
    b = np.resize([-1.0, 1.0], 50)
    A[split_rows(b, NAMES, 0)["train"], 3] = -1.0
    np.testing.assert_array_equal(prepare(dataset_of(kind(A), b), 0).constant, [False, True, True, True])


# --- sizes of numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("size", [1e-279, 1e-200, 1e-160, 1e160, 1e200, 1e279])
def test_scaling_does_not_depend_on_the_size_of_numbers(kind, size):
    rng = np.random.default_rng(3)
    A, b, y = rng.uniform(-1, 1, size=(60, 2)), np.resize([-1.0, 1.0], 60), rng.normal(size=3)
    plain, sized = prepare(dataset_of(kind(A), b), 0), prepare(dataset_of(kind(A * size), b), 0)
    assert not sized.constant.any()
    for one, other in ((plain.train.A, sized.train.A), (plain.test.A, sized.test.A)):
        np.testing.assert_allclose(abs(one - other).max(), 0, atol=1e-12)
    coefficients, intercept = sized.original_units(y[:-1], y[-1])
    rows = split_rows(b, NAMES, 0)["test"]
    np.testing.assert_allclose((A[rows] * size) @ coefficients + intercept, sized.test.A @ y, rtol=1e-9)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize(("size", "word"), [(1e300, "large"), (1e-300, "small"), (5e-324, "small")])
def test_sizes_beyond_float64_are_refused(kind, size, word):
    A = np.random.default_rng(0).uniform(1, 2, size=(60, 2)) * [1, 1]
    A[:, 1] = size
    with pytest.raises(DataError, match=f"column 'f1' is too {word} to standardise: its largest magnitude in the"):
        prepare(dataset_of(kind(A), np.resize([-1.0, 1.0], 60)), 0)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("part", ["validation", "test"])
@pytest.mark.parametrize("size", [1e30, -1e308])
def test_a_row_far_beyond_the_training_rows_is_refused(kind, part, size):
    b = np.resize([-1.0, 1.0], 60)
    A = np.random.default_rng(0).uniform(1, 2, size=(60, 2))
    row = split_rows(b, NAMES, 0)[part][3]
    A[row, 1] = size
    with pytest.raises(
        DataError,
        match=rf"column 'f1' is too large to standardise: it holds {size:.2g} in row {row + 1}".replace("+", r"\+"),
    ):
        prepare(dataset_of(kind(A), b), 0)


def test_a_column_that_varies_little_around_a_large_value_is_kept():
    b = np.resize([-1.0, 1.0], 60)
    A = 1e9 + np.random.default_rng(0).integers(2, size=(60, 1)) * 1e-6
    data = prepare(dataset_of(A, b), 0)
    assert not data.constant.any()
    np.testing.assert_allclose(data.train.A[:, 0].std(), 1, rtol=0.01)
