"""SHINE: the inverse Hessian that L-BFGS has built on the way to y also gives u."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._validation import choice, flag, integer, real
from nbo._vectors import norm
from nbo.feasible_sets import FeasibleSet
from nbo.lbfgs import LBFGS, TRIALS, Extra, LowerMinimum, Point
from nbo.linear_solvers import ConjugateGradient, CurvatureError
from nbo.oracles import CountedProblem, NonFiniteOracleError, OracleCounts, sample_sizes
from nbo.problem import BilevelProblem, LowerModel
from nbo.quasi_newton import MEMORY, Pairs, inverse_product
from nbo.sampling import (
    B2,
    B3,
    EPOCH,
    Stream,
    batch_size,
    draw,
    integer_state,
    make_streams,
    seed_of,
    shuffled,
    validate_batch_size,
)
from nbo.schedules import validate_schedule
from nbo.solvers.base import DEFAULT_MAX_ITER, DeterministicSession, DeterministicSolver
from nbo.solvers.driver import Limits, Session, State
from nbo.solvers.stochastic import EPOCHS, EVALUATIONS
from nbo.upper_steps import ROUNDING, Directions

Array = npt.NDArray[Any]

#: The batch size where it is left out, as in the experiments of the NBO paper.
BATCH_SIZE = 256


class _Adjoint(NamedTuple):
    """u, and of the products that were made H u_0 - grad_2 f, |H u - grad_2 f| and the pair (u_0, H u_0)."""

    u: Array
    d_u: Array | None = None
    residual: float = math.nan
    pair: tuple[Array, Array] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class SHINE(DeterministicSolver):
    """SHINE (Ramzi et al., 2022): u = B grad_2 f with the inverse Hessian B of the L-BFGS pairs that led to y.

    y: Q iterations of L-BFGS on g(x, .) with a strong Wolfe line search from the last y, which leave secant pairs
    (s, r). u = B grad_2 f at the new y, by the two-loop recursion with the initial matrix s'r/r'r I of the newest
    pair, and `refinement` steps of conjugate gradients from there. x <- project(x - alpha (grad_1 f - J u)) at the
    new y and u.

    On minibatches an iteration draws one lower and one upper batch, on which all of it works. Nothing then tells how
    good u is: there is no test of convergence, `adjoint_residual` is NaN without `refinement`, and `step_size` has to
    be given. Where the batches hold all samples, 1 lower_hvp an iteration measures |H u - grad_2 f|, the run is
    deterministic, and `tol` and the adaptive step work as for other methods.

    The bias: B is accurate along the steps of y alone, so the paper's u keeps an error, and the method goes to a point
    where grad_1 f - J u is zero rather than to a stationary point of Phi. With all samples the pair (u, H u) of the
    product that measures the residual is kept as well (`reuse_product`), in a memory of its own; in u these pairs stand
    after those of y, so that B takes H u to u, and u goes on to H^{-1} grad_2 f by quasi-Newton steps. The method then
    converges, where H is not too badly conditioned for such steps without a line search. Refinement and OPA reduce
    the error on minibatches. With ``inverse="identity"`` u = grad_2 f, whatever the scale of H, and the bias stays.

    Costs per iteration at most: 1 upper_grad, 30 Q + 1 lower_value, 30 Q + 1 lower_grad_y, usually Q + 1 of both,
    1 lower_jvp, and with all samples 1 lower_hvp. Refinement adds `refinement` lower_hvp (and on minibatches the one
    for the first residual), OPA Q//opa_every lower_grad_y and upper_grad.

    Parameters
    ----------
    step_size : float or callable, optional
        alpha, or a schedule k -> alpha; left out, with all samples the adaptive rule `nbo.upper_steps.AdaptiveStep`.
    eval_every : int, optional
        Iterations between two evaluations of f over all samples; by default 1 with all samples, and on minibatches a
        twentieth of `max_iter` (which is 10 epochs by default).
    n_lower_steps : int
        Q; 5 (the NBO paper's experiments).
    memory : int
        Secant pairs that are kept of y, and of `reuse_product`; 10 (a practical value).
    initial_step : float
        The first trial of each line search, in units of B grad_2 g; 1, Newton's (the NBO paper searches it on a grid).
    inverse : {"lbfgs", "identity"}
        What approximates H^{-1} in u; the identity is the Jacobian-free method.
    refinement : int
        Steps of conjugate gradients on H u = grad_2 f from that u; 0 (an option of the paper).
    opa_every : int, optional
        Outer-problem awareness: after every so many L-BFGS iterations an extra secant pair s = t B grad_2 f,
        r = grad_2 g(x, y + s) - grad_2 g(x, y), with |s| the length of the last step. None by default. The direction
        and the length are unverified at the original source.
    keep_pairs : bool, optional
        Whether the pairs of an iteration are kept for the next one. Left out, with all samples, as H moves slowly, and
        not on minibatches, where each has another H (choices of this library).
    reuse_product : bool
        Whether (u, H u) is kept as a secant pair, where that product is made and pairs are kept. True (this library's
        addition); False is the method of the paper.
    batch_size : int or "full", optional
        The size of both batches; 256 by default (the NBO paper's experiments), capped at the number of samples.
        Batches are blocks of the shuffled samples, in a fresh order each epoch (`nbo.sampling.SAMPLERS`, "epoch").
    """

    name: ClassVar[str] = "shine"
    description: ClassVar[str] = "u from the inverse Hessian of the L-BFGS steps on y (Ramzi et al., 2022)"
    source: ClassVar[str] = (
        "Ramzi, Mannel, Bai, Starck, Ciuciu and Moreau, 2022, SHINE: SHaring the INverse Estimate from the forward "
        "pass for bi-level optimization and implicit models (ICLR)"
    )
    cost: ClassVar[str] = "1 upper_grad, 30*Q+1 lower_value, 30*Q+1 lower_grad_y, 1 lower_hvp, 1 lower_jvp"
    cost_note: ClassVar[str] = (
        "at most; usually 1 lower_value and 1 lower_grad_y a step of L-BFGS; no lower_hvp on batches"
    )
    storage: ClassVar[str] = "4*memory vectors of n numbers"
    kind: ClassVar[str] = "deterministic or on batches"

    eval_every: int | None = None  # type: ignore[assignment]  # as for stochastic methods, it depends on the batches
    n_lower_steps: int = 5
    memory: int = MEMORY
    initial_step: float = 1.0
    inverse: str = "lbfgs"
    refinement: int = 0
    opa_every: int | None = None
    keep_pairs: bool | None = None
    reuse_product: bool = True
    batch_size: int | str | None = None

    def __post_init__(self) -> None:
        if self.step_size is not None:
            validate_schedule("step_size", self.step_size)
        for name in ("n_lower_steps", "memory"):
            integer(name, getattr(self, name), minimum=1)
        integer("refinement", self.refinement)
        if self.eval_every is not None:
            integer("eval_every", self.eval_every, minimum=1)
        if self.opa_every is not None:
            integer("opa_every", self.opa_every, minimum=1, maximum=self.n_lower_steps)
        real("initial_step", self.initial_step, positive=True)
        choice("inverse", self.inverse, ("lbfgs", "identity"))
        flag("reuse_product", self.reuse_product)
        if self.keep_pairs is not None:
            flag("keep_pairs", self.keep_pairs)
        if self.batch_size is not None:
            validate_batch_size("batch_size", self.batch_size)

    def streams(self, problem: BilevelProblem) -> list[Stream]:
        """Return the streams of both batches, in the roles that shared batches have elsewhere.

        Parameters
        ----------
        problem : BilevelProblem
            For the numbers of samples.

        Returns
        -------
        list of Stream
            B1 (not drawn), B2 (all of g) and B3 (all of f).

        Raises
        ------
        ValueError
            If an explicit size is larger than a level.
        """

        def stream(level: str, draws: int) -> Stream:
            n = sizes[level]
            size = min(BATCH_SIZE, n) if self.batch_size is None else batch_size("batch_size", self.batch_size, n)
            return Stream(level, n, size, draws)

        sizes = sample_sizes(problem)
        return [stream("lower", 0), stream("lower", 1), stream("upper", 1)]

    def limits(self, problem: BilevelProblem, tol: float, max_iter: int | None, max_time: float) -> Limits:
        """Return the limits, on minibatches 10 epochs and 20 evaluations by default; see `Solver.limits`."""
        streams = self.streams(problem)
        if _hold_all(streams):
            return Limits(tol, DEFAULT_MAX_ITER if max_iter is None else max_iter, max_time, self.eval_every or 1)
        max_iter = EPOCHS * streams[B2].blocks if max_iter is None else max_iter
        return Limits(None, max_iter, max_time, self.eval_every or max(1, math.ceil(max_iter / EVALUATIONS)))

    def session(
        self, problem: BilevelProblem, start: State, feasible: FeasibleSet, limits: Limits, random_state: Any
    ) -> tuple[Session, State]:
        """Set to work, on all samples or on minibatches; see `Solver.session`."""
        streams = self.streams(problem)
        if _hold_all(streams):
            return super().session(problem, start, feasible, limits, random_state)
        if self.step_size is None:
            raise ValueError(
                f"step_size: method {self.name!r} needs one on minibatches (here {streams[B2].size} of {streams[B2].n} "
                f"lower and {streams[B3].size} of {streams[B3].n} upper samples); expected a positive number or a "
                "schedule such as nbo.schedules.PowerDecay(0.1), or batch_size='full'"
            )
        if "random_state" not in start.memory:
            start = dataclasses.replace(start, memory={"random_state": integer_state(random_state)})
        return MinibatchSession(self, CountedProblem(problem), feasible, streams, start.memory["random_state"]), start

    def directions(self, view: CountedProblem, state: State) -> Directions:
        """Take the steps on y and read u off their pairs; see the class.

        Parameters
        ----------
        view : CountedProblem
            The oracles.
        state : State
            The current iterate.

        Returns
        -------
        Directions
            What the upper step needs, at the point of `d_x`.
        """
        x, whole = state.x, "random_state" not in state.memory
        keep = whole if self.keep_pairs is None else self.keep_pairs
        # pairs beyond that would be rounding errors
        tol = ROUNDING * float(np.finfo(view.dtype).eps) * state.scales.lower_grad
        lbfgs = LBFGS(self.n_lower_steps, tol, self.memory, self.initial_step)
        pairs, products = state.memory.get("pairs", ()), state.memory.get("products", ())
        found = lbfgs.minimize(view, x, state.y, pairs, self._awareness(view, x, lbfgs))
        point = found.point
        grad_1, grad_2 = view.upper_grad(x, point.y)
        adjoint = self._adjoint(point.model, (*found.pairs, *products), grad_2, measured=whole)
        u, product = adjoint.u, point.model.jvp(adjoint.u)
        memory = {**state.memory, "pairs": found.pairs} if keep else state.memory
        if keep and self.reuse_product and self.inverse == "lbfgs" and adjoint.pair is not None:
            memory = {**memory, "products": lbfgs.with_pair(products, *adjoint.pair)}
        return Directions(
            d_x=grad_1 - product,
            y=point.y,
            u=u,
            y_at=point.y,
            y_change=state.y - point.y,
            u_change=state.u - u,
            lower_grad_norm=point.grad_norm,
            adjoint_residual=adjoint.residual,
            upper_grad_norm=norm(grad_2),
            jvp_norm=norm(product),
            correction=float(u @ point.grad),
            value_error=self._value_error(found, adjoint),
            memory=memory,
        )

    def _adjoint(self, model: LowerModel, pairs: Pairs, grad_2: Array, measured: bool) -> _Adjoint:
        """Return u = B grad_2 f, refined, and measured by a product where that is wanted."""
        u = grad_2.copy() if self.inverse == "identity" else inverse_product(pairs, grad_2)
        if not (measured or self.refinement):
            return _Adjoint(u)
        product = model.hvp(u[None])[0]
        _require_curvature(u, product)
        d_u = product - grad_2
        if not self.refinement:
            return _Adjoint(u, d_u, norm(d_u), (u, product))
        solution = ConjugateGradient(self.refinement).solve(model.hvp, d_u[None])
        return _Adjoint(u - solution.solution[0], d_u, float(solution.residual_norms[0]), (u, product))

    @staticmethod
    def _value_error(found: LowerMinimum, adjoint: _Adjoint) -> float:
        """Estimate the error of f - u' grad_2 g by what B makes of the residuals; NaN where there is none."""
        if adjoint.d_u is None:
            return math.nan
        grad = found.point.grad
        w, v = inverse_product(found.pairs, adjoint.d_u), inverse_product(found.pairs, grad)
        return abs(float(w @ grad)) + abs(float(adjoint.u @ grad)) * norm(v) / (norm(found.point.y) or 1.0)

    def _awareness(self, view: CountedProblem, x: Array, lbfgs: LBFGS) -> Extra | None:
        """Return what adds the pairs of outer-problem awareness."""
        every = self.opa_every
        if every is None:
            return None

        def extra(k: int, point: Point, pairs: Pairs, length: float) -> Pairs:
            if k % every:
                return pairs
            direction = inverse_product(pairs, view.upper_grad(x, point.y)[1])
            size = norm(direction)
            if not size > 0:
                return pairs
            # a shorter difference of gradients would be rounding error
            shortest = math.sqrt(float(np.finfo(view.dtype).eps)) * max(norm(point.y), 1.0)
            y = point.y + view.dtype.type(max(length, shortest) / size) * direction
            try:
                grad = view.lower_model(x, y).grad_y()
            except NonFiniteOracleError:
                return pairs
            return lbfgs.with_pair(pairs, y - point.y, grad - point.grad)

        return extra

    def cost_per_iteration(self, dim_y: int) -> OracleCounts:
        """Return the most oracle calls of one iteration with given step sizes.

        Parameters
        ----------
        dim_y : int
            n.

        Returns
        -------
        OracleCounts
            Upper bounds; see the class. On minibatches without refinement there is no lower_hvp.
        """
        points = TRIALS * self.n_lower_steps + 1
        extra = 0 if self.opa_every is None else self.n_lower_steps // self.opa_every
        return OracleCounts(
            upper_grad=1 + extra,
            lower_value=points,
            lower_grad_y=points + extra,
            lower_hvp=1 + self.refinement,
            lower_jvp=1,
        )


def _require_curvature(u: Array, product: Array) -> None:
    """Raise if a product shows, beyond rounding, that H is not positive definite."""
    curvature = float(u @ product)
    rounding = ROUNDING * float(np.finfo(u.dtype).eps) * norm(u) * norm(product)
    if curvature < -rounding or (u.any() and not product.any()):
        raise CurvatureError(f"curvature {curvature / float(u @ u):.3g}")


def _hold_all(streams: list[Stream]) -> bool:
    """Tell whether every batch holds all samples of its level."""
    return all(stream.size == stream.n for stream in streams)


class MinibatchSession(DeterministicSession):
    """A method whose iterations work on one lower and one upper batch each, at work.

    Parameters
    ----------
    solver : SHINE
        The method.
    view : CountedProblem
        What it calls.
    feasible : FeasibleSet
        The feasible set of x.
    streams : list of Stream
        Of `SHINE.streams`.
    random_state : int
        From `nbo.sampling.integer_state`.
    """

    def __init__(
        self,
        solver: SHINE,
        view: CountedProblem,
        feasible: FeasibleSet,
        streams: list[Stream],
        random_state: int,
    ) -> None:
        super().__init__(solver, view, feasible, tol=-1.0)  # noise may fall below any tolerance
        self._random_state = random_state
        seed = seed_of(random_state)
        self._streams = make_streams(EPOCH, seed, streams, wraps=True)
        self._orders: Mapping[int, Array] = {
            role: shuffled(seed, streams[role].level, streams[role].n) for role in (B2, B3)
        }

    def advance(self, state: State, until: int) -> State:
        """Draw both batches and do one iteration on them; see `Session.advance`."""
        view = self._view.over_samples(self._rows(B2, state.nit), self._rows(B3, state.nit))
        return self._solver.step(view, state, self._feasible, self._tol)

    def _rows(self, role: int, k: int) -> Array:
        batch = draw(self._streams, role, k)
        return self._orders[role][batch.lo : batch.hi]

    def chosen(self) -> dict[str, Any]:
        """Return the random state as an integer; see `Session.chosen`."""
        return {"random_state": self._random_state}
