"""Labels, matrices, weights and folds as people have them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupShuffleSplit, KFold, LeaveOneGroupOut

from nbo.sklearn import BilevelLogisticRegression, BilevelRidge


def fitted(X, y, **given):
    settings = {"cv": 3, "random_state": 0} | {k: given.pop(k) for k in list(given) if k not in FIT}
    return BilevelLogisticRegression(**settings).fit(X, y, **given)


FIT = ("sample_weight", "X_val", "y_val", "sample_weight_val")


@pytest.mark.parametrize("labels", [(1, 2), (-1, 1), ("no", "yes"), (False, True), (0.0, 3.0)])
def test_labels(rows, labels):
    X, y = rows
    given = np.array(labels)[y]
    model, plain = fitted(X, given), fitted(X, y)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    assert model.classes_.tolist() == list(labels)
    assert set(model.predict(X)) == set(labels)
    if given.dtype.kind == "U":
        np.testing.assert_array_equal(fitted(X, given.astype(object)).coef_, plain.coef_)


def test_one_class(rows):
    with pytest.raises(ValueError, match="needs samples of at least 2 classes"):
        fitted(rows[0], np.zeros(80))


def int64_indices(X):
    matrix = sp.csr_array(X)
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    return matrix


@pytest.mark.parametrize(
    "container", [sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.csc_array, sp.coo_array, int64_indices]
)
def test_sparse(rows, container):
    X, y = rows
    X = np.where(np.abs(X) > 0.3, X, 0)
    model, plain = fitted(container(X), y), fitted(X, y)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-3)
    np.testing.assert_allclose(model.predict_proba(container(X)), model.predict_proba(X), rtol=1e-12)


def test_memory_map_is_read_only(rows, tmp_path):
    X, y = rows
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    np.testing.assert_array_equal(fitted(mapped, y).coef_, fitted(X, y).coef_)


def test_inputs_are_left_alone(rows):
    X, y = rows[0].copy(), rows[1].copy()
    weights = np.arange(80.0)
    fitted(X, y, sample_weight=weights)
    np.testing.assert_array_equal(X, rows[0])
    np.testing.assert_array_equal(y, rows[1])
    np.testing.assert_array_equal(weights, np.arange(80.0))


@pytest.mark.parametrize("estimator", [BilevelLogisticRegression, BilevelRidge])
def test_float32_stays_float32(rows, estimator):
    X, y = rows
    model = estimator(cv=3, random_state=0).fit(X.astype(np.float32), y)
    double = estimator(cv=3, random_state=0).fit(X, y)
    assert model.coef_.dtype == np.float32
    np.testing.assert_allclose(model.coef_, double.coef_, rtol=0.02, atol=1e-3)
    result = model.predict_proba(X.astype(np.float32)) if hasattr(model, "predict_proba") else model.predict(X[:3])
    assert np.isfinite(result).all()


def test_constant_duplicated_and_empty_columns(rows):
    X, y = rows
    odd = np.column_stack((X, np.full(80, 3.0), X[:, 0], np.zeros(80)))
    model = fitted(odd, y, penalty="feature")
    assert np.isfinite(model.coef_).all() and np.isfinite(model.log_penalty_).all()
    assert model.coef_[0, -1] == 0
    assert model.coef_[0, 7] == pytest.approx(model.coef_[0, 0], rel=1e-2)
    assert model.score(odd, y) > 0.7


def test_fewer_rows_than_features():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 50)), np.arange(20) % 2
    model = fitted(X, y, penalty="feature", max_iter=500)
    assert model.coef_.shape == (1, 50) and np.isfinite(model.coef_).all()


def test_separable_rows_end_at_the_bound(rows):
    X, _ = rows
    y = (X[:, 0] > 0).astype(int)
    X = X + 2 * np.sign(X)
    with pytest.warns(ConvergenceWarning, match="at its lower bound"):
        model = fitted(X, y, tol=1e-9, max_iter=1000)
    assert model.C_[0] == pytest.approx(1e4, rel=0.02)
    assert np.isfinite(model.coef_).all() and model.score(X, y) == 1
    assert "weakest penalty allowed" in str(model.report_)


def test_noise_ends_at_the_strongest_penalty():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 5))
    y = np.arange(60) % 2
    model = fitted(X, y, tol=1e-9, max_iter=500)
    assert model.report_.at_upper == ("all coefficients",)
    assert model.log_penalty_[0] == pytest.approx(12, abs=0.02)
    assert np.abs(model.coef_).max() < 1e-4


def test_integer_weights_are_repeated_rows(three):
    X, y = three
    weights = np.random.default_rng(0).integers(0, 4, size=80)
    groups = np.arange(80) % 3
    folds = list(LeaveOneGroupOut().split(X, y, groups))
    weighted = fitted(X, y, sample_weight=weights, cv=folds, penalty="class", tol=1e-6, max_iter=1000)
    X_all, y_all, groups_all = X.repeat(weights, axis=0), y.repeat(weights), groups.repeat(weights)
    repeated = fitted(
        X_all, y_all, cv=LeaveOneGroupOut().split(X_all, y_all, groups_all), penalty="class", tol=1e-6, max_iter=1000
    )
    np.testing.assert_allclose(weighted.log_penalty_, repeated.log_penalty_, atol=1e-3)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-3)
    assert weighted.report_.shared_loss == pytest.approx(repeated.report_.shared_loss, rel=1e-5)


def test_rows_of_zero_weight_are_nobodys(rows):
    X, y = rows
    weights = np.where(np.arange(80) < 10, 0.0, 1.0)
    model, plain = fitted(X, y, sample_weight=weights), fitted(X[10:], y[10:])
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-9)
    assert model.report_.n_rows == 70
    with pytest.raises(ValueError, match="zero"):
        fitted(X, y, sample_weight=np.zeros(80))


def test_numbers_of_given_folds_are_those_of_given_rows(rows):
    X, y = rows
    weights = np.where(np.arange(80) < 10, 0.0, 1.0)
    halves = [(np.arange(0, 45), np.arange(45, 80)), (np.arange(45, 80), np.arange(0, 45))]
    model = fitted(X, y, sample_weight=weights, cv=halves)
    plain = fitted(X[10:], y[10:], cv=[(np.arange(35), np.arange(35, 70)), (np.arange(35, 70), np.arange(35))])
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-9)
    masks = [tuple(np.isin(np.arange(80), part) for part in pair) for pair in halves]
    np.testing.assert_array_equal(fitted(X, y, sample_weight=weights, cv=masks).coef_, model.coef_)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("estimator", [BilevelLogisticRegression(), BilevelRidge()])
def test_what_is_not_finite_is_refused(rows, estimator, bad):
    X, y = rows[0].copy(), rows[1]
    X[3, 2] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        estimator.fit(X, y)
    with pytest.raises(ValueError, match=r"X_val.*(NaN|infinity)"):
        estimator.fit(rows[0], y, X_val=X, y_val=y)


def test_a_class_with_one_row(rows):
    X, y = rows[0], rows[1].copy()
    y[0] = 2
    with pytest.warns(UserWarning, match=r"cv: (a class has 1 rows|training rows lack)") as caught:
        model = fitted(X, y)
    assert model.classes_.tolist() == [0, 1, 2] and np.isfinite(model.coef_).all()
    assert len(caught) == 2  # of the small class, and of the fold that cannot learn it
    assert model.report_.criterion == "2 of 3 stratified folds"


def test_classes_smaller_than_the_number_of_folds():
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match="not stratified"):
        model = fitted(rng.standard_normal((12, 2)), np.arange(12) % 4, cv=5, max_iter=500)
    assert model.report_.criterion == "5 shuffled folds"


def test_folds_that_miss_a_class(three):
    X, y = three
    order = np.argsort(y, kind="stable")
    assert np.bincount(y).min() < 27  # so that a third of the sorted rows may be all of a class
    with pytest.warns(UserWarning, match="cv: training rows lack classes .*left out; shuffle or stratify"):
        model = fitted(X[order], y[order], cv=KFold(3))
    assert model.report_.n_folds < 3 and model.predict_proba(X).shape == (80, 3)
    with pytest.raises(ValueError, match=r"cv: found that training rows lack classes .*shuffle or stratify"):
        fitted(X, np.arange(80) >= 40, cv=KFold(2))


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_a_share_is_one_stratified_split(three, share):
    X, y = three
    model = fitted(X, y, cv=share)
    assert model.report_.n_folds == 1
    assert model.report_.n_held_out == round(80 * share)
    assert "stratified" in model.report_.criterion
    assert BilevelRidge(cv=share, random_state=0).fit(X, y).report_.n_held_out == round(80 * share)


def test_a_share_with_a_class_of_one_row(rows):
    X, y = rows[0], rows[1].copy()
    y[1] = 2
    with pytest.warns(UserWarning, match=r"cv: .*not stratified"):
        model = fitted(X, y, cv=0.25, random_state=1)
    assert model.coef_.shape == (3, 6)


def test_a_splitter_and_its_pairs_are_the_same(rows):
    X, y = rows
    splitter = GroupShuffleSplit(2, random_state=0)
    pairs = list(splitter.split(X, y, np.arange(80) // 4))
    iterator = fitted(X, y, cv=iter(pairs))
    np.testing.assert_array_equal(iterator.coef_, fitted(X, y, cv=pairs).coef_)
    np.testing.assert_array_equal(fitted(X, y, cv=KFold(4)).coef_, fitted(X, y, cv=list(KFold(4).split(X))).coef_)


def test_validation_rows_may_lack_a_class(three):
    X, y = three
    kept = y[50:] != 0
    model = fitted(X[:50], y[:50], X_val=X[50:][kept], y_val=y[50:][kept])
    assert model.coef_.shape == (3, 6)
    assert model.report_.n_rows == 50 + kept.sum()
    assert model.report_.criterion == "the given validation rows"


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        ({"X_val": "X"}, "y_val: found None beside X_val"),
        ({"y_val": "y"}, "X_val: found None beside y_val"),
        ({"sample_weight_val": "w"}, "sample_weight_val: found weights without X_val"),
        ({"X_val": "narrow", "y_val": "y"}, "X_val.*5 features"),
        ({"X_val": "X", "y_val": "other"}, "y_val: found the label 7, which y lacks"),
        ({"X_val": "X", "y_val": "words"}, "y_val: found the label 'a', which y lacks"),
    ],
)
def test_bad_validation_rows(rows, fit, message):
    X, y = rows
    words = {"X": X, "y": y, "w": np.ones(80), "narrow": X[:, :5], "other": y + 7 * (y == 1) - (y == 1)}
    words["words"] = np.where(y == 1, "a", "a")
    with pytest.raises(ValueError, match=message):
        fitted(X, y, **{name: words[word] for name, word in fit.items()})


def test_validation_weights(rows):
    X, y = rows
    weights = np.random.default_rng(0).integers(0, 3, size=30)
    weighted = fitted(X[:50], y[:50], X_val=X[50:], y_val=y[50:], sample_weight_val=weights)
    X_val, y_val = X[50:].repeat(weights, axis=0), y[50:].repeat(weights)
    repeated = fitted(X[:50], y[:50], X_val=X_val, y_val=y_val)
    np.testing.assert_allclose(weighted.log_penalty_, repeated.log_penalty_, atol=1e-3)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-3)


@pytest.mark.parametrize(
    ("setting", "error", "message"),
    [
        ({"penalty": "output"}, ValueError, "penalty: found 'output'"),
        ({"penalty": [0, 1]}, ValueError, "penalty: found an array of shape"),
        ({"penalty": [0, 0, 0, 0, 0, 2]}, ValueError, "penalty: found group ids"),
        ({"cv": 1}, ValueError, "cv: found 1"),
        ({"cv": 81}, ValueError, "cv: found 81 folds for n_samples=80"),
        ({"cv": 1.5}, ValueError, "cv: found 1.5"),
        ({"cv": "five"}, TypeError, "cv: found 'five'"),
        ({"cv": True}, TypeError, "cv: found True"),
        ({"cv": None}, TypeError, "cv: found None"),
        ({"cv": []}, ValueError, "cv: found no pairs"),
        ({"cv": [1, 2]}, TypeError, "cv: found 1 as fold 0"),
        ({"cv": [([0.5], [1])]}, TypeError, "cv: found type float64"),
        ({"cv": [([0, 100], [1])]}, ValueError, "cv: found rows from 0 to 100"),
        ({"cv": [(range(40), [1])]}, ValueError, "cv: found 1 rows, such as 1, in both parts"),
        ({"cv": [(range(40), np.arange(0))]}, ValueError, "cv: found an empty part in pair 0"),
        ({"penalty_prior": "wide"}, ValueError, "penalty_prior: found 'wide'"),
        ({"penalty_prior": 0.0}, ValueError, "penalty_prior: found 0"),
        ({"refit": "yes"}, TypeError, "refit: found 'yes'"),
        ({"fit_intercept": 1}, TypeError, "fit_intercept: found 1"),
        ({"tol": -1.0}, ValueError, "tol: found -1"),
        ({"max_iter": 0}, ValueError, "max_iter: found 0"),
        ({"verbose": -1}, ValueError, "verbose: found -1"),
    ],
)
def test_bad_settings(rows, setting, error, message):
    with pytest.raises(error, match=message):
        fitted(*rows, **setting)


def test_ridge_needs_as_many_targets_to_validate(rows):
    X, y = rows
    with pytest.raises(ValueError, match="y_val: found 2 targets; expected 1"):
        BilevelRidge().fit(X, y, X_val=X, y_val=np.column_stack((y, y)))
