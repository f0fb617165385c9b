"""The mean logistic loss over stored rows and its derivatives, by single passes over the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import types

from nbo.kernels import csr, dense, links
from nbo.kernels.csr import CsrRows
from nbo.kernels.dense import DenseRows
from nbo.kernels.engine import array, by_storage, compiled, helper
from nbo.kernels.storage import plain_array

margins = by_storage(dense.margins, csr.margins)
accumulate = by_storage(dense.accumulate, csr.accumulate)

# The kernels. `rows` is an array or a CSR tuple, `scratch` (columns, rows of a block) receives the margins. `part`
# and `total` arrive zeroed: after every `flush` rows the sums in `part` move to `total`, unless one part is all.


def _value(rows, b, columns, scratch):  # type: ignore[no-untyped-def]
    """Return the sum of log(1 + exp(-b_i rows_i . y))."""
    n, block, total = b.shape[0], scratch.shape[1], 0.0
    for lo in range(0, n, block):
        hi = min(lo + block, n)
        margins(rows, lo, hi, columns, scratch)
        total += _sum_of_losses(b[lo:hi], scratch[0])
    return total


def _derivatives(rows, b, columns, scratch, flush, part, total, weights):  # type: ignore[no-untyped-def]
    """Add the gradient at the first column and the Hessian's product with the second; store the weights."""
    n, block = b.shape[0], scratch.shape[1]
    scale = b.dtype.type(1 / n)
    for start in range(0, n, flush):
        stop = min(start + flush, n)
        for lo in range(start, stop, block):
            hi = min(lo + block, stop)
            margins(rows, lo, hi, columns, scratch)
            _apply_links(b[lo:hi], scale, scratch[0], weights[lo:hi])
            for c in range(1, scratch.shape[0]):
                _multiply(weights[lo:hi], scratch[c])
            accumulate(rows, lo, hi, scratch, part)
        if flush < n:
            _flush(part, total)


def _hessian_product(rows, weights, columns, scratch, flush, part, total):  # type: ignore[no-untyped-def]
    """Add rows' diag(weights) rows . columns."""
    n, block = weights.shape[0], scratch.shape[1]
    for start in range(0, n, flush):
        stop = min(start + flush, n)
        for lo in range(start, stop, block):
            hi = min(lo + block, stop)
            margins(rows, lo, hi, columns, scratch)
            for c in range(scratch.shape[0]):
                _multiply(weights[lo:hi], scratch[c])
            accumulate(rows, lo, hi, scratch, part)
        if flush < n:
            _flush(part, total)


@helper
def _sum_of_losses(b, products):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(b.shape[0]):
        total += links.softplus(-b[i] * products[i])
    return total


@helper
def _apply_links(b, scale, products, weights):  # type: ignore[no-untyped-def]
    """Turn margins into the coefficients of the gradient, and store the curvature weights."""
    for i in range(b.shape[0]):
        slope, curvature = links.loss_derivatives(b[i] * products[i])
        products[i] = b[i] * slope * scale
        weights[i] = curvature * scale


@helper
def _multiply(weights, products):  # type: ignore[no-untyped-def]
    for i in range(weights.shape[0]):
        products[i] *= weights[i]


@helper
def _flush(part, total):  # type: ignore[no-untyped-def]
    for r in range(part.shape[0]):
        for j in range(part.shape[1]):
            total[r, j] += part[r, j]
            part[r, j] = 0


class LogisticMean:
    """The data term (1/n) sum_i log(1 + exp(-b_i a_i'y)) and its derivatives in y, by single passes over the rows.

    Parameters
    ----------
    A : (n, p) ndarray or scipy CSR matrix
        Rows of data, float32 or float64; a dense array is C-contiguous. Neither copied nor written; arrays may be
        read-only or memory-mapped.
    b : (n,) ndarray
        Labels -1 and +1, of A's dtype.

    Attributes
    ----------
    n_samples, n_features : int
        The shape of A.
    dtype : numpy.dtype
        The dtype of A, in which vectors are taken and returned. Sums over the samples are kept in double precision.

    Notes
    -----
    With t_i = b_i a_i'y the gradient is -(1/n) A'(b sigma(-t)), and the Hessian A' diag(w) A has the curvature
    weights w_i = sigma(t_i) sigma(-t_i) / n. Each kernel is compiled at its first use.
    """

    def __init__(self, A: Any, b: np.ndarray) -> None:
        self._rows: DenseRows | CsrRows = CsrRows(A) if sp.issparse(A) else DenseRows(A)
        self.n_samples, self.n_features = A.shape
        self.dtype = np.dtype(A.dtype)
        self._b = plain_array("b", b, (self.n_samples,), self.dtype)
        self._kernels: dict[Callable[..., Any], Callable[..., Any]] = {}

    def __getstate__(self) -> dict[str, Any]:
        # A copy in another process takes its kernels from that process's engine.
        return self.__dict__ | {"_kernels": {}}

    def value(self, y: np.ndarray) -> float:
        """Return the mean loss at y.

        Parameters
        ----------
        y : (p,) ndarray
            The point.

        Returns
        -------
        float
            The mean, summed in double precision.
        """
        work = self._rows.workspace(self._columns("y", y))
        total = self._kernel(_value)(self._rows.arrays, self._b, work.columns, work.scratch)
        return float(total) / self.n_samples

    def gradient(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient at y and the curvature weights by one pass.

        Parameters
        ----------
        y : (p,) ndarray
            The point.

        Returns
        -------
        gradient : (p,) ndarray
            The gradient.
        weights : (n,) ndarray
            The curvature weights, for `hvp`.
        """
        (gradient,), weights = self._derivatives(self._columns("y", y))
        return gradient, weights

    def gradient_and_hvp(self, y: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the gradient at y, the Hessian there times u and the curvature weights by one pass.

        Parameters
        ----------
        y : (p,) ndarray
            The point.
        u : (p,) ndarray
            The vector to multiply.

        Returns
        -------
        gradient : (p,) ndarray
            The gradient.
        product : (p,) ndarray
            The Hessian times u.
        weights : (n,) ndarray
            The curvature weights, for `hvp`.
        """
        columns = np.concatenate((self._columns("y", y), self._columns("u", u)))
        (gradient, product), weights = self._derivatives(columns)
        return gradient, product, weights

    def hvp(self, weights: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Return the Hessian times each row of V.

        Parameters
        ----------
        weights : (n,) ndarray
            Curvature weights from `gradient` or `gradient_and_hvp`.
        V : (k, p) ndarray
            One vector a row. Each two of them cost one pass over the rows; many become matrix products.

        Returns
        -------
        (k, p) ndarray
            The products, in the same order.
        """
        weights = plain_array("weights", weights, (self.n_samples,), self.dtype)
        V = np.asarray(V, self.dtype)
        if V.ndim != 2 or V.shape[1] != self.n_features:
            raise ValueError(f"V has shape {V.shape}, expected (k, {self.n_features})")
        if len(V) >= self._rows.wide:
            return self._rows.wide_product(weights, V)
        products = np.empty(V.shape, self.dtype)
        for c in range(0, len(V), 2):
            products[c : c + 2] = self._hessian_product(weights, V[c : c + 2])
        return products

    def _derivatives(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        work = self._rows.workspace(columns)
        weights = np.empty(self.n_samples, self.dtype)
        self._kernel(_derivatives)(self._rows.arrays, self._b, *work, weights)
        return self._rows.sums(work), weights

    def _hessian_product(self, weights: np.ndarray, columns: np.ndarray) -> np.ndarray:
        work = self._rows.workspace(columns)
        self._kernel(_hessian_product)(self._rows.arrays, weights, *work)
        return self._rows.sums(work)

    def _kernel(self, function: Callable[..., Any]) -> Callable[..., Any]:
        kernel = self._kernels.get(function)
        if kernel is None:
            kernel = self._kernels[function] = compiled(function, self._signature(function))
        return kernel

    def _signature(self, function: Callable[..., Any]) -> tuple[types.Type, ...]:
        real = self.dtype
        data = (self._rows.type, array(real, 1), array(real, 2), array(real, 2, writable=True))
        sums = (array(self._rows.part_dtype, 2, writable=True), array(np.float64, 2, writable=True))
        return {
            _value: data,
            _derivatives: (*data, types.int64, *sums, array(real, 1, writable=True)),
            _hessian_product: (*data, types.int64, *sums),
        }[function]

    def _columns(self, name: str, vector: np.ndarray) -> np.ndarray:
        vector = np.asarray(vector, self.dtype)
        if vector.shape != (self.n_features,):
            raise ValueError(f"{name} has shape {vector.shape}, expected ({self.n_features},)")
        return vector[np.newaxis]
