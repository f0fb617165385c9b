"""The counted view of a problem: every oracle call is counted by kind and checked."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from nbo._storable import storable
from nbo._validation import dimension, integer, require_unmasked, vector
from nbo._vectors import all_finite
from nbo.problem import BilevelProblem, FiniteSumProblem, LowerModel

Array = npt.NDArray[Any]


@storable
@dataclasses.dataclass(frozen=True)
class OracleCounts:
    """How often each kind of oracle was called, or over how many samples.

    A block of k directions counts k products. Counts of one run add and subtract.

    Attributes
    ----------
    upper_value, upper_grad, upper_hvp, upper_jvp : int
        Oracles of f; `upper_grad` is the joint gradient.
    lower_value, lower_grad_y, lower_grad_x, lower_hvp, lower_jvp : int
        Oracles of g.
    """

    upper_value: int = 0
    upper_grad: int = 0
    upper_hvp: int = 0
    upper_jvp: int = 0
    lower_value: int = 0
    lower_grad_y: int = 0
    lower_grad_x: int = 0
    lower_hvp: int = 0
    lower_jvp: int = 0

    def __add__(self, other: OracleCounts) -> OracleCounts:
        if not isinstance(other, OracleCounts):
            return NotImplemented
        return OracleCounts(*(getattr(self, k) + getattr(other, k) for k in KINDS))

    def __sub__(self, other: OracleCounts) -> OracleCounts:
        if not isinstance(other, OracleCounts):
            return NotImplemented
        return OracleCounts(*(getattr(self, k) - getattr(other, k) for k in KINDS))

    def __mul__(self, times: int) -> OracleCounts:
        return OracleCounts(*(times * getattr(self, k) for k in KINDS))

    __rmul__ = __mul__

    def as_dict(self) -> dict[str, int]:
        """Return the counts by kind.

        Returns
        -------
        dict
            Oracle name -> count, in a fixed order.
        """
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        used = [f"{k}={v}" for k, v in self.as_dict().items() if v]
        return ", ".join(used) or "no calls"


#: The kinds of oracles, in the order of `OracleCounts`.
KINDS = tuple(f.name for f in dataclasses.fields(OracleCounts))


class NonFiniteOracleError(ArithmeticError):
    """An oracle returned a NaN or an infinity.

    Parameters
    ----------
    oracle : str
        Which one.
    moderate : bool
        Whether its arguments were of ordinary size, so that the oracle itself is to blame.
    """

    def __init__(self, oracle: str, moderate: bool) -> None:
        super().__init__(oracle, moderate)
        self.oracle = oracle
        self.moderate = moderate

    def __str__(self) -> str:
        return f"{self.oracle} returned a value that is not finite"


@contextlib.contextmanager
def finite_or_named() -> Iterator[None]:
    """Name the oracle whose value is not finite, whatever NumPy is set to do about floating-point errors.

    Yields
    ------
    None
        To a block of calls through a `CountedProblem`.

    Raises
    ------
    ValueError
        With the name of the oracle.
    """
    with np.errstate(all="ignore"):
        try:
            yield
        except NonFiniteOracleError as error:
            raise ValueError(f"{error} at this x; expected a finite number") from error


class CountedProblem:
    """A problem seen through a counter; solvers see nothing else of it.

    Returned arrays are checked for shape, type and finiteness and copied, so that a problem may
    reuse its buffers. Points are given to the problem as read-only arrays.

    Parameters
    ----------
    problem : BilevelProblem
        The problem to count.

    Attributes
    ----------
    dim_x, dim_y : int
        As the problem's.
    dtype : dtype
        Of y, u and all lower-level vectors.
    """

    #: Arguments below this size cannot overflow an ordinary oracle.
    MODERATE = 1e8

    def __init__(self, problem: BilevelProblem) -> None:
        if not isinstance(problem, BilevelProblem):
            raise TypeError(f"problem: found {type(problem).__name__}; expected a BilevelProblem")
        self.problem = problem
        self.dim_x = dimension(problem, "dim_x")
        self.dim_y = dimension(problem, "dim_y")
        self.dtype = working_type(problem)
        self._sizes = sample_sizes(problem)
        self._calls, self._samples = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0)
        self._before = OracleCounts(), OracleCounts()

    @property
    def counts(self) -> OracleCounts:
        """The calls so far, by kind."""
        return self._before[0] + OracleCounts(**self._calls)

    @property
    def samples(self) -> OracleCounts:
        """The component samples that those calls went over (a problem that is no finite sum has one a level)."""
        return self._before[1] + OracleCounts(**self._samples)

    def count_before(self, calls: OracleCounts, samples: OracleCounts) -> None:
        """Add calls that were made elsewhere, such as before a run was resumed.

        Parameters
        ----------
        calls, samples : OracleCounts
            The calls, and the samples that they went over.
        """
        self._before = self._before[0] + calls, self._before[1] + samples

    def upper_point(self, name: str, value: Any) -> Array:
        """Return an argument that is a point x, checked and copied.

        Parameters
        ----------
        name : str
            The argument, for messages.
        value : array_like
            What was given.

        Returns
        -------
        ndarray
            (m,), float64.

        Raises
        ------
        TypeError, ValueError
            Unless it is a finite vector of that length.
        """
        return vector(name, value, self.dim_x, np.float64, "dim_x")

    def lower_point(self, name: str, value: Any) -> Array:
        """Return an argument that is a y or u, checked and copied.

        Parameters
        ----------
        name : str
            The argument, for messages.
        value : array_like
            What was given.

        Returns
        -------
        ndarray
            (n,), of the type of y.

        Raises
        ------
        TypeError, ValueError
            Unless it is a finite vector of that length.
        """
        return vector(name, value, self.dim_y, self.dtype, "dim_y")

    def lower_start(self, name: str, value: Any) -> Array:
        """Return an argument that is a start for y or u, by default zeros; see `lower_point`.

        Parameters
        ----------
        name : str
            The argument, for messages.
        value : array_like or None
            What was given.

        Returns
        -------
        ndarray
            (n,), of the type of y.
        """
        return np.zeros(self.dim_y, dtype=self.dtype) if value is None else self.lower_point(name, value)

    def upper_value(self, x: Array, y: Array) -> float:
        """Return f(x, y), counted.

        Parameters
        ----------
        x, y : ndarray
            The point.

        Returns
        -------
        float
            The value.
        """
        self._count("upper_value")
        return self._number("upper_value", self.problem.upper_value(*frozen(x, y)), x, y)

    def upper_grad(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Return grad_1 f, (m,) float64, and grad_2 f, (n,), counted once.

        Parameters
        ----------
        x, y : ndarray
            The point.

        Returns
        -------
        tuple of ndarray
            The two parts.
        """
        self._count("upper_grad")
        pair = self.problem.upper_grad(*frozen(x, y))
        try:
            first, second = pair
        except (TypeError, ValueError):
            raise TypeError(
                f"upper_grad: returned {type(pair).__name__}; expected a pair (grad_1 f, grad_2 f) of arrays of "
                f"shapes ({self.dim_x},) and ({self.dim_y},)"
            ) from None
        return (
            self._array("upper_grad (first part)", first, (self.dim_x,), np.dtype(np.float64), x, y),
            self._array("upper_grad (second part)", second, (self.dim_y,), self.dtype, x, y),
        )

    def upper_hvp(self, x: Array, y: Array, v: Array) -> Array:
        """Return nabla_22^2 f(x, y) v, (n,), counted.

        Parameters
        ----------
        x, y : ndarray
            The point.
        v : ndarray
            A direction, (n,).

        Returns
        -------
        ndarray
            The product.
        """
        self._count("upper_hvp")
        found = self.problem.upper_hvp(*frozen(x, y, v))
        return self._array("upper_hvp", found, (self.dim_y,), self.dtype, x, y, v)

    def upper_jvp(self, x: Array, y: Array, u: Array) -> Array:
        """Return nabla_12^2 f(x, y) u, (m,) float64, counted.

        Parameters
        ----------
        x, y : ndarray
            The point.
        u : ndarray
            A direction, (n,).

        Returns
        -------
        ndarray
            The product.
        """
        self._count("upper_jvp")
        found = self.problem.upper_jvp(*frozen(x, y, u))
        return self._array("upper_jvp", found, (self.dim_x,), np.dtype(np.float64), x, y, u)

    def lower_model(self, x: Array, y: Array) -> CountedModel:
        """Return the counted lower level around (x, y); no work.

        Parameters
        ----------
        x, y : ndarray
            The point.

        Returns
        -------
        CountedModel
            Its methods are counted here.
        """
        model = self.problem.lower_model(*frozen(x, y))
        if not isinstance(model, LowerModel):
            raise TypeError(f"lower_model: returned {type(model).__name__}; expected a LowerModel")
        return CountedModel(self, model, x, y)

    def batch_hvp(self, x: Array, y: Array, batch: Array) -> Callable[[Array], Array]:
        """Return the product with the mean Hessian over some samples of a `FiniteSumProblem`, counted.

        Parameters
        ----------
        x, y : ndarray
            The point.
        batch : ndarray of int
            The samples.

        Returns
        -------
        callable
            (k, n) -> (k, n), one product a row.
        """
        return self.over_samples(batch, None).lower_model(x, y).hvp

    def over_samples(self, lower: Array | None, upper: Array | None) -> CountedProblem:
        """Return a view of the means over some samples of a `FiniteSumProblem`, whose calls are counted here.

        Parameters
        ----------
        lower, upper : ndarray of int or None
            The samples of each level; None for all.

        Returns
        -------
        CountedProblem
            It has the counts of this view and adds to them, samples by the sizes of its batches.
        """
        view = CountedProblem(_OverSamples(self.problem, lower, upper))
        view._calls, view._samples = self._calls, self._samples
        sizes = (("lower", lower), ("upper", upper))
        view._sizes = {level: self._sizes[level] if batch is None else len(batch) for level, batch in sizes}
        return view

    def _count(self, kind: str, times: int = 1) -> None:
        self._calls[kind] += times
        self._samples[kind] += times * self._sizes[kind[:5]]

    def batch_differences(self, x: Array, y: Array, batch: Array | None) -> Callable[[Array], Array]:
        """Return the product with the mean Hessian over some samples by differences of gradients, two a row, counted.

        Parameters
        ----------
        x, y : ndarray
            The point.
        batch : ndarray of int or None
            The samples; None for all, of any problem.

        Returns
        -------
        callable
            (k, n) -> (k, n), with a relative error of about the cube root of the rounding unit squared.
        """
        view = self if batch is None else self.over_samples(batch, None)
        step = float(np.cbrt(np.finfo(self.dtype).eps)) * (1.0 + float(np.abs(y).max(initial=0.0)))

        def product(v: Array) -> Array:
            h = self.dtype.type(step / (float(np.abs(v).max()) or 1.0))
            after, before = (view.lower_model(x, y + sign * h * v).grad_y() for sign in (1, -1))
            return (after - before) / (2 * h)

        return lambda V: np.stack([product(v) for v in V])

    def _number(self, name: str, value: Any, *arguments: Array) -> float:
        number = np.asarray(value)
        if number.size != 1 or number.dtype.kind not in "fiu":
            raise TypeError(
                f"{name}: returned {type(value).__name__} of shape {number.shape} and type {number.dtype}; "
                "expected a number"
            )
        result = float(number.reshape(()))
        if not np.isfinite(result):
            raise NonFiniteOracleError(name, _moderate(*arguments))
        return result

    def _array(self, name: str, value: Any, shape: tuple[int, ...], dtype: np.dtype[Any], *arguments: Array) -> Array:
        require_unmasked(name, value)
        found = np.asarray(value)
        if found.shape != shape or found.dtype.kind not in "fiu":
            raise ValueError(
                f"{name}: returned an array of shape {found.shape} and type {found.dtype}; "
                f"expected shape {shape} of real numbers"
            )
        result = np.array(found, dtype=dtype)
        if not all_finite(result):
            raise NonFiniteOracleError(name, _moderate(*arguments))
        return result


class _OverSamples(BilevelProblem):
    """The oracles of a problem as means over some of its samples."""

    def __init__(self, problem: BilevelProblem, lower: Array | None, upper: Array | None) -> None:
        self._problem: Any = problem
        self._lower, self._upper = lower, upper
        self.dim_x, self.dim_y, self.dtype = problem.dim_x, problem.dim_y, problem.dtype

    def upper_value(self, x: Array, y: Array) -> float:
        return self._problem.upper_value(x, y, batch=self._upper)

    def upper_grad(self, x: Array, y: Array) -> tuple[Array, Array]:
        return self._problem.upper_grad(x, y, batch=self._upper)

    def lower_value(self, x: Array, y: Array) -> float:
        return self._problem.lower_value(x, y, batch=self._lower)

    def lower_grad_y(self, x: Array, y: Array) -> Array:
        return self._problem.lower_grad_y(x, y, batch=self._lower)

    def lower_hvp(self, x: Array, y: Array, v: Array) -> Array:
        return self._problem.lower_hvp(x, y, v, batch=self._lower)

    def lower_jvp(self, x: Array, y: Array, u: Array) -> Array:
        return self._problem.lower_jvp(x, y, u, batch=self._lower)


class CountedModel(LowerModel):
    """A lower model whose products and gradients are counted and checked by its problem's view.

    Parameters
    ----------
    view : CountedProblem
        Where calls are counted.
    model : LowerModel
        What does the work.
    x, y : ndarray
        The point.
    """

    def __init__(self, view: CountedProblem, model: LowerModel, x: Array, y: Array) -> None:
        super().__init__(view.problem, x, y)
        self._view = view
        self._model = model

    def value(self) -> float:
        """Return g(x, y), counted; see `LowerModel.value`."""
        self._view._count("lower_value")
        return self._view._number(self._name("lower_value"), self._model.value(), self.x, self.y)

    def grad_y(self) -> Array:
        """Return grad_2 g, (n,), counted; see `LowerModel.grad_y`."""
        self._view._count("lower_grad_y")
        return self._vector("lower_grad_y", self._model.grad_y(), self._view.dim_y)

    def grad_x(self) -> Array:
        """Return grad_1 g, (m,) float64, counted; see `LowerModel.grad_x`."""
        self._view._count("lower_grad_x")
        return self._vector("lower_grad_x", self._model.grad_x(), self._view.dim_x, np.dtype(np.float64))

    def grad_y_and_hvp(self, u: Array) -> tuple[Array, Array]:
        """Return grad_2 g and H u, counted as one of each; see `LowerModel.grad_y_and_hvp`."""
        self._view._count("lower_grad_y")
        self._view._count("lower_hvp")
        gradient, product = self._model.grad_y_and_hvp(*frozen(u))
        n = self._view.dim_y
        return self._vector("lower_grad_y", gradient, n), self._vector("lower_hvp", product, n, None, u)

    def hvp(self, V: Array) -> Array:
        """Return H v for each row of `V`, counted once a row; see `LowerModel.hvp`."""
        self._view._count("lower_hvp", V.shape[0])
        products = self._model.hvp(*frozen(V))
        return self._view._array(self._name("lower_hvp"), products, V.shape, self._view.dtype, self.x, self.y, V)

    def jvp(self, u: Array) -> Array:
        """Return J u, (m,) float64, counted; see `LowerModel.jvp`."""
        self._view._count("lower_jvp")
        return self._vector("lower_jvp", self._model.jvp(*frozen(u)), self._view.dim_x, np.dtype(np.float64), u)

    def _name(self, oracle: str) -> str:
        """Return what to blame: the oracle, or the method of the problem's own model."""
        kind = type(self._model)
        return oracle if kind is LowerModel else f"{kind.__name__}.{oracle.removeprefix('lower_')}"

    def _vector(
        self, name: str, value: Any, size: int, dtype: np.dtype[Any] | None = None, *directions: Array
    ) -> Array:
        dtype = self._view.dtype if dtype is None else dtype
        return self._view._array(self._name(name), value, (size,), dtype, self.x, self.y, *directions)


def working_type(problem: BilevelProblem) -> np.dtype[Any]:
    """Return the type of y and u, float64 or float32.

    Parameters
    ----------
    problem : BilevelProblem
        Whose `dtype` counts.

    Returns
    -------
    dtype
        The type.

    Raises
    ------
    TypeError
        For any other type, in which the linear algebra behind the methods does not exist.
    """
    try:
        found = np.dtype(problem.dtype)
    except TypeError:
        found = None
    if found not in (np.float64, np.float32):
        raise TypeError(f"problem.dtype: found {problem.dtype!r}; expected float64 or float32")
    return np.dtype(found.newbyteorder("="))


def frozen(*arrays: Array) -> list[Array]:
    """Return read-only views, so that an oracle that writes into its arguments fails at once.

    Parameters
    ----------
    *arrays : ndarray
        What to protect.

    Returns
    -------
    list of ndarray
        The views.
    """
    views = [a.view() for a in arrays]
    for view in views:
        view.flags.writeable = False
    return views


def _moderate(*arguments: Array) -> bool:
    return all(bool(np.abs(a).max(initial=0.0) < CountedProblem.MODERATE) for a in arguments)


def sample_sizes(problem: BilevelProblem) -> dict[str, int]:
    """Return the numbers of samples of both levels.

    Parameters
    ----------
    problem : BilevelProblem
        A problem that is no `FiniteSumProblem` counts as one sample a level.

    Returns
    -------
    dict
        ``"upper"`` and ``"lower"`` -> at least 1.

    Raises
    ------
    TypeError, ValueError
        If a number is missing or no positive integer.
    """
    if not isinstance(problem, FiniteSumProblem):
        return {"upper": 1, "lower": 1}
    return {
        level: integer(f"problem.n_samples_{level}", getattr(problem, f"n_samples_{level}", None), minimum=1)
        for level in ("upper", "lower")
    }
