"""The quadratic family, in which everything is known in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from nbo._validation import box, integer, matrix, real, vector
from nbo.problem import BilevelProblem
from nbo.problems._fingerprint import fingerprint
from nbo.theory.constants import ProblemConstants, times

Array = npt.NDArray[Any]


class Quadratic(BilevelProblem):
    """g = 1/2 y'Hy - y'(Bx + c) and f = s/2 |y - d|^2 + rho/2 |x - e|^2.

    Closed forms: y* = H^{-1}(Bx + c), u* = s H^{-1}(y* - d), grad Phi = rho (x - e) + B'u*,
    Hess Phi = s B'H^{-2}B + rho I. Third derivatives vanish, so L_g2 = 0.

    Parameters
    ----------
    H : array_like
        Symmetric positive definite, (n, n).
    B : array_like
        (n, m).
    c, d : array_like
        (n,) each.
    e : array_like
        (m,).
    s, rho : float
        Weights of the two parts of f; s >= 0, rho >= 0.

    Raises
    ------
    ValueError
        If shapes disagree, entries are not finite, or H is not symmetric positive definite.

    Examples
    --------
    >>> import nbo, numpy as np
    >>> problem = nbo.problems.Quadratic.family(n=5, m=3, kappa=100)
    >>> bool(np.allclose(problem.grad_phi(problem.x_star()), 0))
    True
    """

    def __init__(
        self,
        H: npt.ArrayLike,
        B: npt.ArrayLike,
        c: npt.ArrayLike,
        d: npt.ArrayLike,
        e: npt.ArrayLike,
        *,
        s: float = 1.0,
        rho: float = 0.1,
    ) -> None:
        self.H = matrix("H", H)
        n = self.H.shape[0]
        if self.H.shape != (n, n) or not np.allclose(self.H, self.H.T, rtol=1e-10, atol=1e-12 * np.abs(self.H).max()):
            raise ValueError(f"H: found a matrix of shape {self.H.shape}, not symmetric; expected a symmetric one")
        self.B = matrix("B", B, (n, None))
        self.c, self.d = vector("c", c, n), vector("d", d, n)
        self.e = vector("e", e, self.B.shape[1])
        self.s, self.rho = real("s", s, minimum=0.0), real("rho", rho, minimum=0.0)
        self.dim_x, self.dim_y = self.B.shape[1], n
        try:
            self._factor = scipy.linalg.cho_factor(self.H)
        except scipy.linalg.LinAlgError:
            raise ValueError(
                "H: found a matrix that is not positive definite; expected a positive definite one"
            ) from None

    @classmethod
    def family(
        cls, n: int, m: int, kappa: float, *, L: float = 1.0, beta: float = 1.0, s: float = 1.0, rho: float = 0.1
    ) -> Quadratic:
        """Return a member with condition number `kappa`, by explicit formulas.

        H = Q diag(mu kappa^{i/(n-1)}) Q' with mu = L/kappa, Q the Householder matrix of 1 + sin(i), and B the
        first rows and columns of beta times the Householder matrix of 1 + cos(i).

        Parameters
        ----------
        n, m : int
            Dimensions of y and x.
        kappa : float
            lambda_max(H)/lambda_min(H), at least 1; with n = 1 it must be 1.
        L : float
            lambda_max(H).
        beta : float
            |B|.
        s, rho : float
            Weights of f.

        Returns
        -------
        Quadratic
            The problem.
        """
        integer("n", n, minimum=1), integer("m", m, minimum=1)
        real("kappa", kappa, minimum=1.0), real("L", L, positive=True), real("beta", beta, minimum=0.0)
        if n == 1 and kappa != 1:
            raise ValueError(f"kappa: found {kappa:g} with n = 1; expected 1, as H is a number")
        i = np.arange(max(n, m), dtype=float)
        Q = _householder(1 + np.sin(i[:n]))
        H = (Q * (L / kappa * kappa ** (i[:n] / max(n - 1, 1)))) @ Q.T
        B = beta * _householder(1 + np.cos(i))[:n, :m]
        return cls((H + H.T) / 2, B, np.sin(1 + i[:n]), np.cos(1 + i[:n]), np.sin(2 + i[:m]), s=s, rho=rho)

    def upper_value(self, x: Array, y: Array) -> float:
        """Return f; see `BilevelProblem.upper_value`."""
        return float(self.s / 2 * np.sum((y - self.d) ** 2) + self.rho / 2 * np.sum((x - self.e) ** 2))

    def upper_grad(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Return grad_1 f and grad_2 f; see `BilevelProblem.upper_grad`."""
        return self.rho * (x - self.e), self.s * (y - self.d)

    def upper_hvp(self, x: Array, y: Array, v: Array) -> Array:
        """Return s v; see `BilevelProblem.upper_hvp`."""
        return self.s * v

    def upper_jvp(self, x: Array, y: Array, u: Array) -> Array:
        """Return zero; see `BilevelProblem.upper_jvp`."""
        return np.zeros(self.dim_x)

    def lower_value(self, x: Array, y: Array) -> float:
        """Return g; see `BilevelProblem.lower_value`."""
        return float(y @ (self.H @ y / 2 - self.B @ x - self.c))

    def lower_grad_y(self, x: Array, y: Array) -> Array:
        """Return H y - (B x + c); see `BilevelProblem.lower_grad_y`."""
        return self.H @ y - self.B @ x - self.c

    def lower_grad_x(self, x: Array, y: Array) -> Array:
        """Return -B'y; see `BilevelProblem.lower_grad_x`."""
        return -(self.B.T @ y)

    def lower_hvp(self, x: Array, y: Array, v: Array) -> Array:
        """Return H v; see `BilevelProblem.lower_hvp`."""
        return self.H @ v

    def lower_jvp(self, x: Array, y: Array, u: Array) -> Array:
        """Return -B'u; see `BilevelProblem.lower_jvp`."""
        return -(self.B.T @ u)

    def y_star(self, x: npt.ArrayLike) -> Array:
        """Return y*(x) = H^{-1}(Bx + c).

        Parameters
        ----------
        x : array_like
            (m,).

        Returns
        -------
        ndarray
            (n,).
        """
        return scipy.linalg.cho_solve(self._factor, self.B @ np.asarray(x, dtype=float) + self.c)

    def u_star(self, x: npt.ArrayLike) -> Array:
        """Return u*(x) = s H^{-1}(y* - d).

        Parameters
        ----------
        x : array_like
            (m,).

        Returns
        -------
        ndarray
            (n,).
        """
        return self.s * scipy.linalg.cho_solve(self._factor, self.y_star(x) - self.d)

    def phi(self, x: npt.ArrayLike) -> float:
        """Return Phi(x) = f(x, y*(x)).

        Parameters
        ----------
        x : array_like
            (m,).

        Returns
        -------
        float
            The value.
        """
        return self.upper_value(np.asarray(x, dtype=float), self.y_star(x))

    def grad_phi(self, x: npt.ArrayLike) -> Array:
        """Return grad Phi(x) = rho (x - e) + B'u*.

        Parameters
        ----------
        x : array_like
            (m,).

        Returns
        -------
        ndarray
            (m,).
        """
        return self.rho * (np.asarray(x, dtype=float) - self.e) + self.B.T @ self.u_star(x)

    def x_star(self) -> Array:
        """Return the minimiser of Phi, (s B'H^{-2}B + rho I)^{-1} (rho e + s B'H^{-1}(d - H^{-1}c)).

        Returns
        -------
        ndarray
            (m,).

        Raises
        ------
        ValueError
            If Phi is not strongly convex, so that there is no single minimiser.
        """
        HB = scipy.linalg.cho_solve(self._factor, self.B)
        gap = self.d - scipy.linalg.cho_solve(self._factor, self.c)
        hessian = self.s * HB.T @ HB + self.rho * np.eye(self.dim_x)
        try:
            return scipy.linalg.solve(hessian, self.rho * self.e + self.s * HB.T @ gap, assume_a="pos")
        except scipy.linalg.LinAlgError:
            raise ValueError(f"s, rho: Phi is not strongly convex with s = {self.s:g}, rho = {self.rho:g}") from None

    def constants(self, bounds: Any = None) -> ProblemConstants:
        """Return exact constants; L_f0 and C_f0 are infinite unless x is bounded, which does no harm as L_g2 = 0.

        Parameters
        ----------
        bounds : pair, optional
            The region of x; the problem's bounds by default.

        Returns
        -------
        ProblemConstants
            Suprema over the region (L_f0 along the graph of y*).
        """
        lower, upper = box("bounds", self.bounds if bounds is None else bounds, self.dim_x)
        radius = float(np.linalg.norm(np.maximum(np.abs(lower), np.abs(upper))))
        eigenvalues = np.linalg.eigvalsh(self.H)
        slope = float(np.linalg.norm(scipy.linalg.cho_solve(self._factor, self.B), 2))
        offset = float(np.linalg.norm(scipy.linalg.cho_solve(self._factor, self.c) - self.d))
        return ProblemConstants(
            mu=float(eigenvalues[0]),
            L_g1=max(float(eigenvalues[-1]), float(np.linalg.norm(self.B, 2))),
            L_g2=0.0,
            L_f0=times(self.s, times(slope, radius) + offset),
            L_f1=max(self.s, self.rho),
            C_f0=times(self.rho, radius + float(np.linalg.norm(self.e))),
        )

    def fingerprint(self) -> str:
        """Return a hash of the data; see `BilevelProblem.fingerprint`."""
        settings = (self.s, self.rho, *box("problem.bounds", self.bounds, self.dim_x))
        return fingerprint(type(self), self.H, self.B, self.c, self.d, self.e, *settings)


def _householder(v: Array) -> Array:
    """Return I - 2 v v'/|v|^2, an orthogonal matrix."""
    return np.eye(v.size) - 2 / (v @ v) * np.outer(v, v)
