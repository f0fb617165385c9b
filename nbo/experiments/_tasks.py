"""Units of work that are done in a process of their own and kept: a run, an accurate minimum, a study."""

from __future__ import annotations

import abc
import dataclasses
import functools
import hashlib
import json
import time
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

import nbo
from nbo.experiments.configuration import Budget, Entry
from nbo.experiments.problems import Instance, Problem
from nbo.experiments.steps import Steps
from nbo.problems import ConvexToy
from nbo.solvers import REGISTRY

Array = npt.NDArray[Any]

#: Of a trace.
COLUMNS = ("iteration", "seconds", "samples", "calls", "value", "measured")

#: Of what is kept; another number makes all of it anew.
RECORD_VERSION = 1

#: |grad_2 g| at which y*(x) counts as accurate.
ACCURATE = 1e-9

#: Two looks lie apart by this part of the time so far at least, and early on by a part of the budget.
_SPACING, _FIRST = 0.07, 1 / 100

#: The largest dimension of y at which the accurate minimum is sought with factorised Hessians.
_LARGEST_FACTORED = 300

#: Starts of x from which the accurate minimum is sought.
_STARTS = (-6.0, -2.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task(abc.ABC):
    """A unit of work, whose fields are all that its outcome depends on."""

    kind: ClassVar[str]

    @functools.cached_property
    def key(self) -> str:
        """Names the outcome: a digest of what the task is, and of the version of the library."""
        described = {"kind": self.kind, "version": [nbo.__version__, RECORD_VERSION], **self.described()}
        return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:20]

    @abc.abstractmethod
    def described(self) -> dict[str, Any]:
        """Return what the outcome depends on."""

    @abc.abstractmethod
    def execute(self) -> dict[str, Any]:
        """Do the work and return its outcome in JSON's types; floats may be infinite or NaN."""

    @abc.abstractmethod
    def accepts(self, outcome: dict[str, Any]) -> bool:
        """Tell whether what was kept has the form of an outcome; it may raise what looking at wrong types raises."""

    @property
    @abc.abstractmethod
    def expected(self) -> float:
        """About how many seconds it takes."""

    @property
    @abc.abstractmethod
    def title(self) -> str:
        """What it is, in a few words."""


def _described(problem: Problem) -> dict[str, Any]:
    return {"class": type(problem).__name__, **dataclasses.asdict(problem)}


@functools.lru_cache(maxsize=2)
def _instance(problem: Problem, seed: int) -> Instance:
    return problem.instance(seed)


def _made(problem: Problem, seed: int) -> Instance:
    """Return the problem, the last ones from memory."""
    return _instance(problem, seed if problem.redrawn else 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunTask(Task):
    """One run of a method, measured at some of its iterates afterwards."""

    kind: ClassVar[str] = "run"
    problem: Problem
    entry: Entry
    steps: Steps
    seed: int
    budget: Budget
    metric: str

    def described(self) -> dict[str, Any]:
        """The label and the expected time do not matter."""
        entry, budget = dataclasses.asdict(self.entry), dataclasses.asdict(self.budget)
        del entry["label"], budget["expected"]
        measured = {"gap": "phi", "relative gap": "phi"}.get(self.metric, self.metric)
        return {
            "problem": _described(self.problem), "entry": entry, "steps": list(self.steps), "seed": self.seed,
            "budget": budget, "measured": measured,
        }  # fmt: skip

    @property
    def expected(self) -> float:
        return self.budget.expected or self.budget.seconds or 1.0

    @property
    def title(self) -> str:
        """The method, the problem, the steps and the seed."""
        return f"{self.entry.label} on {self.problem.title}, steps {self.steps.inner:.3g}/{self.steps.ratio:.3g}"

    def options(self) -> dict[str, Any]:
        """Return the options of the method."""
        solver = REGISTRY[self.entry.method]
        options = self.steps.options(solver, self.entry.decay) | dict(self.entry.options)
        if self.entry.inner_option != "inner_step_size":
            options[self.entry.inner_option] = self.steps.inner
        if self.budget.iterations is not None:
            return options | {"eval_every": max(1, self.budget.iterations // self.budget.looks)}
        assert self.budget.seconds is not None
        if hasattr(solver, "eval_seconds"):
            return options | {"eval_every": 1 << 62, "eval_seconds": self.budget.seconds * _FIRST}
        return {"eval_every": 10} | options

    def execute(self) -> dict[str, Any]:
        """Run, then measure the iterates that were kept on the way."""
        instance = _made(self.problem, self.seed)
        x0, y0 = self.problem.start(instance.problem, self.seed)
        kept = _Iterates(self.budget, x0, y0)
        limits: dict[str, Any] = {"max_iter": self.budget.iterations or 1 << 40, "max_time": self.budget.seconds}
        trace: dict[str, Any]
        try:
            result = nbo.minimize(
                instance.problem, x0, y0=y0, method=self.entry.method, options=self.options(), tol=0.0,
                callback=kept, random_state=self.seed, **limits,
            )  # fmt: skip
        except ArithmeticError as error:  # of the first iteration; later it is a status
            trace = {name: [0] for name in COLUMNS}
            trace |= {
                "value": [instance.problem.upper_value(x0, y0)],
                "measured": [_measure(self.metric, instance)(x0, y0)],
            }
            return {"status": "diverged", "message": str(error), "trace": trace, "evaluation_seconds": 0.0}
        if result.status == nbo.Status.INTERRUPTED:
            raise KeyboardInterrupt
        if result.status != nbo.Status.DIVERGED:
            kept.iterates[result.nit] = (result.x, result.y)
        trace, seconds = self._trace(instance, result.history, kept.iterates)
        return {
            "status": str(result.status), "message": result.message, "trace": trace,
            "evaluation_seconds": seconds, "iterations": result.nit, "seconds": result.seconds,
            "compile_seconds": result.compile_seconds, "counts": result.counts.as_dict(),
        }  # fmt: skip

    def accepts(self, outcome: dict[str, Any]) -> bool:
        """Want columns of one length, which begin with the start and a finite metric, and an end that is known."""
        trace, known = outcome["trace"], nbo.Status(outcome["status"])
        columns = {name: np.array([float(value) for value in trace[name]]) for name in COLUMNS}
        (length,) = {column.size for column in columns.values()}
        start, seconds = columns["measured"][0], float(outcome["evaluation_seconds"])
        divided = self.metric in ("relative gap", "distance")
        return bool(
            known and length and columns["iteration"][0] == 0 and np.isfinite([start, seconds]).all()
            and not (divided and start == 0)
        )  # fmt: skip

    def _trace(self, instance: Instance, history: Any, iterates: dict[int, Any]) -> tuple[dict[str, Any], float]:
        """Return columns with a row an iterate, and the time that it took to measure them."""
        rows = [row for row, k in enumerate(history.iteration) if int(k) in iterates]
        began, measure = time.perf_counter(), _measure(self.metric, instance)
        values = [measure(*iterates[int(history.iteration[row])]) for row in rows]
        samples = sum(history[name] for name in history if name.startswith("samples_"))
        calls = sum(history[name] for name in nbo.OracleCounts().as_dict())
        columns = {
            "iteration": history.iteration, "seconds": history.seconds, "samples": samples, "calls": calls,
            "value": history.value,
        }  # fmt: skip
        trace = {name: np.asarray(column)[rows].tolist() for name, column in columns.items()}
        return trace | {"measured": values}, time.perf_counter() - began


class _Iterates:
    """A callback that keeps iterates now and then, to be measured when the run is over."""

    def __init__(self, budget: Budget, x0: Array, y0: Array) -> None:
        self.iterates: dict[int, tuple[Array, Array]] = {0: (x0, y0)}
        self._seconds, self._looks, self._next = budget.seconds, budget.looks, 0.0

    def __call__(self, intermediate_result: Any) -> None:
        now = intermediate_result.seconds
        if self._seconds is not None:
            if now < self._next:
                return
            self._next = now + max(self._seconds * _FIRST, _SPACING * now, self._seconds / self._looks / 4)
        self.iterates[intermediate_result.nit] = (intermediate_result.x.copy(), intermediate_result.y.copy())


def _measure(metric: str, instance: Instance) -> Any:
    """Return the function (x, y) -> number behind a metric."""
    problem = instance.problem
    if metric == "test error":
        return lambda x, y: float(np.mean(problem.predict(instance.A_test, y) != instance.b_test))  # type: ignore[attr-defined]
    if metric == "distance":
        assert isinstance(problem, ConvexToy)
        solution = np.concatenate(problem.solution)
        return lambda x, y: float(np.linalg.norm(np.concatenate([x, y]) - solution))
    last: list[Array] = [np.zeros(problem.dim_y)]

    def phi(x: Array, y: Array) -> float:
        found = nbo.solve_lower_level(problem, x, y0=last[0], tol=ACCURATE)
        last[0] = found.y
        return problem.upper_value(x, found.y)

    return phi


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReferenceTask(Task):
    """The lowest Phi that an accurate full-batch method finds from some starts, with y*(x) accurate."""

    kind: ClassVar[str] = "reference"
    problem: Problem
    seed: int

    def described(self) -> dict[str, Any]:
        return {"problem": _described(self.problem), "seed": self.seed if self.problem.redrawn else 0}

    def accepts(self, outcome: dict[str, Any]) -> bool:
        """Want a finite minimum."""
        return bool(np.isfinite(float(outcome["phi_star"])))

    @property
    def expected(self) -> float:
        return 5.0

    @property
    def title(self) -> str:
        """The problem."""
        return f"accurate minimum of {self.problem.title}"

    def execute(self) -> dict[str, Any]:
        """Minimise from both starts; the better end is the minimum."""
        problem = _made(self.problem, self.seed).problem
        method = "nbo-cholesky" if problem.dim_y <= _LARGEST_FACTORED else "nbo-cg"
        found = []
        for start in _STARTS:
            result = nbo.minimize(problem, np.full(problem.dim_x, start), method=method, tol=1e-8, max_iter=2000)
            if result.status == nbo.Status.INTERRUPTED:
                raise KeyboardInterrupt
            at_end = nbo.hypergradient(problem, result.x)
            found.append({"value": float(at_end.value), "status": str(result.status), "iterations": result.nit})
        return {"phi_star": min(entry["value"] for entry in found), "ends": found, "method": method}


@dataclasses.dataclass(frozen=True, kw_only=True)
class StudyTask(Task):
    """One of the tables of `nbo.theory`."""

    kind: ClassVar[str] = "study"
    name: str
    kappas: tuple[float, ...]
    seconds: float

    def described(self) -> dict[str, Any]:
        return {"name": self.name, "kappas": list(self.kappas)}

    def accepts(self, outcome: dict[str, Any]) -> bool:
        """Want the table and its text."""
        return isinstance(outcome["study"], dict) and isinstance(outcome["text"], str)

    @property
    def expected(self) -> float:
        return self.seconds

    @property
    def title(self) -> str:
        """Its name."""
        return self.name

    def execute(self) -> dict[str, Any]:
        """Measure or evaluate the table."""
        from nbo.theory import complexity_study, sample_complexity

        if self.name == "backends":
            from nbo.experiments._backends import backends

            return backends()
        study = complexity_study(kappas=self.kappas) if self.name == "table1" else sample_complexity(kappas=self.kappas)
        if getattr(study, "interrupted", False):
            raise KeyboardInterrupt
        return {"study": study.as_dict(), "text": str(study)}
