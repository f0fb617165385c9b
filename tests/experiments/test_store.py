"""The folder: nothing of anybody else's is touched, and what cannot be read is made anew."""

from __future__ import annotations

import dataclasses
import json
import os

import pytest
from experiment_cases import make_case, outcome

from nbo.experiments import _results
from nbo.experiments._store import FolderError, Store

SETTINGS = {"scale": "quick", "repeats": 2}


@pytest.fixture
def task():
    case = make_case()
    return _results.repeated(case, case.entries[0], "full", case.full.grid.pairs[0], 1)[0]


def test_outcomes_come_back(tmp_path, task):
    store = Store(tmp_path / "a" / "b", SETTINGS, resume=False)
    assert store.load(task) is None
    store.save(task, outcome([1.0, float("inf")], status="stopped"))
    found = Store(tmp_path / "a" / "b", SETTINGS, resume=True).load(task)
    assert found["status"] == "stopped" and [float(v) for v in found["trace"]["measured"]] == [1.0, float("inf")]
    assert found["task"] == json.loads(json.dumps({"kind": "run", **task.described()}))


@pytest.mark.parametrize("content", ["", "{", "[1]", "\x00", "{}", "null", "[" * 100_000])
def test_a_damaged_outcome_is_none(tmp_path, task, content):
    store = Store(tmp_path / "out", SETTINGS, resume=False)
    store.save(task, outcome([1.0, 0.5]))
    assert store.load(task) is not None
    (tmp_path / "out" / "runs" / f"{task.key}.json").write_text(content)
    assert store.load(task) is None


@pytest.mark.parametrize(
    "damage",
    [
        {"status": "no status"}, {"status": None}, {"trace": []}, {"trace": {}}, {"trace": None},
        {"evaluation_seconds": "x"}, {"task": {"kind": "run"}},
        *({"trace": {name: column}} for name in ("measured", "seconds", "iteration")
          for column in ([1.0], [], 3, ["abc", "x"], [None, None])),
        {"trace": {"measured": ["nan", "nan"]}}, {"trace": {"measured": [0.0, 1.0]}}, {"trace": {"iteration": [3, 4]}},
    ],
    ids=str,
)  # fmt: skip
def test_an_outcome_of_another_form_is_none(tmp_path, task, damage):
    store = Store(tmp_path / "out", SETTINGS, resume=False)
    store.save(task, outcome([1.0, 0.5]))
    assert store.load(task) is not None
    path = tmp_path / "out" / "runs" / f"{task.key}.json"
    kept = json.loads(path.read_text())
    if damage.get("trace"):
        damage = {"trace": kept["trace"] | damage["trace"]}
    path.write_text(json.dumps(kept | damage))
    assert store.load(task) is None


def test_the_outcome_of_another_run_is_none(tmp_path, task):
    store = Store(tmp_path / "out", SETTINGS, resume=False)
    other = dataclasses.replace(task, seed=2)
    store.save(other, outcome([1.0, 0.5]))
    (tmp_path / "out" / "runs" / f"{other.key}.json").rename(tmp_path / "out" / "runs" / f"{task.key}.json")
    assert store.load(task) is None


def test_an_existing_folder_is_used_only_to_go_on(tmp_path):
    Store(tmp_path / "out", SETTINGS, resume=False)
    with pytest.raises(FolderError, match="exists; go on in it with --resume"):
        Store(tmp_path / "out", SETTINGS, resume=False)
    Store(tmp_path / "out", SETTINGS, resume=True)


def test_resuming_where_nothing_is_begins(tmp_path):
    Store(tmp_path / "new", SETTINGS, resume=True)
    (tmp_path / "empty").mkdir()
    Store(tmp_path / "empty", SETTINGS, resume=False)
    for name in ("new", "empty"):
        assert sorted(os.listdir(tmp_path / name)) == ["reproduce.json", "runs"]


@pytest.mark.parametrize("resume", [True, False])
def test_folders_of_others_are_left_alone(tmp_path, resume):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "reproduce.json").write_text('{"command": "make"}')
    with pytest.raises(FolderError, match="was not made by nbo reproduce"):
        Store(tmp_path / "theirs", SETTINGS, resume=resume)
    (tmp_path / "file").write_text("x")
    with pytest.raises(FolderError, match="is no folder"):
        Store(tmp_path / "file", SETTINGS, resume=resume)
    assert os.listdir(tmp_path / "theirs") == ["reproduce.json"]


def test_settings_have_to_agree(tmp_path):
    Store(tmp_path / "out", SETTINGS, resume=False)
    with pytest.raises(FolderError, match="begun with --quick, found --full"):
        Store(tmp_path / "out", SETTINGS | {"scale": "full"}, resume=True)
    with pytest.raises(FolderError, match="begun with --repeats 2, found no --repeats"):
        Store(tmp_path / "out", SETTINGS | {"repeats": None}, resume=True)
    (tmp_path / "out" / "reproduce.json").write_text('{"command": "nbo reproduce", "settings": {"scale": "quick"}}')
    with pytest.raises(FolderError, match="expected the same"):
        Store(tmp_path / "out", {"scale": "quick", "repeats": None}, resume=True)


def test_files_are_replaced_whole(tmp_path, monkeypatch):
    store = Store(tmp_path / "out", SETTINGS, resume=False)
    store.write("report.md", "old")

    def fails(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(FolderError, match=r"report\.md cannot be written: No space left"):
        store.write("report.md", "new")
    assert (tmp_path / "out" / "report.md").read_text() == "old"
    assert sorted(os.listdir(tmp_path / "out")) == ["report.md", "reproduce.json", "runs"]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(FolderError, match="cannot be used"):
        Store(tmp_path / "file" / "out", SETTINGS, resume=False)
