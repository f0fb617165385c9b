"""scikit-learn's grid search over one shared penalty, on the same rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np

from nbo.tuning.data import TuningData
from nbo.tuning.models import FittedModel, measured

NAME = "LogisticRegressionCV"

#: Enough for lbfgs to converge on scaled data, so that the comparison is with a finished baseline.
_MAX_ITER = 1000


def logistic_regression_cv(data: TuningData) -> FittedModel:
    """Fit ``LogisticRegressionCV`` with ten values of C on the given split.

    Parameters
    ----------
    data : TuningData
        The split; C is chosen by the loss on its validation rows and the model refitted on both parts.

    Returns
    -------
    FittedModel
        The refitted model; its notes say how many fits did not converge, if any.
    """
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.model_selection import PredefinedSplit

    n_train, n_validation = len(data.train.b), len(data.validation.b)
    search = LogisticRegressionCV(
        Cs=10,
        l1_ratios=(0.0,),
        cv=PredefinedSplit(np.repeat([-1, 0], [n_train, n_validation])),
        scoring="neg_log_loss",
        max_iter=_MAX_ITER,
        use_legacy_attributes=False,
    )
    start = time.perf_counter()
    unfinished = unfinished_fits(lambda: search.fit(data.development.A[:, :-1], data.development.b))
    return measured(
        NAME,
        data,
        log_penalties=np.array([-np.log(n_train * float(search.C_))]),
        y=np.append(search.coef_.ravel(), search.intercept_),
        validation_loss=float(-np.max(search.scores_)),
        seconds=time.perf_counter() - start,
        counts=None,
        notes=[_note(unfinished)] if unfinished else [],
    )


def _note(unfinished: int) -> str:
    return f"{NAME}: {unfinished} of its 11 fits did not converge within {_MAX_ITER} iterations"


def unfinished_fits(fit: Callable[[], object]) -> int:
    """Run something that fits scikit-learn's models.

    Parameters
    ----------
    fit : callable
        What to run. Warnings of other kinds than those that are counted are warned of as ever.

    Returns
    -------
    int
        How many warnings there were of fits that had not converged.
    """
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        fit()
    unfinished = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
    for other in caught:
        if other not in unfinished:
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    return len(unfinished)
