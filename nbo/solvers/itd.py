"""Iterative differentiation: the hypergradient of a fixed number of gradient steps on y, in reverse."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._validation import flag, integer
from nbo._vectors import norm
from nbo.inner_steps import InnerStep, Memory, lag
from nbo.linear_solvers import ENLARGED
from nbo.oracles import CountedModel, CountedProblem, OracleCounts
from nbo.schedules import Schedule, validate_schedule
from nbo.solvers.base import DeterministicSolver
from nbo.solvers.driver import State
from nbo.upper_steps import ROUNDING, Directions, iterations_at_rest

Array = npt.NDArray[Any]


class _Trajectory(NamedTuple):
    """The gradient steps: their models at y_0 .. y_{N-1}, the last gradient, and y_N."""

    models: list[CountedModel]
    grad: Array
    end: Array
    enlarged: bool


class _Reverse(NamedTuple):
    """The pass back: the sums of eta J(y_k) a and of eta a, and the a that the last product gave."""

    product: Array
    u: Array
    last: Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class ITD(DeterministicSolver):
    """ITD (Ji et al., 2021): differentiate Q gradient steps on y, by a pass back through them.

    y_{k+1} = y_k - eta grad_2 g(x, y_k) for k < Q, from the y_Q of the iteration before. Then a = grad_2 f(x, y_Q),
    G = grad_1 f(x, y_Q), and for k = Q-1, ..., 0: G <- G - eta J(y_k) a, a <- (I - eta H(y_k)) a. Last
    x <- x - alpha G.

    The u that is reported is eta times the sum of the a's: at y_0 = y* it is the Neumann sum of Q terms,
    (I - (I - eta H)^Q) H^{-1} grad_2 f. Hence the bias: the method goes to a point where d_x with that u is zero, not
    to a stationary point of Phi. In a mode of curvature h the part (1 - eta h)^Q of u is missing; `adjoint_residual`,
    the norm of the last a that is computed, shows it and is no smaller for more iterations. A given Q that is too
    small for the tolerance thus ends at the iteration limit. An Q that is left out grows until the bias is small.

    Costs per iteration: 1 upper_grad, Q lower_grad_y, Q - 1 lower_hvp (a is not needed beyond k = 0), Q lower_jvp;
    it keeps the Q points and the curvatures that a problem stores at each.

    Parameters
    ----------
    step_size : float or callable, optional
        alpha, or a schedule k -> alpha; left out, the adaptive rule `nbo.upper_steps.AdaptiveStep`.
    eval_every : int
        Iterations between two evaluations of f.
    inner_step_size : float or callable, optional
        eta; left out, 1/lambda_max(H) by 8 Lanczos steps (counted), renewed at most every 10 iterations, and halved
        where |grad_2 g| grows along the steps (they are then taken anew).
    n_lower_steps : int, optional
        Q. Left out, 10 (benchmark-derived), doubled up to 1280 (a practical value, for the memory), at most every
        10 iterations: where x has waited that long under the adaptive rule, or where the terms that are missing in u
        may change d_x by a tenth, |J u| |a|/|grad_2 f| > |x - project(x - d_x)|/10.
    warm_start : bool
        Whether y_0 is the last y_Q (benchmark-derived); else it is the first y of the run.
    """

    name: ClassVar[str] = "itd"
    description: ClassVar[str] = "reverse differentiation of N warm-started gradient steps on y (Ji et al., 2021)"
    source: ClassVar[str] = (
        "Ji, Yang and Liang, 2021, Bilevel Optimization: Convergence Analysis and Enhanced Design (ICML)"
    )
    cost: ClassVar[str] = "1 upper_grad, Q lower_grad_y, Q-1 lower_hvp, Q lower_jvp"
    storage: ClassVar[str] = "Q points with their stored curvatures"
    implied: ClassVar[Mapping[str, str | int]] = {"n_lower_steps": 10}
    #: N where it is left out, at first,
    FIRST: ClassVar[int] = 10
    #: and at most.
    MOST: ClassVar[int] = 1280
    #: The fewest iterations between two doublings.
    PATIENCE: ClassVar[int] = 10
    #: An estimated eta is halved, and the steps are taken anew, where |grad_2 g| grows to more than this many times its
    #: smallest: with eta <= 1/lambda_max(H) it falls, and many steps would overflow.
    GROWTH: ClassVar[float] = 2.0
    #: The part of d_x that missing terms may change without a doubling.
    ENOUGH: ClassVar[float] = 0.1

    inner_step_size: Schedule | None = None
    n_lower_steps: int | None = None
    warm_start: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inner_step_size is not None:
            validate_schedule("inner_step_size", self.inner_step_size)
        if self.n_lower_steps is not None:
            integer("n_lower_steps", self.n_lower_steps, minimum=1)
        flag("warm_start", self.warm_start)

    def directions(self, view: CountedProblem, state: State) -> Directions:
        """Take the gradient steps and differentiate them; see the class.

        Parameters
        ----------
        view : CountedProblem
            The oracles.
        state : State
            The current iterate.

        Returns
        -------
        Directions
            What the upper step needs; its residuals are those before the last inner step, and its changes of y and u
            those of the last inner step.
        """
        x, memory = state.x, self._started(state)
        y = state.y if self.warm_start else memory["y0"]
        start = view.lower_model(x, y)
        inner = InnerStep(self.inner_step_size)
        eta, memory = inner.at(state.nit, start.hvp, view.dim_y, view.dtype, memory)
        number = memory.get("n_lower_steps", self.n_lower_steps)
        rounding = ROUNDING * float(np.finfo(view.dtype).eps)
        floor = rounding * max(state.scales.lower_grad, norm(y) / eta)
        growth = np.inf if self.inner_step_size is not None else self.GROWTH
        while (forward := _forward(view, start, eta, number, floor, growth)) is None:
            memory, eta = inner.observe(memory, enlarged=True), eta / 2
        grad_1, grad_2 = view.upper_grad(x, forward.end)
        back = _differentiate(forward.models, grad_2, eta)
        size, residual = norm(grad_2), norm(back.last)
        memory = inner.observe(memory, forward.enlarged or residual > ENLARGED * size)
        if residual > rounding * size:
            memory = self._observe(memory, state, norm(back.product), residual / size)
        gamma = view.dtype.type(eta)
        return Directions(
            d_x=grad_1 - back.product,
            y=forward.end,
            u=back.u,
            y_at=forward.end,
            y_change=gamma * forward.grad,
            u_change=-gamma * back.last,
            lower_grad_norm=norm(forward.grad),
            adjoint_residual=residual,
            upper_grad_norm=size,
            jvp_norm=norm(back.product),
            correction=0.0,
            value_error=abs(float(back.u @ forward.grad)),
            memory=memory,
            lag=lag(1, memory),
        )

    def _started(self, state: State) -> Memory:
        """Return the memory with what the first iteration puts there."""
        memory = state.memory
        if self.n_lower_steps is None and "n_lower_steps" not in memory:
            memory = {**memory, "n_lower_steps": self.FIRST, "since": state.nit}
        if not self.warm_start and "y0" not in memory:
            memory = {**memory, "y0": state.y}
        return memory

    def _observe(self, memory: Memory, state: State, product: float, missing: float) -> Memory:
        """Double an N that was left out and leaves too much of u missing."""
        if self.n_lower_steps is not None or state.nit - memory["since"] < self.PATIENCE:
            return memory
        waits = iterations_at_rest(memory) >= self.PATIENCE
        if waits or product * missing > self.ENOUGH * state.norms[0]:
            number = min(2 * memory["n_lower_steps"], self.MOST)
            return {**memory, "n_lower_steps": number, "since": state.nit}
        return memory

    def cost_per_iteration(self, dim_y: int) -> OracleCounts:
        """Return the oracle calls of one iteration with given step sizes.

        Parameters
        ----------
        dim_y : int
            n.

        Returns
        -------
        OracleCounts
            1 upper_grad, Q lower_grad_y, Q - 1 lower_hvp and Q lower_jvp; for Q = 10 where it is left out.
        """
        N = self.FIRST if self.n_lower_steps is None else self.n_lower_steps
        return OracleCounts(upper_grad=1, lower_grad_y=N, lower_hvp=N - 1, lower_jvp=N)


def _forward(
    view: CountedProblem, model: CountedModel, eta: float, n_steps: int, floor: float, growth: float
) -> _Trajectory | None:
    """Take N gradient steps and keep the model of each of their starts, with the curvature that it stores.

    None where the gradient has grown to more than `growth` times the smallest one, beyond rounding.
    """
    gamma = view.dtype.type(eta)
    models: list[CountedModel] = []
    size, smallest, enlarged = np.inf, np.inf, False
    for _ in range(n_steps):
        grad = model.grad_y()
        previous, size = size, norm(grad)
        smallest = min(smallest, size)
        if size > max(growth * smallest, floor):
            return None
        enlarged |= size > max(ENLARGED * previous, floor)
        models.append(model)
        model = view.lower_model(model.x, model.y - gamma * grad)
    return _Trajectory(models, grad, model.y, enlarged)


def _differentiate(models: list[CountedModel], grad_2: Array, eta: float) -> _Reverse:
    """Go back through the steps; see `ITD`."""
    gamma = grad_2.dtype.type(eta)
    a, u = grad_2, np.zeros_like(grad_2)
    product = np.zeros(models[0].x.shape)
    for k, model in reversed(list(enumerate(models))):
        product += eta * model.jvp(a)
        u += gamma * a
        if k > 0:
            a = a - gamma * model.hvp(a[None])[0]
    return _Reverse(product, u, a)
