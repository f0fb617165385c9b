"""Ways to learn from wrong labels: what they keep, how they are judged, and what is printed."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

from nbo.benchmarks import BENCHMARKS, label_cleaning
from nbo.benchmarks._label_filters import WAYS, Found, agreeing_rows, all_rows, right_rows, trusted_rows
from nbo.benchmarks.label_cleaning import HEADER, Case, Run, draw, judged, summary
from nbo.datasets import Dataset, load

CASE = Case("digits", 0.5, 2, 1)


@pytest.fixture
def fixed_ways(monkeypatch):
    """Two ways that need no search."""

    def constant(data, seed):
        return Found(DummyClassifier(strategy="prior").fit(data.A, data.b))

    def omniscient(data, seed):
        return Found(constant(data, seed).model, data.flipped, data.flipped.astype(float))

    ways = {"constant": constant, "omniscient": omniscient}
    monkeypatch.setattr(label_cleaning, "WAYS", ways)
    monkeypatch.setattr(label_cleaning, "CASES", (CASE,))
    return ways


def separated():
    """Two far classes, the labels of every fourth training row wrong, with as many trusted as training rows."""
    rng = np.random.default_rng(0)
    truth = np.tile([0, 1], 40)
    parts = [np.c_[8.0 * truth - 4.0, rng.standard_normal(80)] + 0.1 * rng.standard_normal((80, 2)) for _ in range(3)]
    flipped = np.arange(80) % 4 == 0
    given = np.where(flipped, 1 - truth, truth)
    return Dataset(
        parts[0], given, parts[1], truth, parts[2], truth, "separated", "", "", "multiclass", np.arange(2), flipped
    )


def test_judged_by_the_truth():
    flipped = np.array([True, True, False, False])
    precision, recall, auc = judged(Found(None, np.array([True, False, True, False]), np.array([3, 1, 2, 0])), flipped)
    assert (precision, recall, auc) == (0.5, 0.5, 0.75)
    assert np.isnan(judged(Found(None), flipped)).all()


def test_nobody_suspected_has_no_precision():
    flipped = np.array([True, False])
    assert judged(Found(None, np.zeros(2, dtype=bool), np.zeros(2)), flipped) == (0.0, 0.0, 0.5)


def test_the_filter_finds_labels_that_contradict_the_trusted_rows():
    data = separated()
    found = agreeing_rows(data, 0)
    np.testing.assert_array_equal(found.suspected, data.flipped)
    assert judged(found, data.flipped) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("way", [all_rows, trusted_rows, right_rows])
def test_ways_that_say_nothing_about_labels(way):
    found = way(separated(), 0)
    assert found.suspected is None
    assert found.model.predict(np.array([[-4.0, 0.0], [4.0, 0.0]])).tolist() == [0, 1]


def test_the_models_see_the_rows_that_are_kept(monkeypatch):
    from sklearn.linear_model import LogisticRegressionCV

    sizes = []

    def fit(self, X, y):
        ((train, held_out),) = self.cv
        sizes.append((len(y), len(train), len(held_out)))
        return DummyClassifier().fit(X, y)

    monkeypatch.setattr(LogisticRegressionCV, "fit", fit)
    for way in (all_rows, trusted_rows, right_rows):
        way(separated(), 0)
    assert sizes == [(160, 128, 32), (80, 48, 32), (140, 108, 32)]


def test_the_cleaner_sees_the_trusted_rows_and_its_weights_are_judged(monkeypatch):
    data, seen = separated(), {}

    class Cleaner:
        def __init__(self, *, random_state):
            seen["random_state"] = random_state

        def fit(self, X, y, *, X_trusted, y_trusted):
            seen.update(X=X, y=y, X_trusted=X_trusted, y_trusted=y_trusted)
            self.weights_ = np.where(data.flipped, 0.2, 0.9)

    monkeypatch.setitem(sys.modules, "nbo.sklearn", SimpleNamespace(LabelCleaner=Cleaner))
    found = WAYS["LabelCleaner"](data, 4)
    assert isinstance(found.model, Cleaner)
    assert judged(found, data.flipped) == (1.0, 1.0, 1.0)
    assert seen.pop("random_state") == 4
    expected = {"X": data.A, "y": data.b, "X_trusted": data.A_val, "y_trusted": data.b_val}
    assert all(seen[name] is rows for name, rows in expected.items())


def test_draws_differ_and_repeat():
    first, again, other = (draw(CASE, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.b, again.b)
    assert not np.array_equal(first.b, other.b)
    assert first.A.dtype == np.float32
    assert 0.4 < first.flipped.mean() < 0.5


def test_table_of_means_and_worst():
    nothing = (np.nan, np.nan, np.nan)
    runs = [Run("digits", 0.5, seed, "none", error, *nothing, 1.0, 0.0, seed) for seed, error in enumerate((0.1, 0.3))]
    runs.append(Run("digits", 0.5, 0, "some", 0.2, 0.5, 0.25, 1.0, 2.0, 0.0, 0))
    none, some = (dict(zip(HEADER, row, strict=True)) for row in summary(runs))
    assert (none["error"], none["worst"], none["precision"], none["unfinished"]) == ("0.2000", "0.3000", "-", "1")
    assert (some["precision"], some["recall"], some["AUC"], some["seconds"]) == ("0.500", "0.250", "1.000", "2")


def test_run_prints_and_writes(fixed_ways, tmp_path, capsys):
    label_cleaning.run(folder=tmp_path)
    shown = capsys.readouterr().out
    assert "\ndigits, 50% redrawn, 2 draws\n" in shown
    assert re.search(r"^  omniscient +0\.\d+ +0\.\d+ +1\.000 +1\.000 +1\.000 ", shown, re.MULTILINE)
    assert len((tmp_path / "runs.csv").read_text(encoding="utf-8").splitlines()) == 5
    assert (tmp_path / "summary.md").read_text(encoding="utf-8").startswith("## digits, 50% redrawn, 2 draws\n")


def test_interrupt_shows_what_is_ready(monkeypatch, fixed_ways, capsys):
    calls = []

    def interrupted(data, seed):
        calls.append(seed)
        if len(calls) == 3:  # after the run that warms up and the first draw
            raise KeyboardInterrupt
        return fixed_ways["constant"](data, seed)

    monkeypatch.setitem(fixed_ways, "interrupted", interrupted)
    with pytest.raises(KeyboardInterrupt):
        label_cleaning.run()
    shown = capsys.readouterr().out
    assert "2 draws\n" in shown
    assert re.search(r"^  interrupted ", shown, re.MULTILINE)


def test_missing_data_are_named(monkeypatch, fixed_ways, capsys):
    def missing(name, **options):
        if name == "absent":
            raise FileNotFoundError("no such set")
        return load(name, **options)

    monkeypatch.setattr(label_cleaning, "load", missing)
    monkeypatch.setattr(label_cleaning, "CASES", (CASE._replace(name="absent"), CASE))
    label_cleaning.run()
    shown = capsys.readouterr().out
    assert "\nabsent, 50% redrawn is left out: no such set\n" in shown
    assert "\ndigits, 50% redrawn, 2 draws\n" in shown


@pytest.mark.slow
def test_quick_run(capsys):
    BENCHMARKS["label-cleaning"](quick=True)
    shown = capsys.readouterr().out
    errors = {way: float(re.search(rf"^  {re.escape(way)} +(\S+)", shown, re.MULTILINE)[1]) for way in WAYS}
    assert errors["oracle: right rows"] < errors["all rows"]
