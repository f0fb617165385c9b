"""Fitted models and their measures, the same for every way of choosing penalties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from nbo.datasets import Samples
from nbo.oracles import OracleCounts
from nbo.tuning.data import TuningData

#: The rank of a model with finer penalties than a shared one.
FINER = 3

#: The loss of a coin's toss.
_COIN = float(np.log(2))


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A linear model, how good it is and what it cost.

    Attributes
    ----------
    name : str
        ``untuned``, ``LogisticRegressionCV`` or ``RidgeCV``, ``shared``, or ``per-feature`` and other finer ones.
    log_penalties : ndarray, shape (1,) or (G,)
        The x of the training rows of a fold: for classes scikit-learn's C is 1 / (n_train e^x), for numbers its
        alpha is n_train e^x.
    scaled_coefficients : ndarray, shape (p,) or (c, p)
        Coefficients on scaled columns, of a fit to all rows but the test rows; (c, p) for three classes or more.
    scaled_intercept : ndarray, shape () or (c,)
        The intercepts that go with them.
    coefficients : ndarray, shape (p,) or (c, p)
        The same for the columns of the data set as they are, in the inverse of their units.
    intercept : ndarray, shape () or (c,)
        The intercepts that go with those.
    validation_loss : float
        Mean loss of held-out rows, of models of the training rows of the folds.
    test_losses : ndarray, shape (n_test,)
        Loss of each test row: log-loss, or squared error.
    score : float
        Of the test rows: the share of right classes, or R2.
    seconds : float
        Wall time without compilation, from the start to the final fit. A search that starts from another one
        includes that one's.
    counts : OracleCounts or None
        The oracle calls of the search, without the final fit; None when nobody counted.
    notes : tuple of str
        What did not converge, if anything.
    score_name : str
        ``accuracy`` or ``R2``.
    blind_loss : float
        The loss of a guess that knows no features: the log of the number of classes, or the variance of the targets.
    """

    name: str
    log_penalties: np.ndarray
    scaled_coefficients: np.ndarray
    scaled_intercept: np.ndarray
    coefficients: np.ndarray
    intercept: np.ndarray
    validation_loss: float
    test_losses: np.ndarray
    score: float
    seconds: float
    counts: OracleCounts | None
    notes: tuple[str, ...] = ()
    score_name: str = "accuracy"
    blind_loss: float = _COIN

    @property
    def test_loss(self) -> float:
        """Mean loss of the test rows."""
        return float(self.test_losses.mean())

    @property
    def score_text(self) -> str:
        """The score as it is shown."""
        return f"{self.score:.2%}" if self.score_name == "accuracy" else f"{self.score:.4f}"

    @property
    def rank(self) -> int:
        """Place among the models, the simplest first: untuned, a grid's, one shared penalty, finer ones."""
        return {"untuned": 0, "LogisticRegressionCV": 1, "RidgeCV": 1, "shared": 2}.get(self.name, FINER)

    def __repr__(self) -> str:
        return f"<FittedModel {self.name}: test loss {self.test_loss:#.4g}, {self.score_name} {self.score_text}>"


def measured(
    name: str,
    data: TuningData,
    model: Any,
    *,
    log_penalties: np.ndarray,
    validation_loss: float,
    seconds: float,
    counts: OracleCounts | None,
    notes: Sequence[str] = (),
) -> FittedModel:
    """Measure a model on the test rows.

    Parameters
    ----------
    name : str
        The name of the row.
    data : TuningData
        The rows.
    model : estimator
        Linear, in scikit-learn's manner, fitted to the development rows.
    log_penalties : ndarray
        Its penalties.
    validation_loss : float
        Of held-out rows.
    seconds : float
        Wall time without compilation.
    counts : OracleCounts or None
        Oracle calls, if counted.
    notes : sequence of str
        What did not converge.

    Returns
    -------
    FittedModel
        The model with its measures.
    """
    from sklearn.metrics import r2_score

    A, b = data.test
    coefficients, intercept = np.asarray(model.coef_), np.asarray(model.intercept_)
    if data.task == "binary":
        coefficients, intercept = coefficients[0], intercept[0]
    original, original_intercept = data.original_units(coefficients, intercept)
    classes = data.task != "regression"
    return FittedModel(
        name=name,
        log_penalties=log_penalties,
        scaled_coefficients=coefficients,
        scaled_intercept=np.asarray(intercept),
        coefficients=original,
        intercept=original_intercept,
        validation_loss=validation_loss,
        test_losses=row_losses(model, A, b),
        score=float(np.mean(model.predict(A) == b)) if classes else float(r2_score(b, model.predict(A))),
        seconds=seconds,
        counts=counts,
        notes=tuple(notes),
        score_name="accuracy" if classes else "R2",
        blind_loss=float(np.log(data.development.b.max() + 1) if classes else b.var()),
    )


def row_losses(model: Any, A: Samples, b: np.ndarray) -> np.ndarray:
    """Return the loss of every row: log-loss of a classifier, squared error of a regression.

    Parameters
    ----------
    model : estimator
        Fitted, linear; the classes of a classifier are numbers from 0.
    A : ndarray or sparse matrix, shape (n, p)
        The rows.
    b : ndarray, shape (n,)
        Numbers of classes, or targets.

    Returns
    -------
    ndarray, shape (n,)
        Losses.
    """
    if not hasattr(model, "decision_function"):
        return (model.predict(A) - b) ** 2
    scores = model.decision_function(A)
    if scores.ndim == 1:
        return np.logaddexp(0.0, np.where(b == 1, -scores, scores))
    return logsumexp(scores, axis=1) - scores[np.arange(len(b)), b]
