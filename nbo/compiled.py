"""Problems given as data arrays and kernels, whose loops run compiled."""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from nbo._code_digest import add_function
from nbo._kernel_forms import KEEPING, KERNELS, OPTIONAL_ORACLES, checked_kernels
from nbo._sample_arrays import arrays_of, chosen_rows, common_parts, is_mapped, level_parts, take_rows, working_type
from nbo._validation import flag, integer
from nbo.minibatches import Data
from nbo.oracles import sample_sizes
from nbo.problem import FiniteSumProblem, LowerModel
from nbo.sampling import shuffled

Array = npt.NDArray[Any]

#: Rows that an oracle hands to a kernel at a time where their sum is single; the sums of those are kept in double.
_ROWS = 4096


class CompiledProblem(FiniteSumProblem):
    """A finite-sum problem given as data arrays and kernels; stochastic methods run on it as compiled loops.

    With G_i the part of sample i, g = mean G_i, a kernel k(data, lo, hi, scale, x, y, ..., out) does
    out += scale * sum of dG_i over the stored rows lo .. hi - 1. Penalties belong to every G_i: they enter with the
    factor scale * (hi - lo). The Python oracles and the lower model are derived from the kernels.

    Parameters
    ----------
    lower, upper : tuple of array_like or sparse
        What belongs to single samples of g and of f: arrays with one entry or row a sample, CSR matrices. The
        stochastic methods store them in shuffled order, as a copy, except for memory maps.
    kernels : mapping of str to callable
        Plain functions that numba can compile, or functions jitted by ``numba.njit``, whose options are kept:
        ``lower_value``, ``lower_grad_y``, ``lower_hvp``, ``lower_grad_y_and_hvp``, ``lower_jvp``, ``upper_value`` and
        ``upper_grad``; for methods that need them, ``lower_grad_x``, ``upper_hvp`` and ``upper_jvp``; and to share
        work, ``lower_parts``, and ``lower_pass`` with ``lower_kept_hvp``.
    dim_x, dim_y : int
        m and n.
    common : tuple
        Arrays and numbers that belong to no sample, handed to the kernels as they are.
    bounds : pair
        Bounds of x.
    n_curvatures : int
        How many numbers a sample ``lower_pass`` keeps for ``lower_kept_hvp``.
    x_per_sample : bool
        Whether x has an entry for each lower sample, which alone depends on it: `out` of ``lower_jvp`` and
        ``lower_grad_x`` then has an entry for each row, (hi - lo,), and plain minibatch methods cost O(batch) in x.
    upper_uses_x : bool
        False if grad_1 f = 0: methods then leave out what belongs to it, and `out_x` may have no entries.

    Attributes
    ----------
    data : Data
        ``data.lower`` and ``data.upper`` are the tuples with one more array at the end, the original index of each
        stored row; a CSR matrix is (values, indices, indptr) with unsigned indices. ``data.common`` is `common`.
    n_samples_upper, n_samples_lower : int
        The numbers of samples.
    dtype : dtype
        float32 if all floating data of the samples are, else float64: the type of y, u, V and of results in the space
        of y. x, and results in its space, are float64.

    Raises
    ------
    TypeError, ValueError
        For data that do not fit together, and for missing, unknown or malformed kernels, with their names.

    See Also
    --------
    FiniteSumProblem : The same without a compiler.

    Notes
    -----
    Arguments and results of the kernels: ``lower_value`` and ``upper_value`` add to out[0]; ``lower_grad_y`` to
    out (n,); ``lower_hvp`` and ``upper_hvp`` multiply every row of V (k, n), any k >= 1, and add to out (k, n);
    ``lower_grad_y_and_hvp`` adds grad_2 g to out[0] and H u to out[1]; ``lower_jvp``, ``upper_jvp`` and
    ``lower_grad_x`` add to out (m,); ``upper_grad`` to out_x (m,) and out_y (n,). Other arrays are read-only.

    More kernels share work. ``lower_parts(data, lo, hi, scale, x, y, u, out_pair, out_samples)`` is
    ``lower_grad_y_and_hvp`` and ``lower_jvp`` at once, for methods with one lower batch. For all samples,
    ``lower_pass(data, lo, hi, scale, x, y, V, out_y, out_V, out_curvatures)`` adds grad_2 g and H v for each row of
    V (k, n), k >= 0, and writes what products need to the columns lo .. hi - 1 of out_curvatures
    (n_curvatures, samples); ``lower_kept_hvp(data, lo, hi, scale, x, curvatures, V, out)`` then adds H v.

    Examples
    --------
    Ridge regression with one log penalty for all coefficients:

    >>> import nbo, numpy as np
    >>> def lower_value(data, lo, hi, scale, x, y, out):
    ...     A, b, row = data.lower
    ...     for i in range(lo, hi):
    ...         r = A[i] @ y - b[i]
    ...         out[0] += scale * (r * r + np.exp(x[0]) * (y @ y)) / 2
    >>> def lower_grad_y(data, lo, hi, scale, x, y, out):
    ...     A, b, row = data.lower
    ...     for i in range(lo, hi):
    ...         out += scale * ((A[i] @ y - b[i]) * A[i] + np.exp(x[0]) * y)
    >>> def lower_hvp(data, lo, hi, scale, x, y, V, out):
    ...     A, b, row = data.lower
    ...     for k in range(V.shape[0]):
    ...         for i in range(lo, hi):
    ...             out[k] += scale * ((A[i] @ V[k]) * A[i] + np.exp(x[0]) * V[k])
    >>> def lower_grad_y_and_hvp(data, lo, hi, scale, x, y, u, out):
    ...     A, b, row = data.lower
    ...     for i in range(lo, hi):
    ...         out[0] += scale * ((A[i] @ y - b[i]) * A[i] + np.exp(x[0]) * y)
    ...         out[1] += scale * ((A[i] @ u) * A[i] + np.exp(x[0]) * u)
    >>> def lower_jvp(data, lo, hi, scale, x, y, u, out):
    ...     out[0] += scale * (hi - lo) * np.exp(x[0]) * (y @ u)
    >>> def upper_value(data, lo, hi, scale, x, y, out):
    ...     A, b, row = data.upper
    ...     for i in range(lo, hi):
    ...         out[0] += scale * (A[i] @ y - b[i]) ** 2 / 2
    >>> def upper_grad(data, lo, hi, scale, x, y, out_x, out_y):
    ...     A, b, row = data.upper
    ...     for i in range(lo, hi):
    ...         out_y += scale * (A[i] @ y - b[i]) * A[i]
    >>> rng = np.random.default_rng(0)
    >>> A, A_val = rng.standard_normal((200, 3)), rng.standard_normal((100, 3))
    >>> b, b_val = A @ [1.0, 2, 3] + rng.standard_normal(200), A_val @ [1.0, 2, 3]
    >>> functions = (
    ...     lower_value, lower_grad_y, lower_hvp, lower_grad_y_and_hvp, lower_jvp, upper_value, upper_grad
    ... )
    >>> problem = nbo.CompiledProblem(
    ...     lower=(A, b),
    ...     upper=(A_val, b_val),
    ...     kernels={function.__name__: function for function in functions},
    ...     dim_x=1,
    ...     dim_y=3,
    ... )
    >>> bool(nbo.check_problem(problem, np.zeros(1), np.ones(3)))
    True
    >>> res = nbo.minimize(problem, np.zeros(1), method="soba", random_state=0, max_iter=200,
    ...                    options={"step_size": 0.05, "inner_step_size": 0.1, "batch_size": 16})
    >>> bool(res.fun < 0.1)
    True
    """

    #: Oracles that this very class computes in another way than by its kernels, with the same results.
    faster_oracles: ClassVar[tuple[str, ...]] = ()
    #: Whether the class hands over data that it has checked for NaN and infinities.
    _finite_data: ClassVar[bool] = False

    def __init__(
        self,
        *,
        lower: tuple[Any, ...],
        upper: tuple[Any, ...],
        kernels: Mapping[str, Callable[..., Any]],
        dim_x: int,
        dim_y: int,
        common: tuple[Any, ...] = (),
        bounds: Any = (-np.inf, np.inf),
        n_curvatures: int = 0,
        x_per_sample: bool = False,
        upper_uses_x: bool = True,
    ) -> None:
        self.dim_x = integer("dim_x", dim_x, minimum=1)
        self.dim_y = integer("dim_y", dim_y, minimum=1)
        self.bounds = bounds
        self._kernels = checked_kernels(kernels)
        self._absent = frozenset(name for name in OPTIONAL_ORACLES if name not in self._kernels)
        self.n_samples_lower, lower = level_parts("lower", lower, self._finite_data)
        self.n_samples_upper, upper = level_parts("upper", upper, self._finite_data)
        self.data = Data(lower, upper, common_parts(common))
        self.dtype = working_type(lower, upper)
        self.n_curvatures = integer("n_curvatures", n_curvatures, minimum=1 if KEEPING[0] in self._kernels else 0)
        self.x_per_sample = flag("x_per_sample", x_per_sample)
        self.upper_uses_x = flag("upper_uses_x", upper_uses_x)
        if self.x_per_sample and self.dim_x != self.n_samples_lower:
            raise ValueError(
                f"dim_x: found {self.dim_x}; expected {self.n_samples_lower}, the number of lower samples, with "
                "x_per_sample=True"
            )
        self._mapped = {name: is_mapped(level) for name, level in (("lower", lower), ("upper", upper))}
        #: What `nbo.kernels.loops` has compiled for these data.
        self.compiled_kernels: dict[Any, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: part for name, part in self.__dict__.items() if name != "code"}
        return kept | {"compiled_kernels": {}}  # both can be made again

    @property
    def kernels(self) -> Mapping[str, Callable[..., Any]]:
        """The kernels by name, read-only."""
        return MappingProxyType(self._kernels)

    def shuffled(self, seed: int) -> Data:
        """Return the data in the order of a seed.

        Parameters
        ----------
        seed : int
            Of a run.

        Returns
        -------
        Data
            A copy, but for levels with memory maps, whose samples stay in order.
        """
        levels = [
            level if self._mapped[name] else take_rows(level, shuffled(seed, name, level[-1].shape[0]))
            for name, level in (("lower", self.data.lower), ("upper", self.data.upper))
        ]
        return Data(levels[0], levels[1], self.data.common)

    def upper_value(self, x: Array, y: Array, batch: Any = None) -> float:
        """Return f; see `BilevelProblem.upper_value`."""
        return float(self.mean_of("upper_value", batch, (x, y))[0][0])

    def upper_grad(self, x: Array, y: Array, batch: Any = None) -> tuple[Array, Array]:
        """Return grad_1 f and grad_2 f; see `BilevelProblem.upper_grad`."""
        grad_1, grad_2 = self.mean_of("upper_grad", batch, (x, y))
        return grad_1, grad_2

    def upper_hvp(self, x: Array, y: Array, v: Array, batch: Any = None) -> Array:
        """Return nabla_22^2 f v; see `BilevelProblem.upper_hvp`."""
        return self.mean_of("upper_hvp", batch, (x, y, np.asarray(v)[None]))[0][0]

    def upper_jvp(self, x: Array, y: Array, u: Array, batch: Any = None) -> Array:
        """Return nabla_12^2 f u; see `BilevelProblem.upper_jvp`."""
        return self.mean_of("upper_jvp", batch, (x, y, u))[0]

    def lower_value(self, x: Array, y: Array, batch: Any = None) -> float:
        """Return g; see `BilevelProblem.lower_value`."""
        return float(self.mean_of("lower_value", batch, (x, y))[0][0])

    def lower_grad_y(self, x: Array, y: Array, batch: Any = None) -> Array:
        """Return grad_2 g; see `BilevelProblem.lower_grad_y`."""
        return self.mean_of("lower_grad_y", batch, (x, y))[0]

    def lower_grad_x(self, x: Array, y: Array, batch: Any = None) -> Array:
        """Return grad_1 g; see `BilevelProblem.lower_grad_x`."""
        return self.mean_of("lower_grad_x", batch, (x, y))[0]

    def lower_hvp(self, x: Array, y: Array, v: Array, batch: Any = None) -> Array:
        """Return H v; see `BilevelProblem.lower_hvp`."""
        return self.mean_of("lower_hvp", batch, (x, y, np.asarray(v)[None]))[0][0]

    def lower_jvp(self, x: Array, y: Array, u: Array, batch: Any = None) -> Array:
        """Return J u; see `BilevelProblem.lower_jvp`."""
        return self.mean_of("lower_jvp", batch, (x, y, u))[0]

    def lower_model(self, x: Array, y: Array) -> LowerModel:
        """Return the lower level around one point by fused kernels; see `BilevelProblem.lower_model`."""
        from nbo._kernel_model import KernelModel

        return KernelModel(self, x, y)

    def fingerprint(self) -> str:
        """Return a hash of data, bounds and what the kernels do; see `BilevelProblem.fingerprint`."""
        from nbo.problems._fingerprint import fingerprint

        arrays = (arrays_of(level) for level in self.data)
        return fingerprint(type(self), *itertools.chain(*arrays), self.dim_x, self.dim_y, *self.bounds, self.code)

    @functools.cached_property
    def code(self) -> str:
        """A hash of what the kernels do, with globals as they were when the first kernel was called."""
        digest = hashlib.sha256()
        for name, kernel in sorted(self._kernels.items()):
            digest.update(name.encode())
            add_function(digest, getattr(kernel, "py_func", kernel))
        return digest.hexdigest()

    def require_faithful(self) -> None:
        """Raise if compiled loops would compute something else than the oracles.

        Raises
        ------
        ValueError
            If the class overrides an oracle of its kernels without saying so by `faster_oracles`, or a number of
            samples is not that of the data.
        """
        for name in (*KERNELS, "lower_model"):
            owner = next((c for c in type(self).__mro__ if name in vars(c)), CompiledProblem)
            declared = owner is CompiledProblem or name in vars(owner).get("faster_oracles", ())
            if name in vars(self) or not declared:
                raise ValueError(
                    f"problem: {owner.__name__} overrides {name}, which compiled loops would not call; expected other "
                    f"kernels, or {name!r} in faster_oracles of {owner.__name__} if both compute the same"
                )
        for level, n in sample_sizes(self).items():
            stored = getattr(self.data, level)[-1].shape[0]
            if n != stored:
                raise ValueError(f"n_samples_{level}: found {n}; expected {stored}, the samples in the data")

    def contract_error(self, x: Array, y: Array) -> tuple[float, str]:
        """Return how far a kernel is from adding scale times a sum to what is there, and which kernel that is.

        Parameters
        ----------
        x, y : ndarray
            The point, (m,) and (n,).

        Returns
        -------
        error : float
            The largest relative one.
        kernel : str
            Its name.
        """
        worst = (0.0, "all kernels")
        for name in self.kernels:
            inputs = self._inputs(name, x, y, y + 1, np.stack((y + 1, y - 1)))
            size = self._n_samples(name)
            once, twice = self._zeros(name, inputs, size - size // 3), self._zeros(name, inputs, size - size // 3)
            for total in twice:
                total += 1
            self._add(name, self.data, size // 3, size, 1 / size, inputs, once)
            self._add(name, self.data, size // 3, size, 2 / size, inputs, twice)
            for found, part, output in zip(twice, once, KERNELS[name].outputs, strict=True):
                if output == "curvatures":
                    continue  # written and not added to, in a way of the problem's own
                error = float(np.linalg.norm(found - 1 - 2 * part)) / float(1 + 2 * np.linalg.norm(part))
                worst = max(worst, (np.inf if np.isnan(error) else error, name))
        return worst

    def call_over_all_samples(self, name: str, x: Array, y: Array, v: Array) -> list[Array]:
        """Return the mean of a kernel over all samples.

        Parameters
        ----------
        name : str
            The kernel.
        x, y, v : ndarray
            The point, (m,) and (n,), and the direction of products, (n,).

        Returns
        -------
        list of ndarray
            The outputs.
        """
        return self.mean_of(name, None, self._inputs(name, x, y, v, np.asarray(v)[None]))

    def call_within_bounds(self, name: str, x: Array, y: Array, v: Array) -> None:
        """Call a kernel on all samples, and on some in the middle, so that an index outside of an array raises.

        Parameters
        ----------
        name : str
            The kernel.
        x, y, v : ndarray
            The point, (m,) and (n,), and the direction of products, (n,).

        Raises
        ------
        IndexError
            If the kernel reaches beyond an array, such as an `out` that has an entry for each row of the range.
        ValueError
            If it tells that f uses x, and the problem declares otherwise.
        """
        inputs = self._inputs(name, x, y, v, np.asarray(v)[None])
        size = self._n_samples(name)
        for lo, hi in ((size // 3, size - size // 4), (0, size)):
            if lo < hi:
                totals = self._zeros(name, inputs, hi - lo)
                if name == "upper_grad" and not self.upper_uses_x:
                    self._add(name, self.data, lo, hi, 1 / size, inputs, totals, checked=True)
                    if totals[0].any():
                        raise ValueError("grad_1 f is not zero; expected upper_uses_x=True")
                    totals[0] = np.zeros(0)
                self._add(name, self.data, lo, hi, 1 / size, inputs, totals, checked=True)
        if name == "upper_jvp" and not self.upper_uses_x and totals[0].any():
            raise ValueError("nabla_12^2 f u is not zero; expected upper_uses_x=True")

    def _n_samples(self, name: str) -> int:
        """Return the number of samples of a kernel's level."""
        return self.n_samples_upper if name.startswith("upper") else self.n_samples_lower

    def _inputs(self, name: str, x: Array, y: Array, u: Array, V: Array) -> list[Array]:
        """Return the arrays that a kernel reads, among them what was kept at this point."""
        known = {"x": x, "y": y, "u": u, "V": V}
        if "curvatures" in KERNELS[name].inputs:
            known["curvatures"] = self.kept_pass(x, y, np.empty((0, self.dim_y)))[2]
        return [known[part] for part in KERNELS[name].inputs]

    def kept_pass(self, x: Array, y: Array, V: Array) -> tuple[Array, Array, Array]:
        """Return grad_2 g, the products H v, and what `kept_hvp` needs, by one pass over all samples.

        Parameters
        ----------
        x, y : ndarray
            The point, (m,) and (n,).
        V : ndarray
            The directions, (k, n), k >= 0.

        Returns
        -------
        tuple of ndarray
            grad_2 g (n,), the products (k, n), and what is kept, (n_curvatures, n_samples_lower).
        """
        grad, products, curvatures = self.mean_of("lower_pass", None, (x, y, V))
        return grad, products, curvatures

    def kept_hvp(self, x: Array, curvatures: Array, V: Array) -> Array:
        """Return the products H v at the point of a `kept_pass`.

        Parameters
        ----------
        x : ndarray
            (m,).
        curvatures : ndarray
            From `kept_pass`.
        V : ndarray
            The directions, (k, n).

        Returns
        -------
        ndarray
            (k, n).
        """
        return self.mean_of("lower_kept_hvp", None, (x, curvatures, V))[0]

    def mean_of(self, name: str, batch: Any, inputs: Sequence[Array]) -> list[Array]:
        """Return the mean of a kernel's outputs over a batch, in double precision.

        Parameters
        ----------
        name : str
            The kernel.
        batch : None, slice or ndarray of int
            The samples; None for all.
        inputs : sequence of ndarray
            What the kernel reads.

        Returns
        -------
        list of ndarray
            The outputs.

        Raises
        ------
        NotImplementedError
            If the problem has no such kernel.
        ValueError
            If inputs are not of the problem's sizes.
        """
        if name not in self.kernels:
            raise NotImplementedError(f"problem: this CompiledProblem has no kernel {name}")
        self._require_shapes(name, inputs)
        level = name.partition("_")[0]
        stored, lo, hi = chosen_rows(getattr(self.data, level), batch)
        data = self.data._replace(**{level: stored})
        totals = self._zeros(name, inputs, hi - lo)
        self._add(name, data, lo, hi, 1 / (hi - lo), inputs, totals)
        if self.x_per_sample and KERNELS[name].outputs == ("samples",):
            entries, totals = totals[0], [np.zeros(self.dim_x)]
            np.add.at(totals[0], data.lower[-1][lo:hi], entries)
        return totals

    def _zeros(self, name: str, inputs: Sequence[Array], n_rows: int) -> list[Array]:
        """Return room for a kernel's outputs over some rows: double, but for what is kept a sample."""
        m, n = self.dim_x, self.dim_y
        k = len(inputs[-1]) if "V" in KERNELS[name].directions else 0
        shapes = {"value": (1,), "x": (m,), "samples": (m,), "y": (n,), "pair": (2, n), "V": (k, n)}
        shapes["curvatures"] = (self.n_curvatures, self.n_samples_lower)
        if self.x_per_sample:
            shapes["samples"] = (n_rows,)
        outputs = KERNELS[name].outputs
        return [np.zeros(shapes[o], self.dtype if o == "curvatures" else np.float64) for o in outputs]

    def _add(
        self,
        name: str,
        data: Data,
        lo: int,
        hi: int,
        scale: float,
        inputs: Sequence[Array],
        totals: Sequence[Array],
        *,
        checked: bool = False,
    ) -> None:
        """Add a kernel over rows to totals; what has an entry a row starts with the row lo."""
        from nbo.kernels.loops import kernel, run_kernel  # the compiler is imported only where it is needed

        dtypes, form = kernel(self, name, checked=checked).dtypes, KERNELS[name]
        arrays = [np.ascontiguousarray(a, dtype) for a, dtype in zip(inputs, dtypes, strict=False)]
        step = _ROWS if self.dtype == np.float32 else hi - lo
        for start in range(lo, hi, step):
            stop = min(start + step, hi)
            per_row = (self.x_per_sample and output == "samples" for output in form.outputs)
            parts = [t[start - lo : stop - lo] if rows else t for t, rows in zip(totals, per_row, strict=True)]
            wanted = dtypes[len(arrays) :]
            outputs = [p if p.dtype == d else np.zeros(p.shape, d) for p, d in zip(parts, wanted, strict=True)]
            run_kernel(self, name, data, start, stop, scale, (*arrays, *outputs), checked)
            for part, output in zip(parts, outputs, strict=True):
                if output is not part:
                    part += output

    def _require_shapes(self, name: str, inputs: Sequence[Array]) -> None:
        """Raise unless kernels, which compiled code does not keep within bounds, can take these arguments."""
        shapes = {"x": (self.dim_x,), "curvatures": (self.n_curvatures, self.n_samples_lower)}
        for label, array in zip(KERNELS[name].inputs, inputs, strict=True):
            shape, wanted = np.shape(array), shapes.get(label, (self.dim_y,))
            if label == "V":
                label, shape = "v", shape[1:]
            if shape != wanted:
                raise ValueError(f"{label}: found shape {shape}; expected {wanted}")
