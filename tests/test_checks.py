"""`check_problem` passes what is right and fails every kind of fault."""

import numpy as np
import pytest
from reference_problems import Overriding, PlainLogistic, logistic_data

import nbo

GOOD = Overriding().inner


def report(**replaced):
    rng = np.random.default_rng(1)
    return nbo.check_problem(Overriding(**replaced), rng.standard_normal(2), rng.standard_normal(3))


def failed(found):
    return {check.name for check in found.checks if not check.passed}


def test_a_right_problem_passes():
    found = report()
    assert found and found.passed and "all checks passed" in str(found)
    assert found == report()  # random_state=None repeats


@pytest.mark.parametrize(
    ("oracle", "faulty", "expected"),
    [
        ("upper_grad", lambda x, y: (2 * GOOD.upper_grad(x, y)[0], GOOD.upper_grad(x, y)[1]), "upper_grad, first part"),
        ("upper_grad", lambda x, y: (GOOD.upper_grad(x, y)[0], -GOOD.upper_grad(x, y)[1]), "upper_grad, second part"),
        ("lower_grad_y", lambda x, y: 1.001 * GOOD.lower_grad_y(x, y), "lower_grad_y"),
        ("lower_hvp", lambda x, y, v: 1.01 * GOOD.lower_hvp(x, y, v), "lower_hvp"),
        ("lower_hvp", lambda x, y, v: GOOD.lower_hvp(x, y, v) + np.roll(v, 1), "symmetry of H"),
        ("lower_hvp", lambda x, y, v: -GOOD.lower_hvp(x, y, v), "positive curvature of H"),
        ("lower_hvp", lambda x, y, v: GOOD.lower_hvp(x, y, v) + 0.1, "linearity of products"),
        ("lower_jvp", lambda x, y, u: -GOOD.lower_jvp(x, y, u), "lower_jvp"),
        ("lower_value", lambda x, y: GOOD.lower_value(x, y) + y[0], "lower_grad_y"),
        ("lower_hvp", lambda x, y, v: np.zeros(4), "shapes and types"),
        ("upper_grad", lambda x, y: np.zeros(5), "shapes and types"),
        ("lower_value", lambda x, y: np.zeros(2), "shapes and types"),
        ("upper_value", lambda x, y: np.nan, "upper_grad, first part"),
    ],
)
def test_faults_are_found(oracle, faulty, expected):
    found = report(**{oracle: faulty})
    assert not found and expected in failed(found) and "FAIL" in str(found)


def test_an_oracle_that_writes_into_its_arguments_or_varies_is_found():
    def writes(x, y):
        y *= 2
        return y

    rng = np.random.default_rng()
    assert "lower_grad_y" in failed(report(lower_grad_y=writes))
    noisy = report(lower_grad_y=lambda x, y: GOOD.lower_grad_y(x, y) + 1e-12 * rng.standard_normal(3))
    assert "repeatability" in failed(noisy)


@pytest.mark.parametrize("oracle", ["lower_grad_x", "upper_hvp", "upper_jvp"])
def test_optional_oracles_are_checked_where_they_exist(oracle):
    class Wrong(nbo.problems.NonQuadratic):
        pass

    setattr(Wrong, oracle, lambda self, x, y, *v: np.ones(3 if oracle == "upper_hvp" else 2))
    problem = Wrong(np.ones((3, 2)), np.zeros(3), np.zeros(2), mu=0.1, L=1)
    found = nbo.check_problem(problem, np.array([0.3, -0.2]), np.array([0.5, -1.0, 2.0]))
    assert oracle in failed(found)


def test_batches_of_a_finite_sum_are_checked():
    class Wrong(nbo.problems.BinaryLogistic):
        faster_oracles = ("lower_hvp",)

        def lower_hvp(self, x, y, v, batch=None):
            return super().lower_hvp(x, y, v, batch) * (1 if batch is None else 1.1)

    problem = Wrong(*logistic_data())
    assert failed(nbo.check_problem(problem, np.zeros(5), np.ones(5))) == {"means over batches"}


def test_an_oracle_that_ignores_its_batch_is_found():
    class Wrong(PlainLogistic):
        def lower_grad_y(self, x, y, batch=None):
            return super().lower_grad_y(x, y)

    report = nbo.check_problem(Wrong(*logistic_data()), np.zeros(5), np.ones(5))
    assert [c.detail for c in report.checks if not c.passed] == [
        "lower_grad_y returned the same for two sets of samples: it seems to ignore batch"
    ]


def test_oracles_that_are_not_the_kernels_are_found():
    class Other(nbo.problems.BinaryLogistic):
        faster_oracles = ("lower_jvp",)

        def lower_jvp(self, x, y, u, batch=None):
            return 2 * super().lower_jvp(x, y, u)

    found = failed(nbo.check_problem(Other(*logistic_data()), np.zeros(5), np.ones(5)))
    assert {"lower_jvp", "kernels are the oracles"} <= found


@pytest.mark.parametrize(
    ("method", "faulty", "expected"),
    [
        ("jvp", lambda self, u: -nbo.LowerModel.jvp(self, u), "jvp differs"),
        ("grad_y", lambda self: nbo.LowerModel.grad_y(self) + 0.3, "grad_y differs"),
        ("hvp", lambda self, V: nbo.LowerModel.hvp(self, V) * (1 if len(V) < 3 else 1.1), "hvp of three rows differs"),
        ("hvp", lambda self, V: nbo.LowerModel.hvp(self, V)[:1], "hvp of three rows: shape"),
        ("value", lambda self: nbo.LowerModel.value(self) * 1.01, "value differs"),
        ("grad_y_and_hvp", lambda self, u: (self.grad_y(), u), "grad_y_and_hvp differs"),
    ],
)
def test_a_lower_model_of_the_problems_own_is_checked(method, faulty, expected):
    class Model(nbo.LowerModel):
        pass

    class WithModel(Overriding):
        def lower_model(self, x, y):
            return Model(self, x, y)

    x, y = np.array([0.3, -1.0]), np.array([1.0, 2.0, -1.0])
    assert nbo.check_problem(WithModel(), x, y)
    setattr(Model, method, faulty)
    found = nbo.check_problem(WithModel(), x, y)
    assert failed(found) == {"lower_model"} and expected in str(found)


def test_bad_arguments():
    with pytest.raises(TypeError, match="problem: found int"):
        nbo.check_problem(3, 1, 2)
    with pytest.raises(TypeError, match="random_state: found 'seed'"):
        nbo.check_problem(Overriding(), np.zeros(2), np.zeros(3), random_state="seed")
    with pytest.raises(ValueError, match=r"y: found shape \(2,\)"):
        nbo.check_problem(Overriding(), np.zeros(2), np.zeros(2))


def test_missing_numbers_of_samples_are_named():
    problem = PlainLogistic(*logistic_data())
    del problem.n_samples_upper
    report = nbo.check_problem(problem, np.zeros(5), np.ones(5))
    (check,) = (c for c in report.checks if c.name == "means over batches")
    assert not check.passed and "problem.n_samples_upper: found None" in check.detail
