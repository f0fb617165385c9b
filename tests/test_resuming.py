"""Checkpoints of runs: what goes on from one is the run that did not end, bit for bit, and all else is refused."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import signal
import subprocess
import sys
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import pytest
from reference_problems import DETERMINISTIC, STOCHASTIC, PlainLogistic, fixed_options, logistic_data

import nbo
from nbo import checkpoints
from nbo.checkpoints import CheckpointError
from nbo.history import HistoryRecorder
from nbo.schedules import PowerDecay
from nbo.solvers import REGISTRY

OPTIONS = {name: nbo.methods()[name].options for name in REGISTRY}
SAGA_METHODS = [name for name in STOCHASTIC if "initialization" in OPTIONS[name]]
PAGE_METHODS = [name for name in STOCHASTIC if "probability" in OPTIONS[name]]
MOMENTUM_METHODS = [name for name in STOCHASTIC if "momentum" in OPTIONS[name]]
STEPS = {"step_size": 0.05, "inner_step_size": 0.5}
DATA = logistic_data(61, 43, 7)
DATA32 = (DATA[0].astype(np.float32), DATA[1], DATA[2].astype(np.float32), DATA[3])


def compiled(*data):
    from reference_kernels import compiled_logistic  # the compiler is for the tests that need it

    return compiled_logistic(*data)


#: Makes a problem, anew in each process.
PROBLEMS = {
    "quadratic": lambda: nbo.problems.Quadratic.family(n=37, m=5, kappa=30),
    "plain": lambda: PlainLogistic(*DATA),
    "plain32": lambda: PlainLogistic(*DATA32),
    "compiled": lambda: compiled(*DATA),
    "compiled32": lambda: compiled(*DATA32),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A run with a stop on the way: at iteration `half` of `whole`."""

    problem: str
    method: str
    options: dict[str, Any]
    half: int
    whole: int
    tol: float = 0.0

    @property
    def name(self) -> str:
        shown = [f"{k}={v}" for k, v in self.options.items() if k not in STEPS]
        steps = "given" if self.options.get("inner_step_size") or self.options.get("spectrum") else "own"
        return "-".join([self.method, self.problem, steps, *shown, f"{self.half}of{self.whole}"])

    def run(self, max_iter: int) -> Any:
        problem = PROBLEMS[self.problem]()
        return nbo.minimize(
            problem, np.full(problem.dim_x, -1.5), method=self.method, options=self.options, max_iter=max_iter,
            tol=self.tol, random_state=5,
        )  # fmt: skip


def deterministic_cases():
    """Given and own steps, T, both types, and stops on and off the grid of evaluations, before and at its first row."""
    for method in DETERMINISTIC:
        own = {} if REGISTRY[method].chooses_step else {"step_size": 0.05}
        for given in (fixed_options(method, 0.05, 0.5), own):
            yield Case("quadratic", method, {**given, "eval_every": 3}, 0, 5)
            yield Case("quadratic", method, given, 1, 2)
            yield Case("quadratic", method, {**given, "eval_every": 3}, 7, 14)
            yield Case("plain", method, {**given, "eval_every": 5}, 30, 60)
            yield Case("plain32", method, given, 6, 12)
        if REGISTRY[method].chooses_step:
            yield Case("quadratic", method, {}, 8, 2000, tol=1e-3)  # converges in between
        if "n_inner" in OPTIONS[method]:
            for T in (0, 2):
                yield Case("plain", method, {**own, "n_inner": T, "eval_every": 4}, 13, 26)
        for name, value in (("variant", "newton-point"), ("adjoint_step", "steepest-descent"), ("warm_start", False)):
            if name in OPTIONS[method]:
                yield Case("plain", method, {**own, name: value, "eval_every": 2}, 9, 18)
    for options in ({}, {"keep_pairs": True, "opa_every": 2, "refinement": 1}):
        yield Case("plain", "shine", {"step_size": 0.05, "batch_size": 8, "eval_every": 4, **options}, 13, 26)


def variants(method):
    """Options of a stochastic method, each kind of memory and each sampler among them."""
    for sampler in ("epoch",) if method in SAGA_METHODS else ("epoch", "window", "iid"):
        for T in (0, 1, 2) if "n_inner" in OPTIONS[method] else (None,):
            yield {"sampler": sampler} | ({} if T is None else {"n_inner": T})
    if method in SAGA_METHODS:
        yield {"initialization": "zero"}
    if method in MOMENTUM_METHODS:
        yield {"momentum": 0.5}
        yield {"momentum": PowerDecay(0.9, 0.1)}
    if method in PAGE_METHODS:
        yield {"probability": 0.5}
    if "share_batches" in OPTIONS[method]:
        yield {"share_batches": not OPTIONS[method]["share_batches"]}
    for name, value in (("n_lower_steps", 2), ("n_linear_steps", 3), ("truncation", "sum"), ("period", 3)):
        if name in OPTIONS[method]:
            yield {name: value}
    if "linear_step_size" in OPTIONS[method]:
        yield {"linear_step_size": PowerDecay(0.3, 0.1)}
    if method == "f2sa":
        yield {"multiplier": 2.0, "multiplier_increment": 0.7}
    yield {"step_size": PowerDecay(0.2, 0.4), "inner_step_size": PowerDecay(0.5, 0.1)}
    yield {"batch_sizes": {"B2": 5, "B3": "full"}}


def stochastic_cases():
    """Every variant, through the end of an epoch, in both types, with given and own inner steps."""
    own = {"step_size": 0.05}
    for method in STOCHASTIC:
        for i, variant in enumerate(variants(method)):
            problem = ("plain", "plain32")[i % 2]
            yield Case(problem, method, {**STEPS, "batch_size": 8, "eval_every": 4, **variant}, 13, 26)
            if "sampler" in variant:
                other = ("plain32", "plain")[i % 2]
                yield Case(other, method, {**own, "batch_size": 8, "eval_every": 3, **variant}, 6, 12)
        for half, whole in ((0, 5), (1, 2)):
            yield Case("plain", method, {**own, "batch_size": 8, "eval_every": 2}, half, whole)
        yield Case("quadratic", method, {**own, "eval_every": 2}, 5, 10)


CASES = {case.name: case for case in (*deterministic_cases(), *stochastic_cases())}
COMPILED_CASES = {
    case.name: case
    for case in (
        Case("compiled", "soba", {**STEPS, "batch_size": 8, "sampler": "iid", "eval_every": 4}, 13, 26),
        Case("compiled", "nsbo-saga", {"step_size": 0.05, "batch_size": 8, "eval_every": 4}, 13, 26),
        Case("compiled", "nsbo-storm", {**STEPS, "batch_size": 8, "sampler": "window", "eval_every": 5}, 25, 50),
        Case("compiled32", "spaba", {**STEPS, "batch_size": 8, "probability": 0.3, "eval_every": 4}, 13, 26),
        Case("compiled", "nbo-cg", {"eval_every": 4}, 6, 12),
    )
}


def assert_same(found, expected, but=()):
    """The same run: types, bits and all entries, but for seconds and what is named."""
    left_out = {"seconds", "compile_seconds", *but}
    assert found.keys() == expected.keys()
    for key in expected.keys() - left_out:
        assert_same_value(found[key], expected[key], key)


def assert_same_value(found, expected, place):
    assert type(found) is type(expected), (place, found, expected)
    if isinstance(expected, np.ndarray):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape), place
        assert found.tobytes() == expected.tobytes(), (place, found, expected)
    elif isinstance(expected, Mapping):
        assert list(found) == list(expected), place
        for key in expected:
            if key != "seconds":
                assert_same_value(found[key], expected[key], f"{place}[{key!r}]")
    elif isinstance(expected, tuple):
        for i, (a, b) in enumerate(zip(found, expected, strict=True)):
            assert_same_value(a, b, f"{place}[{i}]")
    elif isinstance(expected, float) and np.isnan(expected):
        assert np.isnan(found), place
    else:
        assert found == expected, place


def resume_all(folder: Path) -> None:
    """Go on with every case in a folder and leave its result, or the error, in a file beside it."""
    for path in sorted(folder.glob("*.npz")):
        name = path.name.removesuffix(".npz")
        case = (CASES | COMPILED_CASES)[name]
        try:
            outcome = nbo.resume(path, PROBLEMS[case.problem](), max_iter=case.whole)
        except Exception as error:  # each case tells its own
            outcome = f"{type(error).__name__}: {error}"
        path.with_suffix(".pickle").write_bytes(pickle.dumps(outcome))


def in_another_process(cases, folder):
    """Stop every case half-way, save it, and go on in one new process; return what became of each."""
    for name, case in cases.items():
        case.run(case.half).save(folder / f"{name}.npz")
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import pathlib, test_resuming as t; "
    code += f"t.resume_all(pathlib.Path({str(folder)!r}))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {name: pickle.loads((folder / f"{name}.pickle").read_bytes()) for name in cases}


@pytest.fixture(scope="module")
def resumed(tmp_path_factory):
    return in_another_process(CASES, tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture(scope="module")
def resumed_compiled(tmp_path_factory):
    return in_another_process(COMPILED_CASES, tmp_path_factory.mktemp("checkpoints"))


def test_all_methods_are_covered():
    assert {case.method for case in CASES.values()} == set(REGISTRY)


@pytest.mark.slow  # the first one waits for all runs
@pytest.mark.parametrize("name", CASES)
def test_a_run_goes_on_in_another_process(resumed, name):
    assert not isinstance(resumed[name], str), resumed[name]
    assert_same(resumed[name], CASES[name].run(CASES[name].whole))


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED_CASES)
def test_a_compiled_run_goes_on_in_another_process(resumed_compiled, name):
    assert not isinstance(resumed_compiled[name], str), resumed_compiled[name]
    assert_same(resumed_compiled[name], COMPILED_CASES[name].run(COMPILED_CASES[name].whole))


# Where a run may stop


@pytest.fixture
def problem():
    return PlainLogistic(*DATA)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.npz"


X0 = np.full(7, -1.5)


def run(problem, method="nbo-cg", *, max_iter=12, tol=0.0, options=None, **keywords):
    """A run from the usual start; a stochastic method gets steps and a seed."""
    options = options or {}
    if method in STOCHASTIC:
        options = STEPS | {"batch_size": 8, "eval_every": 3} | options
    return nbo.minimize(
        problem, X0, method=method, max_iter=max_iter, tol=tol, random_state=5, options=options, **keywords
    )


def gone_on(result, path, problem, **keywords):
    """What becomes of a result by way of a file."""
    result.save(path)
    return nbo.resume(path, problem, **keywords)


@pytest.mark.parametrize("method", ["nbo-cg", "nbo-gd", "nbo-chebyshev", "amigo-gd", "nsbo-saga", "spaba"])
def test_every_iteration_is_a_good_place_to_stop(path, problem, method):
    straight = run(problem, method, max_iter=16)
    trials = 0
    for k in range(16):
        half = run(problem, method, max_iter=k)
        trials += half.x.tobytes() != checkpoint_of(half, path)["state"]["x"].tobytes()
        assert_same(gone_on(half, path, problem, max_iter=16), straight)
    assert (trials > 0) == (method in DETERMINISTIC)  # some stops are at a trial point, which is not shown


def checkpoint_of(result, path):
    """The tree that a result saves."""
    result.save(path)
    return checkpoints.read(path)


@pytest.mark.parametrize("method", ["nbo-gd", "nsbo-saga", "nsbo-page", "amigo-sgd"])
def test_a_resumed_run_is_resumed(path, problem, method):
    options = {"eval_every": 4}
    result = run(problem, method, max_iter=3, options=options)
    for end in (4, 9, 10, 17):
        result = gone_on(result, path, problem, max_iter=end)
        assert result.nit == end
        assert_same(result, run(problem, method, max_iter=end, options=options))


@pytest.mark.parametrize("method", ["nbo-gd", "soba"])
def test_a_row_off_the_grid_is_shown_and_forgotten(path, problem, method):
    half = run(problem, method, max_iter=7, options={"eval_every": 4})
    assert half.history.iteration.tolist() == [0, 4, 7] and half.fun == half.history.value[-1]
    whole = gone_on(half, path, problem, max_iter=8)
    assert whole.history.iteration.tolist() == [0, 4, 8]
    assert whole.evaluation_counts.upper_value == 3


def test_the_best_of_a_row_off_the_grid_is_forgotten(path):
    """With little data f falls while y moves, until iteration 41, and rises again."""
    problem = PlainLogistic(*logistic_data(16, 40, 7))

    def to(max_iter, every):
        options = {"step_size": 1e-3, "inner_step_size": 2.0, "n_inner": 0, "eval_every": every}
        return nbo.minimize(problem, np.full(7, -8.0), method="nbo-gd", max_iter=max_iter, tol=0, options=options)

    assert to(60, 1).best.nit == 41
    half = to(41, 40)
    assert half.best.nit == 41
    whole = gone_on(half, path, problem, max_iter=60)
    assert whole.best.nit == 40
    assert_same(whole, to(60, 40))


def test_the_evaluation_cadence_is_that_of_the_start(path, problem):
    half = run(problem, "soba", max_iter=40, options={"eval_every": None})
    assert half.history.iteration.tolist() == list(range(0, 41, 2))
    whole = gone_on(half, path, problem, max_iter=50)
    assert whole.history.iteration.tolist() == list(range(0, 51, 2))


def test_a_converged_run_stays_converged(path):
    problem = PROBLEMS["quadratic"]()
    half = nbo.minimize(problem, np.zeros(5), tol=1e-6, options={"eval_every": 1000})
    assert half.status == "converged"
    for limits in ({}, {"max_iter": half.nit}, {"max_iter": 3}, {"max_iter": 5000}, {"max_time": 0}):
        assert_same(gone_on(half, path, problem, **limits), half)


@pytest.mark.parametrize("method", ["nbo-cg", "nsbo-saga"])
def test_a_run_that_a_callback_stopped_goes_on(path, problem, method):
    options = {"eval_every": 3}
    half = run(problem, method, options=options, callback=lambda x: True)
    assert (half.status, half.nit) == ("stopped", 3)
    assert_same(gone_on(half, path, problem, callback=None), run(problem, method, options=options))


@pytest.mark.parametrize("method", ["nbo-cg", "nsbo-page"])
def test_a_run_that_ran_out_of_time_goes_on(path, problem, method):
    straight = run(problem, method, max_iter=400, options={"eval_every": 50})
    half = run(problem, method, max_iter=400, options={"eval_every": 50}, max_time=straight.seconds / 50)
    assert half.status == "time_limit" and half.nit < 400
    whole = gone_on(half, path, problem)
    assert_same(whole, straight)
    assert whole.seconds > half.seconds
    np.testing.assert_array_equal(np.sort(whole.history.seconds), whole.history.seconds)
    again = gone_on(half, path, problem, max_time=half.seconds * 1.0001)
    assert again.status == "time_limit" and half.nit < again.nit


def test_compile_seconds_add_up(path, problem):
    half = run(problem, max_iter=2)
    tree = checkpoint_of(half, path)
    tree["run"]["compile_seconds"] = 12.5
    checkpoints.write(path, tree)
    assert nbo.resume(path, problem, max_iter=3).compile_seconds >= 12.5


class Interrupting(PlainLogistic):
    """Ctrl-C in the middle of a given call, counted from 1, or 0 for none: as an exception or as a signal."""

    at, by_signal = 0, False

    def _rows(self, name, batch):
        found = super()._rows(name, batch)
        if sum(self.calls.values()) == self.at:
            if self.by_signal:
                signal.raise_signal(signal.SIGINT)
            else:
                raise KeyboardInterrupt
        return found


def interruptions(method, *, by_signal, in_evaluations, path, options):
    """Runs that were interrupted at each of their calls, within iterations or in evaluations, and saved.

    The first call is the evaluation at the start, which no result outlives.
    """
    problem = Interrupting(*DATA)
    run(problem, method, max_iter=6, options=options)
    found = 0
    for at in range(2, sum(problem.calls.values()) + 1):
        problem = Interrupting(*DATA)
        problem.at, problem.by_signal = at, by_signal
        half = run(problem, method, max_iter=6, options=options)
        assert half.status == "interrupted"
        tree = checkpoint_of(half, path)
        nit = tree["state"]["nit"]
        missed = nit % options["eval_every"] == 0 and tree["run"]["evaluated_at"] != nit
        if missed == in_evaluations:
            found += 1
            yield problem
    assert found


COUNTS = {"counts", "samples", "evaluation_counts"}


def assert_same_but_counts(found, expected, excess):
    """The same run, of which at most `excess` calls of each kind were made twice."""
    assert_same(found, expected, but={"history", *COUNTS})
    for column in ("iteration", "value", "hypergrad_norm", "lower_grad_norm", "adjoint_residual"):
        assert_same_value(found.history[column], expected.history[column], column)
    for kind, limit in excess.as_dict().items():
        extra = found.counts.as_dict()[kind] - expected.counts.as_dict()[kind]
        assert 0 <= extra <= limit, (kind, extra)


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 4])
@pytest.mark.parametrize(
    ("method", "steps"), [("nbo-gd", {}), ("nbo-cg", {"n_inner": 2}), ("amigo-gd", {"n_lower_steps": 2})]
)
@pytest.mark.parametrize("in_evaluations", [False, True], ids=["in-iterations", "in-evaluations"])
def test_an_interrupted_deterministic_run_goes_on(path, method, steps, every, in_evaluations):
    """The calls of an iteration that was broken off are made again, and counted."""
    options = steps | {"eval_every": every}
    straight = run(Interrupting(*DATA), method, max_iter=8, options=options)
    besides = nbo.OracleCounts(lower_hvp=7, upper_value=1, lower_jvp=1)  # a spectrum, and the adaptive step's own
    excess = REGISTRY[method](**steps).cost_per_iteration(7) + besides
    for problem in interruptions(method, by_signal=False, in_evaluations=in_evaluations, path=path, options=options):
        assert_same_but_counts(nbo.resume(path, problem, max_iter=8), straight, excess)


@pytest.mark.parametrize("method", ["soba", "nsbo-saga"])
@pytest.mark.parametrize(
    ("every", "in_evaluations"), [(1, True), (4, False), (4, True)], ids=["1-evaluated", "4-between", "4-evaluated"]
)  # with 1, each chunk ends with an evaluation
def test_a_signal_interrupts_a_stochastic_run_between_chunks(path, method, every, in_evaluations):
    options = {"eval_every": every}
    straight = run(Interrupting(*DATA), method, max_iter=8, options=options)
    for problem in interruptions(method, by_signal=True, in_evaluations=in_evaluations, path=path, options=options):
        whole = nbo.resume(path, problem, max_iter=8)
        assert_same(whole, straight, but={"evaluation_counts"})
        repeated = whole.evaluation_counts - straight.evaluation_counts
        assert repeated in (nbo.OracleCounts(), nbo.OracleCounts(upper_value=1))


@pytest.mark.parametrize("method", STOCHASTIC)
def test_a_stochastic_run_that_was_broken_off_within_an_iteration_is_not_saved(path, method):
    problem = Interrupting(*DATA)
    problem.at = sum(run(problem, method, max_iter=4).evaluation_counts.as_dict().values()) + 30
    problem.calls.clear()
    half = run(problem, method)
    assert half.status == "interrupted"
    with pytest.raises(ValueError, match=r"^save: the run was interrupted within an iteration; there is nothing to"):
        half.save(path)
    assert not path.exists()


@pytest.mark.parametrize(
    ("method", "options"), [("nbo-gd", fixed_options("nbo-gd", 0.05, 1e3)), ("soba", {"step_size": 1e200})]
)
def test_a_diverged_run_is_not_saved(path, problem, method, options):
    result = run(problem, method, max_iter=400, options=options)
    assert result.status == "diverged"
    with pytest.raises(ValueError, match=r"^save: the run diverged; .*start anew from res.x, res.y, res.u"):
        result.save(path)
    assert not path.exists()


@pytest.mark.parametrize("method", ["nbo-cg", "nsbo-saga"])
def test_a_callback_that_was_interrupted_is_not_called_again(path, problem, method):
    nits = []

    def callback(intermediate_result):
        nits.append(intermediate_result.nit)
        if nits == [3, 6]:
            raise KeyboardInterrupt

    options = {"eval_every": 3}
    half = run(problem, method, options=options, callback=callback)
    assert half.status == "interrupted"
    assert_same(gone_on(half, path, problem, callback=callback), run(problem, method, options=options))
    assert nits == [3, 6, 9, 12]


def test_evaluations_by_the_clock_change_no_iterate(path, problem):
    options = {"eval_every": 1000, "eval_seconds": 1e-9}
    half, straight = (run(problem, "soba", max_iter=k, options=options) for k in (6, 12))
    whole = gone_on(half, path, problem, max_iter=12)
    assert_same(whole, straight, but={"history", "best", "evaluation_counts"})
    assert whole.history.iteration.size > half.history.iteration.size
    assert whole.evaluation_counts.upper_value == whole.history.iteration.size


@pytest.mark.parametrize("k", [15, 17, 30, 45])
def test_a_long_history_is_thinned_as_without_a_stop(path, problem, monkeypatch, k):
    monkeypatch.setattr(HistoryRecorder, "MAX_ROWS", 10)
    straight = run(problem, "nbo-gd", max_iter=60)
    assert straight.history.iteration.tolist() == list(range(0, 61, 8))
    assert_same(gone_on(run(problem, "nbo-gd", max_iter=k), path, problem, max_iter=60), straight)


# What is given again


def decay(k):
    return 0.3 / (k + 2)


def half_weight(k):
    return 0.5


SCHEDULES = {"step_size": decay, "inner_step_size": lambda k: 0.4}


@pytest.mark.parametrize(
    ("method", "callables"), [("nbo-gd", SCHEDULES), ("soba", SCHEDULES), ("nsbo-storm", {"momentum": half_weight})]
)
def test_callables_are_given_again(path, problem, method, callables):
    half, straight = (run(problem, method, max_iter=k, options=callables) for k in (5, 10))
    half.save(path)
    with pytest.raises(
        ValueError, match=r"^options: the run had a callable for .*, which is not stored; give it again"
    ):
        nbo.resume(path, problem, max_iter=10)
    first, *rest = callables
    if rest:
        with pytest.raises(ValueError, match=f"^options: the run had a callable for {rest[0]}, which"):
            nbo.resume(path, problem, max_iter=10, options={first: callables[first]})
    with pytest.raises(TypeError, match=rf"^options\['{first}'\]: found 0.1; expected the callable"):
        nbo.resume(path, problem, max_iter=10, options=callables | {first: 0.1})
    whole = nbo.resume(path, problem, max_iter=10, options=callables)
    assert_same(whole, straight)
    with pytest.raises(ValueError, match=r"^options: the run had a callable"):
        gone_on(whole, path, problem, max_iter=11)


def test_another_kind_of_callable_may_take_its_place(path, problem):
    half = run(problem, "nbo-gd", max_iter=5, options={"step_size": lambda k: 0.5 / (k + 1.0) ** 0.5})
    whole = gone_on(half, path, problem, max_iter=10, options={"step_size": PowerDecay(0.5)})
    assert_same(whole, run(problem, "nbo-gd", max_iter=10, options={"step_size": PowerDecay(0.5)}))
    gone_on(whole, path, problem, max_iter=11)  # and it is stored


@pytest.mark.parametrize("options", [{"step_size": 0.1}, {"n_inner": 4}, {"step_size": decay}, {"nonsense": 1}])
def test_no_other_option_changes(path, problem, options):
    run(problem, "nbo-gd", options={"step_size": 0.05}).save(path)
    with pytest.raises(ValueError, match=f"^options: found {next(iter(options))}; expected none: all other options go"):
        nbo.resume(path, problem, max_iter=20, options=options)
    run(problem, "nbo-gd", options={"step_size": decay}).save(path)
    with pytest.raises(ValueError, match=r"^options: found n_inner; expected callables of the run \(step_size\)"):
        nbo.resume(path, problem, max_iter=20, options={"step_size": decay, "n_inner": 4})


def test_options_are_a_dict(path, problem):
    run(problem).save(path)
    with pytest.raises(TypeError, match=r"^options: found list; expected a dict"):
        nbo.resume(path, problem, max_iter=20, options=["step_size"])


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("nsbo-sgd", {"sampler": np.str_("iid"), "batch_sizes": MappingProxyType({"B2": np.int64(5)})}),
        ("nsbo-sgd", {"share_batches": np.True_, "n_inner": np.uint8(1), "step_size": np.float32(0.05)}),
        ("nbo-gd", {"step_size": Fraction(1, 20), "inner_step_size": np.float64(0.5)}),
        ("nbo-chebyshev", {"spectrum": np.array([0.1, 1.0])}),
        ("nbo-chebyshev", {"spectrum": [Fraction(1, 8), 1]}),
    ],
    ids=str,
)
def test_options_of_all_types_that_methods_take_are_kept(path, problem, method, options):
    half, straight = (run(problem, method, max_iter=k, options=options) for k in (5, 10))
    assert_same(gone_on(half, path, problem, max_iter=10), straight)
    given = REGISTRY[method](**(STEPS | {"batch_size": 8, "eval_every": 3} if method in STOCHASTIC else {}) | options)
    assert_same(nbo.resume(path, problem, max_iter=10, method=given), straight)


def test_a_callback_goes_on(path, problem):
    calls = []

    def callback(intermediate_result):
        calls.append((intermediate_result.nit, intermediate_result.fun, intermediate_result.counts))
        return intermediate_result.nit == 9

    options = {"eval_every": 3}
    straight = run(problem, max_iter=20, options=options, callback=callback)
    expected, calls[:] = list(calls), []
    half = run(problem, max_iter=5, options=options, callback=callback)
    half.save(path)
    with pytest.raises(ValueError, match=r"^callback: the run had one, which is not stored; give it again, or None"):
        nbo.resume(path, problem, max_iter=20)
    whole = nbo.resume(path, problem, max_iter=20, callback=callback)
    assert whole.status == "stopped" and calls == expected and [nit for nit, *_ in calls] == [3, 6, 9]
    assert_same(whole, straight)


def test_a_run_goes_on_without_its_callback(path, problem):
    half = run(problem, max_iter=5, callback=lambda x: None)
    whole = gone_on(half, path, problem, max_iter=10, callback=None)
    assert_same(whole, run(problem, max_iter=10))
    assert_same(gone_on(whole, path, problem, max_iter=12), run(problem, max_iter=12))


def test_a_callback_may_join(path, problem):
    nits = []
    whole = gone_on(run(problem, max_iter=3), path, problem, max_iter=6, callback=lambda x: nits.append(x))
    assert len(nits) == 3
    with pytest.raises(ValueError, match=r"^callback: the run had one"):
        gone_on(whole, path, problem, max_iter=7)


def test_a_callback_is_callable(path, problem):
    run(problem).save(path)
    with pytest.raises(TypeError, match=r"^callback: found int; expected a callable or None"):
        nbo.resume(path, problem, max_iter=20, callback=3)


def test_the_signature_is_the_same_in_every_process():
    import inspect

    assert "callback: 'Callable[..., Any] | None' = <not given>" in str(inspect.signature(nbo.resume))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cautious(nbo.NBOGD):
    """A method of the user's, which has kept the name of the one that it extends."""

    factor: float = 0.5

    def directions(self, view, state):
        found = super().directions(view, state)
        return found._replace(d_x=self.factor * found.d_x)


class Silent(nbo.NBOGD):
    """One without options of its own, and with the name of another method."""

    def directions(self, view, state):
        found = super().directions(view, state)
        return found._replace(d_x=0.5 * found.d_x)


class Named(Cautious):
    name: ClassVar[str] = "cautious"


@pytest.mark.parametrize("kind", [Cautious, Silent, Named])
def test_a_solver_outside_the_registry_is_given_again(path, problem, kind):
    solver = kind(step_size=0.05, inner_step_size=decay)
    half, straight = (run(problem, solver, max_iter=k) for k in (4, 8))
    half.save(path)
    with pytest.raises(
        ValueError, match=f"^method: .* class outside nbo.methods.*, named '{kind.name}'; give an equal"
    ):
        nbo.resume(path, problem, max_iter=8)
    for other in (kind(step_size=0.06, inner_step_size=decay), kind(step_size=0.05, inner_step_size=0.5), nbo.NBOCG()):
        with pytest.raises(ValueError, match=f"^method: found {type(other).__name__}, .*; expected '{kind.name}' with"):
            nbo.resume(path, problem, max_iter=8, method=other)
    if kind is Silent:
        with pytest.raises(ValueError, match=r"^method: found NBOGD.*, a class of its own"):
            nbo.resume(path, problem, max_iter=8, method=nbo.NBOGD(step_size=0.05, inner_step_size=decay))
    with pytest.raises(ValueError, match=r"^options: found step_size beside a solver object"):
        nbo.resume(path, problem, max_iter=8, method=solver, options={"step_size": 0.05})
    assert_same(nbo.resume(path, problem, max_iter=8, method=solver), straight)


def test_a_method_is_no_name(path, problem):
    run(problem).save(path)
    with pytest.raises(TypeError, match=r"^method: found 'nbo-cg'; expected a solver object"):
        nbo.resume(path, problem, max_iter=20, method="nbo-cg")
    with pytest.raises(ValueError, match=r"^method: found Silent.*, a method of nbo.methods"):
        run(problem, "nbo-gd").save(path)
        nbo.resume(path, problem, max_iter=20, method=Silent())


# The problem


@pytest.mark.slow  # compiles, the first time
def test_another_problem_is_refused(path):
    problem = nbo.problems.BinaryLogistic(*DATA)
    run(problem, max_iter=2).save(path)
    flipped = DATA[1].copy()
    flipped[3] *= -1
    for other in (
        nbo.problems.BinaryLogistic(DATA[0], flipped, *DATA[2:]),
        nbo.problems.BinaryLogistic(*DATA, bounds=(-9, 9)),
        nbo.problems.BinaryLogistic(*DATA32),
        PlainLogistic(*DATA),
    ):
        with pytest.raises(ValueError, match=r"^problem: found .*; expected .*BinaryLogistic:.*run.npz"):
            nbo.resume(path, other, max_iter=4)
    assert nbo.resume(path, nbo.problems.BinaryLogistic(*DATA), max_iter=4).nit == 4


def test_a_problem_of_another_type_is_refused(path, problem, monkeypatch):
    """By its fingerprint, and where that is the same by the shapes and types of the state."""
    run(problem, max_iter=2).save(path)
    with pytest.raises(ValueError, match=r"problem: found .*:float32; expected .*:float64"):
        nbo.resume(path, PlainLogistic(*DATA32), max_iter=4)
    monkeypatch.setattr(PlainLogistic, "fingerprint", lambda self: "the same")
    run(problem, max_iter=2).save(path)
    with pytest.raises(ValueError, match=r"run.npz' does not fit the problem .*y: found shape \(7,\) and float64; exp"):
        nbo.resume(path, PlainLogistic(*DATA32), max_iter=4)


@pytest.mark.parametrize("found", [None, 3, "problem"])
def test_no_problem_is_refused(path, problem, found):
    run(problem).save(path)
    with pytest.raises(TypeError, match=r"^problem: found .*; expected a BilevelProblem"):
        nbo.resume(path, found, max_iter=20)


@pytest.mark.parametrize("method", ["nbo-gd", "soba"])
def test_bounds_are_kept(path, problem, method):
    options = {"step_size": 5.0}
    half, straight = (run(problem, method, max_iter=k, options=options, bounds=(-1.55, -1.45)) for k in (4, 8))
    whole = gone_on(half, path, problem, max_iter=8)
    assert_same(whole, straight)
    assert (whole.x == -1.55).any() and not (run(problem, method, max_iter=8, options=options).x >= -1.55).all()
    assert_same(
        gone_on(whole, path, problem, max_iter=12),
        run(problem, method, max_iter=12, options=options, bounds=(-1.55, -1.45)),
    )


class OnASphere(PlainLogistic):
    """Its feasible set is a ball, whose boundary is hit up to rounding."""

    def project(self, x):
        return x * min(1.0, 4.1 / np.linalg.norm(x))


@pytest.mark.parametrize("method", ["nbo-gd", "nbo-cg", "saba"])
def test_a_set_of_the_problem_is_kept(path, method):
    problem = OnASphere(*DATA)
    options = {"step_size": 3.0}
    half, straight = (run(problem, method, max_iter=k, options=options) for k in (6, 12))
    assert np.linalg.norm(half.x) == pytest.approx(4.1)
    assert_same(gone_on(half, path, problem, max_iter=12), straight)


# Limits


def test_max_iter_counts_all_iterations(path, problem):
    run(problem, max_iter=12).save(path)
    for max_iter in (0, 11, 12):
        with pytest.raises(ValueError, match=f"^max_iter: found {max_iter}; expected more than 12, the iterations"):
            nbo.resume(path, problem, max_iter=max_iter)
    with pytest.raises(
        ValueError, match=r"^max_iter: left out, which stands for the old limit 12; expected more than 12"
    ):
        nbo.resume(path, problem)
    with pytest.raises(TypeError, match=r"^max_iter: found 20.0"):
        nbo.resume(path, problem, max_iter=20.0)


def test_max_iter_stays_as_it_was(path, problem):
    half = run(problem, max_iter=9, callback=lambda x: True)
    assert gone_on(half, path, problem, callback=None).nit == 9
    assert gone_on(half, path, problem, callback=None, max_iter=5).nit == 5


def test_max_time_counts_all_seconds(path, problem):
    half = run(problem, max_iter=3)
    half.save(path)
    for seconds in (0, half.seconds / 2):
        with pytest.raises(ValueError, match=r"^max_time: found .*; expected more than .*max_time counts them too"):
            nbo.resume(path, problem, max_iter=20, max_time=seconds)
    with pytest.raises(TypeError, match=r"^max_time: found '3'"):
        nbo.resume(path, problem, max_iter=20, max_time="3")
    assert nbo.resume(path, problem, max_iter=20, max_time=1e4).nit == 20


# Files


def tampered(path, change):
    tree = checkpoints.read(path)
    change(tree)
    checkpoints.write(path, tree)


@pytest.mark.parametrize("method", ["nbo-cg", "nsbo-saga"])
def test_missing_and_unknown_entries(path, problem, method):
    tree = checkpoint_of(run(problem, method), path)
    places = [(), ("limits",), ("state",), ("run",), ("options",)] + [("state", "memory")] * (method == "nsbo-saga")
    for place in places:
        names = list(dig(tree, place))
        if place == ("options",):
            names = []  # each has a default
        for name in names:
            checkpoints.write(path, tree)
            tampered(path, lambda t, place=place, name=name: dig(t, place).pop(name))
            with pytest.raises(CheckpointError, match=r"run\.npz' .*; the file is damaged, or"):
                nbo.resume(path, problem, max_iter=20)
        if place in ((), ("options",)):
            checkpoints.write(path, tree)
            tampered(path, lambda t, place=place: dig(t, place).update(nonsense=1))
            with pytest.raises(CheckpointError, match=r"run\.npz' does not hold a run \(\w+: .*nonsense"):
                nbo.resume(path, problem, max_iter=20)


def dig(tree, place):
    for name in place:
        tree = tree[name]
    return tree


@pytest.mark.parametrize(
    "change", [lambda a: a[:-1], lambda a: np.vstack([a, a]), lambda a: a[:1]], ids=["less", "more", "one"]
)
def test_a_memory_of_another_shape(path, problem, change):
    """Even where it could be spread over the rows."""
    run(problem, "nsbo-saga").save(path)

    def change_largest(tree):
        arrays = tree["state"]["memory"]["arrays"]
        i = max(range(len(arrays)), key=lambda i: arrays[i].size)
        arrays[i] = change(arrays[i])

    tampered(path, change_largest)
    with pytest.raises(CheckpointError, match=r"run\.npz' does not fit the problem"):
        nbo.resume(path, problem, max_iter=20)


@pytest.mark.parametrize("method", ["nbo-cg", "soba"])
@pytest.mark.parametrize("name", ["x", "y", "u"])
def test_an_iterate_of_another_shape(path, problem, method, name):
    run(problem, method).save(path)
    for array in (np.zeros(6), np.zeros((7, 1)), np.zeros(7, dtype=np.float32), None, 3.0):
        tampered(path, lambda tree, array=array: tree["state"].update({name: array}))
        with pytest.raises(CheckpointError, match=r"run\.npz' does not fit the problem"):
            nbo.resume(path, problem, max_iter=20)


@pytest.mark.parametrize("value", [-1, 2.5, None])
def test_iterations_that_are_no_number(path, problem, value):
    run(problem).save(path)
    tampered(path, lambda tree: tree["state"].update(nit=value))
    with pytest.raises(CheckpointError, match=r"run\.npz' does not hold a run .*nit"):
        nbo.resume(path, problem, max_iter=20)


def test_another_version_of_the_format(path, problem, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "VERSION", checkpoints.VERSION + 1)
        run(problem).save(path)
    with pytest.raises(CheckpointError, match=rf"run\.npz' is of version {checkpoints.VERSION + 1} of the format"):
        nbo.resume(path, problem, max_iter=20)


def test_what_is_no_checkpoint(path, problem):
    with pytest.raises(FileNotFoundError):
        nbo.resume(path, problem)
    np.savez(path, x=np.zeros(3))
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match=r"run\.npz' is no checkpoint"):
        nbo.resume(path, problem)
    with pytest.raises(FileExistsError, match=r"no checkpoint, so it is not replaced"):
        run(problem).save(path)
    assert path.read_bytes() == before


def test_a_file_is_replaced_as_a_whole(path, problem, monkeypatch):
    half = run(problem, max_iter=3)
    half.save(path)
    gone_on(half, path, problem, max_iter=6).save(path)  # the file that it came from
    assert nbo.resume(str(path), problem, max_iter=7).nit == 7

    before = path.read_bytes()
    written = []

    def fail(stream, array, **keywords):
        written.append(stream.write(b"half of a file"))
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np.lib.format, "write_array", fail)
        with pytest.raises(OSError, match=r"No space left"):
            half.save(path)
    assert written and path.read_bytes() == before and list(path.parent.iterdir()) == [path]


def test_a_copy_is_not_saved(path, problem):
    result = run(problem)
    for twin in (pickle.loads(pickle.dumps(result)), copy.copy(result), copy.deepcopy(result)):
        assert_same(twin, result)
        with pytest.raises(
            ValueError, match=r"^save: this result is a copy or was pickled.* nbo.minimize or nbo.resume"
        ):
            twin.save(path)
    assert not path.exists()
    result.save(path)


def test_saving_changes_nothing(path, problem):
    result = run(problem, "saba")
    keys = list(result)
    result.save(path)
    first = nbo.resume(path, problem, max_iter=20)
    assert list(result) == keys
    result.x[:] = result.y[:] = result.best.x[:] = 0  # the user's to change
    assert_same(gone_on(result, path, problem, max_iter=20), first)
    assert_same(nbo.resume(path, problem, max_iter=20), first)
