"""Both inner problems at one x, solved as accurately as it takes, with estimates of what is left."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._storable import storable
from nbo._vectors import norm
from nbo.inexact_newton import NO_DESCENT, OUT_OF_STEPS, LowerPoint, LowerSolver, NoDescentError
from nbo.oracles import CountedProblem
from nbo.preconditioning import InnerSystem
from nbo.upper_steps import ROUNDING

Array = npt.NDArray[Any]

#: A start of u is improved to at least this part of its residual, and refinements reduce residuals to that one.
IMPROVED, SHARP = 0.05, 1e-3
#: A line search that fails tells of wrong oracles, unless grad_2 g, or the direction relative to y, is as small as that
#: power of the rounding unit: then it tells of rounding in g.
SMALL = 0.5


@storable
class Sizes(NamedTuple):
    """The largest norms seen, by which rounding is judged.

    Attributes
    ----------
    lower_grad, upper_grad, jvp : float
        |grad_2 g|, |grad_2 f| and |J u|; near a solution the parts of J u cancel, but not their errors.
    """

    lower_grad: float = 0.0
    upper_grad: float = 0.0
    jvp: float = 0.0

    def with_others(self, other: Sizes) -> Sizes:
        """Return the larger ones.

        Parameters
        ----------
        other : Sizes
            Others.

        Returns
        -------
        Sizes
            The maxima.
        """
        return Sizes(*map(max, self, other))


NO_SIZES = Sizes()


class Accuracy(NamedTuple):
    """How accurate inner solutions have to be.

    Attributes
    ----------
    value : float
        The largest |u' grad_2 g|, by which y still changes Phi to first order.
    lower, adjoint : float
        The largest estimated error of y relative to y, and |H u - grad_2 f| relative to grad_2 f.
    steps : int
        How many whole Newton steps in a row have to lead to y before the estimate is believed: one from a y of nearby,
        but a single one from far away may end where g is flat.
    """

    value: float
    lower: float
    adjoint: float
    steps: int = 2


class InnerSolution(NamedTuple):
    """Inner solutions at one x.

    Attributes
    ----------
    point : LowerPoint
        y, with its model and gradient.
    y_error : float
        An estimate of |y - y*|.
    u : ndarray
        (n,).
    upper_grad_norm, residual : float
        |grad_2 f| and |H u - grad_2 f|.
    d_x : ndarray
        grad_1 f - J u, (m,).
    jvp_norm, jvp_scale : float
        |J u|, and the largest seen.
    rounding : float
        What rounding may change in d_x, whose parts may cancel, and in y and u, which grows with the condition of H.
    u_error : float
        An estimate of what the error of u changes in d_x.
    accurate : bool
        Whether y and u are as accurate as was asked for, or as rounding allows.
    """

    point: LowerPoint
    y_error: float
    u: Array
    upper_grad_norm: float
    residual: float
    d_x: Array
    jvp_norm: float
    jvp_scale: float
    rounding: float
    u_error: float
    accurate: bool

    @property
    def correction(self) -> float:
        """The first-order error of f(x, y) as a value of Phi(x), u' grad_2 g."""
        return float(self.u @ self.point.grad)

    @property
    def value_error(self) -> float:
        """An estimate of the error of f(x, y) - u' grad_2 g."""
        first_order = self.residual + self.upper_grad_norm * self._relative  # grad_2 f and u change as y does, say
        return self.y_error * first_order + abs(self.correction) * self._relative

    @property
    def error(self) -> float:
        """An estimate of |d_x - grad Phi(x)|."""
        return self.u_error + self.jvp_scale * self._relative + self.rounding

    @property
    def _relative(self) -> float:
        """The error of y relative to y, at most 1."""
        return min(self.y_error / (norm(self.point.y) or 1.0), 1.0)


class InnerSolver:
    """The two inner problems at one x.

    Parameters
    ----------
    view : CountedProblem
        The oracles.
    x : ndarray
        The point, (m,).
    system : InnerSystem
        Solves Newton systems.
    n_steps : int
        The most Newton steps, over the life of this object.
    before : Sizes
        The largest norms of points before.

    Attributes
    ----------
    sizes : Sizes
        The largest ones at this x.
    """

    def __init__(
        self,
        view: CountedProblem,
        x: Array,
        system: InnerSystem,
        n_steps: int,
        before: Sizes = NO_SIZES,
    ) -> None:
        self._view, self._x, self._system = view, x, system
        self._lower = LowerSolver(view, x, system, n_steps)
        self.sizes, self._before = Sizes(), before
        self._eps = float(np.finfo(view.dtype).eps)

    @property
    def scales(self) -> Sizes:
        """The largest norms here and at the points before."""
        return self.sizes.with_others(self._before)

    def solve(self, y: Array, u: Array, accuracy: Accuracy) -> InnerSolution | LowerPoint:
        """Solve from a start.

        Parameters
        ----------
        y, u : ndarray
            The start, (n,) each.
        accuracy : Accuracy
            What is wanted.

        Returns
        -------
        InnerSolution or LowerPoint
            Only the last y if the steps have run out before it was accurate.

        Raises
        ------
        NoDescentError
            If g does not fall far from its minimiser.
        CurvatureError
            If H is found not to be positive definite.
        """
        point, why = self._lower.minimize(y, lambda point: self._is_accurate(point, u, accuracy))
        if why == OUT_OF_STEPS:
            return point
        if why == NO_DESCENT and not self._is_small(point):
            raise NoDescentError
        return self.adjoint(point, self._error(point), u, accuracy.adjoint)

    def _is_small(self, point: LowerPoint) -> bool:
        small = self._eps**SMALL
        return point.norm <= small * self.scales.lower_grad or self._lower.error <= small * norm(point.y)

    def _error(self, point: LowerPoint) -> float:
        """Return an estimate of |y - y*|, also of a y that is at the rounding floor without a whole Newton step."""
        if np.isfinite(self._lower.error):
            return self._lower.error
        direction = self._system.rough_solution(point.grad)
        return norm(point.y) if direction is None else norm(direction)

    def _is_accurate(self, point: LowerPoint, u: Array, accuracy: Accuracy) -> bool:
        self.sizes = self.sizes.with_others(Sizes(lower_grad=point.norm))
        if self._lower.error <= ROUNDING * self._eps * norm(point.y):
            return True
        near = self._lower.whole >= accuracy.steps and self._lower.error <= accuracy.lower * norm(point.y)
        return near and abs(float(u @ point.grad)) <= accuracy.value

    def adjoint(self, point: LowerPoint, y_error: float, u: Array, relative: float) -> InnerSolution:
        """Solve H u = grad_2 f at a y.

        Parameters
        ----------
        point : LowerPoint
            The y.
        y_error : float
            An estimate of its error.
        u : ndarray
            The start, (n,).
        relative : float
            The residual wanted, relative to grad_2 f.

        Returns
        -------
        InnerSolution
            Accurate if the residual was reached, or rounding.
        """
        grad_1, grad_2 = self._view.upper_grad(self._x, point.y)
        size = norm(grad_2)
        self.sizes = self.sizes.with_others(Sizes(upper_grad=size))
        change = point.model.hvp(u[None])[0] - grad_2 if u.any() else -grad_2
        before = residual = norm(change)
        # a start that is accurate enough by its residual may still hide slow modes of H: part of it is solved for
        floor = ROUNDING * self._eps * self.scales.upper_grad
        limit = max(min(relative * size, IMPROVED * before), floor)
        left = 0.0
        if residual > limit:
            found = self._system.solve(point.model, change[None], np.array([limit]), flat="rounding")
            u, residual = u - found.solution[0], float(found.residual_norms[0])
            left = norm(point.model.jvp(found.solution[0])) * residual / before
        product = point.model.jvp(u)
        jvp_norm = norm(product)
        self.sizes = self.sizes.with_others(Sizes(jvp=jvp_norm))
        jvp_scale = self.scales.jvp
        return InnerSolution(
            point,
            y_error,
            u,
            size,
            residual,
            grad_1 - product,
            jvp_norm,
            jvp_scale,
            10 * self._eps * (norm(grad_1) + jvp_norm + self._system.condition * jvp_scale),
            max(left, jvp_scale * residual / (size or 1.0)),
            residual <= max(relative * size, IMPROVED * before, floor),
        )

    def sharpen(self, solution: InnerSolution, factor: float) -> InnerSolution:
        """Solve for u at the same y, more accurately.

        Parameters
        ----------
        solution : InnerSolution
            What there is.
        factor : float
            By what to reduce the residual.

        Returns
        -------
        InnerSolution
            With a residual that is that much smaller, if rounding allows.
        """
        relative = factor * solution.residual / (solution.upper_grad_norm or 1.0)
        sharper = self.adjoint(solution.point, solution.y_error, solution.u, relative)
        return sharper._replace(accurate=sharper.accurate and solution.accurate)

    def refine(self, solution: InnerSolution) -> InnerSolution:
        """Take one more accurate Newton step on y and solve for u there, more accurately.

        Parameters
        ----------
        solution : InnerSolution
            What there is.

        Returns
        -------
        InnerSolution
            The better one, or nearly the same where rounding allows no more.
        """
        point = self._lower.step(solution.point, SHARP)
        if isinstance(point, str):
            point = solution.point
        relative = SHARP * solution.residual / (solution.upper_grad_norm or 1.0)
        return self.adjoint(point, self._error(point), solution.u, relative)
