"""The command ``nbo clean``."""

from __future__ import annotations

import argparse
import functools
import sys
import textwrap
from pathlib import Path
from typing import Any

from nbo._interrupts import INTERRUPTED
from nbo.datasets import shown

#: The exit status after a mistake of the user, and the characters of a line that may quote files.
_USER_ERROR, _LONGEST = 2, 1000

_DESCRIPTION = (
    "Judge how far each label of a data set can be trusted, given rows whose labels are right, and rank the suspects. "
    "Without trusted rows a fifth of the rows is held out as if its labels were right, which is worth far less. Files "
    "are as for 'nbo tune', with two or more different labels."
)


def add_clean(commands: Any) -> None:
    """Add ``nbo clean``.

    Parameters
    ----------
    commands : argparse subparsers
        Those of ``nbo``. A parser's ``error`` ends the command with one line and status 2.
    """
    parser = commands.add_parser("clean", help="find wrong labels in a data set", description=_DESCRIPTION)
    parser.add_argument("data", metavar="DATA", help="digits, wine, or an svmlight, CSV or NPZ file")
    parser.add_argument("--trusted", metavar="FILE", help="rows with the same columns whose labels are right")
    parser.add_argument("--target", metavar="COLUMN", help="label column of CSV files")
    parser.add_argument("--out", metavar="DIR", type=Path, help="result folder (default: nbo-clean-NAME)")
    parser.add_argument("--force", action="store_true", help="replace an earlier result in the folder")
    parser.add_argument(
        "--top", metavar="K", type=_count, help="rank so many rows (default: those of weight below 1/2)"
    )
    parser.add_argument(
        "--ridge",
        metavar="NUMBER",
        type=_ridge,
        default="auto",
        help="penalty while weights are learnt (default: auto)",
    )
    parser.add_argument("--seed", metavar="N", type=_count, default=0, help="seed of the splits (default: 0)")
    parser.add_argument("--max-iter", metavar="N", type=_positive, help="iterations of hyper-cleaning")
    parser.add_argument("--quiet", action="store_true", help="print the verdict and the folder only")
    parser.set_defaults(run=functools.partial(_clean, parser))


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"found {text!r}; expected an integer from 0 to {2**32 - 1}")
    return int(text)


def _positive(text: str) -> int:
    if not _count(text):
        raise argparse.ArgumentTypeError("found 0; expected an integer of at least 1")
    return int(text)


def _ridge(text: str) -> Any:
    if text == "auto":
        return text
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"found {text!r}; expected auto or a positive number")
    return value


def _clean(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    from nbo._files import FolderError
    from nbo._interrupts import held, repeated
    from nbo.cleaning import clean, outputs
    from nbo.datasets import DataError, TargetError, read_labelled

    try:
        table = read_labelled(arguments.data, arguments.target)
        trusted = None if arguments.trusted is None else read_labelled(arguments.trusted, arguments.target)
        folder = arguments.out or Path(f"nbo-clean-{table.name}")
        with outputs.place_for(folder, force=arguments.force) as place:
            with repeated():
                found = clean(table, trusted, ridge=arguments.ridge, seed=arguments.seed, max_iter=arguments.max_iter)
            with held():
                omitted = place.write(lambda fresh: outputs.write_files(found, fresh, arguments.top))
    except TargetError as error:
        parser.error(f"--target: {error.reason}")
    except (DataError, FileNotFoundError, FolderError) as error:
        print(f"nbo: {shown(error, _LONGEST)}", file=sys.stderr)
        return _USER_ERROR
    except KeyboardInterrupt:
        print("nbo: interrupted; nothing was written", file=sys.stderr)
        return INTERRUPTED
    _show(found, folder, omitted, arguments.quiet)
    return 0


def _show(found: Any, folder: Path, omitted: list[str], quiet: bool) -> None:
    from nbo.cleaning.report import verdict

    if not quiet:
        for line in omitted:
            print(f"nbo: {line}", file=sys.stderr)
        print(found.cleaner.report_)
    print(textwrap.fill(verdict(found), 100))
    print(f"results: {shown(folder, _LONGEST)}")
