"""Penalised binary logistic regression whose log penalties are tuned on validation data."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._validation import box
from nbo.compiled import CompiledProblem
from nbo.problem import FiniteSumProblem, LowerModel
from nbo.problems._data import Batch, binary_labels, design_matrix, row_norms, rows, same_columns, spectral_norm
from nbo.problems._fingerprint import fingerprint
from nbo.problems._penalty import LARGEST_EXPONENT, ExponentialPenalty, GaussianPrior, PenaltyAt
from nbo.theory.constants import NoConstantsError, ProblemConstants

if TYPE_CHECKING:
    from nbo.kernels.logistic import LogisticMean

Array = npt.NDArray[Any]


class DataSizes(NamedTuple):
    """What the constants need of the data.

    Attributes
    ----------
    curvature : float
        |A|^2/n.
    pull : float
        |A'b|/(2 n), the gradient of the loss at zero.
    slopes : ndarray
        The mean size of every feature, (p,).
    norms, norms_val : ndarray
        The norms of the training and validation rows.
    size_val : float
        |A_val|.
    """

    curvature: float
    pull: float
    slopes: Array
    norms: Array
    norms_val: Array
    size_val: float


class BinaryLogistic(CompiledProblem):
    """Log penalties x of a logistic model y, tuned on validation data.

    g = (1/n) sum_i log(1 + exp(-b_i a_i'y)) + 1/2 sum_j e^{x_{k(j)}} y_j^2 over training rows, and
    f = the mean loss on validation rows, plus the prior if there is one. J u is
    sum_{j in group} e^{x} y_j u_j. A full-batch `grad_y_and_hvp` is one pass over A that stores the
    curvature weights, and `hvp` another pass for up to two directions.

    In scikit-learn's units, e^x = 1/(C n).

    Parameters
    ----------
    A : array_like or sparse
        Training rows, (n, p): dense, CSR or CSC, float64 or float32 (others become float64), read-only
        and memory-mapped arrays included. Dense C-ordered and CSR data are not copied.
    b : array_like
        Training labels -1/+1, (n,); both must occur.
    A_val : array_like or sparse
        Validation rows, (n_val, p).
    b_val : array_like
        Validation labels, (n_val,).
    penalty : {"feature", "shared"} or array_like of int
        One log penalty a feature (dim_x = p), one for all (dim_x = 1), or a group id a feature.
    prior : pair, optional
        (center, scale): adds sum (x - center)^2 / (2 scale^2 n_val) to f. Without one, many penalties
        overfit the validation data.
    bounds : pair, optional
        Bounds of x; ``(-ln n - 9.2, 12)`` by default, C between about e^{-12} and 1e4.

    Attributes
    ----------
    dim_x, dim_y : int
        The numbers of penalties and of features.
    n_samples_upper, n_samples_lower : int
        n_val and n.
    dtype : dtype
        The data's.

    Raises
    ------
    TypeError, ValueError
        For bad data, labels or settings, with the argument's name.

    Examples
    --------
    >>> import nbo, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> A, A_val = rng.standard_normal((60, 3)), rng.standard_normal((40, 3))
    >>> b, b_val = np.sign(A[:, 0] + 0.3), np.sign(A_val[:, 0] + 0.3)
    >>> problem = nbo.problems.BinaryLogistic(A, b, A_val, b_val, penalty="shared")
    >>> problem.dim_x, problem.dim_y
    (1, 3)
    """

    #: Over all samples at once, and without a pass for the penalty.
    faster_oracles: ClassVar[tuple[str, ...]] = (
        "upper_value",
        "upper_grad",
        "upper_hvp",
        "upper_jvp",
        "lower_value",
        "lower_grad_y",
        "lower_grad_x",
        "lower_hvp",
        "lower_jvp",
        "lower_model",
    )

    def __init__(
        self,
        A: Any,
        b: npt.ArrayLike,
        A_val: Any,
        b_val: npt.ArrayLike,
        *,
        penalty: Any = "feature",
        prior: Any = None,
        bounds: Any = None,
    ) -> None:
        from nbo.kernels import logistic_batches  # the compiler is imported only for problems that need it

        self.A = design_matrix("A", A)
        self.A_val = same_columns(self.A, design_matrix("A_val", A_val))
        (n, p), n_val = self.A.shape, self.A_val.shape[0]
        self.b = binary_labels("b", b, n, self.A.dtype, both=True)
        self.b_val = binary_labels("b_val", b_val, n_val, self.A.dtype, both=False)
        self._penalty = ExponentialPenalty(penalty, p)
        self._prior = GaussianPrior(prior, self._penalty.dim_x, float(n_val))
        super().__init__(
            lower=(self.A, self.b),
            upper=(self.A_val, self.b_val),
            common=logistic_batches.common(self._penalty.groups, self._prior.center, self._prior.curvature),
            kernels=logistic_batches.KERNELS,
            dim_x=self._penalty.dim_x,
            dim_y=p,
            bounds=box("bounds", (-np.log(n) - 9.2, 12.0) if bounds is None else bounds, self._penalty.dim_x),
        )
        self._lower = _mean(self.A, self.b, None)
        self._upper = _mean(self.A_val, self.b_val, None)

    def upper_value(self, x: Array, y: Array, batch: Batch = None) -> float:
        """Return f; see `BilevelProblem.upper_value`."""
        return self._upper_term(batch).value(y) + self._prior.value(x)

    def upper_grad(self, x: Array, y: Array, batch: Batch = None) -> tuple[Array, Array]:
        """Return grad_1 f and grad_2 f; see `BilevelProblem.upper_grad`."""
        return self._prior.grad(x), self._upper_term(batch).gradient(y)[0]

    def upper_hvp(self, x: Array, y: Array, v: Array, batch: Batch = None) -> Array:
        """Return nabla_22^2 f v; see `BilevelProblem.upper_hvp`."""
        return self._upper_term(batch).gradient_and_hvp(y, v)[1]

    def upper_jvp(self, x: Array, y: Array, u: Array, batch: Batch = None) -> Array:
        """Return zero; see `BilevelProblem.upper_jvp`."""
        return np.zeros(self.dim_x)

    def lower_value(self, x: Array, y: Array, batch: Batch = None) -> float:
        """Return g; see `BilevelProblem.lower_value`."""
        return PenalisedModel(self, self._lower_term(batch), self._penalty.at(x), x, y).value()

    def lower_grad_y(self, x: Array, y: Array, batch: Batch = None) -> Array:
        """Return grad_2 g; see `BilevelProblem.lower_grad_y`."""
        return PenalisedModel(self, self._lower_term(batch), self._penalty.at(x), x, y).grad_y()

    def lower_grad_x(self, x: Array, y: Array, batch: Batch = None) -> Array:
        """Return grad_1 g, half of J y; see `BilevelProblem.lower_grad_x`."""
        return self._penalty.at(x).jvp(y, y) / 2

    def lower_hvp(self, x: Array, y: Array, v: Array, batch: Batch = None) -> Array:
        """Return H v; see `BilevelProblem.lower_hvp`."""
        return PenalisedModel(self, self._lower_term(batch), self._penalty.at(x), x, y).grad_y_and_hvp(v)[1]

    def lower_jvp(self, x: Array, y: Array, u: Array, batch: Batch = None) -> Array:
        """Return J u; see `BilevelProblem.lower_jvp`."""
        return self._penalty.at(x).jvp(y, u)

    def lower_model(self, x: Array, y: Array) -> LowerModel:
        """Return the lower level around one point, whose methods share passes; see `BilevelProblem.lower_model`."""
        return PenalisedModel(self, self._lower, self._penalty.at(x), x, y)

    def _lower_term(self, batch: Batch) -> LogisticMean:
        return self._lower if batch is None else _mean(self.A, self.b, batch)

    def _upper_term(self, batch: Batch) -> LogisticMean:
        return self._upper if batch is None else _mean(self.A_val, self.b_val, batch)

    def constants(self, bounds: Any = None) -> ProblemConstants:
        """Return constants valid in the tube |y - y*(x)| <= mu/(2 L_g2) over a box of x.

        Parameters
        ----------
        bounds : pair, optional
            The box of x; the problem's bounds by default.

        Returns
        -------
        ProblemConstants
            Bounds from the spectral norms of the data.

        Raises
        ------
        NoConstantsError
            If the box is not finite, or e^x not representable in it.
        """
        lower, upper = box("bounds", self.bounds if bounds is None else bounds, self.dim_x)
        if not (np.isfinite(lower).all() and np.isfinite(upper).all()):
            raise ValueError(
                "bounds: found an infinite bound; the constants of an exponential penalty need a finite box"
            )
        if np.abs([lower.min(), upper.max()]).max() > LARGEST_EXPONENT / 4:
            raise NoConstantsError(
                f"bounds: found x from {lower.min():g} to {upper.max():g}; constants are representable for x between "
                f"-{LARGEST_EXPONENT / 4:g} and {LARGEST_EXPONENT / 4:g}"
            )
        mu, top = float(np.exp(lower.min())), float(np.exp(upper.max()))
        data, n_val = self._data_sizes, self.A_val.shape[0]
        radius = min(np.sqrt(2 * np.log(2) / mu), data.pull / mu) + mu / (2 * top)
        L12 = min(self._penalty.group_norms(data.slopes).max() + mu / 2, top * radius)
        third = data.norms.max() * data.curvature / (6 * np.sqrt(3))
        farthest = np.maximum(np.abs(lower - self._prior.center), np.abs(upper - self._prior.center))
        return ProblemConstants(
            mu=mu,
            L_g1=float(max(data.curvature / 4 + top, L12)),
            L_g2=float(max(np.hypot(third, top), np.hypot(top, L12))),
            L_f0=data.size_val / np.sqrt(n_val),
            L_f1=max(data.size_val**2 / (4 * n_val), self._prior.curvature),
            C_f0=self._prior.curvature * float(np.linalg.norm(farthest)),
            sigma_f1=float(np.sqrt(np.mean(data.norms_val**2))),
            sigma_g1=float(np.sqrt(np.mean(data.norms**2))),
            sigma_g2=float(np.sqrt(np.mean(data.norms**4) / 16)),
        )

    @functools.cached_property
    def _data_sizes(self) -> DataSizes:
        n = self.A.shape[0]
        return DataSizes(
            curvature=spectral_norm(self.A) ** 2 / n,
            pull=float(np.linalg.norm(self.A.T @ self.b)) / (2 * n),
            slopes=np.asarray(abs(self.A).mean(axis=0), dtype=np.float64).ravel(),
            norms=row_norms(self.A),
            norms_val=row_norms(self.A_val),
            size_val=spectral_norm(self.A_val),
        )

    def fingerprint(self) -> str:
        """Return a hash of data and settings; see `BilevelProblem.fingerprint`."""
        settings = (self._penalty.groups, self._prior.center, self._prior.curvature, *self.bounds)
        return fingerprint(type(self), self.A, self.b, self.A_val, self.b_val, *settings)


def _mean(A: Any, b: Array, batch: Batch) -> LogisticMean:
    from nbo.kernels.logistic import LogisticMean  # the compiler is imported only for problems that need it

    return LogisticMean(rows(A, batch), rows(b, batch))


class PenalisedModel(LowerModel):
    """A mean loss plus an exponential penalty around one point; curvature weights are stored by the first pass.

    Parameters
    ----------
    problem : FiniteSumProblem
        The problem.
    term : LogisticMean
        The data term.
    penalty : PenaltyAt
        The penalty at x.
    x, y : ndarray
        The point, (m,) and (p,); they must not change while the model is used.
    """

    def __init__(self, problem: FiniteSumProblem, term: LogisticMean, penalty: PenaltyAt, x: Array, y: Array) -> None:
        super().__init__(problem, x, y)
        self._term, self._penalty = term, penalty
        self._weights: Array | None = None

    def value(self) -> float:
        """Return g; see `LowerModel.value`."""
        return self._term.value(self.y) + self._penalty.value(self.y)

    def grad_y(self) -> Array:
        """Return grad_2 g in one pass; see `LowerModel.grad_y`."""
        gradient, self._weights = self._term.gradient(self.y)
        return gradient + self._penalty.hvp(self.y)

    def grad_x(self) -> Array:
        """Return grad_1 g without a pass; see `LowerModel.grad_x`."""
        return self._penalty.jvp(self.y, self.y) / 2

    def grad_y_and_hvp(self, u: Array) -> tuple[Array, Array]:
        """Return grad_2 g and H u in one pass; see `LowerModel.grad_y_and_hvp`."""
        gradient, product, self._weights = self._term.gradient_and_hvp(self.y, u)
        return gradient + self._penalty.hvp(self.y), product + self._penalty.hvp(u)

    def hvp(self, V: Array) -> Array:
        """Return H v for each row with the stored weights; see `LowerModel.hvp`."""
        if self._weights is None:
            if V.shape[0] == 1:
                return self.grad_y_and_hvp(V[0])[1][None]
            self._weights = self._term.gradient(self.y)[1]
        return self._term.hvp(self._weights, V) + self._penalty.hvp(V)

    def jvp(self, u: Array) -> Array:
        """Return J u without a pass; see `LowerModel.jvp`."""
        return self._penalty.jvp(self.y, u)
