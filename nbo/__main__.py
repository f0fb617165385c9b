"""The command line: ``nbo tune``, ``clean``, ``bench``, ``methods``, ``theory`` and ``reproduce``."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, TextIO

import nbo
from nbo._arguments import USER_ERROR, complain
from nbo._interrupts import INTERRUPTED
from nbo.cleaning.command import add_clean
from nbo.experiments.command import add_reproduce
from nbo.theory.command import add_theory
from nbo.tuning.command import add_tune

#: Exit statuses beside those that commands share: output that cannot be printed, and, as 128 + the signal's number,
#: output that nobody reads.
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
    add_tune(commands)
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


def _method(text: str) -> str:
    if text not in nbo.methods():
        raise argparse.ArgumentTypeError(f"there is no method {text!r}; choose from {', '.join(nbo.methods())}")
    return text


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
