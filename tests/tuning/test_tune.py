"""The whole of `tune`: models, searches and what an interruption leaves."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, log_loss, mean_squared_error, r2_score

from nbo.datasets import BinaryTable, DataError, TaskTable, read_binary, read_table
from nbo.history import Status
from nbo.sklearn import BilevelLogisticRegression
from nbo.tuning import baseline, stages, tune
from nbo.tuning.data import prepare
from nbo.tuning.models import row_losses


@pytest.fixture(scope="module")
def cancer():
    return read_table("breast_cancer")


def table_of(A, b, name="made", task="binary"):
    names = tuple("abcdefgh"[: A.shape[1]])
    return TaskTable(A, b, task, () if task == "regression" else ("0", "1"), name, names, "a test", "")


def by_name(report):
    return {model.name: model for model in report.models}


def test_reports_have_every_model_in_order(report, classes_report, numbers_report):
    for found, grid, finer in (
        (report, "LogisticRegressionCV", "per-feature"),
        (classes_report, "LogisticRegressionCV", "per-class-and-feature"),
        (numbers_report, "RidgeCV", "per-feature"),
    ):
        assert [model.name for model in found.models] == ["untuned", grid, "shared", finer]
        assert [stage.name for stage in found.stages] == ["shared", finer]
        assert all(stage.result.success for stage in found.stages) and not found.interrupted


def reference(data, x):
    """scikit-learn's model at a log penalty, fitted tightly to the rows that tune."""
    if data.task == "regression":
        return Ridge(alpha=data.n_train * np.exp(x)).fit(*data.development)
    model = LogisticRegression(C=1 / (data.n_train * np.exp(x)), tol=1e-10, max_iter=100_000)
    return model.fit(*data.development)


@pytest.mark.parametrize("which", ["report", "classes_report", "numbers_report"])
@pytest.mark.parametrize("name", ["untuned", "shared"])
def test_models_with_one_penalty_are_those_of_scikit_learn(which, name, request):
    found = request.getfixturevalue(which)
    data, model = found.data, by_name(found)[name]
    if name == "untuned":
        assert model.log_penalties[0] == pytest.approx(-np.log(data.n_train))
    expected = reference(data, model.log_penalties[0])
    coefficients = np.atleast_2d(model.scaled_coefficients)
    np.testing.assert_allclose(coefficients, np.atleast_2d(expected.coef_), rtol=1e-2, atol=1e-2)
    A, b = data.test
    predicted = expected.predict(A)
    if data.task == "regression":
        loss, score = mean_squared_error(b, predicted), r2_score(b, predicted)
        assert model.score_name == "R2" and model.blind_loss == pytest.approx(np.var(b))
    else:
        loss, score = log_loss(b, expected.predict_proba(A)), accuracy_score(b, predicted)
        assert model.blind_loss == pytest.approx(np.log(len(found.dataset.label_names)))
    assert model.test_loss == pytest.approx(loss, rel=1e-2)
    assert model.score == pytest.approx(score, abs=1e-3)


@pytest.mark.parametrize("which", ["report", "classes_report", "numbers_report"])
def test_each_search_lowers_the_validation_loss(which, request):
    found = request.getfixturevalue(which)
    untuned, grid, shared, finer = (model.validation_loss for model in found.models)
    assert finer < shared < untuned
    if found.data.task != "multiclass":  # where scikit-learn stops early, which is a penalty of its own
        assert shared <= grid * (1 + 1e-4)


def test_validation_losses_are_those_of_all_held_out_rows():
    found = tune(read_table("diabetes"), penalty="shared", cv=4)  # folds of different sizes
    data = found.data
    A, b = data.development
    for model in found.models:
        alpha, losses = data.n_train * np.exp(model.log_penalties[0]), []
        for train, held_out in data.folds:
            fit = Ridge(alpha=alpha).fit(A[train], b[train])
            losses.append((b[held_out] - fit.predict(A[held_out])) ** 2)
        assert model.validation_loss == pytest.approx(
            np.concatenate(losses).mean(), rel=1e-4
        )  # strengths are those of a fold


def test_a_finer_search_starts_from_the_shared_one_and_gives_what_the_estimator_gives(report):
    shared, finer = report.stages
    alone = BilevelLogisticRegression("feature", cv=report.data.folds, random_state=0).fit(*report.data.development)
    np.testing.assert_array_equal(finer.estimator.log_penalty_, alone.log_penalty_)
    np.testing.assert_array_equal(finer.estimator.coef_, alone.coef_)
    assert finer.estimator.report_.stages[0].counts == shared.report.counts
    assert not hasattr(finer.estimator, "_follower") or finer.estimator._follower is None


def test_cost_is_cumulative(report):
    models = by_name(report)
    shared, finer = (stage.report.counts for stage in report.stages)
    assert finer == report.stages[1].result.counts + report.stages[1].result.evaluation_counts
    assert models["shared"].counts == shared
    assert models["per-feature"].counts == shared + finer
    assert models["per-feature"].seconds > models["shared"].seconds > 0
    assert models["LogisticRegressionCV"].counts is None and models["untuned"].counts is None


@pytest.mark.parametrize("which", ["report", "classes_report", "numbers_report"])
def test_original_and_scaled_coefficients_are_one_model(which, request):
    found = request.getfixturevalue(which)
    for model in found.models:
        scores = found.dataset.A @ model.coefficients.T + model.intercept
        scaled = (found.dataset.A - found.data.center) / found.data.scale
        np.testing.assert_allclose(scores, scaled @ model.scaled_coefficients.T + model.scaled_intercept, atol=1e-7)


def test_a_binary_table_will_do(cancer):
    settings = {"penalty": "shared", "max_iter": 2, "cv": 1}
    one, other = tune(cancer, **settings), tune(read_binary("breast_cancer"), **settings)
    assert one.verdict == other.verdict and isinstance(other.dataset, TaskTable)


def test_sparse_rows_of_a_regression():
    A = sp.random(120, 6, density=0.15, format="csr", random_state=0)
    b = A @ np.arange(6.0) + 0.1 * np.random.default_rng(0).normal(size=120)
    found = tune(table_of(A, b, task="regression"), cv=3)
    assert all(model.score > 0.9 for model in found.models[1:]) and found.data.development.A.format == "csr"


def test_shared_penalty_that_ends_at_its_limit_is_noted():
    """Rows that can be told apart, so that no penalty is best."""
    b = np.resize([0, 1], 100)
    A = np.random.default_rng(0).uniform(1, 2, size=(100, 1)) * (2.0 * b[:, None] - 1)
    found = tune(table_of(A, b), cv=1)
    assert found.stages[0].model.log_penalties[0] == pytest.approx(-9.2 - np.log(60), abs=0.01)
    assert "shared: the penalty ended at the weakest one allowed (C = 9.9e+03)" in " ".join(found.notes)


def test_penalties_that_stay_together_are_noted(cancer):
    found = tune(cancer, prior=1e-3, cv=1)
    assert found.stages[1].result.success and found.stages[1].remark in found.notes
    assert "per-feature: no penalty moved by more than 1% from the shared one" in found.stages[1].remark


def test_rare_entries_do_not_confuse_the_notes_and_the_path():
    rng = np.random.default_rng(0)
    A = sp.random(2000, 4, density=0.006, format="csr", rng=rng, data_rvs=np.ones)
    found = tune(table_of(A, A @ [2.0, -1.0, 1.0, 3.0] + 0.1 * rng.normal(size=2000), task="regression"), prior=1e-6)
    shared, finer = found.stages
    assert shared.estimator._units.feature < 1  # the estimators change the unit of such columns
    assert "no penalty moved" in finer.remark and "one allowed" not in finer.remark + shared.remark
    for stage in found.stages:
        assert stage.estimator.validation_path_["shared"]["x"][-1] == shared.model.log_penalties[0]


def test_without_a_prior_penalties_go_far(cancer):
    free, tied = tune(cancer, prior=None, cv=1), tune(cancer, cv=1)
    spread = [np.ptp(found.stages[1].model.log_penalties) for found in (free, tied)]
    assert spread[0] > 5 * spread[1]
    warned = [any("without a prior" in note for note in found.notes) for found in (free, tied)]
    assert warned == [True, False]
    assert free.stages[1].model.validation_loss < tied.stages[1].model.validation_loss


def test_tuning_is_reproducible(cancer):
    first, second = (tune(cancer, penalty="shared", max_iter=5, seed=1) for _ in range(2))
    assert [m.name for m in first.models] == ["untuned", "LogisticRegressionCV", "shared"]
    for one, other in zip(first.models, second.models, strict=True):
        np.testing.assert_array_equal(one.coefficients, other.coefficients)
    assert first.settings == {"penalty": "shared", "cv": 5, "prior": "auto", "seed": 1, "max_iter": 5}


def test_iteration_limit_is_noted(cancer):
    found = tune(cancer, penalty="shared", max_iter=2)
    assert found.stages[0].result.status == Status.ITERATION_LIMIT
    assert found.notes == found.models[-1].notes
    assert found.notes[0].startswith("shared: stopped at the limit of 2 iterations (--max-iter)")
    assert f"note: {found.notes[0]}" in found.table(1000)


def test_progress_is_told(cancer):
    calls = []
    tune(cancer, max_iter=3, progress=lambda *call: calls.append(call))
    assert {stage for stage, _, _ in calls} == {"shared", "per-feature"}
    assert max(iteration for _, iteration, _ in calls) == 3
    assert all(np.isfinite(value) for _, _, value in calls)


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        (
            {"penalty": "group"},
            ValueError,
            "penalty of binary data: found 'group'; expected one of 'feature', 'shared'",
        ),
        ({"penalty": "class"}, ValueError, "penalty of binary data: found 'class'"),
        ({"cv": 0}, ValueError, "cv: found 0"),
        ({"cv": 0.2}, TypeError, "cv: found 0.2"),
        ({"cv": 1000}, ValueError, "cv: found 1000 folds for n_samples=455 rows"),
        ({"prior": -1.0}, ValueError, "prior: found -1"),
        ({"seed": -1}, ValueError, "seed: found -1"),
        ({"seed": 1.5}, TypeError, "seed: found 1.5"),
        ({"max_iter": 0}, ValueError, "max_iter: found 0"),
    ],
)
def test_bad_arguments(cancer, arguments, kind, words):
    with pytest.raises(kind, match=words):
        tune(cancer, **arguments)


def test_too_few_rows():
    few = BinaryTable(np.eye(8), np.repeat([-1.0, 1.0], 4), "few", tuple("abcdefgh"), ("0", "1"), "a test", "few rows")
    with pytest.raises(DataError, match="too few rows"):
        tune(few)


def test_classes_of_five_rows_are_enough():
    rng = np.random.default_rng(0)
    b = np.repeat([0, 1], (5, 40))
    found = tune(table_of(rng.normal(size=(45, 2)) + b[:, None], b), max_iter=20)
    assert all(np.isfinite(model.test_loss) for model in found.models)
    assert any("some folds hold out none of it" in note for note in found.notes)


def test_a_column_that_never_varies_is_harmless():
    rng = np.random.default_rng(0)
    A = np.column_stack([rng.normal(size=(80, 2)), np.full(80, 7.0)])
    found = tune(table_of(A, (A[:, 0] + rng.normal(size=80) > 0).astype(int)), max_iter=20)
    assert [note for note in found.notes if note.startswith("data: ")] == [
        "data: 1 of 3 features does not vary in the rows that tune: c"
    ]
    for model in found.models:
        assert np.isfinite(model.test_loss)
        assert model.coefficients[2] == pytest.approx(0, abs=1e-8)


# --- interruptions ------------------------------------------------------------------------------------------


def interrupt_at(stage, iteration):
    def progress(name, nit, value):
        if name == stage and nit >= iteration:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize(("stage", "names"), [("shared", ["untuned"]), ("per-feature", ["untuned", "shared"])])
def test_what_was_finished_before_an_interruption_is_kept(cancer, stage, names):
    found = tune(cancer, max_iter=10, progress=interrupt_at(stage, 2))
    assert found.interrupted
    assert [model.name for model in found.models] == names
    assert found.verdict.startswith("Interrupted")
    assert f"{stage}: interrupted before its end, and left out" in found.notes


def test_interruption_between_searches_keeps_what_is_finished(cancer, monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(baseline, "grid_search", stop)
    found = tune(cancer, max_iter=2)
    assert found.interrupted
    assert [model.name for model in found.models] == ["untuned", "shared", "per-feature"]
    assert "scikit-learn's search: interrupted before its end, and left out" in found.notes


def test_interruption_before_any_model_leaves_nothing(cancer, monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(baseline, "untuned", stop)
    with pytest.raises(KeyboardInterrupt):
        tune(cancer)


# --- the baselines ------------------------------------------------------------------------------------------


def test_row_losses_are_those_of_scikit_learn(classes_report):
    A, b = classes_report.data.test
    model = reference(classes_report.data, -5.0)
    assert row_losses(model, A, b).mean() == pytest.approx(log_loss(b, model.predict_proba(A)))


def test_baseline_chooses_c_by_the_held_out_rows(cancer):
    data = prepare(cancer, 1, 0)
    model = baseline.grid_search(data)
    assert model.notes == ()
    ((train, held_out),), losses = data.folds, {}
    A, b = data.development
    for c in baseline.GRID:
        fit = LogisticRegression(C=c, max_iter=10_000).fit(A[train], b[train])
        losses[c] = log_loss(b[held_out], fit.predict_proba(A[held_out]))
    best = min(losses, key=losses.get)
    assert np.exp(-model.log_penalties[0]) / data.n_train == pytest.approx(best)
    assert model.validation_loss == pytest.approx(losses[best], rel=1e-2)


def test_baseline_notes_fits_that_do_not_converge(cancer, monkeypatch):
    monkeypatch.setattr(baseline, "_MAX_ITER", 2)
    data = prepare(cancer, 2, 0)
    for model, fits in ((baseline.grid_search(data), 21), (baseline.untuned(data), 3)):
        (note,) = model.notes
        assert f"of its {fits} fits did not converge within 2 iterations" in note


def test_strengths_are_those_of_the_estimators(report, numbers_report):
    for found, name, expected in (
        (report, "C", lambda x, n: np.exp(-x) / n),
        (numbers_report, "alpha", lambda x, n: np.exp(x) * n),
    ):
        called, values = stages.strengths(found.stages[-1])
        assert called == name
        np.testing.assert_allclose(values, expected(found.stages[-1].model.log_penalties, found.data.n_train))
