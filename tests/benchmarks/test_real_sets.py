"""Splits of real data sets: their sizes, scales and folds."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from nbo import datasets
from nbo.benchmarks import _real_sets as real_sets
from nbo.benchmarks._real_sets import QUICK_SETS, SETS, RealSet, real_rows

SMALL = RealSet("breast_cancer", 1, 1)


@pytest.fixture(autouse=True)
def fresh_pool():
    real_sets._pool.cache_clear()
    yield
    real_sets._pool.cache_clear()


def with_counts(monkeypatch):
    """Let a sparse set of counts in ten classes stand for any set."""
    rng = np.random.default_rng(0)
    parts = [(sp.csr_matrix(rng.poisson(0.5, (n, 6)) * 4.0), np.arange(n) % 3) for n in (60, 20, 20)]
    (A, b), (A_val, b_val), (A_test, b_test) = parts
    data = datasets.Dataset(A, b, A_val, b_val, A_test, b_test, "counts", "", "", "multiclass", np.arange(3))
    monkeypatch.setattr(real_sets, "load", lambda name, **options: data)


def test_sets_are_known_and_differ():
    known = set(datasets.names())
    assert {chosen.name for chosen in SETS} <= known
    assert len({chosen.name for chosen in SETS}) == len(SETS) == 12
    assert [(chosen.name, chosen.n_seeds) for chosen in QUICK_SETS] == [("breast_cancer", 2), ("housing", 2)]


def test_shares_scales_and_strata():
    rows = real_rows(SMALL, seed=3)
    assert [len(y) for y in (rows.y, rows.y_val, rows.y_test)] == [341, 114, 114]
    np.testing.assert_allclose(rows.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(rows.X.std(axis=0), 1)
    shares = [np.mean(y == 1) for y in (rows.y, rows.y_val, rows.y_test)]
    assert np.ptp(shares) < 0.01
    np.testing.assert_array_equal(rows.X_all, np.vstack([rows.X, rows.X_val]))


def test_seeds_draw_other_rows_and_one_seed_the_same():
    first, again, other = (real_rows(SMALL, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.X, again.X)
    assert not np.array_equal(first.y, other.y)


def test_folds_cover_all_rows_once_and_the_split_holds_out_the_validation_rows():
    rows = real_rows(SMALL, seed=0)
    held_out = np.sort(np.concatenate([held for _, held in rows.folds]))
    np.testing.assert_array_equal(held_out, np.arange(len(rows.y_all)))
    for train, held in rows.folds:
        assert len(train) + len(held) == len(rows.y_all)
        assert np.intersect1d(train, held).size == 0
    ((train, held),) = rows.one_split
    np.testing.assert_array_equal(rows.y_all[train], rows.y)
    np.testing.assert_array_equal(rows.y_all[held], rows.y_val)


def test_polynomial_features_are_standardised_after_they_are_made(own_home):
    rows = real_rows(RealSet("housing", 1, 1, degree=2), seed=0)
    assert rows.task == "regression"
    # 13 columns, their squares and products; the square of an indicator of -1 and 1 does not vary
    np.testing.assert_allclose(np.sort(rows.X.std(axis=0)), [0.0] + [1.0] * 103, atol=1e-12)


def test_fewer_rows_on_demand_keep_the_shares():
    rows = real_rows(SMALL, seed=0, at_most=100)
    assert [len(y) for y in (rows.y, rows.y_val, rows.y_test)] == [60, 20, 20]
    assert len(real_rows(SMALL, seed=0, at_most=10_000).y) == 341


def test_sparse_sets_stay_sparse(monkeypatch):
    with_counts(monkeypatch)
    rows = real_rows(RealSet("counts", 1, 1), seed=0)
    assert rows.X_all.format == "csr"
    assert set(np.unique(rows.X_all.data)) <= set(range(4, 100, 4))  # and are not scaled
    assert [A.shape[0] for A in (rows.X, rows.X_val, rows.X_test)] == [60, 20, 20]


def test_a_set_with_sizes_keeps_its_test_part(monkeypatch):
    with_counts(monkeypatch)
    official = real_sets.load("counts")
    rows = real_rows(RealSet("counts", 1, 1, sizes=(60, 20)), seed=5)
    np.testing.assert_array_equal(rows.y_test, official.b_test)
    assert [len(rows.y), len(rows.y_val)] == [60, 20]


@pytest.fixture
def own_home(data_mirror, tmp_path, monkeypatch):
    """A data home of its own, filled from the mirror."""
    monkeypatch.setattr(real_sets, "load", lambda name, **options: datasets.load(name, data_home=tmp_path, **options))
