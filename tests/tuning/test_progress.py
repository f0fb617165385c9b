"""The progress bar."""

from __future__ import annotations

import io
import re
import sys

import pytest

from nbo.tuning.progress import ProgressBar


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
