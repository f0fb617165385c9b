"""Stopwatches that keep compilation apart from solver time without importing the compiler."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Stopwatch(threading.local):
    """Accumulates the wall seconds that a thread spends inside ``with`` blocks; nested blocks count once.

    Attributes
    ----------
    seconds : float
        Total of all finished outermost blocks.
    listeners : list of callable
        Called with True when an outermost block begins and with False when it ends.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.listeners: list[Callable[[bool], None]] = []
        self._depth = 0
        self._start = 0.0

    def __enter__(self) -> Stopwatch:
        if self._depth == 0:
            self._start = time.perf_counter()
            for listener in self.listeners:
                listener(True)
        self._depth += 1
        return self

    def __exit__(self, *exc: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._start
            for listener in self.listeners:
                listener(False)


#: Everything that compiles or loads machine code runs inside this stopwatch; solvers subtract its growth.
compilation = Stopwatch()


class Timer:
    """Wall time since its creation, without compilation."""

    def __init__(self) -> None:
        self._start, self._compiled = time.perf_counter(), compilation.seconds

    def seconds(self) -> float:
        """Return the seconds until now.

        Returns
        -------
        float
            What has passed.
        """
        return time.perf_counter() - self._start - (compilation.seconds - self._compiled)
