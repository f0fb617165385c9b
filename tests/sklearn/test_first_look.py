"""Where tuning starts: values at strengths a factor of ten apart."""

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV
from sklearn.metrics import log_loss

import nbo
from nbo.sklearn import BilevelLogisticRegression, BilevelRidge
from nbo.sklearn._first_look import first_look


def weak(n, p, size, seed=0):
    """Standard normal features with a weak signal, classes and targets, and 10,000 rows more."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + 10_000, p))
    z = X @ (size * rng.standard_normal(p))
    y, t = (z + rng.logistic(size=len(z)) > 0).astype(int), z + rng.standard_normal(len(z))
    return (X[:n], y[:n], t[:n]), (X[n:], y[n:], t[n:])


@pytest.mark.parametrize(("n", "p", "size"), [(3000, 50, 0.03), (3000, 100, 0.032), (3000, 50, 0.0)])
def test_weak_signals_are_penalised_by_as_much_as_they_need(n, p, size):
    """At C = 1 the criterion is so flat that it looks solved there."""
    (X, y, t), (X_new, y_new, t_new) = weak(n, p, size)
    model = BilevelLogisticRegression(random_state=0).fit(X, y)
    loss = log_loss(y_new, model.predict_proba(X_new))
    assert model.C_[0] < 0.01 and loss < min(0.694, model.report_.untuned_loss - 1e-3)
    ridge, grid = BilevelRidge(random_state=0).fit(X, t), RidgeCV(np.logspace(-2, 6, 17)).fit(X, t)
    assert ridge.alpha_[0] > 100 and ridge.score(X_new, t_new) > grid.score(X_new, t_new) - 0.005


@pytest.mark.parametrize("seed", range(3))
def test_no_minimum_is_jumped_over(seed):
    """Beyond it is the plateau of models without any effect, on which the criterion is lower than at C = 1."""
    (X, y, _), _ = weak(3000, 100, 0.1 / np.sqrt(10), seed)
    model = BilevelLogisticRegression(random_state=0).fit(X, y)
    assert 1e-4 < model.C_[0] < 0.1 and not model.report_.at_upper
    whole = nbo.problems.BinaryLogistic(X, 2.0 * y - 1, X, 2.0 * y - 1, penalty="shared", fit_intercept=True)
    problem = nbo.problems.CrossValidation(whole, 5, random_state=0)
    values = [nbo.hypergradient(problem, [x]).value for x in np.arange(-8.0, 3.0)]
    found = nbo.hypergradient(problem, model.log_penalty_).value
    assert found <= min(values) + 2e-3  # the folds are others


def test_the_lowest_value_and_that_of_the_untuned_model():
    (X, y, _), _ = weak(600, 10, 0.2)
    whole = nbo.problems.BinaryLogistic(X, 2.0 * y - 1, X, 2.0 * y - 1, penalty="shared")
    problem = nbo.problems.CrossValidation(whole, 3, random_state=0)
    untuned = -np.log(400.0)
    look = first_look(problem, untuned, (-20.0, 12.0))
    values = {x: nbo.hypergradient(problem, [x]).value for x in untuned + np.log(10.0) * np.arange(-1, 4)}
    assert look.x == pytest.approx(min(values, key=values.get))
    assert look.untuned == pytest.approx(values[untuned], rel=1e-3)
    assert problem.upper_value(np.array([look.x]), look.y) == pytest.approx(min(values.values()), rel=1e-3)
    assert look.counts.lower_grad_y > look.counts.upper_value >= 3 and look.counts.upper_grad == 0
    narrow = first_look(problem, untuned, (untuned, untuned))
    assert narrow.x == untuned and narrow.counts.upper_value == 1
