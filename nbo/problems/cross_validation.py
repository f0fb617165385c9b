"""The K-fold criterion of linear models with log penalties, all folds solved side by side."""

from __future__ import annotations

import copy
import warnings
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from nbo._sample_arrays import arrays_of
from nbo.problem import BilevelProblem
from nbo.problems._constants import folded_constants
from nbo.problems._fingerprint import fingerprint
from nbo.problems._fold_model import FoldModel
from nbo.problems._folds import Folds, divided
from nbo.problems._linear import ClassPredictions, PenalisedLinearModel
from nbo.problems.ridge import Ridge
from nbo.theory.constants import ProblemConstants

Array = npt.NDArray[Any]


class CrossValidation(BilevelProblem):
    """Log penalties x of a linear model, tuned by K-fold cross-validation.

    The training rows of a problem are divided K times into training and held-out rows, which make K problems with
    lower levels g_k and upper levels f_k. y = (y_1, .., y_K) holds their models. Then g(x, y) = sum_k g_k(x, y_k),
    and f(x, y) = sum_k w_k f_k(y_k) with w_k the share of fold k in the weight of all held-out rows: the mean loss of
    held-out rows, plus the prior of the problem, if it has one, with n_val the weight of all held-out rows.

    The blocks of y do not interact, so that the Hessian of g has the extreme eigenvalues of a single fold. An
    evaluation of g costs K - 1 times one on all training rows. The rows of the folds are copied: with ``folds=K``, K
    times the memory of the training data, K - 1 for training and 1 for held-out rows.

    Parameters
    ----------
    problem : BinaryLogistic, MultinomialLogistic or Ridge
        What to divide. Only its training rows are used, with their sample weights, its penalties, bounds, prior,
        intercept and classes: its validation rows may be any, such as the same rows once more.
    folds : int, splitter or iterable of pairs
        The number K >= 2 of shuffled folds, stratified by label if there are classes; an object with scikit-learn's
        ``split(X, y)``; or pairs (train, held_out) of row numbers or masks, also a single pair. A row that is held
        out several times counts as often.
    random_state : None, int or Generator
        For a number of folds, what shuffles the rows.

    Attributes
    ----------
    problem : PenalisedLinearModel
        The problem that was given.
    n_folds, lower_blocks : int
        K.
    folds : tuple of pairs of ndarray
        The row numbers (train, held_out) of every fold.
    problems : tuple of PenalisedLinearModel
        The K problems, without a prior.
    shares : ndarray
        w_k, (K,).
    dim_x, dim_y : int
        The number of penalties, and K times the size of one model.
    dtype : dtype
        The data's.

    Raises
    ------
    TypeError, ValueError
        For another kind of problem, and for folds that do not divide its rows, with the argument's name.

    Warns
    -----
    UserWarning
        If the training rows of a fold lack a class, which its model keeps.

    Examples
    --------
    >>> import nbo
    >>> from sklearn.datasets import load_breast_cancer
    >>> A, b = load_breast_cancer(return_X_y=True)
    >>> A, b = (A - A.mean(axis=0)) / A.std(axis=0), 2 * b - 1
    >>> whole = nbo.problems.BinaryLogistic(A, b, A, b, penalty="shared")
    >>> problem = nbo.problems.CrossValidation(whole, folds=5, random_state=0)
    >>> res = nbo.minimize(problem, [-5.0])
    >>> bool(res.success), problem.fold_models(res.y).shape
    (True, (5, 30))
    """

    def __init__(self, problem: PenalisedLinearModel, folds: Any = 5, *, random_state: Any = None) -> None:
        if not isinstance(problem, PenalisedLinearModel):
            raise TypeError(
                f"problem: found {type(problem).__name__}; expected a BinaryLogistic, MultinomialLogistic or Ridge"
            )
        labels, classes = problem.data.lower[1], not isinstance(problem, Ridge)
        if isinstance(problem, ClassPredictions):
            labels = problem.classes[labels]
        self.problem = problem
        self.folds = divided(folds, problem.A, labels, stratified=classes, random_state=random_state)
        self.n_folds = self.lower_blocks = len(self.folds)
        _require_weight(self.folds, problem._rows.weights)
        if classes:
            _warn_of_missing_classes(self.folds, labels, problem.fit_intercept)
        self.problems = tuple(problem.on_rows(train, held_out) for train, held_out in self.folds)
        held_out = np.array([part._rows.total_val for part in self.problems])
        self.shares = held_out / held_out.sum()
        self._held_out_weight = float(held_out.sum())
        self._prior = problem._prior.over(self._held_out_weight / problem._rows.total_val)
        self.dim_x, self.dim_y = problem.dim_x, self.n_folds * problem.dim_y
        self.bounds, self.dtype = problem.bounds, problem.dtype
        self.constants_kind = problem.constants_kind

    def __repr__(self) -> str:
        name, (m, n) = type(self.problem).__name__, (self.dim_x, self.dim_y)
        return f"<CrossValidation of {name}: {self.n_folds} folds, m = {m}, n = {n}>"

    def penalised(self, penalty: Any, prior: Any = None, *, noise_variance: float = 1.0, bounds: Any = None) -> Self:
        """Return the criterion of the same folds with other penalties.

        The rows of the folds are shared, so that this takes no time.

        Parameters
        ----------
        penalty : str or array_like of int
            As in the constructor of `problem`.
        prior : pair, optional
            (center, scale), likewise.
        noise_variance : float
            Of `Ridge`, likewise.
        bounds : pair, optional
            Of x, likewise; the default ones if there are none.

        Returns
        -------
        CrossValidation
            A new one.
        """
        other = copy.copy(self)
        whole = self.problem.penalised(penalty, prior, noise_variance=noise_variance, bounds=bounds)
        other.problem = whole
        other.problems = tuple(part.penalised(whole._groups, bounds=whole.bounds) for part in self.problems)
        other._prior = whole._prior.over(self._held_out_weight / whole._rows.total_val)
        other.dim_x, other.bounds = whole.dim_x, whole.bounds
        return other

    def fold_models(self, y: npt.ArrayLike) -> Array:
        """Return the models of the folds.

        Parameters
        ----------
        y : array_like
            (n,).

        Returns
        -------
        ndarray
            One a row, (K, n/K), such as the `problems` take.

        Raises
        ------
        ValueError
            For another shape.
        """
        return self.blocks("y", np.asarray(y))

    def blocks(self, name: str, vectors: Array) -> Array:
        """Return a vector in the space of y, or several in rows, with an axis for the folds.

        Parameters
        ----------
        name : str
            What messages call a vector.
        vectors : ndarray
            (n,) or (k, n).

        Returns
        -------
        ndarray
            (K, n/K) or (k, K, n/K), a view where possible.

        Raises
        ------
        ValueError
            For another length.
        """
        if vectors.ndim not in (1, 2) or vectors.shape[-1] != self.dim_y:
            raise ValueError(f"{name}: found shape {vectors.shape[-1:]}; expected ({self.dim_y},)")
        return vectors.reshape(*vectors.shape[:-1], self.n_folds, self.dim_y // self.n_folds)

    def upper_value(self, x: Array, y: Array) -> float:
        """Return f; see `BilevelProblem.upper_value`."""
        parts = zip(self.shares, self.problems, self.blocks("y", y), strict=True)
        loss = float(sum(share * part.upper_value(x, y_k) for share, part, y_k in parts))
        if not self._prior.curvature:
            return loss
        return loss + self._prior.curvature / 2 * float(np.sum((x - self._prior.center) ** 2))

    def upper_grad(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Return grad_1 f and grad_2 f; see `BilevelProblem.upper_grad`."""
        parts = zip(self.shares.tolist(), self.problems, self.blocks("y", y), strict=True)
        grad_2 = np.concatenate([share * part.upper_grad(x, y_k)[1] for share, part, y_k in parts])
        if not self._prior.curvature:
            return np.zeros(self.dim_x), grad_2
        return self._prior.curvature * (x - self._prior.center), grad_2

    def upper_hvp(self, x: Array, y: Array, v: Array) -> Array:
        """Return nabla_22^2 f v; see `BilevelProblem.upper_hvp`."""
        parts = zip(self.shares.tolist(), self.problems, self.blocks("y", y), self.blocks("v", v), strict=True)
        return np.concatenate([share * part.upper_hvp(x, y_k, v_k) for share, part, y_k, v_k in parts])

    def upper_jvp(self, x: Array, y: Array, u: Array) -> Array:
        """Return nabla_12^2 f u, which is zero; see `BilevelProblem.upper_jvp`."""
        return np.zeros(self.dim_x)

    def lower_value(self, x: Array, y: Array) -> float:
        """Return g; see `BilevelProblem.lower_value`."""
        return self.lower_model(x, y).value()

    def lower_grad_y(self, x: Array, y: Array) -> Array:
        """Return grad_2 g; see `BilevelProblem.lower_grad_y`."""
        return self.lower_model(x, y).grad_y()

    def lower_grad_x(self, x: Array, y: Array) -> Array:
        """Return grad_1 g; see `BilevelProblem.lower_grad_x`."""
        return self.lower_model(x, y).grad_x()

    def lower_hvp(self, x: Array, y: Array, v: Array) -> Array:
        """Return H v; see `BilevelProblem.lower_hvp`."""
        parts = zip(self.problems, self.blocks("y", y), self.blocks("v", v), strict=True)
        return np.concatenate([part.lower_hvp(x, y_k, v_k) for part, y_k, v_k in parts])

    def lower_jvp(self, x: Array, y: Array, u: Array) -> Array:
        """Return J u; see `BilevelProblem.lower_jvp`."""
        return self.lower_model(x, y).jvp(u)

    def lower_model(self, x: Array, y: Array) -> FoldModel:
        """Return g around a point, over the models of the folds; see `BilevelProblem.lower_model`."""
        return FoldModel(self, x, y)

    def constants(self, bounds: Any = None) -> ProblemConstants:
        """Return constants valid in the tube |y - y*(x)| <= mu/(2 L_g2) over a box of x.

        Parameters
        ----------
        bounds : pair, optional
            The box of x; the problem's bounds by default.

        Returns
        -------
        ProblemConstants
            Of kind ``"bound"``, with an intercept ``"estimate"``.

        Raises
        ------
        NoConstantsError
            If e^x or squares of the data are not representable.
        ValueError
            If the box is not finite.
        """
        return folded_constants(self.problems, self.shares, self._prior, bounds)

    def fingerprint(self) -> str:
        """Return a hash of training data, folds and settings; see `BilevelProblem.fingerprint`."""
        rows = (row for pair in self.folds for row in pair)
        data = (*arrays_of(self.problem.data.lower), *arrays_of(self.problems[0].data.common))
        classes = getattr(self.problem, "classes", np.zeros(0)).tolist()
        prior = self._prior.center, self._prior.curvature
        return fingerprint(type(self), type(self.problem), *data, classes, *rows, *prior, *self.bounds)


def _require_weight(folds: Folds, weights: Array) -> None:
    for k, pair in enumerate(folds):
        for name, part in zip(("training", "held-out"), pair, strict=True):
            if not weights[part].any():
                raise ValueError(
                    f"folds: found that all rows of the {name} part of fold {k} have weight 0; expected one above"
                )


def _warn_of_missing_classes(folds: Folds, labels: Array, fit_intercept: bool) -> None:
    """Warn of classes that some fold has not in its training rows, though the whole has them."""
    classes = np.unique(labels)
    missing = {k: np.setdiff1d(classes, labels[train]).tolist() for k, (train, _) in enumerate(folds)}
    found = "; ".join(f"fold {k} none of {', '.join(map(repr, lacks))}" for k, lacks in missing.items() if lacks)
    if found:
        then = "with an unpenalised intercept such a model has no finite minimiser" if fit_intercept else "it is kept"
        warnings.warn(
            f"folds: training rows lack classes ({found}): {then}; shuffle or stratify the folds", stacklevel=3
        )
