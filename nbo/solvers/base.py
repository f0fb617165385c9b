"""What every deterministic method shares: options, checks at the door, and the move of x."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from nbo._validation import integer, real, validate_random_state, vector
from nbo._vectors import norm
from nbo.feasible_sets import FeasibleSet, feasible_set
from nbo.oracles import CountedProblem, OracleCounts
from nbo.problem import BilevelProblem, provides
from nbo.schedules import Schedule, validate_schedule
from nbo.solvers.driver import Limits, Run, State
from nbo.upper_steps import AdaptiveStep, Directions, ScheduledStep, UpperStep

if TYPE_CHECKING:
    from nbo.result import BilevelResult

Array = npt.NDArray[Any]

#: Iterations of a deterministic method when `max_iter` is left out.
DEFAULT_MAX_ITER = 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeterministicSolver(abc.ABC):
    """A full-batch method: directions at the current point, then a move of x along -d_x.

    With a given `step_size` x <- project(x - alpha d_x); without one, `nbo.upper_steps.AdaptiveStep`.

    Subclasses are frozen: one object may solve any number of problems.

    Parameters
    ----------
    step_size : float or callable, optional
        alpha, or a schedule k -> alpha; left out, the adaptive rule `nbo.upper_steps.AdaptiveStep`.
    eval_every : int
        Iterations between two evaluations of f (reporting, not counted as the method's).
    """

    name: ClassVar[str]
    description: ClassVar[str]
    #: Optional oracles that the method cannot do without.
    needs: ClassVar[tuple[str, ...]] = ()

    step_size: Schedule | None = None
    eval_every: int = 1

    def __post_init__(self) -> None:
        if self.step_size is not None:
            validate_schedule("step_size", self.step_size)
        integer("eval_every", self.eval_every, minimum=1)

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
        size = norm(state.x - project(state.x - found.d_x))
        norms = (size, found.lower_grad_norm, found.adjoint_residual)
        scales = state.scales.with_norms(found.lower_grad_norm, found.upper_grad_norm)
        solved = max(norms) <= tol and found.reach(scales, float(np.finfo(view.dtype).eps)) <= tol
        move = self._upper_step().move(view, state.nit, state.x, found, project, scales, solved)
        x, y, u, shown = move.x, move.y, move.u, move.shown
        if move.solved:
            x, y, u, shown = state.x, found.y, found.u, None
        return State(state.nit + 1, x, y, u, found.d_x, norms, move.memory, scales, move.solved, shown)

    def _upper_step(self) -> UpperStep:
        return AdaptiveStep() if self.step_size is None else ScheduledStep(self.step_size)

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
            1000 by default.
        max_time : float, optional
            Seconds of solver time; no limit by default.
        bounds : pair or scipy.optimize.Bounds, optional
            Replaces the problem's.
        callback : callable, optional
            See `nbo.minimize`.
        random_state : None, int or numpy.random.Generator
            Accepted for uniformity; deterministic methods draw nothing.

        Returns
        -------
        BilevelResult
            The outcome.

        Raises
        ------
        TypeError, ValueError
            For a bad argument, with its name.
        """
        view = CountedProblem(problem)
        self.check(problem)
        validate_random_state(random_state)
        start = starting_state(view, x0, y0, u0)
        feasible = feasible_set(problem, view.dim_x, bounds, start.x)
        limits = Limits(
            tol=real("tol", tol, minimum=0.0),
            max_iter=DEFAULT_MAX_ITER if max_iter is None else integer("max_iter", max_iter),
            max_time=np.inf if max_time is None else real("max_time", max_time, minimum=0.0),
            eval_every=self.eval_every,
        )
        if callback is not None and not callable(callback):
            raise TypeError(f"callback: found {type(callback).__name__}; expected a callable or None")
        result = Run(view, CountedProblem(problem), start, feasible, limits, callback).execute(self)
        result.method = self.name
        return result

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


def starting_state(view: CountedProblem, x0: Any, y0: Any, u0: Any) -> State:
    """Return the checked first iterate, as copies.

    Parameters
    ----------
    view : CountedProblem
        For the dimensions and the type of y.
    x0, y0, u0 : array_like
        The user's; None stands for zeros in y and u.

    Returns
    -------
    State
        Iteration 0.
    """
    n = view.dim_y
    y, u = (
        np.zeros(n, dtype=view.dtype) if value is None else vector(name, value, n, view.dtype, "dim_y")
        for name, value in (("y0", y0), ("u0", u0))
    )
    return State(0, vector("x0", x0, view.dim_x, np.float64, "dim_x"), y, u)
