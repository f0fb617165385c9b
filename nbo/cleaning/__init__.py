"""Cleaning of the labels of one data set, from rows to a ranked list of suspects."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from nbo._scaling import Scaling
from nbo._validation import integer
from nbo.cleaning.alignment import same_columns
from nbo.datasets import DataError, LabelledTable, Samples
from nbo.datasets.errors import listing

__all__ = ["CleanedLabels", "clean"]


@dataclass(frozen=True, eq=False)
class CleanedLabels:
    """What was found about the labels of a table.

    Attributes
    ----------
    table : LabelledTable
        The rows that were judged.
    trusted : LabelledTable or None
        The rows that judged them; None if some of the former were held out.
    cleaner : nbo.sklearn.LabelCleaner
        Fitted on scaled columns.
    weights : ndarray, shape (n,)
        How far each label is trusted, from 0 to 1.
    order : ndarray of int, shape (n,)
        Row numbers from zero, the most suspicious first.
    suggested : ndarray of str, shape (n,)
        The label that the cleaned model finds likeliest.
    probability : ndarray, shape (n,)
        How likely, from 0 to 1.
    settings : dict
        What was asked for.
    notes : tuple of str
        What the reader should know besides, such as labels of which no row is trusted.
    """

    table: LabelledTable
    trusted: LabelledTable | None
    cleaner: Any
    weights: np.ndarray
    order: np.ndarray
    suggested: np.ndarray
    probability: np.ndarray
    settings: dict[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def suspects(self) -> np.ndarray:
        """Numbers of the rows of weight below 1/2, the most suspicious first."""
        return self.order[: self.cleaner.report_.n_suspects]

    def __repr__(self) -> str:
        return f"<CleanedLabels of {self.table.name}: {len(self.suspects):,} of {len(self.weights):,} labels suspect>"


def clean(
    table: LabelledTable,
    trusted: LabelledTable | None = None,
    *,
    ridge: Any = "auto",
    seed: int = 0,
    max_iter: int | None = None,
) -> CleanedLabels:
    """Judge the labels of a table by :class:`nbo.sklearn.LabelCleaner`.

    Dense columns are standardised and sparse ones divided by their largest magnitude, with statistics of the rows that
    are judged.

    Parameters
    ----------
    table : LabelledTable
        From :func:`nbo.datasets.read_labelled`; some labels are wrong.
    trusted : LabelledTable, optional
        Rows with the same columns whose labels are right. Without them a fifth of the rows is held out as if its
        labels were, which is worth far less.
    ridge : "auto" or float
        See :class:`nbo.sklearn.LabelCleaner`.
    seed : int
        Of the splits.
    max_iter : int, optional
        Iterations of hyper-cleaning; by default those of the estimator.

    Returns
    -------
    CleanedLabels
        Weights, ranks and suggestions.

    Raises
    ------
    DataError
        If the trusted rows have other columns or labels, a table is too small, or a column is too large or too small
        to be scaled.
    TypeError, ValueError
        For bad settings.
    """
    from nbo.sklearn import LabelCleaner

    random_state = integer("seed", seed, maximum=2**32 - 1)
    options: dict[str, Any] = {} if max_iter is None else {"max_iter": integer("max_iter", max_iter, minimum=1)}
    A, A_trusted = _scaled(table, trusted)
    cleaner = LabelCleaner(ridge=ridge, random_state=random_state, **options)
    with warnings.catch_warnings():  # the report and the notes say so
        warnings.filterwarnings("ignore", "X_trusted: found None|y_trusted: found no row of", UserWarning)
        try:
            cleaner.fit(A, table.labels, X_trusted=A_trusted, y_trusted=None if trusted is None else trusted.labels)
        except ValueError as error:
            if str(error).startswith("ridge"):
                raise
            raise DataError(f"{table.source}: {error}") from error
    probabilities = cleaner.predict_proba(A)
    likeliest = probabilities.argmax(axis=1)
    return CleanedLabels(
        table,
        trusted,
        cleaner,
        cleaner.weights_,
        cleaner.suspects(len(table.labels)),
        cleaner.classes_[likeliest],
        probabilities[np.arange(likeliest.size), likeliest],
        {"ridge": ridge, "seed": random_state, "max_iter": max_iter},
        () if trusted is None else _notes(table, trusted),
    )


def _scaled(table: LabelledTable, trusted: LabelledTable | None) -> tuple[Samples, Samples | None]:
    """Scale the rows of both tables by statistics of the first."""
    A_trusted = None
    if trusted is not None:
        _require_known_labels(table, trusted)
        A_trusted = same_columns(trusted, table)
    names, source = table.feature_names, table.source
    try:
        scaling = Scaling.fitted(table.A, names)
        A = scaling.scaled(table.A, names)
        if trusted is not None:
            source = trusted.source
            A_trusted = scaling.scaled(A_trusted, names)
    except DataError as error:
        raise DataError(f"{source}: {error}") from error
    return A, A_trusted


def _require_known_labels(table: LabelledTable, trusted: LabelledTable) -> None:
    unknown = [name for name in trusted.label_names if name not in table.label_names]
    if unknown:
        raise DataError(
            f"{trusted.source} has the label {unknown[0]!r}, which {table.source} lacks; expected some of "
            f"{', '.join(table.label_names[:10])}"
        )


def unjudged(table: LabelledTable, trusted: LabelledTable) -> list[str]:
    """Return the labels that no trusted row has.

    Parameters
    ----------
    table, trusted : LabelledTable
        All rows and the trusted ones.

    Returns
    -------
    list of str
        In order.
    """
    return [name for name in table.label_names if name not in trusted.label_names]


def _notes(table: LabelledTable, trusted: LabelledTable) -> tuple[str, ...]:
    missing = unjudged(table, trusted)
    if not missing:
        return ()
    labels = f"label{'s' * (len(missing) > 1)} {listing([repr(name) for name in missing])}"
    return (f"{trusted.source} has no row with the {labels}; such labels can hardly be judged: add some rows",)
