"""The verdict and the table."""

from __future__ import annotations

import numpy as np
import pytest

from nbo.tuning.models import FittedModel
from nbo.tuning.report import verdict

ROWS = np.random.default_rng(0).exponential(size=400)


def model(name, shift, noise=0.0):
    """A model whose test losses differ from ROWS by a shift and by noise."""
    losses = ROWS + shift + noise * np.random.default_rng(len(name)).normal(size=ROWS.size)
    return FittedModel(name, np.zeros(1), np.zeros(2), 0.0, 0.5, losses, 0.9, 1.0, None)


def test_clear_winner():
    said = verdict([model("untuned", 0.3), model("shared", 0.2), model("per-feature", 0.1)])
    best = ROWS.mean() + 0.1
    assert said.startswith(f"Best on the test rows: per-feature (test loss {best:.4g}, accuracy 90.00%)")
    assert f"per-feature beats shared ({best:.4g} against {ROWS.mean() + 0.2:#.4g}; -0.1, standard error" in said
    assert "\n" not in said


def test_per_feature_that_is_worse_is_said_plainly():
    said = verdict([model("LogisticRegressionCV", 0.05), model("shared", 0.1), model("per-feature", 0.3)])
    assert said.startswith("Best on the test rows: LogisticRegressionCV")
    assert "per-feature does not beat shared" in said
    assert "shared does not beat LogisticRegressionCV" in said


def test_difference_below_its_standard_error_is_not_clear():
    said = verdict([model("LogisticRegressionCV", 0.0), model("shared", 0.0, 0.5), model("untuned", 1.0)])
    assert said.startswith("No clear winner: ")
    assert "no clear lead over " in said
    assert "shared shows no clear difference from LogisticRegressionCV" in said
    assert "untuned" not in said


@pytest.mark.parametrize(
    ("names", "words"), [("ab", "over b."), ("abc", "over b and c."), ("abcd", "over b, c and d.")]
)
def test_equal_models_are_listed(names, words):
    assert verdict([model(name, 0.0) for name in names]).endswith(f"no clear lead {words}")


def test_one_test_row_decides_nothing():
    first, second = (
        FittedModel(name, np.zeros(1), np.zeros(1), 0.0, 1.0, np.array([loss]), 1.0, 1.0, None)
        for name, loss in (("untuned", 1.0), ("shared", 2.0))
    )
    assert verdict([first, second]).startswith("No clear winner")


def test_interruption_comes_first():
    assert verdict([model("untuned", 0.0)], interrupted=True).startswith("Interrupted; so far: Best")


def test_table_has_a_row_per_model(report):
    lines = report.table().splitlines()
    assert lines[0].split()[0] == "model"
    for line, found in zip(lines[2:], report.models, strict=False):
        assert line.startswith(found.name)
        assert f"{found.test_loss:#.4g}" in line
        assert f"{found.accuracy:.2%}" in line
        if found.counts is not None:
            assert line.rstrip().endswith(f"{found.counts.lower_jvp:,}")
    assert len({len(line) for line in lines[:6]}) == 1
    assert lines[6].startswith("341 training, 114 validation and 114 test rows")
    assert "include the shared stage" in lines[8]
