"""scikit-learn's own checks of estimators."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from nbo.sklearn import BilevelLogisticRegression, BilevelRidge

pytestmark = [
    pytest.mark.slow,
    # labels and targets are drawn at random or can be separated: some penalties end at a bound
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


@parametrize_with_checks([BilevelLogisticRegression(), BilevelLogisticRegression("feature", cv=3), BilevelRidge()])
def test_check(estimator, check):
    check(estimator)
