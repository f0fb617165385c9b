"""The units of features, weights and targets do not matter."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.datasets import make_classification, make_regression

from nbo.sklearn import BilevelLogisticRegression, BilevelRidge, LabelCleaner
from nbo.sklearn._units import Units, units_of

X, y = make_classification(120, 6, n_informative=4, flip_y=0.2, random_state=0)
X_r, t = make_regression(120, 6, noise=30.0, random_state=0)


@pytest.mark.parametrize("penalty", ["shared", "feature"])
@settings(max_examples=10)
@given(power=st.integers(-60, 60))
def test_units_of_features_in_classification(penalty, power):
    scale = 10.0**power
    one, other = (BilevelLogisticRegression(penalty, random_state=0).fit(s * X, y) for s in (1.0, scale))
    np.testing.assert_allclose(scale * other.coef_, one.coef_, rtol=0.02, atol=0.01)
    np.testing.assert_allclose(other.intercept_, one.intercept_, rtol=0.02, atol=0.01)
    np.testing.assert_allclose(scale**2 * other.C_, one.C_, rtol=0.05)
    np.testing.assert_allclose(other.penalty_ / scale**2, one.penalty_, rtol=0.05)
    assert other.report_.shared_loss == pytest.approx(one.report_.shared_loss, rel=1e-4)


@settings(max_examples=10)
@given(of_features=st.integers(-60, 60), of_weights=st.integers(-60, 60))
def test_units_in_regression(of_features, of_weights):
    a, w = 10.0**of_features, 10.0**of_weights
    one = BilevelRidge(random_state=0).fit(X_r, t)
    other = BilevelRidge(random_state=0).fit(a * X_r, t, sample_weight=np.full(120, w))
    np.testing.assert_allclose(a * other.coef_, one.coef_, rtol=0.02, atol=0.05)
    assert other.alpha_[0] / a**2 / w == pytest.approx(one.alpha_[0], rel=0.2)
    assert other.validation_path_["shared"]["x"][-1] == pytest.approx(other.log_penalty_[0])


@pytest.mark.parametrize("scale", [1e-90, 1e-5, 1e5, 1e90])
def test_units_of_weights(scale):
    weights = scale * np.random.default_rng(0).uniform(0.5, 2.0, 120)
    one = BilevelLogisticRegression(random_state=0).fit(X, y, sample_weight=weights / scale)
    other = BilevelLogisticRegression(random_state=0).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(other.coef_, one.coef_, rtol=0.02, atol=0.01)
    assert scale * other.C_[0] == pytest.approx(one.C_[0], rel=0.05)
    assert other.report_.untuned_loss == pytest.approx(one.report_.untuned_loss, rel=0.05)
    assert other.report_.untuned_name != "C = 1" == one.report_.untuned_name


@pytest.mark.parametrize(("of_features", "of_weights"), [(1e6, 1.0), (1e-6, 1.0), (1.0, 1e5), (1e8, 1e-5)])
def test_units_of_a_label_cleaner(of_features, of_weights):
    X_c, y_c = make_classification(400, 6, n_informative=4, flip_y=0.2, random_state=0)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 300)
    found = []
    for a, w in ((1.0, 1.0), (of_features, of_weights)):
        cleaner = LabelCleaner(random_state=0)
        found.append(
            cleaner.fit(
                a * X_c[100:], y_c[100:], sample_weight=w * weights, X_trusted=a * X_c[:100], y_trusted=y_c[:100]
            )
        )
    one, other = found
    # the search for C ends early, starts within a factor of two, and likelihoods may tie between C and C/10
    assert spearmanr(other.weights_, one.weights_).statistic > 0.95
    assert np.mean(other.predict(of_features * X_c) == one.predict(X_c)) > 0.95
    assert 0.05 < of_features**2 * of_weights * other.C_ / one.C_ < 20
    assert 0.05 < other.ridge_ / of_features**2 / one.ridge_ < 20


def test_ordinary_data_are_left_alone():
    assert units_of(X, np.ones(120), fit_intercept=True) == Units()
    A = np.random.default_rng(0).standard_normal((50, 4)) * [1.0, 1.0, 1.0, 1e9]
    units = units_of(A, None, fit_intercept=True)
    assert units == Units() and units.features(A) is A and units.weights(None) is None
    assert units_of(np.ones((5, 2)), None, fit_intercept=True) == Units()
    assert units_of(np.column_stack([X, np.ones(120)]), None, fit_intercept=True) == Units()


def test_sparse_rows_have_the_units_of_dense_ones():
    A = np.random.default_rng(0).standard_normal((50, 4)) * 1e5 + 1e8
    for fit_intercept in (False, True):
        assert units_of(sp.csr_array(A), None, fit_intercept)[:2] == units_of(A, None, fit_intercept)[:2]
    assert units_of(A, None, True).feature == 2**17 and units_of(A, None, False).feature == 2**27


@pytest.mark.parametrize("offset", [1e4, 1e8, 1e10])
def test_the_origin_of_features_does_not_matter(offset):
    """As for timestamps; without an origin of its own the Hessian would be singular by rounding."""
    shift = offset * np.array([1.0, -1.0, 1.0, 0.5, 1.0, 2.0])
    for make, target in ((BilevelLogisticRegression, y), (BilevelRidge, t)):
        rows = X if make is BilevelLogisticRegression else X_r
        one, other = (make(random_state=0).fit(rows + move, target) for move in (0.0, shift))
        np.testing.assert_allclose(other.coef_, one.coef_, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(other.predict(rows + shift), one.predict(rows), rtol=1e-3, atol=1e-3 * offset / 1e4)
        assert other.result_.success
    one, other = (
        LabelCleaner(random_state=0).fit((X + move)[40:], y[40:], X_trusted=(X + move)[:40], y_trusted=y[:40])
        for move in (0.0, shift)
    )
    assert spearmanr(other.weights_, one.weights_).statistic > 0.95


def test_constant_columns_far_away_do_not_move_rows_that_vary():
    A = np.column_stack([X, np.full(120, 1e9)])
    one, other = (BilevelLogisticRegression(random_state=0).fit(rows, y) for rows in (X, A))
    np.testing.assert_allclose(other.coef_[:, :-1], one.coef_, rtol=1e-2, atol=1e-3)
    assert other.coef_[0, -1] == pytest.approx(0, abs=1e-9)
