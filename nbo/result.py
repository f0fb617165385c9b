"""What a run returns; apart from the history, since SciPy's optimize package takes a while to import."""

from __future__ import annotations

import numpy as np
from scipy.optimize import OptimizeResult


class BilevelResult(OptimizeResult):
    """The outcome of a run, a `scipy.optimize.OptimizeResult`.

    Attributes
    ----------
    x, y, u : ndarray
        The last iterate (when diverged: the best finite one), float64, (m,), (n,), (n,).
    fun : float
        f(x, y) there.
    jac : ndarray
        The last hypergradient estimate d_x computed, (m,); NaN if none was.
    best : EvaluatedIterate
        The evaluated iterate with the lowest f(x, y): x, y, u, fun, nit. With y as it was then: far from
        y*(x), as in first iterations, a low value says little about Phi(x).
    success : bool
        Whether the status is ``converged``.
    status : Status
        ``converged``, ``iteration_limit``, ``time_limit``, ``stopped``, ``diverged`` or ``interrupted``.
    message : str
        What happened and what to do about it.
    nit : int
        Completed iterations.
    counts, samples : OracleCounts
        The method's own oracle calls, and the component samples they went over.
    evaluation_counts : OracleCounts
        The calls made for reporting; `counts` + `evaluation_counts` is what the problem saw.
    history : History
        One row an evaluation.
    hypergrad_norm, lower_grad_norm, adjoint_residual : float
        What the convergence test last saw.
    seconds, compile_seconds : float
        Solver time, and time spent compiling apart from it.
    method : str
        The name of the method.
    """

    def __repr__(self) -> str:
        shown = ("message", "status", "method", "nit", "fun", "hypergrad_norm", "x", "seconds", "counts", "history")
        with np.printoptions(threshold=6, edgeitems=3, precision=6):
            lines = [f"{name:>14}: {self[name]!s}" for name in shown if name in self]
        return "\n".join(lines)
