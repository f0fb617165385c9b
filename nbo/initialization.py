"""Starting points from which the convergence theorems hold: BOX 1 and BOX 2 (paper, Appendix D).

Each routine is a generator that yields the iterate after each step, so that a run can end it between two of them.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import numpy.typing as npt

from nbo._display import Printed
from nbo._validation import integer, real, real_array
from nbo._vectors import norm
from nbo.feasible_sets import feasible_set
from nbo.oracles import CountedProblem, OracleCounts, finite_or_named
from nbo.problem import BilevelProblem, FiniteSumProblem
from nbo.sampling import integer_state
from nbo.theory import boxes
from nbo.theory.constants import ProblemConstants, constants_of, required, times

__all__ = [
    "Box1",
    "Box2",
    "Initialization",
    "Initializer",
    "Membership",
    "box1",
    "box2",
    "in_box1",
    "in_box2",
]

Array = npt.NDArray[Any]

#: The most steps of a routine, unless asked for otherwise: more of them mean constants that are of no use.
MAX_STEPS = 10**7

#: The most samples that BOX 2 may go over.
MAX_SAMPLES = 10**9

#: Indices drawn at a time.
_CHUNK = 2**18


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Membership(Printed):
    """What can be computed about how far (y, u) is from (y*, u*), against the radii of a box (errata A6).

    Attributes
    ----------
    inside : bool
        Whether both bounds are at most the radii; False says that membership is not certified, not that it fails.
    y_bound, y_radius : float
        |grad_2 g|/mu, a bound of |y - y*(x)|, and what the box allows.
    u_bound, u_radius : float
        |H u - grad_2 f|/mu + L1 |grad_2 g|/mu^2, a bound of |u - u*(x)|, and what the box allows.
    kind : str
        ``"bound"``, or ``"estimate"`` as the constants are.
    """

    inside: bool
    y_bound: float
    y_radius: float
    u_bound: float
    u_radius: float
    kind: str

    def __bool__(self) -> bool:
        return self.inside


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Initialization(Printed):
    """A start found by BOX 1 or BOX 2.

    Attributes
    ----------
    x, y, u : ndarray
        The start, (m,), (n,), (n,), float64.
    N_0, Q_0 : int
        Steps on y and on u by the formulas of the paper, corrected.
    n_linear_steps : int
        Steps on u that were done: `Q_0`, or more where the certificate needs them.
    beta_0 : float
        Their size.
    batches : nbo.theory.boxes.Batches or None
        Samples a step, of BOX 2.
    membership : Membership
        The certificate. For BOX 2, whose box is one of expectations, it is about this one draw.
    counts, samples : OracleCounts
        The oracle calls, and the component samples that they went over.
    """

    x: Array
    y: Array
    u: Array
    N_0: int
    Q_0: int
    n_linear_steps: int
    beta_0: float
    batches: boxes.Batches | None
    membership: Membership
    counts: OracleCounts
    samples: OracleCounts


#: A routine at work: it yields (y, u) and returns the outcome.
Steps = Generator[tuple[Array, Array], None, Initialization]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Initializer(abc.ABC):
    """A routine for ``nbo.minimize(..., initialization=...)``.

    Parameters
    ----------
    constants : ProblemConstants, optional
        By default those that the problem has, over the bounds of x.
    beta_0 : float, optional
        The step on y and u, at most 1/L_g1, which is the default (errata E1).
    delta : float
        The unit of f in the radii of the box (errata A10).
    max_steps : int
        The most steps on y, or on u.
    """

    constants: ProblemConstants | None = None
    beta_0: float | None = None
    delta: float = 1.0
    max_steps: int = MAX_STEPS

    def __post_init__(self) -> None:
        if self.constants is not None:
            required(self.constants)
        if self.beta_0 is not None:
            real("beta_0", self.beta_0, positive=True)
        real("delta", self.delta, positive=True)
        integer("max_steps", self.max_steps, minimum=1)

    def steps(self, view: CountedProblem, start: tuple[Array, Array, Array], bounds: Any, random_state: Any) -> Steps:
        """Work towards the box.

        Parameters
        ----------
        view : CountedProblem
            The oracles.
        start : tuple of ndarray
            x, y and u.
        bounds : pair or None
            The region of x for the constants; the problem's bounds by default.
        random_state : None, int or numpy.random.Generator
            For BOX 2.

        Returns
        -------
        Initialization
            The outcome.

        Yields
        ------
        tuple of ndarray
            y and u after each step.
        """
        constants = constants_of(view.problem, bounds, self.constants)
        beta = boxes.inner_step("beta_0", self.beta_0, constants, "E1")
        return self._work(view, start, constants, beta, random_state)

    @abc.abstractmethod
    def _work(
        self,
        view: CountedProblem,
        start: tuple[Array, Array, Array],
        constants: ProblemConstants,
        beta: float,
        random_state: Any,
    ) -> Steps: ...

    def _few(self, name: str, steps: int) -> int:
        if steps > self.max_steps:
            raise ValueError(
                f"max_steps: {name} is {steps:,} with these constants; expected at most {self.max_steps:,}: allow "
                "more, or find tighter constants (narrower bounds of x)"
            )
        return steps


class Box1(Initializer):
    """BOX 1 with full gradients; see `box1`, which has the same parameters.

    Parameters
    ----------
    constants : ProblemConstants, optional
        By default those that the problem has, over the bounds of x.
    beta_0 : float, optional
        The step on y and u, at most 1/L_g1, which is the default (errata E1).
    delta : float
        The unit of f in the radii of the box (errata A10).
    max_steps : int
        The most steps on y, or on u.
    """

    def _work(
        self,
        view: CountedProblem,
        start: tuple[Array, Array, Array],
        constants: ProblemConstants,
        beta: float,
        random_state: Any,
    ) -> Steps:
        x, y, u = start
        step = view.dtype.type(beta)
        gradient = view.lower_model(x, y).grad_y()
        _require_size("y0", "|grad_2 g|", norm(gradient))
        N_0 = self._few("N_0", boxes.box1_lower_steps(constants, norm(gradient), beta, self.delta))
        for _ in range(N_0):
            y = y - step * gradient
            gradient = view.lower_model(x, y).grad_y()
            yield y, u
        model, grad_2 = view.lower_model(x, y), view.upper_grad(x, y)[1]
        residual = (model.hvp(u[None])[0] if u.any() else 0) - grad_2
        _require_size("u0", "|H u - grad_2 f|", norm(residual) + norm(u))
        Q_0 = boxes.box1_linear_steps(constants, norm(u), norm(gradient), beta, self.delta, norm(residual))
        certain = self._certain_steps(constants, norm(residual), norm(gradient), beta)
        n_linear_steps = self._few("Q_0", max(Q_0, certain))
        for _ in range(n_linear_steps):
            u = u - step * residual
            residual = model.hvp(u[None])[0] - grad_2
            yield y, u
        radii = boxes.box1(constants, self.delta)
        membership = _membership(constants, radii, norm(gradient), norm(residual))
        return _outcome(view, (x, y, u), (N_0, Q_0, n_linear_steps), beta, None, membership)

    def _certain_steps(self, constants: ProblemConstants, residual: float, grad_norm: float, beta: float) -> int:
        """Return after how many steps the computable bound of |u - u*| is small enough, 0 if that is hopeless."""
        left = boxes.box1(constants, self.delta).u - _drift(constants, grad_norm)
        if left <= 0:
            return 0
        return boxes.steps_until(constants.mu * left, residual, boxes.log_rate(beta, constants))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Box2(Initializer):
    """BOX 2 with minibatches; see `box2`, which has the same parameters.

    Parameters
    ----------
    constants : ProblemConstants, optional
        By default those that the problem has, over the bounds of x.
    beta_0 : float, optional
        The step on y and u, at most 1/L_g1, which is the default (errata E1).
    delta : float
        The unit of f in the radii of the box (errata A10).
    max_steps : int
        The most steps on y, or on u.
    max_samples : int
        The most samples that all batches together may have.
    """

    max_samples: int = MAX_SAMPLES

    def __post_init__(self) -> None:
        super().__post_init__()
        integer("max_samples", self.max_samples, minimum=1)

    def _work(
        self,
        view: CountedProblem,
        start: tuple[Array, Array, Array],
        constants: ProblemConstants,
        beta: float,
        random_state: Any,
    ) -> Steps:
        if not isinstance(view.problem, FiniteSumProblem):
            raise TypeError(f"problem: found {type(view.problem).__name__}; expected a FiniteSumProblem for BOX 2")
        x, y, u = start
        draws = _Draws(view, np.random.default_rng(integer_state(random_state)))
        step = view.dtype.type(beta)
        before = norm(view.lower_model(x, y).grad_y())
        _require_size("y0", "|grad_2 g|", before)
        _require_size("u0", "|u|", norm(u))
        N_0 = self._few("N_0", boxes.box2_lower_steps(constants, before, beta, self.delta))
        size = boxes.box2_gradient_batch(constants, beta, self.delta)
        self._affordable("N_0 |B_{0,n}|", N_0 * size)
        for _ in range(N_0):
            y = y - step * (yield from draws.lower_grad_y(x, (y, u), size))
            yield y, u
        gradient = norm(view.lower_model(x, y).grad_y())
        Q_0 = self._few("Q_0", boxes.box2_linear_steps(constants, norm(u), gradient, beta, self.delta))
        batches = boxes.box2_batches(constants, gradient, beta, self.delta)
        self._affordable("Q_0 (|B_{0,q}| + |B'_{0,q}|)", Q_0 * (batches.hessian + batches.upper))
        for _ in range(Q_0):
            product = yield from draws.lower_hvp(x, (y, u), batches.hessian)
            u = u - step * (product - (yield from draws.upper_grad_y(x, (y, u), batches.upper)))
            yield y, u
        residual = view.lower_model(x, y).hvp(u[None])[0] - view.upper_grad(x, y)[1]
        membership = _membership(constants, boxes.box2(constants, self.delta), gradient, norm(residual))
        return _outcome(view, (x, y, u), (N_0, Q_0, Q_0), beta, batches, membership)

    def _affordable(self, what: str, samples: int) -> None:
        if samples > self.max_samples:
            raise ValueError(
                f"max_samples: {what} is {samples:,} with these constants; expected at most {self.max_samples:,}: "
                "allow more, or use box1, which goes over all samples"
            )


#: A mean in the making: it yields the unchanged (y, u) after each part.
_Mean = Generator[tuple[Array, Array], None, Array]


class _Draws:
    """Means over batches drawn with replacement."""

    def __init__(self, view: CountedProblem, random: np.random.Generator) -> None:
        self._view, self._random = view, random

    def lower_grad_y(self, x: Array, at: tuple[Array, Array], size: int) -> _Mean:
        return self._mean("lower", at, size, lambda batch: self._lower(batch).lower_model(x, at[0]).grad_y())

    def lower_hvp(self, x: Array, at: tuple[Array, Array], size: int) -> _Mean:
        y, u = at
        return self._mean("lower", at, size, lambda batch: self._lower(batch).lower_model(x, y).hvp(u[None])[0])

    def upper_grad_y(self, x: Array, at: tuple[Array, Array], size: int) -> _Mean:
        return self._mean("upper", at, size, lambda batch: self._upper(batch).upper_grad(x, at[0])[1])

    def _lower(self, batch: Array) -> CountedProblem:
        return self._view.over_samples(batch, None)

    def _upper(self, batch: Array) -> CountedProblem:
        return self._view.over_samples(None, batch)

    def _mean(self, level: str, at: tuple[Array, Array], size: int, oracle: Callable[[Array], Array]) -> _Mean:
        """Return the mean of an oracle over `size` draws, in chunks of a bounded size."""
        n, total = getattr(self._view.problem, f"n_samples_{level}"), np.zeros(self._view.dim_y)
        for start in range(0, size, _CHUNK):
            batch = self._random.integers(n, size=min(_CHUNK, size - start))
            total += len(batch) / size * oracle(batch)
            if start + _CHUNK < size:
                yield at
        return total.astype(self._view.dtype)


#: Names for ``nbo.minimize(..., initialization=NAME)``.
INITIALIZERS: dict[str, type[Initializer]] = {"box1": Box1, "box2": Box2}


def initializer(value: Any) -> Initializer | None:
    """Return the routine that an argument `initialization` means.

    Parameters
    ----------
    value : None, str or Initializer
        What was given.

    Returns
    -------
    Initializer or None
        None for none.

    Raises
    ------
    TypeError, ValueError
        For anything else.
    """
    if value is None or isinstance(value, Initializer):
        return value
    if isinstance(value, str):
        if value not in INITIALIZERS:
            raise ValueError(f"initialization: found {value!r}; expected {' or '.join(map(repr, INITIALIZERS))}")
        return INITIALIZERS[value]()
    raise TypeError(f"initialization: found {type(value).__name__}; expected 'box1', 'box2', Box1(...) or Box2(...)")


def box1(
    problem: BilevelProblem,
    x0: npt.ArrayLike,
    constants: ProblemConstants | None = None,
    *,
    y0: npt.ArrayLike | None = None,
    u0: npt.ArrayLike | None = None,
    beta_0: float | None = None,
    delta: float = 1.0,
    max_steps: int = MAX_STEPS,
) -> Initialization:
    """Find y and u near y*(x0) and u*(x0) by gradient steps with all samples (paper, BOX 1; errata E1, E8).

    y <- y - beta_0 grad_2 g(x0, y) for N_0 steps, then u <- u - beta_0 (H u - grad_2 f) for Q_0 steps; N_0 and Q_0 are
    such that |y - y*| <= min(mu/(2 L_g2), 1/(2 sqrt L1)) and |u - u*| <= min(5 L1/(2 L_g2), sqrt(L1)/mu). Where these
    Q_0 steps do not suffice for the computable certificate (errata A6), as many more are done as do.

    Parameters
    ----------
    problem : BilevelProblem
        The problem.
    x0 : array_like
        The upper point, (m,).
    constants : ProblemConstants, optional
        By default those that the problem has, over its bounds of x. They have to hold at x0, and mu and the bound of
        nabla_22^2 g for every y on the way.
    y0, u0 : array_like, optional
        The points before the steps, (n,) each; zeros by default.
    beta_0 : float, optional
        The step, at most 1/L_g1, which is the default.
    delta : float
        The unit of f in the radii of the box (errata A10).
    max_steps : int
        The most steps on y, or on u.

    Returns
    -------
    Initialization
        The start with its certificate, for ``nbo.minimize(problem, x0, y0=start.y, u0=start.u)``. It costs N_0 + 1
        lower_grad_y, 1 upper_grad and `n_linear_steps` lower_hvp, 1 more unless u0 = 0.

    Raises
    ------
    NoConstantsError
        If the problem has no constants.
    TypeError, ValueError
        For a bad argument, more than `max_steps` steps, or an oracle that is not finite.

    Examples
    --------
    >>> import nbo, numpy as np
    >>> problem = nbo.problems.Quadratic.family(n=5, m=3, kappa=10)
    >>> start = nbo.initialization.box1(problem, np.zeros(3))
    >>> start.membership.inside, start.counts.lower_grad_y == start.N_0 + 1
    (True, True)
    """
    routine = Box1(constants=constants, beta_0=beta_0, delta=delta, max_steps=max_steps)
    return _finished(routine, problem, x0, y0, u0, None)


def box2(
    problem: BilevelProblem,
    x0: npt.ArrayLike,
    constants: ProblemConstants | None = None,
    *,
    y0: npt.ArrayLike | None = None,
    u0: npt.ArrayLike | None = None,
    beta_0: float | None = None,
    delta: float = 1.0,
    max_steps: int = MAX_STEPS,
    max_samples: int = MAX_SAMPLES,
    random_state: Any = None,
) -> Initialization:
    """Find y and u that are near y*(x0) and u*(x0) on average, by minibatch steps (paper, BOX 2; errata E4, A7).

    The steps of `box1` with means over fresh batches drawn with replacement, so large that
    E|y - y*|^2 <= min(mu^2/(20 r L_g2^2), 1/(4 L1)) and E|u - u*|^2 <= min(4 L1^2/(5 r L_g2^2), L1/mu^2).

    Parameters
    ----------
    problem : FiniteSumProblem
        The problem.
    x0 : array_like
        The upper point, (m,).
    constants : ProblemConstants, optional
        With the deviations of single samples; by default those that the problem has.
    y0, u0 : array_like, optional
        The points before the steps, (n,) each; zeros by default.
    beta_0 : float, optional
        The step, at most 1/L_g1, which is the default.
    delta : float
        The unit of f in the radii of the box (errata A10).
    max_steps : int
        The most steps on y, or on u.
    max_samples : int
        The most samples that all batches of the steps on y, or of those on u, may have: theory asks for very many.
    random_state : None, int or numpy.random.Generator
        An integer always gives the same start.

    Returns
    -------
    Initialization
        The start. It costs 2 lower_grad_y, 1 upper_grad and 1 lower_hvp over all samples for the numbers of steps and
        the certificate (errata A7), and N_0 lower_grad_y, Q_0 upper_grad and Q_0 lower_hvp over batches; a batch of
        more than 262,144 samples takes several calls.

    Raises
    ------
    NoConstantsError
        If the problem has no constants, or no deviations of single samples.
    TypeError, ValueError
        For a bad argument, too many steps or samples, or an oracle that is not finite.
    """
    routine = Box2(constants=constants, beta_0=beta_0, delta=delta, max_steps=max_steps, max_samples=max_samples)
    return _finished(routine, problem, x0, y0, u0, random_state)


def in_box1(
    problem: BilevelProblem,
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    u: npt.ArrayLike,
    constants: ProblemConstants | None = None,
    *,
    delta: float = 1.0,
) -> Membership:
    """Tell whether (y, u) is certified to lie in BOX 1 at x (paper, Section 3.2; errata A6).

    Parameters
    ----------
    problem : BilevelProblem
        The problem.
    x, y, u : array_like
        The point, (m,), (n,), (n,).
    constants : ProblemConstants, optional
        By default those that the problem has, over its bounds of x.
    delta : float
        The unit of f in the radii of the box (errata A10).

    Returns
    -------
    Membership
        True as a condition if it is certified. It costs 1 lower_grad_y, 1 lower_hvp and 1 upper_grad.

    Raises
    ------
    NoConstantsError
        If the problem has no constants.
    TypeError, ValueError
        For a bad argument, or an oracle that is not finite.
    """
    return _judged(problem, x, y, u, constants, boxes.box1, delta)


def in_box2(
    problem: BilevelProblem,
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    u: npt.ArrayLike,
    constants: ProblemConstants | None = None,
    *,
    delta: float = 1.0,
) -> Membership:
    """Tell whether draws of (y, u) lie in BOX 2 at x, as far as their mean squares show (paper, Section 3.3).

    Parameters
    ----------
    problem : BilevelProblem
        The problem.
    x : array_like
        The upper point, (m,).
    y, u : array_like
        One draw, (n,) each, or several in rows, (k, n) each: the box is one of expectations, which a mean over few
        draws estimates only.
    constants : ProblemConstants, optional
        By default those that the problem has, over its bounds of x.
    delta : float
        The unit of f in the radii of the box (errata A10).

    Returns
    -------
    Membership
        Of root mean squares over the draws. It costs 1 lower_grad_y, 1 lower_hvp and 1 upper_grad a draw.

    Raises
    ------
    NoConstantsError
        If the problem has no constants.
    TypeError, ValueError
        For a bad argument, or an oracle that is not finite.
    """
    return _judged(problem, x, y, u, constants, boxes.box2, delta)


def _judged(
    problem: BilevelProblem,
    x: Any,
    y: Any,
    u: Any,
    constants: ProblemConstants | None,
    radii: Callable[[ProblemConstants, float], boxes.Radii],
    delta: float,
) -> Membership:
    """Return the membership of the root mean square of one draw or several."""
    view = CountedProblem(problem)
    upper = view.upper_point("x", x)
    feasible_set(problem, view.dim_x, None, upper)
    wanted = f"a vector of shape ({view.dim_y},) (dim_y)"
    rows = [np.atleast_2d(real_array(name, values, wanted)) for name, values in (("y", y), ("u", u))]
    several = radii is not boxes.box1
    if rows[0].ndim != 2 or len(rows[0]) != len(rows[1]) or len(rows[0]) < 1 or (len(rows[0]) > 1 and not several):
        many = f", or (k, {view.dim_y}) each" if several else ""
        raise ValueError(f"y, u: found shapes {np.shape(y)} and {np.shape(u)}; expected ({view.dim_y},) each{many}")
    c = constants_of(problem, given=constants)
    squares = np.zeros(2)
    for y_row, u_row in zip(*rows, strict=True):
        at, adjoint = view.lower_point("y", y_row), view.lower_point("u", u_row)
        with finite_or_named():
            gradient, product = view.lower_model(upper, at).grad_y_and_hvp(adjoint)
            residual = norm(product - view.upper_grad(upper, at)[1])
        squares += np.square(_bounds(c, norm(gradient), residual)) / len(rows[0])
    allowed = radii(c, real("delta", delta, positive=True))
    return _against(np.sqrt(squares), allowed, c.kind)


def _finished(routine: Initializer, problem: Any, x0: Any, y0: Any, u0: Any, random_state: Any) -> Initialization:
    """Check the arguments and run a routine to its end."""
    view = CountedProblem(problem)
    x = view.upper_point("x0", x0)
    feasible_set(problem, view.dim_x, None, x)
    start = x, view.lower_start("y0", y0), view.lower_start("u0", u0)
    with finite_or_named():
        steps = routine.steps(view, start, None, random_state)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value


def _require_size(name: str, what: str, size: float) -> None:
    if not size * size < math.inf:
        raise ValueError(f"{name}: found a point where {what} is too large to be squared; expected a smaller one")


def _drift(constants: ProblemConstants, grad_norm: float) -> float:
    """Return L1 |grad_2 g|/mu^2, a bound of |u*(x, y) - u*(x)|."""
    return times(grad_norm, boxes.positive_L1(constants)) / constants.mu**2


def _bounds(constants: ProblemConstants, grad_norm: float, residual: float) -> tuple[float, float]:
    return grad_norm / constants.mu, residual / constants.mu + _drift(constants, grad_norm)


def _membership(constants: ProblemConstants, radii: boxes.Radii, grad_norm: float, residual: float) -> Membership:
    return _against(_bounds(constants, grad_norm, residual), radii, constants.kind)


def _against(bounds: Any, radii: boxes.Radii, kind: str) -> Membership:
    y_bound, u_bound = map(float, bounds)
    inside = y_bound <= radii.y and u_bound <= radii.u
    return Membership(inside, y_bound, radii.y, u_bound, radii.u, kind)


def _outcome(
    view: CountedProblem,
    point: tuple[Array, Array, Array],
    steps: tuple[int, int, int],
    beta: float,
    batches: boxes.Batches | None,
    membership: Membership,
) -> Initialization:
    if not math.isfinite(membership.y_bound + membership.u_bound):
        raise ValueError(
            "constants: the steps on y and u diverged; expected constants that hold, see nbo.theory.check_constants"
        )
    x, y, u = (np.array(part, dtype=np.float64) for part in point)
    return Initialization(x, y, u, *steps, beta, batches, membership, view.counts, view.samples)
