"""What methods share: options and checks at the door; of deterministic ones, the move of x."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from nbo._validation import integer, real, time_limit, validate_random_state
from nbo._vectors import norm
from nbo.feasible_sets import Box, FeasibleSet, feasible_set
from nbo.initialization import initializer
from nbo.oracles import CountedProblem, OracleCounts
from nbo.problem import BilevelProblem, provides
from nbo.resuming import Origin
from nbo.sampling import integer_state
from nbo.schedules import Schedule, validate_schedule
from nbo.solvers.driver import Limits, Run, Session, State
from nbo.solvers.opening import begin
from nbo.upper_steps import AdaptiveStep, Directions, ScheduledStep, UpperStep

if TYPE_CHECKING:
    from nbo.result import BilevelResult

Array = npt.NDArray[Any]

#: Iterations of a deterministic method when `max_iter` is left out.
DEFAULT_MAX_ITER = 1000

#: Where the methods of the NBO family are from.
PAPER = (
    "Dong, Yang, Yao and Zhang, 2025, Efficient Curvature-Aware Hypergradient Approximation for Bilevel Optimization "
    "(ICML)"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Solver(abc.ABC):
    """A method with its options, which can solve any number of problems.

    Subclasses are frozen dataclasses, whose fields are the options.

    Parameters
    ----------
    step_size : float or callable, optional
        alpha, or a schedule k -> alpha.

    Attributes
    ----------
    name, description : str
        Its name for `nbo.minimize`, and one line about it.
    kind : str
        What a call of an oracle goes over: ``"deterministic"``, all samples, ``"stochastic"``, a minibatch, or
        ``"deterministic or on batches"``, where that is an option.
    source : str
        Where it is from.
    cost : str
        The oracle calls of one iteration with given step sizes and default options but for numbers of steps, such as
        ``"1 lower_grad_y, 2*T+1 lower_hvp"``, in the symbols of `nbo.solvers.costs.COST_SYMBOLS`.
    cost_note : str
        What is to be said about that: when it is an upper bound, and what some iterations cost instead.
    implied : mapping
        Numbers of steps that are left out as None: option -> the number in its place, or the option that has it.
    storage : str
        The numbers that it keeps besides a few vectors.
    needs : tuple of str
        Optional oracles that the method cannot do without.
    spares : tuple of str
        Oracles that every problem has and the method never calls.
    chooses_step : bool
        Whether it finds a step size of its own where none is given.
    starts_anew : bool
        Whether a run may as well go on from x, y and u alone; not where the problem that it solves changes with k.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    kind: ClassVar[str]
    source: ClassVar[str]
    cost: ClassVar[str]
    cost_note: ClassVar[str] = ""
    implied: ClassVar[Mapping[str, int | str]] = {}
    storage: ClassVar[str] = ""
    needs: ClassVar[tuple[str, ...]] = ()
    spares: ClassVar[tuple[str, ...]] = ()
    chooses_step: ClassVar[bool] = True
    starts_anew: ClassVar[bool] = True

    step_size: Schedule | None = None

    @abc.abstractmethod
    def limits(self, problem: BilevelProblem, tol: float, max_iter: int | None, max_time: float) -> Limits:
        """Return when a run ends and how often it evaluates.

        Parameters
        ----------
        problem : BilevelProblem
            For defaults that depend on its size.
        tol : float
            The tolerance asked for.
        max_iter : int or None
            The limit asked for; None asks for the default.
        max_time : float
            Seconds.

        Returns
        -------
        Limits
            All resolved.
        """

    @abc.abstractmethod
    def session(
        self, problem: BilevelProblem, start: State, feasible: FeasibleSet, limits: Limits, random_state: Any
    ) -> tuple[Session, State]:
        """Set to work on a problem.

        Parameters
        ----------
        problem : BilevelProblem
            The problem.
        start : State
            The first iterate, or a saved one.
        feasible : FeasibleSet
            The feasible set of x.
        limits : Limits
            When the run ends.
        random_state : None, int or numpy.random.Generator
            Where random numbers come from; not used with a saved state.

        Returns
        -------
        session : Session
            The method at work.
        start : State
            The state with the method's memory.
        """

    def check(self, problem: BilevelProblem) -> None:
        """Raise if `problem` lacks an oracle that the method needs.

        Parameters
        ----------
        problem : BilevelProblem
            The problem.

        Raises
        ------
        TypeError
            With the names of the missing oracles.
        """
        missing = [name for name in self.needs if not provides(problem, name)]
        if missing:
            raise TypeError(
                f"problem: {type(problem).__name__} does not define {', '.join(missing)}, which method "
                f"{self.name!r} needs"
            )

    def starting_u(self, y: Array, given: Array | None) -> Array:
        """Return the first u.

        Parameters
        ----------
        y : ndarray
            The first y, (n,).
        given : ndarray or None
            What the user gave.

        Returns
        -------
        ndarray
            (n,); zeros where nothing was given, unless the method keeps something else in the place of u.
        """
        return np.zeros_like(y) if given is None else given

    def resolved_tol(self, state: State, tol: float) -> float:
        """Return what `tol` means in a run.

        Parameters
        ----------
        state : State
            Where it is.
        tol : float
            What was given.

        Returns
        -------
        float
            The same, but for methods whose tolerance is relative.
        """
        return tol

    def further(self, problem: BilevelProblem, nit: int, seconds: float) -> str:
        """Say what else might help a run that a limit has ended.

        Parameters
        ----------
        problem : BilevelProblem
            The problem.
        nit : int
            Iterations done.
        seconds : float
            Solver time.

        Returns
        -------
        str
            Nothing, or a clause that ends in "; ".
        """
        return ""

    def require_step(self) -> None:
        """Raise if the method needs a step size and has none.

        Raises
        ------
        ValueError
            With what is expected.
        """
        if self.step_size is None and not self.chooses_step:
            raise ValueError(
                f"step_size: method {self.name!r} needs one; expected a positive number or a schedule such as "
                "nbo.schedules.PowerDecay(0.1)"
            )

    def solve(
        self,
        problem: BilevelProblem,
        x0: npt.ArrayLike,
        *,
        y0: npt.ArrayLike | None = None,
        u0: npt.ArrayLike | None = None,
        tol: float = 1e-5,
        max_iter: int | None = None,
        max_time: float | None = None,
        bounds: Any = None,
        callback: Callable[..., Any] | None = None,
        random_state: Any = None,
        initialization: Any = None,
    ) -> BilevelResult:
        """Solve a problem; see `nbo.minimize`, which has the same parameters.

        Parameters
        ----------
        problem : BilevelProblem
            What to solve.
        x0 : array_like
            The start, (m,), inside the bounds.
        y0, u0 : array_like, optional
            Starts of y and u, (n,); zeros by default.
        tol : float
            See `nbo.minimize`.
        max_iter : int, optional
            See `nbo.minimize`.
        max_time : float, optional
            Seconds of solver time; no limit by default.
        bounds : pair or scipy.optimize.Bounds, optional
            Replaces the problem's.
        callback : callable, optional
            See `nbo.minimize`.
        random_state : None, int or numpy.random.Generator
            See `nbo.minimize`.
        initialization : str or nbo.initialization.Initializer, optional
            See `nbo.minimize`.

        Returns
        -------
        BilevelResult
            The outcome.

        Raises
        ------
        TypeError, ValueError
            For a bad argument, with its name.
        """
        evaluation = CountedProblem(problem)
        self.check(problem)
        validate_random_state(random_state)
        routine = initializer(initialization)
        x, y, given = self._starting_point(evaluation, x0, y0, u0)
        feasible = feasible_set(problem, evaluation.dim_x, bounds, x)
        if max_iter is not None:
            integer("max_iter", max_iter)
        seconds = time_limit(max_time)
        limits = self.limits(problem, real("tol", tol, minimum=0.0), max_iter, seconds)
        require_callback(callback)
        self.require_step()
        opening = None
        if routine is not None:
            random_state = integer_state(random_state)  # one that the initialisation and the method share
            region = (feasible.lower, feasible.upper) if bounds is not None and isinstance(feasible, Box) else None
            u = np.zeros_like(y) if given is None else given
            opening = begin(routine, problem, (x, y, u), region, seconds, random_state)
            y, given = opening.y, opening.u
        start = State(0, x, y, self.starting_u(y, given))
        session, start = self.session(problem, start, feasible, limits, random_state)
        origin = Origin(self, problem, None if bounds is None else feasible, callback is not None)
        run = Run(session, evaluation, start, feasible, limits, callback, origin)
        if opening is not None:
            run.open_with(opening)
        result = run.execute()
        result.method = self.name
        result.initialization = None if opening is None else opening.outcome
        return result

    def _starting_point(self, view: CountedProblem, x0: Any, y0: Any, u0: Any) -> tuple[Array, Array, Array | None]:
        """Return the checked x, y and, if it is given, u, as copies."""
        given = None if u0 is None else view.lower_point("u0", u0)
        return view.upper_point("x0", x0), view.lower_start("y0", y0), given


def require_callback(callback: Any) -> None:
    """Raise unless `callback` is callable or None.

    Parameters
    ----------
    callback : object
        What was given.

    Raises
    ------
    TypeError
        Otherwise.
    """
    if callback is not None and not callable(callback):
        raise TypeError(f"callback: found {type(callback).__name__}; expected a callable or None")


class DeterministicSession(Session):
    """A deterministic method at work: one step at a time.

    Parameters
    ----------
    solver : DeterministicSolver
        The method.
    view : CountedProblem
        What it calls.
    feasible : FeasibleSet
        The feasible set of x.
    tol : float
        The tolerance.
    """

    def __init__(self, solver: DeterministicSolver, view: CountedProblem, feasible: FeasibleSet, tol: float) -> None:
        self._solver, self._view, self._feasible, self._tol = solver, view, feasible, tol

    def advance(self, state: State, until: int) -> State:
        """Do one iteration; see `Session.advance`."""
        return self._solver.step(self._view, state, self._feasible, self._tol)

    def protected(self) -> contextlib.AbstractContextManager[None]:
        """Let Ctrl-C through: a step changes nothing in place; see `Session.protected`."""
        return contextlib.nullcontext()

    def chosen(self) -> dict[str, Any]:
        """Return nothing; see `Session.chosen`."""
        return {}

    def on_trial(self, state: State) -> bool:
        """Ask the method; see `Session.on_trial`."""
        return self._solver.on_trial(state)

    def damage(self) -> None:
        """Return None; see `Session.damage`."""
        return None

    def count_before(self, calls: OracleCounts, samples: OracleCounts) -> None:
        """Add earlier calls; see `Session.count_before`."""
        self._view.count_before(calls, samples)

    @property
    def counts(self) -> OracleCounts:
        """The calls so far."""
        return self._view.counts

    @property
    def samples(self) -> OracleCounts:
        """The component samples that they went over."""
        return self._view.samples


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeterministicSolver(Solver):
    """A full-batch method: directions at the current point, then a move of x along -d_x.

    With a given `step_size` x <- project(x - alpha d_x); without one, `nbo.upper_steps.AdaptiveStep`.

    Parameters
    ----------
    step_size : float or callable, optional
        alpha, or a schedule k -> alpha; left out, the adaptive rule `nbo.upper_steps.AdaptiveStep`.
    eval_every : int
        Iterations between two evaluations of f (reporting, not counted as the method's).
    """

    kind: ClassVar[str] = "deterministic"

    eval_every: int = 1

    def __post_init__(self) -> None:
        if self.step_size is not None:
            validate_schedule("step_size", self.step_size)
        integer("eval_every", self.eval_every, minimum=1)

    def limits(self, problem: BilevelProblem, tol: float, max_iter: int | None, max_time: float) -> Limits:
        """Return the limits, 1000 iterations by default; see `Solver.limits`."""
        return Limits(tol, DEFAULT_MAX_ITER if max_iter is None else max_iter, max_time, self.eval_every)

    def session(
        self, problem: BilevelProblem, start: State, feasible: FeasibleSet, limits: Limits, random_state: Any
    ) -> tuple[Session, State]:
        """Set to work, drawing nothing; see `Solver.session`."""
        assert limits.tol is not None
        return DeterministicSession(self, CountedProblem(problem), feasible, limits.tol), start

    @abc.abstractmethod
    def directions(self, view: CountedProblem, state: State) -> Directions:
        """Compute d_x and the new y and u from the current state.

        Parameters
        ----------
        view : CountedProblem
            The oracles.
        state : State
            The current iterate and memory.

        Returns
        -------
        Directions
            What the upper step needs.
        """

    def on_trial(self, state: State) -> bool:
        """Tell whether the method may still take back the last step on y.

        Parameters
        ----------
        state : State
            After the step.

        Returns
        -------
        bool
            False unless a method judges its steps.
        """
        return False

    @abc.abstractmethod
    def cost_per_iteration(self, dim_y: int) -> OracleCounts:
        """Return the oracle calls of one iteration with given step sizes.

        Parameters
        ----------
        dim_y : int
            n.

        Returns
        -------
        OracleCounts
            The exact counts; an upper bound where an inner solver may stop early.
        """

    def step(self, view: CountedProblem, state: State, project: FeasibleSet, tol: float) -> State:
        """Do one iteration; x stays where it is when the point turns out to be a solution.

        Parameters
        ----------
        view : CountedProblem
            The oracles.
        state : State
            Where it starts.
        project : FeasibleSet
            The feasible set of x.
        tol : float
            On the three norms of the state, and on what the errors of y and u change in d_x.

        Returns
        -------
        State
            Where it ends.
        """
        found = self.directions(view, state)
        size = norm(project.gradient_map(state.x, found.d_x))
        norms = (size, found.lower_grad_norm, found.adjoint_residual)
        scales = state.scales.with_norms(found.lower_grad_norm, found.upper_grad_norm)
        solved = max(norms) <= tol and found.reach(scales, float(np.finfo(view.dtype).eps)) <= tol
        move = self.upper_step().move(view, state.nit, state.x, found, project, scales, solved)
        x, y, u, shown = move.x, move.y, move.u, move.shown
        if move.solved:
            x, y, u, shown = state.x, found.y, found.u, None
        return State(state.nit + 1, x, y, u, found.d_x, norms, move.memory, scales, move.solved, shown)

    def upper_step(self) -> UpperStep:
        """Return how x moves.

        Returns
        -------
        UpperStep
            The adaptive rule, or the given step.
        """
        return AdaptiveStep() if self.step_size is None else ScheduledStep(self.step_size)
