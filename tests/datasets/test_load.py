"""Data sets by name: splits, labels, subsets, corruption, scaling, types, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from nbo import datasets
from nbo.datasets import load
from nbo.datasets._parts import scaled
from nbo.datasets._registry import ENTRIES, Content, Entry, Origin

BUILT_IN = ("breast_cancer", "digits", "wine", "diabetes")
PARTS = (("A", "b"), ("A_val", "b_val"), ("A_test", "b_test"))


def arrays_of(dataset):
    """All arrays of a data set, sparse ones as dense ones."""
    found = [getattr(dataset, name) for pair in PARTS for name in pair] + [dataset.classes, dataset.flipped]
    return [a.toarray() if sp.issparse(a) else a for a in found if a is not None]


def assert_same(first, second):
    for left, right in zip(arrays_of(first), arrays_of(second), strict=True):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)


# --- splits and labels --------------------------------------------------------------------------------------


def test_names_are_described():
    found = datasets.names()
    assert tuple(found)[:4] == BUILT_IN
    assert all(line and "\n" not in line for line in found.values())


@pytest.mark.parametrize("name", BUILT_IN)
def test_parts_are_a_partition_of_the_set(name):
    dataset, content = load(name, standardize=False), ENTRIES[name].origins[0].parts["train"]
    rows = np.vstack([np.column_stack([getattr(dataset, A), getattr(dataset, b)]) for A, b in PARTS])
    assert rows.shape == (content.rows, content.columns + 1)
    n_test = -(-content.rows // 5)
    n_val = -(-(content.rows - n_test) // 5)
    assert (len(dataset.b_test), len(dataset.b_val)) == (n_test, n_val)
    loader = {"breast_cancer": load_breast_cancer, "digits": load_digits, "diabetes": load_diabetes}.get(name)
    if loader is not None:
        A, b = loader(return_X_y=True)
        whole = np.column_stack([A, 2 * b - 1 if name == "breast_cancer" else b])
        np.testing.assert_array_equal(rows[np.lexsort(rows.T)], whole[np.lexsort(whole.T)])


@pytest.mark.parametrize("name", ["breast_cancer", "digits", "wine"])
def test_split_keeps_the_shares_of_labels(name):
    dataset = load(name)
    share = [np.mean(dataset.b == label) for label in dataset.classes]
    for b in (dataset.b_val, dataset.b_test):
        np.testing.assert_allclose([np.mean(b == label) for label in dataset.classes], share, atol=0.03)


def test_labels_and_classes():
    binary, many, real = load("breast_cancer"), load("digits"), load("diabetes")
    np.testing.assert_array_equal(binary.classes, [-1.0, 1.0])
    assert binary.b.dtype == np.float64
    assert np.mean(np.concatenate([binary.b, binary.b_val, binary.b_test]) == 1) == 357 / 569
    np.testing.assert_array_equal(many.classes, np.arange(10))
    assert many.b.dtype == many.classes.dtype == np.int64
    assert real.classes is None
    assert (binary.task, many.task, real.task) == ("binary", "multiclass", "regression")
    assert len(np.unique(real.b)) > 100


def test_prints_in_one_line():
    assert repr(load("breast_cancer", corruption=1.0, n_train=100)).startswith(
        "<Dataset breast_cancer: binary, 100 training + 91 validation + 114 test rows of 30 features, "
    )


# --- seeds and subsets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BUILT_IN)
def test_loading_twice_gives_the_same(name):
    options = {"n_train": 50, "n_val": 20, "corruption": 0.0 if name == "diabetes" else 0.3}
    first, again = (load(name, **options) for _ in range(2))
    assert_same(first, again)
    assert not np.shares_memory(first.A, again.A)
    assert not np.array_equal(first.A, load(name, random_state=1, **options).A)


def test_generator_is_a_seed_too():
    assert_same(load("wine", random_state=np.random.default_rng(5)), load("wine", random_state=5))
    rng = np.random.default_rng(5)
    assert not np.array_equal(load("wine", random_state=rng).A, load("wine", random_state=rng).A)


@settings(max_examples=15)
@given(n_train=st.integers(1, 1_149), n_test=st.integers(1, 360), seed=st.integers(0, 99))
def test_subset_is_of_the_part_and_in_its_order(n_train, n_test, seed):
    whole = load("digits", standardize=False, random_state=seed)
    some = load("digits", standardize=False, random_state=seed, n_train=n_train, n_test=n_test)
    np.testing.assert_array_equal(some.A_val, whole.A_val)
    for (A, b), n in zip((PARTS[0], PARTS[2]), (n_train, n_test), strict=True):
        rows = np.column_stack([getattr(some, A), getattr(some, b)])
        assert len(rows) == n
        pool = iter(np.column_stack([getattr(whole, A), getattr(whole, b)]))
        assert all(any(np.array_equal(row, other) for other in pool) for row in rows)


def test_subset_keeps_the_shares_of_labels():
    dataset = load("digits", n_train=500)
    assert np.unique(dataset.b, return_counts=True)[1].min() >= 48


def test_subset_with_one_row_of_each_class():
    assert sorted(load("digits", n_train=10).b) == list(range(10))


# --- corruption ---------------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(p=st.floats(0.01, 1.0), seed=st.integers(0, 10_000))
def test_corruption(p, seed):
    clean, dirty = (load("digits", random_state=seed, corruption=q) for q in (0.0, p))
    assert clean.flipped is None
    np.testing.assert_array_equal(dirty.flipped, dirty.b != clean.b)
    assert set(dirty.b) <= set(range(10))
    for name in ("A", "A_val", "b_val", "A_test", "b_test"):
        np.testing.assert_array_equal(getattr(dirty, name), getattr(clean, name))
    # A redrawn label is the old one for a tenth of the draws; six standard deviations of a binomial share.
    expected = 0.9 * p
    assert abs(dirty.flipped.mean() - expected) <= 6 * np.sqrt(expected * (1 - expected) / len(dirty.b)) + 1e-9


def test_corrupted_rows_grow_with_the_probability():
    less, more = (load("digits", corruption=p) for p in (0.3, 0.6))
    assert less.flipped.sum() < more.flipped.sum()
    np.testing.assert_array_equal(more.b[less.flipped], less.b[less.flipped])


def test_complete_corruption_is_uniform():
    counts = np.unique(load("digits", corruption=1.0).b, return_counts=True)[1]
    assert abs(counts - 114.9).max() < 6 * np.sqrt(114.9 * 0.9)


def test_binary_corruption_flips_half_of_what_it_redraws():
    dataset = load("breast_cancer", corruption=1.0)
    assert set(dataset.b) == {-1.0, 1.0}
    assert abs(dataset.flipped.mean() - 0.5) < 6 * np.sqrt(0.25 / len(dataset.b))


# --- scaling and types --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", BUILT_IN)
def test_standardised_on_training_rows(name, dtype):
    dataset, plain = load(name, dtype=dtype), load(name, standardize=False)
    varies = plain.A.std(axis=0) > 0
    assert dataset.A.dtype == dataset.A_val.dtype == dataset.A_test.dtype == dtype
    np.testing.assert_allclose(dataset.A.mean(axis=0, dtype=np.float64), 0, atol=1e-6)
    np.testing.assert_allclose(dataset.A.std(axis=0, dtype=np.float64)[varies], 1, rtol=1e-5)
    assert varies.all() == (name != "digits")  # some pixels of the digits are always white
    np.testing.assert_array_equal(dataset.A[:, ~varies], 0)
    scaled = (plain.A_test - plain.A.mean(axis=0)) / np.where(varies, plain.A.std(axis=0), 1)
    np.testing.assert_allclose(dataset.A_test, scaled, rtol=1e-5, atol=1e-5)
    for name_of_part, _ in PARTS:
        assert getattr(dataset, name_of_part).flags.c_contiguous


def test_float32_labels():
    assert load("breast_cancer", dtype="float32").b.dtype == np.float32
    assert load("diabetes", dtype="float32").b_val.dtype == np.float32
    assert load("digits", dtype="float32").b.dtype == np.int64


@pytest.fixture
def sparse_set(monkeypatch):
    """A sparse set called "made", with a column that is empty and one that never varies."""
    A = sp.random(200, 8, density=0.2, random_state=0, format="csr").tolil()
    A[:, 0], A[:, 1] = 0.0, -4.0
    A, labels = A.tocsr(), np.resize([0, 1, 2], 200)
    monkeypatch.setitem(datasets._readers.READERS, "made", lambda paths, content: (A, labels))
    origin = Origin({"train": Content("made", (), 200, 8, {0: 67, 1: 67, 2: 66})})
    monkeypatch.setitem(
        ENTRIES, "made", Entry("made here", "multiclass", "a test", (origin,), standardize=True, sparse=True)
    )
    before = A.copy()
    yield
    np.testing.assert_array_equal(A.toarray(), before.toarray())


@pytest.mark.usefixtures("sparse_set")
def test_sparse_data_stay_sparse():
    plain, dataset = load("made", standardize=False), load("made")
    largest = abs(plain.A).max(axis=0).toarray().ravel()
    for name, _ in PARTS:
        A = getattr(dataset, name)
        assert A.format == "csr"
        assert A.nnz == getattr(plain, name).nnz
        np.testing.assert_allclose(A.toarray(), getattr(plain, name).toarray() / np.where(largest > 0, largest, 1))
    np.testing.assert_array_equal(abs(dataset.A).max(axis=0).toarray().ravel(), largest > 0)
    assert load("made", dtype=np.float32).A.dtype == np.float32


@pytest.mark.parametrize("kind", [np.array, sp.csr_matrix])
@pytest.mark.parametrize("standardize", [True, False])
def test_scaling_leaves_its_input_alone(kind, standardize):
    A = kind([[1.0, -2.0], [3.0, 0.0]])
    before = A.copy()
    result = scaled({"train": A}, standardize, np.dtype(np.float64))["train"]
    values, original = (result.data, A.data) if sp.issparse(A) else (result, A)
    assert not np.shares_memory(values, original)
    assert abs(A - before).max() == 0


def test_what_was_read_is_not_modified(monkeypatch):
    A, labels = load_digits(return_X_y=True)
    A.setflags(write=False)
    labels.setflags(write=False)
    monkeypatch.setitem(datasets._readers.READERS, "load_digits", lambda paths, content: (A, labels))
    before = A.copy(), labels.copy()
    dataset = load("digits", corruption=0.5)
    dataset.A[:], dataset.b[:] = 7, 7
    for array, copy in zip((A, labels), before, strict=True):
        np.testing.assert_array_equal(array, copy)


# --- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"name": "mnits"}, ValueError, "name: found 'mnits' (did you mean 'mnist'?); expected one of 'breast_cancer'"),
        ({"name": 3}, ValueError, "name: found 3; expected one of"),
        ({"corruption": 1.5}, ValueError, "corruption: found 1.5; expected a number from 0 to 1"),
        ({"corruption": "0.5"}, TypeError, "corruption: found '0.5'"),
        ({"name": "diabetes", "corruption": 0.1}, ValueError, "corruption: found 0.1 for a regression; expected 0"),
        ({"n_train": 1_150}, ValueError, "n_train: found 1,150; expected at most 1,149, all rows of the part"),
        ({"n_val": 0}, ValueError, "n_val: found 0; expected an integer >= 1"),
        ({"n_test": 2.0}, TypeError, "n_test: found 2.0 (float); expected an integer"),
        ({"standardize": 1}, TypeError, "standardize: found 1 (int); expected True, False or None"),
        ({"dtype": int}, ValueError, "dtype: found int64; expected float64 or float32"),
        ({"dtype": "float23"}, TypeError, "dtype: found 'float23'; expected float64 or float32"),
        ({"random_state": -1}, ValueError, "random_state: found -1"),
        ({"random_state": np.random.RandomState(0)}, TypeError, "random_state: found a RandomState"),
    ],
)
def test_bad_arguments(arguments, kind, words):
    with pytest.raises(kind) as caught:
        load(**{"name": "digits", **arguments})
    assert words in str(caught.value)


def test_set_that_is_not_there_names_the_command(monkeypatch, tmp_path):
    monkeypatch.delenv("NBO_DATA_MIRROR", raising=False)
    with pytest.raises(FileNotFoundError) as caught:
        load("ijcnn1", data_home=tmp_path / "home")
    message = str(caught.value)
    assert "`python data_scripts/fetch_ijcnn1.py`" in message
    assert "NBO_DATA_MIRROR" in message
    assert str(tmp_path / "home") in message
    assert not (tmp_path / "home").exists()


def test_mirror_without_the_set_names_the_file(monkeypatch, tmp_path):
    monkeypatch.setenv("NBO_DATA_MIRROR", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"does not hold covtype/covtype\.npz; .*fetch_covtype\.py"):
        load("covtype", data_home=tmp_path / "home")
    monkeypatch.setenv("NBO_DATA_MIRROR", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="nowhere is no folder"):
        load("a9a", data_home=tmp_path / "home")
