"""Derivatives by PyTorch: reverse mode for gradients, a second reverse pass for products."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from nbo.problem import BilevelProblem, LowerModel
from nbo.problems.autodiff.derivatives import Derivatives, required

Array = npt.NDArray[Any]


class TorchDerivatives(Derivatives):
    """A function of torch tensors and its derivatives; see `Derivatives`.

    Tensors are fresh copies of the arguments. Gradients are returned, never accumulated in ``.grad``, and the
    caller's grad mode and inference mode are as before after each call.

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
    """

    library = "torch"

    def __init__(self, function: Callable[..., Any], name: str, dtype: np.dtype[Any], has_samples: bool) -> None:
        super().__init__(function, name, dtype, has_samples)
        self._torch = required("torch", "torch")

    def evaluate(self, kind: str, *arguments: Array) -> Any:
        """Return one derivative as NumPy arrays; see `Derivatives.evaluate`."""
        if kind == "value":
            with self._torch.no_grad():
                return self._call(*map(self._torch.tensor, arguments)).item()
        with self._recording():
            if kind in ("hvp", "jvp"):
                x, y, v, *batch = arguments
                return Graph(self, x, y, *batch).product(v, in_x=kind == "jvp")
            x, y, *batch = arguments
            inputs, value = self.record(x, y, *batch)
            wanted = {"grad": inputs, "grad_x": inputs[:1], "grad_y": inputs[1:]}[kind]
            gradients = self._torch.autograd.grad(value, wanted, materialize_grads=True)
        arrays = tuple(map(to_numpy, gradients))
        return arrays if kind == "grad" else arrays[0]

    def record(self, x: Array, y: Array, *batch: Array) -> tuple[tuple[Any, Any], Any]:
        """Evaluate the function with a record for derivatives in x and y.

        Parameters
        ----------
        x, y : ndarray
            The point.
        *batch : ndarray
            Sample indices, if any.

        Returns
        -------
        tuple
            The pair of tensors (x, y), and the value.

        Raises
        ------
        TypeError
            If the value does not depend on x or y in a way that torch can follow.
        """
        inputs = tuple(self._torch.tensor(a, requires_grad=True) for a in (x, y))
        value = self._call(*inputs, *map(self._torch.tensor, batch))
        if not value.requires_grad:
            self._refuse("a tensor that is cut off from x and y (by detach, item, no_grad or NumPy)")
        return (inputs[0], inputs[1]), value

    def model(self, problem: BilevelProblem, x: Array, y: Array) -> LowerModel:
        """Return a `GraphModel`; see `Derivatives.model`."""
        return GraphModel(problem, x, y, self)

    @contextlib.contextmanager
    def _recording(self) -> Iterator[None]:
        """Record operations whatever the caller's modes are; both are per thread."""
        with self._torch.inference_mode(False), self._torch.enable_grad():
            yield

    def _require_scalar(self, value: Any) -> None:
        torch = self._torch
        if not isinstance(value, torch.Tensor):
            self._refuse(f"{type(value).__name__}, which has no derivative")
        if value.shape != ():
            self._refuse(f"a tensor of shape {tuple(value.shape)}", ValueError)
        if not value.dtype.is_floating_point:
            self._refuse(f"a number of type {value.dtype}")
        if torch.finfo(value.dtype).eps > np.finfo(self.dtype).eps:
            self._refuse(f"a number of type {value.dtype} though dtype is {self.dtype}")


class Graph:
    """The recorded gradient in y of a function at one point, from which products are reverse passes.

    Parameters
    ----------
    derivatives : TorchDerivatives
        The function.
    x, y : ndarray
        The point.
    *batch : ndarray
        Sample indices, if any.
    """

    def __init__(self, derivatives: TorchDerivatives, x: Array, y: Array, *batch: Array) -> None:
        self._torch, self._recording = derivatives._torch, derivatives._recording
        with self._recording():
            self._inputs, value = derivatives.record(x, y, *batch)
            (self._gradient,) = self._torch.autograd.grad(
                value, self._inputs[1:], create_graph=True, materialize_grads=True
            )

    @property
    def gradient(self) -> Array:
        """The gradient in y, (n,)."""
        return to_numpy(self._gradient)

    def product(self, v: Array, *, in_x: bool = False) -> Array:
        """Return the gradient of <grad_2 h, v> in y, nabla_22^2 h v, or in x, nabla_12^2 h v.

        Parameters
        ----------
        v : ndarray
            The direction, (n,).
        in_x : bool
            Whether in x.

        Returns
        -------
        ndarray
            (n,) or (m,).
        """
        wanted = self._inputs[0 if in_x else 1]
        if not self._gradient.requires_grad:  # h is linear in y alone
            return np.zeros(wanted.shape, dtype=v.dtype)
        with self._recording():
            (product,) = self._torch.autograd.grad(
                self._gradient, wanted, self._torch.tensor(v), retain_graph=True, materialize_grads=True
            )
        return to_numpy(product)


class GraphModel(LowerModel):
    """The lower level around one point, whose gradient in y is recorded at most once.

    Each product with H or J is then one more reverse pass.

    Parameters
    ----------
    problem : BilevelProblem
        The problem.
    x, y : ndarray
        The point.
    derivatives : TorchDerivatives
        Of g.
    """

    def __init__(self, problem: BilevelProblem, x: Array, y: Array, derivatives: TorchDerivatives) -> None:
        super().__init__(problem, x, y)
        self._derivatives = derivatives

    @functools.cached_property
    def _graph(self) -> Graph:
        return Graph(self._derivatives, self.x, self.y)

    def grad_y(self) -> Array:
        """Return grad_2 g, and keep its record; see `LowerModel.grad_y`."""
        return self._graph.gradient

    def grad_y_and_hvp(self, u: Array) -> tuple[Array, Array]:
        """Return grad_2 g and H u by one pass more; see `LowerModel.grad_y_and_hvp`."""
        return self._graph.gradient, self._product(u)

    def hvp(self, V: Array) -> Array:
        """Return H v for each row by one pass each; see `LowerModel.hvp`."""
        return np.stack([self._product(v) for v in V]) if len(V) else np.empty(V.shape, dtype=self.y.dtype)

    def jvp(self, u: Array) -> Array:
        """Return J u by one pass more; see `LowerModel.jvp`."""
        return self._product(u, in_x=True).astype(np.float64)

    def _product(self, v: Array, *, in_x: bool = False) -> Array:
        return self._graph.product(np.asarray(v, dtype=self.y.dtype), in_x=in_x)


def to_numpy(tensor: Any) -> Array:
    """Return a copy of a tensor as an array.

    Parameters
    ----------
    tensor : torch.Tensor
        On any device.

    Returns
    -------
    ndarray
        Its values.
    """
    return np.array(tensor.detach().cpu().numpy())
