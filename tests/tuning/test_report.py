"""The table, its notes, and the report as text."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from nbo.tuning.report import wrapped


def test_table_has_a_row_per_model(report):
    lines = report.table().splitlines()
    assert lines[0].split()[0] == "model"
    for line, found in zip(lines[2:], report.models, strict=False):
        assert line.startswith(found.name)
        assert f"{found.test_loss:#.4g}" in line
        assert found.score_text in line
        if found.counts is not None:
            assert line.rstrip().endswith(f"{found.counts.lower_jvp:,}")
    assert len({len(line) for line in lines[:6]}) == 1
    assert lines[6] == "binary data: 455 rows to tune and fit on, 114 test rows"


def test_legend_says_what_figures_include(report):
    legend = " ".join(report.table(1000).splitlines()[6:])
    assert "log-loss of held-out rows, of 3 stratified folds; test loss and accuracy" in legend
    assert "seconds and calls of per-feature include the shared search that it starts from" in legend
    assert "no loss in this table includes the prior" in legend
    shared = dataclasses.replace(report, models=report.models[:-1])
    legend = " ".join(shared.table(1000).splitlines()[5:])
    assert "seconds include the evaluations for the history and the final fit" in legend
    assert "prior" not in legend and "per-feature" not in legend


def test_table_of_a_regression(numbers_report):
    lines = numbers_report.table(1000).splitlines()
    assert "R2" in lines[0] and "accuracy" not in lines[0] and lines[3].startswith("RidgeCV")
    assert "mean squared error of held-out rows, of 3 shuffled folds" in lines[7]
    assert all("%" not in line for line in lines[2:6])


def test_report_prints_as_table_and_verdict(report):
    assert str(report) == repr(report) == f"{report.table()}\n\n{wrapped(report.verdict, 100)}"
    assert "array(" not in repr(report)


def test_parts_of_a_report_have_short_texts(report):
    assert repr(report.dataset).startswith(
        "<TaskTable breast_cancer: binary, 569 rows, 30 features, labels malignant, ben"
    )
    assert repr(report.data) == "<TuningData: 455 tuning, 114 test rows of 30 features, 3 stratified folds>"
    assert repr(report.models[2]).startswith("<FittedModel shared: test loss 0.0")
    assert repr(report.stages[0]).startswith("<Stage shared: ")


def test_prose_keeps_to_the_width(report):
    noted = dataclasses.replace(report, notes=("a " * 200,))
    for line in noted.text(70).splitlines()[6:]:
        assert len(line) <= 70
    assert "note: a a" in noted.text(70)


@given(
    words=st.lists(st.lists(st.text("abc.", min_size=1, max_size=8), min_size=1), max_size=5), width=st.integers(20, 99)
)
def test_wrapping_keeps_words_and_starts_of_lines(words, width):
    text = "\n".join(" ".join(line) for line in words)
    found = wrapped(text, width)
    assert found.split() == text.split()
    assert all(len(line) <= width for line in found.splitlines())
    assert sum(not line.startswith("  ") for line in found.splitlines()) == len(words)
