"""scikit-learn's models on the same rows: one without tuning, and its grid search over one shared penalty."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from nbo._clock import Timer
from nbo.datasets import Samples
from nbo.tuning.data import TuningData
from nbo.tuning.models import FittedModel, measured, row_losses

#: Enough for lbfgs to converge on scaled data, so that the comparison is with a finished baseline.
_MAX_ITER = 1000

#: Of C, and of alpha.
GRID = np.logspace(-4, 4, 10)


def untuned(data: TuningData) -> FittedModel:
    """Fit with scikit-learn's default strength, C = 1 or alpha = 1.

    Parameters
    ----------
    data : TuningData
        The rows.

    Returns
    -------
    FittedModel
        The model that tuning starts from.
    """
    timer, model = Timer(), _model(data, 1.0)
    unfinished = unfinished_fits(lambda: model.fit(*data.development))
    seconds = timer.seconds()
    loss, unfinished_more = _held_out_loss(data, 1.0)
    return measured(
        "untuned",
        data,
        model,
        notes=_notes("untuned", unfinished + unfinished_more, len(data.folds) + 1),
        log_penalties=np.array([-np.log(data.n_train)]),
        validation_loss=loss,
        seconds=seconds,
        counts=None,
    )


def grid_search(data: TuningData) -> FittedModel:
    """Fit ``LogisticRegressionCV`` or ``RidgeCV`` with ten strengths on the given folds.

    Parameters
    ----------
    data : TuningData
        The rows; the strength is chosen by the loss of held-out rows, and the model refitted on all but the test rows.

    Returns
    -------
    FittedModel
        The refitted model; its notes say how many fits did not converge, if any.
    """
    timer, search = Timer(), _search(data)
    unfinished = unfinished_fits(lambda: search.fit(*data.development))
    seconds, name = timer.seconds(), type(search).__name__
    strength = float(search.alpha_ if data.task == "regression" else search.C_)
    sign = 1.0 if data.task == "regression" else -1.0
    return measured(
        name,
        data,
        search,
        notes=_notes(name, unfinished, len(data.folds) * len(GRID) + 1),
        log_penalties=np.array([sign * np.log(strength) - np.log(data.n_train)]),
        validation_loss=_held_out_loss(data, strength)[0],
        seconds=seconds,
        counts=None,
    )


def _model(data: TuningData, strength: float) -> Any:
    from sklearn.linear_model import LogisticRegression, Ridge

    return Ridge(strength) if data.task == "regression" else LogisticRegression(C=strength, max_iter=_MAX_ITER)


def _held_out_loss(data: TuningData, strength: float) -> tuple[float, int]:
    """Return the mean loss of held-out rows, each counted alike, and how many fits did not converge."""
    A, b = data.development
    losses, unfinished = [], 0
    for train, held_out in data.folds:
        model = _model(data, strength)
        unfinished += unfinished_fits(functools.partial(model.fit, A[train], b[train]))
        losses.append(row_losses(model, A[held_out], b[held_out]))
    return float(np.concatenate(losses).mean()), unfinished


def _search(data: TuningData) -> Any:
    from sklearn.linear_model import LogisticRegressionCV, RidgeCV

    if data.task == "regression":
        return RidgeCV(GRID, cv=data.folds, scoring=_negative_loss)
    return LogisticRegressionCV(
        Cs=GRID,
        l1_ratios=(0.0,),
        cv=data.folds,
        scoring=_negative_loss,
        max_iter=_MAX_ITER,
        use_legacy_attributes=False,
    )


def _negative_loss(model: Any, A: Samples, b: np.ndarray) -> float:
    """Score a model; unlike scikit-learn's, it does not ask for rows of every class."""
    return -float(row_losses(model, A, b).mean())


def _notes(name: str, unfinished: int, fits: int) -> list[str]:
    text = f"{name}: {unfinished} of its {fits} fits did not converge within {_MAX_ITER} iterations"
    return [text] if unfinished else []


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
