"""`minimize`, the one entry point, and the registry of methods."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from nbo.problem import BilevelProblem
from nbo.solvers import REGISTRY, Solver, costs

if TYPE_CHECKING:
    from nbo.initialization import Initializer
    from nbo.result import BilevelResult


@dataclasses.dataclass(frozen=True)
class MethodInfo:
    """What `methods` tells about one method; its text is the description.

    Attributes
    ----------
    name : str
        For ``minimize(method=...)``.
    description : str
        One line.
    options : dict
        Option name -> default.
    solver : type
        The class behind the name.
    """

    name: str
    description: str
    options: dict[str, Any]
    solver: type[Solver]

    @property
    def kind(self) -> str:
        """What a call of an oracle goes over: ``"deterministic"``, all samples, or ``"stochastic"``, a minibatch."""
        return self.solver.kind

    @property
    def needs(self) -> tuple[str, ...]:
        """Optional oracles that the method cannot do without."""
        return self.solver.needs

    @property
    def oracles(self) -> tuple[str, ...]:
        """The oracles that the method calls, without those that only a rule for the step size calls."""
        return costs.oracles(self.solver)

    @property
    def first_order(self) -> bool:
        """Whether it does without second derivatives."""
        return costs.is_first_order(self.solver)

    @property
    def cost(self) -> str:
        """The oracle calls of one iteration, in the symbols T, Q, N and n of `nbo.solvers.costs.COST_SYMBOLS`."""
        return self.solver.cost

    @property
    def cost_note(self) -> str:
        """When that is an upper bound, and what some iterations cost instead; empty where there is nothing to say."""
        return self.solver.cost_note

    @property
    def storage(self) -> str:
        """The numbers that it keeps besides a few vectors; empty where there are none."""
        return self.solver.storage

    @property
    def source(self) -> str:
        """Where the method is from."""
        return self.solver.source

    def __str__(self) -> str:
        return self.description


def methods() -> dict[str, MethodInfo]:
    """Return every method by name.

    Returns
    -------
    dict
        Name -> `MethodInfo` with description, kind, options, oracles, cost and source; the last entry is ``auto``.

    Examples
    --------
    >>> import nbo
    >>> print(nbo.methods()["nbo-gd"])
    Newton directions by T+1 gradient steps (paper, Algorithms 2-3)
    >>> sorted(nbo.methods()["nbo-gd"].options)
    ['eval_every', 'inner_step_size', 'n_inner', 'step_size', 'variant']
    >>> nbo.methods()["nbo-gd"].cost
    '1 upper_grad, 1 lower_grad_y, 2*T+1 lower_hvp, 1 lower_jvp'
    """
    return {name: _describe(name, solver) for name, solver in REGISTRY.items()}


def _describe(name: str, solver: type[Solver]) -> MethodInfo:
    options = {f.name: f.default for f in dataclasses.fields(solver)}
    return MethodInfo(name, solver.description, options, solver)


def minimize(
    problem: BilevelProblem,
    x0: npt.ArrayLike,
    *,
    y0: npt.ArrayLike | None = None,
    u0: npt.ArrayLike | None = None,
    method: str | Solver = "auto",
    tol: float = 1e-5,
    max_iter: int | None = None,
    max_time: float | None = None,
    bounds: Any = None,
    callback: Callable[..., Any] | None = None,
    random_state: Any = None,
    initialization: str | Initializer | None = None,
    options: Mapping[str, Any] | None = None,
) -> BilevelResult:
    """Minimise Phi(x) = f(x, y*(x)) with y*(x) = argmin_y g(x, y).

    Parameters
    ----------
    problem : BilevelProblem
        The two levels and their oracles.
    x0 : array_like
        The start, (m,), inside the bounds; it is not modified.
    y0, u0 : array_like, optional
        Starts of y and of u ~ H^{-1} grad_2 f, (n,); zeros by default.
    method : str or solver, optional
        A name of `nbo.methods`, or a solver object such as ``nbo.NBOGD(step_size=0.1)``. ``"auto"``
        chooses every step and accuracy, see `nbo.Auto`.
    tol : float
        ``"auto"`` has converged when the projected hypergradient norm |x - project(x - d_x)| and
        `hypergrad_error` of the result, a bound or an estimate of how far d_x is from grad Phi(x), are together at
        most `tol`. Any other method has when the projected hypergradient norm |x - project(x - d_x)|, the lower
        gradient norm |grad_2 g| and the adjoint residual |H u - grad_2 f| are all at most `tol`, and so
        is what the errors of y and u may change in d_x, judged by the last changes of y and u (at
        y0 = u0 = 0 d_x is grad_1 f, often zero, and means nothing). That last part is an estimate, good
        to a factor of about two for nearly exact directions and of some tens for gradient inner steps:
        `nbo.hypergradient` certifies a result. Stochastic methods, whose directions are noisy, have no such
        test: they end at a limit.
    max_iter : int, optional
        1000 by default; for stochastic methods 10 epochs, that is passes over the lower-level samples.
    max_time : float, optional
        Seconds of solver time, that is without evaluation, callbacks and compilation; no limit by default.
    bounds : pair or scipy.optimize.Bounds, optional
        Lower and upper bounds of x, which replace the problem's.
    callback : callable, optional
        Called after each evaluated iteration (option `eval_every`); with one parameter named
        ``intermediate_result`` it gets an `OptimizeResult` (x, y, u, fun, nit, counts, hypergrad_norm, ...)
        by keyword, else a copy of x.
        It stops the run by raising `StopIteration` or returning a true value.
    random_state : None, int or numpy.random.Generator
        For stochastic methods: an integer always gives the same run, None a new one. Deterministic ones
        draw nothing.
    initialization : {"box1", "box2"} or nbo.initialization.Initializer, optional
        Before the first iteration, move y and u from y0 and u0 into the box that the convergence theorems ask for, see
        `nbo.initialization.box1` and `nbo.initialization.box2`. It needs the problem's constants, or
        ``nbo.initialization.Box1(constants=...)``, and counts as part of the method.
    options : dict, optional
        Options of the method, such as ``dict(step_size=0.1, inner_step_size=0.03, n_inner=1)``.
        Step sizes that are left out are chosen by the library, but for the `step_size` of stochastic
        methods, which has to be given.

    Returns
    -------
    BilevelResult
        Iterates, value, status with a message, exact oracle counts and history.

    Raises
    ------
    TypeError, ValueError
        For a bad argument, an unknown method or option, a missing oracle, or an oracle that returns a
        wrong shape, or at the start values that are not finite. What an oracle or a callback raises
        itself passes through, and the run is lost; use a callback to keep iterates.
    ArithmeticError
        If the Hessian of g is found not to be positive definite in the first iteration; later that
        ends the run as diverged.

    See Also
    --------
    hypergradient : An accurate hypergradient at one x.
    check_problem : Verifies the oracles first.
    resume : Goes on with a run that ``res.save`` has written.

    Examples
    --------
    >>> import nbo, numpy as np
    >>> problem = nbo.problems.Quadratic.family(n=4, m=2, kappa=10)
    >>> res = nbo.minimize(problem, np.zeros(2), method="nbo-cg", tol=1e-8)
    >>> print(res.status, bool(np.allclose(res.x, problem.x_star())))
    converged True
    """
    solver = _solver(method, options)
    return solver.solve(
        problem,
        x0,
        y0=y0,
        u0=u0,
        tol=tol,
        max_iter=max_iter,
        max_time=max_time,
        bounds=bounds,
        callback=callback,
        random_state=random_state,
        initialization=initialization,
    )


def _solver(method: Any, options: Any) -> Solver:
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"options: found {type(options).__name__}; expected a dict of option names and values")
    if isinstance(method, Solver):
        if options:
            raise ValueError(
                f"options: found {', '.join(map(str, options))} beside a solver object; expected none: "
                f"give them to {type(method).__name__}(...)"
            )
        return method
    solver = _lookup(method)
    known = [f.name for f in dataclasses.fields(solver)]
    unknown = [str(name) for name in options or {} if name not in known]
    if unknown:
        raise ValueError(
            f"options: method {method!r} has no option {', '.join(map(repr, unknown))}; "
            f"it has {', '.join(sorted(known))}"
        )
    return solver(**(options or {}))


def _lookup(method: Any) -> type[Solver]:
    if not isinstance(method, str):
        raise TypeError(f"method: found {type(method).__name__}; expected a name of nbo.methods() or a solver object")
    if method not in REGISTRY:
        near = difflib.get_close_matches(method.lower().replace("_", "-"), REGISTRY, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"method: found {method!r}; {hint}expected one of {', '.join(REGISTRY)}")
    return REGISTRY[method]
