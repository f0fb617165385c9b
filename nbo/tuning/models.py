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
    log_penalties : ndarray, shape (1,) or (p,)
        The x of the training rows without the intercept's entry: scikit-learn's C is 1 / (n_train e^x).
    scaled_coefficients : ndarray, shape (p,)
        Coefficients on scaled columns, refitted on training and validation rows.
    scaled_intercept : float
        The intercept that goes with them.
    coefficients : ndarray, shape (p,)
        The same for the columns of the data set as they are, in the inverse of their units.
    intercept : float
        The intercept that goes with those.
    validation_loss : float
        Mean logistic loss on the validation rows of the model fitted on the training rows alone.
    test_losses : ndarray, shape (n_test,)
        Logistic loss of each test row under the refitted model.
    accuracy : float
        Share of test rows that the refitted model classifies correctly.
    seconds : float
        Wall time without compilation, from the start to the refit: with evaluations for the history and the
        fits of the validation and test loss. A stage that starts from another one includes that one's.
    counts : OracleCounts or None
        All oracle calls of that time; None when nobody counted.
    notes : tuple of str
        What did not converge, if anything.
    """

    name: str
    log_penalties: np.ndarray
    scaled_coefficients: np.ndarray
    scaled_intercept: float
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

    def __repr__(self) -> str:
        return f"<FittedModel {self.name}: test loss {self.test_loss:#.4g}, accuracy {self.accuracy:.2%}>"


def measured(
    name: str,
    data: TuningData,
    *,
    log_penalties: np.ndarray,
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
    log_penalties : ndarray
        Without the intercept's.
    y : ndarray, shape (p + 1,)
        Refitted parameters, the intercept last.
    validation_loss : float
        Of the model fitted on the training rows.
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
    scaled_coefficients, scaled_intercept = y[:-1], float(y[-1])
    coefficients, intercept = data.original_units(scaled_coefficients, scaled_intercept)
    return FittedModel(
        name=name,
        log_penalties=log_penalties,
        scaled_coefficients=scaled_coefficients,
        scaled_intercept=scaled_intercept,
        coefficients=coefficients,
        intercept=intercept,
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
