"""Runs, accurate minima and studies: what is measured, what they depend on, and how failures are kept."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from experiment_cases import make_case

import nbo
from nbo._files import plain
from nbo.experiments import _results, _tasks
from nbo.experiments._tasks import ReferenceTask, RunTask, StudyTask
from nbo.experiments.configuration import Budget, Entry
from nbo.experiments.problems import ClassPenalties, Cleaning, FeaturePenalties, Synthetic, Toy
from nbo.experiments.steps import Grid, Steps

SMALL = Synthetic(p=3, n_train=60, n_val=40)
NBO = Entry(label="NBO-GD (T=1)", method="nbo-gd")


def make_run(**changes):
    settings = {
        "problem": SMALL, "entry": NBO, "steps": Steps(0.1, 0.1), "seed": 1, "metric": "relative gap",
        "budget": Budget(iterations=20, looks=10),
    }  # fmt: skip
    return RunTask(**(settings | changes))


def test_keys_tell_runs_apart_by_what_matters():
    run = make_run()
    same = [
        make_run(entry=dataclasses.replace(NBO, label="another name")),
        make_run(budget=Budget(iterations=20, looks=10, expected=7.0)),
        make_run(metric="gap"),
    ]
    others = [
        make_run(seed=2),
        make_run(steps=Steps(0.1, 0.2)),
        make_run(entry=dataclasses.replace(NBO, options={"n_inner": 2})),
        make_run(entry=dataclasses.replace(NBO, decay=(0.5, 0.5))),
        make_run(budget=Budget(iterations=21, looks=10)),
        make_run(problem=dataclasses.replace(SMALL, r=2.0)),
        make_run(metric="distance"),
    ]
    assert {task.key for task in same} == {run.key}
    assert len({run.key, *(task.key for task in others)}) == 1 + len(others)


def test_a_new_version_makes_everything_anew(monkeypatch):
    before = make_run().key
    monkeypatch.setattr(_tasks, "RECORD_VERSION", _tasks.RECORD_VERSION + 1)
    assert make_run().key != before


def test_phi_is_measured_accurately_at_the_iterates_of_the_run():
    found = make_run().execute()
    trace = found["trace"]
    assert trace["iteration"] == list(range(0, 21, 2))
    problem = SMALL.instance(1).problem
    seen = {0: np.zeros(3)}
    nbo.minimize(
        problem, np.zeros(3), method="nbo-gd", options={"step_size": 1.0, "inner_step_size": 0.1}, max_iter=20, tol=0,
        callback=lambda intermediate_result: seen.__setitem__(intermediate_result.nit, intermediate_result.x.copy()),
    )  # fmt: skip
    for k, value in zip(trace["iteration"], trace["measured"], strict=True):
        assert value == pytest.approx(nbo.hypergradient(problem, seen[k]).value, abs=1e-9)
    assert found["counts"]["lower_grad_y"] == 20
    assert trace["samples"][-1] == 20 * (60 * (1 + 3 + 1) + 40) and trace["calls"][-1] == 20 * 6
    assert np.all(np.diff(trace["seconds"]) > 0)


def test_evaluation_is_no_part_of_the_time(monkeypatch):
    import time

    original = nbo.solve_lower_level

    def slow(*args, **keywords):
        time.sleep(0.05)
        return original(*args, **keywords)

    monkeypatch.setattr(nbo, "solve_lower_level", slow)
    found = make_run().execute()
    assert found["evaluation_seconds"] >= 11 * 0.05
    assert found["seconds"] < 0.3


def test_outcomes_survive_json():
    found = make_run().execute()
    assert json.loads(json.dumps(plain(found), allow_nan=False)) == plain(found)


def test_runs_by_time_end_in_time_and_are_looked_at_evenly():
    task = make_run(
        problem=FeaturePenalties(dataset="breast_cancer"), entry=Entry(label="SOBA", method="soba"),
        steps=Steps(0.1, 1.0), budget=Budget(seconds=0.3, looks=12), metric="gap",
    )  # fmt: skip
    found = task.execute()
    assert found["status"] == "time_limit"
    seconds = np.array(found["trace"]["seconds"])
    assert 0.3 <= found["seconds"] < 1.5 and 4 <= seconds.size <= 60
    assert seconds[0] == 0 and seconds[-1] == found["seconds"]


@pytest.mark.parametrize("problem", [ClassPenalties(dataset="digits"), Cleaning(dataset="digits")])
def test_errors_are_those_of_the_test_rows(problem):
    task = make_run(
        problem=problem, entry=Entry(label="SOBA", method="soba"), steps=Steps(0.1, 1.0), metric="test error",
        budget=Budget(iterations=30, looks=3),
    )  # fmt: skip
    found, instance = task.execute(), problem.instance(1)
    x0, y0 = problem.start(instance.problem, 1)
    result = nbo.minimize(
        instance.problem, x0, y0=y0, method="soba", options=task.options(), max_iter=30, random_state=1
    )
    wrong = instance.problem.predict(instance.A_test, result.y) != instance.b_test
    assert found["trace"]["measured"][-1] == np.mean(wrong)
    assert len(instance.b_test) not in (instance.problem.n_samples_lower, instance.problem.n_samples_upper)


def test_shine_searches_the_first_trial_of_its_line_search():
    entry = Entry(label="SHINE", method="shine", inner_option="initial_step")
    options = make_run(entry=entry, steps=Steps(0.25, 0.5), budget=Budget(seconds=1.0)).options()
    assert options["initial_step"] == 0.25 and options["step_size"](0) == 0.5 and "inner_step_size" not in options


def test_a_run_that_diverges_says_so():
    found = make_run(problem=Toy(n=4), steps=Steps(1e3, 1.0), entry=Entry(label="BAMM", method="bamm"),
                     metric="distance", budget=Budget(iterations=500, looks=10)).execute()  # fmt: skip
    assert found["status"] == "diverged" and found["message"]
    assert found["trace"]["measured"][0] > 0


def test_a_run_that_cannot_begin_is_one_that_diverged(monkeypatch):
    def fails(*args, **keywords):
        raise ArithmeticError("no curvature")

    monkeypatch.setattr(nbo, "minimize", fails)
    found = make_run().execute()
    assert found["status"] == "diverged" and found["message"] == "no curvature"
    problem = SMALL.instance(1).problem
    start = nbo.hypergradient(problem, np.zeros(3)).value
    assert found["trace"]["measured"] == [pytest.approx(start, abs=1e-9)] and found["trace"]["iteration"] == [0]
    assert make_run().accepts(found)


def test_an_interrupted_run_is_none(monkeypatch):
    original = nbo.minimize

    def interrupted(*args, **keywords):
        return original(*args, **(keywords | {"callback": stop}))

    def stop(intermediate_result):
        raise KeyboardInterrupt

    monkeypatch.setattr(nbo, "minimize", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make_run().execute()


def test_the_accurate_minimum_is_below_every_run():
    found = ReferenceTask(problem=SMALL, seed=1).execute()
    run = make_run(steps=Steps(0.5, 0.1), budget=Budget(iterations=300, looks=10)).execute()
    assert found["phi_star"] <= min(run["trace"]["measured"]) + 1e-12
    assert all(end["status"] == "converged" for end in found["ends"])


def test_data_that_are_not_redrawn_have_one_minimum():
    problem = FeaturePenalties(dataset="breast_cancer")
    assert ReferenceTask(problem=problem, seed=1).key == ReferenceTask(problem=problem, seed=2).key
    assert ReferenceTask(problem=SMALL, seed=1).key != ReferenceTask(problem=SMALL, seed=2).key
    case = make_case(metric="gap", problem=problem, labels=("AmIGO (Q=1)", "NBO-GD (T=1)"))
    assert len(_results.references(case, "full", 5)) == 1


def test_starts_are_those_of_the_public_benchmark():
    problem = FeaturePenalties(dataset="breast_cancer")
    made = problem.instance(0).problem
    x0, y0 = problem.start(made, 3)
    rng = np.random.default_rng(3)
    np.testing.assert_array_equal(x0, made.project(np.log(rng.random(made.dim_x))))
    np.testing.assert_array_equal(y0, rng.standard_normal(made.dim_y))
    cleaning = Cleaning(dataset="digits")
    x0, y0 = cleaning.start(cleaning.instance(0).problem, 3)
    assert set(x0) == {-2.0} and not y0.any()


def test_the_starts_of_the_toy_differ_a_little():
    toy = Toy(n=5)
    one, two = (toy.start(toy.instance(0).problem, seed)[0] for seed in (1, 2))
    assert np.all(one != two) and np.all(abs(one - 0.01) < 0.01)


def test_studies_are_those_of_the_theory():
    found = StudyTask(name="table2", kappas=(4, 8), seconds=1.0).execute()
    assert found["study"] == nbo.theory.sample_complexity(kappas=(4, 8)).as_dict()
    assert "paper's Table 2" in found["text"]


def test_grids_are_all_pairs():
    assert Grid(inner=(1.0, 2.0), ratios=(3.0, 4.0)).pairs == (Steps(1, 3), Steps(1, 4), Steps(2, 3), Steps(2, 4))
