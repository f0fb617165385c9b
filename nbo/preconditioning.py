"""Conjugate gradients with a preconditioner, one recursion a block, and a Hessian that is formed when that pays."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.linalg

from nbo._storable import storable
from nbo._vectors import binary_unit, row_norms
from nbo.linear_solvers import CurvatureError, LinearSolution, Product, row_dots
from nbo.oracles import CountedProblem
from nbo.problem import LowerModel

Array = npt.NDArray[Any]
Flat = Literal["refuse", "rounding", "take"]

#: Blocks of y of up to this length have their Hessian formed before the first system is solved,
AT_ONCE = 64
#: of up to this length, once solving has taken so many products for each column that forming would take: a column of
#: many costs about that much of a product alone.
LARGEST, PRICE = 1500, 0.3
#: Curvature along a preconditioned direction, relative to the preconditioner's, below which H counts as flat there or
#: the preconditioner as useless, and curvature that rounding explains, in units of it and |H|.
FLAT, NOISE = 1e-10, 1e3
#: The preconditioner is that of H plus so many rounding units of its largest diagonal entry.
DAMPING = 1e2
#: Products of a solve that a good preconditioner needs, too, and that do not count as a reason for a better one.
USUAL = 3
#: x moves by this much before the Hessian is shifted after it.
MOVED = 0.05


class UselessPreconditionerError(ArithmeticError):
    """H has become so much smaller than its preconditioner that directions seem flat."""


def conjugate_gradients(
    hvp: Product,
    rhs: Array,
    limits: Array,
    *,
    blocks: int = 1,
    n_steps: int = 1000,
    radius: float = np.inf,
    flat: Flat = "refuse",
    preconditioner: FormedHessian | None = None,
    doubt: bool = False,
) -> LinearSolution:
    """Solve H x = b for every row b of `rhs` by preconditioned conjugate gradients, one recursion a row and block.

    Costs at most `n_steps` products a row. A block that has reached its limit has directions of zero from then on. So
    has one where H is flat, as far away from a minimiser, along the direction; if that is the first, it is returned.

    Parameters
    ----------
    hvp : callable
        The product with H on rows, (k, n) -> (k, n).
    rhs : ndarray
        The right-hand sides, (k, n).
    limits : ndarray
        Wanted residual norms of the rows, (k,); none is below a rounding unit of the right-hand side.
    blocks : int
        H consists of so many diagonal blocks of equal size.
    n_steps : int
        The most steps.
    radius : float
        A block whose solution has become longer than that is cut to it and goes no further (Steihaug, 1983).
    flat : {"refuse", "rounding", "take"}
        What a direction without curvature means: an error; an error unless rounding may explain it, which ends the
        block otherwise; or that H may be zero there.
    preconditioner : FormedHessian, optional
        An approximation of a block.
    doubt : bool
        Whether that is so old that it may say nothing about H.

    Returns
    -------
    LinearSolution
        Solutions, residual norms of the rows and products.

    Raises
    ------
    CurvatureError
        If H is found not to be positive definite.
    UselessPreconditionerError
        If H is smaller by orders than a preconditioner that is in doubt.
    """
    k, n = rhs.shape
    # squares must neither overflow nor underflow, whatever the units of g
    units = np.array([binary_unit(row) for row in rhs])
    radii = radius / np.repeat(units, blocks)
    r = (rhs / units[:, None]).astype(rhs.dtype, copy=False).reshape(k * blocks, n // blocks)
    x, squares = np.zeros_like(r), row_dots(r, r)
    starts = squares
    enough = np.repeat((np.asarray(limits, dtype=np.float64) / units) ** 2 / blocks, blocks)
    enough = np.maximum(enough, float(np.finfo(rhs.dtype).eps) ** 2 * squares)
    precondition = _same if preconditioner is None else preconditioner.apply
    z = precondition(r)
    p, products, inner = z.copy(), 0, row_dots(r, z)
    # the largest curvature seen, relative to that of the preconditioner
    steepest, size = (0.0, 1.0) if preconditioner is None else (1.0, preconditioner.size)
    active = squares > enough
    for _ in range(n_steps):
        if not active.any():
            break
        rows = np.flatnonzero(active.reshape(k, blocks).any(axis=1))
        directions = np.where(active[:, None], p, p.dtype.type(0)).reshape(k, n)
        images = np.zeros_like(directions)
        images[rows] = hvp(np.ascontiguousarray(directions[rows]))
        images = images.reshape(r.shape)
        products += len(rows)
        curvature = row_dots(p, images)
        lost = active & (curvature <= (0.0 if preconditioner is None else FLAT) * inner)
        if lost.any():
            # neither a residual at the rounding floor nor a direction of zero tells anything
            telling = (squares > (1e3 * float(np.finfo(rhs.dtype).eps)) ** 2 * starts) & p.any(axis=1)
            _judge(curvature[lost], p[lost], images[lost], steepest * size, telling[lost], flat, doubt)
            fresh = lost & ~x.any(axis=1) & (flat == "take")
            x[fresh] = p[fresh]
            active &= ~lost
        # a diagonal entry of Lanczos' matrix less a positive number
        steepest = max(steepest, float(np.max(curvature[active] / inner[active], initial=0.0)))
        step = np.where(active, inner / np.where(active, curvature, 1.0), 0.0)[:, None].astype(r.dtype)
        x += step * p
        r -= step * images
        squares = row_dots(r, r)
        z = precondition(r)
        following = row_dots(r, z)
        p = z + np.where(active, following / np.where(active, inner, 1.0), 0.0)[:, None].astype(r.dtype) * p
        inner = following
        active &= squares > enough
        if np.isfinite(radius):
            active &= ~_cut(x, active, radii)
    norms = units * np.sqrt(squares.reshape(k, blocks).sum(axis=1))
    return LinearSolution((x.reshape(k, n) * units[:, None]).astype(rhs.dtype, copy=False), norms, products)


def _same(rows: Array) -> Array:
    return rows


def _judge(
    curvature: Array, directions: Array, images: Array, size: float, telling: Array, flat: Flat, doubt: bool
) -> None:
    """Raise what missing curvatures p'Hp mean, with H of about a norm."""
    lengths, eps = row_norms(directions), float(np.finfo(directions.dtype).eps)
    rounding = NOISE * eps * np.maximum(size * lengths, row_norms(images)) * lengths
    wrong = curvature < -rounding
    if flat == "refuse":
        wrong |= telling
    elif flat == "rounding":
        wrong |= telling & ((curvature > rounding) | (rounding == 0))
    if doubt and telling.any() and not (curvature < -rounding).any():
        raise UselessPreconditionerError
    if wrong.any():
        raise CurvatureError(f"curvature {curvature.min():.3g}")


def _cut(x: Array, active: Array, radii: Array) -> Array:
    """Shorten the active rows that are longer than their radii, in place, and tell which they are."""
    lengths = row_norms(x)
    long = active & (lengths > radii)
    x[long] *= (radii[long] / lengths[long])[:, None].astype(x.dtype)
    return long


@storable
@dataclasses.dataclass(frozen=True)
class FormedHessian:
    """The first block of H as it was at one point, and its factor at another x.

    Attributes
    ----------
    matrix : ndarray
        The block at (x_at, y_at), (n_b, n_b).
    x_at, y_at : ndarray
        Where it was formed.
    factor : ndarray
        The Cholesky factor of the matrix with the shift, lower triangle.
    x_of_factor : ndarray
        The x that the shift belongs to.
    """

    matrix: Array
    x_at: Array
    y_at: Array
    factor: Array
    x_of_factor: Array

    @property
    def size(self) -> float:
        """About the norm of the shifted matrix."""
        return float(np.abs(np.diag(self.factor)).max() ** 2)

    def is_at(self, model: LowerModel) -> bool:
        """Tell whether the matrix is the Hessian of a point.

        Parameters
        ----------
        model : LowerModel
            The point.

        Returns
        -------
        bool
            Whether it was formed there.
        """
        return np.array_equal(self.x_at, model.x) and np.array_equal(self.y_at, model.y)

    def apply(self, rows: Array) -> Array:
        """Return the inverse of the shifted matrix times rows.

        Parameters
        ----------
        rows : ndarray
            (r, n_b).

        Returns
        -------
        ndarray
            (r, n_b), of the type of the rows.
        """
        solution = scipy.linalg.cho_solve((self.factor, True), rows.T, check_finite=False)
        return np.ascontiguousarray(solution.T, dtype=rows.dtype)


@storable
@dataclasses.dataclass(frozen=True)
class SystemMemory:
    """What `InnerSystem` keeps from one iteration to the next.

    Attributes
    ----------
    formed : FormedHessian or None
        The preconditioner.
    spent : int
        Products beyond the usual ones since it was formed.
    """

    formed: FormedHessian | None = None
    spent: int = 0


class InnerSystem:
    """Systems with the Hessian of g in y at points that change slowly.

    Conjugate gradients, whose preconditioner is the Hessian of the first block of y at an earlier point. It is formed
    at once where n/blocks is small, else when the products that better directions would have saved have paid for it,
    since a column of a block of products costs less than a product alone. When x moves, its diagonal follows by one
    product: for penalties that depend on x the change of H is diagonal and does not depend on y.

    Parameters
    ----------
    view : CountedProblem
        The oracles.
    memory : SystemMemory
        Of the last iteration.
    n_steps : int
        The most steps of conjugate gradients for a system.
    """

    def __init__(self, view: CountedProblem, memory: SystemMemory, n_steps: int) -> None:
        self._view, self._n_steps = view, n_steps
        self._formed, self._spent = memory.formed, memory.spent
        self.blocks = int(view.problem.lower_blocks)
        self._size = view.dim_y // self.blocks

    @property
    def memory(self) -> SystemMemory:
        """What the next iteration goes on with."""
        return SystemMemory(self._formed, self._spent)

    def solve(
        self, model: LowerModel, rhs: Array, limits: Array, radius: float = np.inf, flat: Flat = "refuse"
    ) -> LinearSolution:
        """Solve H x = b for rows b up to residual norms, or up to a length of x.

        Parameters
        ----------
        model : LowerModel
            The point.
        rhs : ndarray
            (k, n).
        limits : ndarray
            The residual norms wanted, (k,).
        radius : float
            The greatest length of a solution's block.
        flat : {"refuse", "rounding", "take"}
            As in `conjugate_gradients`; the Hessians of some losses are zero far from their minimisers.

        Returns
        -------
        LinearSolution
            The solutions; residual norms of one that was cut are those before.

        Raises
        ------
        CurvatureError
            If H is found not to be positive definite.
        """
        self._prepare(model)
        solve = functools.partial(
            conjugate_gradients,
            model.hvp,
            rhs,
            limits,
            blocks=self.blocks,
            n_steps=self._n_steps,
            radius=radius,
            flat=flat,
        )
        formed = self._formed
        try:
            found = solve(preconditioner=formed, doubt=formed is not None and not formed.is_at(model))
        except UselessPreconditionerError:
            self._formed, self._spent = None, 0
            self._prepare(model)
            found = solve(preconditioner=self._formed)
        self._spent += max(0, found.n_products - USUAL * len(rhs))
        return found

    def rough_solution(self, rhs: Array) -> Array | None:
        """Return the preconditioner's solution of H x = b, which costs no product.

        Parameters
        ----------
        rhs : ndarray
            b, (n,).

        Returns
        -------
        ndarray or None
            (n,); None as long as there is no preconditioner.
        """
        if self._formed is None:
            return None
        return self._formed.apply(rhs.reshape(self.blocks, self._size)).reshape(-1)

    def _prepare(self, model: LowerModel) -> None:
        """Form the Hessian if it is time to, or let it follow x."""
        price = PRICE * self._size
        if self._formed is None:  # any preconditioner saves much, and a product with all blocks is one for each of them
            due = self._size <= AT_ONCE or self._spent >= price / self.blocks
        else:
            due = self._spent >= price
        if due and self._size <= LARGEST:
            self._form(model)
        elif self._formed is not None and np.abs(model.x - self._formed.x_of_factor).max() > MOVED:
            self._follow(model, self._formed)

    def _form(self, model: LowerModel) -> None:
        matrix = self._first_block(model, np.eye(self._size, dtype=self._view.dtype))
        matrix = (matrix + matrix.T) / 2
        if not matrix.any():
            raise CurvatureError("curvature 0")
        factor = _factor(matrix)
        self._formed = None if factor is None else FormedHessian(matrix, model.x, model.y, factor, model.x)
        self._spent = 0

    def _follow(self, model: LowerModel, formed: FormedHessian) -> None:
        ones = np.ones((1, self._size), dtype=self._view.dtype)
        there = self._view.lower_model(model.x, formed.y_at)
        shift = self._first_block(there, ones)[0] - formed.matrix.sum(axis=1)
        shifted = formed.matrix.copy()
        shifted[np.diag_indices(self._size)] += shift
        factor = _factor(shifted)
        if factor is None:  # the change was not diagonal
            self._form(model)
        else:
            self._formed = dataclasses.replace(formed, factor=factor, x_of_factor=model.x)

    def _first_block(self, model: LowerModel, rows: Array) -> Array:
        """Return products of the first block of H with rows, (r, n_b), in double precision."""
        padded = np.zeros((len(rows), self._view.dim_y), dtype=rows.dtype)
        padded[:, : self._size] = rows
        return np.asarray(model.hvp(padded)[:, : self._size], dtype=np.float64)


def _factor(matrix: Array) -> Array | None:
    """Return the lower Cholesky factor of a matrix that is damped a little; None if that is not positive definite."""
    damped = matrix.copy()
    damped[np.diag_indices(len(matrix))] += DAMPING * np.finfo(np.float64).eps * np.abs(np.diag(matrix)).max()
    try:
        return scipy.linalg.cholesky(damped, lower=True, check_finite=True)
    except (scipy.linalg.LinAlgError, ValueError):
        return None
