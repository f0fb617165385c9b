"""The full-batch benchmark runs, and its table says what it measured."""

from __future__ import annotations

import numpy as np
import pytest

import nbo
from nbo.benchmarks import BENCHMARKS, full_batch
from nbo.benchmarks.full_batch import QUICK, Case
from nbo.benchmarks.timing import Comparison, one_blas_thread, side_by_side


@pytest.mark.slow
def test_quick_run_prints_three_lines_a_case(capsys):
    BENCHMARKS["full-batch"](quick=True)
    shown = capsys.readouterr().out
    assert "bounds hold for the full sizes only" in shown
    lines = shown.splitlines()
    starts = [lines.index(str(case)) for case in QUICK]
    assert len(lines) == starts[0] + 4 * len(QUICK) + 2
    assert lines[-2] == "2000 x 54 dense, 7 classes"
    assert lines[-1].startswith("  H [v w] ") and lines[-1].endswith("times faster than two products each")
    for start in starts:
        own = lines[start + 1 : start + 4]
        assert [line[:26].strip() for line in own] == ["H [v w]", "NBO-GD passes, T = 1", "NBO-GD iteration, T = 1"]
        words = ["times faster than two products each", *["times the cost of one A y"] * 2]
        for line, end in zip(own, words, strict=True):
            ms, reference, ratio = (float(number) for number in line[26:].split()[:3])
            assert min(ms, reference, ratio) > 0
            assert line.endswith(end)


def test_full_sizes_have_no_word_on_small_ones(capsys, monkeypatch):
    monkeypatch.setattr(full_batch, "FULL", (Case((200, 5), 0, 2, speedup=1e-9, cost=1e-9),))
    monkeypatch.setattr(full_batch, "SOFTMAX", (200, 5, 3))
    BENCHMARKS["full-batch"](quick=False)
    shown = capsys.readouterr().out
    assert "Small shapes" not in shown
    assert shown.count("(at least 0.0 wanted: met)") == 1
    assert shown.count("(at least 2.0 wanted: ") == 1
    assert shown.count("(at most 0.0 wanted: not met)") == 2


@pytest.mark.parametrize(
    ("reference", "ours", "is_cost", "bound", "end"),
    [
        (6.0, 2.0, False, 2.5, "3.00 times faster than that (at least 2.5 wanted: met)"),
        (6.0, 3.0, False, 2.5, "2.00 times faster than that (at least 2.5 wanted: not met)"),
        (2.0, 5.0, True, 2.8, "2.50 times the cost of that (at most 2.8 wanted: met)"),
        (2.0, 6.0, True, 2.8, "3.00 times the cost of that (at most 2.8 wanted: not met)"),
        (2.0, 6.0, True, None, "3.00 times the cost of that"),
    ],
)
def test_a_line_says_in_words_what_the_ratio_is(reference, ours, is_cost, bound, end):
    line = Comparison("what", "that", reference, ours, is_cost, bound).line()
    assert line.startswith("  what ")
    assert line.endswith(end)


def test_a_product_follows_every_iteration(monkeypatch):
    order = []

    class Rows(np.ndarray):
        def __matmul__(self, other):
            order.append("product")
            return np.asarray(self) @ other

    minimize = nbo.minimize

    def spy(problem, x0, *, callback, **options):
        def counting(x):
            order.append("iteration")
            callback(x)

        return minimize(problem, x0, callback=counting, **options)

    monkeypatch.setattr(nbo, "minimize", spy)
    A = np.random.default_rng(0).standard_normal((40, 3))
    times = full_batch.product_and_iteration_ms(A.view(Rows), np.resize([-1.0, 1.0], 40), np.ones(3), 5)
    assert order[-12:] == ["iteration", "product"] * 6
    assert min(times) > 0


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
