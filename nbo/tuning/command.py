"""The command ``nbo tune``."""

from __future__ import annotations

import argparse
import contextlib
import functools
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbo._arguments import USER_ERROR, complain, positive, positive_or, print_results, seed, width
from nbo._interrupts import INTERRUPTED
from nbo.datasets import TASK_SETS, TASKS

if TYPE_CHECKING:
    from nbo._result_folder import ResultFolder
    from nbo.datasets import TaskTable
    from nbo.tuning.report import TuneReport

_DESCRIPTION = (
    "Tune one shared penalty of a linear model, and then one per feature, by the loss of held-out rows, and compare "
    "the models with an untuned one and with scikit-learn's LogisticRegressionCV or RidgeCV on a fifth of the rows. "
    "Two classes or more are told apart by logistic regression, and numbers are predicted by ridge regression."
)

#: What ``nbo tune --help`` says about files, a paragraph an entry.
_FILES = (
    "CSV: UTF-8, with a header that names every column; separated by commas, semicolons or tabs, whichever splits "
    "the header most. All columns but that of --target hold numbers with decimal points. Leave out columns that "
    "are no features, such as a row index.",
    "NPZ: the two arrays A and b, X and y, or data and target (samples in rows and one label each), and "
    "feature_names if you like.",
    "svmlight: lines 'label index:value ...'.",
    "Labels are numbers or (not in svmlight files) text. Text is taken as classes, and so are two different numbers, "
    "and up to 20 different whole ones that are fewer than a tenth of the rows; all else are numbers to predict. "
    "--task says it otherwise. Of two classes the larger number, or the later text in the order of characters, is the "
    "positive one. Missing values are refused.",
)


def add_tune(commands: Any) -> None:
    """Add ``nbo tune``.

    Parameters
    ----------
    commands : argparse subparsers
        Those of ``nbo``. A parser's ``error`` ends the command with one line and status 2.
    """
    parser = commands.add_parser(
        "tune",
        help="tune the penalties of a logistic or a ridge regression",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=textwrap.fill(_DESCRIPTION, width()),
        epilog="\n".join(textwrap.fill(rule, width(), subsequent_indent="  ") for rule in _FILES),
    )
    parser.add_argument(
        "data",
        metavar="DATA",
        help=f"{', '.join(TASK_SETS)}, or an svmlight, CSV or NPZ file (also .gz, .bz2); see below",
    )
    parser.add_argument("--target", metavar="COLUMN", help="column of a CSV file with what is to be predicted")
    parser.add_argument("--task", choices=TASKS, default="auto", help="what the labels are (default: auto; see below)")
    parser.add_argument("--out", metavar="DIR", type=Path, help="result folder (default: nbo-tune-NAME)")
    parser.add_argument("--force", action="store_true", help="replace an earlier result in the folder")
    _add_searches(parser)
    parser.add_argument("--seed", metavar="N", type=seed, default=0, help="seed of the shuffles (default: 0)")
    parser.add_argument(
        "--quiet", action="store_true", help="print the verdict and the folder only, and what did not converge"
    )
    parser.set_defaults(run=functools.partial(_tune, parser))


def _add_searches(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--penalty",
        choices=("feature", "shared", "class", "class-feature"),
        default="feature",
        help="how far to tune (default: feature); class and class-feature are for three classes or more",
    )
    parser.add_argument(
        "--cv",
        metavar="K",
        type=positive,
        default=5,
        help="folds that judge the penalties (default: 5); 1 holds out a quarter of the rows once, in less time",
    )
    parser.add_argument(
        "--prior",
        metavar="SCALE",
        type=positive_or("auto", "none"),
        default="auto",
        help="how far finer penalties may leave the shared one: a number, auto (the default) or none, which overfits",
    )
    parser.add_argument("--max-iter", metavar="N", type=positive, help="iteration limit of each search (default: 100)")


def _tune(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    _import_all()
    from nbo import datasets
    from nbo._files import FolderError
    from nbo.tuning import outputs

    try:
        table = datasets.read_table(arguments.data, arguments.target, arguments.task)
        folder = arguments.out or Path(f"nbo-tune-{table.name}")
        with outputs.place_for(folder, force=arguments.force) as place:
            report = _tuned(parser, table, arguments)
            # The files come first: output that nobody reads or that cannot be printed must not cost the results.
            status = _write(report, place, arguments.quiet)
    except datasets.TargetError as error:
        complain(f"--target: {error.reason}")
        return USER_ERROR
    except (datasets.DataError, FileNotFoundError, FolderError) as error:
        complain(f"--{error}" if str(error).startswith("task: ") else error)
        return USER_ERROR
    return _show(report, folder, arguments.quiet, status)


def _import_all() -> None:
    """Import what tuning needs while Ctrl-C waits: foreign modules may swallow an exception or replace it."""
    from nbo._interrupts import held

    with held():
        import sklearn.datasets
        import sklearn.linear_model
        import sklearn.model_selection  # noqa: F401

        import nbo.kernels.linear_models
        import nbo.tuning.outputs  # noqa: F401


def _tuned(parser: argparse.ArgumentParser, table: TaskTable, arguments: argparse.Namespace) -> TuneReport:
    from nbo._interrupts import repeated
    from nbo.datasets import DataError
    from nbo.progress import ProgressBar, entered
    from nbo.tuning import tune

    if arguments.penalty == "shared" and arguments.prior != "auto":
        parser.error("--prior: found a prior without finer penalties; expected it with another --penalty than shared")
    with repeated(), contextlib.ExitStack() as stack:
        bar = None if arguments.quiet else entered(stack, lambda: ProgressBar(arguments.max_iter, sys.stderr))
        try:
            report = tune(
                table,
                penalty=arguments.penalty,
                cv=arguments.cv,
                prior=None if arguments.prior == "none" else arguments.prior,
                seed=arguments.seed,
                max_iter=arguments.max_iter,
                progress=bar,
            )
        except DataError:
            raise
        except ValueError as error:  # an option that does not suit these data
            if not str(error).startswith(("penalty", "cv:")):
                raise
            parser.error(f"--{error}")
        if bar is not None and not report.interrupted:
            bar.finish()
    return report


def _write(report: TuneReport, place: ResultFolder, quiet: bool) -> int:
    """Write the result folder, and complain about what could not be written; Ctrl-C waits for the end of it."""
    from nbo._files import FolderError
    from nbo._interrupts import held
    from nbo.tuning import outputs

    status = INTERRUPTED if report.interrupted else 0
    try:
        with held():
            omitted = place.write(lambda folder: outputs.write_files(report, folder))
            for line in [] if quiet else omitted:
                complain(line)
    except FolderError as error:
        complain(error)
        return USER_ERROR
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _show(report: TuneReport, folder: Path, quiet: bool, status: int) -> int:
    """Print what was found and where it is; return the exit status."""
    if quiet:
        for note in [note for model in report.models for note in model.notes]:
            complain(note)
    return print_results(_texts(report, quiet), folder, status)


def _texts(report: TuneReport, quiet: bool) -> Iterator[str]:
    from nbo.tuning.report import wrapped

    yield wrapped(report.verdict, width()) if quiet else report.text(width())
