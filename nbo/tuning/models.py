"""Fitted models and their measures, the same for every way of choosing penalties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nbo.oracles import OracleCounts
from nbo.tuning.data import Part, TuningData


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A logistic model, how good it is and what it cost.

    Attributes
    ----------
    name : str
        ``untuned``, ``LogisticRegressionCV``, ``shared`` or ``per-feature``.
    x : ndarray, shape (1,) or (p,)
        Log penalties on the training rows, without the intercept's: scikit-learn's C is 1 / (n_train e^x).
    coefficients : ndarray, shape (p,)
        Coefficients on scaled columns, refitted on training and validation rows.
    intercept : float
        The intercept that goes with them.
    validation_loss : float
        Mean logistic loss on the validation rows of the model fitted on the training rows alone.
    test_losses : ndarray, shape (n_test,)
        Logistic loss of each test row under the refitted model.
    accuracy : float
        Share of test rows that the refitted model classifies correctly.
    seconds : float
        Wall time without compilation; a stage that starts from another one includes that one's.
    counts : OracleCounts or None
        Oracle calls, cumulative like `seconds`; None when nobody counted.
    notes : tuple of str
        What a reader of these figures should know, such as a run that stopped early.
    """

    name: str
    x: np.ndarray
    coefficients: np.ndarray
    intercept: float
    validation_loss: float
    test_losses: np.ndarray
    accuracy: float
    seconds: float
    counts: OracleCounts | None
    notes: tuple[str, ...] = ()

    @property
    def test_loss(self) -> float:
        """Mean logistic loss on the test rows."""
        return float(self.test_losses.mean())


def measured(
    name: str,
    data: TuningData,
    *,
    x: np.ndarray,
    y: np.ndarray,
    validation_loss: float,
    seconds: float,
    counts: OracleCounts | None,
    notes: Sequence[str] = (),
) -> FittedModel:
    """Measure a refitted model on the test rows.

    Parameters
    ----------
    name : str
        The name of the row.
    data : TuningData
        The split.
    x : ndarray
        Log penalties without the intercept's.
    y : ndarray, shape (p + 1,)
        Refitted parameters, the intercept last.
    validation_loss : float
        Of the model fitted on the training rows.
    seconds : float
        Wall time without compilation.
    counts : OracleCounts or None
        Oracle calls, if counted.
    notes : sequence of str
        What a reader should know.

    Returns
    -------
    FittedModel
        The model with its measures.
    """
    return FittedModel(
        name=name,
        x=x,
        coefficients=y[:-1],
        intercept=float(y[-1]),
        validation_loss=validation_loss,
        test_losses=row_losses(data.test, y),
        accuracy=accuracy(data.test, y),
        seconds=seconds,
        counts=counts,
        notes=tuple(notes),
    )


def row_losses(part: Part, y: np.ndarray) -> np.ndarray:
    """Return log(1 + exp(-b_i a_i^T y)) for every row i.

    Parameters
    ----------
    part : Part
        Rows a_i and labels b_i.
    y : ndarray, shape (p + 1,)
        Parameters, the intercept last.

    Returns
    -------
    ndarray, shape (n,)
        Logistic losses.
    """
    return np.logaddexp(0.0, -part.b * (part.A @ y))


def accuracy(part: Part, y: np.ndarray) -> float:
    """Return the share of rows whose score is positive for label +1 and not positive for label -1.

    Parameters
    ----------
    part : Part
        Rows and labels.
    y : ndarray, shape (p + 1,)
        Parameters, the intercept last.

    Returns
    -------
    float
        Between 0 and 1.
    """
    return float(np.mean((part.A @ y > 0) == (part.b > 0)))
