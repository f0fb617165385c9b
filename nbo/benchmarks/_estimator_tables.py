"""What the fits of the comparison of estimators say: a table a data set, and targets with verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from nbo.benchmarks._estimator_models import BASELINES, CLASS, FEATURE, FOLDS, SHARED, SPLIT
from nbo.benchmarks._fits import Fit
from nbo.benchmarks._real_sets import RealSet

#: Time of a fit in units of the baseline's, at most.
TIMES: dict[str, dict[str, float]] = {
    SPLIT: {
        "breast_cancer": 0.15,
        "phishing": 0.7,
        "mushrooms": 0.8,
        "digits": 1.0,
        "a9a": 0.8,
        "w8a": 1.0,
        "covtype_50k": 1.0,
        "news20": 1.0,
    },
    FOLDS: {"breast_cancer": 0.1, "phishing": 0.8, "a9a": 0.5, "w8a": 1.0, "digits": 1.0},
}

#: Test loss in units of the baseline's, at most: the mean on small and on large sets, and every split of small ones.
SMALL_LOSS, LARGE_LOSS, WORST_LOSS = 1.0, 1.001, 1.05

#: Test loss of finer penalties in units of the shared one's, at most: the mean over sets, and every split.
FINER_LOSS, WORST_FINER_LOSS = 1.0, 1.02

HEADER = ("model", "chosen by", "loss", "ratio", "worst", "error", "seconds", "time ratio", "unfinished")
TARGET_HEADER = ("target", "found", "wanted", "verdict")


class Target(NamedTuple):
    """A bound that was to be kept.

    Attributes
    ----------
    what : str
        The quantity.
    found : float
        Its value; NaN if it was not measured.
    bound : float
        What it may be at most.
    """

    what: str
    found: float
    bound: float

    def row(self) -> tuple[str, str, str, str]:
        """Return its line of the table.

        Returns
        -------
        tuple of str
            In the order of `TARGET_HEADER`.
        """
        if np.isnan(self.found):
            return self.what, "-", f"<= {self.bound:g}", "not measured"
        return self.what, f"{self.found:.4f}", f"<= {self.bound:g}", "met" if self.found <= self.bound else "not met"


def summary(found: Sequence[Fit]) -> list[tuple[str, ...]]:
    """Return the rows of the table of a data set, in the order of `HEADER`.

    Parameters
    ----------
    found : sequence of Fit
        All fits of the set.

    Returns
    -------
    list of tuple of str
        A row a model and criterion; "-" for ratios where the baseline is missing.
    """
    models = dict.fromkeys((fit.model, fit.criterion) for fit in found)
    return [_row(found, model, criterion) for model, criterion in models]


def _row(found: Sequence[Fit], model: str, criterion: str) -> tuple[str, ...]:
    mine = [fit for fit in found if (fit.model, fit.criterion) == (model, criterion)]
    losses, times = (ratios(found, criterion, model, BASELINES, quantity) for quantity in ("loss", "seconds"))
    return (
        model,
        criterion,
        f"{np.mean([fit.loss for fit in mine]):.4g}",
        f"{np.mean(losses):.4f}" if losses else "-",
        f"{max(losses):.4f}" if losses else "-",
        f"{np.mean([fit.error for fit in mine]):.4f}",
        f"{np.median([fit.seconds for fit in mine]):.3g}",
        f"{np.median(times):.3g}" if times else "-",
        f"{sum(fit.unfinished for fit in mine)}",
    )


def ratios(
    found: Sequence[Fit], criterion: str, model: str, references: Sequence[str], quantity: str = "loss"
) -> list[float]:
    """Return ratios to a reference, a split each.

    Parameters
    ----------
    found : sequence of Fit
        The fits.
    criterion : str
        Of both sides.
    model : str
        Who.
    references : sequence of str
        Whom to compare with: one of them is on each split.
    quantity : str
        A field of `Fit`.

    Returns
    -------
    list of float
        For the splits on which both were fitted.
    """
    reference = {_split(fit): fit for fit in found if fit.model in references and fit.criterion == criterion}
    mine = [fit for fit in found if fit.model == model and fit.criterion == criterion and _split(fit) in reference]
    return [getattr(fit, quantity) / getattr(reference[_split(fit)], quantity) for fit in mine]


def _split(fit: Fit) -> tuple[str, int]:
    return fit.data, fit.seed


def targets(found: Sequence[Fit], sets: Sequence[RealSet]) -> list[Target]:
    """Return all bounds on the sets that were asked for.

    Parameters
    ----------
    found : sequence of Fit
        The fits of all sets.
    sets : sequence of RealSet
        The sets.

    Returns
    -------
    list of Target
        Times, losses, and finer penalties.
    """
    by_set = {chosen.name: [fit for fit in found if fit.data == chosen.name] for chosen in sets}
    kept = []
    for criterion, bounds in TIMES.items():
        for name in (name for name in by_set if name in bounds):
            times = ratios(by_set[name], criterion, SHARED, BASELINES, "seconds")
            kept.append(Target(f"{name}, {criterion}: time / baseline", _or_nan(np.median, times), bounds[name]))
    for chosen in sets:
        losses = ratios(by_set[chosen.name], FOLDS, SHARED, BASELINES)
        bound = SMALL_LOSS if chosen.is_small else LARGE_LOSS
        kept.append(Target(f"{chosen.name}, {FOLDS}: loss / baseline, mean", _or_nan(np.mean, losses), bound))
        if chosen.is_small:
            kept.append(Target(f"{chosen.name}, {FOLDS}: loss / baseline, worst", _or_nan(np.max, losses), WORST_LOSS))
    return kept + [target for model in (FEATURE, CLASS) for target in _finer(by_set, model)]


def _finer(by_set: Mapping[str, Sequence[Fit]], model: str) -> list[Target]:
    kept = []
    for criterion in (SPLIT, FOLDS):
        pairs = [ratios(found, criterion, model, (SHARED,)) for found in by_set.values()]
        pairs = [losses for losses in pairs if losses]
        if pairs:
            what = f"all sets, {criterion}: loss of {model} / shared"
            mean, worst = float(np.mean([np.mean(losses) for losses in pairs])), max(map(max, pairs))
            kept += [Target(f"{what}, mean", mean, FINER_LOSS), Target(f"{what}, worst", worst, WORST_FINER_LOSS)]
    return kept


def _or_nan(statistic: np.ufunc | object, values: Sequence[float]) -> float:
    return float(statistic(values)) if values else np.nan  # type: ignore[operator]
