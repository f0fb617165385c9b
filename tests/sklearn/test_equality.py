"""The tuned penalties are the minimisers, and the models those of scikit-learn at these strengths."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold
from sklearn.preprocessing import scale

from nbo.sklearn import BilevelLogisticRegression, BilevelRidge


def logistic(C):
    return LogisticRegression(C=C, solver="newton-cholesky", tol=1e-10, max_iter=1000)


def ridge(alpha):
    return Ridge(alpha=alpha)


def log_losses(model, X, y, labels):
    return log_loss(y, model.predict_proba(X), labels=labels)


def squared_losses(model, X, y, _labels):
    return np.mean((y - model.predict(X)) ** 2) / 2


def minimiser(X, y, folds, model, loss, sign, start):
    """The log strength that minimises the mean loss of held-out rows, by fits of scikit-learn on the same folds."""
    labels = np.unique(y)

    def criterion(x):
        fits = [model((np.exp(x) * train.size) ** sign).fit(X[train], y[train]) for train, _ in folds]
        losses = [loss(fit, X[rest], y[rest], labels) * rest.size for fit, (_, rest) in zip(fits, folds, strict=True)]
        return sum(losses) / sum(rest.size for _, rest in folds)

    found = minimize_scalar(criterion, (start - 0.3, start + 0.3), options={"xtol": 1e-4})
    return found.x, found.fun


def breast_cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


def digits():
    X, y = load_digits(n_class=5, return_X_y=True)
    return X[:300, 8:40] / 16, y[:300]


def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return scale(X), y


@pytest.mark.parametrize(
    ("data", "splitter"),
    [
        (breast_cancer, StratifiedKFold(5, shuffle=True, random_state=0)),
        (breast_cancer, ShuffleSplit(1, test_size=0.3, random_state=1)),
        (digits, StratifiedKFold(3, shuffle=True, random_state=0)),
    ],
)
def test_logistic_penalty_is_the_minimiser(data, splitter):
    X, y = data()
    model = BilevelLogisticRegression(cv=splitter, tol=1e-6, max_iter=500).fit(X, y)
    folds = list(splitter.split(X, y))
    x, loss = minimiser(X, y, folds, logistic, log_losses, -1, model.log_penalty_[0])
    assert model.log_penalty_[0] == pytest.approx(x, abs=0.02)
    assert model.report_.shared_loss == pytest.approx(loss, rel=1e-4)
    assert model.report_.untuned_loss > model.report_.shared_loss


def test_ridge_penalty_is_the_minimiser():
    X, y = diabetes()
    splitter = KFold(5, shuffle=True, random_state=0)
    model = BilevelRidge(cv=splitter, tol=1e-7, max_iter=500).fit(X, y)
    x, loss = minimiser(X, y, list(splitter.split(X)), ridge, squared_losses, 1, model.log_penalty_[0])
    assert model.log_penalty_[0] == pytest.approx(x, abs=0.02)
    assert model.report_.shared_loss == pytest.approx(loss, rel=1e-7)


@pytest.mark.parametrize("data", [breast_cancer, digits])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_refit_is_scikit_learns_model_at_this_C(data, fit_intercept):
    X, y = data()
    model = BilevelLogisticRegression(cv=3, fit_intercept=fit_intercept, random_state=0).fit(X, y)
    (C,) = model.C_
    theirs = logistic(C).set_params(fit_intercept=fit_intercept).fit(X, y)
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(model.intercept_, theirs.intercept_, atol=1e-4)
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("targets", [1, 2])
def test_refit_is_scikit_learns_ridge_at_this_alpha(fit_intercept, targets):
    X, y = diabetes()
    if targets == 2:
        y = np.column_stack((y, np.sin(y) * 50 + 7))
    model = BilevelRidge(cv=3, fit_intercept=fit_intercept, random_state=0).fit(X, y)
    theirs = Ridge(alpha=model.alpha_[0], fit_intercept=fit_intercept).fit(X, y)
    assert model.coef_.shape == theirs.coef_.shape
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(model.intercept_, theirs.intercept_, atol=1e-4)
    np.testing.assert_allclose(model.predict(X), theirs.predict(X), atol=1e-3)


def test_finer_penalties_are_those_of_a_rescaled_ridge():
    """w_j with penalty e^x_j is a ridge model of columns divided by e^{x_j / 2}."""
    X, y = diabetes()
    model = BilevelRidge("feature", cv=3, random_state=0).fit(X, y)
    widths = np.sqrt(model.alpha_)
    theirs = Ridge(alpha=1.0).fit(X / widths, y)
    assert np.ptp(model.log_penalty_) > 1e-4
    np.testing.assert_allclose(model.coef_, theirs.coef_ / widths, atol=1e-4)


def test_units_of_the_targets_do_not_matter():
    X, y = diabetes()
    one = BilevelRidge(cv=3, random_state=0).fit(X, y)
    other = BilevelRidge(cv=3, random_state=0).fit(X, 1e-6 * y + 3)
    np.testing.assert_allclose(other.log_penalty_, one.log_penalty_, atol=1e-5)
    np.testing.assert_allclose(other.coef_, 1e-6 * one.coef_, rtol=1e-4)
    assert other.report_.shared_loss == pytest.approx(1e-12 * one.report_.shared_loss, rel=1e-4)


def test_without_refit_the_model_is_that_of_the_training_rows():
    X, y = breast_cancer()
    train, rest = np.arange(0, 400), np.arange(400, 569)
    model = BilevelLogisticRegression(refit=False).fit(X[train], y[train], X_val=X[rest], y_val=y[rest])
    theirs = logistic(model.C_[0]).fit(X[train], y[train])
    np.testing.assert_allclose(model.coef_, theirs.coef_, atol=1e-4)
    again = BilevelLogisticRegression(refit=False, cv=[(train, rest)]).fit(X, y)
    np.testing.assert_allclose(again.coef_, model.coef_, rtol=1e-6)


def test_without_refit_folds_are_averaged():
    X, y = breast_cancer()
    folds = list(StratifiedKFold(3).split(X, y))
    model = BilevelLogisticRegression(refit=False, cv=folds).fit(X, y)
    n_train = np.mean([train.size for train, _ in folds])
    theirs = [logistic(model.C_[0] * n_train / train.size).fit(X[train], y[train]) for train, _ in folds]
    np.testing.assert_allclose(model.coef_, np.mean([fold.coef_ for fold in theirs], axis=0), atol=1e-3)


def test_validation_rows_join_the_refit():
    X, y = breast_cancer()
    model = BilevelLogisticRegression().fit(X[:400], y[:400], X_val=X[400:], y_val=y[400:])
    np.testing.assert_allclose(model.coef_, logistic(model.C_[0]).fit(X, y).coef_, atol=1e-4)
    assert model.C_[0] == pytest.approx(1 / (400 * np.exp(model.log_penalty_[0])))
