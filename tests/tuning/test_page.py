"""The page for people who do not know the method says what the numbers say."""

import dataclasses

import numpy as np
import pytest

from nbo.datasets import read_table
from nbo.tuning import tune
from nbo.tuning.page import markdown


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
    assert "455 rows were divided into 3 parts" in text and "Another 114 rows, which took no part" in text
    assert "tells benign from malignant by 30 features" in text and "blind guessing has 0.6931" in text
    assert "one tuned penalty for each feature" in text and "](penalties.png)" in text and "convergence.png" not in text
    assert text.count("the search has ended by itself after") == 2 and "(estimated)" in text
    assert "| one tuned penalty for each feature | per-feature |" in text  # the verdict's words for the models


@pytest.mark.parametrize(
    ("shift", "words"),
    [
        (-0.01, "Yes: the loss on the test rows is"),
        (-1e-5, "Hardly: the loss on the test rows is less than 0.1% lower. That is more than chance explains"),
        (0.01, "Take one penalty for all features"),
        (0.0, "within chance"),
    ],
)
def test_it_says_whether_finer_penalties_helped(report, shift, words):
    assert words in markdown(changed(report, shift), [])


def test_it_names_what_was_switched_off(report):
    shared = next(model for model in report.models if model.name == "shared").log_penalties[0]
    log_penalties = np.full(30, shared)
    assert "None of the features was switched off" in markdown(changed(report, 0.0, log_penalties), [])
    log_penalties[[2, 5]] += 3.0
    first, second = (report.dataset.feature_names[j] for j in (2, 5))
    assert (
        f"2 of 30 features were all but switched off, by a penalty of more than 10 times the shared one: {first}, "
        in (text := markdown(changed(report, 0.0, log_penalties), []))
    )
    assert second in text


def test_a_search_that_did_not_end_is_told():
    text = markdown(tune(read_table("breast_cancer"), penalty="shared", max_iter=1), [])
    assert "the search has not ended by itself" in text and "Did a penalty for each feature help" not in text


def test_it_compares_with_the_plain_models(report):
    models = list(report.models)
    untuned, grid, shared = models[:3]
    models[0] = dataclasses.replace(untuned, test_losses=shared.test_losses + 0.5)
    models[1] = dataclasses.replace(grid, test_losses=shared.test_losses)
    text = markdown(dataclasses.replace(report, models=tuple(models)), [])
    gain = 0.5 / (shared.test_loss + 0.5)
    assert (
        f"- clearly better (the loss on the test rows is {gain:.1%} lower) than no tuning (the usual strength," in text
    )
    assert "- as good, as far as these rows can tell, as scikit-learn's search over ten strengths." in text
    models[0] = dataclasses.replace(untuned, test_losses=shared.test_losses + 1e-5)
    assert "- slightly better (the loss" in markdown(dataclasses.replace(report, models=tuple(models)), [])
    models[0] = dataclasses.replace(untuned, test_losses=shared.test_losses / 2)
    assert "- clearly worse (the loss on the test rows is 100.0% higher) than no tuning" in markdown(
        dataclasses.replace(report, models=tuple(models)), []
    )


def test_classes_and_a_single_split_are_told(classes_report):
    text = markdown(classes_report, [])
    assert "tells 3 classes apart by 13 features: 0, 1, 2" in text and "36 other rows judge the penalties" in text
    assert "Did a penalty for each feature and class help?" in text


def test_a_regression_has_words_of_its_own(numbers_report):
    text = markdown(numbers_report, [])
    assert "predicts a number by 10 features" in text and "| R2 |" in text and "alpha = 1" in text
    assert "0 no better than always guessing the mean" in text and "Right answers" not in text


def test_what_was_assumed_of_the_labels_is_told(report):
    noted = dataclasses.replace(report, notes=("data: the labels take 2 different values",))
    assert "- data: the labels take 2 different values" in markdown(noted, [])
