"""The real sets, from the mirror: what is published about them holds for what is loaded."""

from __future__ import annotations

import gzip
import hashlib

import numpy as np
import pytest
import scipy.sparse as sp

from nbo.datasets import load
from nbo.datasets._registry import ENTRIES
from nbo.datasets._store import find

#: Name -> rows of the training, validation and test part, columns, sparse.
PUBLISHED = {
    "ijcnn1": (49_990, 91_701, 0, 22, False),
    "covtype_50k": (32_000, 8_000, 10_000, 54, False),
    "mnist": (20_000, 5_000, 10_000, 784, False),
    "fashion_mnist": (20_000, 5_000, 10_000, 784, False),
    "a9a": (26_048, 6_513, 16_281, 123, True),
    "w8a": (31_839, 7_960, 9_950, 300, True),
    "mushrooms": (5_199, 1_300, 1_625, 112, True),
    "phishing": (7_075, 1_769, 2_211, 68, False),
    "news20": (10_198, 2_550, 3_187, 62_061, True),
    "california": (13_209, 3_303, 4_128, 8, False),
    "abalone": (2_672, 669, 836, 8, False),
    "housing": (323, 81, 102, 13, False),
    "cpusmall": (5_242, 1_311, 1_639, 12, False),
}
SLOW = {"ijcnn1", "mnist", "fashion_mnist", "news20", "a9a"}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in PUBLISHED])
def test_published_set(load_real, name):
    n_train, n_val, n_test, columns, sparse = PUBLISHED[name]
    dataset = load_real(name, dtype=np.float32)
    assert dataset.A.shape == (n_train, columns)
    assert dataset.A_val.shape == (n_val, columns)
    assert (dataset.A_test is None) if n_test == 0 else (dataset.A_test.shape == (n_test, columns))
    assert sp.issparse(dataset.A) == sp.issparse(dataset.A_val) == sparse
    assert dataset.A.dtype == np.float32
    if sparse:
        assert all(A.nnz == A.count_nonzero() for A in (dataset.A, dataset.A_val, dataset.A_test))
    assert np.isfinite(dataset.A.data if sparse else dataset.A).all()
    if ENTRIES[name].standardize and not sparse:
        np.testing.assert_allclose(dataset.A.mean(axis=0, dtype=np.float64), 0, atol=1e-5)
        deviations = dataset.A.std(axis=0, dtype=np.float64)
        np.testing.assert_allclose(deviations[deviations > 0], 1, rtol=1e-4)


@pytest.mark.slow
def test_covtype_binary(load_real):
    dataset = load_real("covtype_binary", standardize=False, dtype=np.float32)
    assert dataset.A.shape == (371_847, 54)
    assert (len(dataset.b_val), len(dataset.b_test)) == (92_962, 116_203)
    assert int(sum((b == 1).sum() for b in (dataset.b, dataset.b_val, dataset.b_test))) == 283_301
    for columns in (slice(10, 14), slice(14, 54)):  # one wilderness area and one type of soil a row
        np.testing.assert_array_equal(dataset.A_val[:, columns].sum(axis=1), 1)


def test_covtype_is_not_replaced_by_its_relatives(load_real):
    with pytest.raises(FileNotFoundError, match=r"fetch_covtype\.py"):
        load_real("covtype")


@pytest.mark.slow
def test_ijcnn1_is_as_published(load_real):
    dataset = load_real("ijcnn1")
    assert (int((dataset.b == 1).sum()), int((dataset.b_val == 1).sum())) == (4_853, 8_712)
    assert dataset.A.min() == -0.930435  # nothing is scaled
    np.testing.assert_array_equal(dataset.A[0].nonzero()[0][:3] + 1, [6, 11, 12])


@pytest.mark.slow
def test_mnist_parts(load_real):
    clean = load_real("mnist", standardize=False)
    np.testing.assert_array_equal(clean.b_test[:10], [7, 2, 1, 0, 4, 1, 4, 9, 5, 9])
    dirty = load_real("mnist", standardize=False, corruption=0.5, n_train=30_000)
    assert dirty.A.shape == (30_000, 784)
    assert abs(dirty.flipped.mean() - 0.45) < 0.02
    np.testing.assert_array_equal(dirty.b_test, clean.b_test)


@pytest.mark.slow
def test_fashion_mnist_of_the_mirror_is_shuffled_and_says_what_it_is(load_real):
    dataset = load_real("fashion_mnist", standardize=False)
    assert "not the official one" in dataset.description
    for b in (dataset.b, dataset.b_val, dataset.b_test):
        np.testing.assert_array_equal(np.bincount(b), len(b) // 10)
        assert len(np.unique(b[:100])) == 10


def test_digests_of_the_mirror_are_the_published_ones(data_mirror):
    for content in ENTRIES["mnist"].origins[0].parts.values():
        for file in content.files:
            raw = gzip.decompress(find(data_mirror, file).read_bytes())
            assert f"md5:{hashlib.md5(raw).hexdigest()}" == file.digest


def test_copy_from_the_mirror_is_used_without_it(data_mirror, tmp_path, monkeypatch):
    before = {path: path.stat().st_mtime_ns for path in (data_mirror / "libsvm").iterdir()}
    monkeypatch.setenv("NBO_DATA_MIRROR", str(data_mirror))
    first = load("housing", data_home=tmp_path)
    monkeypatch.delenv("NBO_DATA_MIRROR")
    again = load("housing", data_home=tmp_path)
    np.testing.assert_array_equal(first.A, again.A)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["housing_scale.bz2"]
    assert {path: path.stat().st_mtime_ns for path in (data_mirror / "libsvm").iterdir()} == before
