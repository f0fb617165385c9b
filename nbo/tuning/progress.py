"""The progress bar of the command line; needs tqdm (``pip install "nbo[progress]"``)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import Any, TextIO

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
        try:
            from tqdm import tqdm
        except ImportError as error:
            raise ImportError('a progress bar needs tqdm: pip install "nbo[progress]"') from error
        self._tqdm, self._total, self._stream = tqdm, total, stream
        self._bar: Any = None
        self._broken = False
        self._stage = ""

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            with self._drawing():
                self._bar.close()
            self._bar = None

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
