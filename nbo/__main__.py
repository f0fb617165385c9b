"""The command line: ``nbo tune``, ``clean``, ``bench``, ``methods``, ``theory`` and ``reproduce``."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import nbo
from nbo._arguments import LONGEST, USER_ERROR, complain, count
from nbo._interrupts import INTERRUPTED
from nbo.cleaning.command import add_clean
from nbo.datasets import shown
from nbo.experiments.command import add_reproduce
from nbo.theory.command import add_theory

if TYPE_CHECKING:
    from nbo._result_folder import ResultFolder

#: Exit statuses beside 0 and those after a mistake and Ctrl-C: output that cannot be printed, and, as 128 + the
#: signal's number, output that nobody reads.
UNPRINTED, PIPE_CLOSED = 1, 141

_NOTHING_WRITTEN = "interrupted; nothing was written"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; those of the process if omitted.

    Returns
    -------
    int
        The exit status: 0, 1 if the output could not be printed, 2 after a mistake in the arguments or data or
        if memory or the result folder did not suffice, 3 if a run was checked and is not certified, 130 after
        Ctrl-C, 141 if the reader of the output went away.
    """
    _prepare_streams()
    try:
        status = _run(argv)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        complain(_NOTHING_WRITTEN)
        return INTERRUPTED
    except MemoryError as error:
        complain(f"not enough memory: {error or 'no more could be had'}")
        return USER_ERROR
    except BrokenPipeError:  # the reader of the output, such as head, has seen enough
        return PIPE_CLOSED
    except OSError as error:
        complain(f"input or output failed: {error}")
        return UNPRINTED
    finally:
        _settle(sys.stdout)
        _settle(sys.stderr)


def _run(argv: Sequence[str] | None) -> int:
    try:
        arguments = _parser().parse_args(argv)
        return int(arguments.run(arguments))
    except SystemExit as stop:  # argparse has printed help, the version, or what is wrong
        return stop.code if isinstance(stop.code, int) else USER_ERROR


def _prepare_streams() -> None:
    """Let names of any alphabet be printed, and writing to a stream that was closed from the start fail."""
    for number in range(3):  # otherwise a file of the result would become the standard output of compiled code
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 - open to the end
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115 - open to the end
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _settle(stream: TextIO) -> None:
    """Flush a stream; if that fails, throw away what it holds, which the interpreter would stumble over at its end."""
    try:
        stream.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, and fails where its help cannot be printed."""

    def _print_message(self, message: str, file: Any = None) -> None:  # the base ignores that a stream failed
        print(message, end="", file=file or sys.stderr)

    def error(self, message: str) -> NoReturn:
        complain(f"{message}; see '{self.prog} --help'")
        raise SystemExit(USER_ERROR)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="nbo", description="Bilevel optimisation with explicit oracles.")
    parser.add_argument("--version", action="version", version=f"nbo {nbo.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_tune(commands)
    add_clean(commands)
    bench = commands.add_parser("bench", help="run a benchmark")
    bench.add_argument("name", metavar="NAME", nargs="?", help="which benchmark; without a name they are listed")
    bench.add_argument("--quick", action="store_true", help="a small version, to see that it works")
    bench.set_defaults(run=_bench)
    methods = commands.add_parser("methods", help="list the methods, or what there is to know about one")
    methods.add_argument(
        "name", metavar="NAME", nargs="?", type=_method, help="a method to show: source, cost and options"
    )
    methods.set_defaults(run=_methods)
    add_theory(commands)
    add_reproduce(commands)
    return parser


#: What ``nbo tune --help`` says about files, a paragraph an entry.
_FILES = (
    "CSV: UTF-8, with a header that names every column; separated by commas, semicolons or tabs, whichever splits "
    "the header most. All columns but that of --target hold numbers with decimal points. Leave out columns that "
    "are no features, such as a row index.",
    "NPZ: the two arrays A and b, X and y, or data and target (samples in rows and one label each), and "
    "feature_names if you like.",
    "svmlight: lines 'label index:value ...'.",
    "Labels take two values, numbers or (not in svmlight files) text. The larger one, or the later one in the "
    "order of characters, is the positive one. Missing values are refused.",
)


def _add_tune(commands: Any) -> None:
    tune = commands.add_parser(
        "tune",
        help="tune the penalties of a logistic regression",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=textwrap.fill(
            "Tune one shared penalty and then one per feature on a 60/20/20 split, and compare the models with an "
            "untuned one and with scikit-learn's LogisticRegressionCV on the test rows.",
            _width(),
        ),
        epilog="\n".join(textwrap.fill(rule, _width(), subsequent_indent="  ") for rule in _FILES),
    )
    tune.add_argument(
        "data",
        metavar="DATA",
        help="breast_cancer, digits-3-8, or an svmlight, CSV or NPZ file (also .gz, .bz2); see below",
    )
    tune.add_argument("--target", metavar="COLUMN", help="label column of a CSV file")
    tune.add_argument("--out", metavar="DIR", type=Path, help="result folder (default: nbo-tune-NAME)")
    tune.add_argument("--force", action="store_true", help="replace an earlier result in the folder")
    tune.add_argument(
        "--penalty",
        choices=("feature", "shared"),
        default="feature",
        help="how far to tune (default: feature)",
    )
    tune.add_argument(
        "--method",
        metavar="NAME",
        type=_tuning_method,
        default="auto",
        help="a method that 'nbo methods' lists and that finds its step size",
    )
    tune.add_argument("--seed", metavar="N", type=_seed, default=0, help="seed of the split (default: 0)")
    tune.add_argument("--max-iter", metavar="N", type=count, help="iteration limit of each stage")
    tune.add_argument(
        "--quiet", action="store_true", help="print the verdict and the folder only, and what did not converge"
    )
    tune.set_defaults(run=_tune)


def _width() -> int:
    """Tell how many columns prose may take."""
    return max(40, min(100, shutil.get_terminal_size((100, 24)).columns))


def _seed(text: str) -> int:
    if count(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"found {text}; expected an integer below 2**32")
    return int(text)


def _method(text: str) -> str:
    if text not in nbo.methods():
        raise argparse.ArgumentTypeError(f"there is no method {text!r}; choose from {', '.join(nbo.methods())}")
    return text


def _tuning_method(text: str) -> str:
    if nbo.methods()[_method(text)].solver.chooses_step:
        return text
    raise argparse.ArgumentTypeError(
        f"{text!r} needs a step size, which this command does not choose; take a method that finds its steps, or "
        "nbo.tuning.tune with a solver object"
    )


def _tune(arguments: argparse.Namespace) -> int:
    _import_all()
    from nbo import datasets
    from nbo._files import FolderError
    from nbo.tuning import outputs

    try:
        dataset = datasets.read_binary(arguments.data, arguments.target)
        folder = arguments.out or Path(f"nbo-tune-{dataset.name}")
        with outputs.place_for(folder, force=arguments.force) as place:
            report = _tuned(dataset, arguments)
            # The files come first: output that nobody reads or that cannot be printed must not cost the results.
            status = _write(report, place, arguments.quiet)
    except datasets.TargetError as error:
        complain(f"--target: {error.reason}")
        return USER_ERROR
    except (datasets.DataError, FileNotFoundError, FolderError) as error:
        complain(error)
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


def _write(report: Any, place: ResultFolder, quiet: bool) -> int:
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


def _show(report: Any, folder: Path, quiet: bool, status: int) -> int:
    """Print what was found and where it is; return the exit status."""
    from nbo.tuning.report import wrapped

    if quiet:
        for note in [note for model in report.models for note in model.notes]:
            complain(note)
    place = f"results: {shown(folder, LONGEST)}"
    try:
        print(wrapped(report.verdict, _width()) if quiet else report.text(_width()))
        if status != USER_ERROR:
            print(place)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except OSError:
        if status != USER_ERROR:
            complain(place)
        raise
    return status


def _tuned(dataset: Any, arguments: argparse.Namespace) -> Any:
    from nbo._interrupts import repeated
    from nbo.progress import ProgressBar, entered
    from nbo.solvers.base import DEFAULT_MAX_ITER
    from nbo.tuning import tune

    with repeated(), contextlib.ExitStack() as stack:
        limit = DEFAULT_MAX_ITER if arguments.max_iter is None else arguments.max_iter
        bar = None if arguments.quiet else entered(stack, lambda: ProgressBar(limit, sys.stderr))
        report = tune(
            dataset,
            penalty=arguments.penalty,
            method=arguments.method,
            seed=arguments.seed,
            max_iter=arguments.max_iter,
            progress=bar,
        )
        if bar is not None and not report.interrupted:
            bar.finish()
    return report


def _bench(arguments: argparse.Namespace) -> int:
    from nbo.benchmarks import BENCHMARKS

    if arguments.name not in BENCHMARKS:
        wrong = "" if arguments.name is None else f"there is no benchmark {arguments.name!r}; "
        complain(f"{wrong}choose a benchmark from {', '.join(BENCHMARKS)}")
        return USER_ERROR
    BENCHMARKS[arguments.name](arguments.quick)
    return 0


def _methods(arguments: argparse.Namespace) -> int:
    if arguments.name is None:
        _list_methods()
    else:
        _show_method(nbo.methods()[arguments.name])
    return 0


def _list_methods() -> None:
    """Print name, kind, description and the oracles that a problem need not have, a line a method."""
    methods = nbo.methods()
    width = max(len(info.kind) for info in methods.values())
    for name, info in methods.items():
        needs = f"; needs {', '.join(info.needs)}" if info.needs else ""
        order = "; first order" if info.first_order else ""
        print(f"{name:<16} {info.kind:<{width}}  {info}{order}{needs}")


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def _show_method(info: nbo.MethodInfo) -> None:
    """Print what there is to know about a method, and its options."""
    from nbo.solvers.costs import COST_SYMBOLS

    symbols = [f"{symbol} = {option}" for symbol, option in COST_SYMBOLS.items() if option in info.options]
    facts = {
        "source": info.source,
        "kind": info.kind,
        "oracles": ", ".join(info.oracles) + (" (first order)" if info.first_order else ""),
        "cost": f"{info.cost} an iteration{_in_brackets(info.cost_note)}; {', '.join([*symbols, 'n = dim_y'])}",
        "memory": info.storage or "a few vectors",
        "step": "found where step_size is left out" if info.solver.chooses_step else "step_size has to be given",
    }
    print(f"{info}\n")
    for fact, text in facts.items():
        print(f"{fact + ':':<9} {text}")
    print(f"\noptions and their defaults; help(nbo.{info.solver.__name__}) explains them:")
    for name, default in info.options.items():
        print(f"  {name:<16} {default!r}")


if __name__ == "__main__":
    sys.exit(main())
