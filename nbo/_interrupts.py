"""Ctrl-C where an exception in the middle would do harm."""

from __future__ import annotations

import _thread
import contextlib
import signal
import sys
import threading
from collections.abc import Iterator

#: The exit status of a command that Ctrl-C has ended, 128 + the signal's number.
INTERRUPTED = 130


@contextlib.contextmanager
def held(*, once: bool = False) -> Iterator[None]:
    """Postpone Ctrl-C to the end of the block, as a KeyboardInterrupt there.

    Nothing changes outside the main thread, or where somebody else handles the signal.

    Parameters
    ----------
    once : bool
        Whether a second Ctrl-C within the block is not postponed.

    Yields
    ------
    None
        For the block.
    """
    pressed: list[int] = []

    def press(number: int, frame: object) -> None:
        if once and pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    handles = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if handles:
        try:
            signal.signal(signal.SIGINT, press)
        except ValueError:  # only the main thread has a say in signals
            handles = False
    try:
        yield
    finally:
        if handles:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    if pressed:
        raise KeyboardInterrupt


#: Seconds after which a lost Ctrl-C is sent again.
_AGAIN = 0.05


@contextlib.contextmanager
def repeated() -> Iterator[None]:
    """Send Ctrl-C again, without a message, when code that cannot raise has dropped its exception.

    A compiler's callbacks are such code.

    Yields
    ------
    None
        For the block.
    """
    before = sys.unraisablehook

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            threading.Timer(_AGAIN, _thread.interrupt_main).start()
        else:
            before(unraisable)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before
