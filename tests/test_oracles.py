import numpy as np
import pytest
from reference_problems import Overriding, SelfCounting, logistic_data

import nbo
from nbo.oracles import CountedProblem, NonFiniteOracleError


def test_counts_are_values():
    a, b = nbo.OracleCounts(lower_hvp=3, upper_grad=1), nbo.OracleCounts(lower_hvp=2)
    assert a + b == nbo.OracleCounts(lower_hvp=5, upper_grad=1)
    assert a - b == nbo.OracleCounts(lower_hvp=1, upper_grad=1)
    assert 3 * b == b * 3 == nbo.OracleCounts(lower_hvp=6)
    assert str(a) == "upper_grad=1, lower_hvp=3" and str(nbo.OracleCounts()) == "no calls"
    assert list(a.as_dict()) == [
        "upper_value", "upper_grad", "upper_hvp", "upper_jvp", "lower_value", "lower_grad_y", "lower_grad_x",
        "lower_hvp", "lower_jvp",
    ]  # fmt: skip


def test_the_view_counts_what_the_problem_sees():
    problem = SelfCounting(nbo.problems.Quadratic.family(4, 2, 5))
    view, x, y = CountedProblem(problem), np.ones(2), np.ones(4)
    model = view.lower_model(x, y)
    assert view.counts == nbo.OracleCounts()
    view.upper_value(x, y), view.upper_grad(x, y), model.value(), model.grad_y(), model.grad_y_and_hvp(y)
    model.hvp(np.ones((3, 4))), model.jvp(y)
    model.hessian @ y
    assert view.counts == problem.seen()
    assert view.counts == nbo.OracleCounts(
        upper_value=1, upper_grad=1, lower_value=1, lower_grad_y=2, lower_hvp=5, lower_jvp=1
    )
    assert view.samples == view.counts  # one sample a level


def test_samples_of_a_finite_sum():
    view = CountedProblem(nbo.problems.BinaryLogistic(*logistic_data(n=60, n_val=40)))
    x, y = np.zeros(5), np.zeros(5)
    view.upper_grad(x, y)
    view.lower_model(x, y).hvp(np.ones((2, 5)))
    assert view.samples == nbo.OracleCounts(upper_grad=40, lower_hvp=120)


@pytest.mark.parametrize(
    ("oracle", "returned", "message"),
    [
        ("lower_hvp", np.zeros(4), r"lower_hvp: returned.* shape \(4,\).* expected .*\(3,\)"),
        ("lower_hvp", np.zeros((3, 3)), r"lower_hvp: returned.*\(3, 3\)"),
        ("lower_grad_y", np.zeros((3, 1)), r"lower_grad_y: returned an array of shape \(3, 1\).*expected shape \(3,\)"),
        ("lower_jvp", np.zeros(3), r"lower_jvp: returned an array of shape \(3,\).*expected shape \(2,\)"),
        ("upper_grad", (np.zeros(3), np.zeros(3)), r"upper_grad \(first part\): returned an array of shape \(3,\)"),
        ("upper_grad", np.zeros(3), r"upper_grad: returned ndarray; expected a pair"),
        ("upper_grad", None, r"upper_grad: returned NoneType; expected a pair"),
        ("upper_value", np.zeros(2), r"upper_value: returned ndarray of shape \(2,\)"),
        ("upper_value", "one", r"upper_value: returned str"),
        ("lower_grad_y", np.zeros(3, dtype=complex), r"lower_grad_y: returned an array .*complex128"),
        ("lower_grad_y", None, r"lower_grad_y: returned .* shape \(\)"),
    ],
)
def test_wrong_returns_are_named(oracle, returned, message):
    problem = Overriding(**{oracle: lambda *a: returned})
    with pytest.raises((TypeError, ValueError), match=message):
        nbo.minimize(problem, np.zeros(2), max_iter=2)


@pytest.mark.parametrize("oracle", ["upper_value", "upper_grad", "lower_grad_y", "lower_hvp", "lower_jvp"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_named(oracle, bad):
    def spoilt(*arguments):
        good = getattr(Overriding().inner, oracle)(*arguments)
        return (bad * good[0], good[1]) if isinstance(good, tuple) else good * 0 + bad

    with pytest.raises(ValueError, match=rf"{oracle}.* returned a value that is not finite"):
        nbo.minimize(Overriding(**{oracle: spoilt}), np.ones(2), max_iter=2, options={"step_size": 0.1})


def test_blame_depends_on_the_size_of_the_arguments():
    view = CountedProblem(Overriding(upper_value=lambda x, y: np.nan))
    for size, moderate in ((1.0, True), (1e9, False)):
        with pytest.raises(NonFiniteOracleError, match="upper_value") as caught:
            view.upper_value(np.full(2, size), np.zeros(3))
        assert caught.value.moderate is moderate


def test_an_oracle_that_writes_into_its_arguments_fails():
    def spoil(x, y):
        y += 1
        return y

    with pytest.raises(ValueError, match="read-only"):
        nbo.minimize(Overriding(lower_grad_y=spoil), np.zeros(2), max_iter=1)


def test_a_problem_may_reuse_its_buffers():
    buffer = np.empty(3)
    inner = Overriding().inner

    def reuse(x, y, v):
        buffer[:] = inner.lower_hvp(x, y, v)
        return buffer

    first = nbo.minimize(Overriding(lower_hvp=reuse), np.zeros(2), max_iter=7, tol=0)
    second = nbo.minimize(Overriding(), np.zeros(2), max_iter=7, tol=0)
    np.testing.assert_array_equal(first.x, second.x)


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("dim_x", None, "has no dim_x"),
        ("dim_y", 2.0, r"problem.dim_y: found 2.0 \(float\)"),
        ("dim_y", 0, "problem.dim_y: found 0"),
        ("dtype", np.dtype(int), "problem.dtype: found dtype.'int64'."),
    ],
)
def test_bad_dimensions(attribute, value, message):
    problem = Overriding()
    setattr(problem, attribute, value)
    with pytest.raises((TypeError, ValueError), match=message):
        nbo.minimize(problem, np.zeros(2))


def test_no_problem_at_all():
    with pytest.raises(TypeError, match="problem: found str; expected a BilevelProblem"):
        nbo.minimize("problem", np.zeros(2))


def test_a_model_of_the_problems_own_is_blamed_by_name():
    class Mine(nbo.LowerModel):
        def hvp(self, V):
            return V[0]

    class WithModel(Overriding):
        def lower_model(self, x, y):
            return Mine(self, x, y)

    with pytest.raises(ValueError, match=r"Mine.hvp: returned an array of shape \(3,\).*expected shape \(3, 3\)"):
        nbo.minimize(WithModel(), np.zeros(2))


def test_what_is_no_lower_model():
    class WithModel(Overriding):
        def lower_model(self, x, y):
            return None

    with pytest.raises(TypeError, match="lower_model: returned NoneType; expected a LowerModel"):
        nbo.minimize(WithModel(), np.zeros(2))


@pytest.mark.parametrize("oracle", ["lower_grad_y", "lower_hvp"])
def test_masked_returns_are_refused(oracle):
    masked = np.ma.masked_less(np.array([1.0, -1.0, 2.0]), 0)
    with pytest.raises(ValueError, match=f"{oracle}: found a masked array"):
        nbo.minimize(Overriding(**{oracle: lambda *a: masked}), np.zeros(2))
