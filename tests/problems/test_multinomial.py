"""MultinomialLogistic: its labels, and its agreement with scikit-learn and with the binary model."""

from __future__ import annotations

import numpy as np
import pytest
from reference_problems import N_VAL, C, LinearCase, N
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

import nbo

CASE = LinearCase("multinomial")
A, B, A_VAL, B_VAL = CASE.data
WEIGHTS = np.random.default_rng(1).uniform(0.2, 3, N)


def multinomial(b=B, b_val=B_VAL, **options):
    return nbo.problems.MultinomialLogistic(A, b, A_VAL, b_val, **options)


def solved(problem, x, tol=1e-10):
    return nbo.solve_lower_level(problem, np.atleast_1d(x), tol=tol).y


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("strength", [0.1, 10.0])
def test_agrees_with_scikit_learn(strength, weights, intercept):
    """e^x = 1/(C n), with n the sum of the weights."""
    total = N if weights is None else weights.sum()
    problem = multinomial(penalty="shared", sample_weight=weights, fit_intercept=intercept)
    model = LogisticRegression(C=strength, fit_intercept=intercept, tol=1e-11, max_iter=10_000)
    model.fit(A, B, sample_weight=weights)
    y = solved(problem, -np.log(strength * total))
    coef, offsets = problem.coefficients(y)
    np.testing.assert_allclose(coef, model.coef_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(offsets - offsets.mean(), model.intercept_ - np.mean(model.intercept_), atol=1e-6)
    np.testing.assert_array_equal(problem.predict(A_VAL, y), model.predict(A_VAL))
    np.testing.assert_allclose(
        softmax(problem.decision_function(A_VAL, y), axis=1), model.predict_proba(A_VAL), atol=1e-6
    )
    assert abs(offsets.sum()) < 1e-8


@pytest.mark.parametrize("intercept", [False, True])
def test_two_classes_are_the_binary_model(intercept):
    """w_2 - w_1 is y where x is by log 2 smaller; loss, model and hypergradient are then the same."""
    labels = [np.where(b > 0, 1, 0) for b in (B, B_VAL)]
    signs = [2 * b - 1 for b in labels]
    options = {"penalty": "shared", "fit_intercept": intercept, "bounds": (-20, 20)}
    two = nbo.problems.MultinomialLogistic(A, labels[0], A_VAL, labels[1], **options)
    binary = nbo.problems.BinaryLogistic(A, signs[0], A_VAL, signs[1], **options)
    x = np.array([-1.3])
    W = solved(two, x).reshape(2, -1)
    y = solved(binary, x - np.log(2))
    np.testing.assert_allclose(W[1] - W[0], y, rtol=0, atol=1e-8)
    np.testing.assert_allclose(W[0], -W[1], rtol=0, atol=1e-8)
    assert two.upper_value(x, W.ravel()) == pytest.approx(binary.upper_value(x, y), abs=1e-9)
    assert two.lower_value(x, W.ravel()) == pytest.approx(binary.lower_value(x - np.log(2), y), abs=1e-9)
    gradients = [nbo.hypergradient(p, z, tol=1e-10).grad for p, z in ((two, x), (binary, x - np.log(2)))]
    np.testing.assert_allclose(gradients[0], gradients[1], rtol=0, atol=1e-8)
    assert np.abs(gradients[0]).max() > 1e-3


LABELS = {
    "strings": np.array(["ant", "bee", "cat"]),
    "objects": np.array(["ant", "bee", "cat"], dtype=object),
    "integers": np.array([-7, 0, 12]),
    "floats": np.array([0.5, 1.5, 2.0]),
    "unsigned": np.array([1, 2, 250], dtype=np.uint8),
}


@pytest.mark.parametrize("names", LABELS)
def test_labels_of_any_type_are_numbered_in_order(names):
    names = LABELS[names]
    problem, plain = multinomial(names[B], names[B_VAL]), multinomial()
    assert problem.classes.tolist() == names.tolist()
    x, y, _ = CASE.point()
    x = x[: problem.dim_x]
    assert problem.lower_value(x, y) == plain.lower_value(x, y)
    found = problem.predict(A_VAL, y)
    assert found.dtype == problem.classes.dtype
    np.testing.assert_array_equal(found, names[plain.predict(A_VAL, y)])


def test_numbers_as_objects_are_numbers():
    """As tables with mixed columns give them."""
    for options in ({}, {"n_classes": 3}):
        problem = multinomial(B.astype(object), B_VAL, **options)
        assert problem.classes.tolist() == [0, 1, 2]


def test_names_of_classes_tell_problems_apart():
    """Their numbers are the same, and what they predict is not."""
    names = np.array(["ant", "bee", "cat"])
    assert multinomial(names[B], names[B_VAL]).fingerprint() != multinomial().fingerprint()


def test_booleans_are_labels():
    problem = multinomial(B > 0, B_VAL > 0)
    assert problem.classes.tolist() == [False, True]
    assert problem.predict(A_VAL, np.zeros(problem.dim_y)).dtype == bool


@pytest.mark.parametrize("n_classes", [3, np.int64(3)])
def test_a_number_of_classes(n_classes):
    problem = multinomial(B.astype(float), B_VAL, n_classes=n_classes)
    assert (problem.classes.tolist(), problem.dim_x, problem.dim_y) == ([0, 1, 2], C, 4 * C)
    assert problem.fingerprint() == multinomial().fingerprint()


@pytest.mark.parametrize(
    ("b", "b_val", "message"),
    [
        (np.minimum(B, 1), B_VAL, r"b: the training rows have no sample of \{2\}; the model keeps all 3 classes"),
        (B, np.maximum(B_VAL, 1), r"b_val: the validation rows have no sample of \{0\}; the model keeps all 3 classes"),
    ],
)
def test_a_class_that_a_part_lacks_is_kept_with_a_warning(b, b_val, message):
    for n_classes in (None, 3):
        with pytest.warns(UserWarning, match=message) as caught:
            problem = multinomial(b, b_val, n_classes=n_classes)
        assert problem.classes.tolist() == [0, 1, 2]
        y = solved(problem, np.full(3, -1.0))
        assert np.isfinite(problem.upper_value(np.full(3, -1.0), y))
        assert np.linalg.norm(problem.lower_grad_y(np.full(3, -1.0), y)) < 1e-8
    assert len(caught) == 1


def test_both_parts_may_lack_classes():
    with pytest.warns(UserWarning) as caught:
        problem = multinomial(n_classes=5)
    assert [str(w.message).split(":")[0] for w in caught] == ["b", "b_val"]
    assert all("{3, 4}" in str(w.message) for w in caught)
    assert problem.dim_y == 20


MIXED = np.array(["a", 1] * (N // 2), dtype=object)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"b": B[:-1]}, r"b: found shape \(39,\); expected \(40,\), one label a row"),
        ({"b": B[:, None]}, r"b: found shape \(40, 1\)"),
        ({"b_val": B_VAL[1:]}, r"b_val: found shape \(29,\)"),
        ({"b": 0 * B, "b_val": 0 * B_VAL}, "b: found only the label 0; expected at least two classes"),
        ({"b": np.where(B > 1, np.nan, B)}, "b: found nan"),
        ({"b_val": np.where(B_VAL > 1, np.inf, B_VAL)}, "b_val: found inf"),
        ({"b": np.where(B > 1, np.nan, B.astype(object))}, "b: found nan"),
        ({"b": MIXED, "b_val": MIXED[:N_VAL]}, "found labels of mixed types; expected numbers or strings"),
        ({"b": MIXED, "n_classes": 3}, "b: found labels of mixed types"),
        ({"b_val": B_VAL.astype(str)}, "b_val: found labels of type <U.*; expected int64, as in b"),
        ({"b": B.astype(complex)}, "b: found type complex128; expected numbers or strings"),
        ({"b": np.ma.masked_less(B, 1)}, "b: found a masked array"),
        ({"n_classes": 2}, r"b: found labels \{0, 1, 2\}; expected 0 .. 1, as n_classes says"),
        ({"b": B - 1, "n_classes": 3}, r"b: found labels \{-1, 0, 1\}; expected 0 .. 2"),
        ({"b_val": B_VAL + 1, "n_classes": 3}, r"b_val: found labels \{1, 2, 3\}; expected 0 .. 2"),
        ({"b": B + 0.5, "n_classes": 3}, r"b: found labels \{0.5, 1.5, 2.5\}"),
        ({"b": B.astype(str), "b_val": B_VAL.astype(str), "n_classes": 3}, r"b: found labels \{'0', '1', '2'\}"),
        ({"n_classes": 1}, "n_classes: found 1"),
        ({"n_classes": 3.0}, "n_classes: found 3.0"),
        ({"n_classes": "3"}, "n_classes: found '3'"),
        ({"penalty": "target"}, "penalty: found 'target'; expected 'feature', 'shared', 'class', 'class-feature' or"),
        ({"penalty": np.zeros((4, 3), int)}, r"penalty: found an array of shape \(4, 3\) .* \(3, 4\), one an entry"),
    ],
)  # fmt: skip
def test_bad_arguments(changes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        multinomial(**changes)


def test_dimensions_and_the_default():
    sizes = {"class": 3, "feature": 4, "shared": 1, "class-feature": 12}
    assert {name: multinomial(penalty=name).dim_x for name in sizes} == sizes
    assert multinomial().dim_x == 3 and multinomial(fit_intercept=True).dim_y == 15
    np.testing.assert_allclose(multinomial().bounds, [[-np.log(N) - 9.2] * 3, [12.0] * 3])


def test_intercepts_are_unique_and_change_no_prediction():
    """1/2 (sum of intercepts)^2 pins what no data do."""
    problem = multinomial(penalty="shared", fit_intercept=True)
    x, (_, y, _) = np.array([-1.0]), LinearCase("multinomial", intercept=True).point()
    shift = np.zeros((C, 5))
    shift[:, -1] = 0.7
    moved = y + shift.ravel()
    assert problem.upper_value(x, moved) == pytest.approx(problem.upper_value(x, y))
    sums = [np.sum(problem.coefficients(z)[1]) ** 2 / 2 for z in (y, moved)]
    assert problem.lower_value(x, moved) - problem.lower_value(x, y) == pytest.approx(sums[1] - sums[0])
