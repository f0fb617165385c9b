"""The estimators that tune penalties against scikit-learn's and another package's on real data."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from nbo._interrupts import repeated
from nbo.benchmarks._estimator_models import Model, models, sparho_is_installed
from nbo.benchmarks._estimator_tables import HEADER, TARGET_HEADER, summary, targets
from nbo.benchmarks._fits import Failure, Fit, fits
from nbo.benchmarks._output import Section, write
from nbo.benchmarks._real_sets import QUICK_SETS, SETS, RealSet, real_rows
from nbo.benchmarks.timing import one_blas_thread
from nbo.experiments._tables import Table
from nbo.progress import TimeLeft, entered

#: Rows of the fits that come first, untimed, so that what they need is imported and compiled.
WARM_ROWS = 3000

_HEADING = """\
Estimators that tune penalties, on the same rows: 60 % training, 20 % validation and 20 % test rows, or the official
test rows. 'one split': chosen on the validation rows; '5 folds': chosen by cross-validation on training and validation
rows. Every model is then refitted on both parts. Loss: log-loss, or mean squared error, of the test rows. 'ratio' and
'worst': mean and largest ratio to the loss of the first model with the same criterion, split by split. Error: the share
of wrong labels, or of the variance left. Seconds of a fit by the clock on one thread, without compilation; medians.
'unfinished': fits that stopped at their limit of iterations, over all splits."""


def run(*, quick: bool = False, folder: str | os.PathLike[str] | None = None) -> None:
    """Print a table for every data set, and which targets were met.

    Parameters
    ----------
    quick : bool
        Two small sets with two splits each.
    folder : str or path, optional
        Where to write all fits as ``fits.csv`` and the tables as ``summary.md``; made if it is not there. What is
        ready is written and printed also after an interrupt.
    """
    sets = QUICK_SETS if quick else SETS
    print(_HEADING)
    if not sparho_is_installed():
        print("\nsparho is left out: it is not installed")
    study = Study(sets)
    try:
        with one_blas_thread(), repeated(), contextlib.ExitStack() as stack:
            study.bar = entered(stack, TimeLeft)
            for chosen in sets:
                study.measure(chosen)
    finally:
        study.targets().show()
        if folder is not None:
            write(Path(folder), "fits.csv", Table(Fit._fields, list(study.found)), study.sections())


class Study:
    """The fits of all sets.

    Parameters
    ----------
    sets : sequence of RealSet
        What is to be measured.

    Attributes
    ----------
    found : list of Fit
        What has been measured.
    bar : TimeLeft or None
        Shown while it goes on.
    """

    def __init__(self, sets: Sequence[RealSet]) -> None:
        self.sets = sets
        self.bar: TimeLeft | None = None
        self.found: list[Fit] = []
        self._spent = 0.0

    def measure(self, chosen: RealSet) -> None:
        """Fit all models on all splits of a set and print its table; of what there is, after an interrupt.

        Parameters
        ----------
        chosen : RealSet
            The set.
        """
        try:
            self._fit_all(chosen)
        except FileNotFoundError as error:
            print(f"\n{chosen.name} is left out: {error}")
        finally:
            self._section(chosen).show()

    def _fit_all(self, chosen: RealSet) -> None:
        for seed in range(chosen.n_seeds):
            rows = real_rows(chosen, seed)
            taking_part = models(chosen, rows.task)
            if seed == 0:
                _warm_up(chosen, taking_part)
            for fit in fits(chosen.name, seed, rows, taking_part):
                self._add(fit, chosen.effort / len(taking_part))

    def _add(self, fit: Fit | Failure, effort: float) -> None:
        self._spent += effort
        if self.bar is not None:
            expected = sum(chosen.effort * chosen.n_seeds for chosen in self.sets)
            self.bar(self._spent, expected, f"{fit.data}, split {fit.seed}: {fit.model} by {fit.criterion}")
        if isinstance(fit, Fit):
            self.found.append(fit)
        else:
            print(f"\n{fit.data}, split {fit.seed}: {fit.model} by {fit.criterion} is left out: {fit.reason}")

    def sections(self) -> list[Section]:
        """Return a table a set, and the targets.

        Returns
        -------
        list of Section
            What has been measured.
        """
        return [*map(self._section, self.sets), self.targets()]

    def _section(self, chosen: RealSet) -> Section:
        mine = [fit for fit in self.found if fit.data == chosen.name]
        n_splits = len({fit.seed for fit in mine})
        return Section(f"{chosen.name}, {n_splits} split{'s' * (n_splits != 1)}", HEADER, summary(mine))

    def targets(self) -> Section:
        """Return what was to be reached on the sets that have fits, and whether it was.

        Returns
        -------
        Section
            Empty as long as nothing has been measured.
        """
        measured = {fit.data for fit in self.found}
        kept = targets(self.found, [chosen for chosen in self.sets if chosen.name in measured])
        return Section("Targets", TARGET_HEADER, [target.row() for target in kept])


def _warm_up(chosen: RealSet, taking_part: Sequence[Model]) -> None:
    """Fit models once, so that no timed fit has to import or compile; on large sets those that compile only."""
    warmed = [model for model in taking_part if chosen.is_small or model.name.startswith("nbo ")]
    for _ in fits(chosen.name, 0, real_rows(chosen, 0, WARM_ROWS), warmed):
        pass
