"""The user's object: a bilevel problem with explicit oracles, and the lower level around one point."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import LinearOperator

from nbo._validation import box, require_unmasked

if TYPE_CHECKING:
    from nbo.theory.constants import ProblemConstants

Array = npt.NDArray[Any]

#: The oracles that a method may need beyond the required ones.
OPTIONAL_ORACLES = ("lower_grad_x", "upper_hvp", "upper_jvp")


class BilevelProblem(abc.ABC):
    """A problem min_x f(x, y*(x)) subject to y*(x) = argmin_y g(x, y), with g(x, .) strongly convex.

    Subclasses set `dim_x` and `dim_y` and write the six abstract oracles; the others are optional,
    and a method that needs a missing one says so by name before it starts. Oracles must not modify
    their arguments (they are given as read-only arrays) and return real numbers of the stated shape.

    Attributes
    ----------
    dim_x, dim_y : int
        The lengths m of x and n of y.
    bounds : pair
        Lower and upper bounds of x, each a scalar or a vector; ``(-inf, inf)`` by default.
    dtype : dtype
        The floating type of y and u, float64 by default; x is always float64.
    constants_kind : str
        Of what kind the constants are that `constants` returns, ``"bound"`` by default, or ``"estimate"``; those may be
        costly, and no bounds follow from them.
    lower_blocks : int
        y consists of so many blocks of equal length that do not interact in g, so that linear solvers may run one
        recursion a block; 1 by default.

    See Also
    --------
    nbo.minimize : Solves a problem.
    nbo.check_problem : Verifies its oracles.
    FiniteSumProblem : When f and g are means over samples.

    Notes
    -----
    The notation is that of the paper: H = nabla_22^2 g, J = nabla_12^2 g, u = H^{-1} grad_2 f.
    """

    dim_x: int
    dim_y: int
    bounds: Any = (-np.inf, np.inf)
    dtype: np.dtype[Any] = np.dtype(np.float64)
    lower_blocks: int = 1
    #: What `constants` returns: ``"bound"`` or ``"estimate"``.
    constants_kind: str = "bound"
    #: Optional oracles that the class defines and an object lacks, for classes that derive them from something else.
    _absent: frozenset[str] = frozenset()

    @abc.abstractmethod
    def upper_value(self, x: Array, y: Array) -> float:
        """Return f(x, y).

        Parameters
        ----------
        x, y : ndarray
            The point, (m,) and (n,).

        Returns
        -------
        float
            The upper-level value.
        """

    @abc.abstractmethod
    def upper_grad(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Return grad_1 f and grad_2 f, one joint gradient.

        Parameters
        ----------
        x, y : ndarray
            The point, (m,) and (n,).

        Returns
        -------
        tuple of ndarray
            grad_1 f(x, y), (m,), and grad_2 f(x, y), (n,).
        """

    @abc.abstractmethod
    def lower_value(self, x: Array, y: Array) -> float:
        """Return g(x, y).

        Parameters
        ----------
        x, y : ndarray
            The point, (m,) and (n,).

        Returns
        -------
        float
            The lower-level value.
        """

    @abc.abstractmethod
    def lower_grad_y(self, x: Array, y: Array) -> Array:
        """Return grad_2 g(x, y).

        Parameters
        ----------
        x, y : ndarray
            The point, (m,) and (n,).

        Returns
        -------
        ndarray
            The gradient in y, (n,).
        """

    @abc.abstractmethod
    def lower_hvp(self, x: Array, y: Array, v: Array) -> Array:
        """Return H v = nabla_22^2 g(x, y) v.

        Parameters
        ----------
        x, y : ndarray
            The point, (m,) and (n,).
        v : ndarray
            One direction, (n,), never a block.

        Returns
        -------
        ndarray
            The product, (n,).
        """

    @abc.abstractmethod
    def lower_jvp(self, x: Array, y: Array, u: Array) -> Array:
        """Return J u = (d/dy grad_1 g) u = nabla_12^2 g(x, y) u.

        Parameters
        ----------
        x, y : ndarray
            The point, (m,) and (n,).
        u : ndarray
            A direction, (n,).

        Returns
        -------
        ndarray
            The product, (m,).
        """

    def lower_grad_x(self, x: Array, y: Array) -> Array:
        """Return grad_1 g(x, y), (m,); optional, for first-order methods.

        Parameters
        ----------
        x, y : ndarray
            The point, (m,) and (n,).

        Returns
        -------
        ndarray
            The gradient in x, (m,).

        Raises
        ------
        NotImplementedError
            If the problem does not have it.
        """
        raise NotImplementedError(_missing(self, "lower_grad_x"))

    def upper_hvp(self, x: Array, y: Array, v: Array) -> Array:
        """Return nabla_22^2 f(x, y) v, (n,); optional, for aggregated lower levels.

        Parameters
        ----------
        x, y : ndarray
            The point, (m,) and (n,).
        v : ndarray
            A direction, (n,).

        Returns
        -------
        ndarray
            The product, (n,).

        Raises
        ------
        NotImplementedError
            If the problem does not have it.
        """
        raise NotImplementedError(_missing(self, "upper_hvp"))

    def upper_jvp(self, x: Array, y: Array, u: Array) -> Array:
        """Return nabla_12^2 f(x, y) u, (m,); optional, for aggregated lower levels.

        Parameters
        ----------
        x, y : ndarray
            The point, (m,) and (n,).
        u : ndarray
            A direction, (n,).

        Returns
        -------
        ndarray
            The product, (m,).

        Raises
        ------
        NotImplementedError
            If the problem does not have it.
        """
        raise NotImplementedError(_missing(self, "upper_jvp"))

    def lower_model(self, x: Array, y: Array) -> LowerModel:
        """Return g around one point, where oracles may share work; does no work itself.

        Parameters
        ----------
        x, y : ndarray
            The point, (m,) and (n,).

        Returns
        -------
        LowerModel
            By default one that calls the plain oracles; override it to share passes over data.
        """
        return LowerModel(self, x, y)

    def project(self, x: Array) -> Array:
        """Return the point of the feasible set that is nearest to `x`; by default a clip onto `bounds`.

        Override it for a set that is no box. It must be a Euclidean projection onto a convex set.

        Parameters
        ----------
        x : ndarray
            Any point, (m,).

        Returns
        -------
        ndarray
            The projection, (m,).
        """
        lower, upper = box("problem.bounds", self.bounds, self.dim_x)
        return np.minimum(np.maximum(x, lower), upper)

    def constants(self, bounds: Any = None) -> ProblemConstants:
        """Return constants that bound the problem's derivatives; optional.

        Parameters
        ----------
        bounds : pair, optional
            The region of x for which they are to hold; the problem's own bounds by default.

        Returns
        -------
        ProblemConstants
            Strong convexity, Lipschitz and noise constants.

        Raises
        ------
        NotImplementedError
            If the problem does not have them.
        """
        raise NotImplementedError(_missing(self, "constants"))

    def fingerprint(self) -> str:
        """Return a text that identifies data and settings; by default the class, the sizes and the type of y.

        Returns
        -------
        str
            Equal for equal problems; built-in problems hash their data.
        """
        kind = type(self)
        names = ("dim_x", "dim_y", "n_samples_lower", "n_samples_upper")
        sizes = "x".join(str(getattr(self, name)) for name in names if hasattr(self, name))
        return f"{kind.__module__}.{kind.__qualname__}:{sizes}:{np.dtype(self.dtype)}"


def _missing(problem: BilevelProblem, name: str) -> str:
    return f"problem: {type(problem).__name__} does not define {name}"


def provides(problem: Any, name: str) -> bool:
    """Tell whether `problem` has its own version of an optional member of `BilevelProblem`.

    Parameters
    ----------
    problem : BilevelProblem
        The problem.
    name : str
        The member, such as ``"lower_grad_x"``.

    Returns
    -------
    bool
        Whether its class or the object itself defines it.
    """
    if name in problem._absent:
        return False
    member = getattr(problem, name, None)
    return member is not None and getattr(member, "__func__", member) is not getattr(BilevelProblem, name)


class FiniteSumProblem(BilevelProblem):
    """A problem whose f and g are means over samples, with the same oracles on a part of them.

    Every oracle takes a keyword ``batch``: None (all samples), a slice or an integer array; it then
    returns the mean over those samples. The upper oracles index the upper samples, the lower ones
    the lower samples.

    Attributes
    ----------
    n_samples_upper, n_samples_lower : int
        The numbers of samples behind f and g.
    """

    n_samples_upper: int
    n_samples_lower: int


class LowerModel:
    """The lower level g around one point (x, y), by a problem's plain oracles.

    Subclasses share work between the methods: for data problems `grad_y_and_hvp` is one pass over
    the data that also stores the curvature weights, which `hvp` then reuses.

    Parameters
    ----------
    problem : BilevelProblem
        Where the oracles come from.
    x, y : ndarray
        The point, (m,) and (n,); they must not change while the model is used.
    """

    def __init__(self, problem: BilevelProblem, x: Array, y: Array) -> None:
        self.problem = problem
        self.x = x
        self.y = y

    def value(self) -> float:
        """Return g(x, y); 1 lower_value.

        Returns
        -------
        float
            The lower-level value.
        """
        return self.problem.lower_value(self.x, self.y)

    def grad_y(self) -> Array:
        """Return grad_2 g(x, y), (n,); 1 lower_grad_y.

        Returns
        -------
        ndarray
            The gradient in y.
        """
        return self.problem.lower_grad_y(self.x, self.y)

    def grad_x(self) -> Array:
        """Return grad_1 g(x, y), (m,); 1 lower_grad_x.

        Returns
        -------
        ndarray
            The gradient in x.
        """
        return self.problem.lower_grad_x(self.x, self.y)

    def grad_y_and_hvp(self, u: Array) -> tuple[Array, Array]:
        """Return grad_2 g(x, y) and H u; 1 lower_grad_y and 1 lower_hvp.

        Parameters
        ----------
        u : ndarray
            A direction, (n,).

        Returns
        -------
        tuple of ndarray
            The gradient and the product, (n,) each.
        """
        gradient = np.array(self.grad_y(), subok=True)  # a problem may return the same buffer twice
        return gradient, self.problem.lower_hvp(self.x, self.y, u)

    def hvp(self, V: Array) -> Array:
        """Return H v for each row v of `V`; k lower_hvp.

        Parameters
        ----------
        V : ndarray
            Directions in rows, (k, n).

        Returns
        -------
        ndarray
            The products in rows, (k, n).
        """
        products = [np.array(self.problem.lower_hvp(self.x, self.y, v), subok=True) for v in V]
        for product, v in zip(products, V, strict=True):
            require_unmasked("lower_hvp", product)
            if product.shape != v.shape:
                raise ValueError(f"lower_hvp: returned shape {product.shape}; expected {v.shape}")
        return np.stack(products) if products else np.empty_like(V)

    def jvp(self, u: Array) -> Array:
        """Return J u, (m,); 1 lower_jvp.

        Parameters
        ----------
        u : ndarray
            A direction, (n,).

        Returns
        -------
        ndarray
            The product.
        """
        return self.problem.lower_jvp(self.x, self.y, u)

    @property
    def hessian(self) -> LinearOperator:
        """H as a symmetric `scipy.sparse.linalg.LinearOperator`, (n, n), over `hvp`."""
        n = self.y.shape[0]

        def product(v: Array) -> Array:
            return self.hvp(np.ascontiguousarray(v.reshape(1, n)))[0]

        def block(V: Array) -> Array:
            return self.hvp(np.ascontiguousarray(V.T)).T

        return LinearOperator((n, n), matvec=product, rmatvec=product, matmat=block, rmatmat=block, dtype=self.y.dtype)
