"""Problems given as data arrays and kernels, whose loops run compiled."""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from nbo._code_digest import add_function
from nbo._kernel_forms import KERNELS, OPTIONAL_KERNELS, checked_kernels
from nbo._sample_arrays import arrays_of, common_parts, is_mapped, level_parts, take_rows, working_type
from nbo._validation import integer
from nbo.minibatches import Data
from nbo.oracles import sample_sizes
from nbo.problem import FiniteSumProblem, LowerModel
from nbo.sampling import shuffled

Array = npt.NDArray[Any]

#: Rows that an oracle over all samples hands to a kernel at a time; sums over them are kept in double precision.
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
        ``upper_grad``; and, for methods that need them, ``lower_grad_x``, ``upper_hvp`` and ``upper_jvp``.
    dim_x, dim_y : int
        m and n.
    common : tuple
        Arrays and numbers that belong to no sample, handed to the kernels as they are.
    bounds : pair
        Bounds of x.

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
    ) -> None:
        self.dim_x = integer("dim_x", dim_x, minimum=1)
        self.dim_y = integer("dim_y", dim_y, minimum=1)
        self.bounds = bounds
        self._kernels = checked_kernels(kernels)
        self._absent = frozenset(name for name in OPTIONAL_KERNELS if name not in self._kernels)
        self.n_samples_lower, lower = level_parts("lower", lower)
        self.n_samples_upper, upper = level_parts("upper", upper)
        self.data = Data(lower, upper, common_parts(common))
        self.dtype = working_type(lower, upper)
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
        return float(self._total("upper_value", batch, x, y)[0][0])

    def upper_grad(self, x: Array, y: Array, batch: Any = None) -> tuple[Array, Array]:
        """Return grad_1 f and grad_2 f; see `BilevelProblem.upper_grad`."""
        grad_1, grad_2 = self._total("upper_grad", batch, x, y)
        return grad_1, grad_2

    def upper_hvp(self, x: Array, y: Array, v: Array, batch: Any = None) -> Array:
        """Return nabla_22^2 f v; see `BilevelProblem.upper_hvp`."""
        return self._total("upper_hvp", batch, x, y, np.asarray(v)[None])[0][0]

    def upper_jvp(self, x: Array, y: Array, u: Array, batch: Any = None) -> Array:
        """Return nabla_12^2 f u; see `BilevelProblem.upper_jvp`."""
        return self._total("upper_jvp", batch, x, y, u)[0]

    def lower_value(self, x: Array, y: Array, batch: Any = None) -> float:
        """Return g; see `BilevelProblem.lower_value`."""
        return float(self._total("lower_value", batch, x, y)[0][0])

    def lower_grad_y(self, x: Array, y: Array, batch: Any = None) -> Array:
        """Return grad_2 g; see `BilevelProblem.lower_grad_y`."""
        return self._total("lower_grad_y", batch, x, y)[0]

    def lower_grad_x(self, x: Array, y: Array, batch: Any = None) -> Array:
        """Return grad_1 g; see `BilevelProblem.lower_grad_x`."""
        return self._total("lower_grad_x", batch, x, y)[0]

    def lower_hvp(self, x: Array, y: Array, v: Array, batch: Any = None) -> Array:
        """Return H v; see `BilevelProblem.lower_hvp`."""
        return self._total("lower_hvp", batch, x, y, np.asarray(v)[None])[0][0]

    def lower_jvp(self, x: Array, y: Array, u: Array, batch: Any = None) -> Array:
        """Return J u; see `BilevelProblem.lower_jvp`."""
        return self._total("lower_jvp", batch, x, y, u)[0]

    def lower_model(self, x: Array, y: Array) -> LowerModel:
        """Return the lower level around one point by fused kernels; see `BilevelProblem.lower_model`."""
        return _KernelModel(self, x, y)

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
        from nbo.kernels.loops import call_kernel  # the compiler is imported only where it is needed

        directions = {"V": np.stack((y + 1, y - 1)), "u": y + 1}
        worst = (0.0, "all kernels")
        for name in self.kernels:
            arguments = (x, y, *(directions[direction] for direction in KERNELS[name].directions))
            size = self.n_samples_upper if name.startswith("upper") else self.n_samples_lower
            once = call_kernel(self, name, self.data, size // 3, size, 1 / size, arguments)
            twice = call_kernel(self, name, self.data, size // 3, size, 2 / size, arguments, filled=1.0)
            for found, part in zip(twice, once, strict=True):
                error = float(np.linalg.norm(found - 1 - 2 * part)) / float(1 + 2 * np.linalg.norm(part))
                worst = max(worst, (np.inf if np.isnan(error) else error, name))
        return worst

    def call_over_all_samples(self, name: str, x: Array, y: Array, v: Array, *, checked: bool = False) -> list[Array]:
        """Return the mean of a kernel over all samples.

        Parameters
        ----------
        name : str
            The kernel.
        x, y, v : ndarray
            The point, (m,) and (n,), and the direction of products, (n,).
        checked : bool
            Whether an index outside of an array raises IndexError.

        Returns
        -------
        list of ndarray
            The outputs.
        """
        directions = {"u": v, "V": np.asarray(v)[None]}
        arguments = (directions[direction] for direction in KERNELS[name].directions)
        return self._total(name, None, x, y, *arguments, checked=checked)

    def output_shapes(self, name: str, arguments: tuple[Array, ...]) -> list[tuple[int, ...]]:
        """Return the shapes of a kernel's outputs.

        Parameters
        ----------
        name : str
            The kernel.
        arguments : tuple of ndarray
            x, y and a direction or a block of them.

        Returns
        -------
        list of tuple of int
            One an output.
        """
        m, n, form = self.dim_x, self.dim_y, KERNELS[name]
        rows = len(arguments[-1]) if "V" in form.directions else 0
        shapes = {"value": (1,), "x": (m,), "y": (n,), "pair": (2, n), "V": (rows, n)}
        return [shapes[output] for output in form.outputs]

    def _total(self, name: str, batch: Any, *arguments: Array, checked: bool = False) -> list[Array]:
        """Return the mean of a kernel's outputs over a batch, in double precision."""
        from nbo.kernels.loops import call_kernel  # the compiler is imported only where it is needed

        if name not in self.kernels:
            raise NotImplementedError(f"problem: this CompiledProblem has no kernel {name}")
        self._require_shapes(name, arguments)
        data, lo, hi = self._chosen(name.partition("_")[0], batch)
        totals = [np.zeros(shape) for shape in self.output_shapes(name, arguments)]
        for start in range(lo, hi, _ROWS):
            stop = min(start + _ROWS, hi)
            outputs = call_kernel(self, name, data, start, stop, 1 / (hi - lo), arguments, checked=checked)
            for total, output in zip(totals, outputs, strict=True):
                total += output
        return totals

    def _require_shapes(self, name: str, arguments: tuple[Array, ...]) -> None:
        """Raise unless kernels, which compiled code does not keep within bounds, can take these arguments."""
        lengths = {"x": self.dim_x, "y": self.dim_y}
        for label, array in zip(("x", "y", *KERNELS[name].directions), arguments, strict=True):
            shape, size = np.shape(array), lengths.get(label, self.dim_y)
            if label == "V":
                label, shape = "v", shape[1:]
            if shape != (size,):
                raise ValueError(f"{label}: found shape {shape}; expected ({size},)")

    def _chosen(self, level: str, batch: Any) -> tuple[Data, int, int]:
        """Return data in which the samples of a batch are the rows lo .. hi - 1, and these two."""
        stored = getattr(self.data, level)
        n = stored[-1].shape[0]
        if batch is None:
            return self.data, 0, n
        if isinstance(batch, slice):
            chosen = range(n)[batch]
            if len(chosen) and chosen.step == 1:
                return self.data, chosen.start, chosen.stop
            batch = np.arange(n)[batch]
        rows = np.asarray(batch)
        if rows.ndim != 1 or rows.dtype.kind not in "iu" or not rows.size:
            raise ValueError(
                f"batch: found an array of shape {rows.shape} and type {rows.dtype}; expected None, a slice or a "
                "1-D integer array, of at least one sample"
            )
        if rows.min() < -n or rows.max() >= n:
            raise IndexError(f"batch: found indices from {rows.min()} to {rows.max()}; expected 0 to {n - 1}")
        return self.data._replace(**{level: take_rows(stored, rows)}), 0, rows.size


class _KernelModel(LowerModel):
    """The lower level of a `CompiledProblem`, which multiplies blocks of directions at once."""

    def grad_y_and_hvp(self, u: Array) -> tuple[Array, Array]:
        """Return grad_2 g and H u by one kernel; see `LowerModel.grad_y_and_hvp`."""
        (both,) = self.problem._total("lower_grad_y_and_hvp", None, self.x, self.y, u)  # type: ignore[attr-defined]
        return both[0], both[1]

    def hvp(self, V: Array) -> Array:
        """Return H v for each row by one kernel; see `LowerModel.hvp`."""
        if not len(V):
            return np.empty_like(V)
        return self.problem._total("lower_hvp", None, self.x, self.y, V)[0]  # type: ignore[attr-defined]
