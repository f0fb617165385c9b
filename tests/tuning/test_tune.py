"""The whole of `tune`: models, stages, refits and what an interruption leaves."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss

import nbo
from nbo.datasets import BinaryTable, DataError, read_binary
from nbo.history import Status
from nbo.tuning import PENALTIES, baseline, prepare, stages, tune
from nbo.tuning.report import ORDER


@pytest.fixture(scope="module")
def cancer():
    return read_binary("breast_cancer")


def by_name(report):
    return {model.name: model for model in report.models}


def test_report_has_every_model_in_order(report):
    assert tuple(model.name for model in report.models) == ORDER
    assert [stage.name for stage in report.stages] == ["shared", "per-feature"]
    assert not report.interrupted


def test_untuned_model_is_scikit_learn_with_c_one(report):
    data, model = report.data, by_name(report)["untuned"]
    reference = LogisticRegression(tol=1e-10, max_iter=10_000)
    reference.fit(data.development.A[:, :-1], data.development.b)
    np.testing.assert_allclose(model.scaled_coefficients, reference.coef_.ravel(), rtol=1e-3, atol=1e-4)
    scores = reference.predict_proba(data.test.A[:, :-1])
    assert model.test_loss == pytest.approx(log_loss(data.test.b, scores), rel=1e-4)
    assert model.accuracy == accuracy_score(data.test.b, reference.predict(data.test.A[:, :-1]))
    reference.fit(data.train.A[:, :-1], data.train.b)
    validation = log_loss(data.validation.b, reference.predict_proba(data.validation.A[:, :-1]))
    assert model.validation_loss == pytest.approx(validation, rel=1e-4)


def test_refit_keeps_c(report):
    data, model = report.data, by_name(report)["shared"]
    c = 1 / (len(data.train.b) * np.exp(model.log_penalties[0]))
    reference = LogisticRegression(C=c, tol=1e-10, max_iter=10_000)
    reference.fit(data.development.A[:, :-1], data.development.b)
    np.testing.assert_allclose(model.scaled_coefficients, reference.coef_.ravel(), rtol=1e-3, atol=1e-3)


def test_each_stage_lowers_the_validation_loss(report):
    models = by_name(report)
    assert models["per-feature"].validation_loss < models["shared"].validation_loss
    assert models["shared"].validation_loss < models["untuned"].validation_loss


def test_intercept_stays_unpenalised_and_out_of_sight(report):
    n_train = len(report.data.train.b)
    for stage in report.stages:
        assert stage.x[-1] == pytest.approx(-np.log(n_train) - 9.2)
        assert len(stage.model.log_penalties) == len(stage.x) - 1
    assert [len(stage.x) for stage in report.stages] == [2, report.data.n_features + 1]


def test_y_of_a_stage_is_the_exact_fit(report):
    for stage in report.stages:
        problem = stages._problem(report.data, np.arange(report.data.n_features + 1))
        x = stage.x if stage.name == "per-feature" else stage.x[stages._shared_groups(report.data)]
        assert np.linalg.norm(problem.lower_grad_y(x, stage.y)) <= 1e-7


def test_cost_is_cumulative(report):
    models, results = by_name(report), [stage.result for stage in report.stages]
    spent = [result.counts + result.evaluation_counts for result in results]
    for kind in ("upper_grad", "lower_jvp"):
        shared, feature = (getattr(models[name].counts, kind) for name in ("shared", "per-feature"))
        assert shared == getattr(spent[0], kind)
        assert feature == getattr(spent[0] + spent[1], kind)
    assert models["per-feature"].counts.lower_grad_y > (spent[0] + spent[1]).lower_grad_y
    assert models["per-feature"].seconds > models["shared"].seconds > 0
    assert models["LogisticRegressionCV"].counts is None


def test_counts_of_the_stages_make_up_those_of_the_models(report):
    total = None
    for stage in report.stages:
        own = stage.result.counts + stage.result.evaluation_counts + stage.fit_counts
        total = own if total is None else total + own
        assert stage.model.counts == total


def test_original_and_scaled_coefficients_are_one_model(report):
    for model in report.models:
        scores = report.dataset.A @ model.coefficients + model.intercept
        scaled = (report.dataset.A - report.data.center) / report.data.scale
        np.testing.assert_allclose(scores, scaled @ model.scaled_coefficients + model.scaled_intercept, rtol=1e-8)


def test_shared_penalty_that_ends_at_its_limit_is_noted():
    """Rows that the training part separates, so that no penalty is best."""
    rng = np.random.default_rng(0)
    b = np.resize([-1.0, 1.0], 100)
    A = b[:, None] * rng.uniform(1, 2, size=(100, 1))
    report = tune(BinaryTable(A, b, "apart", ("a",), ("0", "1"), "a test", ""))
    shared = report.stages[0]
    assert shared.x[0] == pytest.approx(-9.2 - np.log(60))
    assert "shared: the penalty ended at the weakest one allowed (C = 9.9e+03)" in " ".join(report.notes)


def test_penalties_that_stay_together_are_noted(cancer, monkeypatch):
    monkeypatch.setattr(stages, "PRIOR_SCALE", 1e-3)
    report = tune(cancer)
    assert report.stages[1].result.success
    assert report.stages[1].remark in report.notes
    assert "no penalty moved by more than 1% from the shared one" in report.stages[1].remark


def test_feature_stage_has_a_prior_and_a_warm_start(cancer, monkeypatch):
    seen = []

    def spy(problem, x0, **options):
        seen.append((problem, x0, options))
        return minimize(problem, x0, **options)

    minimize = nbo.minimize
    monkeypatch.setattr(nbo, "minimize", spy)
    report = tune(cancer, max_iter=3, seed=5)
    (_, first_x0, first), (problem, x0, second) = seen
    n_train, shared = len(report.data.train.b), report.stages[0]
    assert first_x0[0] == pytest.approx(-np.log(n_train))
    assert first["random_state"] == second["random_state"] == 5
    np.testing.assert_array_equal(x0[:-1], max(shared.x[0], -14))
    np.testing.assert_array_equal(second["y0"], shared.y)
    np.testing.assert_array_equal(second["u0"], shared.result.u)
    n_validation, away = len(report.data.validation.b), x0 + np.append(np.ones(len(x0) - 1), 0)
    prior = problem.upper_value(away, shared.y) - problem.upper_value(x0, shared.y)
    assert prior == pytest.approx((len(x0) - 1) / (2 * n_validation))


def test_tuning_is_reproducible(cancer):
    first, second = (tune(cancer, penalty="shared", max_iter=5, seed=1) for _ in range(2))
    assert [m.name for m in first.models] == ["untuned", "LogisticRegressionCV", "shared"]
    for one, other in zip(first.models, second.models, strict=True):
        np.testing.assert_array_equal(one.coefficients, other.coefficients)
    assert first.settings == {"penalty": "shared", "method": "auto", "seed": 1, "max_iter": 5}


def test_method_reaches_the_solver(cancer):
    report = tune(cancer, penalty="shared", method="nbo-cholesky", max_iter=5)
    assert report.stages[0].result.counts.lower_hvp >= report.data.n_features


def test_iteration_limit_is_noted(cancer):
    report = tune(cancer, penalty="shared", max_iter=2)
    assert report.stages[0].result.status == Status.ITERATION_LIMIT
    assert report.notes == report.models[-1].notes
    assert report.notes[0].startswith("shared: stopped at the limit of 2 iterations (--max-iter)")
    assert f"note: {report.notes[0]}" in report.table(1000)


def test_no_iterations_at_all(cancer):
    report = tune(cancer, max_iter=0)
    assert report.notes == tuple(
        f"{name}: not tuned, since --max-iter 0 allows no iteration" for name in ("shared", "per-feature")
    )
    assert "nan" not in str(report)
    assert "per-feature gives the same test loss as shared" in report.verdict


def test_progress_is_told(cancer):
    calls = []
    tune(cancer, max_iter=3, progress=lambda *call: calls.append(call))
    assert {stage for stage, _, _ in calls} == {"shared", "per-feature"}
    assert max(iteration for _, iteration, _ in calls) == 3
    assert all(np.isfinite(value) for _, _, value in calls)


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"penalty": "group"}, ValueError, f"penalty: found 'group'; expected one of {PENALTIES[0]!r}"),
        ({"seed": -1}, ValueError, "seed: found -1"),
        ({"seed": 1.5}, TypeError, "seed: found 1.5"),
        ({"max_iter": -3}, ValueError, "max_iter: found -3"),
        ({"method": "nbo-magic"}, ValueError, "nbo-magic"),
    ],
)
def test_bad_arguments(cancer, arguments, kind, words):
    with pytest.raises(kind, match=words):
        tune(cancer, **arguments)


def test_too_few_rows():
    few = BinaryTable(np.eye(8), np.repeat([-1.0, 1.0], 4), "few", tuple("abcdefgh"), ("0", "1"), "a test", "few rows")
    with pytest.raises(DataError, match="too few rows"):
        tune(few)


def test_a_column_that_never_varies_is_harmless():
    rng = np.random.default_rng(0)
    A = np.column_stack([rng.normal(size=(80, 2)), np.full(80, 7.0)])
    b = np.where(A[:, 0] + rng.normal(size=80) > 0, 1.0, -1.0)
    report = tune(BinaryTable(A, b, "flat", ("a", "b", "c"), ("0", "1"), "a test", ""), max_iter=20)
    assert [note for note in report.notes if note.startswith("data: ")] == [
        "data: 1 of 3 features does not vary in the training rows: c"
    ]
    for model in report.models:
        assert np.isfinite(model.test_loss)
        assert model.coefficients[2] == pytest.approx(0, abs=1e-8)


# --- interruptions ------------------------------------------------------------------------------------------


def interrupt_at(stage, iteration):
    def progress(name, nit, value):
        if name == stage and nit >= iteration:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize(
    ("stage", "names"),
    [("shared", ["untuned", "shared"]), ("per-feature", ["untuned", "shared", "per-feature"])],
)
def test_interrupted_stage_is_kept(cancer, stage, names):
    report = tune(cancer, max_iter=10, progress=interrupt_at(stage, 2))
    assert report.interrupted
    assert [model.name for model in report.models] == names
    assert report.stages[-1].result.status == Status.INTERRUPTED
    assert report.verdict.startswith("Interrupted")
    assert any(note.startswith(f"{stage}: ") for note in report.notes)


def test_interruption_between_stages_keeps_what_is_finished(cancer, monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(baseline, "logistic_regression_cv", stop)
    report = tune(cancer, max_iter=2)
    assert report.interrupted
    assert [model.name for model in report.models] == ["untuned", "shared", "per-feature"]


def test_interruption_before_any_model_leaves_nothing(cancer, monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "untuned", stop)
    with pytest.raises(KeyboardInterrupt):
        tune(cancer)


# --- the baseline -------------------------------------------------------------------------------------------


def test_baseline_chooses_c_by_the_validation_rows(cancer):
    data = prepare(cancer, 0)
    model = baseline.logistic_regression_cv(data)
    assert model.notes == ()
    losses = {}
    for c in np.logspace(-4, 4, 10):
        fit = LogisticRegression(C=c, max_iter=10_000).fit(data.train.A[:, :-1], data.train.b)
        losses[c] = log_loss(data.validation.b, fit.predict_proba(data.validation.A[:, :-1]))
    best = min(losses, key=losses.get)
    assert np.exp(-model.log_penalties[0]) / len(data.train.b) == pytest.approx(best)
    assert model.validation_loss == pytest.approx(losses[best], rel=1e-2)


def test_baseline_notes_fits_that_do_not_converge(cancer, monkeypatch):
    monkeypatch.setattr(baseline, "_MAX_ITER", 2)
    (note,) = baseline.logistic_regression_cv(prepare(cancer, 0)).notes
    assert "fits did not converge within 2 iterations" in note
