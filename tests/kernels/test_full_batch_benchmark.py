"""The full-batch benchmark runs, and its table says what it measured."""

from __future__ import annotations

import pytest

from nbo.benchmarks import BENCHMARKS
from nbo.benchmarks.full_batch import QUICK
from nbo.benchmarks.timing import Comparison, one_blas_thread, side_by_side


@pytest.mark.slow
def test_quick_run_prints_three_lines_a_case(capsys):
    BENCHMARKS["full-batch"](quick=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + 3 * len(QUICK)
    for case in QUICK:
        own = [line for line in lines if str(case) in line]
        assert [line.split(str(case))[0].split(",")[0].split("/")[0].strip() for line in own] == [
            "H [v w]",
            "NBO-GD passes",
            "NBO-GD iteration",
        ]
        for line in own:
            reference, ours, _ = (float(number) for number in line.split(str(case))[1].split())
            assert reference > 0
            assert ours > 0


@pytest.mark.parametrize(
    ("reference", "ours", "is_cost", "bound", "end"),
    [
        (6.0, 2.0, False, 2.5, "3.00   >= 2.5   yes"),
        (6.0, 3.0, False, 2.5, "2.00   >= 2.5   no"),
        (2.0, 5.0, True, 2.8, "2.50   <= 2.8   yes"),
        (2.0, 6.0, True, 2.8, "3.00   <= 2.8   no"),
        (2.0, 6.0, True, None, "3.00"),
    ],
)
def test_a_line_says_whether_the_bound_is_met(reference, ours, is_cost, bound, end):
    line = Comparison("what", "case", reference, ours, is_cost, bound).line()
    assert line.startswith("what")
    assert line.endswith(end)


def test_candidates_run_in_turn():
    order = []
    times = side_by_side({name: lambda name=name: order.append(name) for name in "ab"}, rounds=3)
    assert order == list("ab" * 4)
    assert set(times) == {"a", "b"}
    assert min(times.values()) >= 0


def test_blas_is_held_to_one_thread():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    with one_blas_thread():
        assert {pool["num_threads"] for pool in threadpoolctl.threadpool_info()} == {1}
