"""Step sizes that nobody has to choose: the inner one from the spectrum of H, the upper one from progress."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo.linear_solvers import Product, lanczos
from nbo.oracles import CountedProblem
from nbo.schedules import Schedule, step_at

Array = npt.NDArray[Any]
Memory = Mapping[str, Any]


class Spectrum(NamedTuple):
    """Estimated ends of the spectrum of H.

    Attributes
    ----------
    smallest : float
        The smallest Ritz value, at least lambda_min(H).
    largest : float
        The largest Ritz value plus its residual, in practice at least lambda_max(H).
    """

    smallest: float
    largest: float


def estimate_spectrum(hvp: Product, dim_y: int, dtype: npt.DTypeLike, n_steps: int = 8) -> Spectrum:
    """Estimate the ends of the spectrum of H by a few Lanczos steps from a fixed vector.

    Costs min(n_steps, n) products.

    Parameters
    ----------
    hvp : callable
        The product with H on rows, (k, n) -> (k, n).
    dim_y : int
        n.
    dtype : dtype
        Of the vectors.
    n_steps : int
        Lanczos steps.

    Returns
    -------
    Spectrum
        The two ends.

    Raises
    ------
    ArithmeticError
        If H is found not to be positive definite.
    """
    start = np.random.default_rng(0).standard_normal((1, dim_y)).astype(dtype)
    (basis,) = lanczos(hvp, start, n_steps)
    values, vectors = np.linalg.eigh(basis.tridiagonal())
    if values[0] <= 0:
        raise ArithmeticError(
            f"the Hessian of g in y has curvature {values[0]:.3g} at this point; g must be strongly convex in y"
        )
    return Spectrum(float(values[0]), float(values[-1] + abs(basis.last * vectors[-1, -1])))


@dataclasses.dataclass(frozen=True)
class InnerStep:
    """The inner step gamma: given, or 1/lambda_max(H) estimated by Lanczos steps (counted).

    An estimate is halved when a step enlarges a linear residual, and renewed at the next iteration,
    at most every `RENEWAL` iterations.

    Parameters
    ----------
    schedule : float, callable or None
        The given step; None estimates it.
    """

    schedule: Schedule | None

    #: The fewest iterations between two estimates.
    RENEWAL = 10

    def at(self, k: int, hvp: Product, dim_y: int, dtype: npt.DTypeLike, memory: Memory) -> tuple[float, Memory]:
        """Return gamma for iteration `k`, estimating it if it is due.

        Parameters
        ----------
        k : int
            The iteration.
        hvp : callable
            The product with H on rows.
        dim_y : int
            n.
        dtype : dtype
            Of y.
        memory : mapping
            What earlier iterations left.

        Returns
        -------
        gamma : float
            The step.
        memory : mapping
            To pass on.
        """
        if self.schedule is not None:
            return step_at("inner_step_size", self.schedule, k), memory
        due = "inner_step" not in memory or (memory["inner_stale"] and k - memory["inner_since"] >= self.RENEWAL)
        if due:
            gamma = 1 / estimate_spectrum(hvp, dim_y, dtype).largest
            memory = {**memory, "inner_step": gamma, "inner_since": k, "inner_stale": False}
        return memory["inner_step"], memory

    def observe(self, memory: Memory, enlarged: bool, suspect: bool = False) -> Memory:
        """Note whether this iteration's steps enlarged a residual.

        Parameters
        ----------
        memory : mapping
            What `at` returned.
        enlarged : bool
            Whether a step enlarged a linear residual, which proves it too long.
        suspect : bool
            Whether a residual grew for a reason that cannot be told from a move of x.

        Returns
        -------
        mapping
            To pass on.
        """
        if self.schedule is not None or not (enlarged or suspect):
            return memory
        factor = 0.5 if enlarged else 1.0
        return {**memory, "inner_step": factor * memory["inner_step"], "inner_stale": True}


class Directions(NamedTuple):
    """What one iteration of a deterministic method computed before x moves.

    Attributes
    ----------
    d_x : ndarray
        The hypergradient estimate, (m,).
    y, u : ndarray
        The new lower-level iterates, (n,) each.
    y_at : ndarray
        The y at which `d_x` was evaluated.
    u_change : ndarray
        The old u minus the new one, (n,).
    lower_grad_norm, adjoint_residual, upper_grad_norm : float
        |grad_2 g|, |H u - grad_2 f| and |grad_2 f|, at the point of `d_x` or one inner step before it.
    correction : float
        u' grad_2 g, the first-order error of f(x, y_at) as a value of Phi(x); zero where unknown.
    value_error : float
        The size of that error, known or estimated.
    memory : mapping
        What the method passes on.
    """

    d_x: Array
    y: Array
    u: Array
    y_at: Array
    u_change: Array
    lower_grad_norm: float
    adjoint_residual: float
    upper_grad_norm: float
    correction: float
    value_error: float
    memory: Memory


class Move(NamedTuple):
    """The iterates after an upper step.

    Attributes
    ----------
    x, y, u : ndarray
        The new iterates.
    memory : mapping
        To pass on.
    """

    x: Array
    y: Array
    u: Array
    memory: Memory


class UpperStep(abc.ABC):
    """How x moves along -d_x."""

    @abc.abstractmethod
    def move(
        self, view: CountedProblem, k: int, x: Array, step: Directions, project: Callable[[Array], Array]
    ) -> Move:
        """Return the iterates after iteration `k`.

        Parameters
        ----------
        view : CountedProblem
            The problem, for rules that need values.
        k : int
            The iteration.
        x : ndarray
            The old upper iterate, (m,).
        step : Directions
            What the iteration computed.
        project : callable
            The projection onto the feasible set of x.

        Returns
        -------
        Move
            The new iterates.
        """


@dataclasses.dataclass(frozen=True)
class ScheduledStep(UpperStep):
    """x <- project(x - alpha_k d_x) with a given alpha_k.

    Parameters
    ----------
    schedule : float or callable
        alpha.
    """

    schedule: Schedule

    def move(
        self, view: CountedProblem, k: int, x: Array, step: Directions, project: Callable[[Array], Array]
    ) -> Move:
        """Take the step.

        Parameters
        ----------
        view : CountedProblem
            Unused.
        k : int
            The iteration.
        x : ndarray
            The old iterate.
        step : Directions
            What the iteration computed.
        project : callable
            The projection.

        Returns
        -------
        Move
            The new iterates; no oracle calls.
        """
        alpha = step_at("step_size", self.schedule, k)
        return Move(project(x - alpha * step.d_x), step.y, step.u, step.memory)


@dataclasses.dataclass(frozen=True)
class AdaptiveStep(UpperStep):
    """A Barzilai-Borwein step that waits for an accurate hypergradient and backs off when Phi rises.

    x rests until the estimate at the current point is worth using:

    - the first-order error |u' grad_2 g| of the value is at most `ACCURACY` times the decrease that the
      last move promised (at the start: times |f|), and
    - the error of d_x that u still causes, |J (u_old - u_new)|/(1 - q) with q the rate at which that
      change shrinks, is at most `ACCURACY` times the projected hypergradient.

    The tracked value is then F = f(x, y) - u' grad_2 g, whose error is of second order. If F exceeds
    the largest of the last `WINDOW` accepted values (each with twice its first-order error for slack)
    less a small part of the promised decrease, x goes back to the last accepted point, along the same direction with a quarter of the step, and y and u
    are restored. Otherwise the point is accepted and the next step is s's/s'r, or s'r/r'r where that
    is less than a fifth of it, over the coordinates that moved (s and r are the changes of x and d_x).

    Costs at most 1 lower_jvp and 1 upper_value an iteration.
    """

    ACCURACY = 0.1
    SUFFICIENT = 1e-4
    WINDOW = 5
    GROWTH = 10.0
    #: A point at which so many iterations do not halve the residuals of y and u is a failed step.
    PATIENCE = 50
    #: Failures in a row that put the last accepted point in doubt, and what they do to the accuracy.
    FAILURES, TIGHTER, TIGHTEST = 2, 1 / 3, 1e-4
    #: The rate q assumed where none has been seen is 0; an observed one counts up to this.
    SLOWEST_RATE = 0.99

    def move(
        self, view: CountedProblem, k: int, x: Array, step: Directions, project: Callable[[Array], Array]
    ) -> Move:
        """Rest, accept and move on, or go back.

        Parameters
        ----------
        view : CountedProblem
            The problem, for f and J.
        k : int
            The iteration.
        x : ndarray
            The current trial point.
        step : Directions
            What the iteration computed there.
        project : callable
            The projection.

        Returns
        -------
        Move
            The new iterates.
        """
        memory = dict(step.memory)
        started = "upper_x" in memory
        accuracy = memory.get("upper_accuracy", self.ACCURACY)
        promised = memory.get("upper_promised", np.inf)
        floor = memory.get("upper_floor", 0.0)
        if step.value_error > max(accuracy * promised, floor) or not self._settled(view, memory, x, step, project):
            return self._rest(memory, x, step, project)
        value = view.upper_value(x, step.y_at) - step.correction
        memory["upper_floor"] = float(1e2 * np.finfo(view.dtype).eps * abs(value))
        if not started and step.value_error > accuracy * abs(value):
            return self._rest(memory, x, step, project)
        if started and value > max(memory["upper_values"]) - self.SUFFICIENT * promised + 2 * step.value_error + floor:
            return self._back(memory, project)
        return self._forward(memory, x, step, value, project)

    def _settled(
        self, view: CountedProblem, memory: dict[str, Any], x: Array, step: Directions, project: Callable[[Array], Array]
    ) -> bool:
        """Tell whether u causes only a small error in d_x, judged by its last change and how fast that shrinks."""
        if step.adjoint_residual >= step.upper_grad_norm > 0:
            return False
        gap = float(np.linalg.norm(view.lower_model(x, step.y_at).jvp(step.u_change)))
        previous = memory.get("upper_gap")
        if previous:
            memory["upper_rate"] = min(gap / previous, self.SLOWEST_RATE)
        memory["upper_gap"] = gap
        error = gap / (1 - memory.get("upper_rate", 0.0))
        scale = float(np.linalg.norm(x - project(x - step.d_x)))
        return error <= max(memory.get("upper_accuracy", self.ACCURACY) * scale, 1e2 * float(np.finfo(view.dtype).eps) * float(np.linalg.norm(step.d_x)))

    def _rest(
        self, memory: dict[str, Any], x: Array, step: Directions, project: Callable[[Array], Array]
    ) -> Move:
        """Leave x where it is while y and u improve; give the point up when they do not."""
        waited = memory.get("upper_waited", 0)
        residual = step.lower_grad_norm + step.adjoint_residual
        if waited % self.PATIENCE == 0:
            if "upper_x" in memory and waited and residual > memory["upper_residual"] / 2:
                return self._back(memory, project)
            memory["upper_residual"] = residual
        memory["upper_waited"] = waited + 1
        return Move(x, step.y, step.u, memory)

    def _back(self, memory: dict[str, Any], project: Callable[[Array], Array]) -> Move:
        """Return to the last accepted point, to leave it with a quarter of the step or to evaluate it anew."""
        memory["upper_step"] /= 4
        x, y, u, d_x = (memory[f"upper_{name}"] for name in ("x", "y", "u", "d_x"))
        new = project(x - memory["upper_step"] * d_x)
        memory.update(upper_promised=float(d_x @ (x - new)), upper_waited=0, upper_gap=None)
        memory["upper_failures"] += 1
        if memory["upper_failures"] < self.FAILURES:
            return Move(new, y, u, memory)
        tighter = max(self.TIGHTEST, self.TIGHTER * memory.get("upper_accuracy", self.ACCURACY))
        memory = {k: v for k, v in memory.items() if k not in ("upper_x", "upper_y", "upper_u", "upper_d_x")}
        return Move(x, y, u, {**memory, "upper_accuracy": tighter, "upper_values": []})

    def _forward(
        self, memory: dict[str, Any], x: Array, step: Directions, value: float, project: Callable[[Array], Array]
    ) -> Move:
        """Accept the current point and leave it with a Barzilai-Borwein step."""
        alpha = self._next_step(memory, x, step.d_x)
        new = project(x - alpha * step.d_x)
        memory.update(
            upper_step=alpha,
            upper_x=x,
            upper_y=step.y,
            upper_u=step.u,
            upper_d_x=step.d_x,
            upper_values=[*memory.get("upper_values", []), value + 2 * step.value_error][-self.WINDOW :],
            upper_promised=float(step.d_x @ (x - new)),
            upper_waited=0,
            upper_failures=0,
            upper_gap=None,
        )
        return Move(new, step.y, step.u, memory)

    def _next_step(self, memory: dict[str, Any], x: Array, d_x: Array) -> float:
        if "upper_x" not in memory and "upper_step" in memory:
            return float(memory["upper_step"])
        if "upper_x" not in memory:
            largest = float(np.abs(d_x).max())
            return max(1.0, 0.1 * float(np.abs(x).max())) / largest if largest > 0 else 1.0
        last = memory["upper_step"]
        s = x - memory["upper_x"]
        r = np.where(s != 0, d_x - memory["upper_d_x"], 0.0)
        s_r, r_r = float(s @ r), float(r @ r)
        if s_r <= 0 or r_r == 0:
            return last * (2.0 if s.any() else 1.0)
        long, short = float(s @ s) / s_r, s_r / r_r
        chosen = short if short < 0.2 * long else long
        return min(max(chosen, last / self.GROWTH), last * self.GROWTH)
