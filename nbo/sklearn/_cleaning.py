"""The stages of label cleaning: the odds of every label by models that have not seen it, then hyper-cleaning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from nbo.lower_level import solve_lower_level
from nbo.result import BilevelResult
from nbo.sklearn._cleaning_models import MODEL_TOL, Model, Settings, fitted, folds, hyper_cleaning, split, strength
from nbo.sklearn._distinct import DistinctRows, together
from nbo.sklearn._label_noise import log_likelihood, log_odds, transition_matrix
from nbo.sklearn._running import minimized

Array = npt.NDArray[Any]

#: How often the odds are estimated anew from models that learn from the weighted rows, too.
_ROUNDS = 2
#: A model of weighted rows may need a stronger penalty than one of trusted rows: C is divided by one of these.
_DIVISORS = (1.0, 10.0, 100.0)
#: Few rows are halved several times, for so many predictions in all: one division leaves much to chance.
_PREDICTIONS, _MOST = 4000, 10
#: How much stronger than for predictions the penalty is while weights are learnt.
_STRONGER = 32.0


class Weighing(NamedTuple):
    """What is known about the labels of some rows.

    Attributes
    ----------
    x : ndarray
        The logits of their weights.
    x_silent : ndarray
        The same for the rows of no weight.
    disagrees : ndarray of bool
        Whether a model of the trusted rows alone predicts another label.
    C : float
        The strength of models of weighted rows, as scikit-learn has it.
    ridge : float
        c_r.
    losses : tuple of float
        Mean loss on trusted rows of the model of equally weighted rows, of rows weighted by the odds, and at the end.
    model : Model
        The model of the weighted rows, which the weights were learnt with.
    result : BilevelResult
        Of hyper-cleaning.
    """

    x: Array
    x_silent: Array
    disagrees: Array
    C: float
    ridge: float
    losses: tuple[float, float, float]
    model: Model
    result: BilevelResult


class Outcome(NamedTuple):
    """What cleaning found.

    Attributes
    ----------
    x, x_silent : ndarray
        The logits of the weights of rows, and of those that nothing was learnt from.
    disagrees : ndarray of bool
        Which rows a model of trusted rows alone disagrees with.
    found : Weighing
        Of the first part if there were no trusted rows, else of all rows.
    n_trusted : int
        The number of rows that judged.
    weighted : DistinctRows
        What the final model is fitted to.
    """

    x: Array
    x_silent: Array
    disagrees: Array
    found: Weighing
    n_trusted: int
    weighted: DistinctRows


def clean(rows: DistinctRows, trusted: DistinctRows, silent: DistinctRows, settings: Settings) -> Outcome:
    """Judge labels by trusted rows.

    Parameters
    ----------
    rows, trusted, silent : DistinctRows
        See `weigh`.
    settings : Settings
        Of the user.

    Returns
    -------
    Outcome
        The final model is that of the weighted rows and the trusted ones.
    """
    trusted_single = trusted.single()
    C = strength(trusted_single, settings)
    found = weigh(rows.single(), trusted_single, silent.single(), C, settings)
    weighted = together(trusted, rows.weighted(expit(found.x)))
    return Outcome(found.x, found.x_silent, found.disagrees, found, trusted.codes.size, weighted)


def clean_without_trusted(rows: DistinctRows, silent: DistinctRows, share: float, settings: Settings) -> Outcome:
    """Judge labels by held-out rows, then those by the weighted others.

    Parameters
    ----------
    rows, silent : DistinctRows
        See `weigh`.
    share : float
        Of the rows, to hold out.
    settings : Settings
        Of the user.

    Returns
    -------
    Outcome
        The final model is that of all weighted rows.
    """
    rest, held_out = split(rows.codes, share, settings.random)
    single, silent = rows.single(), silent.single()
    trusted, others = single.chosen(held_out), single.chosen(rest)
    C = strength(trusted, settings)
    found = weigh(others, trusted, silent, C, settings)
    swapped = weigh(trusted, others.weighted(expit(found.x)), silent, C, settings)
    x, disagrees = np.empty(rows.codes.size), np.empty(rows.codes.size, dtype=bool)
    for places, part in ((rest, found), (held_out, swapped)):
        x[places], disagrees[places] = part.x, part.disagrees
    return Outcome(x, found.x_silent, disagrees, found, held_out.size, rows.weighted(expit(x)))


def weigh(rows: DistinctRows, trusted: DistinctRows, silent: DistinctRows, C: float, settings: Settings) -> Weighing:
    """Learn how far to trust every label.

    Parameters
    ----------
    rows, trusted : DistinctRows
        Rows whose labels may be wrong, and rows with right ones.
    silent : DistinctRows
        Rows that nothing is learnt from.
    C : float
        The strength of a model of trusted rows.
    settings : Settings
        Of the user.

    Returns
    -------
    Weighing
        The weights and how they came about.
    """
    first = fitted(trusted, C, settings)
    probabilities, unheard = first.probabilities(rows.A), first.probabilities(silent.A)
    disagrees = probabilities.argmax(axis=1) != rows.codes
    unknown = np.setdiff1d(np.arange(settings.n_classes), trusted.codes)
    judged = _judged(_Guess(C, probabilities, unheard), rows, unknown)
    for again in range(_ROUNDS):
        strengths = [judged.guess.C / divisor for divisor in _DIVISORS] if again == 0 else [judged.guess.C]
        divisions = [folds(rows.codes, 2, settings.random) for _ in range(_repeats(rows))]
        weighted = rows.weighted(expit(judged.odds))
        judged = _likeliest(
            _judged_by_all(
                [_cross_fitted(weighted, halves, trusted, silent, c, settings) for halves in divisions], rows, unknown
            )
            for c in strengths
        )
    odds_silent = log_odds(judged.guess.silent, silent.codes, judged.transition)
    found = _hyper_cleaned(rows, trusted, judged.odds, judged.guess.C, settings)
    return found._replace(x_silent=odds_silent, disagrees=disagrees)


class _Guess(NamedTuple):
    """Probabilities of the right classes, (n, c), by models of strength C: of rows and of silent ones."""

    C: float
    rows: Array
    silent: Array


class _Judged(NamedTuple):
    """What a guess says about the labels."""

    guess: _Guess
    transition: Array
    odds: Array
    likelihood: float


def _repeats(rows: DistinctRows) -> int:
    return min(max(_PREDICTIONS // max(rows.codes.size, 1), 1), _MOST)


def _judged(guess: _Guess, rows: DistinctRows, unknown: Array) -> _Judged:
    transition = transition_matrix(guess.rows, rows.codes, rows.weights)
    odds = log_odds(guess.rows, rows.codes, transition)
    odds[np.isin(rows.codes, unknown)] = 0.0  # trusted rows know nothing of these classes
    return _Judged(guess, transition, odds, log_likelihood(guess.rows, rows.codes, rows.weights, transition))


def _judged_by_all(guesses: list[_Guess], rows: DistinctRows, unknown: Array) -> _Judged:
    """Average guesses; together they are better than models of their strength are, so that each is judged alone."""
    alone = [_judged(guess, rows, unknown).likelihood for guess in guesses]
    parts = (np.mean([getattr(guess, name) for guess in guesses], axis=0) for name in ("rows", "silent"))
    return _judged(_Guess(guesses[0].C, *parts), rows, unknown)._replace(likelihood=float(np.mean(alone)))


def _likeliest(candidates: Iterator[_Judged]) -> _Judged:
    """Return the candidate before the likelihood falls: later ones are not fitted."""
    best = next(candidates)
    for candidate in candidates:
        if candidate.likelihood <= best.likelihood:
            break
        best = candidate
    return best


def _cross_fitted(
    weighted: DistinctRows,
    halves: list[tuple[Array, Array]],
    trusted: DistinctRows,
    silent: DistinctRows,
    C: float,
    settings: Settings,
) -> _Guess:
    """Predict each half of the rows by a model of the trusted and the weighted other half, and silent rows by both."""
    guess = _Guess(C, *(np.zeros((part.codes.size, settings.n_classes)) for part in (weighted, silent)))
    for half, other in halves:
        model = fitted(together(trusted, weighted.chosen(half)), C, settings)
        guess.rows[other] = model.probabilities(weighted.A[other])
        guess.silent[:] += model.probabilities(silent.A) / len(halves)
    return guess


def _hyper_cleaned(rows: DistinctRows, trusted: DistinctRows, odds: Array, C: float, settings: Settings) -> Weighing:
    """Move the weights so that the model of the weighted rows predicts trusted labels better."""
    n = float(rows.weights.sum())
    ridge = _STRONGER / (2 * C * n) if settings.ridge is None else settings.ridge
    problem = hyper_cleaning(rows, trusted, ridge, settings)
    equal = np.full(odds.size, 20.0)  # each weight is 1
    uncleaned = solve_lower_level(problem, equal, tol=MODEL_TOL).y
    result = minimized(
        problem,
        odds,
        y0=uncleaned,
        tol=settings.tol,
        max_iter=settings.max_iter,
        callback=_printed if settings.verbose else None,
    )
    before = problem.upper_value(equal, uncleaned.astype(problem.dtype))
    losses = (float(before), float(result.history.value[:2][-1]), float(result.fun))
    nothing = np.zeros(0)
    return Weighing(result.x, nothing, nothing.astype(bool), C, ridge, losses, Model(problem, result.y), result)


def _printed(intermediate_result: Any) -> None:
    print(
        f"cleaning, iteration {intermediate_result.nit}: loss of trusted rows {intermediate_result.fun:.6g}, "
        f"hypergradient {intermediate_result.hypergrad_norm:.2g}"
    )
