"""The progress bar."""

from __future__ import annotations

import io
import re
import sys

import numpy as np
import pytest

import nbo
from nbo._clock import compilation
from nbo.progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def run(stream, total=10):
    with ProgressBar(total, stream) as bar:
        for stage in ("shared", "per-feature"):
            for iteration in range(total + 1):
                bar(stage, iteration, 1 / (1 + iteration))
    return stream.getvalue()


def test_every_stage_has_its_bar():
    shown = run(Terminal())
    assert re.search(r"shared     : \|[█#]+\| 10 of at most 10 iterations, value 0.0909091", shown)
    assert re.search(r"per-feature: \|[█#]+\| 10 of at most 10 iterations, value 0.0909091", shown)


def test_bar_of_a_stage_that_converges_ends_full():
    stream = Terminal()
    with ProgressBar(100, stream) as bar:
        bar("shared", 7, 0.5)
        bar("per-feature", 9, 0.25)
        bar.finish()
    last = {line.split(":")[0].strip(): line for line in re.split("[\r\n]+", stream.getvalue()) if line.strip()}
    assert re.search(r"\|[█#]+\| 7 iterations, value 0.5", last["shared"])
    assert re.search(r"\|[█#]+\| 9 iterations, value 0.25", last["per-feature"])


def test_bar_of_an_interrupted_stage_stays_where_it_is():
    stream = Terminal()
    with ProgressBar(100, stream) as bar:
        bar("shared", 7, 0.5)
    assert stream.getvalue().rstrip().endswith("7 of at most 100 iterations, value 0.5")


def test_few_lines_where_there_is_no_terminal():
    shown = run(io.StringIO(), total=1000)
    assert shown.count("\r") + shown.count("\n") <= 10


def test_unknown_total():
    stream = Terminal()
    with ProgressBar(None, stream) as bar:
        bar("shared", 7, 0.5)
    assert "7 iterations" in stream.getvalue()


def test_without_tqdm_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(ImportError, match=r'pip install "nbo\[progress\]"'):
        ProgressBar(10, io.StringIO())


class Full(Terminal):
    def write(self, text):
        raise OSError(28, "No space left on device")


def closed():
    stream = Terminal()
    stream.close()
    stream.isatty = lambda: True
    return stream


@pytest.mark.parametrize("stream", [Full(), closed()])
@pytest.mark.parametrize("finish", [True, False])
def test_a_stream_that_cannot_be_written_to_ends_the_drawing_only(stream, finish):
    progressed = []
    with ProgressBar(10, stream) as bar:
        for stage in ("shared", "per-feature"):
            for iteration in range(11):
                bar(stage, iteration, 0.5)
                progressed.append(iteration)
        if finish:
            bar.finish()
    assert progressed == 2 * list(range(11))  # the work went on


def test_compiling_is_said_while_it_lasts():
    stream = Terminal()
    with ProgressBar(10, stream):
        with compilation:
            assert stream.getvalue().rstrip().endswith("compiling")
        assert stream.getvalue().endswith("\r")  # the line is gone
        with compilation, compilation:
            pass
    assert stream.getvalue().count("compiling") == 2
    with compilation:
        pass
    assert stream.getvalue().count("compiling") == 2  # nobody listens any more


def test_compiling_is_said_once_where_lines_pile_up():
    stream = io.StringIO()
    with ProgressBar(10, stream):
        for _ in range(3):
            with compilation:
                pass
    assert stream.getvalue().count("compiling") == 1


def test_line_of_a_run():
    problem = nbo.problems.Quadratic.family(n=4, m=2, kappa=10)
    stream = Terminal()
    with nbo.ProgressLine(50, stream) as line:
        res = nbo.minimize(problem, np.zeros(2), method="nbo-cg", max_iter=50, callback=line)
    assert f"{res.nit} iterations, value {res.fun:.6g}" in stream.getvalue()
