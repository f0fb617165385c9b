"""The command ``nbo clean``."""

from __future__ import annotations

import argparse
import functools
import os
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbo._arguments import USER_ERROR, complain, count, positive, positive_or, print_results, seed
from nbo._interrupts import INTERRUPTED

if TYPE_CHECKING:
    from nbo._result_folder import ResultFolder
    from nbo.cleaning import CleanedLabels
    from nbo.datasets import LabelledTable

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
    parser.add_argument("--target", metavar="COLUMN", help="label column of CSV files; both have the same")
    parser.add_argument("--out", metavar="DIR", type=Path, help="result folder (default: nbo-clean-NAME)")
    parser.add_argument("--force", action="store_true", help="replace an earlier result in the folder")
    parser.add_argument("--top", metavar="K", type=count, help="rank so many rows (default: those of weight below 1/2)")
    parser.add_argument(
        "--ridge",
        metavar="NUMBER",
        type=positive_or("auto"),
        default="auto",
        help="penalty while weights are learnt (default: auto)",
    )
    parser.add_argument("--seed", metavar="N", type=seed, default=0, help="seed of the splits (default: 0)")
    parser.add_argument("--max-iter", metavar="N", type=positive, help="iterations of hyper-cleaning")
    parser.add_argument("--quiet", action="store_true", help="print the verdict, the folder and notes only")
    parser.set_defaults(run=functools.partial(_clean, parser))


def _clean(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    _import_all()
    from nbo._files import FolderError
    from nbo._interrupts import repeated
    from nbo.cleaning import clean, outputs
    from nbo.datasets import DataError, TargetError

    try:
        table, trusted = _tables(arguments)
        folder = arguments.out or Path(f"nbo-clean-{table.name}")
        with outputs.place_for(folder, force=arguments.force) as place:
            with repeated():
                found = clean(table, trusted, ridge=arguments.ridge, seed=arguments.seed, max_iter=arguments.max_iter)
            # The files come first: output that nobody reads or that cannot be printed must not cost the results.
            omitted, status = _write(found, place, arguments.top)
    except TargetError as error:
        parser.error(f"--target: {error.reason}")
    except (DataError, FileNotFoundError, FolderError) as error:
        complain(error)
        return USER_ERROR
    return _show(found, folder, omitted, arguments.quiet, status)


def _import_all() -> None:
    """Import what cleaning needs while Ctrl-C waits: foreign modules may swallow an exception or replace it."""
    from nbo._interrupts import held

    with held():
        import nbo.cleaning.outputs
        import nbo.kernels.linear_models
        import nbo.sklearn  # noqa: F401


def _tables(arguments: argparse.Namespace) -> tuple[LabelledTable, LabelledTable | None]:
    """Read the files; where only one of them is a CSV file, ``--target`` is for that one."""
    from nbo.datasets import read_labelled

    names = [arguments.data] if arguments.trusted is None else [arguments.data, arguments.trusted]
    csv_files = [name for name in names if _is_csv(name)]
    tables = [read_labelled(name, arguments.target if name in csv_files or not csv_files else None) for name in names]
    return tables[0], tables[1] if arguments.trusted is not None else None


def _is_csv(name: str) -> bool:
    from nbo.datasets._formats import format_of
    from nbo.datasets.tables import LABELLED

    return (
        name not in LABELLED and os.path.isfile(name) and os.path.getsize(name) > 0 and format_of(Path(name)) == "csv"
    )


def _write(found: CleanedLabels, place: ResultFolder, top: int | None) -> tuple[list[str], int]:
    """Write the result folder; return what was left out and the exit status. Ctrl-C waits for the end of it."""
    from nbo._interrupts import held
    from nbo.cleaning import outputs

    omitted: list[str] = []
    try:
        with held():
            omitted += place.write(lambda fresh: outputs.write_files(found, fresh, top))
    except KeyboardInterrupt:
        return omitted, INTERRUPTED
    return omitted, 0


def _show(found: CleanedLabels, folder: Path, omitted: list[str], quiet: bool, status: int) -> int:
    """Print what was found and where it is; return the exit status."""
    for line in [*found.notes, *([] if quiet else omitted)]:
        complain(line)
    return print_results(_texts(found, quiet), folder, status)


def _texts(found: CleanedLabels, quiet: bool) -> Iterator[str]:
    from nbo.cleaning.report import verdict

    if not quiet:
        yield str(found.cleaner.report_)
    yield textwrap.fill(verdict(found), 100)
