"""The folder: nothing of anybody else's is touched, and what cannot be read is made anew."""

from __future__ import annotations

import json
import os

import pytest
from experiment_cases import make_case

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
    store.save(task, {"status": "stopped", "trace": {"measured": [1.0, float("inf")]}})
    found = Store(tmp_path / "a" / "b", SETTINGS, resume=True).load(task)
    assert found["status"] == "stopped" and [float(v) for v in found["trace"]["measured"]] == [1.0, float("inf")]
    assert found["task"] == json.loads(json.dumps({"kind": "run", **task.described()}))


@pytest.mark.parametrize("content", ["", "{", "[1]", "\x00"])
def test_a_damaged_outcome_is_none(tmp_path, task, content):
    store = Store(tmp_path / "out", SETTINGS, resume=False)
    store.save(task, {"status": "stopped"})
    (tmp_path / "out" / "runs" / f"{task.key}.json").write_text(content)
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
    with pytest.raises(FolderError, match="begun with scale = quick, found full"):
        Store(tmp_path / "out", SETTINGS | {"scale": "full"}, resume=True)


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
