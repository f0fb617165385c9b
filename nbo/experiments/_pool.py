"""Tasks in processes with one thread and a core of its own each, so that timed runs do not disturb each other."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, as_completed
from typing import Any

from nbo.experiments._tasks import Task

#: Environment that holds the linear algebra and compiled code of a process to one thread.
_ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR", "NUMBA")} | {
    "VECLIB_MAXIMUM_THREADS": "1"
}


def usable_cores() -> list[int]:
    """Return the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


#: Seconds between two looks at whether the parent is still there.
_PATIENCE = 2.0

#: Open files whose locks hold the core of this process until it ends.
_held: list[Any] = []


def _begin(folder: str, cores: list[int]) -> None:
    """Take a core that no other process of the pool has, and leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {_free_core(folder, cores)})


def _end_with(parent: int) -> None:
    """End this process when its parent has gone, which may have had no time to say so."""
    while os.getppid() == parent:
        time.sleep(_PATIENCE)
    os._exit(1)


def _free_core(folder: str, cores: list[int]) -> int:
    """Return the first core whose lock nobody has; a process that ends, for whatever reason, gives its lock back."""
    import fcntl

    while True:
        for core in cores:
            stream = open(os.path.join(folder, f"core-{core}"), "wb")  # noqa: SIM115 - open to the end of the process
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                stream.close()
                continue
            _held.append(stream)
            return core
        time.sleep(0.05)


def _execute(task: Task) -> dict[str, Any]:
    return task.execute()


class TaskFailedError(RuntimeError):
    """A task that raised an error.

    Parameters
    ----------
    task : Task
        Which one.
    error : Exception
        What it raised.
    """

    def __init__(self, task: Task, error: BaseException) -> None:
        super().__init__(f"{task.title}: {type(error).__name__}: {error}")


def run_all(tasks: Sequence[Task], jobs: int, done: Callable[[Task, dict[str, Any]], None]) -> None:
    """Run tasks; `done` gets each with its outcome, in the order in which they end.

    Parameters
    ----------
    tasks : sequence of Task
        What to do; they are begun in this order.
    jobs : int
        How many processes, at most one a core.
    done : callable
        Called in this process.

    Raises
    ------
    ImportError
        If loky is missing.
    TaskFailedError
        If a task raised an error; what is running then is lost.
    RuntimeError
        If a process was killed.
    """
    if not tasks:
        return
    with _executor(min(jobs, len(tasks))) as executor:
        running = {executor.submit(_execute, task): task for task in tasks}
        for future in as_completed(running):
            try:
                outcome = future.result()
            except BrokenExecutor as error:
                raise RuntimeError(
                    "a process ended without an answer: it was killed, or memory ran out; finished runs are kept, and "
                    "--resume goes on from there"
                ) from error
            except Exception as error:
                raise TaskFailedError(running[future], error) from error
            done(running[future], outcome)


@contextlib.contextmanager
def _executor(jobs: int) -> Iterator[Any]:
    """An executor, whose processes are killed where something goes wrong, Ctrl-C included."""
    loky = _loky()
    with tempfile.TemporaryDirectory(prefix="nbo-cores-") as folder:
        executor = loky.ProcessPoolExecutor(
            max_workers=jobs, initializer=_begin, initargs=(folder, usable_cores()[:jobs]), env=_ONE_THREAD
        )
        try:
            yield executor
        except BaseException:
            executor.shutdown(wait=False, kill_workers=True)
            raise
        executor.shutdown(wait=True)


def _loky() -> Any:
    try:
        import loky
    except ImportError as error:
        raise ImportError('experiments run in processes of loky: pip install "nbo[reproduce]"') from error
    return loky
