"""What the report of tuning says."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from sklearn.metrics import log_loss

from nbo.sklearn import BilevelLogisticRegression, BilevelRidge


@pytest.fixture(scope="module")
def model(rows):
    return BilevelLogisticRegression("feature", cv=0.3, random_state=0).fit(*rows)


def test_losses_are_those_of_held_out_rows(rows):
    X, y = rows
    model = BilevelLogisticRegression("feature", refit=False).fit(X[:50], y[:50], X_val=X[50:], y_val=y[50:])
    assert model.report_.finer_loss == pytest.approx(log_loss(y[50:], model.predict_proba(X[50:])), rel=1e-4)
    ridge = BilevelRidge(refit=False).fit(X[:50], 7.0 * y[:50], X_val=X[50:], y_val=7.0 * y[50:])
    error = np.mean((7.0 * y[50:] - ridge.predict(X[50:])) ** 2) / 2
    assert ridge.report_.shared_loss == pytest.approx(error, rel=1e-4)


def test_text(model):
    text, report = str(model.report_), model.report_
    assert text == report.summary()
    assert text.startswith("Penalties tuned on one split that holds out 0.3 of the rows, stratified (24 of 80 rows)")
    for number in (report.untuned_loss, report.shared_loss, report.finer_loss):
        assert f"{number:.6g}" in text
    assert "untuned (C = 1)" in text and "penalty 'feature' (6 penalties)" in text
    assert "shared stage: converged after" in text and "finer stage: converged after" in text
    assert max(map(len, text.splitlines())) <= 100


def test_verdict(model):
    report = dataclasses.replace(model.report_, shared_loss=0.5, finer_loss=0.4)
    assert report.finer_helped and "lowered this loss by 20.0%" in str(report)
    for loss, change in ((0.499, "-0.20%"), (0.51, "+2.00%")):
        worse = dataclasses.replace(report, finer_loss=loss)
        assert not worse.finer_helped
        assert "did not help" in str(worse) and change in str(worse)


def test_a_shared_penalty_has_no_verdict(rows):
    report = BilevelLogisticRegression(random_state=0).fit(*rows).report_
    assert report.finer_loss is None and not report.finer_helped
    assert "finer" not in str(report)
    assert report.n_folds == 5 and report.n_held_out == report.n_rows == 80


def test_bounds_and_switched_off_penalties_are_named(model):
    names = tuple(f"x{j}" for j in range(11))
    report = dataclasses.replace(model.report_, switched_off=names, at_upper=("x1",), at_lower=("x2",))
    text = " ".join(str(report).split())
    assert "11 of 6 (x0, x1, x2, x3, x4, x5, x6, x7 and 3 more)" in text
    assert "strongest penalty allowed: x1" in text and "weakest penalty allowed: x2" in text


def test_names_follow_the_penalties(three):
    """Two noise columns of a far larger prior are switched off, by the names of the frame."""
    pd = pytest.importorskip("pandas")
    X, y = three
    frame = pd.DataFrame(np.column_stack((X[:, :2], X[:, 3:5] * 4)), columns=["signal", "weak", "noise", "more noise"])
    report = (
        BilevelLogisticRegression("feature", penalty_prior=5.0, random_state=0, max_iter=1000).fit(frame, y).report_
    )
    assert set(report.switched_off) <= {"weak", "noise", "more noise"} and report.switched_off
    classes = BilevelLogisticRegression("class-feature", penalty_prior=5.0, random_state=0, max_iter=1000)
    entries = classes.fit(frame, y).report_.switched_off
    assert entries and all(" / " in entry for entry in entries)


def test_stages(model):
    for stage in model.report_.stages:
        assert stage.success and stage.status == "converged" and stage.n_iter >= 1
        assert stage.hypergrad_norm <= 1e-4
        assert stage.counts.lower_hvp > 0
    assert model.report_.seconds >= sum(stage.seconds for stage in model.report_.stages)
