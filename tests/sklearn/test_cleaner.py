"""`LabelCleaner`: it finds wrong labels, beats the simplest filter, and takes whatever scikit-learn users bring."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression

from nbo.sklearn import LabelCleaner
from nbo.sklearn._distinct import distinct
from nbo.sklearn._label_noise import log_odds, transition_matrix


@pytest.fixture(scope="module")
def noisy():
    """Digits, 40 % of whose training labels are redrawn: rows, labels, which are wrong, and trusted and test rows."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    X, y = X[order] / 16, y[order]
    labels = y[:800].copy()
    redrawn = rng.random(800) < 0.4
    labels[redrawn] = rng.integers(10, size=redrawn.sum())
    parts = {"X": X[:800], "y": labels, "X_trusted": X[800:900], "y_trusted": y[800:900]}
    return parts, labels != y[:800], (X[900:], y[900:])


@pytest.fixture(scope="module")
def cleaner(noisy):
    """A fitted cleaner."""
    return LabelCleaner(random_state=0).fit(**noisy[0])


def binary(n=120, seed=0):
    """Two classes with some labels turned, and trusted rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + 60, 4))
    right = (X[:, 0] + 0.2 * rng.standard_normal(n + 60) > 0).astype(int)
    y = right.copy()
    y[: n // 5] = 1 - y[: n // 5]
    return X[:n], y[:n], X[n:], right[n:]


def test_suspects_are_wrong_labels(noisy, cleaner):
    _, wrong, _ = noisy
    found = cleaner.suspects()
    assert wrong[found].mean() > 0.95
    assert wrong[found].sum() > 0.7 * wrong.sum()
    assert np.all(np.diff(cleaner.weights_[found]) >= 0)
    assert set(found) == set(np.flatnonzero(cleaner.weights_ < 0.5))
    assert np.array_equal(cleaner.suspects(7), cleaner.suspects(800)[:7])


def test_beats_training_on_all_rows_and_is_no_worse_than_the_filter(noisy, cleaner):
    parts, _, (X_test, y_test) = noisy
    X, y, X_trusted, y_trusted = parts.values()
    kept = LogisticRegression(max_iter=1000).fit(X_trusted, y_trusted).predict(X) == y
    scores = [
        LogisticRegression(max_iter=1000)
        .fit(np.concatenate((X[rows], X_trusted)), np.concatenate((y[rows], y_trusted)))
        .score(X_test, y_test)
        for rows in (kept, np.arange(len(y)))
    ]
    filtered, everything = scores
    assert cleaner.score(X_test, y_test) > everything + 0.02
    assert cleaner.score(X_test, y_test) > filtered - 0.005  # on so few trusted rows both are within chance


def test_report_tells_what_the_filter_would_have_done(cleaner):
    report = cleaner.report_
    assert (report.n_rows, report.n_trusted, report.n_classes, report.held_out) == (800, 100, 10, False)
    assert report.n_suspects == len(cleaner.suspects())
    assert report.n_both <= min(report.n_suspects, report.n_disagree)
    assert 0.5 < report.agreement < 1
    assert report.trusted_loss < report.start_loss < report.uncleaned_loss
    text = str(report)
    for number in (report.n_suspects, report.n_disagree, report.n_both):
        assert f"{number}" in text


def test_path_and_result_are_those_of_hyper_cleaning(cleaner):
    path = cleaner.validation_path_
    assert {len(values) for values in path.values()} == {len(path["iteration"])}
    assert path["value"][-1] == cleaner.result_.fun
    assert cleaner.n_iter_ == cleaner.result_.nit <= 2
    assert cleaner.result_.x.size == 800


def test_without_trusted_rows_every_row_is_weighed(noisy):
    parts, wrong, _ = noisy
    with pytest.warns(UserWarning, match="X_trusted: found None; 160 of 800 different rows are held out"):
        cleaner = LabelCleaner(random_state=0).fit(parts["X"], parts["y"])
    assert cleaner.weights_.shape == (800,)
    assert cleaner.report_.held_out
    assert wrong[cleaner.suspects(100)].mean() > 0.9


def test_rows_of_weight_zero_are_judged_but_teach_nothing(noisy):
    parts, wrong, _ = noisy
    weights = np.ones(800)
    weights[:200] = 0
    rest = {**parts, "X": parts["X"][200:], "y": parts["y"][200:]}
    whole = LabelCleaner(random_state=0).fit(**parts, sample_weight=weights)
    part = LabelCleaner(random_state=0).fit(**rest)
    np.testing.assert_array_equal(whole.weights_[200:], part.weights_)
    np.testing.assert_array_equal(whole.coef_, part.coef_)
    silent = whole.weights_[:200] < 0.5
    assert np.mean(silent == wrong[:200]) > 0.85


def test_whole_weights_are_copies_and_order_does_not_matter():
    X, y, X_trusted, y_trusted = binary()
    weights = np.random.default_rng(1).integers(1, 4, size=len(y))
    copies = np.random.default_rng(2).permutation(np.repeat(np.arange(len(y)), weights))
    trusted = {"X_trusted": X_trusted, "y_trusted": y_trusted}
    weighted = LabelCleaner(random_state=0).fit(X, y, sample_weight=weights, **trusted)
    repeated = LabelCleaner(random_state=0).fit(X[copies], y[copies], **trusted)
    np.testing.assert_array_equal(repeated.weights_, weighted.weights_[copies])
    np.testing.assert_allclose(repeated.coef_, weighted.coef_)


def test_two_classes_named_by_strings():
    X, y, X_trusted, y_trusted = binary()
    names = np.array(["no", "yes"])
    cleaner = LabelCleaner(random_state=0).fit(X, names[y], X_trusted=X_trusted, y_trusted=names[y_trusted])
    assert cleaner.classes_.tolist() == ["no", "yes"]
    assert cleaner.coef_.shape == (1, 4)
    assert cleaner.intercept_.shape == (1,)
    assert cleaner.score(X_trusted, names[y_trusted]) > 0.9
    assert np.array_equal(cleaner.predict(X), names[(cleaner.decision_function(X) > 0).astype(int)])
    assert len(set(cleaner.suspects()) & set(range(24))) > 12


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array, sp.csc_array])
def test_sparse_rows_give_the_model_of_dense_ones(container):
    X, y, X_trusted, y_trusted = binary()
    X = np.where(np.abs(X) > 0.1, X, 0)
    dense = LabelCleaner(random_state=0).fit(X, y, X_trusted=X_trusted, y_trusted=y_trusted)
    sparse = LabelCleaner(random_state=0).fit(container(X), y, X_trusted=X_trusted, y_trusted=y_trusted)
    assert np.mean((sparse.weights_ < 0.5) == (dense.weights_ < 0.5)) > 0.95
    assert np.mean(sparse.predict(container(X)) == dense.predict(X)) > 0.95


def test_input_is_not_changed_and_single_precision_is_taken():
    X, y, X_trusted, y_trusted = (np.asarray(part, order="C") for part in binary())
    before = X.copy()
    double = LabelCleaner(random_state=0).fit(X, y, X_trusted=X_trusted, y_trusted=y_trusted)
    single = LabelCleaner(random_state=0).fit(X.astype(np.float32), y, X_trusted=X_trusted, y_trusted=y_trusted)
    assert np.array_equal(X, before)
    np.testing.assert_allclose(single.coef_, double.coef_, rtol=0.2, atol=0.1)


def test_data_frames_keep_their_names():
    pandas = pytest.importorskip("pandas")
    X, y, X_trusted, y_trusted = binary()
    frame, trusted = (pandas.DataFrame(part, columns=list("abcd")) for part in (X, X_trusted))
    cleaner = LabelCleaner(random_state=0).fit(frame, pandas.Series(y), X_trusted=trusted, y_trusted=y_trusted)
    assert cleaner.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match=r"X_trusted: found bad input \(The feature names should match"):
        LabelCleaner().fit(frame, y, X_trusted=trusted[list("dcba")], y_trusted=y_trusted)


def test_clone_and_pickle(cleaner, noisy):
    X_test, _ = noisy[2]
    copy = pickle.loads(pickle.dumps(cleaner))
    assert np.array_equal(copy.predict(X_test), cleaner.predict(X_test))
    assert np.array_equal(copy.suspects(), cleaner.suspects())
    assert clone(LabelCleaner(ridge=0.3, max_iter=5)).get_params()["ridge"] == 0.3


def test_settings_reach_the_solver(capsys):
    X, y, X_trusted, y_trusted = binary()
    settings = {"ridge": 0.05, "max_iter": 1, "refit": False, "fit_intercept": False, "verbose": 1}
    cleaner = LabelCleaner(random_state=0, **settings).fit(X, y, X_trusted=X_trusted, y_trusted=y_trusted)
    assert cleaner.ridge_ == 0.05
    assert cleaner.n_iter_ == 1
    assert cleaner.intercept_.tolist() == [0]
    W = cleaner.result_.y.reshape(2, 4)
    np.testing.assert_allclose(cleaner.coef_[0], W[1] - W[0])
    assert "cleaning, iteration 1: loss of trusted rows" in capsys.readouterr().out


def test_a_class_without_trusted_rows_is_warned_of(noisy):
    parts, _, _ = noisy
    kept = parts["y_trusted"] != 3
    few = {**parts, "X_trusted": parts["X_trusted"][kept], "y_trusted": parts["y_trusted"][kept]}
    with pytest.warns(UserWarning, match="y_trusted: found no row of 3"):
        cleaner = LabelCleaner(random_state=0).fit(**few)
    assert np.isfinite(cleaner.weights_).all()


def test_bad_trusted_rows_are_refused_in_plain_words():
    X, y, X_trusted, y_trusted = binary()
    broken = X_trusted.copy()
    broken[0, 0] = np.nan
    for trusted, message in [
        ({"X_trusted": X_trusted}, "y_trusted: found None beside X_trusted"),
        ({"y_trusted": y_trusted}, "X_trusted: found None beside y_trusted"),
        ({"X_trusted": X_trusted[:, :3], "y_trusted": y_trusted}, "X_trusted: .*X has 3 features"),
        ({"X_trusted": X_trusted, "y_trusted": y_trusted + 5}, "y_trusted: found the labels 5, 6, which y lacks"),
        ({"X_trusted": broken, "y_trusted": y_trusted}, "X_trusted: .*Input X contains NaN"),
    ]:
        with pytest.raises(ValueError, match=message):
            LabelCleaner().fit(X, y, **trusted)


@pytest.mark.filterwarnings("ignore:X_trusted. found None:UserWarning")
@pytest.mark.parametrize("n", [2, 3, 7])
def test_very_few_rows_are_weighed(n):
    X = np.arange(2.0 * n).reshape(n, 2)
    cleaner = LabelCleaner(random_state=0).fit(X, np.arange(n) % 2)
    assert cleaner.weights_.shape == (n,)
    assert np.isfinite(cleaner.coef_).all()


def test_bad_rows_and_settings_are_refused():
    X, y, X_trusted, y_trusted = binary()
    trusted = {"X_trusted": X_trusted, "y_trusted": y_trusted}
    with pytest.raises(ValueError, match=r"X: found a value of size .*; expected at most 1e\+12 in float32"):
        LabelCleaner().fit(1e60 * X, y, **trusted)
    for settings, message in [
        ({"ridge": "best"}, "ridge: found 'best'; expected 'auto' or a number from 1e-30"),
        ({"ridge": -1.0}, "ridge: found -1.0"),
        ({"trusted_fraction": 1.0}, "trusted_fraction: found 1.0"),
        ({"max_iter": 0}, "max_iter: found 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            LabelCleaner(**settings).fit(X, y, **trusted)
    with pytest.raises(ValueError, match="y: found one class, 0"):
        LabelCleaner().fit(X, np.zeros(len(y), int), **trusted)
    with pytest.raises(ValueError, match="in rows of weight zero alone"):
        LabelCleaner().fit(X, y + (np.arange(len(y)) == 0) * 5, sample_weight=np.arange(len(y)) > 0, **trusted)


@given(seed=st.integers(0, 1000), n_classes=st.integers(2, 5))
def test_noise_is_recovered_where_the_right_classes_are_known(seed, n_classes):
    rng = np.random.default_rng(seed)
    right = rng.integers(n_classes, size=5000)
    transition = 0.6 * np.eye(n_classes) + 0.4 * np.roll(np.eye(n_classes), 1, axis=1)
    labels = np.where(rng.random(5000) < 0.6, right, (right + 1) % n_classes)
    found = transition_matrix(np.eye(n_classes)[right], labels, np.ones(5000))
    np.testing.assert_allclose(found, transition, atol=0.1)
    odds = log_odds(np.eye(n_classes)[right], labels, found)
    assert np.array_equal(odds > 0, labels == right)


def test_copies_are_merged_whatever_their_order():
    A = np.array([[1.0, -0.0], [2.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    codes = np.array([0, 0, 0, 1])
    rows, place = distinct(A, codes, np.array([1.0, 2.0, 3.0, 4.0]))
    assert place[0] == place[2]
    assert len(set(place.tolist())) == 3
    assert rows.weights[place].tolist() == [4.0, 2.0, 4.0, 4.0]
    sparse, place_sparse = distinct(sp.csr_array(A), codes, None)
    assert sparse.weights[place_sparse].tolist() == [2.0, 1.0, 2.0, 1.0]


def test_a_class_with_few_trusted_rows_is_no_matter_of_folds():
    """Folds that find the strength may lack it, of which nobody needs to know: a warning would be an error here."""
    X, labels = load_iris(return_X_y=True)
    rare = np.concatenate([np.arange(15), np.arange(50, 65), [100]])
    rest = np.setdiff1d(np.arange(150), rare)
    cleaner = LabelCleaner(random_state=0)
    cleaner.fit(X[rest], labels[rest], X_trusted=X[rare], y_trusted=labels[rare])
    assert cleaner.score(X, labels) > 0.8
