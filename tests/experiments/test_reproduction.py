"""The one runner: nothing is done twice, a command that was killed goes on, and the folder has all that it should."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from experiment_cases import PAIRS, make_case

from nbo.experiments import _pool, reproduce, reproduction
from nbo.experiments.catalogue import EXPERIMENTS, FIGURES
from nbo.experiments.configuration import Experiment
from nbo.experiments.problems import Cleaning

pytestmark = pytest.mark.slow


@pytest.fixture
def small(monkeypatch):
    """A version of `averaged` that takes a second; returns what sets another case in its place."""

    def put(case):
        case = dataclasses.replace(case, name="averaged")
        monkeypatch.setitem(EXPERIMENTS, "averaged", Experiment(name="averaged", title="Small", cases=(case,)))
        return case

    put(make_case(PAIRS))
    return put


@pytest.fixture
def done(monkeypatch):
    """The tasks that are done, as lists of their titles, one a command."""
    titles = []
    original = _pool.run_all

    def recorded(tasks, jobs, then):
        titles.extend(task.title for task in tasks)
        original(tasks, jobs, then)

    monkeypatch.setattr(_pool, "run_all", recorded)
    return titles


def test_a_folder_has_figures_tables_and_a_report(small, done, tmp_path):
    seen = []
    found = reproduce(["averaged"], out=tmp_path / "out", progress=lambda *moment: seen.append(moment), jobs=1)
    assert len(done) == 2 * 2 + 2 * 3  # a search of two pairs and three repeats of both methods
    assert found.names == ("averaged",) and set(found.cases) == {"averaged"} and found.omitted == {}
    assert [claim.experiment for claim, _ in found.verdicts] == ["averaged"] * 2
    folder = tmp_path / "out"
    assert {path.name for path in (folder / "tables").iterdir()} == {
        "verdicts.csv", "steps.csv", "finals.csv", "targets.csv", "ratios.csv",
    }  # fmt: skip
    for suffix in ("png", "pdf", "csv"):
        assert (folder / "figures" / f"figure-5.{suffix}").stat().st_size > 500
    assert (folder / "figures" / "figure-5.png").read_bytes().startswith(b"\x89PNG")
    text = (folder / "report.md").read_text()
    assert "quick version" in text and "figures/figure-5.png" in text and str(found.verdicts[0][1].verdict) in text
    page = (folder / "report.html").read_text()
    assert "data:image/png;base64," in page and 'src="figures' not in page and "<table>" in page
    assert json.loads((folder / "machine.json").read_text())["nbo"]
    finished = [moment[0] for moment in seen]
    assert finished == sorted(finished) and finished[-1] == pytest.approx(seen[-1][1])
    assert len(list((folder / "runs").iterdir())) == len(done)


def test_a_second_command_does_nothing_again_and_one_method_that_changed_alone(small, done, tmp_path):
    first = reproduce(["averaged"], out=tmp_path / "out", jobs=1)
    done.clear()
    again = reproduce(["averaged"], out=tmp_path / "out", resume=True, jobs=1)
    assert done == []
    assert str(again) == str(first)
    case = make_case(PAIRS)
    changed = dataclasses.replace(case.entries[1], options={"n_inner": 2})
    small(dataclasses.replace(case, entries=(case.entries[0], changed)))
    reproduce(["averaged"], out=tmp_path / "out", resume=True, jobs=1)
    assert len(done) == 2 + 3 and all(title.startswith("BAMM+NBO on ") for title in done)


def test_the_report_keeps_what_earlier_commands_finished(small, tmp_path):
    reproduce(["table2"], out=tmp_path / "out", jobs=1)
    found = reproduce(["averaged"], out=tmp_path / "out", resume=True, jobs=1)
    assert found.names == ("averaged", "table2")
    assert "Table 2" in (tmp_path / "out" / "report.md").read_text()


def test_what_was_finished_is_kept_when_a_run_fails(small, monkeypatch, tmp_path):
    case = make_case(PAIRS)
    broken = dataclasses.replace(case.entries[1], options={"nonsense": 1})
    small(dataclasses.replace(case, entries=(case.entries[0], broken)))
    with pytest.raises(RuntimeError, match="nonsense"):
        reproduce(["averaged"], out=tmp_path / "out", jobs=1)
    kept = len(list((tmp_path / "out" / "runs").iterdir()))
    assert kept >= 1
    small(case)
    found = reproduce(["averaged"], out=tmp_path / "out", resume=True, jobs=1)
    assert set(found.cases) == {"averaged"}


def test_data_that_are_missing_are_told(small, monkeypatch, tmp_path):
    monkeypatch.setenv("NBO_DATA", str(tmp_path / "home"))
    monkeypatch.delenv("NBO_DATA_MIRROR", raising=False)
    with pytest.raises(FileNotFoundError, match=r"data_scripts/fetch_mnist\.py"):
        reproduce(["mnist"], out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    available, omitted = reproduction._available(list(EXPERIMENTS.values()), "quick", None, False)
    assert {"ijcnn1", "covtype", "mnist", "fashion", "variance-mnist"} <= set(omitted)
    assert {experiment.name for experiment, _ in available} >= {"synthetic", "averaged", "table1", "table2"}


def test_data_are_taken_from_a_folder(monkeypatch, tmp_path, data_mirror):
    monkeypatch.setenv("NBO_DATA", str(tmp_path / "home"))
    monkeypatch.delenv("NBO_DATA_MIRROR")
    available, omitted = reproduction._available([EXPERIMENTS["mnist"]], "quick", data_mirror, True)
    assert omitted == {} and len(available) == 1
    assert Cleaning(dataset="mnist", n_train=50, n_val=20, n_test=20).instance(0).problem.n_samples_lower == 50


def test_an_extra_that_is_missing_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(reproduction, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"nbo\[jax\]"):
        reproduce(["backends"], out=tmp_path / "out")
    _, omitted = reproduction._available(list(EXPERIMENTS.values()), "quick", None, False)
    assert "backends" in omitted


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"names": []}, "names"),
        ({"names": "mnist"}, "names"),
        ({"names": ["nobody"]}, "names: found 'nobody'"),
        ({"scale": "large"}, "scale: found 'large'"),
        ({"repeats": 0}, "repeats"),
        ({"repeats": 1.5}, "repeats"),
        ({"jobs": 0}, "jobs"),
        ({"jobs": 10_000}, "jobs"),
        ({"data": "nowhere"}, "data: found nowhere"),
        ({"resume": "yes"}, "resume"),
    ],
)
def test_bad_arguments(settings, message, tmp_path):
    with pytest.raises((TypeError, ValueError, FileNotFoundError), match=message):
        reproduce(**({"names": ["averaged"], "out": tmp_path / "out"} | settings))
    assert not (tmp_path / "out").exists()


def rows_without_time(folder, name):
    """A table without times, which differ from run to run."""
    with open(folder / "tables" / f"{name}.csv", newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    return [
        {key: value for key, value in row.items() if "seconds" not in key}
        for row in rows
        if row.get("axis") != "seconds" and "in seconds" not in row.get("measured", "")
    ]


def begin(folder, *options):
    command = [sys.executable, "-m", "nbo", "reproduce", "averaged", "--out", str(folder), *options]
    return subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_to_the_end(folder, *options):
    process = begin(folder, *options)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_command_that_was_killed_goes_on(how, tmp_path):
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    run_to_the_end(whole)
    number = int(np.random.default_rng().integers(1, len(list((whole / "runs").iterdir()))))
    process = begin(torn)
    while process.poll() is None and len(list((torn / "runs").glob("*.json"))) < number:
        time.sleep(0.01)
    os.killpg(process.pid, how) if how == signal.SIGKILL else process.send_signal(how)
    _, errors = process.communicate(timeout=60)
    if how == signal.SIGINT:
        assert process.returncode == 130 and "--resume goes on" in errors
    kept = {path.name: path.stat().st_mtime_ns for path in (torn / "runs").glob("*.json")}
    assert number <= len(kept) < len(list((whole / "runs").iterdir()))
    run_to_the_end(torn, "--resume")
    for name, written in kept.items():
        assert (torn / "runs" / name).stat().st_mtime_ns == written
    for table in ("verdicts", "steps", "finals", "targets", "ratios"):
        assert rows_without_time(torn, table) == rows_without_time(whole, table), f"killed after {number} runs"
        assert rows_without_time(torn, table)


def test_every_figure_of_finished_experiments_is_drawn(small, tmp_path):
    reproduce(["averaged"], out=tmp_path / "out", jobs=1)
    names = {layout.name for layout in FIGURES if any(getattr(p, "case", "") == "averaged" for p in layout.panels)}
    assert {path.stem for path in (tmp_path / "out" / "figures").iterdir()} == names
