"""An iteration of SOBA on rows of the size of IJCNN1: the compiled loop of this library beside JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nbo.benchmarks.iterations import Case, microseconds
from nbo.benchmarks.minibatch import SHAPE, random_data
from nbo.benchmarks.timing import side_by_side
from nbo.problems import BinaryLogistic
from nbo.theory._outputs import columns

Array = npt.NDArray[Any]

#: Rows of a minibatch, and both steps.
_BATCH, _STEP = 64, 0.1

#: Iterations of a timed stretch, and how many stretches; the 10th percentile counts.
_ITERATIONS, _STRETCHES = 20_000, 20

#: What is timed, in words.
LABELS = {
    "numba, float64": "nbo, whole loop compiled by Numba, float64",
    "numba, float32": "nbo, whole loop compiled by Numba, float32",
    "jax, whole loop": "JAX, whole loop compiled, float32",
    "jax, call by call": "JAX, an iteration compiled and called from Python, float32",
}


def backends() -> dict[str, Any]:
    """Return the microseconds of an iteration by backend, with the version of JAX.

    Returns
    -------
    dict
        ``study`` and ``text``, as of other studies.
    """
    import jax  # type: ignore[import-not-found,unused-ignore]

    found = {}
    for dtype in (np.float64, np.float32):
        problem = BinaryLogistic(*random_data(SHAPE, dtype))
        times = microseconds(Case("soba", "soba", {"batch_size": _BATCH}), problem, _ITERATIONS, _STRETCHES)
        found[f"numba, {np.dtype(dtype).name}"] = times
    found["jax, whole loop"], found["jax, call by call"] = _jax_microseconds(random_data(SHAPE, np.float32))
    rows = [("microseconds an iteration", ""), *((LABELS[name], f"{us:.2f}") for name, us in found.items())]
    return {"study": {"microseconds": found, "jax": jax.__version__}, "text": columns(rows)}


def _jax_microseconds(data: tuple[Array, ...]) -> tuple[float, float]:
    """Return the times of an iteration in a loop that is compiled whole, and of one that Python calls."""
    import jax
    import jax.numpy as jnp

    A, b, A_val, b_val = (jnp.asarray(part) for part in data)

    def slopes(margins: Any, labels: Any) -> Any:
        return -labels * jax.nn.sigmoid(-labels * margins)

    def step(state: Any, lower: Any, upper: Any) -> Any:
        x, y, u = state
        rows, labels = (jax.lax.dynamic_slice_in_dim(part, lower, _BATCH) for part in (A, b))
        rows_val, labels_val = (jax.lax.dynamic_slice_in_dim(part, upper, _BATCH) for part in (A_val, b_val))
        penalty, margins = jnp.exp(x), rows @ y
        curvature = jax.nn.sigmoid(margins) * jax.nn.sigmoid(-margins)
        d_y = rows.T @ slopes(margins, labels) / _BATCH + penalty * y
        d_u = rows.T @ (curvature * (rows @ u)) / _BATCH + penalty * u
        d_u -= rows_val.T @ slopes(rows_val @ y, labels_val) / _BATCH
        d_x = -penalty * y * u
        return x - _STEP * d_x, y - _STEP * d_y, u - _STEP * d_u

    rng = np.random.default_rng(0)
    starts = jnp.asarray(
        [_BATCH * rng.integers(len(part) // _BATCH, size=_ITERATIONS) for part in (A, A_val)], dtype=jnp.int32
    )

    @jax.jit
    def loop(state: Any) -> Any:
        return jax.lax.fori_loop(0, _ITERATIONS, lambda k, s: step(s, starts[0, k], starts[1, k]), state)

    single = jax.jit(step)
    start = (jnp.full(A.shape[1], -2.0), jnp.zeros(A.shape[1]), jnp.zeros(A.shape[1]))
    few = np.asarray(starts)[:, : _ITERATIONS // 20]

    def calls(state: Any) -> Any:
        for lower, upper in few.T:
            state = single(state, lower, upper)
        return state

    times = side_by_side(
        {
            "whole loop": lambda: jax.block_until_ready(loop(start)),
            "call by call": lambda: jax.block_until_ready(calls(start)),
        },
        _STRETCHES,
    )
    return 1e3 * times["whole loop"] / _ITERATIONS, 1e3 * times["call by call"] / few.shape[1]
