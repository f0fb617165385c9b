"""Tasks have a process and a core each, with one thread; errors and lost processes are told."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time

import pytest

from nbo.experiments._pool import TaskFailedError, run_all, usable_cores
from nbo.experiments._tasks import Task


@dataclasses.dataclass(frozen=True, kw_only=True)
class Probe(Task):
    """Tells where it runs, or fails."""

    kind = "probe"
    index: int = 0
    fails: str = ""

    def described(self):
        return {"index": self.index, "fails": self.fails}

    def execute(self):
        import threadpoolctl

        if self.fails == "error":
            raise ValueError("what went wrong")
        if self.fails == "death":
            os._exit(3)
        if self.fails == "wait":
            time.sleep(60)
        time.sleep(0.3)
        return {
            "pid": os.getpid(),
            "cores": sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [],
            "threads": [pool["num_threads"] for pool in threadpoolctl.threadpool_info()],
            "environment": os.environ["OMP_NUM_THREADS"],
        }

    def accepts(self, outcome):
        return True

    @property
    def expected(self):
        return 1.0

    @property
    def title(self):
        return f"probe {self.index}"


def run_probes(*probes, jobs=1):
    found = {}
    run_all(probes, jobs, lambda task, outcome: found.__setitem__(task, outcome))
    return found


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no way to choose a core")
def test_every_process_has_a_core_of_its_own_and_one_thread():
    jobs = min(2, len(usable_cores()))
    found = run_probes(*(Probe(index=i) for i in range(6)), jobs=jobs)
    assert len(found) == 6
    cores = {outcome["pid"]: tuple(outcome["cores"]) for outcome in found.values()}
    assert os.getpid() not in cores and len(cores) == jobs
    assert all(len(own) == 1 for own in cores.values()) and len(set(cores.values())) == jobs
    for outcome in found.values():
        assert outcome["environment"] == "1" and set(outcome["threads"]) <= {1}


@pytest.mark.slow
def test_an_error_names_the_task():
    with pytest.raises(TaskFailedError, match="probe 4: ValueError: what went wrong"):
        run_probes(Probe(index=4, fails="error"))


@pytest.mark.slow
def test_a_process_that_dies_is_told():
    with pytest.raises(RuntimeError, match=r"a process ended without an answer: .* --resume goes on"):
        run_probes(Probe(fails="death"))


#: Starts a pool in a process of its own, and tells the id of its worker.
_PARENT = """
import sys, threading, time
sys.path.insert(0, {tests!r})
from test_pool import Probe, run_all
def tell(task, outcome): print(outcome["pid"], flush=True)
run_all([Probe(), Probe(index=1, fails="wait")], 1, tell)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="looks at processes as Linux shows them")
def test_processes_end_with_a_parent_that_was_killed():
    script = _PARENT.format(tests=os.path.dirname(__file__))
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        worker = int(parent.stdout.readline())
        assert os.path.exists(f"/proc/{worker}")
        parent.kill()
    deadline = time.monotonic() + 30
    while os.path.exists(f"/proc/{worker}") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not os.path.exists(f"/proc/{worker}")


def test_nothing_to_do_starts_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, "loky", None)
    assert run_probes() == {}


def test_loky_is_named_if_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "loky", None)
    with pytest.raises(ImportError, match=r"nbo\[reproduce\]"):
        run_probes(Probe())
