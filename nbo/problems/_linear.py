"""What the problems with linear models share: checked data, the compiled kernels, and predictions."""

from __future__ import annotations

import functools
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from nbo._sample_arrays import arrays_of
from nbo._validation import box, flag, vector
from nbo.compiled import CompiledProblem
from nbo.problems._constants import DataSizes, data_sizes, largest_gradient, penalised_constants
from nbo.problems._data import design_matrix, owned, same_columns, sample_weights
from nbo.problems._fingerprint import fingerprint
from nbo.problems._penalty import LARGEST_EXPONENTS, GaussianPrior, penalty_groups
from nbo.theory.constants import ProblemConstants

Array = npt.NDArray[Any]

#: The hashes of the two sets of kernels, those with curvatures and those without, which take long to make.
_codes: dict[bool, str] = {}


class Rows(NamedTuple):
    """Checked training and validation rows.

    Attributes
    ----------
    A, A_val : ndarray or CSR
        Of one type and layout.
    weights, weights_val : ndarray
        Sample weights, scaled to mean 1.
    total, total_val : float
        Their sums as given; the numbers of rows without weights.
    """

    A: Any
    A_val: Any
    weights: Array
    weights_val: Array
    total: float
    total_val: float


def checked_rows(A: Any, A_val: Any, sample_weight: Any, sample_weight_val: Any) -> Rows:
    """Return rows and weights as the kernels read them.

    Parameters
    ----------
    A, A_val : array_like or sparse
        Training and validation rows.
    sample_weight, sample_weight_val : array_like or None
        Their weights.

    Returns
    -------
    Rows
        Which share memory where they can.

    Raises
    ------
    TypeError, ValueError
        For bad data, with the argument's name.
    """
    A = design_matrix("A", A)
    A_val = same_columns(A, design_matrix("A_val", A_val))
    weights, total = sample_weights("sample_weight", sample_weight, A.shape[0], A.dtype)
    weights_val, total_val = sample_weights("sample_weight_val", sample_weight_val, A_val.shape[0], A.dtype)
    return Rows(A, A_val, weights, weights_val, total, total_val)


def rows_at(rows: Rows, train: Array, held_out: Array) -> Rows:
    """Return training rows as training and validation rows.

    Parameters
    ----------
    rows : Rows
        The data, of which the validation rows are not used.
    train, held_out : ndarray of int
        Training rows; in each part some have a positive weight.

    Returns
    -------
    Rows
        Copies, with the totals that the rows have in the data.
    """
    A, scale = rows.A, rows.total / rows.weights.size
    sums = [float(rows.weights[part].sum(dtype=np.float64)) for part in (train, held_out)]
    weights, weights_val = (
        owned(rows.weights[part] * (part.size / total), rows.weights.dtype)
        for part, total in zip((train, held_out), sums, strict=True)
    )
    return Rows(A[train], A[held_out], weights, weights_val, sums[0] * scale, sums[1] * scale)


class LinearModel(CompiledProblem):
    """A loss of linear predictions A W' on training and on validation rows; W (c, p), with an intercept (c, p + 1).

    Parameters
    ----------
    rows : Rows
        The data.
    b, b_val : ndarray
        What the loss compares with, in the form that its kernels read.
    loss : str
        A class of `nbo.kernels.losses`.
    n_outputs : int
        c.
    fit_intercept : bool
        Whether W has an intercept in its last column, outside every penalty.
    learned_weights : bool
        Whether x weighs the training rows.
    penalty : dict
        ``groups`` (c, p), or ``factor``.
    prior : GaussianPrior
        On x.
    **problem
        dim_x, bounds, x_per_sample.
    """

    #: Whether 1/2 (sum of intercepts)^2 is added to g, without which it would not be strongly convex.
    _sums_intercepts: ClassVar[bool] = False
    _finite_data: ClassVar[bool] = True

    def __init__(
        self,
        rows: Rows,
        b: Array,
        b_val: Array,
        *,
        loss: str,
        n_outputs: int,
        fit_intercept: bool,
        penalty: dict[str, Any],
        prior: GaussianPrior,
        learned_weights: bool = False,
        **problem: Any,
    ) -> None:
        from nbo.kernels import linear_models, losses, penalties  # the compiler is imported only where it is needed

        self.A, self.A_val = rows.A, rows.A_val
        self.n_outputs, self.n_features = n_outputs, rows.A.shape[1]
        self.fit_intercept = flag("fit_intercept", fit_intercept)
        width = self.n_features + self.fit_intercept
        described = getattr(losses, loss)(n_outputs, self.n_features, width)
        weighting = linear_models.LearnedWeights() if learned_weights else linear_models.GivenWeights()
        sums = self._sums_intercepts and self.fit_intercept
        self._rows, self._prior = rows, prior
        self.constants_kind = "estimate" if self.fit_intercept else "bound"
        kernels = linear_models.KERNELS if described.n_curvatures else linear_models.UNKEPT
        super().__init__(
            lower=(rows.A, b, rows.weights),
            upper=(rows.A_val, b_val, rows.weights_val),
            common=linear_models.Common(
                described,
                weighting,
                penalties.penalty(n_outputs, self.n_features, sums, **penalty),
                linear_models.Prior(prior.center, prior.curvature),
            ),
            kernels=kernels,
            dim_y=n_outputs * width,
            n_curvatures=described.n_curvatures,
            upper_uses_x=prior.curvature > 0,
            **problem,
        )

    def coefficients(self, y: npt.ArrayLike) -> tuple[Array, Array]:
        """Return the weights and intercepts of a model.

        Parameters
        ----------
        y : array_like
            (n,).

        Returns
        -------
        coef, intercept : ndarray
            (c, p) and (c,); without `fit_intercept` the intercepts are zero.
        """
        W = vector("y", y, self.dim_y, np.float64, "dim_y").reshape(self.n_outputs, -1)
        return W[:, : self.n_features], W[:, self.n_features] if self.fit_intercept else np.zeros(self.n_outputs)

    def decision_function(self, A: Any, y: npt.ArrayLike) -> Array:
        """Return the linear predictions A W' + intercepts.

        Parameters
        ----------
        A : array_like or sparse
            Rows, (k, p).
        y : array_like
            The model, (n,).

        Returns
        -------
        ndarray
            (k, c), of one output (k,).
        """
        coef, intercept = self.coefficients(y)
        matrix = same_columns(self.A, design_matrix("A", A), "A", "the training rows")
        scores = np.asarray(matrix @ coef.T) + intercept
        return scores[:, 0] if self.n_outputs == 1 else scores

    @functools.cached_property
    def code(self) -> str:
        """A hash of what the kernels do; see `CompiledProblem.code`."""
        keeps_curvatures = self.n_curvatures > 0
        if keeps_curvatures not in _codes:
            _codes[keeps_curvatures] = super().code
        return _codes[keeps_curvatures]

    @functools.cached_property
    def _sizes(self) -> DataSizes:
        return data_sizes(self)

    def fingerprint(self) -> str:
        """Return a hash of data and settings; see `BilevelProblem.fingerprint`."""
        arrays = (array for level in self.data for array in arrays_of(level))
        return fingerprint(type(self), *arrays, self.dim_x, self.dim_y, *self.bounds)


class ClassPredictions(LinearModel):
    """Predictions of a linear model with an output for each of some classes.

    Attributes
    ----------
    classes : ndarray
        The labels in the order of the outputs, (c,).
    """

    classes: Array

    def fingerprint(self) -> str:
        """Return a hash of data, classes and settings; see `BilevelProblem.fingerprint`."""
        return fingerprint(type(self), super().fingerprint(), self.classes.tolist())

    def predict(self, A: Any, y: npt.ArrayLike) -> Array:
        """Return the likeliest label of each row.

        Parameters
        ----------
        A : array_like or sparse
            Rows, (k, p).
        y : array_like
            The model, (n,).

        Returns
        -------
        ndarray
            Entries of `classes`, (k,).
        """
        return self.classes[self.decision_function(A, y).argmax(axis=1)]


class PenalisedLinearModel(LinearModel):
    """A linear model with a log penalty x for each group of its weights, 1/2 sum e^{x_k} w^2, and a prior on x.

    Parameters
    ----------
    rows : Rows
        The data.
    b, b_val : ndarray
        What the loss compares with.
    loss : str
        A class of `nbo.kernels.losses`.
    n_outputs : int
        c.
    outputs : str
        What a row of W is called in the names of penalties; "" for one row.
    penalty : str or array_like of int
        See `penalty_groups`.
    prior : pair or None
        (center, scale).
    fit_intercept : bool
        Whether W has an intercept.
    bounds : pair or None
        Of x.
    noise_variance : float
        What the prior is multiplied by.
    """

    def __init__(
        self,
        rows: Rows,
        b: Array,
        b_val: Array,
        *,
        loss: str,
        n_outputs: int,
        outputs: str,
        penalty: Any,
        prior: Any,
        fit_intercept: bool,
        bounds: Any,
        noise_variance: float = 1.0,
    ) -> None:
        self._groups = penalty_groups(penalty, n_outputs, rows.A.shape[1], outputs)
        self._outputs = outputs
        dim_x = int(self._groups.max()) + 1
        super().__init__(
            rows,
            b,
            b_val,
            loss=loss,
            n_outputs=n_outputs,
            fit_intercept=fit_intercept,
            penalty={"groups": self._groups, "limit": LARGEST_EXPONENTS[np.dtype(rows.A.dtype)]},
            prior=GaussianPrior(prior, dim_x, rows.total_val / noise_variance),
            dim_x=dim_x,
            bounds=box("bounds", (-np.log(max(rows.total, 1.0)) - 9.2, 12.0) if bounds is None else bounds, dim_x),
        )

    def on_rows(self, train: Array, held_out: Array) -> Self:
        """Return the same model on rows of its training data, without a prior.

        Penalties, bounds and classes are those of this problem, and what it has checked is not checked again.

        Parameters
        ----------
        train, held_out : ndarray of int
            Which training rows become the training and the validation rows; in each part some have a positive weight.

        Returns
        -------
        PenalisedLinearModel
            Of the same class, with copies of the rows.
        """
        b = self.data.lower[1]
        labels = owned(b[train], b.dtype), owned(b[held_out], b.dtype)
        return self._again(rows_at(self._rows, train, held_out), *labels, penalty=self._groups, bounds=self.bounds)

    def penalised(self, penalty: Any, prior: Any = None, *, noise_variance: float = 1.0, bounds: Any = None) -> Self:
        """Return the same model on the same rows with other penalties.

        What this problem has checked is not checked again, and no data are copied.

        Parameters
        ----------
        penalty : str or array_like of int
            As in the constructor.
        prior : pair, optional
            (center, scale), likewise.
        noise_variance : float
            Of `Ridge`, likewise.
        bounds : pair, optional
            Of x, likewise; the default ones if there are none.

        Returns
        -------
        PenalisedLinearModel
            Of the same class.
        """
        labels = self.data.lower[1], self.data.upper[1]
        return self._again(
            self._rows, *labels, penalty=penalty, prior=prior, noise_variance=noise_variance, bounds=bounds
        )

    def _again(self, rows: Rows, b: Array, b_val: Array, *, prior: Any = None, **settings: Any) -> Self:
        """Return the same model for checked rows."""
        part = object.__new__(type(self))
        part._take_labels(self, b, b_val)
        PenalisedLinearModel.__init__(
            part,
            rows,
            b,
            b_val,
            loss=type(self.data.common.loss).__name__,  # type: ignore[attr-defined]
            n_outputs=self.n_outputs,
            outputs=self._outputs,
            fit_intercept=self.fit_intercept,
            prior=prior,
            **settings,
        )
        return part

    def _take_labels(self, whole: Self, b: Array, b_val: Array) -> None:
        """Set what the classes keep of their labels, for rows of another problem."""
        self.b, self.b_val = b, b_val

    @functools.cached_property
    def _largest_gradient(self) -> float:
        return largest_gradient(self)

    def constants(self, bounds: Any = None) -> ProblemConstants:
        """Return constants valid in the tube |y - y*(x)| <= mu/(2 L_g2) over a box of x.

        With an intercept, which no penalty makes g curved along, mu is an estimate: a lower bound of the curvature at
        one y, near y*(x) at the lower corner of the box. What else depends on it is then one, too.

        Parameters
        ----------
        bounds : pair, optional
            The box of x; the problem's bounds by default.

        Returns
        -------
        ProblemConstants
            Of kind ``"bound"``, with an intercept ``"estimate"``. The noise is that of uniformly drawn rows, each
            times its weight.

        Raises
        ------
        NoConstantsError
            If e^x or squares of the data are not representable.
        ValueError
            If the box is not finite.
        """
        return penalised_constants(self, bounds)
