"""Bilevel problems whose oracles are derivatives of two functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nbo._validation import box, integer
from nbo.problem import BilevelProblem, FiniteSumProblem, LowerModel
from nbo.problems.autodiff.derivatives import Derivatives

Array = npt.NDArray[Any]


class AutodiffProblem(BilevelProblem):
    """A problem from f and g with automatic derivatives; made by `from_jax` or `from_torch`.

    All oracles are there, the optional ones included, and no matrix is formed. Everything is computed in `dtype`,
    to which x is rounded.

    Parameters
    ----------
    upper, lower : Derivatives
        f and g.
    dim_x, dim_y : int
        The lengths of x and y.
    bounds : pair
        Bounds of x.

    Raises
    ------
    TypeError, ValueError
        For bad dimensions or bounds, and whatever a function raises that its library tries without values.
    """

    def __init__(self, upper: Derivatives, lower: Derivatives, dim_x: int, dim_y: int, bounds: Any) -> None:
        self.dim_x, self.dim_y = integer("dim_x", dim_x, minimum=1), integer("dim_y", dim_y, minimum=1)
        self.bounds = box("bounds", bounds, self.dim_x)
        self.dtype = lower.dtype
        self._upper, self._lower = upper, lower
        for function in (upper, lower):
            function.require_traceable(self.dim_x, self.dim_y)

    def upper_value(self, x: Array, y: Array, batch: Any = None) -> float:
        """Return f; see `BilevelProblem.upper_value`."""
        return float(self._of_upper("value", x, y, batch))

    def upper_grad(self, x: Array, y: Array, batch: Any = None) -> tuple[Array, Array]:
        """Return grad_1 f and grad_2 f by one reverse pass; see `BilevelProblem.upper_grad`."""
        first, second = self._of_upper("grad", x, y, batch)
        return _wide(first), second

    def upper_hvp(self, x: Array, y: Array, v: Array, batch: Any = None) -> Array:
        """Return nabla_22^2 f v; see `BilevelProblem.upper_hvp`."""
        return self._of_upper("hvp", x, y, batch, v=v)

    def upper_jvp(self, x: Array, y: Array, u: Array, batch: Any = None) -> Array:
        """Return nabla_12^2 f u; see `BilevelProblem.upper_jvp`."""
        return _wide(self._of_upper("jvp", x, y, batch, u=u))

    def lower_value(self, x: Array, y: Array, batch: Any = None) -> float:
        """Return g; see `BilevelProblem.lower_value`."""
        return float(self._of_lower("value", x, y, batch))

    def lower_grad_y(self, x: Array, y: Array, batch: Any = None) -> Array:
        """Return grad_2 g; see `BilevelProblem.lower_grad_y`."""
        return self._of_lower("grad_y", x, y, batch)

    def lower_grad_x(self, x: Array, y: Array, batch: Any = None) -> Array:
        """Return grad_1 g; see `BilevelProblem.lower_grad_x`."""
        return _wide(self._of_lower("grad_x", x, y, batch))

    def lower_hvp(self, x: Array, y: Array, v: Array, batch: Any = None) -> Array:
        """Return H v; see `BilevelProblem.lower_hvp`."""
        return self._of_lower("hvp", x, y, batch, v=v)

    def lower_jvp(self, x: Array, y: Array, u: Array, batch: Any = None) -> Array:
        """Return J u; see `BilevelProblem.lower_jvp`."""
        return _wide(self._of_lower("jvp", x, y, batch, u=u))

    def lower_model(self, x: Array, y: Array) -> LowerModel:
        """Return the lower level around one point, which is linearised once; see `BilevelProblem.lower_model`."""
        return self._lower.model(self, *self._vectors({"x": x, "y": y}))

    def fingerprint(self) -> str:
        """Return names, sizes and types, not what the functions compute; see `BilevelProblem.fingerprint`."""
        names = (_name(level.function) for level in (self._upper, self._lower))
        return ":".join([super().fingerprint(), self._lower.library, *names])

    def _of_upper(self, kind: str, x: Array, y: Array, batch: Any, **direction: Array) -> Any:
        vectors = self._vectors({"x": x, "y": y, **direction})
        return self._upper.evaluate(kind, *vectors, *self._samples("upper", batch))

    def _of_lower(self, kind: str, x: Array, y: Array, batch: Any, **direction: Array) -> Any:
        vectors = self._vectors({"x": x, "y": y, **direction})
        return self._lower.evaluate(kind, *vectors, *self._samples("lower", batch))

    def _vectors(self, named: dict[str, Array]) -> list[Array]:
        """Return vectors in the working type; a wrong length would be broadcast by the libraries."""
        vectors = []
        for name, value in named.items():
            size, meaning = (self.dim_x, "dim_x") if name == "x" else (self.dim_y, "dim_y")
            array = np.asarray(value, dtype=self.dtype)
            if array.shape != (size,):
                raise ValueError(f"{name}: found shape {array.shape}; expected ({size},) ({meaning})")
            vectors.append(array)
        return vectors

    def _samples(self, level: str, batch: Any) -> tuple[Array, ...]:
        """Return nothing for all samples, else the indices of the batch."""
        if batch is not None:
            raise TypeError("batch: this problem has no samples; give n_samples_upper and n_samples_lower")
        return ()


class AutodiffSumProblem(AutodiffProblem, FiniteSumProblem):
    """An `AutodiffProblem` whose f and g are means over samples.

    Parameters
    ----------
    upper, lower : Derivatives
        f and g, with a batch.
    dim_x, dim_y : int
        The lengths of x and y.
    bounds : pair
        Bounds of x.
    n_samples_upper, n_samples_lower : int
        The numbers of samples.
    """

    def __init__(
        self,
        upper: Derivatives,
        lower: Derivatives,
        dim_x: int,
        dim_y: int,
        bounds: Any,
        n_samples_upper: int,
        n_samples_lower: int,
    ) -> None:
        self.n_samples_upper = integer("n_samples_upper", n_samples_upper, minimum=1)
        self.n_samples_lower = integer("n_samples_lower", n_samples_lower, minimum=1)
        self._indices = {"upper": np.arange(self.n_samples_upper), "lower": np.arange(self.n_samples_lower)}
        super().__init__(upper, lower, dim_x, dim_y, bounds)

    def _samples(self, level: str, batch: Any) -> tuple[Array, ...]:
        if batch is None:
            return ()
        chosen = self._indices[level][batch]  # refuses what is out of range, which JAX would clamp
        if chosen.ndim != 1 or chosen.size == 0:
            raise ValueError(f"batch: found indices of shape {chosen.shape}; expected a vector of at least one sample")
        return (chosen,)


def _wide(vector: Array) -> Array:
    """Return a vector in the space of x, which is float64 everywhere."""
    return vector.astype(np.float64, copy=False)


def _name(function: Any) -> str:
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"
