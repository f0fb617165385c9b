"""Ridge: closed forms, scikit-learn, and its targets."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from reference_problems import N_VAL, C, LinearCase, N, P
from sklearn.linear_model import Ridge as SklearnRidge

import nbo

CASE = LinearCase("targets")
A, B, A_VAL, B_VAL = CASE.data
WEIGHTS = np.random.default_rng(1).uniform(0.2, 3, N)


def ridge(b=B, b_val=B_VAL, **options):
    return nbo.problems.Ridge(A, b, A_VAL, b_val, **options)


def solved(problem, x):
    return nbo.solve_lower_level(problem, np.atleast_1d(x), tol=1e-12).y


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("columns", [0, slice(None)], ids=["one", "several"])
def test_agrees_with_scikit_learn(columns, weights, intercept):
    """alpha = n e^x, with n the sum of the weights."""
    total, x = (N if weights is None else weights.sum()), -1.7
    b, b_val = B[:, columns], B_VAL[:, columns]
    problem = ridge(b, b_val, penalty="shared", sample_weight=weights, fit_intercept=intercept)
    model = SklearnRidge(alpha=total * np.exp(x), fit_intercept=intercept, solver="cholesky").fit(A, b, weights)
    y = solved(problem, x)
    coef, offsets = problem.coefficients(y)
    np.testing.assert_allclose(coef, np.atleast_2d(model.coef_), rtol=0, atol=1e-9)
    np.testing.assert_allclose(offsets, np.broadcast_to(model.intercept_, offsets.shape), rtol=0, atol=1e-9)
    np.testing.assert_allclose(problem.decision_function(A_VAL, y), model.predict(A_VAL), rtol=0, atol=1e-9)


@pytest.mark.parametrize("penalty", ["feature", "target", "target-feature"])
def test_the_lower_level_has_its_closed_form(penalty):
    """(A'A/n + diag(e^x)) w = A'b/n, a target at a time."""
    problem = ridge(penalty=penalty)
    x = np.linspace(-2, 1, problem.dim_x)
    groups = {"feature": np.tile(np.arange(P), (C, 1)), "target": np.repeat(np.arange(C), P).reshape(C, P)}
    factors = np.exp(x)[groups.get(penalty, np.arange(C * P).reshape(C, P))]
    W = [np.linalg.solve(A.T @ A / N + np.diag(f), A.T @ b / N) for f, b in zip(factors, B.T, strict=True)]
    np.testing.assert_allclose(solved(problem, x), np.ravel(W), rtol=0, atol=1e-10)


def test_the_hypergradient_has_its_closed_form():
    """One penalty for all: grad Phi = -e^x w'(A'A/n + e^x)^{-1} A_val'(A_val w - b_val)/n_val, summed over targets."""
    problem, x = ridge(penalty="shared"), -0.8
    H = A.T @ A / N + np.exp(x) * np.eye(P)
    W = np.linalg.solve(H, A.T @ B / N)
    slopes = A_VAL.T @ (A_VAL @ W - B_VAL) / N_VAL
    expected = -np.exp(x) * np.sum(W * np.linalg.solve(H, slopes))
    found = nbo.hypergradient(problem, [x], tol=1e-11)
    np.testing.assert_allclose(found.grad, [expected], rtol=0, atol=1e-9)


def test_targets_without_shared_penalties_are_problems_of_their_own():
    both, y = ridge(penalty="target"), np.linspace(-1, 1, C * P)
    x, W = np.array([-1.0, 0.0, 0.5]), y.reshape(C, P)
    for r in range(C):
        one = ridge(B[:, r], B_VAL[:, r], penalty="shared")
        np.testing.assert_allclose(
            both.lower_grad_y(x, y).reshape(C, P)[r], one.lower_grad_y(x[r : r + 1], W[r]), atol=1e-13
        )
        np.testing.assert_allclose(both.lower_jvp(x, y, y)[r], one.lower_jvp(x[r : r + 1], W[r], W[r])[0])


@pytest.mark.parametrize("noise_variance", [0.25, 1.0, 9.0])
def test_the_noise_variance_weighs_the_prior(noise_variance):
    problem, without = ridge(prior=(0.5, 2.0), noise_variance=noise_variance), ridge(noise_variance=noise_variance)
    x, y = np.linspace(-1, 1, P), np.ones(C * P)
    added = noise_variance * np.sum((x - 0.5) ** 2) / (2 * 4 * N_VAL)
    assert problem.upper_value(x, y) - without.upper_value(x, y) == pytest.approx(added)
    np.testing.assert_allclose(problem.upper_grad(x, y)[0], noise_variance * (x - 0.5) / (4 * N_VAL))
    assert problem.upper_uses_x and not without.upper_uses_x


def test_targets_may_be_a_vector_or_a_column():
    problems = [ridge(B[:, 0], B_VAL[:, :1]), ridge(B[:, :1], B_VAL[:, 0]), ridge(B[:, 0].tolist(), B_VAL[:, 0])]
    assert len({problem.fingerprint() for problem in problems}) == 1
    assert problems[0].dim_y == P and problems[0].decision_function(A_VAL, np.ones(P)).shape == (N_VAL,)
    sizes = {"feature": P, "shared": 1, "target": C, "target-feature": C * P}
    assert {name: ridge(penalty=name).dim_x for name in sizes} == sizes


def test_integer_targets_become_floats():
    problem = ridge(np.arange(N), np.arange(N_VAL))
    assert problem.b.dtype == np.float64
    y = np.ones(P)
    expected = np.mean((A @ y - np.arange(N)) ** 2) / 2 + P * np.exp(-1) / 2
    assert problem.lower_value(np.full(P, -1.0), y) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"b": B[1:]}, r"b: found shape \(39, 3\); expected \(40,\) or \(40, q\)"),
        ({"b": B[:, :, None]}, r"b: found shape \(40, 3, 1\)"),
        ({"b": B[:, :0]}, r"b: found shape \(40, 0\)"),
        ({"b_val": B_VAL[:, :2]}, "b_val: found 2 targets; expected 3, as in b"),
        ({"b_val": B_VAL[:, 0]}, "b_val: found 1 targets; expected 3, as in b"),
        ({"b": np.where(B > 1, np.nan, B)}, "b: found nan"),
        ({"b": B.astype(str)}, "b: found an array of type <U.*; expected targets"),
        ({"b": np.ma.masked_less(B, 0)}, "b: found a masked array"),
        ({"noise_variance": 0}, "noise_variance: found 0"),
        ({"noise_variance": -1.0}, "noise_variance: found -1"),
        ({"noise_variance": np.nan}, "noise_variance: found nan"),
        ({"penalty": "class"}, "penalty: found 'class'; expected 'feature', 'shared', 'target', 'target-feature' or"),
    ],
)
def test_bad_arguments(changes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        ridge(**changes)


def test_targets_too_large_for_the_type_of_the_data():
    for convert in (np.asarray, sp.csr_matrix):
        with pytest.raises(ValueError, match=r"b \(as float32, the type of A\): found -?inf"):
            nbo.problems.Ridge(convert(A.astype(np.float32)), B * 1e300, A_VAL, B_VAL)
