"""Small problems of every class on which constants, boxes and certificates are tried, with a start each."""

import numpy as np

import nbo

KAPPAS = (2, 4, 8, 16, 32)
BOX = (-2.0, 0.0)


def non_quadratic(kappa, **settings):
    """The instance in which the third power of kappa shows: one flat coordinate and one badly conditioned one."""
    return nbo.problems.NonQuadratic.family(kappa, **settings)


def rows():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 4))
    scores = A @ rng.standard_normal((4, 3)) + 0.5 * rng.standard_normal((60, 3))
    return (A[:40], scores[:40]), (A[40:], scores[40:])


def on_data(kind, **settings):
    (A, scores), (A_val, scores_val) = rows()
    if kind == "ridge":
        problem = nbo.problems.Ridge(A, scores[:, 0], A_val, scores_val[:, 0], **settings)
    elif kind == "binary":
        b, b_val = (np.where(part[:, 0] > 0, 1, -1) for part in (scores, scores_val))
        problem = nbo.problems.BinaryLogistic(A, b, A_val, b_val, **settings)
    else:
        b, b_val = scores.argmax(axis=1), scores_val.argmax(axis=1)
        if kind == "hyper-cleaning":
            return nbo.problems.HyperCleaning(A, b, A_val, b_val, ridge=0.1, **settings)
        problem = nbo.problems.MultinomialLogistic(A, b, A_val, b_val, **settings)
    problem.bounds = BOX
    return problem


ON_DATA = ("binary", "ridge", "multinomial", "hyper-cleaning")


def instance(name):
    """A problem and an x0 away from the bounds."""
    kind, _, kappa = name.partition(":")
    if kind == "quadratic":
        return nbo.problems.Quadratic.family(n=5, m=3, kappa=int(kappa)), np.zeros(3)
    if kind == "non-quadratic":
        return non_quadratic(int(kappa)), np.full(2, 0.5)
    problem = on_data(kind)
    return problem, np.full(problem.dim_x, 0.0 if kind == "hyper-cleaning" else -1.0)


FAMILIES = [f"{kind}:{kappa}" for kind in ("quadratic", "non-quadratic") for kappa in KAPPAS]
