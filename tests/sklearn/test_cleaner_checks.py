"""scikit-learn's own checks of `LabelCleaner`."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from nbo.sklearn import LabelCleaner

# The checks know nothing of trusted rows.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:X_trusted. found None:UserWarning"),
]


@parametrize_with_checks([LabelCleaner()])
def test_check(estimator, check):
    check(estimator)
