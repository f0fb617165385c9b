"""The command ``nbo theory``: what the theory says, and how it compares with runs."""

from __future__ import annotations

import argparse
import contextlib
import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from nbo._interrupts import INTERRUPTED
from nbo.datasets import shown

if TYPE_CHECKING:
    from nbo.theory.complexity import ComplexityStudy

#: Condition numbers of the full and of the quick version of Table 1.
KAPPAS, QUICK_KAPPAS = (4, 8, 16, 32), (4, 8, 16)

#: The exit status of a run that is not certified.
NOT_CERTIFIED = 3


def add_theory(commands: Any) -> None:
    """Add ``nbo theory`` and its own commands.

    Parameters
    ----------
    commands : argparse subparsers
        Those of ``nbo``. A parser's ``error`` ends the command with one line and status 2.
    """
    theory = commands.add_parser("theory", help="measure and evaluate what the convergence theorems say")
    topics = theory.add_subparsers(required=True, metavar="TOPIC")
    _add_table1(topics)
    _add_table2(topics)
    _add_certify(topics)


def _add_table1(topics: Any) -> None:
    parser = topics.add_parser(
        "table1",
        help="measure the paper's Table 1: costs of full-batch methods over condition numbers",
        description="Run NBO and AmIGO with the parameters of the theory on a family with growing condition number, "
        "and fit powers of it to their costs. Takes a minute or two.",
    )
    parser.add_argument("--quick", action="store_true", help="the smaller condition numbers only, in some seconds")
    _add_files(parser)
    parser.add_argument("--plot", metavar="FILE", type=Path, help="a picture, such as table1.png")
    parser.set_defaults(run=functools.partial(_table1, parser))


def _add_table2(topics: Any) -> None:
    parser = topics.add_parser(
        "table2",
        help="evaluate the paper's Table 2: samples of NSBO-SGD over condition numbers",
        description="Evaluate the numbers of samples that the theory wants on a family with growing condition number, "
        "and fit powers of it. Nothing is run.",
    )
    _add_files(parser)
    parser.set_defaults(run=functools.partial(_table2, parser))


def _add_certify(topics: Any) -> None:
    from nbo.theory.instances import INSTANCES, WITH_KAPPA

    parser = topics.add_parser(
        "certify",
        help="check every iteration of a run against the convergence proof",
        description="Run NBO-GD or NBO-CG with the parameters of the theory and check the descent of its Lyapunov "
        "function and its invariants at every iteration. The exit status is 3 where that fails or proves nothing.",
    )
    parser.add_argument("problem", metavar="PROBLEM", choices=INSTANCES, help=f"one of {', '.join(INSTANCES)}")
    parser.add_argument("--method", choices=("nbo-gd", "nbo-cg"), default="nbo-gd", help="(default: nbo-gd)")
    parser.add_argument("--kappa", type=_number, help=f"of {' and '.join(WITH_KAPPA)} (default: 8)")
    parser.add_argument(
        "--start", choices=("box1", "edge"), default="edge", help="inside BOX 1 or near its border (default: edge)"
    )
    parser.add_argument("--max-iter", metavar="N", type=int, default=150, help="iterations (default: 150)")
    parser.add_argument(
        "--step-factor",
        metavar="X",
        type=_number,
        default=1.0,
        help="times alpha; 100 is too much for quadratic and non-quadratic",
    )
    parser.add_argument("--tight", action="store_true", help="the smaller numbers of inner steps that are proven too")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of the start (default: 0)")
    _add_files(parser)
    parser.set_defaults(run=functools.partial(_certify, parser))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"found {text!r}; expected a number") from None


def _add_files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="FILE", type=Path, help="a JSON file for all that was found")
    parser.add_argument("--force", action="store_true", help="replace existing files")


def _table1(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    from nbo.progress import ProgressBar, entered
    from nbo.theory.complexity import complexity_study

    _require_free(parser, arguments, "out", "plot")
    if arguments.out is not None and arguments.plot is not None and arguments.out.resolve() == arguments.plot.resolve():
        parser.error(f"--plot: found {shown(arguments.plot)}, the file of --out; expected another one")
    figure = None if arguments.plot is None else _figure(parser, arguments.plot)
    with contextlib.ExitStack() as stack:
        bar = entered(stack, lambda: ProgressBar(None, sys.stderr))
        study = complexity_study(kappas=QUICK_KAPPAS if arguments.quick else KAPPAS, progress=bar)
        if bar is not None and not study.interrupted:
            bar.finish()
    _save(parser, study, arguments)
    if figure is not None:
        _draw(parser, study, figure, arguments.plot)
    if arguments.quick:
        print(f"quick version: kappa up to {max(QUICK_KAPPAS)} only; without --quick it goes up to {max(KAPPAS)}\n")
    print(study)
    return INTERRUPTED if study.interrupted else 0


def _table2(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    from nbo.theory.samples import sample_complexity

    _require_free(parser, arguments, "out")
    study = sample_complexity()
    _save(parser, study, arguments)
    print(study)
    return 0


def _certify(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    from nbo.theory.certificates import certify_run
    from nbo.theory.instances import WITH_KAPPA, instance

    if arguments.kappa is not None and arguments.problem not in WITH_KAPPA:
        parser.error(
            f"--kappa: found {arguments.kappa:g} for {arguments.problem}; only {' and '.join(WITH_KAPPA)} have one"
        )
    _require_free(parser, arguments, "out")
    try:
        found = instance(arguments.problem, 8.0 if arguments.kappa is None else arguments.kappa)
        report = certify_run(
            found.problem,
            found.x0,
            method=arguments.method,
            phi_star=found.phi_star,
            max_iter=arguments.max_iter,
            start=arguments.start,
            step_factor=arguments.step_factor,
            tight=arguments.tight,
            random_state=arguments.seed,
        )
    except ValueError as error:
        name, _, rest = str(error).partition(":")
        option = {"random_state": "seed"}.get(name, name)
        parser.error(f"--{option.replace('_', '-')}:{rest}" if hasattr(arguments, option) else str(error))
    _save(parser, report, arguments)
    print(f"{found.text}\n\n{report}")
    if report.status == "interrupted":
        return INTERRUPTED
    return 0 if report.ok else NOT_CERTIFIED


def _require_free(parser: argparse.ArgumentParser, arguments: argparse.Namespace, *options: str) -> None:
    """Refuse files that could not be written, before the work."""
    from nbo.theory._outputs import require_free

    for option in options:
        path = getattr(arguments, option)
        if path is not None:
            with _one_line(parser, f"--{option}"):
                require_free(path, arguments.force)


def _save(parser: argparse.ArgumentParser, study: Any, arguments: argparse.Namespace) -> None:
    if arguments.out is not None:
        with _one_line(parser, "--out"):
            study.save(arguments.out, force=arguments.force)


def _figure(parser: argparse.ArgumentParser, path: Path) -> Any:
    """Return an empty figure; better known before the work are a missing matplotlib and an unknown format."""
    from nbo.plotting import off_screen_figure

    try:
        figure = off_screen_figure(7.0, 5.0)
    except ImportError as error:
        _fail(parser, "--plot", error)
    known = figure.canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in known:
        parser.error(f"--plot: found {shown(path)}; expected a name that ends in one of {', '.join(sorted(known))}")
    return figure


def _draw(parser: argparse.ArgumentParser, study: ComplexityStudy, figure: Any, path: Path) -> None:
    study.plot(figure.add_subplot())
    with _one_line(parser, "--plot"):
        figure.savefig(path, dpi=150)


@contextlib.contextmanager
def _one_line(parser: argparse.ArgumentParser, option: str) -> Iterator[None]:
    """End the command with one line where a file cannot be written."""
    try:
        yield
    except OSError as error:
        _fail(parser, option, error)


def _fail(parser: argparse.ArgumentParser, option: str, error: Exception) -> NoReturn:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    parser.error(f"{option}: {text.removeprefix('path: ')}")
