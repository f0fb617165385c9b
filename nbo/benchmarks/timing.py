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
    what, case : str
        What is compared, and on which data.
    reference, ours : float
        Milliseconds.
    is_cost : bool
        Whether the ratio is ours / reference with an upper bound, and not a speed-up with a lower one.
    bound : float or None
        The bound, if there is one.
    """

    what: str
    case: str
    reference: float
    ours: float
    is_cost: bool
    bound: float | None

    def line(self) -> str:
        """Return the line of the table.

        Returns
        -------
        str
            Columns of fixed width.
        """
        ratio = self.ours / self.reference if self.is_cost else self.reference / self.ours
        text = f"{self.what:<34} {self.case:<32} {self.reference:12.3f} {self.ours:10.3f} {ratio:8.2f}"
        if self.bound is None:
            return text
        met = ratio <= self.bound if self.is_cost else ratio >= self.bound
        return f"{text}   {'<=' if self.is_cost else '>='} {self.bound:.1f}   {'yes' if met else 'no'}"


HEADER = f"{'':<34} {'':<32} {'reference ms':>12} {'ours ms':>10} {'ratio':>8}   bound    met"


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
