"""What a checkpoint holds, and how a run goes on from one."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import numbers
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nbo._storable import is_storable
from nbo._validation import integer, real, time_limit
from nbo.feasible_sets import Box, FeasibleSet, feasible_set
from nbo.history import Status
from nbo.oracles import CountedProblem, OracleCounts
from nbo.problem import BilevelProblem

if TYPE_CHECKING:
    from nbo.result import BilevelResult
    from nbo.solvers.base import Solver
    from nbo.solvers.driver import Limits, Session, State


class _NotGiven:
    """Stands for an argument that was left out; its text is part of signatures."""

    def __repr__(self) -> str:
        return "<not given>"


_NOT_GIVEN: Any = _NotGiven()


@dataclasses.dataclass(frozen=True)
class _Saved:
    """The tree of a checkpoint, entry by entry."""

    method: str
    registered: bool  # a class of the user's may have the name of the method that it extends
    options: dict[str, Any]
    callables: tuple[str, ...]
    problem: str
    bounds: tuple[Any, Any] | None
    has_callback: bool
    limits: Limits
    state: State
    counts: tuple[OracleCounts, OracleCounts]
    run: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Origin:
    """What a run was started with, apart from its state.

    Attributes
    ----------
    solver : Solver
        The method with its options.
    problem : BilevelProblem
        The problem.
    bounds : FeasibleSet or None
        The box that replaced the problem's own bounds.
    has_callback : bool
        Whether there was a callback.
    """

    solver: Solver
    problem: BilevelProblem
    bounds: FeasibleSet | None
    has_callback: bool

    def checkpoint(
        self, status: Status, state: State, limits: Limits, session: Session, run: dict[str, Any], early: str
    ) -> Callable[[], dict[str, Any]]:
        """Return a function that makes the checkpoint of a run that has ended.

        Parameters
        ----------
        status : Status
            How it ended.
        state : State
            Where.
        limits : Limits
            As resolved at the start.
        session : Session
            The method that was at work.
        run : dict
            What the driver stores.
        early : str
            Why the run never began, if so.

        Returns
        -------
        callable
            It raises ValueError if one cannot go on from there.
        """
        run = run | {"best": copy.deepcopy(run["best"])}  # the result has the same arrays, for the user to change

        def make() -> dict[str, Any]:
            damage = early or ("the run diverged" if status is Status.DIVERGED else session.damage())
            if damage:
                raise ValueError(
                    f"save: {damage}; there is nothing to go on from (start anew from res.x, res.y, res.u)"
                )
            options, callables = _options_of(self.solver)
            return {
                "method": self.solver.name,
                "registered": _is_registered(self.solver),
                "options": options,
                "callables": callables,
                "problem": self.problem.fingerprint(),
                "bounds": (self.bounds.lower, self.bounds.upper) if isinstance(self.bounds, Box) else None,
                "has_callback": self.has_callback,
                "limits": dataclasses.asdict(limits),
                "state": {f.name: getattr(state, f.name) for f in dataclasses.fields(state)},
                "counts": (session.counts, session.samples),
                "run": run,
            }

        return make


def _options_of(solver: Solver) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the options that a checkpoint keeps, and the names of those that it cannot keep."""
    options = {f.name: getattr(solver, f.name) for f in dataclasses.fields(solver)}
    callables = tuple(name for name, value in options.items() if callable(value) and not is_storable(type(value)))
    return {name: _plain(value) for name, value in options.items() if name not in callables}, callables


def _plain(value: Any) -> Any:
    """Return an option in a type that can be stored: solvers take any text, number or mapping."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (list, tuple)):
        return tuple(_plain(item) for item in value)
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, numbers.Real) and not isinstance(value, (int, float, np.generic)):
        return float(value)
    return value


def _is_registered(solver: Solver) -> bool:
    from nbo.solvers import REGISTRY

    return REGISTRY.get(solver.name) is type(solver)


def resume(
    path: str | os.PathLike[str],
    problem: BilevelProblem,
    *,
    max_iter: int | None = None,
    max_time: float | None = None,
    callback: Callable[..., Any] | None = _NOT_GIVEN,
    options: Mapping[str, Any] | None = None,
    method: Any = None,
) -> BilevelResult:
    """Go on with a run from a checkpoint as if it had not ended: the result is the same, bit for bit.

    Parameters
    ----------
    path : str or path-like
        What ``res.save(path)`` has written.
    problem : BilevelProblem
        The same problem, told by its `fingerprint`: of built-in problems, data and settings. Of a class of your own
        it is the name and the dimensions, unless you override it.
    max_iter : int, optional
        The limit on all iterations, those before the checkpoint included; by default the old one.
    max_time : float, optional
        The limit on all seconds of solver time, those before the checkpoint included; none by default.
    callback : callable, optional
        As in `nbo.minimize`. Callbacks are not stored: if the run had one, give it again, or None to go on
        without.
    options : dict, optional
        The options of the run that are callables, which are not stored; no other option may change. Nothing tells
        whether they are the same functions: that is up to you.
    method : solver, optional
        A solver object equal to that of the run, if its class is none of `nbo.methods`; it has all options.

    Returns
    -------
    BilevelResult
        Of the whole run: iterations, counts, history and seconds go on from those of the checkpoint. Only what an
        interrupted iteration had called already is counted besides.

    Raises
    ------
    CheckpointError
        If the file is no checkpoint, is damaged, or has the format of another version.
    TypeError, ValueError
        If the problem is another one, a callable is missing, or an argument is bad.
    OSError
        If the file cannot be opened.

    See Also
    --------
    BilevelResult.save : Writes the checkpoint.

    Notes
    -----
    The tolerance, the bounds, the seed and the evaluation cadence are those of the run. A last row that is off that
    cadence is shown in the result that was saved, and is not part of the history that goes on.

    Examples
    --------
    >>> import nbo, numpy as np, os, tempfile
    >>> problem = nbo.problems.Quadratic.family(n=4, m=2, kappa=10)
    >>> path = os.path.join(tempfile.mkdtemp(), "run.npz")
    >>> nbo.minimize(problem, np.zeros(2), method="nbo-cg", max_iter=2).save(path)
    >>> resumed = nbo.resume(path, problem, max_iter=4)
    >>> straight = nbo.minimize(problem, np.zeros(2), method="nbo-cg", max_iter=4)
    >>> bool((resumed.x == straight.x).all()), resumed.nit
    (True, 4)
    """
    from nbo.solvers.base import require_callback
    from nbo.solvers.driver import Run

    saved = _read(path)
    evaluation = CountedProblem(problem)
    _require_same_problem(path, saved.problem, problem)
    solver = _solver(path, saved, options, method)
    solver.check(problem)
    if callback is _NOT_GIVEN:
        if saved.has_callback:
            raise ValueError("callback: the run had one, which is not stored; give it again, or None to go on without")
        callback = None
    require_callback(callback)
    limits = _limits(saved, max_iter, max_time)
    with _blaming(path, "does not fit the problem", "the fingerprint of the problem does not tell it from another one"):
        _require_shapes(saved.state, evaluation)
        feasible = feasible_set(problem, evaluation.dim_x, saved.bounds, saved.state.x)
        session, state = solver.session(problem, saved.state, feasible, limits, None)
    with _blaming(path):
        session.count_before(*saved.counts)
        origin = Origin(solver, problem, None if saved.bounds is None else feasible, callback is not None)
        run = Run(session, evaluation, state, feasible, limits, callback, origin)
        run.restore(saved.run)
    result = run.execute()
    result.method, result.initialization = solver.name, None
    return result


def _read(path: Any) -> _Saved:
    """Read a checkpoint; what its parts hold is left to those who use them."""
    from nbo.checkpoints import read
    from nbo.solvers.driver import Limits, State

    tree = read(path)
    with _blaming(path):
        limits, state = _record(Limits, tree["limits"]), _record(State, tree["state"])
        integer("nit", state.nit), integer("max_iter", limits.max_iter), real("seconds", tree["run"]["seconds"])
        return _record(_Saved, tree | {"limits": limits, "state": state})


def _record(kind: Any, entries: Mapping[str, Any]) -> Any:
    """Return a dataclass from all of its fields: nothing falls back on a default."""
    names = {f.name for f in dataclasses.fields(kind)}
    if entries.keys() != names:
        raise ValueError(f"found the entries {', '.join(entries)}; expected {', '.join(sorted(names))}")
    return kind(**entries)


@contextlib.contextmanager
def _blaming(path: Any, what: str = "does not hold a run", otherwise: str = "from another version") -> Iterator[None]:
    """Name the file where its parts do not fit together."""
    from nbo.checkpoints import CheckpointError

    try:
        yield
    except (LookupError, AttributeError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"path: {os.fspath(path)!r} {what} ({type(error).__name__}: {error}); the file is damaged, or {otherwise}"
        ) from error


def _require_same_problem(path: Any, known: str, problem: BilevelProblem) -> None:
    found = problem.fingerprint()
    if found != known:
        raise ValueError(
            f"problem: found {found}; expected {known}, the problem of {os.fspath(path)!r} (a fingerprint covers the "
            "class, its module, and data and settings or dimensions)"
        )


def _require_shapes(state: State, view: CountedProblem) -> None:
    lower = view.dim_y, view.dtype
    for name, (size, dtype) in {"x": (view.dim_x, np.dtype(np.float64)), "y": lower, "u": lower}.items():
        array = getattr(state, name)
        if array.shape != (size,) or array.dtype != dtype:
            raise ValueError(f"{name}: found shape {array.shape} and {array.dtype}; expected ({size},) and {dtype}")


def _limits(saved: _Saved, max_iter: Any, max_time: Any) -> Limits:
    """Return the limits of the run, moved as asked for, and beyond what is done already."""
    limits = saved.limits
    if max_iter is not None:
        limits = dataclasses.replace(limits, max_iter=integer("max_iter", max_iter))
    seconds = time_limit(max_time)
    nit, spent = saved.state.nit, saved.run["seconds"]
    if limits.max_iter <= nit and not saved.state.converged:
        given = "left out, which stands for the old limit" if max_iter is None else "found"
        raise ValueError(
            f"max_iter: {given} {limits.max_iter}; expected more than {nit}, the iterations that the checkpoint has "
            "already (max_iter counts them too)"
        )
    if seconds <= spent and not saved.state.converged:
        raise ValueError(
            f"max_time: found {seconds:g}; expected more than {spent:.3g}, the seconds that the checkpoint has already "
            "(max_time counts them too)"
        )
    return dataclasses.replace(limits, max_time=seconds)


def _solver(path: Any, saved: _Saved, options: Any, method: Any) -> Solver:
    """Return the solver of a checkpoint, with the callables that are given again."""
    from nbo.solvers import REGISTRY

    if not isinstance(options, Mapping | None):
        raise TypeError(f"options: found {type(options).__name__}; expected a dict of option names and callables")
    given = dict(options or {})
    if method is not None:
        return _given_solver(saved, method, given)
    if not saved.registered or saved.method not in REGISTRY:
        raise ValueError(
            f"method: the run was that of a class outside nbo.methods(), named {saved.method!r}; give an equal solver "
            "object by method=..."
        )
    changed = [str(name) for name in given if name not in saved.callables]
    if changed:
        allowed = f"callables of the run ({', '.join(saved.callables)})" if saved.callables else "none"
        raise ValueError(
            f"options: found {', '.join(changed)}; expected {allowed}: all other options go on as they were"
        )
    absent = [name for name in saved.callables if name not in given]
    if absent:
        raise ValueError(
            f"options: the run had a callable for {', '.join(absent)}, which is not stored; give it again by "
            f"options={{{absent[0]!r}: ...}}"
        )
    for name, value in given.items():
        if not callable(value):
            raise TypeError(f"options[{name!r}]: found {value!r}; expected the callable that the run had")
    with _blaming(path):
        return REGISTRY[saved.method](**(saved.options | given))


def _given_solver(saved: _Saved, method: Any, options: dict[str, Any]) -> Solver:
    from nbo.solvers.base import Solver

    if not isinstance(method, Solver):
        raise TypeError(
            f"method: found {method!r}; expected a solver object (a method of nbo.methods() is stored: leave it out)"
        )
    if options:
        raise ValueError(f"options: found {', '.join(map(str, options))} beside a solver object, which has all options")
    found, callables = _options_of(method)
    same = method.name == saved.method and _is_registered(method) == saved.registered and callables == saved.callables
    if not same or _values(found) != _values(saved.options):
        kind = "a method of nbo.methods()" if saved.registered else "a class of its own"
        raise ValueError(
            f"method: found {type(method).__name__}, {_description(method.name, found, callables)}; expected "
            f"{_description(saved.method, saved.options, saved.callables)}, {kind}"
        )
    return method


def _values(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options that compare as a whole, which arrays do not."""
    return {k: v.tolist() if isinstance(v, (np.ndarray, np.generic)) else v for k, v in options.items()}


def _description(name: str, options: Mapping[str, Any], callables: tuple[str, ...]) -> str:
    shown = {**options, **dict.fromkeys(callables, "a callable")}
    return f"{name!r} with {', '.join(f'{key}={shown[key]!r}' for key in sorted(shown))}"
