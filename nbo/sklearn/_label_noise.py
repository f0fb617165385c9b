"""How likely a label is right, given a model of right labels: what a wrong one looks like is learnt from all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

#: A label is taken to be kept with this probability at first, and else redrawn uniformly,
_KEPT = 0.7
#: which counts as that many rows of each class in every estimate, so that rare classes do not make up their own.
_PRIOR_ROWS = 5.0
#: The estimate has converged when no probability moves further; and the most repetitions.
_TOL, _MAX_ITER = 1e-4, 200
#: The smallest probability that is told from none.
_TINY = 1e-30


def transition_matrix(probabilities: Array, codes: Array, weights: Array) -> Array:
    """Estimate by expectation-maximisation how labels go wrong.

    The right class of a row has the probabilities of a model that has not seen its label; given that class, the label
    depends on nothing else (Dawid and Skene, 1979, with one annotator). That needs no rate of noise from the user,
    and knows classes that are often taken for each other.

    Parameters
    ----------
    probabilities : ndarray
        Of the right class of each row, (n, c).
    codes : ndarray of int
        Labels as numbers of classes, (n,).
    weights : ndarray
        Of the rows, (n,).

    Returns
    -------
    ndarray
        P(label j | right class k) at [k, j], (c, c).
    """
    n_classes = probabilities.shape[1]
    start = _KEPT * np.eye(n_classes) + (1 - _KEPT) / n_classes
    by_label = np.zeros((codes.size, n_classes))
    by_label[np.arange(codes.size), codes] = weights
    transition = start
    for _ in range(_MAX_ITER):
        counts = _posterior(probabilities, codes, transition).T @ by_label + _PRIOR_ROWS * start
        following = counts / counts.sum(axis=1, keepdims=True)
        moved = float(np.abs(following - transition).max())
        transition = following
        if moved <= _TOL:
            break
    return transition


def log_odds(probabilities: Array, codes: Array, transition: Array) -> Array:
    """Return log(P(right)/P(wrong)) of labels.

    Parameters
    ----------
    probabilities : ndarray
        Of the right class of each row, (n, c).
    codes : ndarray of int
        Labels as numbers of classes, (n,).
    transition : ndarray
        How labels go wrong, (c, c).

    Returns
    -------
    ndarray
        (n,), finite.
    """
    posterior, rows = _posterior(probabilities, codes, transition), np.arange(codes.size)
    right = posterior[rows, codes]
    posterior[rows, codes] = 0.0  # not 1 - right, which has no digits left where right is nearly 1
    return np.log(right + _TINY) - np.log(posterior.sum(axis=1) + _TINY)


def log_likelihood(probabilities: Array, codes: Array, weights: Array, transition: Array) -> float:
    """Return how well a model and what is known of wrong labels explain the labels that were found.

    Parameters
    ----------
    probabilities : ndarray
        Of the right class of each row, (n, c).
    codes : ndarray of int
        Labels as numbers of classes, (n,).
    weights : ndarray
        Of the rows, (n,).
    transition : ndarray
        How labels go wrong, (c, c).

    Returns
    -------
    float
        The weighted sum of log P(label).
    """
    return float(weights @ np.log(((probabilities + _TINY) * transition.T[codes]).sum(axis=1)))


def _posterior(probabilities: Array, codes: Array, transition: Array) -> Array:
    joint = (probabilities + _TINY) * transition.T[codes]
    return joint / joint.sum(axis=1, keepdims=True)
