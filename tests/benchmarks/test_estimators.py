"""The comparison of estimators runs, prints what there is, and writes it on demand."""

from __future__ import annotations

import csv
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from nbo.benchmarks import BENCHMARKS, estimators
from nbo.benchmarks._estimator_models import BASELINES, CLASS, FEATURE, FOLDS, SHARED, SPLIT, Model, models
from nbo.benchmarks._fits import Fit
from nbo.benchmarks._real_sets import RealSet, real_rows

SMALL = RealSet("breast_cancer", 2, 1)
DIGITS = RealSet("digits", 1, 1, has_grid=False)


def logistic(C):
    return lambda rows: LogisticRegression(C=C).fit(rows.X_all, rows.y_all)


@pytest.fixture
def two_models(monkeypatch):
    """A comparison of two fixed models on one small set."""
    found = [Model(BASELINES[0], FOLDS, logistic(1.0)), Model(SHARED, FOLDS, logistic(0.1))]
    monkeypatch.setattr(estimators, "models", lambda chosen, task: found)
    monkeypatch.setattr(estimators, "SETS", (SMALL,))
    return found


class Recorder:
    """Stands for an estimator, and keeps what it was made and fitted with."""

    def __init__(self, kind, penalty, **options):
        self.kind, self.penalty, self.options = kind, penalty, options

    def fit(self, X, y, **rows):
        self.X, self.rows = X, rows
        return self


@pytest.fixture
def recorders(monkeypatch):
    """Estimators that record their arguments."""
    made = {
        name: (lambda penalty, name=name, **options: Recorder(name, penalty, **options))
        for name in ("BilevelLogisticRegression", "BilevelRidge")
    }
    monkeypatch.setitem(sys.modules, "nbo.sklearn", SimpleNamespace(**made))


def test_tables_and_targets_of_two_models(two_models, capsys):
    estimators.run()
    shown = capsys.readouterr().out
    assert "\nbreast_cancer, 2 splits\n" in shown
    lines = re.findall(r"^  (LogisticRegressionCV|nbo shared) .*$", shown, re.MULTILINE)
    assert lines == [BASELINES[0], SHARED]
    assert re.search(rf"^  breast_cancer, {FOLDS}: loss / baseline, mean .* (met|not met)$", shown, re.MULTILINE)
    assert re.search(rf"^  breast_cancer, {SPLIT}: time / baseline .* not measured$", shown, re.MULTILINE)


def test_all_fits_are_written_on_demand(two_models, tmp_path, capsys):
    estimators.run(folder=tmp_path / "new" / "folder")
    written = tmp_path / "new" / "folder"
    with open(written / "fits.csv", newline="", encoding="utf-8") as stream:
        header, *rows = csv.reader(stream)
    assert tuple(header) == Fit._fields
    assert [(row[1], row[3]) for row in rows] == [(s, m.name) for s in ("0", "1") for m in two_models]
    summary = (written / "summary.md").read_text(encoding="utf-8")
    assert re.findall("^## .*$", summary, re.MULTILINE) == ["## breast_cancer, 2 splits", "## Targets"]


def test_interrupt_shows_what_is_ready(monkeypatch, two_models, tmp_path, capsys):
    def interrupted(rows):
        if not np.array_equal(rows.y_all, real_rows(SMALL, 0).y_all):
            raise KeyboardInterrupt
        return logistic(0.1)(rows)

    two_models[1] = Model(SHARED, FOLDS, interrupted)
    with pytest.raises(KeyboardInterrupt):
        estimators.run(folder=tmp_path)
    shown = capsys.readouterr().out
    assert "\nbreast_cancer, 2 splits\n" in shown  # the baseline on both
    assert "\nTargets\n" in shown
    assert len((tmp_path / "fits.csv").read_text(encoding="utf-8").splitlines()) == 4


def test_missing_data_and_failing_models_are_named(monkeypatch, two_models, capsys):
    def missing(chosen, seed, at_most=None):
        if chosen.name == "absent":
            raise FileNotFoundError("no such set")
        return real_rows(chosen, seed, at_most)

    def broken(rows):
        raise ValueError("no such penalty")

    monkeypatch.setattr(estimators, "real_rows", missing)
    monkeypatch.setattr(estimators, "SETS", (RealSet("absent", 1, 1), SMALL))
    two_models[1] = Model("broken", FOLDS, broken)
    estimators.run()
    shown = capsys.readouterr().out
    assert "\nabsent is left out: no such set\n" in shown
    assert f"\nbreast_cancer, split 1: broken by {FOLDS} is left out: ValueError: no such penalty\n" in shown
    assert "\nabsent, " not in shown


def test_a_package_that_is_not_installed_is_named(monkeypatch, two_models, capsys):
    monkeypatch.setattr(estimators, "sparho_is_installed", lambda: False)
    estimators.run()
    assert "\nsparho is left out: it is not installed\n" in capsys.readouterr().out


@pytest.mark.parametrize("is_small", [True, False])
def test_models_are_fitted_once_before_their_time_is_taken(monkeypatch, two_models, is_small):
    sizes = {model.name: [] for model in two_models}

    def noting(model):
        def fit(rows):
            sizes[model.name].append(len(rows.y_all))
            return model.fit(rows)

        return model._replace(fit=fit)

    two_models[:] = [noting(model) for model in two_models]
    monkeypatch.setattr(estimators, "WARM_ROWS", 100)
    monkeypatch.setattr(estimators, "SETS", (SMALL._replace(is_small=is_small),))
    estimators.run()
    assert sizes == {BASELINES[0]: [80, 455, 455] if is_small else [455, 455], SHARED: [80, 455, 455]}


@pytest.mark.parametrize(
    ("chosen", "task", "names"),
    [
        (SMALL, "binary", [BASELINES[0], "GridSearchCV", SHARED, FEATURE]),
        (SMALL, "regression", [BASELINES[1], "GridSearchCV", SHARED, FEATURE]),
        (DIGITS, "multiclass", [BASELINES[0], SHARED, FEATURE, CLASS]),
    ],
)
def test_who_takes_part(chosen, task, names):
    found = models(chosen, task)
    assert [model.name for model in found if model.criterion == FOLDS] == names
    assert [model.name for model in found if model.criterion == SPLIT and model.name != "sparho L1"] == names


def test_the_estimators_see_the_same_rows_and_folds(recorders):
    rows = real_rows(SMALL, 0)
    for model in models(SMALL, "binary"):
        if model.name.startswith("nbo "):
            made = model.fit(rows)
            assert made.kind == "BilevelLogisticRegression"
            assert made.penalty == model.name.removeprefix("nbo ")
            assert made.X is (rows.X if model.criterion == SPLIT else rows.X_all)
            if model.criterion == SPLIT:
                assert made.rows["X_val"] is rows.X_val
                assert made.rows["y_val"] is rows.y_val
                assert made.options == {}
            else:
                assert made.options == {"cv": rows.folds}
                assert made.rows == {}


def test_regressions_take_the_ridge(recorders):
    rows = real_rows(SMALL, 0)._replace(task="regression")
    (model,) = [m for m in models(SMALL, "regression") if (m.name, m.criterion) == (SHARED, FOLDS)]
    assert model.fit(rows).kind == "BilevelRidge"


def test_baselines_choose_by_the_loss_of_the_held_out_rows():
    rows = real_rows(SMALL, 0)._replace(task="regression")
    (search,) = [m for m in models(SMALL, "regression") if (m.name, m.criterion) == (BASELINES[1], SPLIT)]
    chosen = search.fit(rows).alpha_
    losses = {
        alpha: np.mean((Ridge(alpha).fit(rows.X, rows.y).predict(rows.X_val) - rows.y_val) ** 2)
        for alpha in np.logspace(-4, 4, 10)
    }
    assert chosen == pytest.approx(min(losses, key=losses.get))


@pytest.mark.slow
def test_quick_run(capsys, tmp_path, data_mirror, monkeypatch):
    monkeypatch.setenv("NBO_DATA", str(tmp_path))
    BENCHMARKS["estimators"](quick=True)
    shown = capsys.readouterr().out
    assert "left out" not in shown.replace("sparho is left out: it is not installed", "")
    for name, baseline in zip(("breast_cancer", "housing"), BASELINES, strict=True):
        table = shown.split(f"\n{name}, 2 splits\n")[1].split("\n\n")[0]
        for model in (baseline, "GridSearchCV", SHARED, FEATURE):
            assert len(re.findall(rf"^  {model} ", table, re.MULTILINE)) == 2
    assert "not measured" not in shown
