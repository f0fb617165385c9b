"""The lower levels of all folds around one point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nbo.problem import LowerModel

if TYPE_CHECKING:
    from nbo.problems.cross_validation import CrossValidation

Array = npt.NDArray[Any]


class FoldModel(LowerModel):
    """The sum of the folds' lower levels, each of which keeps what its products need.

    Parameters
    ----------
    problem : CrossValidation
        The problem.
    x, y : ndarray
        The point, (m,) and (n,); they must not change while the model is used.
    """

    def __init__(self, problem: CrossValidation, x: Array, y: Array) -> None:
        super().__init__(problem, x, y)
        parts = zip(problem.problems, problem.blocks("y", y), strict=True)
        self.models = tuple(part.lower_model(x, y_k) for part, y_k in parts)
        self._blocks = problem.blocks

    def value(self) -> float:
        """Return g, the sum over folds; see `LowerModel.value`."""
        return sum(model.value() for model in self.models)

    def grad_y(self) -> Array:
        """Return grad_2 g, one block a fold; see `LowerModel.grad_y`."""
        return np.concatenate([model.grad_y() for model in self.models])

    def grad_x(self) -> Array:
        """Return grad_1 g, the sum over folds; see `LowerModel.grad_x`."""
        return np.sum([model.grad_x() for model in self.models], axis=0)

    def grad_y_and_hvp(self, u: Array) -> tuple[Array, Array]:
        """Return grad_2 g and H u, one pass a fold; see `LowerModel.grad_y_and_hvp`."""
        pairs = [
            model.grad_y_and_hvp(u_k) if u_k.any() else (model.grad_y(), np.zeros(u_k.shape))
            for model, u_k in zip(self.models, self._blocks("u", u), strict=True)
        ]
        gradient, product = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
        return gradient, product

    def hvp(self, V: Array) -> Array:
        """Return H v for each row, one pass a fold over its blocks that are not zero; see `LowerModel.hvp`."""
        products = np.zeros(V.shape)  # double, as the sums of the models are
        directions = self._blocks("v", V)
        for k, model in enumerate(self.models):
            wanted = directions[:, k].any(axis=1)
            if wanted.any():
                self._blocks("v", products)[wanted, k] = model.hvp(directions[wanted, k])
        return products

    def jvp(self, u: Array) -> Array:
        """Return J u, the sum over folds; see `LowerModel.jvp`."""
        parts = zip(self.models, self._blocks("u", u), strict=True)
        return np.sum([model.jvp(u_k) for model, u_k in parts], axis=0)
