import copy

import numpy as np
import pytest

import nbo
from nbo.history import COLUMNS, HistoryRecorder


def recorded(rows):
    recorder = HistoryRecorder()
    for i in range(rows):
        recorder.add(
            i, 0.1 * i, float(-i), (1.0, 2.0, 3.0), nbo.OracleCounts(lower_hvp=3 * i), nbo.OracleCounts(lower_hvp=9 * i)
        )
    return recorder.finish()


def test_a_short_history_keeps_every_row():
    history = recorded(10_000)
    np.testing.assert_array_equal(history.iteration, np.arange(10_000))


@pytest.mark.parametrize("rows", [10_001, 20_002, 45_000])
def test_a_long_history_doubles_its_stride(rows):
    history = recorded(rows)
    strides = np.unique(np.diff(history.iteration))
    assert len(history.iteration) <= 10_000 + 1 and strides.size == 1 and history.iteration[0] == 0
    np.testing.assert_array_equal(history.lower_hvp, 3 * history.iteration)
    np.testing.assert_array_equal(history.samples_lower_hvp, 9 * history.iteration)


def test_columns_and_types():
    history = recorded(3)
    assert tuple(history) == COLUMNS and len(history) == len(COLUMNS)
    assert history.iteration.dtype == history.lower_hvp.dtype == np.int64 and history.value.dtype == np.float64
    assert "iteration" in dir(history) and "3 rows" in repr(history)
    np.testing.assert_array_equal(copy.deepcopy(history).value, history.value)
    empty = HistoryRecorder().finish()
    assert all(empty[name].size == 0 for name in COLUMNS)


def test_statuses_are_texts():
    assert {str(s) for s in nbo.Status} == {
        "converged", "iteration_limit", "time_limit", "stopped", "stalled", "diverged", "interrupted",
    }  # fmt: skip


def test_a_result_prints_shortly():
    problem = nbo.problems.Quadratic.family(3, 200, 2)
    result = nbo.minimize(problem, np.zeros(200), max_iter=3)
    text = repr(result)
    assert "iteration_limit" in text and "lower_hvp=" in text and len(text) < 1500
