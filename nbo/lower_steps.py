"""How y moves along a Newton direction: all the way, or less where a whole step went too far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._storable import storable

Array = npt.NDArray[Any]
Memory = Mapping[str, Any]

#: A step is too long when g rises at its end by more than this part of the slope with which it fell at its start:
#: for a quadratic g, beyond 1.8 times the distance to the minimum. Newton's own step has a slope of zero there.
OVERSHOT = 0.8


@storable
class LowerStep(NamedTuple):
    """The last step on y, under ``"lower"`` in the memory of a method while x rests.

    Attributes
    ----------
    start, direction : ndarray
        It led from `start` to start - length direction, (n,) each.
    slope : float
        direction' grad_2 g at `start`.
    length : float
        In (0, 1].
    """

    start: Array
    direction: Array
    slope: float
    length: float = 1.0

    @property
    def end(self) -> Array:
        """Where it led, (n,)."""
        return self.start - self.start.dtype.type(self.length) * self.direction

    def overshot(self, grad: Array, rounding: float) -> bool:
        """Tell whether g rises too steeply at the end of the step.

        Parameters
        ----------
        grad : ndarray
            grad_2 g there, (n,).
        rounding : float
            The norm of a gradient that is rounding error alone.

        Returns
        -------
        bool
            Always False where the slopes are rounding error, and for a direction along which g rises, which no
            length mends.
        """
        noise = rounding * float(np.linalg.norm(self.direction))
        return self.slope > 0 and -float(self.direction @ grad) > OVERSHOT * self.slope + noise

    def halved(self) -> LowerStep:
        """Return the step of half the length.

        Returns
        -------
        LowerStep
            From the same start.
        """
        return self._replace(length=self.length / 2)

    def following(self, start: Array, direction: Array, grad: Array) -> LowerStep:
        """Return the next step, at most twice as long a part of its direction.

        Parameters
        ----------
        start, direction, grad : ndarray
            The new start, the direction there, and grad_2 g there, (n,) each.

        Returns
        -------
        LowerStep
            With a length of at most 1.
        """
        return LowerStep(start, direction, float(direction @ grad), min(1.0, 2 * self.length))
