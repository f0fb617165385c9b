"""Problems given as data arrays and kernels, whose loops run compiled."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from nbo._validation import integer, require_finite, require_unmasked
from nbo.minibatches import Data
from nbo.problem import FiniteSumProblem, LowerModel
from nbo.sampling import shuffled

Array = npt.NDArray[Any]


class KernelForm(NamedTuple):
    """What follows (data, lo, hi, scale, x, y) among the parameters of a kernel.

    Attributes
    ----------
    directions : tuple of str
        ``"u"``, one direction, or ``"V"``, a block of them.
    outputs : tuple of str
        What each output is shaped like: ``"value"``, ``"x"``, ``"y"``, ``"V"``, or ``"pair"``, two rows like y.
    """

    directions: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of all parameters, in order."""
        outputs = ("out",) if len(self.outputs) == 1 else tuple(f"out_{output}" for output in self.outputs)
        return ("data", "lo", "hi", "scale", "x", "y", *self.directions, *outputs)


#: The forms of all kernels.
KERNELS = {
    "lower_value": KernelForm((), ("value",)),
    "lower_grad_y": KernelForm((), ("y",)),
    "lower_hvp": KernelForm(("V",), ("V",)),
    "lower_grad_y_and_hvp": KernelForm(("u",), ("pair",)),
    "lower_jvp": KernelForm(("u",), ("x",)),
    "upper_value": KernelForm((), ("value",)),
    "upper_grad": KernelForm((), ("x", "y")),
    "lower_grad_x": KernelForm((), ("x",)),
    "upper_hvp": KernelForm(("V",), ("V",)),
    "upper_jvp": KernelForm(("u",), ("x",)),
}

#: Those that a problem may lack.
OPTIONAL_KERNELS = ("lower_grad_x", "upper_hvp", "upper_jvp")

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
        self.kernels = _checked_kernels(kernels)
        self._absent = frozenset(name for name in OPTIONAL_KERNELS if name not in kernels)
        self.n_samples_lower, lower = _level("lower", lower)
        self.n_samples_upper, upper = _level("upper", upper)
        self.data = Data(lower, upper, _common(common))
        self.dtype = _working_type(lower, upper)
        self._mapped = {name: _is_mapped(level) for name, level in (("lower", lower), ("upper", upper))}
        self._last_shuffle: tuple[int, Data] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_last_shuffle": None}  # it can be made again

    def shuffled(self, seed: int) -> Data:
        """Return the data in the order of a seed; the last one is kept.

        Parameters
        ----------
        seed : int
            Of a run.

        Returns
        -------
        Data
            A copy, but for levels with memory maps, whose samples stay in order.
        """
        if self._last_shuffle is None or self._last_shuffle[0] != seed:
            self._last_shuffle = None  # two copies at a time would be one too many
            levels = [
                level if self._mapped[name] else take_rows(level, shuffled(seed, name, n))
                for name, level, n in (
                    ("lower", self.data.lower, self.n_samples_lower),
                    ("upper", self.data.upper, self.n_samples_upper),
                )
            ]
            self._last_shuffle = seed, Data(levels[0], levels[1], self.data.common)
        return self._last_shuffle[1]

    def upper_value(self, x: Array, y: Array, batch: Any = None) -> float:
        """Return f; see `BilevelProblem.upper_value`."""
        return float(self._total("upper_value", batch, x, y)[0][0])

    def upper_grad(self, x: Array, y: Array, batch: Any = None) -> tuple[Array, Array]:
        """Return grad_1 f and grad_2 f; see `BilevelProblem.upper_grad`."""
        grad_1, grad_2 = self._total("upper_grad", batch, x, y)
        return grad_1, grad_2

    def upper_hvp(self, x: Array, y: Array, v: Array, batch: Any = None) -> Array:
        """Return nabla_22^2 f v; see `BilevelProblem.upper_hvp`."""
        return self._total("upper_hvp", batch, x, y, v[None])[0][0]

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
        return self._total("lower_hvp", batch, x, y, v[None])[0][0]

    def lower_jvp(self, x: Array, y: Array, u: Array, batch: Any = None) -> Array:
        """Return J u; see `BilevelProblem.lower_jvp`."""
        return self._total("lower_jvp", batch, x, y, u)[0]

    def lower_model(self, x: Array, y: Array) -> LowerModel:
        """Return the lower level around one point by fused kernels; see `BilevelProblem.lower_model`."""
        return _KernelModel(self, x, y)

    def fingerprint(self) -> str:
        """Return a hash of data, bounds and the names of the kernels; see `BilevelProblem.fingerprint`."""
        from nbo.problems._fingerprint import fingerprint

        arrays = (_arrays(level) for level in self.data)
        return fingerprint(
            type(self), *itertools.chain(*arrays), self.dim_x, self.dim_y, *self.bounds, *sorted(self.kernels)
        )

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
                worst = max(worst, (error, name))
        return worst

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

    def _total(self, name: str, batch: Any, *arguments: Array) -> list[Array]:
        """Return the mean of a kernel's outputs over a batch, in double precision."""
        from nbo.kernels.loops import call_kernel  # the compiler is imported only where it is needed

        if name not in self.kernels:
            raise NotImplementedError(f"problem: this CompiledProblem has no kernel {name}")
        data, lo, hi = self._chosen(name.partition("_")[0], batch)
        totals = [np.zeros(shape) for shape in self.output_shapes(name, arguments)]
        for start in range(lo, hi, _ROWS):
            outputs = call_kernel(self, name, data, start, min(start + _ROWS, hi), 1 / (hi - lo), arguments)
            for total, output in zip(totals, outputs, strict=True):
                total += output
        return totals

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


def take_rows(level: tuple[Any, ...], rows: Array) -> tuple[Any, ...]:
    """Return chosen samples of a level.

    Parameters
    ----------
    level : tuple
        As in `Data`.
    rows : ndarray of int
        Stored rows.

    Returns
    -------
    tuple
        Copies.
    """
    return tuple(_take_sparse(part, rows) if isinstance(part, tuple) else part[rows] for part in level)


def _take_sparse(part: tuple[Array, Array, Array], rows: Array) -> tuple[Array, Array, Array]:
    values, indices, starts = part
    first = starts.astype(np.int64)
    lengths: Array = (first[1:] - first[:-1])[rows]
    ends = np.concatenate(([0], np.cumsum(lengths)))
    # entry e of the result lies where its row starts, plus its place in that row
    source = np.repeat(first[:-1][rows] - ends[:-1], lengths) + np.arange(ends[-1])
    return values[source], indices[source], ends.astype(starts.dtype)


def _checked_kernels(kernels: Any) -> dict[str, Callable[..., Any]]:
    if not isinstance(kernels, Mapping):
        raise TypeError(f"kernels: found {type(kernels).__name__}; expected a dict of names and functions")
    unknown = [str(name) for name in kernels if name not in KERNELS]
    if unknown:
        raise ValueError(f"kernels: found {', '.join(unknown)}; expected names among {', '.join(KERNELS)}")
    missing = [name for name in KERNELS if name not in OPTIONAL_KERNELS and name not in kernels]
    if missing:
        raise ValueError(
            f"kernels: missing {', '.join(missing)}; a compiled problem needs all of them (or subclass "
            "FiniteSumProblem, whose methods are plain NumPy)"
        )
    for name, kernel in kernels.items():
        function = getattr(kernel, "py_func", kernel)
        if not inspect.isfunction(function):
            raise TypeError(f"kernels[{name!r}]: found {type(kernel).__name__}; expected a function, jitted or not")
        parameters = KERNELS[name].parameters
        if function.__code__.co_argcount != len(parameters):
            raise TypeError(
                f"kernels[{name!r}]: found parameters {inspect.signature(function)}; expected ({', '.join(parameters)})"
            )
    return dict(kernels)


def _level(name: str, parts: Any) -> tuple[int, tuple[Any, ...]]:
    """Return the number of samples of a level and its arrays, with the original indices at the end."""
    if not isinstance(parts, tuple) or not parts:
        raise TypeError(f"{name}: found {type(parts).__name__}; expected a non-empty tuple of arrays")
    stored = [_part(f"{name}[{i}]", part) for i, part in enumerate(parts)]
    sizes = [len(p[2]) - 1 if isinstance(p, tuple) else len(p) for p in stored]
    if len(set(sizes)) > 1 or not sizes[0]:
        raise ValueError(f"{name}: found arrays of {', '.join(map(str, sizes))} samples; expected one number above 0")
    return sizes[0], (*stored, np.arange(sizes[0]))


def _part(name: str, part: Any) -> Any:
    require_unmasked(name, part)
    if sp.issparse(part):
        matrix = part.tocsr()
        matrix.check_format()  # compiled code follows the indices blindly
        values = _numbers(f"{name} (stored values)", matrix.data)
        return values, _unsigned(matrix.indices), _unsigned(matrix.indptr)
    array = np.asarray(part)
    if array.ndim == 0:
        raise ValueError(f"{name}: found a number; expected an array with one entry or row a sample")
    return _numbers(name, array)


def _unsigned(indices: Array) -> Array:
    """Return a view of indices that frees compiled loops of tests for negative ones."""
    wide = np.ascontiguousarray(indices, indices.dtype if indices.dtype in (np.int32, np.int64) else np.int64)
    return wide.view(np.uint32 if wide.dtype == np.int32 else np.uint64)


def _numbers(name: str, array: Array) -> Array:
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8 or array.dtype == np.float16:
        raise TypeError(f"{name}: found type {array.dtype}; expected float64, float32, integers or booleans")
    array = np.require(array, array.dtype.newbyteorder("="), ["C", "A"])
    if array.dtype.kind == "f":
        require_finite(name, array)
    return array


def _common(common: Any) -> tuple[Any, ...]:
    if not isinstance(common, tuple):
        raise TypeError(f"common: found {type(common).__name__}; expected a tuple of arrays and numbers")
    checked: list[Any] = []
    for i, item in enumerate(common):
        if isinstance(item, np.ndarray) and item.ndim:
            checked.append(_numbers(f"common[{i}]", item))
        elif isinstance(item, (bool, int, float)):
            checked.append(item)
        else:
            raise TypeError(f"common[{i}]: found {type(item).__name__}; expected an array, a bool, an int or a float")
    return tuple(checked)


def _arrays(level: tuple[Any, ...]) -> list[Any]:
    """Return the parts of a level, of CSR matrices their three arrays."""
    return [array for part in level for array in (part if isinstance(part, tuple) else (part,))]


def _working_type(*levels: tuple[Any, ...]) -> np.dtype[Any]:
    arrays = [part[0] if isinstance(part, tuple) else part for level in levels for part in level]
    kinds = {a.dtype for a in arrays if a.dtype.kind == "f"}
    return np.dtype(np.float32 if kinds == {np.dtype(np.float32)} else np.float64)


def _is_mapped(level: tuple[Any, ...]) -> bool:
    """Tell whether an array of a level lies in a file."""
    for array in _arrays(level):
        base: Any = array
        while isinstance(base, np.ndarray):
            if isinstance(base, np.memmap):
                return True
            base = base.base
    return False
