"""Preconditioned conjugate gradients, one recursion a block of y."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from nbo._vectors import binary_unit, row_norms
from nbo.linear_solvers import CurvatureError, LinearSolution, Product, row_dots

Array = npt.NDArray[Any]
Flat = Literal["refuse", "rounding", "take"]

#: Curvature along a preconditioned direction, relative to the preconditioner's, below which H counts as flat there or
#: the preconditioner as useless, and curvature that rounding explains, in units of it and |H|.
FLAT, NOISE = 1e-10, 1e3


class Preconditioner(Protocol):
    """An approximation of the inverse of a block of H."""

    @property
    def size(self) -> float:
        """About the norm of what is inverted."""

    def apply(self, rows: Array) -> Array:
        """Return its product with rows.

        Parameters
        ----------
        rows : ndarray
            (r, n_b).

        Returns
        -------
        ndarray
            (r, n_b).
        """


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
    preconditioner: Preconditioner | None = None,
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
    preconditioner : Preconditioner, optional
        An approximation of the inverse of a block.
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
