"""The stages of tuning: a start without tuning, one shared penalty, finer ones around it, and the final fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._clock import Timer
from nbo.lower_level import DEFAULT_TOL, LowerSolution, solve_lower_level
from nbo.oracles import OracleCounts
from nbo.problems import CrossValidation
from nbo.problems._linear import PenalisedLinearModel
from nbo.result import BilevelResult
from nbo.sklearn._first_look import first_look
from nbo.sklearn._running import minimized

Array = npt.NDArray[Any]

#: The box of x is C in [e^-12 / n, e^9.2 = 1e4] in scikit-learn's units.
LOWER, UPPER = -9.2, 12.0

#: The gradient in a log penalty vanishes with the penalty: finer tuning starts no lower than this.
_FINER_START = -14.0

#: The width of the prior on finer penalties for penalty_prior="auto", and that on one penalty a feature or entry where
#: K folds judge: their models share most of their training rows, so that their losses tell less about many penalties
#: than their number suggests.
_SCALE, _SCALE_MANY = 0.5, 0.15


#: Of the final fit, in units of the default.
_FINAL_TOL = 1e-4


class Settings(NamedTuple):
    """What a person may choose about the solver.

    Attributes
    ----------
    tol : float
        As in `nbo.minimize`.
    max_iter : int
        The most iterations of a stage.
    verbose : int
        Whether iterations are printed.
    progress : callable or None
        Called as ``progress(stage, iteration, value)`` after every iteration.
    """

    tol: float
    max_iter: int
    verbose: int
    progress: Callable[[str, int, float], None] | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Stage:
    """A finished stage.

    Attributes
    ----------
    name : str
        ``"shared"`` or ``"finer"``.
    result : BilevelResult
        What the solver returned.
    y : ndarray
        The accurate models of the folds there, (n,).
    start : float
        The x of all penalties without it: of the shared stage that of C = 1.
    start_loss, loss : float
        The mean held-out loss there, as accurate as was needed, and at the end, without a prior.
    lower, upper : float
        The box of every log penalty.
    path : dict
        Name -> array, an entry an iteration.
    seconds : float
        Wall time, without compilation.
    look_counts : OracleCounts
        The oracle calls before the solver started.
    """

    name: str
    result: BilevelResult
    y: Array
    start: float
    start_loss: float
    loss: float
    lower: float
    upper: float
    path: dict[str, Array]
    seconds: float
    look_counts: OracleCounts = OracleCounts()  # noqa: RUF009 - immutable


def prior_scale(penalty_prior: Any, n_folds: int, grouped: bool) -> float | None:
    """Return the width in x of the prior around the shared penalty.

    Parameters
    ----------
    penalty_prior : {"auto"}, float or None
        The setting.
    n_folds : int
        K, 1 for a single split.
    grouped : bool
        Whether penalties are those of groups, classes or targets, which have the evidence of many coefficients each.

    Returns
    -------
    float or None
        None for no prior.
    """
    if penalty_prior == "auto":
        return _SCALE if grouped or n_folds == 1 else _SCALE_MANY
    return None if penalty_prior is None else float(penalty_prior)


def _fold_fits(problem: CrossValidation, x: Array, y: Array, tol: float) -> Array:
    """Return accurate models of the folds."""
    return solve_lower_level(problem, x, y0=y, tol=max(1e-2 * tol, DEFAULT_TOL[problem.dtype])).y


def box(n_train: float) -> tuple[float, float]:
    """Return the bounds of a log penalty.

    Parameters
    ----------
    n_train : float
        The mean training weight of the folds.

    Returns
    -------
    tuple of float
        The lower and the upper one, which hold log penalties of C in [e^-12 / n, 1e4].
    """
    return LOWER - np.log(max(n_train, 1.0)), UPPER


def tune_shared(problem: CrossValidation, n_train: float, settings: Settings) -> Stage:
    """Tune one penalty for all coefficients, from the best of some strengths that are a factor of ten apart.

    Parameters
    ----------
    problem : CrossValidation
        With one shared penalty.
    n_train : float
        The mean training weight of the folds.
    settings : Settings
        Of the solver.

    Returns
    -------
    Stage
        With x in its path.
    """
    timer, limits = Timer(), box(n_train)
    untuned = float(np.clip(-np.log(n_train), *limits))
    look = first_look(problem, untuned, limits)
    found = _run("shared", problem, problem, settings, limits, np.array([look.x]), look.y, None)
    return dataclasses.replace(
        found,
        start=untuned,
        start_loss=look.untuned,
        look_counts=look.counts,
        seconds=timer.seconds(),
    )


def tune_finer(problem: CrossValidation, shared_problem: CrossValidation, shared: Stage, settings: Settings) -> Stage:
    """Tune finer penalties from the shared one.

    Parameters
    ----------
    problem, shared_problem : CrossValidation
        With those penalties, under a prior, and with the shared one.
    shared : Stage
        The finished shared stage.
    settings : Settings
        Of the solver.

    Returns
    -------
    Stage
        Without x in its path.
    """
    limits = shared.lower, shared.upper
    x0 = np.full(problem.dim_x, np.clip(max(shared.result.x[0], _FINER_START), *limits))
    return _run("finer", problem, shared_problem, settings, limits, x0, shared.y, shared.result.u)


def _run(
    name: str,
    problem: CrossValidation,
    without_prior: CrossValidation,
    settings: Settings,
    limits: tuple[float, float],
    x0: Array,
    y0: Array | None,
    u0: Array | None,
) -> Stage:
    timer = Timer()
    watch = _Watch(name, x0, settings)
    result = minimized(
        problem,
        x0,
        y0=y0,
        u0=u0,
        tol=settings.tol,
        max_iter=settings.max_iter,
        bounds=limits,
        callback=watch,
        options={"relative": True},
    )
    path = {key: result.history[key] for key in ("iteration", "seconds", "value", "hypergrad_norm")}
    if name == "shared":
        path["x"] = np.array([watch.visited.get(nit, np.nan) for nit in path["iteration"].tolist()])
    y = _fold_fits(problem, result.x, result.y, settings.tol)
    # f depends on x through its prior alone, and this problem has none
    loss = without_prior.upper_value(result.x[:1], y.astype(problem.dtype))
    return Stage(name, result, y, float(x0[0]), watch.start_value, loss, *limits, path, timer.seconds())


class _Watch:
    """A callback that keeps the shared x of every iteration and the value at the start, prints, and tells others."""

    def __init__(self, name: str, x0: Array, settings: Settings) -> None:
        self.name, self.settings = name, settings
        self.visited = {0: float(x0[0])}
        self._x0, self.start_value = x0, np.nan

    def __call__(self, intermediate_result: Any) -> None:
        if np.array_equal(intermediate_result.x, self._x0):  # y follows x while x rests
            self.start_value = intermediate_result.fun
        self.visited[intermediate_result.nit] = float(intermediate_result.x[0])
        if self.settings.verbose:
            print(
                f"{self.name} stage, iteration {intermediate_result.nit}: criterion {intermediate_result.fun:.6g}, "
                f"hypergradient {intermediate_result.hypergrad_norm:.2g}"
            )
        if self.settings.progress is not None:
            self.settings.progress(self.name, intermediate_result.nit, intermediate_result.fun)


def refitted(problem: CrossValidation, x: Array, y: Array, n_train: float) -> LowerSolution:
    """Fit all rows at the tuned C: a mean over more rows needs a smaller e^x.

    Parameters
    ----------
    problem : CrossValidation
        The criterion, which knows all rows.
    x, y : ndarray
        The tuned log penalties, and the models of the folds.
    n_train : float
        The mean training weight of the folds.

    Returns
    -------
    LowerSolution
        The model.
    """
    n_all = problem.problem._rows.total
    return _solved(problem.problem, x + np.log(n_train / n_all), problem.fold_models(y).mean(axis=0))


def fold_mean(problem: CrossValidation, x: Array, y: Array) -> Array:
    """Return the mean of the accurate models of the folds, of one split the model of its training rows.

    Parameters
    ----------
    problem : CrossValidation
        The criterion.
    x, y : ndarray
        The tuned log penalties, and the models of the folds.

    Returns
    -------
    ndarray
        The model.
    """
    folds = zip(problem.problems, problem.fold_models(y), strict=True)
    return np.mean([_solved(part, x, model).y for part, model in folds], axis=0)


def _solved(problem: PenalisedLinearModel, x: Array, y0: Array) -> LowerSolution:
    """Fit to the last digit: under the weakest penalties allowed, a small gradient may still be far from the model."""
    return solve_lower_level(problem, x, y0=y0, tol=_FINAL_TOL * DEFAULT_TOL[problem.dtype])
