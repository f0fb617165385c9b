"""Notes: how a stage ended, in the words of the command, and what is odd about penalties and data."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from nbo.history import Status
from nbo.tuning import notes


def result(status, nit, norm=0.1234):
    return SimpleNamespace(status=status, nit=nit, hypergrad_norm=norm)


@pytest.mark.parametrize(
    ("status", "nit", "words"),
    [
        (Status.ITERATION_LIMIT, 7, "stopped at the limit of 7 iterations (--max-iter) before it converged"),
        (Status.ITERATION_LIMIT, 1, "stopped at the limit of 1 iteration (--max-iter)"),
        (Status.DIVERGED, 7, "diverged after 7 iterations"),
        (Status.TIME_LIMIT, 7, "ended after 7 iterations without convergence (status time_limit)"),
    ],
)
def test_every_end_has_words(status, nit, words):
    said = notes.unfinished("shared", result(status, nit))
    assert said.startswith(f"shared: {words}")
    assert said.endswith("the slope that is left is 0.12")
    assert "max_iter" not in said and "hypergrad_norm" not in said


@pytest.mark.parametrize("status", [Status.ITERATION_LIMIT, Status.DIVERGED])
def test_norms_that_nobody_computed_are_left_out(status):
    said = notes.unfinished("shared", result(status, 0, np.nan))
    assert "nan" not in said and "slope" not in said


@pytest.mark.parametrize(
    ("log_penalty", "words"),
    [(-14.0, "the weakest one allowed (C = 1.2e+04)"), (12.0, "the strongest one allowed (C = 6.1e-08)"), (3.0, "")],
)
def test_ends_of_the_range(log_penalty, words):
    said = notes.at_end_of_range(log_penalty, -14.0, 12.0, SimpleNamespace(n_train=100, task="binary"))
    assert words in said
    assert bool(said) == bool(words)


def test_the_end_of_the_range_of_a_regression():
    said = notes.at_end_of_range(12.0, -14.0, 12.0, SimpleNamespace(n_train=100, task="regression"))
    assert "the strongest one allowed (alpha = 1.6e+07)" in said


def test_finer_penalties_at_their_weak_end():
    assert notes.at_weakest("per-feature", np.array([-3.0, -4.0]), -14.0) == ""
    said = notes.at_weakest("per-feature", np.array([-3.0, -14.0]), -14.0)
    assert said.startswith("per-feature: 1 of 2 penalties ended at the weakest one allowed")


def test_what_penalties_without_a_prior_are_worth():
    assert notes.without_prior("per-class").startswith("per-class: without a prior ")
    assert notes.interrupted("shared") == "shared: interrupted before its end, and left out"


def test_penalties_that_did_not_move():
    assert "no penalty moved by more than 1% from the shared one" in notes.unmoved(
        "per-feature", np.array([-3.0, -3.001]), -3.0
    )
    assert notes.unmoved("per-feature", np.array([-3.0, -3.1]), -3.0) == ""


@pytest.mark.parametrize(
    ("constant", "words"),
    [
        ("0000", ""),
        ("0100", "1 of 4 features does not vary in the rows that tune: b"),
        ("1111", "4 of 4 features do not vary in the rows that tune: a, b, c, ..."),
    ],
)
def test_constant_columns(constant, words):
    said = notes.constant_columns(np.array([c == "1" for c in constant]), "abcd")
    assert said == (words and f"data: {words}")


def test_names_in_notes_are_escaped_and_cut():
    said = notes.constant_columns(np.array([True, True]), ["a\nb", "n" * 1000])
    assert r"a\nb, nn" in said
    assert len(said) < 200


def test_columns_without_values():
    assert notes.empty_columns(None) == ""
    assert notes.empty_columns(np.array([0, 3, 1999])).startswith("data: 1,997 of 2,000 columns hold no value")
