"""Inner solvers of H X = B for several right-hand sides at once, starting from zero: interchangeable parts.

Right-hand sides and solutions are stored in rows, (k, n). Each solver calls the product with a
block of rows and reports how many products that took and the residual of every row.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg

from nbo._validation import integer, real
from nbo._vectors import norm, row_norms

Array = npt.NDArray[Any]
Product = Callable[[Array], Array]

#: A residual that grows by more than this factor, beyond rounding, proves a step too long.
ENLARGED = 1 + 1e-5


class CurvatureError(ArithmeticError):
    """H was found not to be positive definite.

    Parameters
    ----------
    found : str
        What was seen.
    """

    def __init__(self, found: str) -> None:
        super().__init__(f"the Hessian of g in y has {found} at this point; g must be strongly convex in y")


class LinearSolution(NamedTuple):
    """What an inner solver returns.

    Attributes
    ----------
    solution : ndarray
        The approximate solutions in rows, (k, n).
    residual_norms : ndarray
        |B - H X| of every row, (k,). For `GradientDescent` and `Chebyshev` the residual before the
        last step, since the final one would cost a product.
    n_products : int
        Hessian-vector products used; a block of k rows counts k.
    enlarged : bool
        Whether a step enlarged a residual, the sign of a step beyond 2/lambda_max(H).
    """

    solution: Array
    residual_norms: Array
    n_products: int
    enlarged: bool = False


class LinearSolver(abc.ABC):
    """An approximate solver of H X = B for symmetric positive definite H."""

    @abc.abstractmethod
    def solve(self, hvp: Product, rhs: Array) -> LinearSolution:
        """Solve H x = b for every row b of `rhs`, from zero.

        Parameters
        ----------
        hvp : callable
            Takes directions in rows, (k, n), and returns their products with H, (k, n).
        rhs : ndarray
            The right-hand sides in rows, (k, n).

        Returns
        -------
        LinearSolution
            Solutions, residuals and the number of products.

        Raises
        ------
        CurvatureError
            If H is found not to be positive definite, by the solvers that can tell.
        """


@dataclasses.dataclass(frozen=True)
class GradientDescent(LinearSolver):
    """Gradient steps v <- (I - gamma H) v + gamma b from v = 0 (paper, Algorithm 3).

    The first step is gamma b and needs no product: `n_steps` steps cost (n_steps - 1) k products.

    Parameters
    ----------
    step_size : float
        gamma, at most 2/lambda_max(H) to converge.
    n_steps : int
        T + 1 in the paper's notation (errata A1).
    """

    step_size: float
    n_steps: int

    def __post_init__(self) -> None:
        real("step_size", self.step_size, positive=True)
        integer("n_steps", self.n_steps, minimum=1)

    def solve(self, hvp: Product, rhs: Array) -> LinearSolution:
        """Take `n_steps` gradient steps; see `LinearSolver.solve`."""
        gamma = rhs.dtype.type(self.step_size)
        v = gamma * rhs
        norms = row_norms(rhs)
        enlarged = False
        for _ in range(self.n_steps - 1):
            residual = rhs - hvp(v)
            previous, norms = norms, row_norms(residual)
            enlarged |= bool((norms > ENLARGED * previous).any())
            v = v + gamma * residual
        return LinearSolution(v, norms, (self.n_steps - 1) * rhs.shape[0], enlarged)


@dataclasses.dataclass(frozen=True)
class Chebyshev(LinearSolver):
    """Chebyshev iteration for a spectrum inside [mu, L]; the residual shrinks by the optimal polynomial.

    The first step is 2/(mu + L) b and needs no product: `n_steps` steps cost (n_steps - 1) k products.

    Parameters
    ----------
    spectrum : tuple of float
        (mu, L) with 0 < mu <= L; L must bound lambda_max(H), mu may be above lambda_min(H).
    n_steps : int
        T + 1.

    Notes
    -----
    The three-term form with theta = (L + mu)/2, delta = (L - mu)/2, sigma = theta/delta:
    rho_0 = 1/sigma, d_0 = b/theta, x_1 = d_0, then r = b - H x, rho_k = 1/(2 sigma - rho_{k-1}),
    d_k = rho_k rho_{k-1} d_{k-1} + (2 rho_k/delta) r.
    """

    spectrum: tuple[float, float]
    n_steps: int

    def __post_init__(self) -> None:
        validate_spectrum(self.spectrum)
        integer("n_steps", self.n_steps, minimum=1)

    def solve(self, hvp: Product, rhs: Array) -> LinearSolution:
        """Take `n_steps` Chebyshev steps; see `LinearSolver.solve`."""
        mu, largest = map(float, self.spectrum)
        theta, delta = (largest + mu) / 2, (largest - mu) / 2
        kind = rhs.dtype.type
        ratio = delta / theta
        rho = ratio
        direction = rhs / kind(theta)
        x = direction
        norms = first = row_norms(rhs)
        for _ in range(self.n_steps - 1):
            residual = rhs - hvp(x)
            norms = row_norms(residual)
            # 1/(2 sigma - rho) written with ratio = 1/sigma, which may be zero (mu = L)
            following = ratio / (2 - ratio * rho)
            gain = 2 * following / delta if delta > 0 else 1 / theta
            direction = kind(following * rho) * direction + kind(gain) * residual
            x = x + direction
            rho = following
        return LinearSolution(x, norms, (self.n_steps - 1) * rhs.shape[0], bool((norms > ENLARGED * first).any()))


@dataclasses.dataclass(frozen=True)
class ConjugateGradient(LinearSolver):
    """Conjugate gradients from zero, one independent recursion a row (errata A3); products are batched.

    Costs at most `n_steps` products a row; a row stops at its tolerance and costs nothing more.

    Parameters
    ----------
    n_steps : int
        T + 1.
    tol : float
        A row stops when |r| <= tol |b|.
    """

    n_steps: int
    tol: float = 1e-14

    def __post_init__(self) -> None:
        integer("n_steps", self.n_steps, minimum=1)
        real("tol", self.tol, minimum=0.0)

    def solve(self, hvp: Product, rhs: Array) -> LinearSolution:
        """Take up to `n_steps` CG steps on every row; see `LinearSolver.solve`."""
        x, r, p = np.zeros_like(rhs), rhs.copy(), rhs.copy()
        squares = row_dots(r, r)
        starts, limits = squares.copy(), (self.tol * self.tol) * squares
        active = np.flatnonzero(squares > limits)
        used = 0
        for _ in range(self.n_steps):
            if active.size == 0:
                break
            directions = np.ascontiguousarray(p[active])
            products = hvp(directions)
            used += active.size
            curvature = row_dots(directions, products)
            _require_curvature(curvature, squares[active], starts[active], rhs.dtype)
            # at the rounding floor a search direction may lose its curvature: it ends its row
            active, directions, products, curvature = _keep(curvature > 0, active, directions, products, curvature)
            step = (squares[active] / curvature)[:, None].astype(rhs.dtype)
            x[active] += step * directions
            r[active] -= step * products
            new = row_dots(r[active], r[active])
            p[active] = r[active] + (new / squares[active])[:, None].astype(rhs.dtype) * directions
            squares[active] = new
            active = active[new > limits[active]]
        return LinearSolution(x, np.sqrt(squares), used)


def row_dots(a: Array, b: Array) -> Array:
    """Return the inner products of rows, in double precision.

    Parameters
    ----------
    a, b : ndarray
        (k, n).

    Returns
    -------
    ndarray
        (k,).
    """
    return np.einsum("ij,ij->i", a, b, dtype=np.float64)


def _require_curvature(curvature: Array, squares: Array, starts: Array, dtype: np.dtype[Any]) -> None:
    """Raise if a search direction has no positive curvature though its residual is far above rounding."""
    lost = (curvature <= 0) & (squares > (1e3 * float(np.finfo(dtype).eps)) ** 2 * starts)
    if lost.any():
        raise CurvatureError(f"curvature {curvature[lost].min():.3g}")


def _solve_positive(matrix: Array, rhs: Array) -> Array:
    """Solve a small projected system; NaN if it has overflowed, CurvatureError if it is not positive definite."""
    if not np.isfinite(matrix).all():
        return np.full(rhs.shape, np.nan)
    try:
        return scipy.linalg.cho_solve(scipy.linalg.cho_factor(matrix), rhs, check_finite=False)
    except scipy.linalg.LinAlgError:
        raise CurvatureError(f"curvature {np.linalg.eigvalsh(matrix)[0]:.3g}") from None


def _keep(mask: Array, *arrays: Array) -> tuple[Array, ...]:
    return arrays if mask.all() else tuple(a[mask] for a in arrays)


@dataclasses.dataclass(frozen=True)
class LanczosSubspace(LinearSolver):
    """The solution in the Krylov subspace span{b, H b, ...}: u = |b| Q Tri^{-1} e_1, full reorthogonalisation.

    In exact arithmetic it equals conjugate gradients with as many steps. Costs at most `n_steps`
    products a row; a row stops when its subspace is exhausted.

    Parameters
    ----------
    n_steps : int
        The dimension of the subspace, T + 1.
    """

    n_steps: int

    def __post_init__(self) -> None:
        integer("n_steps", self.n_steps, minimum=1)

    def solve(self, hvp: Product, rhs: Array) -> LinearSolution:
        """Solve in a Krylov subspace of dimension up to `n_steps` for every row; see `LinearSolver.solve`."""
        bases = lanczos(hvp, rhs, self.n_steps)
        x = np.zeros_like(rhs)
        residuals = np.zeros(rhs.shape[0])
        used = 0
        for i, basis in enumerate(bases):
            used += len(basis.diagonal)
            if basis.start_norm == 0:
                continue
            m = len(basis.diagonal)
            first = np.zeros(m)
            first[0] = basis.start_norm
            z = _solve_positive(basis.tridiagonal(), first)
            x[i] = z @ basis.vectors[:m]
            residuals[i] = abs(basis.last * z[-1])
        return LinearSolution(x, residuals, used)


class KrylovBasis(NamedTuple):
    """A Lanczos factorisation H Q = Q Tri + last q e_m' of one start vector.

    Attributes
    ----------
    vectors : ndarray
        Q', orthonormal rows, (m, n).
    diagonal, off_diagonal : list of float
        Tri, of sizes m and m - 1.
    last : float
        The norm of what the next vector would be before scaling; zero when the subspace is invariant.
    start_norm : float
        The norm of the start vector.
    """

    vectors: Array
    diagonal: list[float]
    off_diagonal: list[float]
    last: float
    start_norm: float

    def tridiagonal(self) -> Array:
        """Return Tri as a full matrix, (m, m).

        Returns
        -------
        ndarray
            The projection of H.
        """
        return np.diag(self.diagonal) + np.diag(self.off_diagonal, 1) + np.diag(self.off_diagonal, -1)


def lanczos(hvp: Product, starts: Array, n_steps: int) -> list[KrylovBasis]:
    """Run Lanczos from every row of `starts`, batching the products of all rows.

    Parameters
    ----------
    hvp : callable
        The product with H on rows.
    starts : ndarray
        Start vectors in rows, (k, n).
    n_steps : int
        The most vectors of a basis (and products of a row); never more than n.

    Returns
    -------
    list of KrylovBasis
        One a row; empty for a zero start.
    """
    k, n = starts.shape
    m = min(n_steps, n)
    Q = np.zeros((k, m, n), dtype=starts.dtype)
    norms = row_norms(starts)
    diagonals: list[list[float]] = [[] for _ in range(k)]
    betas: list[list[float]] = [[] for _ in range(k)]
    active = [i for i in range(k) if norms[i] > 0]
    for i in active:
        Q[i, 0] = starts[i] / norms[i]
    for j in range(m):
        if not active:
            break
        products = hvp(np.ascontiguousarray(Q[active, j]))
        going = []
        for row, i in enumerate(active):
            w = products[row]
            diagonals[i].append(float(Q[i, j] @ w))
            scale = norm(w)
            for _ in range(2):  # twice is enough to keep the basis orthogonal to rounding
                w = w - Q[i, : j + 1].T @ (Q[i, : j + 1] @ w)
            beta = norm(w)
            exhausted = beta <= 10 * float(np.finfo(starts.dtype).eps) * scale
            betas[i].append(0.0 if exhausted else beta)
            if not exhausted and j + 1 < m:
                Q[i, j + 1] = w / beta
                going.append(i)
        active = going
    return [
        KrylovBasis(Q[i, : len(d)], d, b[:-1], b[-1] if b else 0.0, float(norms[i]))
        for i, (d, b) in enumerate(zip(diagonals, betas, strict=True))
    ]


@dataclasses.dataclass(frozen=True)
class BlockConjugateGradient(LinearSolver):
    """Block conjugate gradients: one Krylov space shared by all rows; converges no slower than CG.

    Costs at most k products a step. Search directions are kept orthonormal and directions that have
    become dependent are dropped, so that equal or converged right-hand sides do no harm.

    Parameters
    ----------
    n_steps : int
        T + 1 block steps.
    tol : float
        Stops when every |r| <= tol |b|.
    """

    n_steps: int
    tol: float = 1e-14

    def __post_init__(self) -> None:
        integer("n_steps", self.n_steps, minimum=1)
        real("tol", self.tol, minimum=0.0)

    def solve(self, hvp: Product, rhs: Array) -> LinearSolution:
        """Take up to `n_steps` block steps; see `LinearSolver.solve`."""
        x, r = np.zeros_like(rhs), rhs.copy()
        norms, limits = row_norms(r), self.tol * row_norms(rhs)
        directions = _orthonormal_rows(r, norms)
        used = 0
        for _ in range(self.n_steps):
            if directions.shape[0] == 0 or (norms <= limits).all():
                break
            products = hvp(directions)
            used += directions.shape[0]
            gram = (directions @ products.T).astype(np.float64)
            step = _solve_positive(gram, directions @ r.T).astype(rhs.dtype)
            x += step.T @ directions
            r -= step.T @ products
            norms = row_norms(r)
            conjugate = _solve_positive(gram, products @ r.T).astype(rhs.dtype)
            directions = _orthonormal_rows(r - conjugate.T @ directions, np.maximum(norms, limits))
        return LinearSolution(x, norms, used)


def _orthonormal_rows(rows: Array, scales: Array) -> Array:
    """Return an orthonormal basis of the row space, dropping what is dependent to rounding.

    Rows are scaled by `scales` first, so that a small residual counts as much as a large one.
    """
    positive = scales > 0
    if not positive.any():
        return rows[:0]
    scaled = rows[positive] / scales[positive][:, None]
    q, triangle, _ = scipy.linalg.qr(scaled.T, mode="economic", pivoting=True)
    sizes = np.abs(np.diag(triangle))
    rank = int((sizes > 100 * np.finfo(rows.dtype).eps * max(sizes.max(initial=0.0), 1e-300)).sum())
    return np.ascontiguousarray(q[:, :rank].T).astype(rows.dtype, copy=False)


@dataclasses.dataclass(frozen=True)
class Cholesky(LinearSolver):
    """The exact solution: H is formed by n products with unit vectors and factorised.

    Costs n products (counted) and O(n^3) arithmetic: for small n.

    Parameters
    ----------
    max_dim : int
        The largest n that is accepted; beyond it the memory and time of a dense H surprise.
    """

    max_dim: int = 10_000

    def __post_init__(self) -> None:
        integer("max_dim", self.max_dim, minimum=1)

    def solve(self, hvp: Product, rhs: Array) -> LinearSolution:
        """Form H, factorise it and solve for every row.

        Parameters
        ----------
        hvp : callable
            The product with H on rows.
        rhs : ndarray
            Right-hand sides, (k, n).

        Returns
        -------
        LinearSolution
            Its residuals are computed with the formed H.

        Raises
        ------
        ValueError
            If n exceeds `max_dim`.
        CurvatureError
            If H is not positive definite.
        """
        n = rhs.shape[1]
        if n > self.max_dim:
            raise ValueError(
                f"Cholesky: found dim_y = {n}; expected at most max_dim = {self.max_dim}; use conjugate gradients"
            )
        hessian = hvp(np.eye(n, dtype=rhs.dtype))
        hessian = (hessian + hessian.T) / 2
        solution = np.ascontiguousarray(_solve_positive(hessian, rhs.T).T)
        return LinearSolution(solution, row_norms(rhs - solution @ hessian), n)


def validate_spectrum(spectrum: Any) -> None:
    """Raise unless `spectrum` is a pair (mu, L) with 0 < mu <= L.

    Parameters
    ----------
    spectrum : tuple of float
        The interval that is to hold the eigenvalues of H.

    Raises
    ------
    ValueError
        If it is no such pair.
    """
    try:
        mu, largest = (real("spectrum", value, positive=True) for value in spectrum)
    except (TypeError, ValueError) as error:
        raise ValueError(f"spectrum: found {spectrum!r}; expected a pair (mu, L) with 0 < mu <= L") from error
    if mu > largest:
        raise ValueError(f"spectrum: found {spectrum!r}; expected a pair (mu, L) with 0 < mu <= L")
