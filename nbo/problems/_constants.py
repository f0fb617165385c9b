"""Constants of the problems with linear models, from moments of their data.

The loss of row i is w_i l(W a_i), w the weights with mean 1, and a_i ends with a 1 where there is an intercept. L is
the mean loss of the training rows, so that with p_k = e^{x_k} the lower level is g = L + 1/2 sum_k p_k |W_k|^2.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from nbo._validation import box
from nbo._vectors import norm
from nbo.problems._data import row_norms
from nbo.problems._penalty import LARGEST_EXPONENTS, group_norms
from nbo.theory.constants import NoConstantsError, ProblemConstants

if TYPE_CHECKING:
    from nbo.problems._linear import LinearModel, PenalisedLinearModel
    from nbo.problems._penalty import GaussianPrior

Array = npt.NDArray[Any]

#: Matrices with a side of up to this length have their spectral norm computed, others bounded by the Frobenius norm.
_LARGEST_GRAM = 2000
#: Of the blocks in which dense data become products in double precision.
_ENTRIES = 2**20
#: Products of four e^x have to be representable.
_LARGEST_EXPONENT = 700.0 / 4
#: Products of entries of the data with W, in all iterations towards y*(x) for an estimate along intercepts.
_ESTIMATE_WORK = 1e8


class DataSizes(NamedTuple):
    """What the constants need of the data; every mean is one of weighted rows.

    Attributes
    ----------
    moment, moment_val : float
        |mean a a'| of the training and the validation rows.
    smallest : float
        A lower bound of the smallest eigenvalue of the former matrix.
    third_moment : float
        |mean |a| a a'|.
    magnitudes, squares : ndarray
        The means of |a_j| and of a_j^2, (p,).
    norms, norms_val : ndarray
        |a_i|, (n,) and (n_val,).
    pull, pull_val : float
        The norms of the gradients of both mean losses at y = 0.
    """

    moment: float
    moment_val: float
    smallest: float
    third_moment: float
    magnitudes: Array
    squares: Array
    norms: Array
    norms_val: Array
    pull: float
    pull_val: float


class LossBounds(NamedTuple):
    """Bounds of a loss l of c margins.

    Attributes
    ----------
    slope, entry_slope : float
        Of |l'| and of each of its entries.
    curvature, third, noise : float
        Of |l''|, of its Lipschitz constant, and of the norm in which single rows deviate from the mean: the Frobenius
        norm of l'' times the squared norm of a.
    start : float
        L at y = 0.
    at_start, at_start_val : float or ndarray
        |l'| of every row at y = 0.
    entry_squares, squares : ndarray, float
        At y*(x), of the means of l'_q^2, (c,), and of |l'|^2.
    """

    slope: float
    entry_slope: float
    curvature: float
    third: float
    noise: float
    start: float
    at_start: float | Array
    at_start_val: float | Array
    entry_squares: Array
    squares: float


class LowerLevel(NamedTuple):
    """The constants of a lower level.

    Attributes
    ----------
    mu, L_g1, L_g2 : float
        See `ProblemConstants`.
    radius : float
        Of |y*|.
    cross : float
        Of the mixed derivative alone, which `L_g1` bounds, too.
    cross_noise : float
        The standard deviation of the mixed derivative of one row.
    """

    mu: float
    L_g1: float
    L_g2: float
    radius: float
    cross: float
    cross_noise: float = 0.0


def penalised_constants(problem: PenalisedLinearModel, bounds: Any) -> ProblemConstants:
    """Return the constants of a model with penalties e^x over a box of x.

    Parameters
    ----------
    problem : PenalisedLinearModel
        The problem.
    bounds : pair or None
        The box; the problem's bounds by default.

    Returns
    -------
    ProblemConstants
        Valid for |y - y*(x)| <= mu/(2 L_g2).

    Raises
    ------
    NoConstantsError
        If e^x, or squares of the data, are not representable.
    ValueError
        For a box that is not finite.
    """
    lower, upper = finite_box(problem, bounds)
    return with_upper_level(problem, penalised_level(problem, lower, upper), problem._prior.farthest(lower, upper))


def folded_constants(
    problems: Sequence[PenalisedLinearModel], shares: Array, prior: GaussianPrior, bounds: Any
) -> ProblemConstants:
    """Return the constants of models of folds that are solved side by side.

    Parameters
    ----------
    problems : sequence of PenalisedLinearModel
        The problems of the folds, without a prior.
    shares : ndarray
        The weights of their upper levels, (K,).
    prior : GaussianPrior
        What is added to the weighted sum of those.
    bounds : pair or None
        The box of x; the problems' bounds by default.

    Returns
    -------
    ProblemConstants
        Valid for |y - y*(x)| <= mu/(2 L_g2).

    Raises
    ------
    NoConstantsError
        If e^x, or squares of the data, are not representable.
    ValueError
        For a box that is not finite.

    Notes
    -----
    nabla_22^2 g is block diagonal: its norm is the largest of the blocks. nabla_12^2 g is a row of blocks, whose norm
    is at most the root of the sum of their squares, and so is the change of either. As no mu is smaller and no L_g2
    larger than that of the whole, its tube lies in those of the folds.
    """
    lower, upper = finite_box(problems[0], bounds)
    levels = [penalised_level(problem, lower, upper) for problem in problems]
    folds = [with_upper_level(problem, level, 0.0) for problem, level in zip(problems, levels, strict=True)]
    return ProblemConstants(
        mu=min(fold.mu for fold in folds),
        L_g1=max(max(fold.L_g1 for fold in folds), math.hypot(*(level.cross for level in levels))),
        L_g2=math.hypot(*(fold.L_g2 for fold in folds)),
        L_f0=math.hypot(*(share * fold.L_f0 for share, fold in zip(shares, folds, strict=True))),
        L_f1=max(prior.curvature, *(share * fold.L_f1 for share, fold in zip(shares, folds, strict=True))),
        C_f0=prior.farthest(lower, upper),
        kind="estimate" if any(fold.kind == "estimate" for fold in folds) else "bound",
    )


def penalised_level(problem: PenalisedLinearModel, lower: Array, upper: Array) -> LowerLevel:
    """Return the constants of the lower level of a model with penalties e^x over a box of x.

    Parameters
    ----------
    problem : PenalisedLinearModel
        The problem.
    lower, upper : ndarray
        The box, from `finite_box`.

    Returns
    -------
    LowerLevel
        Valid for |y - y*(x)| <= mu/(2 L_g2); not finite where squares of the data overflow.

    Notes
    -----
    The mixed derivative has norm max_k p_k |W_k|. Let E^2 = sum_k p_k |W*_k|^2 at y*(x), where p_k W*_k is minus the
    gradient of L. As L is convex and at least 0, E^2 <= L(0) - L(y*) <= L(0); and as its gradient is monotone,
    E^2 <= -<grad L(0), W*>, which bounds p |W*| by |grad L(0)| for one penalty p without intercept, and
    E by |grad L(0)|/sqrt(min p). So p_k |W*_k| is at most sqrt(max p) E, and at most the size of the gradient of L in
    group k. A distance r from y* adds at most r max p to it.

    The second derivative is Lipschitz in W with third |mean |a| a a'|, and in x with max p. The mixed one is Lipschitz
    in W with max p, and in x with its largest norm, group by group, as e^s - e^t <= (s - t) e^s.
    """
    weakest, strongest = math.exp(lower.min()), math.exp(upper.max())
    with np.errstate(over="ignore", invalid="ignore"):
        sizes, loss = problem._sizes, loss_bounds(problem)
        energy = math.sqrt(loss.start)
        cross = problem._largest_gradient
        if problem.fit_intercept:
            mu = weakest_curvature(problem, lower, weakest)
            radius = math.inf
        else:
            mu = weakest + (sizes.smallest if loss.third == 0 else 0.0)
            energy = min(energy, sizes.pull / math.sqrt(weakest))
            radius = energy / math.sqrt(weakest)
            cross = min(cross, sizes.pull if problem.dim_x == 1 else math.inf)
        cross = min(cross, math.sqrt(strongest) * energy)
        third = loss.third * sizes.third_moment
        least = max(math.hypot(third, strongest), math.hypot(strongest, cross))  # of L_g2: the tube is no wider
        cross += strongest * mu / (2 * least)
        return LowerLevel(
            mu=mu,
            L_g1=max(loss.curvature * sizes.moment + _largest_penalty(problem, strongest), cross),
            L_g2=max(math.hypot(third, strongest), math.hypot(strongest, cross)),
            radius=min(radius, math.sqrt(2 * loss.start / mu), sizes.pull / mu),
            cross=cross,
        )


def cleaning_constants(problem: LinearModel, ridge: float, bounds: Any) -> ProblemConstants:
    """Return the constants of hyper-cleaning, which hold for every x.

    Parameters
    ----------
    problem : LinearModel
        The problem, with learned weights and softmax losses.
    ridge : float
        c_r.
    bounds : pair or None
        With an intercept, an estimate is made at its lower corner, or at 0 where there is no lower bound.

    Returns
    -------
    ProblemConstants
        For all y, but for L_f0 and sigma_g1, which assume |y - y*(x)| <= mu/(2 L_g2).

    Raises
    ------
    NoConstantsError
        If squares of the data are not representable.

    Notes
    -----
    Entry i of the mixed derivative along U is w_i sigma'(x_i) <l'_i, U a_i>/n, with |l'| <= sqrt 2 and sigma' <= 1/4;
    so its norm is at most sqrt 2/(4 n) times that of the matrix with rows w_i a_i. The third derivative along xi in x
    and U, V in W is the mean of w_i sigma'(x_i) xi_i <U a_i, l''_i V a_i>, at most |xi|/(8 n) times the norm of the
    matrix with rows w_i |a_i| a_i; that twice along x is diagonal, with |sigma''| <= 1/(6 sqrt 3). Both norms are
    bounded by moments, through |sum v_i^2 a_i a_i'| <= max v |sum v_i a_i a_i'|.
    """
    lower, upper = box("bounds", problem.bounds if bounds is None else bounds, problem.dim_x)
    with np.errstate(over="ignore", invalid="ignore"):
        sizes, loss, n = problem._sizes, loss_bounds(problem), problem.n_samples_lower
        weights = problem._rows.weights.astype(np.float64)
        mu, largest = 2 * ridge, float(np.max(weights * sizes.norms))
        if problem.fit_intercept:
            mu = weakest_curvature(problem, np.where(np.isfinite(lower), lower, np.minimum(upper, 0.0)), mu)
        cross = math.sqrt(weights.max() * sizes.moment / (8 * n))
        mixed = math.sqrt(largest * sizes.third_moment / n) / 8
        twice = largest * math.sqrt(2) / (6 * math.sqrt(3) * n)
        # L at y = 0 and its gradient are largest for sigma = 1, and with other sigma at most as below
        pull = math.sqrt(sizes.moment) * float(loss.at_start)
        level = LowerLevel(
            mu=mu,
            L_g1=max(loss.curvature * sizes.moment + _largest_penalty(problem, 2 * ridge), cross),
            L_g2=max(math.hypot(loss.third * sizes.third_moment, mixed), math.hypot(mixed, twice)),
            radius=min(math.sqrt((2 if problem.fit_intercept else 1) * loss.start / mu), pull / mu),
            cross=cross,
            cross_noise=_root_mean_square(weights * sizes.norms) / math.sqrt(8),
        )
    return with_upper_level(problem, level, 0.0)


@np.errstate(over="ignore", invalid="ignore")
def with_upper_level(problem: LinearModel, level: LowerLevel, farthest: float) -> ProblemConstants:
    """Add the constants of f, and those of single rows, whose deviations are at most their second moments.

    Parameters
    ----------
    problem : LinearModel
        The problem.
    level : LowerLevel
        Of it.
    farthest : float
        A bound of |grad_1 f|.

    Returns
    -------
    ProblemConstants
        Of both levels.

    Raises
    ------
    NoConstantsError
        If they are not representable.
    """
    loss = loss_bounds(problem)
    sizes, rows = problem._sizes, problem._rows
    radius = level.radius + level.mu / (2 * level.L_g2)
    w, w_val = rows.weights.astype(np.float64), rows.weights_val.astype(np.float64)
    slopes = np.minimum(loss.slope, loss.at_start + loss.curvature * radius * sizes.norms)
    slopes_val = np.minimum(loss.slope, loss.at_start_val + loss.curvature * radius * sizes.norms_val)
    anywhere = loss.slope * min(math.sqrt(sizes.moment_val), float(np.mean(w_val * sizes.norms_val)))
    curvature = loss.curvature * sizes.moment_val
    second = loss.noise * _root_mean_square(w * sizes.norms**2)
    found = {
        "mu": level.mu,
        "L_g1": level.L_g1,
        "L_g2": level.L_g2,
        "L_f0": min(anywhere, sizes.pull_val + curvature * radius),
        "L_f1": max(curvature, problem._prior.curvature),
        "C_f0": farthest,
        "sigma_f1": _root_mean_square(w_val * slopes_val * sizes.norms_val),
        "sigma_g1": _root_mean_square(w * slopes * sizes.norms),
        "sigma_g2": max(second, level.cross_noise),
        "sigma_g12": level.cross_noise,
    }
    if not (np.isfinite(list(found.values())).all() and level.mu > 0):
        shown = ", ".join(f"{name} = {value:g}" for name, value in found.items())
        raise NoConstantsError(
            f"A, A_val, b, b_val: found {shown}; expected finite numbers and mu > 0: rescale the data"
        )
    return ProblemConstants(**found, kind="estimate" if problem.fit_intercept else "bound")


def _root_mean_square(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2)))


def finite_box(problem: LinearModel, bounds: Any) -> tuple[Array, Array]:
    """Return the box of x if it is finite and e^x harmless in it, else raise.

    Parameters
    ----------
    problem : LinearModel
        The problem.
    bounds : pair or None
        The box; the problem's bounds by default.

    Returns
    -------
    tuple of ndarray
        Lower and upper bounds, (m,) each.

    Raises
    ------
    NoConstantsError
        If e^x is not representable.
    ValueError
        For a box that is not finite.
    """
    lower, upper = box("bounds", problem.bounds if bounds is None else bounds, problem.dim_x)
    if not (np.isfinite(lower).all() and np.isfinite(upper).all()):
        raise ValueError("bounds: found an infinite bound; the constants of an exponential penalty need a finite box")
    limit = min(_LARGEST_EXPONENT, LARGEST_EXPONENTS[problem.dtype])
    if max(-lower.min(), upper.max()) > limit:
        raise NoConstantsError(
            f"bounds: found x from {lower.min():g} to {upper.max():g}; constants are representable for x between "
            f"-{limit:g} and {limit:g}"
        )
    return lower, upper


def loss_bounds(problem: LinearModel) -> LossBounds:
    """Return the bounds of a problem's loss.

    Parameters
    ----------
    problem : LinearModel
        The problem.

    Returns
    -------
    LossBounds
        Of its loss.

    Notes
    -----
    The mean loss at y*(x) is at most that at y = 0. For c classes that is log c (two for the logistic loss), and
    1 - e^{-l}, the chance of a wrong label, is concave in l: its mean is at most 1 - 1/c. Entries of l' are at most
    that chance, and |l'|^2 is at most twice its square. The third cumulant of softmax is at most sqrt 6/9 along a
    unit vector, that of the logistic loss 1/(6 sqrt 3).
    """
    common: Any = problem.data.common
    loss, c = type(common.loss).__name__, problem.n_outputs
    if loss == "Squared":
        _, b, weights, _ = problem.data.lower
        _, b_val, _, _ = problem.data.upper
        squares = np.mean(weights[:, None] * b.astype(np.float64) ** 2, axis=0)
        total = float(squares.sum())
        at_start, at_start_val = row_norms(b), row_norms(b_val)
        return LossBounds(np.inf, np.inf, 1.0, 0.0, math.sqrt(c), total / 2, at_start, at_start_val, squares, total)
    if loss == "Logistic":
        third = 1 / (6 * math.sqrt(3))
        return LossBounds(1.0, 1.0, 0.25, third, 0.25, math.log(2), 0.5, 0.5, np.full(1, 0.5), 0.5)
    wrong = 1 - 1 / c
    slope, start = math.sqrt(2), math.sqrt(wrong)
    return LossBounds(slope, 1.0, 0.5, math.sqrt(6) / 9, 0.5, math.log(c), start, start, np.full(c, wrong), 2 * wrong)


def _largest_penalty(problem: LinearModel, strongest: float) -> float:
    """Return the norm of the penalty's second derivative; (sum of intercepts)^2/2 has the norm c."""
    return max(strongest, float(problem.n_outputs) * (problem.fit_intercept and problem._sums_intercepts))


def largest_gradient(problem: PenalisedLinearModel) -> float:
    """Bound the gradient of L at y*(x) in one group of entries of W.

    Parameters
    ----------
    problem : PenalisedLinearModel
        The problem.

    Returns
    -------
    float
        For every x and every group.

    Notes
    -----
    Entry (q, j) of it is the mean of l'_q a_j, at most mean |a_j| times the largest |l'_q|, and at most
    sqrt(mean a_j^2 mean l'_q^2); likewise the entries of one column together with |l'|, and all of them, with
    the moment of the rows.
    """
    sizes, loss = problem._sizes, loss_bounds(problem)
    groups, p = problem._groups, problem.n_features
    with np.errstate(over="ignore", invalid="ignore"):  # infinite slopes of columns of zeros, which fmin passes over
        entries = np.fmin((loss.entry_slope * sizes.magnitudes) ** 2, loss.entry_squares[:, None] * sizes.squares)
        columns = np.fmin((loss.slope * sizes.magnitudes) ** 2, loss.squares * sizes.squares)
    pairs, pair = np.unique(groups * p + np.arange(p), return_inverse=True)  # of a group and a column
    parts = np.minimum(np.bincount(pair.ravel(), entries.ravel()), columns[pairs % p])
    by_group = group_norms(pairs // p, np.sqrt(parts)).max()
    group_rows = np.unique(groups + problem.dim_x * np.arange(problem.n_outputs)[:, None])
    one_row = group_rows.size == problem.dim_x
    together = sizes.moment * (loss.entry_squares.max() if one_row else loss.squares)
    return min(float(by_group), math.sqrt(together))


def weakest_curvature(problem: LinearModel, x: Array, weakest: float) -> float:
    """Estimate the smallest eigenvalue of the Hessian of g where intercepts are not penalised.

    Parameters
    ----------
    problem : LinearModel
        With an intercept.
    x : ndarray
        Where, (m,).
    weakest : float
        The smallest factor of the penalty, e^x or 2 c_r.

    Returns
    -------
    float
        A lower bound at one y, which is near y*(x). For a squared loss y does not matter.

    Notes
    -----
    With Q (c, c) the Hessian along the intercepts and C its block between them and the other entries V, the Hessian
    minus the penalty of V is at least that of 1/2 |Q^{1/2} (z + Q^{-1} C V)|^2, z the intercepts (Schur complement).
    With q the smallest eigenvalue of Q and s = |Q^{-1} C|, the whole is thus at least the smaller eigenvalue of
    ((weakest + q s^2, -q s), (-q s, q)).
    """
    curved = problem.n_curvatures > 0  # or the Hessian is constant
    y = _near_solution(problem, x) if curved else np.zeros(problem.dim_y, problem.dtype)
    Q, squares = _intercept_blocks(problem, x, y)
    q = float(np.linalg.eigvalsh(Q)[0])
    if not (np.isfinite(squares).all() and q > 0):
        raise NoConstantsError(f"fit_intercept: found a curvature of {q:g} along intercepts; expected a positive one")
    inverse = np.linalg.inv(Q)
    s_squared = float(np.linalg.norm(inverse @ squares @ inverse, 2))
    total = weakest + q * (1 + s_squared)
    smaller = 2 * weakest * q / (total + math.sqrt(max(total * total - 4 * weakest * q, 0.0)))
    return smaller if curved else max(smaller, problem._sizes.smallest)


def _intercept_blocks(problem: LinearModel, x: Array, y: Array) -> tuple[Array, Array]:
    """Return the Hessian of g along the intercepts, Q (c, c), and C C', C (c, c p) its block beside that."""
    from scipy.special import expit, softmax

    A, c = problem._rows.A, problem.n_outputs
    factors = problem._rows.weights * (expit(x) if problem.x_per_sample else 1.0) / A.shape[0]
    W = y.reshape(c, -1)
    scores = np.asarray(A @ W[:, :-1].T + W[:, -1], dtype=np.float64)
    chances = softmax(scores, axis=1) if c > 1 else expit(scores)
    Q, squares = np.full((c, c), float(problem._sums_intercepts)), np.zeros((c, c))
    for q in range(c):
        second = -chances * chances[:, [q]] if problem.n_curvatures else np.zeros_like(scores)  # row q of l''
        second[:, q] += chances[:, q] if problem.n_curvatures else 1.0
        second *= factors[:, None]
        Q[q] += second.sum(axis=0)
        block = np.asarray(A.T @ second.astype(A.dtype), dtype=np.float64)
        squares += block.T @ block  # l'' is symmetric: so these sum up to C C'
    return Q, squares


def _near_solution(problem: LinearModel, x: Array) -> Array:
    """Return a point near y*(x), as near as a bounded number of operations allows."""
    from scipy.optimize import minimize  # takes longer to import than all the rest

    def value_and_gradient(y: Array) -> tuple[float, Array]:
        model = problem.lower_model(x, y.astype(problem.dtype))
        return model.value(), model.grad_y().astype(np.float64)

    A = problem._rows.A
    size = problem.n_outputs * (A.nnz if sp.issparse(A) else A.size)
    options = {"maxiter": int(np.clip(_ESTIMATE_WORK // size, 4, 100))}
    found = minimize(value_and_gradient, np.zeros(problem.dim_y), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x, dtype=problem.dtype)


def data_sizes(problem: LinearModel) -> DataSizes:
    """Return what the constants need of the data.

    Parameters
    ----------
    problem : LinearModel
        The problem.

    Returns
    -------
    DataSizes
        In double precision; infinite where squares of the data overflow.
    """
    rows, with_one = problem._rows, problem.fit_intercept
    w, w_val = rows.weights.astype(np.float64), rows.weights_val.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        norms, norms_val = (np.hypot(row_norms(A), float(with_one)) for A in (rows.A, rows.A_val))
        magnitudes, squares = _columns(rows.A, w)
        smallest, moment = _moment(rows.A, w, norms, with_one)
        origin = np.zeros(problem.dim_x), np.zeros(problem.dim_y, problem.dtype)
        return DataSizes(
            moment=moment,
            moment_val=_moment(rows.A_val, w_val, norms_val, with_one)[1],
            smallest=smallest,
            third_moment=_moment(rows.A, w * norms, norms, with_one)[1],
            magnitudes=magnitudes,
            squares=squares,
            norms=norms,
            norms_val=norms_val,
            pull=norm(problem.lower_model(*origin).grad_y()),
            pull_val=norm(problem.upper_grad(*origin)[1]),
        )


def _moment(A: Any, factors: Array, norms: Array, with_one: bool) -> tuple[float, float]:
    """Return bounds of the smallest and the largest eigenvalue of mean factors_i a_i a_i', given |a_i|."""
    n, p = A.shape
    if min(n, p) > _LARGEST_GRAM:
        return 0.0, float(np.mean(factors * norms**2))
    gram = _gram(A, factors / n, with_one)
    if not np.isfinite(gram).all():
        return 0.0, math.inf
    eigenvalues = np.linalg.eigvalsh(gram)
    rounding = float(np.finfo(np.float64).eps) * max(n, p) * float(abs(eigenvalues).max())
    smallest = float(eigenvalues[0]) - rounding if len(gram) == p + with_one else 0.0
    return max(smallest, 0.0), float(eigenvalues[-1]) + rounding


def _gram(A: Any, factors: Array, with_one: bool) -> Array:
    """Return sum_i factors_i a_i a_i', or for n < p the (n, n) matrix with the same eigenvalues besides zeros."""
    n, p = A.shape
    roots = np.sqrt(factors)[:, None]
    ones = np.ones((n, int(with_one)))  # the last column, or none
    if sp.issparse(A):
        scaled = sp.csr_matrix(sp.hstack([A, sp.csr_matrix(ones)]).astype(np.float64).multiply(roots))
        return np.asarray((scaled @ scaled.T if n < p else scaled.T @ scaled).toarray())
    if n < p:
        columns = itertools.chain([roots * ones], (A[:, part] * roots for part in _blocks(n, p)))
        return np.asarray(sum(block @ block.T for block in columns))
    rows = (np.hstack([A[part], ones[part]]) * roots[part] for part in _blocks(p, n))
    return np.asarray(sum(block.T @ block for block in rows))


def _columns(A: Any, weights: Array) -> tuple[Array, Array]:
    """Return the weighted means of |a_j| and of a_j^2, (p,) each."""
    n, p = A.shape
    if sp.issparse(A):
        matrix = sp.csr_matrix(A, dtype=np.float64, copy=True)
        matrix.sum_duplicates()
        return abs(matrix).T @ weights / n, matrix.power(2).T @ weights / n
    magnitudes, squares = np.zeros((2, p))
    for part in _blocks(p, n):
        block = np.abs(A[part], dtype=np.float64)
        magnitudes += weights[part] @ block
        squares += weights[part] @ (block * block)
    return magnitudes / n, squares / n


def _blocks(width: int, length: int) -> Iterator[slice]:
    """Cut a length into slices that make blocks of a bounded size."""
    step = max(1, _ENTRIES // width)
    return (slice(start, start + step) for start in range(0, length, step))
