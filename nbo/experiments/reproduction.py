"""The one runner: plans tasks, has them done or takes them from the folder, and writes what came of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from nbo._validation import choice, flag, integer
from nbo.datasets import DataError, data_home
from nbo.experiments import _pool, _results
from nbo.experiments._results import CaseResult
from nbo.experiments._store import Store
from nbo.experiments._tasks import Task
from nbo.experiments.catalogue import CLAIMS, EXPERIMENTS
from nbo.experiments.claims import Claim, Evidence, Judgement, tally
from nbo.experiments.configuration import Case, Experiment, Scale

#: Called with the finished and the expected seconds of all tasks, and with what ended last.
Progress = Callable[[float, float, str], None]

#: Repeats that make sense at most.
_MOST_REPEATS = 1000


class Reproduction(NamedTuple):
    """What `reproduce` has found.

    Attributes
    ----------
    folder : Path
        Where everything is.
    scale : str
        ``"full"`` or ``"quick"``.
    repeats : int or None
        As asked for.
    names : tuple of str
        The experiments that have results, in the order of the report.
    omitted : dict
        Name of an experiment or case -> why it has none.
    cases : dict
        Name of a case -> its results.
    studies : dict
        ``"table1"``, ``"table2"`` -> the outcome of the study.
    verdicts : tuple of (Claim, Judgement)
        Every claim about these experiments.
    """

    folder: Path
    scale: Scale
    repeats: int | None
    names: tuple[str, ...]
    omitted: dict[str, str]
    cases: dict[str, CaseResult]
    studies: dict[str, dict[str, Any]]
    verdicts: tuple[tuple[Claim, Judgement], ...]

    def __str__(self) -> str:
        width = max((len(claim.name) for claim, _ in self.verdicts), default=0)
        lines = [f"{claim.name:<{width}}  {judgement.verdict}" for claim, judgement in self.verdicts]
        return "\n".join(
            [*lines, tally(self.verdicts), *(f"left out: {name}: {why}" for name, why in self.omitted.items())]
        )


def default_folder(scale: Scale) -> Path:
    """Return the folder of results where none is named.

    Parameters
    ----------
    scale : {"quick", "full"}
        The scale.

    Returns
    -------
    Path
        In the current folder.
    """
    return Path(f"nbo-reproduce-{scale}")


def reproduce(
    names: Sequence[str] = ("all",),
    *,
    scale: Scale = "quick",
    repeats: int | None = None,
    data: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> Reproduction:
    """Run experiments of the paper, and write figures, tables and a report with a verdict on each claim.

    A search over pairs of steps with one seed, then repeats with the best pair of each method. Every finished run is
    kept in the folder. Runs are done in processes with one thread and a core of their own.

    Parameters
    ----------
    names : sequence of str
        Keys of `nbo.experiments.EXPERIMENTS`, or ``"all"``.
    scale : {"quick", "full"}
        Reduced data and budgets, all in less than ten minutes on two cores; or the paper's size.
    repeats : int, optional
        How many; by default each case's own, ten at the paper's size.
    data : path, optional
        A folder with files of data sets, from which those are copied that are not in the data home yet.
    out : path, optional
        The folder of the results, ``nbo-reproduce-quick`` or ``nbo-reproduce-full`` by default.
    jobs : int, optional
        How many processes, at most one a core, which is the default.
    resume : bool
        Whether to go on in a folder that exists.
    progress : callable, optional
        Called with (finished seconds, expected seconds, what ended last).

    Returns
    -------
    Reproduction
        All results. Print it for the verdicts.

    Raises
    ------
    ImportError
        If loky, matplotlib or markdown is missing.
    FileNotFoundError
        If the data of a case that is named alone are nowhere; experiments among ``"all"`` are left out instead.
    ValueError, TypeError
        For a bad argument, or a folder that may not be used.
    RuntimeError
        If a run fails with an error.
    """
    chosen = _experiments(names)
    scale = choice("scale", scale, ("full", "quick"))  # type: ignore[assignment]
    repeats = None if repeats is None else integer("repeats", repeats, minimum=1, maximum=_MOST_REPEATS)
    cores = len(_pool.usable_cores())
    jobs = cores if jobs is None else integer("jobs", jobs, minimum=1, maximum=cores)
    from nbo.experiments import _outputs

    _outputs.require_packages()
    strict = "all" not in names
    available, omitted = _available(chosen, scale, None if data is None else Path(data), strict)
    settings = {"scale": scale, "repeats": repeats}
    store = Store(Path(out or default_folder(scale)), settings, resume=flag("resume", resume))
    began = time.monotonic()
    _do(available, scale, repeats, store, jobs, progress)
    found = collect(store, scale, repeats, omitted)
    _outputs.write(found, store, jobs=jobs, seconds=time.monotonic() - began)
    return found


def _experiments(names: Sequence[str]) -> list[Experiment]:
    if isinstance(names, str) or not isinstance(names, Sequence) or not names:
        raise TypeError(f"names: found {names!r}; expected a sequence of names of experiments")
    for name in names:
        choice("names", name, (*EXPERIMENTS, "all"))
    return [experiment for name, experiment in EXPERIMENTS.items() if name in names or "all" in names]


def _available(
    experiments: Sequence[Experiment], scale: Scale, data: Path | None, strict: bool
) -> tuple[list[tuple[Experiment, tuple[Case, ...]]], dict[str, str]]:
    """Return the experiments with those of their cases whose data are there, and why others are left out."""
    if data is not None and not data.is_dir():
        raise FileNotFoundError(f"data: found {data}, which is no folder; expected one with files of data sets")
    omitted: dict[str, str] = {}
    found = []
    for experiment in experiments:
        cases = []
        for case in experiment.cases:
            try:
                _require_data(case.size(scale).problem.dataset, data)
            except (FileNotFoundError, DataError) as error:
                if strict and len(experiment.cases) == 1:
                    raise
                omitted[case.name] = str(error)
            else:
                cases.append(case)
        missing = [study.needs for study in experiment.studies if study.needs and find_spec(study.needs) is None]
        if missing:
            omitted[experiment.name] = f'it needs {missing[0]}: pip install "nbo[{missing[0]}]"'
            if strict:
                raise ImportError(f"{experiment.name}: {omitted[experiment.name]}")
        elif cases or experiment.studies:
            found.append((experiment, tuple(cases)))
    if not found:
        raise FileNotFoundError("; ".join(omitted.values()))
    return found, omitted


def _require_data(dataset: str, folder: Path | None) -> None:
    """Raise if the files of a data set are nowhere; copy them from a folder, or from the mirror, if they are there."""
    from nbo.datasets import _store, load
    from nbo.datasets._registry import ENTRIES
    from nbo.datasets.loading import fetch_command

    if not dataset or ENTRIES[dataset].built_in:
        return
    home = data_home()
    if _store.origin_in(home, ENTRIES[dataset]) is not None:
        return
    if folder is not None:
        try:
            _store.fill_from(folder, home, ENTRIES[dataset])
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{error}; {fetch_command(dataset)} fetches it") from error
    else:
        load(dataset, n_train=100, n_val=100)  # from the mirror, or it says how to get them


def _repeats(case: Case, scale: Scale, repeats: int | None) -> int:
    return case.size(scale).repeats if repeats is None else repeats


def _do(
    available: Sequence[tuple[Experiment, tuple[Case, ...]]],
    scale: Scale,
    repeats: int | None,
    store: Store,
    jobs: int,
    progress: Progress | None,
) -> None:
    """Have all tasks done that are not kept yet: minima, searches and studies first, then repeats."""
    cases = list({case.name: case for _, cases in available for case in cases}.values())
    finished, expected = 0.0, _expected(cases, available, scale, repeats)

    def done(task: Task, outcome: Mapping[str, Any]) -> None:
        nonlocal finished
        store.save(task, dict(outcome))
        finished += task.expected
        if progress is not None:
            progress(finished, expected, task.title)

    def skip(tasks: Sequence[Task]) -> list[Task]:
        nonlocal finished
        missing = [task for task in tasks if store.load(task) is None]
        finished += sum(task.expected for task in tasks) - sum(task.expected for task in missing)
        if progress is not None:
            progress(finished, expected, "")
        return missing

    for stage in (0, 1):
        tasks: dict[str, Task] = {}
        for experiment, _ in available if stage == 0 else ():
            tasks |= {task.key: task for task in _results.studies_of(experiment, scale)}
        for case in cases:
            stages = _results.tasks_of(case, scale, _repeats(case, scale, repeats), store.load)
            tasks |= {task.key: task for task in stages[stage]}
        _pool.run_all(skip(list(tasks.values())), jobs, done)


def _expected(
    cases: Sequence[Case],
    available: Sequence[tuple[Experiment, tuple[Case, ...]]],
    scale: Scale,
    repeats: int | None,
) -> float:
    """Return about how many seconds all tasks take, one after the other."""
    total: dict[str, float] = {}
    for experiment, _ in available:
        total |= {task.key: task.expected for task in _results.studies_of(experiment, scale)}
    for case in cases:
        count, pairs = _repeats(case, scale, repeats), case.size(scale).grid.pairs
        tasks: list[Task] = [*_results.references(case, scale, count)]
        for entry in case.entries:
            tasks += _results.search(case, entry, scale)
            tasks += _results.repeated(case, entry, scale, pairs[0], count)  # whichever pair it will be
        total |= {task.key: task.expected for task in tasks}
    return sum(total.values())


def collect(store: Store, scale: Scale, repeats: int | None, omitted: Mapping[str, str]) -> Reproduction:
    """Gather all cases and studies that are complete in a folder, of this and of earlier commands.

    Parameters
    ----------
    store : Store
        The folder.
    scale : str
        Its scale.
    repeats : int or None
        As asked for.
    omitted : mapping
        What could not be run, and why.

    Returns
    -------
    Reproduction
        The results.
    """
    cases, studies, names = {}, {}, []
    for experiment in EXPERIMENTS.values():
        for case in experiment.cases:
            if (result := _finished(case, scale, _repeats(case, scale, repeats), store)) is not None:
                cases[case.name] = result
        for task in _results.studies_of(experiment, scale):
            if (outcome := store.load(task)) is not None:
                studies[task.name] = outcome
        if any(case.name in cases for case in experiment.cases) or experiment.name in studies:
            names.append(experiment.name)
    evidence = Evidence(cases, {name: outcome["study"] for name, outcome in studies.items()})
    verdicts = tuple((claim, claim.judge(evidence)) for claim in CLAIMS if claim.experiment in names)
    missing = {name: why for name, why in omitted.items() if name not in cases}
    return Reproduction(store.folder, scale, repeats, tuple(names), missing, cases, studies, verdicts)


def _finished(case: Case, scale: Scale, repeats: int, store: Store) -> CaseResult | None:
    """Return the results of a case if all of its runs are there."""
    first, second = _results.tasks_of(case, scale, repeats, store.load)
    outcomes = {}
    for task in (*first, *second):
        if (outcome := store.load(task)) is None:
            return None
        outcomes[task.key] = outcome
    # An entry whose search is incomplete has no repeats among the tasks, but then its search lacks an outcome above.
    return CaseResult(case, scale, repeats, outcomes)
