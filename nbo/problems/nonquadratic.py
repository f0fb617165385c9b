"""A family with non-vanishing third derivatives that is still known in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nbo._validation import box, matrix, real, vector
from nbo.problem import BilevelProblem
from nbo.problems._fingerprint import fingerprint
from nbo.theory.constants import ProblemConstants

Array = npt.NDArray[Any]


class NonQuadratic(BilevelProblem):
    """g = sum_i psi(y_i) - y'Bx with mu < psi'' < L, and f of the same robust shape in y and x.

    With a = (L + mu)/2 and b = (L - mu)/2: psi(t) = a t^2/2 + b ((t sqrt(1 + t^2) + asinh t)/2 - t), so that
    psi'(t) = a t + b (sqrt(1 + t^2) - 1) and psi''(t) = a + b t/sqrt(1 + t^2).
    f = s sum_i (sqrt(1 + (y_i - d_i)^2) - 1) + rho sum_j (sqrt(1 + (x_j - e_j)^2) - 1).
    psi' has an explicit inverse theta, so y* = theta(Bx), and u* and grad Phi follow. All constants of the
    assumptions are global and exact, with L_g2 = b.

    Parameters
    ----------
    B : array_like
        (n, m).
    d : array_like
        (n,).
    e : array_like
        (m,).
    mu, L : float
        Bounds of psi'', 0 < mu <= L.
    s, rho : float
        Weights of the two parts of f, at least 0.

    Raises
    ------
    ValueError
        If shapes disagree, entries are not finite, or not 0 < mu <= L.
    """

    def __init__(
        self,
        B: npt.ArrayLike,
        d: npt.ArrayLike,
        e: npt.ArrayLike,
        *,
        mu: float,
        L: float,
        s: float = 1.0,
        rho: float = 0.1,
    ) -> None:
        self.B = matrix("B", B)
        self.dim_y, self.dim_x = self.B.shape
        self.d, self.e = vector("d", d, self.dim_y), vector("e", e, self.dim_x)
        self.mu, self.L = real("mu", mu, positive=True), real("L", L, positive=True)
        if self.mu > self.L:
            raise ValueError(f"mu: found {self.mu:g} > L = {self.L:g}; expected 0 < mu <= L")
        self.s, self.rho = real("s", s, minimum=0.0), real("rho", rho, minimum=0.0)
        self._a, self._b = (self.L + self.mu) / 2, (self.L - self.mu) / 2

    @classmethod
    def family(
        cls, kappa: float, *, L: float = 1.0, beta: float = 1.0, s: float = 1.0, rho: float = 0.01
    ) -> NonQuadratic:
        """Return a member on which costs grow with `kappa` as fast as the theory allows.

        n = m = 2, B = beta I, d = (2, -sqrt(kappa)), e = 0 and mu = L/kappa. The negative entry of d draws y to where
        psi'' is near mu.

        Parameters
        ----------
        kappa : float
            L/mu, at least 1.
        L : float
            The upper bound of psi''.
        beta : float
            |B|.
        s, rho : float
            Weights of f.

        Returns
        -------
        NonQuadratic
            The problem.
        """
        real("kappa", kappa, minimum=1.0), real("L", L, positive=True), real("beta", beta, minimum=0.0)
        return cls(beta * np.eye(2), [2.0, -np.sqrt(kappa)], np.zeros(2), mu=L / kappa, L=L, s=s, rho=rho)

    def upper_value(self, x: Array, y: Array) -> float:
        """Return f; see `BilevelProblem.upper_value`."""
        return self.s * _robust_value(y - self.d) + self.rho * _robust_value(x - self.e)

    def upper_grad(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Return grad_1 f and grad_2 f; see `BilevelProblem.upper_grad`."""
        return self.rho * _robust_slope(x - self.e), self.s * _robust_slope(y - self.d)

    def upper_hvp(self, x: Array, y: Array, v: Array) -> Array:
        """Return nabla_22^2 f v; see `BilevelProblem.upper_hvp`."""
        return self.s * v / np.hypot(1, y - self.d) ** 3

    def upper_jvp(self, x: Array, y: Array, u: Array) -> Array:
        """Return zero; see `BilevelProblem.upper_jvp`."""
        return np.zeros(self.dim_x)

    def lower_value(self, x: Array, y: Array) -> float:
        """Return g; see `BilevelProblem.lower_value`."""
        psi = self._a * y * y / 2 + self._b * ((y * np.hypot(1, y) + np.arcsinh(y)) / 2 - y)
        return float(np.sum(psi) - y @ (self.B @ x))

    def lower_grad_y(self, x: Array, y: Array) -> Array:
        """Return psi'(y) - B x; see `BilevelProblem.lower_grad_y`."""
        return self._a * y + self._b * (np.hypot(1, y) - 1) - self.B @ x

    def lower_grad_x(self, x: Array, y: Array) -> Array:
        """Return -B'y; see `BilevelProblem.lower_grad_x`."""
        return -(self.B.T @ y)

    def lower_hvp(self, x: Array, y: Array, v: Array) -> Array:
        """Return psi''(y) v; see `BilevelProblem.lower_hvp`."""
        return self._curvature(y) * v

    def lower_jvp(self, x: Array, y: Array, u: Array) -> Array:
        """Return -B'u; see `BilevelProblem.lower_jvp`."""
        return -(self.B.T @ u)

    def _curvature(self, y: Array) -> Array:
        return self._a + self._b * _robust_slope(y)

    def y_star(self, x: npt.ArrayLike) -> Array:
        """Return y*(x) = theta(Bx), the inverse of psi' in a form without cancellation.

        Parameters
        ----------
        x : array_like
            (m,).

        Returns
        -------
        ndarray
            (n,).
        """
        slope = self.B @ np.asarray(x, dtype=float)
        t = slope + self._b
        w = np.hypot(t, np.sqrt(self.L * self.mu))
        positive = slope * (slope + 2 * self._b) / np.where(t > 0, self._a * t + self._b * w, 1.0)
        return np.where(t > 0, positive, (self._a * t - self._b * w) / (self.L * self.mu))

    def u_star(self, x: npt.ArrayLike) -> Array:
        """Return u*(x) = grad_2 f/psi''(y*).

        Parameters
        ----------
        x : array_like
            (m,).

        Returns
        -------
        ndarray
            (n,).
        """
        y = self.y_star(x)
        return self.s * _robust_slope(y - self.d) / self._curvature(y)

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
        """Return grad Phi(x) = rho (x - e)/sqrt(1 + (x - e)^2) + B'u*.

        Parameters
        ----------
        x : array_like
            (m,).

        Returns
        -------
        ndarray
            (m,).
        """
        return self.rho * _robust_slope(np.asarray(x, dtype=float) - self.e) + self.B.T @ self.u_star(x)

    def constants(self, bounds: Any = None) -> ProblemConstants:
        """Return constants that are exact suprema over the whole space.

        Parameters
        ----------
        bounds : pair, optional
            Not needed: the constants hold everywhere.

        Returns
        -------
        ProblemConstants
            With L_g2 = (L - mu)/2.
        """
        return ProblemConstants(
            mu=self.mu,
            L_g1=max(self.L, float(np.linalg.norm(self.B, 2))),
            L_g2=self._b,
            L_f0=float(self.s * np.sqrt(self.dim_y)),
            L_f1=max(self.s, self.rho),
            C_f0=float(self.rho * np.sqrt(self.dim_x)),
        )

    def fingerprint(self) -> str:
        """Return a hash of the data; see `BilevelProblem.fingerprint`."""
        settings = (self.mu, self.L, self.s, self.rho, *box("problem.bounds", self.bounds, self.dim_x))
        return fingerprint(type(self), self.B, self.d, self.e, *settings)


def _robust_value(t: Array) -> float:
    """Return sum (sqrt(1 + t^2) - 1) without cancellation for small t."""
    return float(np.sum(t * t / (np.hypot(1, t) + 1)))


def _robust_slope(t: Array) -> Array:
    return t / np.hypot(1, t)
