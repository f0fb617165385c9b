"""Pairs of step sizes, the grids of the paper, and the schedules that methods have in the public benchmark."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

import nbo


class Steps(NamedTuple):
    """A pair of step sizes.

    Attributes
    ----------
    inner, ratio : float
        The inner step, and what the outer one is smaller by.
    """

    inner: float
    ratio: float

    def options(self, solver: type[Any], decay: tuple[float, float]) -> dict[str, Any]:
        """Return the options that a method has for them.

        Parameters
        ----------
        solver : type
            The class of the method.
        decay : tuple of float
            Exponents of (k + 1) by which the outer and the inner step decay.

        Returns
        -------
        dict
            One or both step sizes.
        """
        outer, inner = (
            nbo.schedules.PowerDecay(s, e) for s, e in zip((self.inner / self.ratio, self.inner), decay, strict=True)
        )
        return {"step_size": outer} | ({"inner_step_size": inner} if hasattr(solver, "inner_step_size") else {})


@dataclasses.dataclass(frozen=True)
class Grid:
    """All pairs of some inner steps and ratios.

    Attributes
    ----------
    inner, ratios : tuple of float
        See `Steps`.
    """

    inner: tuple[float, ...]
    ratios: tuple[float, ...]

    @property
    def pairs(self) -> tuple[Steps, ...]:
        """The pairs, by inner step."""
        return tuple(Steps(inner, ratio) for inner in self.inner for ratio in self.ratios)


def _powers(base: float, start: float, stop: float, count: int) -> tuple[float, ...]:
    return tuple(float(value) for value in np.logspace(start, stop, count, base=base))


#: The grids of the paper's appendix on its experiments, "Algorithm Settings".
IJCNN1_GRID = Grid(inner=_powers(2, -5, 0, 6), ratios=_powers(10, -2, 0, 5))
COVTYPE_GRID = Grid(inner=_powers(2, -6, 0, 7), ratios=_powers(10, -2, 1, 4))
CLEANING_GRID = Grid(inner=_powers(10, -3, 0, 4), ratios=_powers(10, -6, -3, 4))

#: Exponents of (k + 1) by which the outer and the inner step of methods decay in the public benchmark, or, where it
#: does not have them, in their papers; those of other methods are constant.
DECAY: dict[str, tuple[float, float]] = {
    "nsbo-sgd": (1 / 2, 1 / 2),
    "soba": (1 / 2, 1 / 2),
    "alset": (1 / 2, 1 / 2),
    "bsa": (1 / 2, 1 / 2),
    "ttsa": (3 / 5, 2 / 5),
    "fsla": (1 / 2, 1 / 2),
    "sustain": (1 / 3, 1 / 3),
    "mrbo": (1 / 3, 1 / 3),
}

#: The decay of a method that is not listed.
CONSTANT = (0.0, 0.0)
