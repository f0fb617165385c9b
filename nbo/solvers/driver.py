"""The loop around every method: evaluation, time, callbacks, statuses."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from nbo._clock import Timer, compilation
from nbo._vectors import all_finite
from nbo.certificate import Certificate
from nbo.history import EvaluatedIterate, HistoryRecorder, Status
from nbo.linear_solvers import CurvatureError
from nbo.oracles import CountedProblem, NonFiniteOracleError, OracleCounts
from nbo.upper_steps import ROUNDING, Scales

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

    from nbo.feasible_sets import FeasibleSet
    from nbo.result import BilevelResult
    from nbo.resuming import Origin
    from nbo.solvers.opening import Opening

Array = npt.NDArray[Any]
NORMS = (np.nan, np.nan, np.nan)
EXACTLY = "by res.save and nbo.resume"
GOING_ON = f"from x0=res.x, y0=res.y, u0=res.u, or exactly {EXACTLY}"
NO_SCALES = Scales()
UNKNOWN = Certificate()


@dataclasses.dataclass(frozen=True)
class State:
    """Everything that a method needs to go on.

    Attributes
    ----------
    nit : int
        Iterations done.
    x, y, u : ndarray
        The iterate.
    d_x : ndarray or None
        The last hypergradient estimate.
    norms : tuple of float
        Projected hypergradient norm, |grad_2 g| and |H u - grad_2 f|, of the last iteration.
    memory : dict
        What the method keeps besides.
    scales : Scales
        The largest gradients so far.
    converged : bool
        Whether the norms met the tolerance at this x.
    shown : tuple of ndarray or None
        The iterate to report where `x`, `y`, `u` are a mere trial.
    certificate : Certificate
        What is known about the error of `d_x`.
    idle : int
        Iterations in a row without any progress, where the method can tell.
    """

    nit: int
    x: Array
    y: Array
    u: Array
    d_x: Array | None = None
    norms: tuple[float, float, float] = NORMS
    memory: Any = dataclasses.field(default_factory=dict)
    scales: Scales = NO_SCALES
    converged: bool = False
    shown: tuple[Array, Array, Array] | None = None
    certificate: Certificate = UNKNOWN
    idle: int = 0

    @property
    def iterate(self) -> tuple[Array, Array, Array]:
        """The x, y, u to report."""
        return self.shown or (self.x, self.y, self.u)


class Session(Protocol):
    """What the driver needs of a method at work on a problem."""

    def advance(self, state: State, until: int) -> State:
        """Return the state after at least one more iteration.

        Parameters
        ----------
        state : State
            Where it starts.
        until : int
            No iteration beyond this one.

        Returns
        -------
        State
            Where it ends.
        """

    def protected(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which Ctrl-C waits until the state of an `advance` is kept, where that matters.

        Returns
        -------
        context manager
            For one `advance`.
        """

    def damage(self) -> str | None:
        """Tell why the session could not go on exactly from the last state.

        Returns
        -------
        str or None
            None if it can.
        """

    def chosen(self) -> dict[str, Any]:
        """Return what the method chose where an argument was left out.

        Returns
        -------
        dict
            Values by name, to be given in the next run.
        """

    def on_trial(self, state: State) -> bool:
        """Tell whether the method may still take back the y of a state, so that a bad value there means nothing.

        Parameters
        ----------
        state : State
            The last one.

        Returns
        -------
        bool
            False for most methods.
        """

    def count_before(self, calls: OracleCounts, samples: OracleCounts) -> None:
        """Add calls that were made before the run was resumed.

        Parameters
        ----------
        calls, samples : OracleCounts
            The calls, and the samples that they went over.
        """

    @property
    def counts(self) -> OracleCounts:
        """The calls so far."""

    @property
    def samples(self) -> OracleCounts:
        """The component samples that they went over."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """When a run ends and how often it evaluates.

    Attributes
    ----------
    tol : float or None
        On the projected hypergradient norm, the lower gradient norm and the adjoint residual; None where estimates
        of them are too noisy for a test.
    max_iter : int
        Iterations.
    max_time : float
        Seconds of solver time.
    eval_every : int
        Iterations between two evaluations.
    eval_seconds : float or None
        Seconds of solver time between two evaluations, besides.
    """

    tol: float | None
    max_iter: int
    max_time: float
    eval_every: int
    eval_seconds: float | None = None

    @property
    def seconds_between(self) -> float:
        """Seconds after which an evaluation is due: of a run to a time limit without a test a twentieth, or 0.05."""
        if self.eval_seconds is not None:
            return self.eval_seconds
        return np.inf if self.tol is not None else max(self.max_time / 20, 0.05)


class Stop(Exception):  # noqa: N818 - it carries an outcome, not an error
    """Ends the loop with a status and a message.

    Parameters
    ----------
    status : Status
        Why.
    message : str
        What happened and what to do.
    """

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(status, message)
        self.status = status
        self.message = message


class Run:
    """One run of a method on a problem.

    Parameters
    ----------
    session : Session
        The method at work.
    evaluation : CountedProblem
        What reporting calls.
    start : State
        The first iterate.
    feasible : FeasibleSet
        The feasible set of x.
    limits : Limits
        When to end.
    callback : callable or None
        As in `nbo.minimize`.
    origin : Origin
        What a checkpoint says about the run.
    """

    #: A value of a stochastic method that grew by this many times the size of the first one is mentioned.
    GROWTH = 1e3

    #: A run without progress ends after so many iterations.
    PATIENCE = 60

    #: An upper value this many times above the size of the first one counts as divergence. Only overflow is
    #: worse: y may start far from y*(x), whose value can be larger by many orders.
    EXPLOSION = 1e100

    def __init__(
        self,
        session: Session,
        evaluation: CountedProblem,
        start: State,
        feasible: FeasibleSet,
        limits: Limits,
        callback: Callable[..., Any] | None,
        origin: Origin,
    ) -> None:
        self.session, self.evaluation, self.state = session, evaluation, start
        self.feasible, self.limits, self.callback, self.origin = feasible, limits, callback, origin
        self.recorder = HistoryRecorder()
        self.seconds = 0.0
        self.compile_start = compilation.seconds
        self.fun = np.nan
        self.evaluated_at, self.evaluated_seconds = -1, 0.0
        self.best: EvaluatedIterate | None = None
        self.first_value = np.nan
        self.stopped: Stop | None = None

    def open_with(self, opening: Opening) -> None:
        """Count what an initialisation took as the method's, and end at once if it was ended.

        Parameters
        ----------
        opening : Opening
            Of this run, whose state begins where it ended.
        """
        self.session.count_before(opening.counts, opening.samples)
        self.seconds = opening.seconds
        self.compile_start -= opening.compile_seconds
        self.stopped = opening.stop

    def execute(self) -> BilevelResult:
        """Iterate until something ends the run.

        Returns
        -------
        BilevelResult
            The outcome.

        Raises
        ------
        ValueError
            If an oracle is not finite at the start.
        """
        with np.errstate(all="ignore"):  # what is not finite is told by the checks
            if self.best is None:
                self._evaluate_start()
            try:
                if self.stopped is not None:
                    raise self.stopped
                if self.evaluated_at != self.state.nit and self._is_due():  # a saved run was interrupted just then
                    self._report()
                while True:
                    self._check_convergence()
                    self._check_progress()
                    self._check_limits()
                    self._iterate()
            except Stop as stop:
                status, message = stop.status, stop.message
            except KeyboardInterrupt:
                status = Status.INTERRUPTED
                message = f"interrupted after {self.state.nit} iterations; x, y, u are the last completed iterate"
            return self._result(status, message)

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from what `_saved` returned, instead of from the start.

        Parameters
        ----------
        saved : dict
            Of a run with the same settings.
        """
        self.recorder = HistoryRecorder(*saved["recorder"])
        self.seconds, self.evaluated_seconds = saved["seconds"], saved["evaluated_seconds"]
        self.compile_start -= saved["compile_seconds"]
        self.fun, self.evaluated_at, self.best = saved["fun"], saved["evaluated_at"], saved["best"]
        self.first_value = saved["first_value"]
        self.evaluation.count_before(*saved["evaluations"])

    def _saved(self) -> dict[str, Any]:
        """Return what `restore` needs."""
        return {
            "recorder": self.recorder.parts(),
            "seconds": self.seconds,
            "evaluated_seconds": self.evaluated_seconds,
            "compile_seconds": compilation.seconds - self.compile_start,
            "fun": self.fun,
            "evaluated_at": self.evaluated_at,
            "best": self.best,
            "first_value": self.first_value,
            "evaluations": (self.evaluation.counts, self.evaluation.samples),
        }

    def _evaluate_start(self) -> None:
        try:
            self._evaluate()
        except NonFiniteOracleError as error:
            raise ValueError(f"{error} at the starting point (x0, y0); expected a finite number") from error
        self.first_value = self.fun

    def _check_limits(self) -> None:
        nit = self.state.nit
        if nit >= self.limits.max_iter:
            usual = "" if self.limits.tol is not None else ", the usual end of a stochastic method"
            found = f"stopped at the iteration limit ({nit}){self._norms()}{usual}"
            raise Stop(Status.ITERATION_LIMIT, f"{found}; {self._further('max_iter')}")
        if self.seconds >= self.limits.max_time:
            raise Stop(
                Status.TIME_LIMIT,
                f"stopped at the time limit ({self.limits.max_time:g} s of solver time) after {nit} iterations"
                f"{self._norms()}; {self._further('max_time')}",
            )

    def _further(self, limit: str) -> str:
        """Say what to do after a limit."""
        how = GOING_ON if self.origin.solver.starts_anew else EXACTLY
        other = self.origin.solver.further(self.evaluation.problem, self.state.nit, self.seconds)
        return f"{self._beyond_rounding()}{self._grown()}{other}raise {limit}, or go on {how}"

    def _beyond_rounding(self) -> str:
        """Say that the residuals of y and u have reached the rounding floor above the tolerance."""
        tol, dtype = self._tol, self.evaluation.dtype
        if not tol or self.state.nit == 0:  # with a tolerance of zero nobody expects convergence
            return ""
        floor = ROUNDING * float(np.finfo(dtype).eps)
        residuals = list(zip(self.state.norms[1:], self.state.scales, strict=True))
        if max(self.state.norms[1:]) <= tol or any(residual > floor * scale for residual, scale in residuals):
            return ""
        other = ", or data in float64" if dtype == np.float32 else ""
        return f"tol is below what rounding in {dtype} allows here, give a larger one{other}; "

    @property
    def _tol(self) -> float:
        """The tolerance, zero without one, in the units of f."""
        return self.origin.solver.resolved_tol(self.state, self.limits.tol or 0.0)

    def _grown(self) -> str:
        """Say that a run without a test of convergence may be diverging."""
        if self.limits.tol is not None or self.fun - self.first_value <= self.GROWTH * (1 + abs(self.first_value)):
            return ""
        return (
            f"f went from {self.first_value:.3g} to {self.fun:.3g}, so the steps may be too large "
            f"({self._advice()}), or else "
        )

    def _advice(self) -> str:
        """Say what to do about steps that are too large."""
        solver = self.origin.solver
        if solver.step_size is None and not hasattr(solver, "inner_step_size"):
            return "f may have no lower bound, or g no minimiser: give bounds of x, or start from another x0 or y0"
        if self.limits.tol is not None:
            return "use smaller step_size and inner_step_size, or leave them out, or start from another y0"
        chosen = self.session.chosen().get("inner_step_size")
        inner = "" if chosen is None else f", which was {chosen:.3g}"
        return f"use a smaller step_size, narrower bounds of x or a smaller inner_step_size{inner}"

    def _norms(self) -> str:
        """Say how far the last iteration was from the tolerance."""
        if self.state.nit == 0 or self.limits.tol is None:
            return ""
        size, lower, adjoint = self.state.norms
        trial = "" if self.state.shown is None else " (at a trial point)"
        certificate = self.state.certificate
        known = (
            "" if np.isnan(certificate.error) else f"hypergrad_error = {certificate.error:.3g} ({certificate.kind}), "
        )
        return (
            f" with hypergrad_norm = {size:.3g}, {known}lower_grad_norm = {lower:.3g} and "
            f"adjoint_residual = {adjoint:.3g} against tol = {self._tol:.3g}{trial}"
        )

    def _iterate(self) -> None:
        """Do some iterations, evaluate if it is due, and call back."""
        with self.session.protected():
            state = self._advance()
            if not all(all_finite(a) for a in (state.x, state.y, state.u, state.d_x) if a is not None):
                raise self._divergence("an iterate or a direction is not finite")
            self.state = state
        if self._is_due():
            self._report()

    def _report(self) -> None:
        """Evaluate the iterate, end a run that has diverged, and call back."""
        on_trial = self.session.on_trial(self.state)
        try:
            self._evaluate()
        except NonFiniteOracleError as error:
            if on_trial:
                return
            raise self._divergence(str(error)) from error
        if not on_trial:
            self._check_value()
        self._call_back()

    def _advance(self) -> State:
        """Let the session work for a while, and take its time."""
        every, nit = self.limits.eval_every, self.state.nit
        until = min((nit // every + 1) * every, self.limits.max_iter)
        timer = Timer()
        try:
            return self.session.advance(self.state, until)
        except NonFiniteOracleError as error:
            self._blame(error)
        except CurvatureError as error:
            if nit == 0:
                raise
            raise self._divergence(str(error)) from error
        finally:
            self.seconds += max(0.0, timer.seconds())

    def _is_due(self) -> bool:
        """Tell whether the iterate is to be evaluated."""
        waited = self.seconds - self.evaluated_seconds
        return waited >= self.limits.seconds_between or self.state.nit % self.limits.eval_every == 0

    def _blame(self, error: NonFiniteOracleError) -> NoReturn:
        """Tell a faulty oracle (not finite at ordinary arguments from the start) from divergence."""
        if self.state.nit == 0 and error.moderate:
            raise ValueError(
                f"{error} in the first iteration, at finite arguments of ordinary size; expected finite numbers"
            ) from error
        raise self._divergence(str(error)) from error

    def _divergence(self, what: str) -> Stop:
        doubt = "; if that does not help, an oracle may be wrong: see nbo.check_problem" if self.state.nit == 0 else ""
        return Stop(
            Status.DIVERGED,
            f"diverged after {self.state.nit} iterations ({what}); x, y, u are the best finite iterate; "
            f"{self._advice()}{doubt}",
        )

    def _check_value(self) -> None:
        if abs(self.fun) > self.EXPLOSION * (1 + abs(self.first_value)):
            raise self._divergence(f"the upper value grew to {self.fun:.3g}")

    def _check_convergence(self) -> None:
        if self.state.converged:
            raise Stop(Status.CONVERGED, f"converged in {self.state.nit} iterations{self._norms()}{self._flat()}")

    def _flat(self) -> str:
        """Say that a run ended where it began because nothing depends on x there."""
        d_x = self.state.d_x
        if self.state.nit > 1 or d_x is None or d_x.any():
            return ""
        return "; d_x is exactly zero: nothing depends on x here, or an oracle is wrong (see nbo.check_problem)"

    def _check_progress(self) -> None:
        if self.state.idle >= self.PATIENCE:
            raise Stop(
                Status.STALLED,
                f"stalled after {self.state.nit} iterations{self._norms()}: {self.PATIENCE} in a row changed neither f "
                f"nor the hypergradient by more than their errors; {self._beyond_rounding()}give a larger tol, or if "
                "the hypergradient is far above it, an oracle may be wrong (see nbo.check_problem) or not finite or "
                "not smooth nearby",
            )

    def _evaluate(self) -> None:
        """Compute f at the current iterate, record the row and keep the best."""
        s = self.state
        x, y, u = s.iterate
        self.fun = self.evaluation.upper_value(x, y)
        self.evaluated_at, self.evaluated_seconds = s.nit, self.seconds
        self.recorder.add(s.nit, self.seconds, self.fun, s.norms, self.session.counts, self.session.samples)
        if self.best is None or self.fun < self.best.fun:
            x, y, u = _copies(x, y, u)
            self.best = EvaluatedIterate(x, y, u, self.fun, s.nit)

    def _call_back(self) -> None:
        if self.callback is None:
            return
        try:
            stopped = call_back(self.callback, self._intermediate)
        except StopIteration:
            stopped = True
        if stopped:
            raise Stop(
                Status.STOPPED,
                f"stopped by the callback after {self.state.nit} iterations; x, y, u are the last iterate",
            )

    def _intermediate(self) -> OptimizeResult:
        from scipy.optimize import OptimizeResult

        s = self.state
        x, y, u = _copies(*s.iterate)
        return OptimizeResult(
            x=x,
            y=y,
            u=u,
            fun=self.fun,
            jac=None if s.d_x is None else s.d_x.copy(),
            nit=s.nit,
            counts=self.session.counts,
            hypergrad_norm=s.norms[0],
            lower_grad_norm=s.norms[1],
            adjoint_residual=s.norms[2],
            seconds=self.seconds,
        )

    def _result(self, status: Status, message: str) -> BilevelResult:
        from nbo.result import BilevelResult

        assert self.best is not None
        s = self.state
        saved = self._saved()  # the last row is none of a run that goes on
        if status is not Status.DIVERGED and self.evaluated_at != s.nit:
            status, message = self._evaluate_last(status, message)
        ended = s.iterate
        if status is Status.DIVERGED:
            ended, self.fun = self.best[:3], self.best.fun
        x, y, u = _copies(*ended)
        held = self.feasible.n_held(x)
        if held and status is not Status.DIVERGED:
            message = f"{message}; {held} of {x.size} entries of x are at a bound"
        result = BilevelResult(
            x=x,
            y=y,
            u=u,
            fun=self.fun,
            jac=np.full(s.x.shape, np.nan) if s.d_x is None else s.d_x.copy(),
            best=self.best,
            success=status is Status.CONVERGED,
            status=status,
            message=message,
            nit=s.nit,
            counts=self.session.counts,
            samples=self.session.samples,
            evaluation_counts=self.evaluation.counts,
            history=self.recorder.finish(),
            hypergrad_norm=s.norms[0],
            lower_grad_norm=s.norms[1],
            adjoint_residual=s.norms[2],
            hypergrad_error=s.certificate.error,
            hypergrad_error_kind=s.certificate.kind,
            seconds=self.seconds,
            compile_seconds=compilation.seconds - self.compile_start,
            chosen=self.session.chosen(),
        )
        early = "" if self.stopped is None else "the run was ended in its initialisation"
        result.keep(self.origin.checkpoint(status, s, self.limits, self.session, saved, early))
        return result

    def _evaluate_last(self, status: Status, message: str) -> tuple[Status, str]:
        """Evaluate a final iterate that is off the evaluation grid or whose evaluation was interrupted."""
        try:
            self._evaluate()
            self._check_value()
        except NonFiniteOracleError as error:
            stop = self._divergence(str(error))
            return stop.status, stop.message
        except Stop as stop:
            return stop.status, stop.message
        except KeyboardInterrupt:
            self.fun = np.nan
            return (
                Status.INTERRUPTED,
                f"interrupted in the last evaluation, after {self.state.nit} iterations; fun is NaN",
            )
        return status, message


def _copies(*arrays: Array) -> tuple[Array, ...]:
    return tuple(np.array(a, dtype=np.float64) for a in arrays)


def call_back(callback: Callable[..., Any], intermediate: Callable[[], OptimizeResult]) -> bool:
    """Call a callback as SciPy does and tell whether it asks to stop.

    Parameters
    ----------
    callback : callable
        With one parameter named ``intermediate_result`` it gets the `OptimizeResult` by keyword,
        else a copy of x.
    intermediate : callable
        Makes the result.

    Returns
    -------
    bool
        Whether it returned something true.
    """
    try:
        wants_result = set(inspect.signature(callback).parameters) == {"intermediate_result"}
    except (TypeError, ValueError):  # some built-in callables have no signature
        wants_result = False
    result = intermediate()
    answer = callback(intermediate_result=result) if wants_result else callback(result.x)
    return bool(answer) if np.ndim(answer) == 0 else False
