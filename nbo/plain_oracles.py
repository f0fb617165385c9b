"""A plain problem's methods as the kernels that loops call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nbo._validation import require_unmasked
from nbo.feasible_sets import FeasibleSet
from nbo.minibatches import Data, Kernels, Oracles
from nbo.oracles import frozen, sample_sizes
from nbo.problem import OPTIONAL_ORACLES, BilevelProblem, FiniteSumProblem, provides
from nbo.sampling import shuffled

Array = npt.NDArray[Any]


class PlainOracles:
    """Adapters around the oracles of a problem, which stored rows reach as arrays of sample indices.

    A problem that is no `FiniteSumProblem` is one sample on each level. Points are handed over as read-only copies,
    since loops change theirs in place.

    Parameters
    ----------
    problem : BilevelProblem
        The problem.
    """

    #: Windows past the end are no two ranges here: indices are stored twice over.
    wraps = False
    #: A shared lower batch is handed to one oracle after the other.
    fuses = False

    def __init__(self, problem: BilevelProblem) -> None:
        self._problem = problem
        self._has_samples = isinstance(problem, FiniteSumProblem)
        if self._has_samples:
            _require_batches(problem)
        self._sizes = tuple(sample_sizes(problem)[level] for level in ("lower", "upper"))
        self._whole: tuple[Any, ...] = ()

    def data(self, seed: int | None) -> Data:
        """Return all samples once.

        Parameters
        ----------
        seed : int or None
            Of a shuffle; None for the original order.

        Returns
        -------
        Data
            Their indices.
        """
        orders = (
            np.arange(n) if seed is None else shuffled(seed, level, n)
            for level, n in zip(("lower", "upper"), self._sizes, strict=True)
        )
        self._whole = tuple(frozen(*orders))
        return Data(self._whole[:1], self._whole[1:], ())

    def chosen(self, lower: Array, upper: Array) -> Data:
        """Return chosen samples.

        Parameters
        ----------
        lower, upper : ndarray of int
            Which ones.

        Returns
        -------
        Data
            Their indices.
        """
        lower, upper = frozen(lower, upper)
        return Data((lower,), (upper,), ())

    def feasible(self, feasible: FeasibleSet) -> FeasibleSet:
        """Return a feasible set as plain loops take it.

        Parameters
        ----------
        feasible : FeasibleSet
            Any.

        Returns
        -------
        FeasibleSet
            The same.
        """
        return feasible

    def call(self, loop: Callable[..., Any], o: Oracles, *arguments: Any) -> None:
        """Run a loop as plain Python.

        Parameters
        ----------
        loop : callable
            Its first argument is `o`.
        o : Oracles
            What it reaches the problem by.
        *arguments : object
            The rest.
        """
        loop(o, *arguments)

    def kernels(self, names: Sequence[str]) -> Kernels:
        """Return the adapters.

        Parameters
        ----------
        names : sequence of str
            The kernels that the loop calls; the others cost nothing here.

        Returns
        -------
        Kernels
            Of the same signatures as compiled kernels.
        """
        return Kernels(
            lower_grad_y=self._lower_grad_y,
            lower_hvp=self._lower_hvp,
            lower_grad_y_and_hvp=self._lower_grad_y_and_hvp,
            lower_jvp=self._lower_jvp,
            lower_parts=None,
            upper_grad=self._upper_grad,
            lower_grad_x=self._lower_grad_x,
        )

    def _lower_grad_y(self, data, lo, hi, scale, x, y, out):  # type: ignore[no-untyped-def]
        _add(out, "lower_grad_y", scale * (hi - lo), self._call("lower_grad_y", data.lower[-1], lo, hi, x, y))

    def _lower_hvp(self, data, lo, hi, scale, x, y, V, out):  # type: ignore[no-untyped-def]
        for v, row in zip(V, out, strict=True):
            _add(row, "lower_hvp", scale * (hi - lo), self._call("lower_hvp", data.lower[-1], lo, hi, x, y, v))

    def _lower_grad_y_and_hvp(self, data, lo, hi, scale, x, y, u, out):  # type: ignore[no-untyped-def]
        self._lower_grad_y(data, lo, hi, scale, x, y, out[0])
        self._lower_hvp(data, lo, hi, scale, x, y, u[None], out[1:])

    def _lower_jvp(self, data, lo, hi, scale, x, y, u, out):  # type: ignore[no-untyped-def]
        _add(out, "lower_jvp", scale * (hi - lo), self._call("lower_jvp", data.lower[-1], lo, hi, x, y, u))

    def _lower_grad_x(self, data, lo, hi, scale, x, y, out):  # type: ignore[no-untyped-def]
        _add(out, "lower_grad_x", scale * (hi - lo), self._call("lower_grad_x", data.lower[-1], lo, hi, x, y))

    def _upper_grad(self, data, lo, hi, scale, x, y, out_x, out_y):  # type: ignore[no-untyped-def]
        pair = self._call("upper_grad", data.upper[-1], lo, hi, x, y)
        try:
            first, second = pair
        except (TypeError, ValueError):
            raise TypeError(
                f"upper_grad: returned {type(pair).__name__}; expected a pair (grad_1 f, grad_2 f)"
            ) from None
        _add(out_x, "upper_grad (first part)", scale * (hi - lo), first)
        _add(out_y, "upper_grad (second part)", scale * (hi - lo), second)

    def _call(self, name: str, rows: Array, lo: int, hi: int, *arguments: Array) -> Any:
        oracle = getattr(self._problem, name)
        arguments = tuple(frozen(*(a.copy() for a in arguments)))
        if not self._has_samples:
            return oracle(*arguments)
        everything = hi - lo == rows.shape[0] and any(rows is whole for whole in self._whole)
        return oracle(*arguments, batch=None if everything else rows[lo:hi])


def _require_batches(problem: BilevelProblem) -> None:
    """Raise unless the oracles that the loops call take a batch."""
    for name in Kernels._fields:
        oracle = getattr(problem, name, None)
        if oracle is None or (name in OPTIONAL_ORACLES and not provides(problem, name)):
            continue  # a kernel made of two oracles, or one that this problem lacks
        try:
            parameters = inspect.signature(oracle).parameters.values()
        except (TypeError, ValueError):  # not every callable tells its parameters
            continue
        if not any(p.name == "batch" or p.kind is p.VAR_KEYWORD for p in parameters):
            raise TypeError(
                f"problem: {name} of {type(problem).__name__} takes no argument batch; expected batch=None as its last "
                "one, as in nbo.FiniteSumProblem (a problem without samples is a nbo.BilevelProblem)"
            )


def _add(out: Array, name: str, factor: float, value: Any) -> None:
    require_unmasked(name, value)
    array = np.asarray(value)
    if array.shape != out.shape or array.dtype.kind not in "fiu":
        raise ValueError(
            f"{name}: returned an array of shape {array.shape} and type {array.dtype} for a batch; expected shape "
            f"{out.shape} of real numbers"
        )
    out += out.dtype.type(factor) * array
