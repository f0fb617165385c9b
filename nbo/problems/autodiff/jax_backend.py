"""Derivatives by JAX: reverse mode for gradients, forward over reverse for products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from nbo._clock import compilation
from nbo.problem import BilevelProblem, LowerModel
from nbo.problems.autodiff.derivatives import Derivatives, required

Array = npt.NDArray[Any]


class JaxDerivatives(Derivatives):
    """A function of `jax.numpy` and its derivatives; see `Derivatives`.

    JAX computes in float32 unless a switch is set. It is set here for the length of each call and in the calling
    thread alone, after which it is as before.

    Parameters
    ----------
    function : callable
        h.
    name : str
        What messages call it.
    dtype : dtype
        Of the computation.
    has_samples : bool
        Whether h takes a batch.
    jit : bool
        Whether to compile, once for each kind and shape.
    """

    library = "jax.numpy"

    def __init__(
        self, function: Callable[..., Any], name: str, dtype: np.dtype[Any], has_samples: bool, jit: bool
    ) -> None:
        super().__init__(function, name, dtype, has_samples)
        self._jax = required("jax", "jax")
        self._jit = jit
        self._functions = {
            kind: self._jax.jit(transformed) if jit else transformed
            for kind, transformed in _transformed(self._jax, self._call).items()
        }
        self._compiled: set[tuple[Any, ...]] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out what is compiled."""
        kind, arguments = super().__reduce__()
        return kind, (*arguments, self._jit)

    def require_traceable(self, dim_x: int, dim_y: int) -> None:
        """Trace the function over all samples and over one, if it is to be compiled; see `Derivatives`."""
        if not self._jit:  # it may look at values
            return
        jax = self._jax
        vectors = [jax.ShapeDtypeStruct((size,), self.dtype) for size in (dim_x, dim_y)]
        with self._precision():
            jax.eval_shape(self._call, *vectors)
            if self.has_samples:
                jax.eval_shape(self._call, *vectors, np.zeros(1, dtype=np.int64))

    def evaluate(self, kind: str, *arguments: Array) -> Any:
        """Return one derivative as NumPy arrays; see `Derivatives.evaluate`."""
        return self._jax.tree.map(np.array, self.run(kind, *arguments))

    def run(self, kind: str, *arguments: Any) -> Any:
        """Return what one of the functions gives, in JAX's own arrays; compilation is timed apart.

        Parameters
        ----------
        kind : str
            Of `Derivatives.evaluate`, or what `LinearisedModel` needs besides.
        *arguments : object
            Of that function.

        Returns
        -------
        object
            Arrays that may share memory with arguments.
        """
        function, signature = self._functions[kind], (kind, len(arguments), arguments[-1].shape)
        with self._precision():
            if not self._jit:  # NumPy's arrays would keep JAX out of the function
                return function(*self._jax.tree.map(self._jax.numpy.asarray, arguments))
            if signature in self._compiled:
                return function(*arguments)
            with compilation:
                result = function(*arguments)
            self._compiled.add(signature)
            return result

    def model(self, problem: BilevelProblem, x: Array, y: Array) -> LowerModel:
        """Return a `LinearisedModel`; see `Derivatives.model`."""
        return LinearisedModel(problem, x, y, self)

    def _precision(self) -> Any:
        return self._jax.enable_x64(self.dtype == np.float64)

    def _require_scalar(self, value: Any) -> None:
        if not isinstance(value, self._jax.Array):
            self._refuse(f"{type(value).__name__}, which has no derivative")
        if value.shape != ():
            self._refuse(f"an array of shape {value.shape}", ValueError)
        kind = self._jax.numpy.dtype(value.dtype)
        if not self._jax.numpy.issubdtype(kind, np.floating):
            self._refuse(f"a number of type {kind}")
        if self._jax.numpy.finfo(kind).eps > np.finfo(self.dtype).eps:
            self._refuse(f"a number of type {kind} though dtype is {self.dtype}")


class LinearisedModel(LowerModel):
    """The lower level around one point, whose gradient in y is linearised at most once.

    Products with H then cost no more evaluations of g; those of several directions are one batch.

    Parameters
    ----------
    problem : BilevelProblem
        The problem.
    x, y : ndarray
        The point.
    derivatives : JaxDerivatives
        Of g.
    """

    def __init__(self, problem: BilevelProblem, x: Array, y: Array, derivatives: JaxDerivatives) -> None:
        super().__init__(problem, x, y)
        self._derivatives = derivatives
        self._linear: Any = None

    def grad_y_and_hvp(self, u: Array) -> tuple[Array, Array]:
        """Return grad_2 g and H u, and keep the linear map; see `LowerModel.grad_y_and_hvp`."""
        gradient, product, self._linear = self._derivatives.run("linear_and_hvp", self.x, self.y, self._typed(u))
        return np.array(gradient), np.array(product)

    def hvp(self, V: Array) -> Array:
        """Return H v for each row by the kept linear map; see `LowerModel.hvp`."""
        if V.shape[0] == 0:
            return np.empty(V.shape, dtype=self.y.dtype)
        if self._linear is None:
            if V.shape[0] == 1:
                return self.problem.lower_hvp(self.x, self.y, V[0])[None]
            self._linear = self._derivatives.run("linear", self.x, self.y)
        return np.array(self._derivatives.run("products", self._linear, self._typed(V)))

    def _typed(self, V: Array) -> Array:
        return np.asarray(V, dtype=self.y.dtype)


def _transformed(jax: Any, h: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Return the value, gradients and products of h by kind, and the linear map of its gradient in y at a point."""
    grad_x, grad_y = jax.grad(h, 0), jax.grad(h, 1)

    def hvp(x: Any, y: Any, v: Any, *batch: Any) -> Any:
        return jax.jvp(lambda z: grad_y(x, z, *batch), (y,), (v,))[1]

    def jvp(x: Any, y: Any, u: Any, *batch: Any) -> Any:
        return jax.jvp(lambda z: grad_x(x, z, *batch), (y,), (u,))[1]

    def linear(x: Any, y: Any) -> Any:
        return jax.linearize(lambda z: grad_y(x, z), y)[1]

    def linear_and_hvp(x: Any, y: Any, u: Any) -> Any:
        gradient, product = jax.linearize(lambda z: grad_y(x, z), y)
        return gradient, product(u), product

    def products(product: Any, V: Any) -> Any:
        return jax.vmap(product)(V)

    plain = {"value": h, "grad": jax.grad(h, (0, 1)), "grad_x": grad_x, "grad_y": grad_y, "hvp": hvp, "jvp": jvp}
    return plain | {"linear": linear, "linear_and_hvp": linear_and_hvp, "products": products}
