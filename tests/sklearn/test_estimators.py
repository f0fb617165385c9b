"""The estimators among scikit-learn's tools: attributes, pipelines, searches, copies and routing."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nbo.sklearn import BilevelLogisticRegression, BilevelRidge, _stages


def test_attributes_of_two_classes(rows):
    model = BilevelLogisticRegression(random_state=0).fit(*rows)
    assert model.coef_.shape == model.penalty_.shape == (1, 6)
    assert model.intercept_.shape == model.log_penalty_.shape == model.C_.shape == (1,)
    np.testing.assert_allclose(model.penalty_, np.exp(model.log_penalty_[0]))
    assert model.C_[0] == pytest.approx(np.exp(-model.log_penalty_[0]) / 64)
    assert model.n_features_in_ == 6 and model.n_iter_ >= 1
    assert list(model.validation_path_) == ["shared"]
    np.testing.assert_array_equal(model.result_.x, model.log_penalty_)


@pytest.mark.parametrize(("penalty", "shape"), [("feature", (6,)), ("class", (3,)), ("class-feature", (18,))])
def test_finer_penalties_of_three_classes(three, penalty, shape):
    model = BilevelLogisticRegression(penalty, random_state=0, max_iter=500).fit(*three)
    assert model.log_penalty_.shape == model.C_.shape == shape
    assert model.coef_.shape == model.penalty_.shape == (3, 6) and model.intercept_.shape == (3,)
    wide = {"feature": (1, 6), "class": (3, 1), "class-feature": (3, 6)}[penalty]
    np.testing.assert_allclose(model.penalty_, np.broadcast_to(np.exp(model.log_penalty_).reshape(wide), (3, 6)))
    assert model.report_.finer_loss < model.report_.shared_loss


@pytest.mark.parametrize(("penalty", "size"), [("class", 1), ("class-feature", 6)])
def test_classes_of_two_are_one_output(rows, penalty, size):
    assert BilevelLogisticRegression(penalty, random_state=0).fit(*rows).log_penalty_.shape == (size,)


def test_groups(rows):
    model = BilevelLogisticRegression([0, 0, 0, 1, 1, 1], random_state=0).fit(*rows)
    assert model.log_penalty_[1] > model.log_penalty_[0]  # the second half are noise
    np.testing.assert_array_equal(model.penalty_[0], np.exp(model.log_penalty_)[[0, 0, 0, 1, 1, 1]])
    same = BilevelLogisticRegression(np.zeros(6, dtype=int), random_state=0).fit(*rows)
    assert list(same.validation_path_) == ["shared"]


@pytest.mark.parametrize(("penalty", "shape"), [("output", (2,)), ("output-feature", (12,)), ("feature", (6,))])
def test_ridge_of_two_targets(rows, penalty, shape):
    X, _ = rows
    y = np.column_stack((X[:, 0], X[:, 1] * 3)) + np.random.default_rng(2).standard_normal((80, 2))
    model = BilevelRidge(penalty, random_state=0, max_iter=500).fit(X, y)
    assert model.alpha_.shape == shape and model.coef_.shape == (2, 6) and model.predict(X).shape == (80, 2)
    single = BilevelRidge("output", random_state=0).fit(X, y[:, 0])
    assert single.alpha_.shape == (1,) and single.coef_.shape == (6,) and isinstance(single.intercept_, float)


def test_predictions_agree(three):
    X, y = three
    model = BilevelLogisticRegression(random_state=0).fit(X, y)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_allclose(np.log(proba), model.predict_log_proba(X))
    np.testing.assert_array_equal(model.predict(X), model.classes_[proba.argmax(axis=1)])
    assert model.decision_function(X).shape == (80, 3)
    assert model.score(X, y) == np.mean(model.predict(X) == y)


def test_log_probabilities_do_not_vanish(rows):
    X, y = rows
    model = BilevelLogisticRegression(random_state=0).fit(X, y)
    assert model.decision_function(X).shape == (80,)
    assert np.isfinite(model.predict_log_proba(1e4 * X)).all()


def test_without_intercept(three):
    model = BilevelLogisticRegression(fit_intercept=False, random_state=0).fit(*three)
    np.testing.assert_array_equal(model.intercept_, np.zeros(3))
    assert BilevelRidge(fit_intercept=False, random_state=0).fit(*three).intercept_ == 0


def test_validation_path(rows):
    model = BilevelLogisticRegression("feature", cv=0.3, random_state=0).fit(*rows)
    shared, finer = model.validation_path_["shared"], model.validation_path_["finer"]
    assert set(finer) == {"iteration", "seconds", "value", "hypergrad_norm"}
    assert {path.size for path in shared.values()} == {shared["iteration"].size}
    assert np.isfinite(shared["x"]).all() and shared["x"][0] == pytest.approx(-np.log(56))
    assert model.n_iter_ == shared["iteration"][-1] + finer["iteration"][-1]


def test_a_seed_gives_the_same_model(rows):
    first, second, other = (BilevelLogisticRegression(random_state=seed).fit(*rows) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert not np.array_equal(first.log_penalty_, other.log_penalty_)


def test_unfinished_stages_are_told(rows):
    with pytest.warns(ConvergenceWarning, match="shared stage has not converged.*StandardScaler"):
        model = BilevelLogisticRegression(max_iter=1, tol=1e-12, random_state=0).fit(*rows)
    assert not model.report_.stages[0].success
    assert "iteration limit" in str(model.report_)


def test_finer_penalties_without_a_prior_are_told(rows):
    with pytest.warns(UserWarning, match="penalty_prior: found None; 6 penalties"):
        free = BilevelLogisticRegression("feature", penalty_prior=None, cv=0.3, random_state=0, max_iter=500).fit(*rows)
    held = BilevelLogisticRegression("feature", penalty_prior=0.1, cv=0.3, random_state=0).fit(*rows)
    assert np.ptp(free.log_penalty_) > np.ptp(held.log_penalty_)
    assert free.report_.finer_loss < held.report_.finer_loss


def test_verbose_prints_iterations(rows, capsys):
    model = BilevelLogisticRegression("feature", cv=0.3, random_state=0, verbose=1).fit(*rows)
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("shared stage, iteration 1: criterion 0.") for line in lines)
    assert any(line.startswith("finer stage, iteration 1: criterion 0.") for line in lines)
    assert len(lines) >= model.n_iter_
    BilevelLogisticRegression(random_state=0).fit(*rows)
    assert capsys.readouterr().out == ""


def test_an_interruption_ends_the_fit(rows, monkeypatch):
    def interrupt(watch, intermediate_result):
        raise KeyboardInterrupt

    monkeypatch.setattr(_stages._Watch, "__call__", interrupt)
    with pytest.raises(KeyboardInterrupt):
        BilevelRidge(random_state=0).fit(*rows)


def test_feature_names(rows):
    pd = pytest.importorskip("pandas")
    X, y = rows
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = BilevelLogisticRegression("feature", cv=0.3, random_state=0).fit(
        frame[:50], y[:50], X_val=frame[50:], y_val=y[50:]
    )
    assert model.feature_names_in_.tolist() == list("abcdef")
    with pytest.raises(ValueError, match="feature names"):
        model.fit(frame, y, X_val=frame.rename(columns={"a": "z"}), y_val=y)


def test_not_fitted(rows):
    for model in (BilevelLogisticRegression(), BilevelRidge()):
        with pytest.raises(NotFittedError):
            model.predict(rows[0])


@pytest.mark.parametrize("estimator", [BilevelLogisticRegression("feature", random_state=0), BilevelRidge(cv=4)])
def test_clones_and_pickles(rows, estimator):
    X, y = rows
    estimator.set_params(random_state=0).fit(X, y)
    copy, twin = pickle.loads(pickle.dumps(estimator)), clone(estimator).fit(X, y)
    np.testing.assert_array_equal(copy.predict(X), estimator.predict(X))
    np.testing.assert_array_equal(twin.coef_, estimator.coef_)
    assert str(copy.report_) == str(estimator.report_)
    assert copy.result_.fun == estimator.result_.fun


def test_pipeline_and_cross_validation(rows):
    X, y = rows
    model = make_pipeline(StandardScaler(), BilevelLogisticRegression(cv=3, random_state=0))
    scores = cross_val_score(model, X * [1, 10, 100, 1, 1, 1], y, cv=3)
    assert scores.min() > 0.6


def test_grid_search_in_processes(rows):
    X, y = rows
    wide = np.tile(X, (2000, 1))[:30_000]  # large enough to be handed over as a read-only memory map
    labels = np.tile(y, 2000)[:30_000]
    search = GridSearchCV(
        BilevelLogisticRegression(cv=0.3, random_state=0), {"fit_intercept": [True, False]}, cv=2, n_jobs=2
    )
    assert search.fit(wide, labels).best_score_ > 0.7


def test_weights_are_routed(rows):
    X, y = rows
    weights = np.where(np.arange(80) % 2, 3.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = BilevelLogisticRegression(cv=3, random_state=0).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        given = {"cv": 2, "params": {"sample_weight": weights}, "return_estimator": True}
        routed = cross_validate(make_pipeline(scaler, model), X, y, **given)
        plain = cross_validate(make_pipeline(scaler, clone(model)), X, y, cv=2, return_estimator=True)
    pairs = zip(routed["estimator"], plain["estimator"], strict=True)
    assert all(not np.allclose(a[-1].coef_, b[-1].coef_) for a, b in pairs)


def test_the_module_is_found_without_an_import_of_its_own():
    import nbo

    assert nbo.sklearn.BilevelRidge is BilevelRidge
