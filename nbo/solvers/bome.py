"""BOME: first-order bilevel optimisation by a dynamic barrier on the lower level's optimality gap."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from nbo._validation import integer, real
from nbo._vectors import norm
from nbo.gradient_steps import descend
from nbo.inner_steps import InnerStep
from nbo.oracles import CountedProblem, OracleCounts
from nbo.schedules import Schedule, step_at, validate_schedule
from nbo.solvers.base import DeterministicSolver
from nbo.solvers.driver import State
from nbo.upper_steps import Directions

Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BOME(DeterministicSolver):
    """BOME (Liu et al., 2022): descent on f under a barrier that drives g(x, y) to its minimum; first-order only.

    With z the end of Q gradient steps on g(x, .) from y and q(x, y) = g(x, y) - g(x, z), z held fixed, all at the old
    (x, y):

    - grad q = (grad_1 g(x, y) - grad_1 g(x, z), grad_2 g(x, y));
    - lam = max(eta |grad q|^2 - <grad f, grad q>, 0)/|grad q|^2, and 0 where grad q = 0;
    - x <- x - alpha (grad_1 f + lam (grad_1 g(x, y) - grad_1 g(x, z)));
    - y <- y - beta (grad_2 f + lam grad_2 g(x, y)).

    Costs per iteration: 1 upper_grad, Q lower_grad_y (the first inner step uses the gradient that grad q needs) and
    2 lower_grad_x; values of g are not needed, as the barrier is eta |grad q|^2.

    Parameters
    ----------
    step_size : float or callable
        alpha, or a schedule k -> alpha; it has to be given: the method chooses none.
    eval_every : int
        Iterations between two evaluations of f.
    inner_step_size : float or callable, optional
        gamma, the step of the Q inner steps, at most 1/lambda_max(H), or a schedule; left out, 1/lambda_max(H) by 8
        Lanczos steps whose products are differences of gradients (counted), renewed at most every 10 iterations.
    lower_step_size : float or callable, optional
        beta, or a schedule; left out, alpha (the paper has one step for x and y).
    n_lower_steps : int
        Q; 10 (benchmark-derived, and the paper's experiments).
    control : float
        eta, positive; 0.5 (benchmark-derived, and the paper's experiments).

    Notes
    -----
    "BOME! Bilevel Optimization Made Easy: A Simple First-Order Approach" (Liu, Ye, Wright, Stone and Liu, 2022), with
    the barrier phi = eta |grad q|^2 of its experiments; the other one that it names, eta q, is not here.

    There is no adjoint variable: the field u holds z, and lam (z - y) estimates u ~ H^{-1} grad_2 f. The adjoint
    residual that is reported is |grad_2 f + lam grad_2 g(x, y)|, which to first order in y - z is |H u - grad_2 f| for
    that u and an exact z.

    The limit is biased in two ways:

    - Q inner steps make u the truncated Neumann series (I - (I - gamma H)^Q) H^{-1} grad_2 f: an error of
      (1 - gamma mu)^Q. For small steps x goes to where the hypergradient with that u at y*(x) vanishes.
    - grad q tends to 0, and lam grad q to something that is not 0 unless grad f vanishes: lam grows until the step
      is unstable, lam alpha times the curvature of q in (x, y) about 2. From there y - y*(x) and the error of x are
      O(alpha), and the reported norms oscillate. A decreasing step lets that error vanish.

    So a run ends as converged only if grad_2 f vanishes at the solution, or with a tolerance above these errors.
    """

    name: ClassVar[str] = "bome"
    description: ClassVar[str] = "first-order: a barrier on g(x, y) - g(x, z), z by Q gradient steps (Liu et al., 2022)"
    source: ClassVar[str] = (
        "Liu, Ye, Wright, Stone and Liu, 2022, BOME! Bilevel Optimization Made Easy: A Simple First-Order Approach "
        "(NeurIPS)"
    )
    cost: ClassVar[str] = "1 upper_grad, Q lower_grad_y, 2 lower_grad_x"
    needs: ClassVar[tuple[str, ...]] = ("lower_grad_x",)
    spares: ClassVar[tuple[str, ...]] = ("lower_hvp", "lower_jvp")
    chooses_step: ClassVar[bool] = False

    inner_step_size: Schedule | None = None
    lower_step_size: Schedule | None = None
    n_lower_steps: int = 10
    control: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("inner_step_size", "lower_step_size"):
            if getattr(self, name) is not None:
                validate_schedule(name, getattr(self, name))
        integer("n_lower_steps", self.n_lower_steps, minimum=1)
        real("control", self.control, positive=True)

    def starting_u(self, y: Array, given: Array | None) -> Array:
        """Return y, where z starts; see `Solver.starting_u`."""
        return y.copy()

    def directions(self, view: CountedProblem, state: State) -> Directions:
        """Take the inner steps and compute the directions of x and y; see the class.

        Parameters
        ----------
        view : CountedProblem
            The oracles.
        state : State
            The current iterate.

        Returns
        -------
        Directions
            What the upper step needs; u is z.
        """
        assert self.step_size is not None
        x, y, k = state.x, state.y, state.nit
        model = view.lower_model(x, y)
        d_y = model.grad_y()
        inner = InnerStep(self.inner_step_size)
        gamma, memory = inner.at(k, view.batch_differences(x, y, None), view.dim_y, view.dtype, state.memory)
        z, _, grew = descend(view, x, y, gamma, self.n_lower_steps, d_y)
        grad_1, grad_2 = view.upper_grad(x, y)
        q_x = model.grad_x() - view.lower_model(x, z).grad_x()
        lam = self._weight(grad_1, grad_2, q_x, d_y)
        descent = grad_2 + view.dtype.type(lam) * d_y
        if self.lower_step_size is None:
            beta = step_at("step_size", self.step_size, k)
        else:
            beta = step_at("lower_step_size", self.lower_step_size, k)
        change = view.dtype.type(beta) * descent
        return Directions(
            d_x=grad_1 + lam * q_x,
            y=y - change,
            u=z,
            y_at=y,
            y_change=change,
            u_change=state.u - z,
            lower_grad_norm=norm(d_y),
            adjoint_residual=norm(descent),
            upper_grad_norm=norm(grad_2),
            jvp_norm=lam * norm(q_x),
            correction=0.0,
            value_error=abs(float(grad_2 @ (y - z))),
            memory=inner.observe(memory, grew),
        )

    def _weight(self, grad_1: Array, grad_2: Array, q_x: Array, q_y: Array) -> float:
        """Return lam, from grad q of unit length so that nothing underflows."""
        size = float(np.hypot(norm(q_x), norm(q_y)))
        if size == 0:
            return 0.0
        slope = (float(grad_1 @ q_x) + float(grad_2 @ q_y)) / size
        return max(self.control - slope / size, 0.0)

    def cost_per_iteration(self, dim_y: int) -> OracleCounts:
        """Return the oracle calls of one iteration.

        Parameters
        ----------
        dim_y : int
            n.

        Returns
        -------
        OracleCounts
            1 upper_grad, Q lower_grad_y and 2 lower_grad_x.
        """
        return OracleCounts(upper_grad=1, lower_grad_y=self.n_lower_steps, lower_grad_x=2)
