"""Tasks have a process and a core each, with one thread; errors and lost processes are told."""

from __future__ import annotations

import dataclasses
import os
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
        time.sleep(0.3)
        return {
            "pid": os.getpid(),
            "cores": sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [],
            "threads": [pool["num_threads"] for pool in threadpoolctl.threadpool_info()],
            "environment": os.environ["OMP_NUM_THREADS"],
        }

    @property
    def expected(self):
        return 1.0

    @property
    def title(self):
        return "probe"


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
    with pytest.raises(TaskFailedError, match=r"'index': 4.*ValueError: what went wrong"):
        run_probes(Probe(index=4, fails="error"))


@pytest.mark.slow
def test_a_process_that_dies_is_told():
    with pytest.raises(TaskFailedError, match="Terminated"):
        run_probes(Probe(fails="death"))


def test_nothing_to_do_starts_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, "loky", None)
    assert run_probes() == {}


def test_loky_is_named_if_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "loky", None)
    with pytest.raises(ImportError, match=r"nbo\[reproduce\]"):
        run_probes(Probe())
