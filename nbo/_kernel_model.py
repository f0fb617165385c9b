"""The lower level of a compiled problem around one point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nbo._kernel_forms import KEEPING
from nbo.problem import LowerModel

if TYPE_CHECKING:
    from nbo.compiled import CompiledProblem

Array = npt.NDArray[Any]


class KernelModel(LowerModel):
    """The lower level of a `CompiledProblem`, which multiplies blocks of directions at once and keeps curvatures.

    Parameters
    ----------
    problem : CompiledProblem
        The problem.
    x, y : ndarray
        The point, (m,) and (n,); they must not change while the model is used.
    """

    problem: CompiledProblem

    def __init__(self, problem: CompiledProblem, x: Array, y: Array) -> None:
        super().__init__(problem, x, y)
        self._keeps = KEEPING[0] in problem.kernels
        self._curvatures: Array | None = None

    def grad_y(self) -> Array:
        """Return grad_2 g, and keep what products need; see `LowerModel.grad_y`."""
        if not self._keeps:
            return super().grad_y()
        return self._pass(np.empty((0, self.problem.dim_y)))[0]

    def grad_y_and_hvp(self, u: Array) -> tuple[Array, Array]:
        """Return grad_2 g and H u in one pass; see `LowerModel.grad_y_and_hvp`."""
        if not self._keeps:
            (both,) = self.problem.mean_of("lower_grad_y_and_hvp", None, (self.x, self.y, u))
            return both[0], both[1]
        gradient, products = self._pass(np.asarray(u)[None])
        return gradient, products[0]

    def hvp(self, V: Array) -> Array:
        """Return H v for each row in one pass; see `LowerModel.hvp`."""
        if not len(V):
            return np.empty_like(V)
        if not self._keeps:
            return self.problem.mean_of("lower_hvp", None, (self.x, self.y, V))[0]
        if self._curvatures is None:
            return self._pass(V)[1]
        return self.problem.kept_hvp(self.x, self._curvatures, V)

    def _pass(self, V: Array) -> tuple[Array, Array]:
        gradient, products, self._curvatures = self.problem.kept_pass(self.x, self.y, V)
        return gradient, products
