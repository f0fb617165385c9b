"""`from_jax` and `from_torch`: problems from two functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from nbo._validation import flag
from nbo.problems.autodiff.derivatives import Derivatives
from nbo.problems.autodiff.problem import AutodiffProblem, AutodiffSumProblem

Function = Callable[..., Any]


def from_jax(
    f: Function,
    g: Function,
    dim_x: int,
    dim_y: int,
    *,
    n_samples_upper: int | None = None,
    n_samples_lower: int | None = None,
    bounds: Any = (-np.inf, np.inf),
    dtype: npt.DTypeLike = np.float64,
    jit: bool = True,
) -> AutodiffProblem:
    """Return a problem whose oracles JAX derives from f and g; needs jax (``pip install "nbo[jax]"``).

    Gradients are reverse passes. H v = (d/dy grad_2 g) v and J u = (d/dy grad_1 g) u are forward over reverse, a few
    evaluations of g, and no matrix is formed. The `lower_model` linearises grad_2 g once at a point.

    Parameters
    ----------
    f, g : callable
        Scalar functions of two vectors, f(x, y) and g(x, y), that compute with `jax.numpy`. Keep data that they use
        in NumPy arrays: what JAX has converted before is float32. With samples, f(x, y, batch) and g(x, y, batch)
        return the mean over a batch, which indexes samples: an array of integers, or ``slice(None)`` for all, so that
        ``jnp.asarray(A)[batch]`` is right for both.
    dim_x, dim_y : int
        The lengths of x and y.
    n_samples_upper, n_samples_lower : int, optional
        The numbers of samples behind f and g: both for a `nbo.FiniteSumProblem`, or none.
    bounds : pair
        Bounds of x; none by default.
    dtype : {float64, float32}
        In which everything is computed; x is rounded to it.
    jit : bool
        Compile each oracle once for each shape. Without, functions may look at values, and are slow.

    Returns
    -------
    AutodiffProblem
        With all oracles; an `AutodiffSumProblem` if there are samples.

    Raises
    ------
    ImportError
        If jax is not installed.
    TypeError, ValueError
        For bad arguments, and for functions that return no real scalar of JAX.

    See Also
    --------
    from_torch : The same for PyTorch.
    nbo.CompiledProblem : Oracles by hand, compiled.

    Notes
    -----
    JAX's switch for float64 is set during a call in the calling thread only and is as before afterwards. Problems can
    be pickled if f and g can, so not with lambdas or functions inside functions. The fingerprint holds the names
    of f and g and the sizes: of the data it knows nothing.

    Examples
    --------
    Ridge regression with one log penalty a feature.

    >>> import numpy as np, jax.numpy as jnp, nbo  # doctest: +SKIP
    >>> rng = np.random.default_rng(0)  # doctest: +SKIP
    >>> A, A_val, b, b_val = (rng.standard_normal(size) for size in ((30, 3), (20, 3), 30, 20))  # doctest: +SKIP
    >>> f = lambda x, y: jnp.mean((A_val @ y - b_val) ** 2)  # doctest: +SKIP
    >>> g = lambda x, y: jnp.mean((A @ y - b) ** 2) + jnp.exp(x) @ y**2  # doctest: +SKIP
    >>> problem = nbo.problems.from_jax(f, g, dim_x=3, dim_y=3, bounds=(-6, 6))  # doctest: +SKIP
    >>> nbo.minimize(problem, np.zeros(3)).success  # doctest: +SKIP
    True
    """
    from nbo.problems.autodiff.jax_backend import JaxDerivatives

    compiles = flag("jit", jit)

    def derivatives(function: Function, name: str, has_samples: bool) -> Derivatives:
        return JaxDerivatives(function, name, working, has_samples, compiles)

    working = _floating(dtype)
    return _problem(derivatives, f, g, dim_x, dim_y, bounds, n_samples_upper, n_samples_lower)


def from_torch(
    f: Function,
    g: Function,
    dim_x: int,
    dim_y: int,
    *,
    n_samples_upper: int | None = None,
    n_samples_lower: int | None = None,
    bounds: Any = (-np.inf, np.inf),
    dtype: npt.DTypeLike = np.float64,
) -> AutodiffProblem:
    """Return a problem whose oracles PyTorch derives from f and g; needs torch (``pip install "nbo[torch]"``).

    Gradients are reverse passes. H v and J u are the gradients of <grad_2 g, v> in y and in x by a second reverse pass,
    and no matrix is formed. The `lower_model` records grad_2 g once at a point, and each product is one pass more.

    Parameters
    ----------
    f, g : callable
        Scalar functions of two tensors, f(x, y) and g(x, y), that compute with torch on data of the same `dtype`. With
        samples, f(x, y, batch) and g(x, y, batch) return the mean over a batch, which indexes samples: a tensor
        of integers, or ``slice(None)`` for all, so that ``A[batch]`` is right for both. They must return the same for
        the same arguments (no dropout), and be differentiable twice.
    dim_x, dim_y : int
        The lengths of x and y.
    n_samples_upper, n_samples_lower : int, optional
        The numbers of samples behind f and g: both for a `nbo.FiniteSumProblem`, or none.
    bounds : pair
        Bounds of x; none by default.
    dtype : {float64, float32}
        NumPy's type in which everything is computed; x is rounded to it.

    Returns
    -------
    AutodiffProblem
        With all oracles; an `AutodiffSumProblem` if there are samples.

    Raises
    ------
    ImportError
        If torch is not installed.
    TypeError, ValueError
        For bad arguments. What a function returns is looked at whenever it is called.

    See Also
    --------
    from_jax : The same for JAX.

    Notes
    -----
    Tensors are made on torch's default device. Nothing is accumulated in ``.grad``, and no global setting changes.
    Calls work under `torch.no_grad` and `torch.inference_mode`, but data tensors must not have been made in inference
    mode. Problems can be pickled if f and g can, so not with lambdas or functions inside functions. The fingerprint
    holds the names of f and g and the sizes: of the data it knows nothing.

    Examples
    --------
    Ridge regression with one log penalty a feature.

    >>> import numpy as np, torch, nbo  # doctest: +SKIP
    >>> rng = np.random.default_rng(0)  # doctest: +SKIP
    >>> sizes = ((30, 3), (20, 3), 30, 20)  # doctest: +SKIP
    >>> A, A_val, b, b_val = (torch.tensor(rng.standard_normal(size)) for size in sizes)  # doctest: +SKIP
    >>> f = lambda x, y: ((A_val @ y - b_val) ** 2).mean()  # doctest: +SKIP
    >>> g = lambda x, y: ((A @ y - b) ** 2).mean() + torch.exp(x) @ y**2  # doctest: +SKIP
    >>> problem = nbo.problems.from_torch(f, g, dim_x=3, dim_y=3, bounds=(-6, 6))  # doctest: +SKIP
    >>> nbo.minimize(problem, np.zeros(3)).success  # doctest: +SKIP
    True
    """
    from nbo.problems.autodiff.torch_backend import TorchDerivatives

    def derivatives(function: Function, name: str, has_samples: bool) -> Derivatives:
        return TorchDerivatives(function, name, working, has_samples)

    working = _floating(dtype)
    return _problem(derivatives, f, g, dim_x, dim_y, bounds, n_samples_upper, n_samples_lower)


def _problem(
    derivatives: Callable[[Function, str, bool], Derivatives],
    f: Function,
    g: Function,
    dim_x: int,
    dim_y: int,
    bounds: Any,
    n_samples_upper: int | None,
    n_samples_lower: int | None,
) -> AutodiffProblem:
    """Return a problem with samples if both numbers are there, without if none is."""
    if n_samples_upper is None and n_samples_lower is None:
        return AutodiffProblem(derivatives(f, "f", False), derivatives(g, "g", False), dim_x, dim_y, bounds)
    if n_samples_upper is None or n_samples_lower is None:
        missing = "n_samples_upper" if n_samples_upper is None else "n_samples_lower"
        raise TypeError(f"{missing}: found None though the other number is given; expected both or none of them")
    upper, lower = derivatives(f, "f", True), derivatives(g, "g", True)
    return AutodiffSumProblem(upper, lower, dim_x, dim_y, bounds, n_samples_upper, n_samples_lower)


def _floating(dtype: Any) -> np.dtype[Any]:
    """Return the type of the computation in native byte order."""
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found not in (np.float64, np.float32):
        raise TypeError(f"dtype: found {dtype!r}; expected NumPy's float64 or float32")
    return found.newbyteorder("=")
