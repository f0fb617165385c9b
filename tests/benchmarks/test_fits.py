"""Fits are timed without compilation, warnings are counted, and an error ends one fit only."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.exceptions import ConvergenceWarning

from nbo._clock import compilation
from nbo.benchmarks._estimator_models import SPLIT, Model
from nbo.benchmarks._fits import Failure, Fit, fits, quality, timed
from nbo.benchmarks._real_sets import Rows


def rows_of(y, task):
    X = np.zeros((len(y), 1))
    return Rows(task, X, y, X, y, X, y, X, y, [])


def test_compilation_is_kept_apart():
    def work():
        with compilation:
            time.sleep(0.05)
        return "done"

    found, times = timed(work)
    assert found == "done"
    assert times.compile_seconds >= 0.05 > times.seconds


def test_fits_that_did_not_converge_are_counted_and_other_warnings_go_on():
    def work():
        for _ in range(3):
            warnings.warn("not there yet", ConvergenceWarning, stacklevel=1)
        warnings.warn("something else", UserWarning, stacklevel=1)

    with pytest.warns(UserWarning, match="something else") as caught:
        _, times = timed(work)
    assert times.unfinished == 3
    assert len(caught) == 1


def test_quality_of_probabilities():
    y = np.array([-1.0, -1.0, -1.0, 1.0])
    loss, error = quality(DummyClassifier().fit(np.zeros((4, 1)), y), rows_of(y, "binary"))
    assert loss == pytest.approx(-(0.75 * np.log(0.75) + 0.25 * np.log(0.25)))
    assert error == 0.25


def test_quality_of_predictions():
    y = np.array([0.0, 2.0, 4.0])
    loss, error = quality(DummyRegressor().fit(np.zeros((3, 1)), y), rows_of(y, "regression"))
    assert loss == pytest.approx(8 / 3)
    assert error == pytest.approx(1.0)


def test_an_error_is_reported_and_the_next_model_fitted():
    y = np.array([-1.0, 1.0])

    def broken(rows):
        raise ValueError("no such thing")

    models = [Model("broken", SPLIT, broken), Model("whole", SPLIT, lambda rows: DummyClassifier().fit(rows.X, rows.y))]
    first, second = fits("two rows", 7, rows_of(y, "binary"), models)
    assert first == Failure("two rows", 7, SPLIT, "broken", "ValueError: no such thing")
    assert isinstance(second, Fit)
    assert (second.data, second.seed, second.model, second.unfinished) == ("two rows", 7, "whole", 0)
    assert second.loss == pytest.approx(np.log(2))
