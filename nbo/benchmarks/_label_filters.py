"""Ways to learn from wrong labels and a few trusted ones, with what each of them says about the wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nbo.datasets import Dataset

Array = np.ndarray[Any, Any]

#: Inverse penalties of the models by logistic regression, in scikit-learn's units.
GRID = np.logspace(-5, 0, 6)

#: The share of the trusted rows on which a baseline chooses its penalty.
HELD_OUT = 0.4

#: Weights below this one say that a label is wrong.
TRUSTED_WEIGHT = 0.5


class Found(NamedTuple):
    """What came of one way.

    Attributes
    ----------
    model : estimator
        Fitted.
    suspected : ndarray of bool or None
        Which training labels are held for wrong; None if the way says nothing about them.
    suspicion : ndarray or None
        A number a label, the larger the more likely it is wrong.
    """

    model: Any
    suspected: Array | None = None
    suspicion: Array | None = None


#: A way to learn: takes a data set, whose validation rows are the trusted ones, and a seed.
Way = Callable[[Dataset, int], Found]


def all_rows(data: Dataset, seed: int) -> Found:
    """Take all labels as they are."""
    return Found(_tuned(data, np.ones(len(data.b), dtype=bool), seed))


def trusted_rows(data: Dataset, seed: int) -> Found:
    """Take the trusted rows alone."""
    return Found(_tuned(data, np.zeros(len(data.b), dtype=bool), seed))


def agreeing_rows(data: Dataset, seed: int) -> Found:
    """Drop the rows whose label a model of the trusted rows does not predict."""
    model = _tuned(data, np.zeros(len(data.b), dtype=bool), seed)
    suspected = model.predict(data.A) != data.b
    given = model.predict_proba(data.A)[np.arange(len(data.b)), np.searchsorted(model.classes_, data.b)]
    return Found(_tuned(data, ~suspected, seed), suspected, -given)


def right_rows(data: Dataset, seed: int) -> Found:
    """Drop the rows whose label is wrong, which nobody knows outside of a benchmark."""
    assert data.flipped is not None
    return Found(_tuned(data, ~data.flipped, seed))


def cleaned_rows(data: Dataset, seed: int) -> Found:
    """Learn a weight for every label with `nbo.sklearn.LabelCleaner`."""
    from nbo.sklearn import LabelCleaner

    cleaner = LabelCleaner(random_state=seed)
    cleaner.fit(data.A, data.b, X_trusted=data.A_val, y_trusted=data.b_val)
    return Found(cleaner, cleaner.weights_ < TRUSTED_WEIGHT, -cleaner.weights_)


#: Who takes part, in the order of the table.
WAYS: dict[str, Way] = {
    "all rows": all_rows,
    "trusted rows alone": trusted_rows,
    "rows that agree with the trusted": agreeing_rows,
    "LabelCleaner": cleaned_rows,
    "oracle: right rows": right_rows,
}


def _tuned(data: Dataset, kept: Array, seed: int) -> Any:
    """Fit a softmax model on the kept rows and the trusted ones.

    The penalty is chosen on a part of the trusted rows, with which the model is fitted again.
    """
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.model_selection import train_test_split

    X, y = np.concatenate([data.A[kept], data.A_val]), np.concatenate([data.b[kept], data.b_val])
    n_kept, rows = int(kept.sum()), np.arange(len(y))
    fitted_on, held_out = train_test_split(rows[n_kept:], test_size=HELD_OUT, stratify=y[n_kept:], random_state=seed)
    pairs = [(np.concatenate([rows[:n_kept], fitted_on]), held_out)]
    search = LogisticRegressionCV(
        Cs=GRID, cv=pairs, l1_ratios=(0,), max_iter=500, scoring="neg_log_loss", use_legacy_attributes=False
    )
    return search.fit(X, y)
