"""Times taken side by side, and the table that shows them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np


class Comparison(NamedTuple):
    """One line of a table: two times and the bound that their ratio has to keep.

    Attributes
    ----------
    what, reference : str
        What was timed, and what it is compared with.
    reference_ms, ms : float
        Milliseconds of the reference and of what was timed.
    is_cost : bool
        Whether the ratio is a cost in units of the reference with an upper bound, and not a speed-up with a lower
        one.
    bound : float or None
        The bound, if there is one.
    """

    what: str
    reference: str
    reference_ms: float
    ms: float
    is_cost: bool
    bound: float | None

    def line(self) -> str:
        """Return the line of the table.

        Returns
        -------
        str
            What, its time, the reference's, and in words the ratio and the bound.
        """
        ratio = self.ms / self.reference_ms if self.is_cost else self.reference_ms / self.ms
        words = "times the cost of" if self.is_cost else "times faster than"
        text = f"  {self.what:<24} {self.ms:10.3f} {self.reference_ms:12.3f}   {ratio:.2f} {words} {self.reference}"
        if self.bound is None:
            return text
        met = ratio <= self.bound if self.is_cost else ratio >= self.bound
        wanted = f"{'at most' if self.is_cost else 'at least'} {self.bound:.1f}"
        return f"{text} ({wanted} wanted: {'met' if met else 'not met'})"


HEADER = f"  {'':<24} {'nbo ms':>10} {'reference ms':>12}   ratio"


def side_by_side(candidates: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Time functions in turn, so that all of them meet the same state of the machine.

    Parameters
    ----------
    candidates : mapping of str to callable
        What to time.
    rounds : int
        How often to run each one, after one run that is not timed.

    Returns
    -------
    dict of str to float
        The 10th percentiles of CPU time in milliseconds.
    """
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for function in candidates.values():
        function()
    for _ in range(rounds):
        for name, function in candidates.items():
            start = time.process_time()
            function()
            seconds[name].append(time.process_time() - start)
    return {name: 1e3 * float(np.percentile(times, 10)) for name, times in seconds.items()}


def one_blas_thread() -> contextlib.AbstractContextManager[object]:
    """Hold the linear algebra libraries to one thread.

    Returns
    -------
    context manager
        In force inside its ``with`` block.

    Raises
    ------
    ImportError
        If threadpoolctl is missing: figures of unknown thread counts would mean nothing.
    """
    try:
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
    except ImportError as error:
        raise ImportError("benchmarks hold BLAS to one thread by threadpoolctl: pip install threadpoolctl") from error
    limits: contextlib.AbstractContextManager[object] = threadpool_limits(1)
    return limits
