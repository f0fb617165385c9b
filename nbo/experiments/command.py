"""The command ``nbo reproduce``."""

from __future__ import annotations

import argparse
import contextlib
import functools
import signal
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nbo._interrupts import INTERRUPTED
from nbo.datasets import shown

_DESCRIPTION = (
    "Run the experiments of the NBO paper, and write every figure, the tables and a report with a verdict on each "
    "claim. Without a name, the experiments are listed."
)

_EPILOG = (
    "Every finished run is kept: after an interruption, the same command with --resume goes on where it stopped. Runs "
    "are timed on a core of their own each; leave the machine alone meanwhile. Data sets that are not there are told, "
    "with the command that fetches them."
)


def add_reproduce(commands: Any) -> None:
    """Add ``nbo reproduce``.

    Parameters
    ----------
    commands : argparse subparsers
        Those of ``nbo``. A parser's ``error`` ends the command with one line and status 2.
    """
    parser = commands.add_parser(
        "reproduce", help="run the paper's experiments", description=_DESCRIPTION, epilog=_EPILOG
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="an experiment, or all")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="reduced data, in some minutes (the default)")
    size.add_argument("--full", action="store_true", help="the paper's size, in some hours")
    parser.add_argument("--repeats", metavar="N", type=int, help="repeats of each case (default: 10, or 2 to 3)")
    parser.add_argument("--data", metavar="DIR", type=Path, help="a folder to take data sets from")
    parser.add_argument("--out", metavar="DIR", type=Path, help="result folder (default: nbo-reproduce-quick or -full)")
    parser.add_argument("--jobs", metavar="N", type=int, help="processes (default: one a core)")
    parser.add_argument("--resume", action="store_true", help="go on in a folder that exists")
    parser.set_defaults(run=functools.partial(_reproduce, parser))


def _reproduce(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    from nbo.experiments import EXPERIMENTS
    from nbo.experiments.reproduction import default_folder

    if not arguments.names:
        if arguments.full or arguments.resume or arguments.out:
            parser.error(f"expected the name of an experiment: all, {', '.join(EXPERIMENTS)}")
        _list(EXPERIMENTS)
        return 0
    unknown = [name for name in arguments.names if name not in EXPERIMENTS and name != "all"]
    if unknown:
        parser.error(f"there is no experiment {shown(unknown[0])!r}; choose from all, {', '.join(EXPERIMENTS)}")
    scale = "full" if arguments.full else "quick"
    folder = arguments.out or default_folder(scale)  # type: ignore[arg-type]
    try:
        with _ended_like_interrupted():
            found = _done(arguments, scale, folder)
    except KeyboardInterrupt:
        print(f"nbo: interrupted; finished runs are in {shown(folder)}: --resume goes on from there", file=sys.stderr)
        return INTERRUPTED
    except (ImportError, FileNotFoundError, ValueError, RuntimeError) as error:
        name, _, rest = str(error).partition(":")
        parser.error(f"--{name}:{rest}" if name in ("repeats", "data", "jobs") else str(error))
    print(found)
    print(f"report: {shown(folder / 'report.html')}")
    return 0


@contextlib.contextmanager
def _ended_like_interrupted() -> Iterator[None]:
    """Let a polite end from outside, as of a closed terminal, do what Ctrl-C does: no process is left behind."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():  # which alone may have handlers
        names = []
    before = {name: signal.signal(getattr(signal, name), interrupt) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def _list(experiments: Any) -> None:
    width = max(len(name) for name in experiments)
    for name, experiment in experiments.items():
        print(f"{name:<{width}}  {experiment.title}")
    print(textwrap.fill("nbo reproduce NAME ... runs some of them, nbo reproduce all runs all; see --help."))


def _done(arguments: argparse.Namespace, scale: Any, folder: Path) -> Any:
    from nbo.experiments import reproduce
    from nbo.progress import TimeLeft, entered

    with contextlib.ExitStack() as stack:
        return reproduce(
            arguments.names,
            scale=scale,
            repeats=arguments.repeats,
            data=arguments.data,
            out=folder,
            jobs=arguments.jobs,
            resume=arguments.resume,
            progress=entered(stack, TimeLeft),
        )
