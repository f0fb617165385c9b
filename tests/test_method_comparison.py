"""The comparison of methods runs, and its tables say what was reached, by whom, and who could not take part."""

from __future__ import annotations

import re

import numpy as np
import pytest
from reference_problems import PlainLogistic, SelfCounting, logistic_data

import nbo
from nbo.benchmarks import BENCHMARKS, comparison, ijcnn1, minibatch
from nbo.benchmarks.comparison import QUICK_METHODS, SETTINGS, Contest, obstacle, result_line
from nbo.benchmarks.iterations import Case
from nbo.benchmarks.targets import Goal, Outcome, Rounds, best_run, reach
from nbo.experiments.steps import CLEANING_GRID, IJCNN1_GRID, Steps
from nbo.solvers import REGISTRY

ONE, TWO, THREE = Steps(1.0, 1.0), Steps(0.5, 0.1), Steps(0.25, 1.0)
NEVER = np.inf


def outcome(steps, value, seconds=NEVER, ended=1.0, diverged=False, converged=False):
    return Outcome(diverged, value, seconds, ended, 1000, steps, converged)


def scripted(*outcomes):
    """A function that gives outcomes in turn, and the calls that it saw."""
    coming, calls = iter(outcomes), []

    def run(steps, seconds):
        calls.append((steps, seconds))
        found = next(coming)
        assert found.steps == steps
        return found

    return run, calls


def logistic_contest(problem=None, wanted=-np.inf, grid=(ONE,)):
    problem = problem or PlainLogistic(*logistic_data())
    goal = Goal(
        problem, np.full(problem.dim_x, -2.0), np.zeros(problem.dim_y), lambda: problem.upper_value, wanted, 0.01
    )
    return Contest("small", goal, grid, "f", "low", 0.0, ".2e")


@pytest.mark.slow
def test_quick_run_prints_a_line_for_every_method_and_problem(capsys):
    BENCHMARKS["methods"](quick=True)
    shown = capsys.readouterr().out
    assert shown.startswith(f"{len(QUICK_METHODS)} methods to a common target")
    for method in QUICK_METHODS:
        lines = re.findall(rf"^  {method} .*$", shown, re.MULTILINE)
        assert len(lines) == 2
        for line in lines:
            assert re.search(r" \d of [16]\b", line), line
            assert ("found" in line) == REGISTRY[method].chooses_step
            seconds, samples = line[16:28].strip(), line[28:43].strip().replace(",", "")
            assert seconds == "not reached" or float(seconds) > 0
            assert int(samples) > 0


def test_data_that_are_missing_are_named(capsys, monkeypatch):
    def missing():
        raise FileNotFoundError("no such set")

    monkeypatch.setattr(missing, "__name__", "ijcnn1")
    monkeypatch.setattr(comparison, "ijcnn1", missing)
    monkeypatch.setattr(comparison, "mnist", logistic_contest)
    monkeypatch.setattr(comparison, "compete", lambda contest, methods, rounds: print(contest.name, len(methods)))
    comparison.run(quick=False)
    shown = capsys.readouterr().out
    assert "\nijcnn1 is left out: no such set\n" in shown
    assert shown.startswith(f"{len(REGISTRY)} methods to a common target")
    assert shown.endswith(f"small {len(REGISTRY)}\n")


def test_settings_are_those_of_registered_methods():
    assert set(SETTINGS) <= set(REGISTRY)
    for name, settings in SETTINGS.items():
        REGISTRY[name](**dict(settings.options) | dict(settings.cleaning))


def test_the_grids_are_parts_of_the_papers():
    grids = {
        comparison.PENALTY_GRID: (IJCNN1_GRID.inner, IJCNN1_GRID.ratios),
        comparison.CLEANING_GRID: (CLEANING_GRID.inner, CLEANING_GRID.ratios),
    }
    for grid, of_paper in grids.items():
        assert len(set(grid)) == 6
        for values, allowed in zip(zip(*grid, strict=True), of_paper, strict=True):
            assert all(np.isclose(value, allowed, rtol=1e-12).any() for value in values)


def test_steps_are_the_options_that_a_method_has():
    options = Steps(0.5, 0.1).options(nbo.SOBA, (0.5, 0.0))
    assert set(options) == {"step_size", "inner_step_size"}
    assert options["step_size"](3) == pytest.approx(2.5)
    assert options["inner_step_size"](3) == 0.5
    assert set(Steps(0.5, 0.1).options(nbo.NBOCG, (0.0, 0.0))) == {"step_size"}


def test_the_best_of_the_first_round_start_anew():
    first = [outcome(ONE, 3.0), outcome(TWO, 1.0), outcome(THREE, 2.0)]
    run, calls = scripted(*first, outcome(TWO, 0.9, ended=4.0), outcome(THREE, 0.5, seconds=2.0))
    best, diverged = best_run(run, [ONE, TWO, THREE], Rounds(1.0, 2, 4.0))
    assert calls == [(ONE, 1.0), (TWO, 1.0), (THREE, 1.0), (TWO, 4.0), (THREE, 4.0)]
    assert (best.steps, best.seconds, diverged) == (THREE, 2.0, 0)


def test_a_finalist_has_no_longer_than_the_fastest_so_far():
    run, calls = scripted(outcome(ONE, 1.0), outcome(TWO, 2.0), outcome(ONE, 0.5, seconds=1.5), outcome(TWO, 0.7))
    best, _ = best_run(run, [ONE, TWO], Rounds(1.0, 2, 4.0))
    assert calls[-1] == (TWO, 1.5)
    assert best.steps == ONE


def test_diverged_pairs_are_counted_once_and_come_last():
    bad = outcome(ONE, 0.1, diverged=True)
    run, calls = scripted(bad, outcome(TWO, 3.0), outcome(TWO, 2.0, diverged=True), bad)
    best, diverged = best_run(run, [ONE, TWO], Rounds(1.0, 1, 4.0))
    assert [steps for steps, _ in calls] == [ONE, TWO, TWO, ONE]
    assert (best.diverged, diverged) == (True, 2)


def test_no_run_begins_after_the_total():
    run, calls = scripted(outcome(ONE, 1.0), outcome(TWO, 2.0), outcome(ONE, 1.0, ended=3.0))
    best_run(run, [ONE, TWO], Rounds(1.0, 2, 3.0, total=5.0))
    assert len(calls) == 3


def test_one_candidate_runs_once():
    run, calls = scripted(outcome(None, 1.0))
    assert best_run(run, [None], Rounds(1.0, 2, 4.0)) == (outcome(None, 1.0), 0)
    assert calls == [(None, 4.0)]


@pytest.mark.parametrize("method", ["nbo-cg", "soba"])
def test_a_run_ends_at_the_target(method):
    contest = logistic_contest(wanted=0.5)
    steps = None if REGISTRY[method].chooses_step else Steps(0.5, 1.0)
    found = reach(contest.goal, method, steps, {}, 20.0)
    assert found.value <= 0.5 and found.seconds == found.ended < 20.0
    assert (found.diverged, found.steps) == (False, steps)


def test_samples_are_those_that_the_method_went_over():
    contest = logistic_contest(wanted=0.5)
    found = reach(contest.goal, "soba", Steps(0.5, 1.0), {}, 20.0)
    _, samples = contest.goal.problem.seen()
    assert found.samples == sum(samples.as_dict().values()) - samples.upper_value > 0


def test_the_last_iterate_is_looked_at():
    contest = logistic_contest(wanted=0.5)
    goal = contest.goal._replace(look=1e9)  # nothing else is, but the start
    found = reach(goal, "nbo-cg", None, {}, 20.0)
    assert found.converged and found.seconds == found.ended


def test_a_run_that_converges_elsewhere_says_so():
    line = result_line(logistic_contest(), "nbo-cg", Rounds(1.0, 1, 20.0))
    assert line.startswith("not reached")
    assert re.search(r"found +0 of 1  converged after \d+\.\d\d s$", line)


def test_a_run_that_diverges_says_so():
    contest = logistic_contest(grid=(Steps(1e6, 1e-6),))
    line = result_line(contest, "soba", Rounds(1.0, 1, 5.0))
    assert re.search(r"1e\+06 +1e-06  1 of 1  diverged after \d+\.\d\d s$", line)


def test_who_cannot_take_part_and_why(monkeypatch):
    contest = logistic_contest()
    assert [obstacle(contest, method) for method in ("nbo-cg", "nbo-cholesky", "soba")] == [None] * 3
    monkeypatch.setattr(nbo.SOBA, "needs", ("upper_hvp",))
    reason = obstacle(logistic_contest(minibatch.NumpyLogistic(*logistic_data())), "soba")
    assert reason == "left out: problem: NumpyLogistic does not define upper_hvp, which method 'soba' needs"
    large = nbo.problems.Quadratic.family(n=100, m=2, kappa=4)
    monkeypatch.setattr(comparison, "MOST_CALLS", 98)
    reason = obstacle(logistic_contest(SelfCounting(large)), "nbo-cholesky")
    assert reason == "left out: an iteration takes 99 calls more than for n = 1"
    assert obstacle(logistic_contest(SelfCounting(large)), "nbo-cg") is None


def test_an_error_of_one_method_ends_its_own_run_only(monkeypatch, capsys):
    def fail(goal, method, *arguments):
        if method == "nbo-gd":
            raise ArithmeticError("H is not positive definite")
        return outcome(None, 1.0)

    monkeypatch.setattr(comparison, "reach", fail)
    comparison.compete(logistic_contest(), ("nbo-gd", "nbo-cg"), Rounds(1.0, 1, 1.0))
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "small: low"
    assert lines[3].split() == ["nbo-gd", "failed:", "ArithmeticError:", *["H", "is", "not", "positive", "definite"]]
    assert lines[4].startswith("  nbo-cg         not reached          1,000       10    1.00e+00  found ")


@pytest.mark.slow
def test_the_grid_on_random_data(capsys, monkeypatch):
    monkeypatch.setattr(ijcnn1, "METHODS", ("soba",))
    ijcnn1.run_ijcnn1(quick=True)
    *_, heading, header, line = capsys.readouterr().out.splitlines()
    assert heading.endswith("at most 15 s each")
    assert header.split() == ["seconds", "samples", "Phi", "-", "Phi*", "inner", "step", "ratio"]
    assert re.fullmatch(r"  soba +(not reached|\d+\.\d\d) +[\d,]+ +\d\.\d\de[+-]\d\d   1 +(0\.316|1)", line)


def test_bounds_of_iterations_are_for_their_type():
    case = Case("a", "soba", {}, microseconds=5.0, single_microseconds=3.0)
    line = minibatch._line(case, (4.0, 3.5, 80.0), soba=4.0)
    assert line.endswith("(4.00 us, at most 5 wanted: met)   (3.50 us in float32, at most 3 wanted: not met)")
    assert "wanted" not in minibatch._line(case, (4.0, 3.5, 80.0), soba=None)


def test_timed_methods_are_registered():
    assert {case.method for case in minibatch.CASES} <= set(REGISTRY)
    bounds = {case.method: case.single_microseconds for case in minibatch.CASES if case.single_microseconds}
    assert bounds == {"stocbio": pytest.approx(29.4), "f2sa": pytest.approx(38.4)}


def test_the_plain_problem_of_the_benchmark_is_right():
    data = logistic_data()
    mine, reference = minibatch.NumpyLogistic(*map(np.asarray, data)), nbo.problems.BinaryLogistic(*data)
    rng = np.random.default_rng(0)
    x, y, u = rng.standard_normal((3, mine.dim_x))
    np.testing.assert_allclose(mine.lower_grad_x(x, y), reference.lower_grad_x(x, y), rtol=1e-12)
    np.testing.assert_allclose(mine.lower_jvp(x, y, u), reference.lower_jvp(x, y, u), rtol=1e-12)
    np.testing.assert_allclose(mine.lower_hvp(x, y, u), reference.lower_hvp(x, y, u), rtol=1e-12)
    np.testing.assert_allclose(mine.lower_grad_y(x, y), reference.lower_grad_y(x, y), rtol=1e-12)
