"""Choices, curves, times to targets and ratios, from outcomes whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest
from experiment_cases import PAIRS, make_case, outcome, result_of
from hypothesis import given
from hypothesis import strategies as st

from nbo.experiments import _results
from nbo.experiments._results import _median_ratio, chosen, search, spread
from nbo.experiments.problems import Synthetic

TIMES = st.lists(st.one_of(st.floats(0.01, 100), st.just(np.inf)), min_size=2, max_size=8)


def searched(case, *found):
    """What the search of a case's first method leads to, if its runs have these outcomes."""
    entry = case.entries[0]
    tasks = search(case, entry, "full")
    assert len(tasks) == len(found)
    return chosen(case, entry, "full", {task.key: f for task, f in zip(tasks, found, strict=True)})


def test_the_pair_that_ends_lowest_is_chosen():
    case = make_case(PAIRS)
    steps, diverged = searched(case, outcome([1, 0.1, 0.5, 0.5, 0.5]), outcome([1, 0.4, 0.4, 0.4, 0.4]))
    assert steps == PAIRS.pairs[1] and diverged == 0


def test_a_pair_that_diverged_is_not_chosen_however_low_it_was():
    case = make_case(PAIRS)
    steps, diverged = searched(case, outcome([1, 1e-9, 1e-9, 1e-9], status="diverged"), outcome([1, 0.9, 0.9]))
    assert steps == PAIRS.pairs[1] and diverged == 1


def test_no_pair_is_chosen_if_all_diverged_or_ended_at_nothing():
    case = make_case(PAIRS)
    assert searched(case, *[outcome([1, 2], status="diverged")] * 2) == (None, 2)
    assert searched(case, outcome([1, np.nan]), outcome([1, np.inf])) == (None, 0)
    assert _results.repeated(case, case.entries[0], "full", None, 5) == []


def test_test_rows_decide_on_nothing():
    case = make_case(PAIRS, metric="test error")
    low_error, low_value = outcome([0.5, 0.0], value=[1, 0.9]), outcome([0.5, 0.4], value=[1, 0.1])
    assert searched(case, low_error, low_value)[0] == PAIRS.pairs[1]


def test_a_single_pair_needs_no_search():
    toy_case = make_case()
    assert search(toy_case, toy_case.entries[0], "full") == []
    assert chosen(toy_case, toy_case.entries[0], "full", {}) == (toy_case.full.grid.pairs[0], 0)


def test_targets_are_parts_of_the_way_to_the_floor():
    runs = {"BAMM": [outcome([0.9, 0.3]), outcome([0.9, 0.2])], "BAMM+NBO": [outcome([0.9, 0.1])] * 2}
    result = result_of(make_case(metric="test error"), runs, 2)
    assert result.floor == pytest.approx(0.1)
    np.testing.assert_allclose(result.targets, [0.1 + part * 0.8 for part in (0.5, 0.2, 0.1)])
    distances = result_of(make_case(), {label: [outcome([4.0, 1.0])] * 2 for label in ("BAMM", "BAMM+NBO")}, 2)
    assert distances.floor == 0 and distances.start == 1
    np.testing.assert_allclose(distances.targets, [0.5, 0.2, 0.1])


def test_arrivals_lie_between_looks():
    runs = {"BAMM": [outcome([1, 0.8, 0.2, 0.7])], "BAMM+NBO": [outcome([1, 0.9, 0.8, 0.6])]}
    result = result_of(make_case(), runs, 1)
    assert result.arrivals("BAMM", 0.4, "iteration") == pytest.approx([1.5])  # on a logarithmic scale
    assert result.arrivals("BAMM", 0.4, "seconds") == pytest.approx([0.15])
    assert result.arrivals("BAMM", 0.4, "samples") == pytest.approx([15])
    assert result.arrivals("BAMM", 0.2, "iteration") == pytest.approx([2])
    assert result.arrivals("BAMM", 1.0, "iteration") == [0]
    assert result.arrivals("BAMM+NBO", 0.5, "seconds") == [np.inf]


def test_gaps_count_from_the_lowest_value_known():
    case = make_case(metric="relative gap", problem=Synthetic(p=3), labels=("AmIGO (Q=1)", "NBO-GD (T=1)"))
    runs = {"AmIGO (Q=1)": [outcome([4.0, 1.0]), outcome([4.0, -2.0])], "NBO-GD (T=1)": [outcome([4.0, 2.0])] * 2}
    result = result_of(case, runs, 2)
    assert result.stars == [0.0, -2.0] and result.below == 2.0
    assert [trace.metric[-1] for trace in result.series["NBO-GD (T=1)"].traces] == pytest.approx([0.5, 4 / 6])


def test_curves_are_medians_with_bands():
    rows = [[1.0, 0.5, 0.25], [1.0, 0.4, 0.2], [1.0, 0.1, 0.05]]
    runs = {"BAMM": [outcome(row) for row in rows], "BAMM+NBO": [outcome([1, 1, 1])] * 3}
    curve = result_of(make_case(), runs, 3).curve("BAMM", "iteration")
    assert curve.x[0] == 0 and curve.x[-1] == 2
    np.testing.assert_allclose([curve.low[-1], curve.median[-1], curve.high[-1]], [0.05, 0.2, 0.25])
    assert np.all(curve.low <= curve.median) and np.all(curve.median <= curve.high)
    middle = np.argmin(abs(curve.x - 1.5))
    assert curve.median[middle] == pytest.approx(np.sqrt(0.4 * 0.2), rel=0.02)  # straight on a logarithmic axis


def test_a_repeat_that_diverges_counts_as_infinite_from_then_on():
    runs = {
        "BAMM": [outcome([1, 0.5], status="diverged"), outcome([1, 0.5, 0.4]), outcome([1, 0.5, 0.3])],
        "BAMM+NBO": [outcome([1, 1, 1])] * 3,
    }
    result = result_of(make_case(), runs, 3)
    assert result.final("BAMM").tolist() == [np.inf, 0.4, 0.3]
    curve = result.curve("BAMM", "iteration")
    assert curve.x[-1] == 2 and curve.high[-1] == np.inf and curve.median[-1] == pytest.approx(0.4)


def test_the_own_floor_is_the_lowest_value_of_all_methods():
    runs = {"BAMM": [outcome([1, 0.6, 0.5])], "BAMM+NBO": [outcome([1, 0.3, 0.2])]}
    result = result_of(make_case(), runs, 1)
    assert result.curve("BAMM", "iteration", own_floor=True).median[-1] == pytest.approx(0.3 / 0.8)
    assert result.curve("BAMM+NBO", "iteration", own_floor=True).median[-1] == pytest.approx(0.0)


def test_ratios_are_paired_and_tell_who_won():
    slow, fast = outcome([1, 0.9, 0.8, 0.7, 0.4]), outcome([1, 0.9, 0.4])
    result = result_of(make_case(), {"BAMM": [slow, slow, fast], "BAMM+NBO": [fast, fast, slow]}, 3)
    ratio = result.ratio("BAMM+NBO", "BAMM", 0.4, "iteration")
    assert (ratio.ratio, ratio.wins, ratio.losses, ratio.repeats) == (0.5, 2, 1, 3)
    assert ratio.low == 0.5 and ratio.high == 2.0


def test_a_method_that_never_arrives_loses():
    found = _median_ratio(np.array([1.0, 2.0, np.inf]), np.array([np.inf, np.inf, np.inf]))
    assert found == (0.0, 0.0, 0.0)
    assert _median_ratio(np.array([np.inf] * 3), np.array([1.0, 2.0, 3.0]))[0] == np.inf
    assert all(np.isnan(_median_ratio(np.array([np.inf]), np.array([np.inf]))))


@given(TIMES, st.integers(0, 3))
def test_the_ratio_of_a_method_to_itself_is_one(times, seed):
    a = np.array(times)
    ratio, low, high = _median_ratio(a, a)
    assert np.isnan(ratio) if not np.isfinite(a).any() else ratio == 1
    if np.isfinite(a).sum() > 1:
        assert low == high == 1


@given(st.lists(st.tuples(st.floats(0.01, 100), st.floats(0.01, 100)), min_size=3, max_size=9))
def test_intervals_contain_the_median_of_an_odd_sample(pairs):
    a, b = np.array(pairs[: len(pairs) // 2 * 2 + 1 if len(pairs) % 2 else len(pairs) - 1]).T
    ratio, low, high = _median_ratio(a, b)
    assert low <= ratio <= high
    assert _median_ratio(b, a)[0] == pytest.approx(1 / ratio)


@given(TIMES)
def test_bands_are_values_of_the_sample(times):
    low, median, high = spread(times)
    assert {low, median, high} <= set(times) and low <= median <= high


def test_runs_that_stop_at_once_are_no_results():
    failed = outcome([1.0], status="diverged")
    result = result_of(make_case(), {"BAMM": [failed] * 2, "BAMM+NBO": [outcome([1, 0.01])] * 2}, 2)
    assert result.final("BAMM").tolist() == [np.inf, np.inf]
    assert result.arrivals("BAMM", 0.5, "seconds").tolist() == [np.inf, np.inf]
    ratio = result.ratio("BAMM+NBO", "BAMM", 0.5, "seconds")
    assert ratio.ratio == 0 and ratio.wins == 2
    curve = result.curve("BAMM", "iteration")
    assert curve.x.tolist() == [0] and curve.median.tolist() == [1]


def test_a_curve_of_runs_that_all_diverged_goes_on_to_the_last_end():
    runs = [outcome([1, 0.5, 0.4], status="diverged"), outcome([1, 0.5], status="diverged")]
    curve = result_of(make_case(), {"BAMM": runs, "BAMM+NBO": runs}, 2).curve("BAMM", "iteration")
    assert curve.x[-1] == 2 and curve.median[-1] == pytest.approx(0.4) and curve.high[-1] == np.inf
