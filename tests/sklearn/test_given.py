"""Bad input of the estimators: each refusal names the right argument, before anything is fitted."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

from nbo.sklearn import BilevelLogisticRegression, BilevelRidge, LabelCleaner

TUNERS = [BilevelLogisticRegression, BilevelRidge]
CLASSIFIERS = [BilevelLogisticRegression, LabelCleaner]
ALL = [*TUNERS, LabelCleaner]


class Splitter:
    """A splitter that gives what it is told to."""

    def __init__(self, given):
        self.given = given

    def split(self, X, y=None, groups=None):
        return self.given


def refusal(estimator, *args, **fit):
    """Return how a fit is refused; any warning before it is an error too."""
    with pytest.raises((TypeError, ValueError)) as caught:
        estimator.fit(*args, **fit)
    return caught.value


def targets(estimator, rows):
    X, y = rows
    return y + 0.1 * X[:, 0] if estimator is BilevelRidge else y


@pytest.mark.parametrize(
    "cv",
    [
        KFold,
        np.array(3),
        Splitter(3),
        Splitter([]),
        Splitter([([0, 1, 200], [3])]),
        Splitter([([0, -1], [3])]),
        Splitter([([0.0, 1.0], [3.0])]),
        Splitter([1]),
        Splitter([([], [1])]),
        KFold(200),
        GroupKFold(2),
        0.999999,
        0.0,
        np.nan,
        5.0,
        10**30,
        1j,
        {0: ([0], [1])},
        {1},
        [],
        ["ab"],
        [([[0], [1, 2]], [3])],
        [([0, 0], [3])],
        [([0], [0])],
        b"5",
    ],
    ids=lambda cv: repr(cv)[:30],
)
@pytest.mark.parametrize("estimator", TUNERS)
def test_cv(rows, estimator, cv):
    error = refusal(estimator(cv=cv, random_state=0), rows[0], targets(estimator, rows))
    assert str(error).startswith("cv: found ") and "; expected " in str(error)


@pytest.mark.parametrize("cv", [KFold(200), GroupKFold(2), StratifiedKFold(3), Splitter(3), Splitter([1])])
def test_errors_of_a_splitter_are_chained(rows, cv):
    error = refusal(BilevelRidge(cv=cv), rows[0], targets(BilevelRidge, rows))
    assert str(error).startswith("cv: found ")
    assert isinstance(error.__cause__, (TypeError, ValueError))


@pytest.mark.parametrize("value", ["x", -1, 1.5, True, 2**32, [1], np.random.default_rng(0)], ids=str)
@pytest.mark.parametrize("estimator", ALL)
@pytest.mark.parametrize("needed", [True, False])
def test_random_state(rows, estimator, value, needed):
    fit = {}
    if not needed:
        names = ("X_trusted", "y_trusted") if estimator is LabelCleaner else ("X_val", "y_val")
        fit = dict(zip(names, rows, strict=True))
    error = refusal(estimator(random_state=value), *rows, **fit)
    assert str(error).startswith("random_state: found ") and "; expected None, an integer" in str(error)


@pytest.mark.parametrize(
    "penalty",
    [
        None,
        3,
        {"a": 1},
        [],
        ["a"] * 6,
        [0.0] * 6,
        [0] * 5,
        [[0] * 6] * 3,
        [-1] * 6,
        [0, 0, 0, 0, 0, 2],
        [False] * 6,
        [0, 1, 2, 3, 4, [5]],
        "x",
        b"shared",
        [0, 0, 0, 0, 0, np.nan],
    ],
    ids=lambda penalty: repr(penalty)[:30],
)
@pytest.mark.parametrize(("estimator", "outputs"), [(BilevelLogisticRegression, "class"), (BilevelRidge, "output")])
def test_penalty_lists_every_form(rows, estimator, outputs, penalty):
    text = str(refusal(estimator(penalty, cv=3), *rows))
    assert text.startswith("penalty: found ")
    words = ("shared", "feature", outputs, f"{outputs}-feature")
    assert f"expected {', '.join(map(repr, words))}, or an array of group ids 0 .. G-1" in text
    assert (
        "integers of shape (p,), one a feature, or (c, p)" in text or "of shape (6,), one a feature, or (1, 6)" in text
    )


@pytest.mark.parametrize("prior", [1e300, 1e-300, np.nan, np.inf, -1, 0, "x", True, (0, 1), np.ones(1), 1j], ids=str)
@pytest.mark.parametrize("estimator", TUNERS)
def test_prior(rows, estimator, prior):
    text = str(refusal(estimator("feature", penalty_prior=prior), *rows))
    assert text.startswith("penalty_prior: found ") and "; expected 'auto', None" in text


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("estimator", TUNERS)
def test_extreme_priors_that_are_allowed(rows, estimator, dtype):
    X, y = rows[0].astype(dtype), targets(estimator, rows)
    tight = estimator("feature", penalty_prior=1e-50, cv=3, random_state=0, max_iter=30).fit(X, y)
    assert np.ptp(tight.log_penalty_) < 1e-3
    wide = estimator("feature", penalty_prior=1e50, cv=3, random_state=0, max_iter=30).fit(X, y)
    assert np.isfinite(wide.coef_).all() and np.ptp(wide.log_penalty_) > 1


BAD_Y = {
    "mixed": np.array(["a", 1] * 40, dtype=object),
    "None": np.array([None, 0] * 40, dtype=object),
    "NaN objects": np.array([np.nan, 1] * 40, dtype=object),
    "NaN": np.where(np.arange(80) == 3, np.nan, np.arange(80) % 2),
    "infinite": np.where(np.arange(80) == 3, np.inf, np.arange(80) % 2),
    "no columns": np.zeros((80, 0)),
    "complex": np.arange(80) % 2 + 1j,
    "short": np.arange(79) % 2,
    "empty": [],
    "3-D": np.zeros((80, 1, 1)),
    "sparse": sp.csr_array(np.ones((80, 1))),
    "number": 3,
    "ragged": [[1], [2, 3]] * 40,
    "dict": {"a": 1},
    "masked": np.ma.masked_equal(np.arange(80) % 3, 2),
}


@pytest.mark.parametrize("kind", BAD_Y)
@pytest.mark.parametrize("estimator", ALL)
def test_y(rows, estimator, kind):
    X, y = rows
    text = str(refusal(estimator(), X, BAD_Y[kind]))
    assert text.startswith("y: found ") and "; expected " in text
    further = "trusted" if estimator is LabelCleaner else "val"
    text = str(refusal(estimator(), X, y, **{f"X_{further}": X, f"y_{further}": BAD_Y[kind]}))
    assert text.startswith(f"y_{further}: found ") and "; expected " in text


@pytest.mark.parametrize("y", [np.array(["a", "b"] * 40), np.array(["a", "b"] * 40, dtype=object)])
def test_targets_are_numbers(rows, y):
    assert str(refusal(BilevelRidge(), rows[0], y)).startswith("y: found ")
    assert str(refusal(BilevelRidge(), *rows, X_val=rows[0], y_val=y)).startswith("y_val: found ")
    times = np.arange(80).astype("datetime64[s]")
    assert str(refusal(BilevelRidge(), rows[0], times)).startswith("y: found ")


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_labels_are_no_measurements(rows, estimator):
    assert str(refusal(estimator(), rows[0], rows[0][:, 0])).startswith("y: found bad input (Unknown label type")


@pytest.mark.parametrize("missing", ["Int64", "string", "category"])
@pytest.mark.parametrize("estimator", ALL)
def test_missing_entries_of_pandas(rows, estimator, missing):
    pandas = pytest.importorskip("pandas")
    y = pandas.Series(rows[1]).astype("string" if missing == "string" else "Int64").mask(rows[1] > 0).astype(missing)
    text = str(refusal(estimator(), rows[0], y))
    assert text.startswith("y: found bad input (") and ("<NA> at index" in text or "NaN" in text)


@pytest.mark.parametrize("estimator", ALL)
def test_nothing_without_y(rows, estimator):
    assert str(refusal(estimator(), rows[0], None)).startswith("y: found bad input (None")


BAD_X = {
    "text": np.full((80, 6), "a"),
    "complex": np.ones((80, 6)) * 1j,
    "3-D": np.ones((1, 80, 6)),
    "1-D": np.ones(80),
    "no rows": np.ones((0, 6)),
    "no columns": np.ones((80, 0)),
    "number": 3,
    "NaN": np.full((80, 6), np.nan),
    "None objects": np.full((80, 6), None),
    "masked": np.ma.masked_equal(np.arange(480).reshape(80, 6), 2),
}


@pytest.mark.parametrize("kind", BAD_X)
@pytest.mark.parametrize("estimator", ALL)
def test_X(rows, estimator, kind):
    X, y = rows
    text = str(refusal(estimator(), BAD_X[kind], y))
    assert text.startswith("X: found ") and "; expected " in text
    further = "trusted" if estimator is LabelCleaner else "val"
    text = str(refusal(estimator(), X, y, **{f"X_{further}": BAD_X[kind], f"y_{further}": y}))
    assert text.startswith(f"X_{further}: found ") and "; expected " in text


@pytest.mark.parametrize("container", [np.array, sp.csr_array])
@pytest.mark.parametrize(("dtype", "size"), [(np.float64, 1e150), (np.float64, 1e300), (np.float32, 1e18)])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("estimator", ALL)
def test_features_whose_products_overflow(rows, estimator, sign, dtype, size, container):
    X, y = rows[0].astype(dtype), rows[1]
    large = X.copy()
    large[3, 2] = sign * size
    text = str(refusal(estimator(), container(large), y))
    assert text.startswith(f"X: found a value of size {size:.3g}; expected at most 1e+") and "standardise" in text
    further = "trusted" if estimator is LabelCleaner else "val"
    text = str(refusal(estimator(), container(X), y, **{f"X_{further}": container(large), f"y_{further}": y}))
    assert text.startswith(f"X_{further}: found a value of size {size:.3g}; expected at most")


@pytest.mark.parametrize("estimator", ALL)
def test_wide_rows_beside_narrow_ones(rows, estimator):
    X, y = rows
    further = "trusted" if estimator is LabelCleaner else "val"
    fit = {f"X_{further}": X * 1e300, f"y_{further}": y}
    assert f"X_{further}: found a value" in str(refusal(estimator(), X.astype(np.float32), y, **fit))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("dtype", "size"), [(np.float64, 1e98), (np.float32, 1e11)])
@pytest.mark.parametrize("estimator", TUNERS)
def test_large_features_that_are_allowed(rows, estimator, dtype, size):
    X, y = (rows[0] * size).astype(dtype), targets(estimator, rows)
    model = estimator(cv=3, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.5 and np.isfinite(model.report_.shared_loss)


BAD_WEIGHTS = {
    "short": np.ones(79),
    "2-D": np.ones((80, 1)),
    "negative": -np.ones(80),
    "NaN": np.where(np.arange(80) == 3, np.nan, 1.0),
    "infinite": np.where(np.arange(80) == 3, np.inf, 1.0),
    "zero": np.zeros(80),
    "text": ["a"] * 80,
    "complex": np.ones(80) * 1j,
    "1e308": np.full(80, 1e308),
    "1e-308": np.full(80, 1e-308),
    "far apart": np.where(np.arange(80) == 3, 1e-250, 1.0),
    "empty": [],
    "ragged": [[1], [2, 3]] * 40,
}


@pytest.mark.parametrize("kind", BAD_WEIGHTS)
@pytest.mark.parametrize("estimator", ALL)
def test_weights(rows, estimator, kind):
    text = str(refusal(estimator(), *rows, sample_weight=BAD_WEIGHTS[kind]))
    assert text.startswith("sample_weight: found ") and "; expected " in text
    if estimator is not LabelCleaner:
        X, y = rows
        text = str(refusal(estimator(), X, y, X_val=X, y_val=y, sample_weight_val=BAD_WEIGHTS[kind]))
        assert text.startswith("sample_weight_val: found ") and "; expected " in text


def test_weights_that_vanish_in_float32(rows):
    X, y = rows[0].astype(np.float32), rows[1]
    weights = np.where(np.arange(80) == 3, 1e-60, 1.0)
    text = str(refusal(BilevelLogisticRegression(), X, y, sample_weight=weights))
    assert text.startswith("sample_weight: found weights from 1e-60 to 1; expected")


@pytest.fixture(scope="module")
def measured(rows):
    """Rows, two targets, and the model of them."""
    y = rows[0][:, :2] * [1.0, 3.0] + np.random.default_rng(2).standard_normal((80, 2))
    return rows[0], y, BilevelRidge(cv=3, random_state=0).fit(rows[0], y)


@settings(max_examples=12, deadline=None)
@given(exponent=st.floats(-100, 100), sign=st.sampled_from([1, -1]))
def test_targets_in_any_unit(measured, exponent, sign):
    X, y, plain = measured
    c = sign * 10.0**exponent
    model = BilevelRidge(cv=3, random_state=0).fit(X, c * y)
    np.testing.assert_allclose(model.coef_, c * plain.coef_, rtol=1e-6)
    np.testing.assert_allclose(model.intercept_, c * plain.intercept_, rtol=1e-6)
    np.testing.assert_allclose(model.penalty_, plain.penalty_, rtol=1e-6)
    for name in ("untuned_loss", "shared_loss"):
        assert getattr(model.report_, name) == pytest.approx(c**2 * getattr(plain.report_, name), rel=1e-6)
    np.testing.assert_allclose(
        model.validation_path_["shared"]["value"], plain.validation_path_["shared"]["value"], rtol=1e-6
    )


def test_large_weights_of_large_targets(measured):
    X, y, _ = measured
    model = BilevelRidge(cv=3, random_state=0).fit(X, 1e140 * y, sample_weight=np.full(80, 1e90))
    assert np.isfinite(model.coef_).all() and np.isfinite(model.report_.shared_loss)


@pytest.mark.parametrize(
    ("dtype", "c"), [(np.float64, 1e160), (np.float64, 1e-160), (np.float32, 1e40), (np.float32, 1e-40)]
)
def test_targets_beyond_any_report(measured, dtype, c):
    X, y, _ = measured
    text = str(refusal(BilevelRidge(), X.astype(dtype), c * y))
    assert text.startswith("y: found ") and "; expected " in text and "unit" in text
    if c > 1:
        assert str(refusal(BilevelRidge(), X.astype(dtype), y, X_val=X, y_val=c * y)).startswith("y_val: found ")
    with np.errstate(over="ignore"):
        single = (1e40 * y).astype(np.float32)
    assert str(refusal(BilevelRidge(), X.astype(dtype), single)).startswith("y: found ")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("max_iter", [0, -1, 1.5, "x", True, None]),
        ("tol", [0, -1, np.nan, np.inf, "x", None, True]),
        ("verbose", ["x", -1, 1.5, None]),
        ("refit", ["x", 1, None]),
        ("fit_intercept", ["x", 1, None]),
    ],
)
@pytest.mark.parametrize("estimator", ALL)
def test_settings(rows, estimator, name, values):
    for value in values:
        text = str(refusal(estimator(**{name: value}), *rows))
        assert text.startswith(f"{name}: found ") and "; expected " in text


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("ridge", [0, -1, np.nan, "x", None, True, 1e300, 1e-300]),
        ("trusted_fraction", [0, 1, -1, np.nan, "x", None, True]),
    ],
)
def test_settings_of_the_cleaner(rows, name, values):
    for value in values:
        text = str(refusal(LabelCleaner(**{name: value}), *rows))
        assert text.startswith(f"{name}: found ") and "; expected " in text


def test_a_tolerance_below_rounding(rows):
    with pytest.warns(ConvergenceWarning, match="accept a larger tol: rounding limits it"):
        BilevelLogisticRegression(tol=1e-300, random_state=0).fit(*rows)


@pytest.mark.parametrize(
    ("share", "found"), [(1e-9, "1 of 80 different rows is"), (0.2, "16 of 80 different rows are")]
)
def test_the_cleaner_tells_how_many_rows_it_holds_out(rows, share, found):
    with pytest.warns(UserWarning, match=f"X_trusted: found None; {found} held out"):
        LabelCleaner(trusted_fraction=share, random_state=0).fit(*rows)


def test_columns_of_labels_are_warned_of_once(rows):
    X, y = rows
    column = y[:, None]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cleaner = LabelCleaner(random_state=0).fit(X, column, X_trusted=X, y_trusted=column)
    assert [w.category for w in caught] == [DataConversionWarning]
    plain = LabelCleaner(random_state=0).fit(X, y, X_trusted=X, y_trusted=y)
    np.testing.assert_array_equal(cleaner.weights_, plain.weights_)
