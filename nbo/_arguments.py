"""What the commands share: the status after a mistake, numbers on the command line, and messages."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from nbo._interrupts import INTERRUPTED
from nbo.datasets import shown

#: The exit status after a mistake of the user.
USER_ERROR = 2

#: Characters of a line of the standard error output, which may quote files.
LONGEST = 1000

#: Of a number on the command line.
DIGITS = 18


def width() -> int:
    """Return how many columns prose may take."""
    return max(40, min(100, shutil.get_terminal_size((100, 24)).columns))


def count(text: str) -> int:
    """Return an integer from 0."""
    if not text.isdecimal() or len(text) > DIGITS:
        raise argparse.ArgumentTypeError(
            f"found {shown(text, 40)!r}; expected an integer >= 0 of at most {DIGITS} digits"
        )
    return int(text)


def positive(text: str) -> int:
    """Return an integer from 1."""
    if not count(text):
        raise argparse.ArgumentTypeError(f"found {text!r}; expected an integer >= 1")
    return int(text)


def seed(text: str) -> int:
    """Return a seed."""
    if count(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"found {text}; expected an integer below 2**32")
    return int(text)


def positive_or(*words: str) -> Callable[[str], float | str]:
    """Return a function that returns a positive number, or one of some words as it is."""

    def read(text: str) -> float | str:
        if text in words:
            return text
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if not 0 < value < float("inf"):
            raise argparse.ArgumentTypeError(
                f"found {shown(text, 40)!r}; expected {', '.join(words)} or a positive number"
            )
        return value

    return read


def print_results(texts: Iterable[str], folder: Path, status: int) -> int:
    """Print results and where they are, and return the exit status: the given one, or that after Ctrl-C.

    The place is left out after a mistake, and told on the standard error output where the other cannot be printed.
    """
    place = "" if status == USER_ERROR else f"results: {shown(folder, LONGEST)}"
    try:
        for text in texts:
            print(text)
        if place:
            print(place)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except OSError:
        if place:
            complain(place)
        raise
    return status


def complain(message: object) -> None:
    """Print one line to the standard error output, if that is possible."""
    with contextlib.suppress(OSError, ValueError):
        print(f"nbo: {shown(message, LONGEST)}", file=sys.stderr, flush=True)
