"""Stopwatches that keep compilation apart from solver time without importing the compiler."""

from __future__ import annotations

import time


class Stopwatch:
    """Accumulates the wall seconds spent inside ``with`` blocks; nested blocks count once.

    Attributes
    ----------
    seconds : float
        Total of all finished outermost blocks.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0
        self._start = 0.0

    def __enter__(self) -> Stopwatch:
        if self._depth == 0:
            self._start = time.perf_counter()
        self._depth += 1
        return self

    def __exit__(self, *exc: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._start


#: Everything that compiles or loads machine code runs inside this stopwatch; solvers subtract its growth.
compilation = Stopwatch()
