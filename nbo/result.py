"""What a run returns; apart from the history, since SciPy's optimize package takes a while to import."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from scipy.optimize import OptimizeResult

from nbo._display import lines


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
        ``converged``, ``iteration_limit``, ``time_limit``, ``stopped``, ``stalled``, ``diverged`` or
        ``interrupted``.
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
    hypergrad_error : float
        How far `jac` is from grad Phi where it was computed; NaN where a method does not tell.
    hypergrad_error_kind : str
        ``"bound"``, by the problem's constants, ``"estimate"``, or ``"unknown"``.
    seconds, compile_seconds : float
        Solver time, and time spent compiling apart from it.
    method : str
        The name of the method.
    chosen : dict
        What a stochastic method chose where it was left open: ``random_state``, the integer that gives the same run
        again, and ``inner_step_size`` if that was estimated.
    initialization : nbo.initialization.Initialization or None
        What was done before the first iteration, if anything was asked for and was not ended by Ctrl-C or a limit.
    """

    def __getstate__(self) -> dict[str, Any]:
        return {}  # a checkpoint is made from the problem, which a pickle of the result would have to hold

    def keep(self, checkpoint: Callable[[], dict[str, Any]]) -> None:
        """Remember how to make the checkpoint that `save` writes.

        Parameters
        ----------
        checkpoint : callable
            Makes it.
        """
        object.__setattr__(self, "_checkpoint", checkpoint)  # no entry of the mapping

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all that `nbo.resume` needs to go on as if the run had not ended, bit for bit.

        One npz file of arrays and JSON, without pickles. Callables among the options and the callback are not
        stored: `nbo.resume` is given them again. The file appears at once, when it is complete.

        Parameters
        ----------
        path : str or path-like
            Where to write, exactly there; an existing file is replaced only if it is a checkpoint.

        Raises
        ------
        ValueError
            If the run has diverged, or was interrupted within an iteration: there is nothing to go on from.
        FileExistsError, OSError
            If `path` holds something else or cannot be written.

        See Also
        --------
        nbo.resume : Goes on.
        """
        from nbo.checkpoints import write

        checkpoint = self.__dict__.get("_checkpoint")
        if checkpoint is None:
            raise ValueError(
                "save: this result is a copy or was pickled and has lost its run; save the object that nbo.minimize "
                "or nbo.resume returned"
            )
        write(path, checkpoint())

    def __repr__(self) -> str:
        shown = [
            "message",
            "status",
            "method",
            "nit",
            "fun",
            "hypergrad_norm",
            "hypergrad_error",
            "x",
            "seconds",
            "counts",
            "history",
        ]
        if self.get("chosen"):
            shown.insert(-1, "chosen")
        return lines({name: self[name] for name in shown if name in self})
