"""Systems with the Hessian of g in y, preconditioned by one that is formed when that pays."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from nbo._storable import storable
from nbo.block_conjugate_gradients import Flat, UselessPreconditionerError, conjugate_gradients
from nbo.linear_solvers import CurvatureError, LinearSolution
from nbo.oracles import CountedProblem
from nbo.problem import LowerModel

Array = npt.NDArray[Any]

#: Blocks of y of up to this length have their Hessian formed before the first system is solved,
AT_ONCE = 64
#: of up to this length, once solving has taken so many products for each column that forming would take: a column of
#: many costs about that much of a product alone.
LARGEST, PRICE = 1500, 0.3
#: The preconditioner is that of H plus so many rounding units of its largest diagonal entry.
DAMPING = 1e2
#: Products of a solve that a good preconditioner needs, too, and that do not count as a reason for a better one.
USUAL = 3
#: x moves by this much before the Hessian is shifted after it.
MOVED = 0.05


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

    @functools.cached_property
    def condition(self) -> float:
        """The largest ratio of a curvature along a coordinate to the least that others leave of it.

        That is about the condition number after the best scaling of the coordinates, by which rounding grows.
        """
        pivots = np.diag(self.factor) ** 2
        return float(np.max(np.einsum("ij,ij->i", self.factor, self.factor) / pivots))

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

    @property
    def condition(self) -> float:
        """See `FormedHessian.condition`; 1 as long as nothing is known."""
        return 1.0 if self._formed is None else self._formed.condition

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
