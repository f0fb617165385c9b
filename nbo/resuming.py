"""What a checkpoint holds, and how a run goes on from one."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nbo._storable import is_storable
from nbo._validation import integer, real
from nbo.feasible_sets import Box, FeasibleSet, feasible_set
from nbo.history import Status
from nbo.problem import BilevelProblem

if TYPE_CHECKING:
    from nbo.result import BilevelResult
    from nbo.solvers.base import Solver
    from nbo.solvers.driver import Limits, Session, State

#: Stands in a checkpoint for an option that cannot be stored.
_CALLABLE = {"not stored": "callable"}

#: Stands for an argument that was not given.
_MISSING: Any = object()


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
        self, status: Status, state: State, limits: Limits, session: Session, run: dict[str, Any]
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

        Returns
        -------
        callable
            It raises ValueError if one cannot go on from there.
        """

        def make() -> dict[str, Any]:
            damage = "the run diverged" if status is Status.DIVERGED else session.damage()
            if damage:
                raise ValueError(
                    f"save: {damage}; there is nothing to go on from (start anew from res.x, res.y, res.u)"
                )
            return {
                "method": self.solver.name,
                "options": _stored_options(self.solver),
                "problem": self.problem.fingerprint(),
                "bounds": (self.bounds.lower, self.bounds.upper) if isinstance(self.bounds, Box) else None,
                "has_callback": self.has_callback,
                "limits": dataclasses.asdict(limits),
                "state": {f.name: getattr(state, f.name) for f in dataclasses.fields(state)},
                "counts": (session.counts, session.samples),
                "run": run,
            }

        return make


def _stored_options(solver: Solver) -> dict[str, Any]:
    options = {f.name: getattr(solver, f.name) for f in dataclasses.fields(solver)}
    return {
        name: _CALLABLE if callable(value) and not is_storable(type(value)) else value
        for name, value in options.items()
    }


def resume(
    path: str | os.PathLike[str],
    problem: BilevelProblem,
    *,
    max_iter: int | None = None,
    max_time: float | None = None,
    callback: Callable[..., Any] | None = _MISSING,
    options: Mapping[str, Any] | None = None,
    method: Any = None,
) -> BilevelResult:
    """Go on with a run from a checkpoint as if it had not ended: the result is the same, bit for bit.

    Parameters
    ----------
    path : str or path-like
        What ``res.save(path)`` has written.
    problem : BilevelProblem
        The same problem, told by its `fingerprint`.
    max_iter : int, optional
        The limit on all iterations, those before the checkpoint included; by default the old one.
    max_time : float, optional
        The limit on all seconds of solver time, those before the checkpoint included; none by default.
    callback : callable, optional
        As in `nbo.minimize`. Callbacks are not stored: if the run had one, give it again, or None to go on
        without.
    options : dict, optional
        The options of the run that are callables, which are not stored; no other option may change.
    method : solver, optional
        A solver object equal to that of the run, if its class is none of `nbo.methods`.

    Returns
    -------
    BilevelResult
        Of the whole run: iterations, counts, history and seconds go on from those of the checkpoint.

    Raises
    ------
    CheckpointError
        If the file is no checkpoint, is damaged, or has the format of another version.
    TypeError, ValueError
        If the problem is another one, a callable is missing, or an argument is bad.

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
    from nbo.checkpoints import read
    from nbo.oracles import CountedProblem
    from nbo.solvers.base import require_callback
    from nbo.solvers.driver import Limits, Run, State

    saved = read(path)
    evaluation = CountedProblem(problem)
    _require_same_problem(path, saved["problem"], problem)
    solver = _solver(saved, options, method)
    solver.check(problem)
    if callback is _MISSING:
        if saved["has_callback"]:
            raise ValueError("callback: the run had one, which is not stored; give it again, or None to go on without")
        callback = None
    require_callback(callback)
    state = State(**saved["state"])
    limits = Limits(**saved["limits"])
    limits = dataclasses.replace(
        limits,
        max_iter=_larger_limit(limits.max_iter if max_iter is None else integer("max_iter", max_iter), state),
        max_time=np.inf if max_time is None else real("max_time", max_time, minimum=0.0),
    )
    feasible = feasible_set(problem, evaluation.dim_x, saved["bounds"], state.x)
    session, state = solver.session(problem, state, feasible, limits, None)
    session.count_before(*saved["counts"])
    origin = Origin(solver, problem, None if saved["bounds"] is None else feasible, callback is not None)
    run = Run(session, evaluation, state, limits, callback, origin)
    run.restore(saved["run"])
    result = run.execute()
    result.method = solver.name
    return result


def _require_same_problem(path: Any, known: str, problem: BilevelProblem) -> None:
    found = problem.fingerprint()
    if found != known:
        raise ValueError(
            f"problem: found {found}; expected {known}, the problem of {os.fspath(path)} (its fingerprint covers data "
            "and settings)"
        )


def _larger_limit(max_iter: int, state: State) -> int:
    if max_iter <= state.nit and not state.converged:
        raise ValueError(
            f"max_iter: found {max_iter}; expected more than {state.nit}, the iterations that the checkpoint has "
            "already (max_iter counts them too)"
        )
    return max_iter


def _solver(saved: dict[str, Any], options: Any, method: Any) -> Solver:
    """Return the solver of a checkpoint, with the callables that are given again."""
    from nbo.solvers import REGISTRY

    given = dict(options or {})
    missing = [name for name, value in saved["options"].items() if value == _CALLABLE]
    if method is not None:
        return _given_solver(saved, method, given)
    if saved["method"] not in REGISTRY:
        raise ValueError(f"method: {saved['method']!r} is none of nbo.methods(); give the solver object again")
    absent = [name for name in missing if name not in given]
    if absent:
        raise ValueError(
            f"options: the run had a callable for {', '.join(absent)}, which is not stored; give it again by "
            f"options={{{absent[0]!r}: ...}}"
        )
    changed = [str(name) for name in given if name not in missing]
    if changed:
        raise ValueError(
            f"options: found {', '.join(changed)}; only callables are given again, and a run goes on with the "
            "options that it has"
        )
    return REGISTRY[saved["method"]](**(saved["options"] | given))


def _given_solver(saved: dict[str, Any], method: Any, options: dict[str, Any]) -> Solver:
    from nbo.solvers.base import Solver

    if not isinstance(method, Solver) or options:
        raise TypeError("method: expected a solver object, and no options beside it")
    stored = _stored_options(method)
    if method.name != saved["method"] or stored != saved["options"]:
        raise ValueError(
            f"method: found {method.name} with {stored}; expected {saved['method']} with {saved['options']}, as in the "
            "checkpoint"
        )
    return method
