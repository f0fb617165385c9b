"""The result folder: contents, refusals, and that nothing half written stays."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import r2_score

from nbo._files import FolderError, plain
from nbo._result_folder import _exchange
from nbo.tuning import outputs, pictures
from nbo.tuning.models import FittedModel
from nbo.tuning.outputs import place_for, write

FILES = ["convergence.png", "history.csv", "model.npz", "penalties.png", "report.html", "result.json"]


def enter(folder, force):
    """Take a place for results and leave it without any."""
    with place_for(folder, force=force):
        pass


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def folder(report, tmp_path_factory):
    """The report, written once."""
    target = tmp_path_factory.mktemp("outputs") / "deep" / "result"
    assert write(report, target) == []
    return target


def test_all_files_are_there_and_nothing_else(folder):
    assert names(folder) == FILES
    assert names(folder.parent) == ["result"]


def test_summary(folder, report):
    found = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    assert found["settings"] == {"penalty": "feature", "cv": 3, "prior": "auto", "seed": 0, "max_iter": None}
    assert found["data"]["split"] == {"tuning": 455, "test": 114}
    assert found["data"]["held_out"] == "3 stratified folds"
    assert found["data"]["task"] == "binary" and found["data"]["labels"] == ["malignant", "benign"]
    assert found["verdict"] == report.verdict
    assert found["versions"]["numpy"] == np.__version__
    assert [row["test_loss"] for row in found["models"]] == [model.test_loss for model in report.models]
    assert found["models"][1]["counts"] is None
    assert [stage["status"] for stage in found["stages"]] == [s.result.status.value for s in report.stages]
    for row, stage in zip(found["stages"], report.stages, strict=True):
        assert row["solver_counts"] == stage.result.counts.as_dict()
        assert row["evaluation_counts"] == stage.result.evaluation_counts.as_dict()
        assert row["held_out_loss"] == stage.model.validation_loss
        assert row["hypergradient_error"] == stage.result.hypergrad_error
        assert row["value"] == stage.result.fun
    kinds = ("first_look_counts", "solver_counts", "evaluation_counts")
    for last, model in enumerate(found["models"][2:], start=1):
        for oracle, count in model["counts"].items():
            assert count == sum(row[kind][oracle] for row in found["stages"][:last] for kind in kinds)
    assert [row["test_accuracy"] for row in found["models"]] == [model.score for model in report.models]
    assert found["notes"] == list(report.notes)


def test_summary_of_a_regression(numbers_report):
    found = plain(outputs.summary(numbers_report))
    assert found["data"]["task"] == "regression" and found["data"]["labels"] is None
    assert [row["test_r2"] for row in found["models"]] == [model.score for model in numbers_report.models]


def test_saved_model_scores_unscaled_rows(folder, report):
    with np.load(folder / "model.npz", allow_pickle=False) as saved:
        model = {key: saved[key] for key in saved.files}
    assert str(model["name"]) == "per-feature"
    scores = report.dataset.A @ model["coefficients"] + model["intercept"]
    scaled = (report.dataset.A - model["center"]) / model["scale"]
    np.testing.assert_allclose(scores, scaled @ model["scaled_coefficients"] + model["scaled_intercept"], rtol=1e-8)
    assert np.mean((scores > 0) == (report.dataset.b > 0)) > 0.95
    assert list(model["label_names"]) == ["malignant", "benign"]
    assert tuple(model["feature_names"]) == report.dataset.feature_names
    np.testing.assert_allclose(model["C"] * np.exp(model["log_penalties"]) * report.data.n_train, 1)


def test_saved_models_of_other_tasks_predict(classes_report, numbers_report, tmp_path):
    for found, wanted in ((classes_report, 0.95), (numbers_report, 0.3)):
        folder = tmp_path / found.dataset.name
        assert write(found, folder) == []
        with np.load(folder / "model.npz", allow_pickle=False) as model:
            scores = found.dataset.A @ model["coefficients"].T + model["intercept"]
            assert str(model["task"]) == found.dataset.task
            assert tuple(model["label_names"]) == found.dataset.label_names
            assert model["alpha" if found is numbers_report else "C"].shape == model["log_penalties"].shape
        b = found.dataset.b
        right = r2_score(b, scores) if found is numbers_report else np.mean(scores.argmax(axis=1) == b)
        assert right > wanted


def test_saved_model_and_fitted_model_mean_the_same_by_a_name(folder, report):
    with np.load(folder / "model.npz") as saved:
        fields = {field.name for field in dataclasses.fields(FittedModel)}
        common = fields & set(saved.files)
        assert {"coefficients", "scaled_coefficients", "intercept", "scaled_intercept", "log_penalties"} <= common
        for name in common:
            np.testing.assert_array_equal(saved[name], getattr(report.stages[-1].model, name))


def test_every_key_of_the_saved_model_is_documented(folder, numbers_report, repository):
    page = (repository / "docs" / "tune.rst").read_text(encoding="utf-8")
    table = page[page.index("**model.npz.**") :]
    with np.load(folder / "model.npz") as saved:
        keys = {*saved.files, *outputs.model_arrays(numbers_report)}
    assert [key for key in keys if f"``{key}``" not in table] == []


def test_history_has_the_rows_of_both_stages(folder, report):
    with open(folder / "history.csv", newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    histories = [stage.result.history for stage in report.stages]
    assert len(rows) == sum(len(history["iteration"]) for history in histories)
    assert list(rows[0]) == ["stage", *histories[0]]
    assert rows[-1]["stage"] == "per-feature"
    assert float(rows[-1]["value"]) == histories[1]["value"][-1]


@pytest.mark.parametrize("name", ["convergence.png", "penalties.png"])
def test_pictures_are_png(folder, name):
    assert (folder / name).read_bytes().startswith(b"\x89PNG")


def test_pictures_show_the_searches_and_all_penalties(report):
    convergence = pictures.convergence_figure(report)
    titles = [ax.get_title() for ax in convergence.axes[:2]]
    assert titles == [
        "one penalty for all features",
        "a penalty for each feature\n(plus the prior that keeps them together)",
    ]
    assert convergence.axes[0].get_ylabel() == "loss on held-out rows"
    assert convergence.axes[2].get_xlabel() == "steps of the search"
    (ax,) = pictures.penalties_figure(report).axes
    shown = {text.get_text() for text in ax.yaxis.get_ticklabels()}
    assert shown == set(report.dataset.feature_names)


def test_penalties_of_classes_and_features_have_both_names(classes_report):
    names = pictures.names_of_penalties(classes_report.stages[1], classes_report)
    assert len(names) == 39 and names[0] == "0 / alcohol" and names[38] == "2 / proline"
    free = dataclasses.replace(classes_report, settings=classes_report.settings | {"prior": None})
    assert pictures.convergence_figure(free).axes[1].get_title() == "a penalty for each coefficient"


def test_picture_of_one_shared_penalty(report):
    shared = dataclasses.replace(report, stages=report.stages[:1])
    (ax,) = pictures.penalties_figure(shared).axes
    assert [text.get_text() for text in ax.yaxis.get_ticklabels()] == ["all features"]
    assert ax.get_title().startswith(f"dashed: untuned penalty 0.0033, its log {-np.log(report.data.n_train):.4g}")
    assert ax.get_legend() is None
    assert "feature" not in ax.get_xlabel()


def test_picture_says_where_norms_are_missing(report):
    shared, feature = pictures.convergence_figure(report).axes[2:]
    assert shared.get_title() == "not drawn: iteration 0 (not known yet)"
    assert feature.get_title() == "not drawn: iteration 0 (not known yet)"


@pytest.mark.parametrize(
    ("norms", "words"),
    [
        ([0.1, 0.2, 0.3, 0.4, 0.5], ""),
        ([np.nan, 0.0, 0.0, 0.0, 0.0], ""),  # a linear axis, which shows zeros
        ([np.nan, 0.0, 0.0, 0.1, 0.0], "not drawn: iteration 0 (not known yet), iteration 1, 2, 4 (zero)"),
        ([0.0, 0.0, 0.0, 0.0, 0.1], "not drawn: iteration 0, 1, 2, ... (zero)"),
    ],
)
def test_missing_norms(norms, words):
    assert pictures._not_drawn({"iteration": np.arange(5), "hypergrad_norm": norms}) == words


def unmoved(stage):
    return dataclasses.replace(stage, result=type(stage.result)(stage.result | {"nit": 0}))


def test_without_iterations_there_are_no_pictures(report, tmp_path):
    still = dataclasses.replace(report, stages=tuple(map(unmoved, report.stages)))
    assert write(still, tmp_path / "out") == [
        "left out: convergence.png and penalties.png, since no iteration was done"
    ]
    assert names(tmp_path / "out") == ["history.csv", "model.npz", "report.html", "result.json"]
    assert "NaN" not in (tmp_path / "out" / "result.json").read_text(encoding="utf-8")


def test_stage_without_iterations_has_no_picture(report):
    shared, feature = report.stages
    partly = dataclasses.replace(report, stages=(shared, unmoved(feature)))
    assert len(pictures.convergence_figure(partly).axes) == 2
    (ax,) = pictures.penalties_figure(partly).axes
    assert [text.get_text() for text in ax.yaxis.get_ticklabels()] == ["all features"]


def test_without_matplotlib_pictures_are_left_out(report, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    (said,) = write(report, tmp_path / "out")
    assert 'pip install "nbo[plot]"' in said
    assert names(tmp_path / "out") == ["history.csv", "model.npz", "report.html", "result.json"]


def test_without_markdown_the_page_is_left_out(report, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "markdown", None)
    (said,) = write(report, tmp_path / "out")
    assert said == 'left out: report.html, since it needs markdown: pip install "nbo[report]"'
    assert names(tmp_path / "out") == [name for name in FILES if name != "report.html"]


def test_report_without_a_stage(report, tmp_path):
    bare = dataclasses.replace(report, stages=(), interrupted=True)
    (said,) = write(bare, tmp_path / "out")
    assert "no search was finished" in said
    assert names(tmp_path / "out") == ["result.json"]
    assert json.loads((tmp_path / "out" / "result.json").read_text())["interrupted"] is True


def test_numbers_that_are_not_finite_become_null():
    found = plain(
        {"a": [np.inf, np.float32(0.5), np.int64(3), np.bool_(True)], "b": (None, "text")}, lambda number: None
    )
    assert found == {"a": [None, 0.5, 3, True], "b": [None, "text"]}
    assert json.dumps(found, allow_nan=False)


# --- never over somebody's files ----------------------------------------------------------------------------


def test_existing_folder_needs_force(folder, report):
    before = (folder / "result.json").read_bytes()
    with pytest.raises(FolderError, match="exists; choose another folder with --out"):
        write(report, folder)
    assert (folder / "result.json").read_bytes() == before


def test_force_replaces_an_earlier_result_whole(report, tmp_path):
    target = tmp_path / "out"
    write(report, target)
    assert write(dataclasses.replace(report, stages=()), target, force=True) != []
    assert names(target) == ["result.json"]
    assert names(tmp_path) == ["out"]


def make_file(path):
    path.write_text("mine")


def make_link(path):
    path.symlink_to(path.parent.parent)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("notes\n.txt", make_file),
        ("plots", os.mkdir),
        (".hidden", make_file),
        ("model.npz", os.mkdir),
        ("model.npz", make_link),
    ],
)
def test_force_refuses_a_result_among_other_things(report, tmp_path, name, make):
    target = tmp_path / "out"
    write(dataclasses.replace(report, stages=()), target)
    make(target / name)
    with pytest.raises(FolderError, match=r"holds '.*', which nbo tune did not write") as caught:
        write(report, target, force=True)
    assert "\n" not in str(caught.value)
    assert name.split()[0] in str(caught.value)
    assert names(target) == sorted(["result.json", name])
    assert names(tmp_path) == ["out"]


def test_what_was_put_in_the_way_during_the_work_costs_no_results(report, tmp_path):
    target = tmp_path / "deep" / "out"
    with place_for(target) as place:
        target.mkdir()
        make_file(target / "theirs.txt")
        with pytest.raises(FolderError, match=r"exists; .*; the results are in ") as caught:
            place.write(lambda folder: outputs.write_files(report, folder))
    assert names(target) == ["theirs.txt"]
    kept = Path(str(caught.value).rpartition("the results are in ")[2])
    assert names(kept) == FILES


def test_force_accepts_an_empty_folder(report, tmp_path):
    (tmp_path / "out").mkdir()
    write(report, tmp_path / "out", force=True)
    assert names(tmp_path / "out") == FILES


@pytest.mark.parametrize("content", ["{}", "no json", '{"command": "something else"}', "[1]"])
def test_force_refuses_other_folders(tmp_path, content):
    (tmp_path / "result.json").write_text(content)
    with pytest.raises(FolderError, match="holds no earlier result of nbo tune"):
        enter(tmp_path, force=True)
    assert names(tmp_path) == ["result.json"]


def test_force_refuses_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FolderError, match="is the current folder"):
        enter(tmp_path, force=True)


@pytest.mark.parametrize("force", [False, True])
def test_a_file_is_refused(tmp_path, force):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(FolderError, match="exists and is no folder"):
        enter(tmp_path / "out", force)
    with pytest.raises(FolderError, match="below cannot be created: Not a directory"):
        enter(tmp_path / "out" / "below", force)
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("disk full")])
def test_nothing_half_written_stays(report, tmp_path, monkeypatch, error):
    def fail(*arguments):
        raise error

    monkeypatch.setattr(outputs, "_write_history", fail)
    with pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else FolderError):
        write(report, tmp_path / "deep" / "out")
    assert names(tmp_path) == []


def test_failed_exchange_restores_the_earlier_result(tmp_path, monkeypatch):
    old, fresh = tmp_path / "out", tmp_path / "new"
    for folder, text in ((old, "old"), (fresh, "new")):
        folder.mkdir()
        (folder / "text").write_text(text)
    rename = type(old).rename

    def fail_for_fresh(self, target):
        if self == fresh:
            raise OSError("no")
        return rename(self, target)

    monkeypatch.setattr(type(old), "rename", fail_for_fresh)
    with pytest.raises(OSError, match="no"):
        _exchange(fresh, old, tmp_path / "aside")
    assert (old / "text").read_text() == "old"


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_folder_that_cannot_be_created(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(FolderError, match="cannot be created: Permission denied"):
        enter(tmp_path / "out", force=False)


@pytest.mark.parametrize("place", ["n" * 300, "deep/" + "n" * 300, "n" * 250, "/proc/here"])
def test_a_place_that_cannot_be_is_found_on_entry(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    if len(place) == 250:  # fits, and the temporary name must not change that
        enter(Path(place), force=False)
    else:
        with pytest.raises(FolderError, match="cannot be created"):
            enter(Path(place), force=False)
    assert names(tmp_path) == []


def test_a_mount_point_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os.path, "ismount", lambda path: True)
    with pytest.raises(FolderError, match="is a mount point"):
        enter(tmp_path, force=True)


def test_place_left_without_results_leaves_nothing(tmp_path):
    with place_for(tmp_path / "a" / "b" / "out"):
        assert names(tmp_path / "a" / "b") != []
    assert names(tmp_path) == []


def test_ctrl_c_on_entry_leaves_nothing(tmp_path, monkeypatch):
    make = tempfile.mkdtemp

    def press_and_make(**where):
        signal.raise_signal(signal.SIGINT)
        return make(**where)

    monkeypatch.setattr(tempfile, "mkdtemp", press_and_make)
    with pytest.raises(KeyboardInterrupt):
        enter(tmp_path / "a" / "out", force=False)
    assert names(tmp_path) == []


# --- names of any kind ---------------------------------------------------------------------------------------

ODD = ("花", "a\nb", "$x", "cost $5 and $6", "\udcff", "\x1b[31m", "n" * 500, r"back\slash$")


def odd(report):
    names = ODD + report.dataset.feature_names[len(ODD) :]
    return dataclasses.replace(
        report, dataset=dataclasses.replace(report.dataset, name="\udcff $ 花", feature_names=names)
    )


def test_odd_names_stay_right_in_files_and_draw_no_warning(report, tmp_path):
    assert write(odd(report), tmp_path / "out") == []  # warnings are errors
    assert names(tmp_path / "out") == FILES
    with np.load(tmp_path / "out" / "model.npz", allow_pickle=False) as saved:
        assert tuple(saved["feature_names"][: len(ODD)]) == ODD
    found = json.loads((tmp_path / "out" / "result.json").read_text(encoding="utf-8"))
    assert found["data"]["name"] == "\udcff $ 花"


def test_columns_that_were_left_out_are_mapped(report, tmp_path):
    assert list(outputs.model_arrays(report)["columns"]) == list(range(30))
    columns = np.arange(30) * 7
    partly = dataclasses.replace(report, dataset=dataclasses.replace(report.dataset, columns=columns))
    np.testing.assert_array_equal(outputs.model_arrays(partly)["columns"], columns)
