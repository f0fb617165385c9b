"""LancBiO: one product of a slowly moving Hessian an iteration, and u in the Krylov space that they span."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg

from nbo._storable import storable
from nbo._validation import integer, real
from nbo._vectors import norm
from nbo.feasible_sets import FeasibleSet
from nbo.gradient_steps import descend
from nbo.inner_steps import InnerStep, lag
from nbo.linear_solvers import CurvatureError, Product
from nbo.oracles import CountedProblem, OracleCounts
from nbo.problem import LowerModel
from nbo.schedules import Schedule, validate_schedule
from nbo.solvers.base import DeterministicSolver
from nbo.solvers.driver import State
from nbo.upper_steps import Directions, iterations_at_rest

Array = npt.NDArray[Any]


@storable
class SlowBasis(NamedTuple):
    """A Lanczos basis that has grown by one vector an iteration since u was `start`.

    Attributes
    ----------
    start, product : ndarray
        ubar and H ubar at the restart, (n,) each.
    vectors : ndarray
        Q', orthonormal rows, (j, n).
    diagonal, off_diagonal : ndarray
        Tri: its diagonal, (j,), and the norms beta below it, (j,), of which the last belongs to `following`.
    following : ndarray
        The next vector of the basis, (n,); zero when there is none.
    """

    start: Array
    product: Array
    vectors: Array
    diagonal: Array
    off_diagonal: Array
    following: Array

    @property
    def exhausted(self) -> bool:
        """Whether there is no next vector."""
        return not self.following.any()

    def extended(self, hvp: Product) -> SlowBasis:
        """Return the basis with one more vector, for one product.

        Orthogonality comes from full reorthogonalisation, not from the three-term recurrence: where H has moved,
        the recurrence would lose it at once.

        Parameters
        ----------
        hvp : callable
            The product with the current H on rows.

        Returns
        -------
        SlowBasis
            Exhausted if H maps the space into itself, to rounding.
        """
        q = self.following
        Q = np.concatenate([self.vectors, q[None]])
        w = hvp(q[None])[0]
        curvature, scale = float(q @ w), norm(w)
        for _ in range(2):  # twice is enough to keep the basis orthogonal to rounding
            w = w - Q.T @ (Q @ w)
        beta = norm(w)
        invariant = beta <= 10 * float(np.finfo(q.dtype).eps) * scale
        return self._replace(
            vectors=Q,
            diagonal=np.append(self.diagonal, curvature),
            off_diagonal=np.append(self.off_diagonal, 0.0 if invariant else beta),
            following=np.zeros_like(w) if invariant else w / w.dtype.type(beta),
        )

    def closed(self) -> SlowBasis:
        """Return the same basis without a next vector.

        Returns
        -------
        SlowBasis
            Exhausted.
        """
        return self._replace(following=np.zeros_like(self.following))

    def solution(self, rhs: Array) -> tuple[Array, float]:
        """Return u = ubar + Q Tri^{-1} Q'(b - H ubar) and an estimate of |H u - b|.

        Parameters
        ----------
        rhs : ndarray
            b, (n,).

        Returns
        -------
        u : ndarray
            (n,).
        residual : float
            |(I - Q Q')(b - H ubar) - beta z_last q_next| with z = Tri^{-1} Q'(b - H ubar): |H u - b| if H has not moved
            since the restart.

        Raises
        ------
        numpy.linalg.LinAlgError
            If Tri is not positive definite.
        """
        rest = rhs - self.product
        if len(self.vectors) == 0:
            return self.start, norm(rest)
        part = self.vectors @ rest
        below = self.off_diagonal[:-1]
        tridiagonal = np.diag(self.diagonal) + np.diag(below, 1) + np.diag(below, -1)
        factor = scipy.linalg.cho_factor(tridiagonal, check_finite=False)
        z = scipy.linalg.cho_solve(factor, part.astype(np.float64), check_finite=False)
        rest = rest - part @ self.vectors - self.following.dtype.type(self.off_diagonal[-1] * z[-1]) * self.following
        return self.start + z.astype(rest.dtype) @ self.vectors, norm(rest)


def restarted(hvp: Product, u: Array, rhs: Array) -> SlowBasis:
    """Return an empty basis that is to grow from the residual b - H u, for one product.

    Parameters
    ----------
    hvp : callable
        The product with H on rows.
    u : ndarray
        The new ubar, (n,).
    rhs : ndarray
        b, (n,).

    Returns
    -------
    SlowBasis
        Exhausted if the residual is zero.
    """
    product = hvp(u[None])[0]
    residual = rhs - product
    size = norm(residual)
    # a size that overflows makes NaN, which ends the run as diverged
    scale = residual.dtype.type(size if math.isfinite(size) else np.nan)
    first = np.zeros_like(u) if size == 0 else residual / scale
    none = np.empty(0)
    return SlowBasis(u, product, np.empty((0, u.shape[0]), dtype=u.dtype), none, none, first)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LancBiO(DeterministicSolver):
    """LancBiO (Gao et al., 2024): u in a Krylov space of the slowly moving H, which one product an iteration extends.

    In this order, each at the newest values:

    - y: Q gradient steps y <- y - rho grad_2 g(x, y);
    - at a restart, with b = grad_2 f(x, y): ubar <- u, w <- H ubar, q <- (b - w)/|b - w|, V and Tri empty;
    - one Lanczos step with H = nabla_22^2 g(x, y): q joins V, q'H q and the next beta join Tri, and
      the next q is H q made orthogonal to V and normalised;
    - u <- ubar + V Tri^{-1} V'(b - w), with the b of this iteration and the w of the restart;
    - x <- x - alpha (grad_1 f - J u).

    A restart comes after m iterations, and before that when the space is invariant, when Tri is not positive definite
    because H has moved (u is then that of the vectors before), when the adaptive rule has just moved x or taken it
    back, and when the estimates meet the tolerance. With constant m = 1 it is one steepest descent step on u an
    iteration.

    Costs per iteration: Q lower_grad_y, 1 upper_grad, 1 lower_jvp, 1 lower_hvp, and 1 more lower_hvp at a restart.
    Keeps m + 3 vectors of length n.

    Parameters
    ----------
    step_size : float or callable, optional
        alpha, or a schedule k -> alpha; left out, the adaptive rule `nbo.upper_steps.AdaptiveStep`.
    eval_every : int
        Iterations between two evaluations of f.
    inner_step_size : float or callable, optional
        rho, for y; left out, 1/lambda_max(H) by 8 Lanczos steps (counted), renewed at most every 10 iterations.
    n_lower_steps : int
        Q; 5 (the authors' full-batch experiments).
    subspace_dim : int
        m at first; 1 (the authors' code).
    max_subspace_dim : int
        The largest m that growth leads to; 10 (the authors' full-batch experiments).
    growth : float
        The factor by which m grows, rounded up; 1.3 (the authors' code), 1 for a constant m.
    growth_every : int
        Iterations between two growths; 50 (the authors' code).

    Notes
    -----
    "LancBiO: Dynamic Lanczos-aided Bilevel Optimization via Krylov Subspace" (Gao, Yang and Yuan, 2024). The paper lets
    m grow slowly; by how much is unverified there, and taken from the authors' code. Their code keeps the basis
    orthogonal by the three-term recurrence alone; here it is reorthogonalised fully.

    The adjoint residual that is reported is |H u - grad_2 f|, exactly, in iterations with a restart, where both
    products belong to the same H. In the others it is what the Lanczos relation makes of it, right if H has not
    moved since the restart, and no such iteration ends a run as converged.
    """

    name: ClassVar[str] = "lancbio"
    description: ClassVar[str] = (
        "Q gradient steps on y, u in a Krylov space that one product extends (Gao et al., 2024)"
    )
    source: ClassVar[str] = (
        "Gao, Yang and Yuan, 2024, LancBiO: Dynamic Lanczos-aided Bilevel Optimization via Krylov Subspace "
        "(arXiv:2404.03331)"
    )
    cost: ClassVar[str] = "1 upper_grad, Q lower_grad_y, 2 lower_hvp, 1 lower_jvp"
    cost_note: ClassVar[str] = "with a restart; else 1 lower_hvp"
    storage: ClassVar[str] = "max_subspace_dim + 3 vectors of n numbers"

    inner_step_size: Schedule | None = None
    n_lower_steps: int = 5
    subspace_dim: int = 1
    max_subspace_dim: int = 10
    growth: float = 1.3
    growth_every: int = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inner_step_size is not None:
            validate_schedule("inner_step_size", self.inner_step_size)
        for name in ("n_lower_steps", "subspace_dim", "max_subspace_dim", "growth_every"):
            integer(name, getattr(self, name), minimum=1)
        real("growth", self.growth, minimum=1.0)

    def dimension(self, k: int) -> int:
        """Return m of iteration `k`.

        Parameters
        ----------
        k : int
            The iteration.

        Returns
        -------
        int
            At least `subspace_dim`.
        """
        m, largest = self.subspace_dim, max(self.subspace_dim, self.max_subspace_dim)
        for _ in range(k // self.growth_every):
            grown = min(math.ceil(m * self.growth), largest)
            if grown == m:
                break
            m = grown
        return m

    def step(self, view: CountedProblem, state: State, project: FeasibleSet, tol: float) -> State:
        """Do one iteration, which may end the run only where the adjoint residual is exact.

        Parameters
        ----------
        view : CountedProblem
            The oracles.
        state : State
            Where it starts.
        project : FeasibleSet
            The feasible set of x.
        tol : float
            See `DeterministicSolver.step`.

        Returns
        -------
        State
            Where it ends.
        """
        if max(state.norms) <= tol:
            state = dataclasses.replace(state, memory={**state.memory, "basis": None})
        return super().step(view, state, project, tol if self._restarts(state) else -1.0)

    def _restarts(self, state: State) -> bool:
        """Tell whether the basis is to be replaced."""
        basis = state.memory.get("basis")
        if basis is None or basis.exhausted or len(basis.vectors) >= self.dimension(state.nit):
            return True
        # a move that the adaptive rule takes is not slow, and u may have been restored
        return self.step_size is None and iterations_at_rest(state.memory) == 0

    def directions(self, view: CountedProblem, state: State) -> Directions:
        """Take the steps on y, extend the basis and compute u and d_x; see the class.

        Parameters
        ----------
        view : CountedProblem
            The oracles.
        state : State
            The current iterate.

        Returns
        -------
        Directions
            What the upper step needs.
        """
        x, u = state.x, state.u
        inner = InnerStep(self.inner_step_size)
        start = view.lower_model(x, state.y)
        rho, memory = inner.at(state.nit, start.hvp, view.dim_y, view.dtype, state.memory)
        y, d_y, grew = descend(view, x, state.y, rho, self.n_lower_steps)
        size = norm(d_y)
        memory = inner.observe(memory, grew, suspect=self.n_lower_steps == 1 and size > state.norms[1])
        model = view.lower_model(x, y)
        grad_1, grad_2 = view.upper_grad(x, y)
        basis = restarted(model.hvp, u, grad_2) if self._restarts(state) else state.memory["basis"]
        basis, u_new, residual = self._extend(basis, model, grad_2)
        product = model.jvp(u_new)
        return Directions(
            d_x=grad_1 - product,
            y=y,
            u=u_new,
            y_at=y,
            y_change=state.y - y,
            u_change=u - u_new,
            lower_grad_norm=size,
            adjoint_residual=residual,
            upper_grad_norm=norm(grad_2),
            jvp_norm=norm(product),
            correction=0.0,
            value_error=abs(float(np.vdot(u_new, d_y))),
            memory={**memory, "basis": basis},
            lag=lag(self.n_lower_steps, memory),
        )

    @staticmethod
    def _extend(basis: SlowBasis, model: LowerModel, grad_2: Array) -> tuple[SlowBasis, Array, float]:
        """Return the basis with one more vector, u and the adjoint residual."""
        if basis.exhausted:  # ubar is the solution
            return basis, *basis.solution(grad_2)
        longer = basis.extended(model.hvp)
        try:
            return longer, *longer.solution(grad_2)
        except np.linalg.LinAlgError:
            # of a new basis H itself lacks curvature; of an older one H may have moved
            if len(basis.vectors) == 0:
                raise CurvatureError(f"curvature {longer.diagonal[0]:.3g}") from None
            return basis.closed(), *basis.solution(grad_2)

    def cost_per_iteration(self, dim_y: int) -> OracleCounts:
        """Return the oracle calls of one iteration with given step sizes.

        Parameters
        ----------
        dim_y : int
            n.

        Returns
        -------
        OracleCounts
            Those of an iteration with a restart; the others take 1 lower_hvp less.
        """
        return OracleCounts(upper_grad=1, lower_grad_y=self.n_lower_steps, lower_hvp=2, lower_jvp=1)
