"""The page for people who do not know the method says what the numbers say."""

import dataclasses

import numpy as np
import pytest

from nbo.datasets import read_binary
from nbo.tuning import tune
from nbo.tuning.page import markdown


@pytest.fixture(scope="module")
def report():
    return tune(read_binary("breast_cancer"))


def changed(report, shift, log_penalties=None):
    """The report with other test losses, and other penalties, of the per-feature model."""
    models = list(report.models)
    i = next(i for i, model in enumerate(models) if model.name == "per-feature")
    shared = next(model for model in models if model.name == "shared")
    models[i] = dataclasses.replace(models[i], test_losses=shared.test_losses + shift)
    stages = list(report.stages)
    if log_penalties is not None:
        stages[-1] = dataclasses.replace(stages[-1], model=dataclasses.replace(models[i], log_penalties=log_penalties))
    return dataclasses.replace(report, models=tuple(models), stages=tuple(stages))


def test_it_says_what_was_done(report):
    text = markdown(report, ["penalties.png"])
    sizes = report.data.sizes()
    assert f"learns from {sizes['train']} rows, and {sizes['validation']} other rows" in text
    assert "one tuned penalty for each feature" in text and "](penalties.png)" in text and "convergence.png" not in text
    assert text.count("the search has ended by itself after") == 2 and "(estimated)" in text


@pytest.mark.parametrize(
    ("shift", "words"),
    [(-0.01, "Yes: the loss on the test rows is"), (0.01, "Take one penalty for all features"), (0.0, "within chance")],
)
def test_it_says_whether_finer_penalties_helped(report, shift, words):
    assert words in markdown(changed(report, shift), [])


def test_it_names_what_was_switched_off(report):
    shared = next(model for model in report.models if model.name == "shared").log_penalties[0]
    log_penalties = np.full(30, shared)
    assert "No feature was switched off" in markdown(changed(report, 0.0, log_penalties), [])
    log_penalties[[2, 5]] += 3.0
    first, second = (report.dataset.feature_names[j] for j in (2, 5))
    assert (
        f"2 of 30 features were all but switched off, by a penalty of more than 10 times the shared one: {first}, "
        in (text := markdown(changed(report, 0.0, log_penalties), []))
    )
    assert second in text


def test_a_search_that_did_not_end_is_told():
    text = markdown(tune(read_binary("breast_cancer"), penalty="shared", max_iter=1), [])
    assert "the search has not ended by itself" in text and "Did a penalty for each feature help" not in text
