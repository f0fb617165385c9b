"""The page on cleaned labels: what it says of the end of the search, and of names and labels that look like markup."""

from types import SimpleNamespace

import numpy as np
import pytest

from nbo.cleaning import CleanedLabels
from nbo.cleaning.report import markdown, verdict
from nbo.datasets import LabelledTable
from nbo.history import Status
from nbo.sklearn import CleaningReport


def found(
    *, status=Status.ITERATION_LIMIT, nit=2, max_iter=None, suspects=2, name="made", held_out=False, losses=(1, 2)
):
    """Four rows of two labels; the first `suspects` in order are suspect, and row 1 is suggested its own label."""
    labels = np.array(["a|b", "<i>", "a|b", "<i>"])
    table = LabelledTable(np.eye(4), labels, name, tuple("wxyz"), ("<i>", "a|b"), "made.npz", "npz file")
    report = CleaningReport(
        n_rows=4, n_trusted=3, held_out=held_out, n_classes=2, C=1.0, ridge=0.1, uncleaned_loss=losses[1],
        start_loss=1.5, trusted_loss=losses[0], n_suspects=suspects, n_disagree=3, n_both=1, n_iter=nit, seconds=0.1,
    )  # fmt: skip
    cleaner = SimpleNamespace(report_=report, result_=SimpleNamespace(status=status, nit=nit))
    return CleanedLabels(
        table, None if held_out else table, cleaner, np.array([0.2, 0.1, 0.8, 0.95]), np.array([1, 0, 2, 3]),
        np.array(["a|b", "a|b", "a|b", "<i>"]), np.array([0.6, 0.9, 0.7, 0.8]), {"max_iter": max_iter},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "ended on purpose after 2 iterations, far from the end"),
        ({"max_iter": 1, "nit": 1}, "ended after 1 iteration, as asked."),
        ({"status": Status.CONVERGED, "nit": 1}, "ended after 1 iteration, since nothing was left to gain"),
        ({"status": Status.DIVERGED}, f"without an answer ({Status.DIVERGED}): take the result with care"),
    ],
)
def test_the_page_says_why_the_search_ended(settings, words):
    assert words in markdown(found(**settings), pictures=False)


@pytest.mark.parametrize(("losses", "said"), [((1, 2), False), ((2, 1), True)])
def test_a_loss_that_did_not_fall_is_no_success(losses, said):
    assert ("no better: do not rely on them" in markdown(found(losses=losses), False)) is said


def test_names_and_labels_are_no_markup():
    page = markdown(found(name="<b>x*y"), False)
    assert "# Labels of &lt;b&gt;x\\*y\n" in page
    assert "| 2 | &lt;i&gt; | 0.1 | a\\|b | 90% |\n| 1 | a\\|b | 0.2 | a\\|b | 60% |" in page
    assert "Where the suggestion is the label itself" in page
    assert "Where the suggestion is the label itself" not in markdown(found(suspects=1), False)


def test_without_trusted_rows_it_is_the_rows_held_out_that_judge():
    held_out, trusted = markdown(found(held_out=True), False), markdown(found(), False)
    assert "a model on the rows that were held out alone" in held_out and "loss on the held-out rows" in held_out
    assert "3 of the same rows were taken as if their labels were right" in held_out
    assert "a model on the trusted rows alone" in trusted and "held" not in trusted


def test_without_suspects():
    assert "No label is suspect" in verdict(found(suspects=0))
    assert "most suspicious" not in markdown(found(suspects=0), False)


def test_the_picture_is_shown_only_if_there_is_one():
    assert ["weights.png" in markdown(found(), pictures) for pictures in (True, False)] == [True, False]
