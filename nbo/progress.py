"""Progress bars, which say so while code is being compiled; need tqdm (``pip install "nbo[progress]"``)."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, TextIO, TypeVar

from nbo._clock import compilation

#: Seconds between redraws where lines pile up instead of being overwritten.
_SLOW_REDRAW = 30.0


class ProgressBar:
    """A bar for each stage, to be called as a progress callback of :func:`nbo.tuning.tune`.

    Parameters
    ----------
    total : int or None
        Iterations of each stage at most, if known.
    stream : text stream
        Where to draw. If it is no terminal, a stage takes a few lines. When it cannot be written to, drawing ends
        and nothing else.

    Raises
    ------
    ImportError
        If tqdm is missing.
    """

    def __init__(self, total: int | None, stream: TextIO) -> None:
        self._tqdm, self._total, self._stream = _tqdm(), total, stream
        self._bar: Any = None
        self._broken = False
        self._stage = ""
        self._notice: Any = None
        self._noticed = False

    def __enter__(self) -> ProgressBar:
        compilation.listeners.append(self._compiling)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        compilation.listeners.remove(self._compiling)
        if self._bar is not None:
            with self._drawing():
                self._bar.close()
            self._bar = None

    def _compiling(self, begins: bool) -> None:
        """Show a line while code is compiled or loaded; where lines pile up, once."""
        with self._drawing():
            if self._notice is not None:
                self._notice.close()
                self._notice = None
            elif begins and not self._broken and (self._stream.isatty() or not self._noticed):
                self._noticed = True
                self._notice = self._tqdm(bar_format="compiling", leave=False, file=self._stream)

    def __call__(self, stage: str, iteration: int, value: float) -> None:
        """Move the bar of `stage`, finishing the one before it."""
        if self._broken:
            return
        if self._bar is None or stage != self._stage:
            self.finish()
            self._stage = stage
            with self._drawing():
                self._bar = self._new_bar(stage)
        if self._bar is not None:
            with self._drawing():
                self._bar.set_postfix_str(f"value {value:.6g}", refresh=False)
                self._bar.update(iteration - self._bar.n)

    def finish(self) -> None:
        """Close the bar of the last stage as a full one, since the stage has ended."""
        if self._bar is not None:
            with self._drawing():
                if self._bar.total != self._bar.n:
                    self._bar.total, self._bar.bar_format = self._bar.n, "{desc}: |{bar}| {n_fmt} iterations{postfix}"
                    self._bar.refresh()
                self._bar.close()
            self._bar = None

    @contextlib.contextmanager
    def _drawing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError):  # a full disk, a closed pipe; a closed stream is a ValueError
            self._broken = True
            if self._bar is not None:
                self._bar.disable = True  # it would try again when it is collected

    def _new_bar(self, stage: str) -> Any:
        # A stage usually converges long before its limit, so a remaining time would mislead.
        known = "{desc}: |{bar}| {n_fmt} of at most {total_fmt} iterations{postfix}"
        return self._tqdm(
            desc=f"{stage:<11}",
            total=self._total,
            bar_format="{desc}: {n_fmt} iterations{postfix}" if self._total is None else known,
            file=self._stream,
            mininterval=0.1 if self._stream.isatty() else _SLOW_REDRAW,
            dynamic_ncols=True,
        )


class ProgressLine:
    """A callback for `nbo.minimize` that shows iterations and values on one line, and ``compiling`` when that is so.

    Parameters
    ----------
    max_iter : int, optional
        The limit of the run, if it is known.
    stream : text stream, optional
        Where to draw; standard error by default.

    Raises
    ------
    ImportError
        If tqdm is missing.

    Examples
    --------
    >>> import io, nbo, numpy as np
    >>> problem = nbo.problems.Quadratic.family(n=4, m=2, kappa=10)
    >>> with nbo.ProgressLine(100, stream=io.StringIO()) as line:
    ...     res = nbo.minimize(problem, np.zeros(2), max_iter=100, callback=line)
    """

    def __init__(self, max_iter: int | None = None, stream: TextIO | None = None) -> None:
        self._bar = ProgressBar(max_iter, sys.stderr if stream is None else stream)

    def __enter__(self) -> ProgressLine:
        self._bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._bar.finish()
        self._bar.__exit__(kind, error, trace)

    def __call__(self, intermediate_result: Any) -> None:
        """Move the line to an iterate.

        Parameters
        ----------
        intermediate_result : OptimizeResult
            From `nbo.minimize`.
        """
        self._bar("minimize", intermediate_result.nit, intermediate_result.fun)


class TimeLeft:
    """A progress callback of `nbo.experiments.reproduce`: one bar with what ended last and the time left.

    Parameters
    ----------
    stream : text stream, optional
        Where to draw; standard error by default. If it is no terminal, there is a line now and then. When it cannot
        be written to, drawing ends and nothing else.

    Raises
    ------
    ImportError
        If tqdm is missing.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._tqdm = _tqdm()
        self._bar: Any = None
        self._broken = False

    def __enter__(self) -> TimeLeft:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None and not self._broken:
            with contextlib.suppress(OSError, ValueError):
                self._bar.close()

    def __call__(self, finished: float, expected: float, last: str) -> None:
        """Move the bar.

        Parameters
        ----------
        finished, expected : float
            Seconds of work that are done, and of all of it.
        last : str
            What ended last; empty where work from before was found.
        """
        if self._broken:
            return
        try:
            if self._bar is None:
                self._bar = self._tqdm(
                    total=round(expected),
                    initial=min(round(finished), round(expected)),
                    bar_format="{percentage:3.0f}% |{bar:20}| {elapsed} so far, {remaining} left; {desc}",
                    file=self._stream,
                    mininterval=0.1 if self._stream.isatty() else _SLOW_REDRAW,
                    dynamic_ncols=True,
                )
            self._bar.set_description_str(last, refresh=False)
            self._bar.update(min(round(finished), round(expected)) - self._bar.n)
        except (OSError, ValueError):
            self._broken = True


def _tqdm() -> Any:
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise ImportError('a progress bar needs tqdm: pip install "nbo[progress]"') from error
    return tqdm


_Bar = TypeVar("_Bar", bound=contextlib.AbstractContextManager[Any])


def entered(stack: contextlib.ExitStack, make: Callable[[], _Bar]) -> _Bar | None:
    """Enter a progress bar, or tell on the standard error output why there is none.

    Parameters
    ----------
    stack : contextlib.ExitStack
        Where it is left.
    make : callable
        Makes it.

    Returns
    -------
    context manager or None
        The bar; None if tqdm is missing.
    """
    try:
        return stack.enter_context(make())
    except ImportError as error:
        with contextlib.suppress(OSError, ValueError):
            print(f"nbo: {error}", file=sys.stderr, flush=True)
        return None
