"""What the commands share: the status after a mistake, numbers on the command line, and messages."""

from __future__ import annotations

import argparse
import contextlib
import sys

from nbo.datasets import shown

#: The exit status after a mistake of the user.
USER_ERROR = 2

#: Characters of a line of the standard error output, which may quote files.
LONGEST = 1000

#: Of a number on the command line.
DIGITS = 18


def count(text: str) -> int:
    """Return an integer from 0."""
    if not text.isdecimal() or len(text) > DIGITS:
        raise argparse.ArgumentTypeError(f"found {text!r}; expected an integer >= 0 of at most {DIGITS} digits")
    return int(text)


def complain(message: object) -> None:
    """Print one line to the standard error output, if that is possible."""
    with contextlib.suppress(OSError, ValueError):
        print(f"nbo: {shown(message, LONGEST)}", file=sys.stderr, flush=True)
