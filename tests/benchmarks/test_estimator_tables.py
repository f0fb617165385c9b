"""Ratios are paired by split, and verdicts follow the bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbo.benchmarks._estimator_models import BASELINES, CLASS, FEATURE, FOLDS, SHARED, SPLIT
from nbo.benchmarks._estimator_tables import HEADER, Target, ratios, summary, targets
from nbo.benchmarks._fits import Fit
from nbo.benchmarks._real_sets import RealSet

BASE = BASELINES[0]
SMALL, LARGE = RealSet("breast_cancer", 2, 1), RealSet("a9a", 1, 1, is_small=False)


def fit(model, loss, *, seed=0, data="breast_cancer", criterion=FOLDS, seconds=1.0, unfinished=0):
    return Fit(data, seed, criterion, model, loss, 0.5, seconds, 0.0, unfinished)


def verdict_of(found, what, sets=(SMALL,)):
    (target,) = [target for target in targets(found, sets) if target.what == what]
    return target.row()[-1]


def test_ratios_are_those_of_the_same_split():
    found = [fit(BASE, 1.0), fit(BASE, 2.0, seed=1), fit(SHARED, 3.0, seed=1), fit(SHARED, 0.5)]
    assert ratios(found, FOLDS, SHARED, BASELINES) == [1.5, 0.5]
    assert ratios(found, SPLIT, SHARED, BASELINES) == []
    assert ratios(found[1:], FOLDS, SHARED, BASELINES) == [1.5]


def test_rows_of_the_table():
    found = [
        fit(BASE, 1.0, seconds=2.0),
        fit(SHARED, 1.5, seconds=1.0, unfinished=3),
        fit(BASE, 1.0, seed=1, seconds=4.0),
        fit(SHARED, 0.5, seed=1, seconds=1.0, unfinished=1),
        fit(SHARED, 7.0, criterion=SPLIT),
    ]
    rows = [dict(zip(HEADER, row, strict=True)) for row in summary(found)]
    assert [(row["model"], row["chosen by"]) for row in rows] == [(BASE, FOLDS), (SHARED, FOLDS), (SHARED, SPLIT)]
    assert rows[0]["ratio"] == rows[0]["worst"] == "1.0000"
    mine = rows[1]
    assert (mine["ratio"], mine["worst"], mine["time ratio"], mine["unfinished"]) == ("1.0000", "1.5000", "0.375", "4")
    assert rows[2]["ratio"] == rows[2]["worst"] == rows[2]["time ratio"] == "-"  # no baseline by a split


@given(st.floats(0.01, 100), st.floats(0.01, 100))
def test_a_bound_is_met_up_to_equality(found, bound):
    assert Target("", found, bound).row()[-1] == ("met" if found <= bound else "not met")
    assert Target("", bound, bound).row()[-1] == "met"


@pytest.mark.parametrize(("seconds", "word"), [(0.1, "met"), (0.11, "not met")])
def test_times_of_the_default(seconds, word):
    found = [fit(BASE, 1.0), fit(SHARED, 1.0, seconds=seconds)]
    assert verdict_of(found, f"breast_cancer, {FOLDS}: time / baseline") == word
    assert verdict_of(found, f"breast_cancer, {SPLIT}: time / baseline") == "not measured"


@pytest.mark.parametrize(
    ("losses", "mean", "worst"),
    [((0.9, 1.05), "met", "met"), ((0.9, 1.06), "met", "not met"), ((1.0, 1.05), "not met", "met")],
)
def test_losses_on_small_sets(losses, mean, worst):
    found = [fit(BASE, 1.0, seed=k) for k in range(2)] + [fit(SHARED, loss, seed=k) for k, loss in enumerate(losses)]
    assert verdict_of(found, f"breast_cancer, {FOLDS}: loss / baseline, mean") == mean
    assert verdict_of(found, f"breast_cancer, {FOLDS}: loss / baseline, worst") == worst


def test_large_sets_may_lose_a_thousandth():
    for loss, word in ((1.001, "met"), (1.002, "not met")):
        found = [fit(BASE, 1.0, data="a9a"), fit(SHARED, loss, data="a9a")]
        assert verdict_of(found, f"a9a, {FOLDS}: loss / baseline, mean", (LARGE,)) == word
    assert not [t for t in targets(found, (LARGE,)) if t.what == f"a9a, {FOLDS}: loss / baseline, worst"]


def test_finer_penalties_count_every_set_once_and_refer_to_the_shared_one():
    shared = [fit(SHARED, 2.0, seed=k, criterion=SPLIT) for k in range(3)]
    finer = [fit(FEATURE, 2.2, seed=k, criterion=SPLIT) for k in range(3)]
    other = [fit(model, loss, data="a9a", criterion=SPLIT) for model, loss in ((SHARED, 1.0), (FEATURE, 0.9))]
    found = {t.what: t for t in targets([*shared, *finer, *other], (SMALL, LARGE))}
    what = f"all sets, {SPLIT}: loss of {FEATURE} / shared"
    assert found[f"{what}, mean"].found == pytest.approx(1.0)
    assert found[f"{what}, worst"].found == pytest.approx(1.1)
    assert not any(CLASS in name for name in found)
