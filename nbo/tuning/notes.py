"""What the reader of the table should know besides it, in the words of the command."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nbo.datasets import shown
from nbo.history import Status
from nbo.result import BilevelResult

#: A factor between two penalties that is no difference.
_SAME_FACTOR = 1.01


def unfinished(name: str, result: BilevelResult, tol: float) -> str:
    """Say how a stage ended that has not converged.

    Parameters
    ----------
    name : str
        The stage.
    result : BilevelResult
        Its outcome.
    tol : float
        The tolerance that it did not meet.

    Returns
    -------
    str
        One sentence; norms that were never computed are left out.
    """
    if result.status is Status.ITERATION_LIMIT and result.nit == 0:
        return f"{name}: not tuned, since --max-iter 0 allows no iteration"
    done = f"{result.nit} iteration{'s' * (result.nit != 1)}"
    how = {
        Status.ITERATION_LIMIT: f"stopped at the limit of {done} (--max-iter) before it converged",
        Status.INTERRUPTED: f"interrupted after {done}",
        Status.DIVERGED: f"diverged after {done}; the iterate with the lowest upper-level value was taken",
    }.get(result.status, f"ended after {done} without convergence (status {result.status})")
    norms = {
        "hypergradient norm": result.hypergrad_norm,
        "lower-level gradient norm": result.lower_grad_norm,
        "adjoint residual norm": result.adjoint_residual,
    }
    known = [f"{what} {size:.2g}" for what, size in norms.items() if np.isfinite(size)]
    return f"{name}: {how}" + (f": {', '.join(known)}; the tolerance is {tol:g}" if known else "")


def at_end_of_range(log_penalty: float, lower: float, upper: float, n_train: int) -> str:
    """Say that a shared penalty ended at an end of its range.

    Parameters
    ----------
    log_penalty, lower, upper : float
        The tuned log penalty and its bounds.
    n_train : int
        Number of training rows, which makes it a C.

    Returns
    -------
    str
        One sentence, or nothing if the penalty lies inside.
    """
    margin = np.log(_SAME_FACTOR)
    if lower + margin < log_penalty < upper - margin:
        return ""
    end, trend = ("weakest", "weaker") if log_penalty <= lower + margin else ("strongest", "stronger")
    c = np.exp(-log_penalty) / n_train
    return (
        f"shared: the penalty ended at the {end} one allowed (C = {c:.2g}); the validation rows ask for one that "
        f"is {trend} still, or hardly tell"
    )


def unmoved(log_penalties: np.ndarray, shared: float) -> str:
    """Say that per-feature penalties stayed at the shared one.

    Parameters
    ----------
    log_penalties : ndarray, shape (p,)
        The tuned ones.
    shared : float
        The shared one.

    Returns
    -------
    str
        One sentence, or nothing if a penalty moved.
    """
    if np.abs(log_penalties - shared).max() > np.log(_SAME_FACTOR):
        return ""
    return (
        f"per-feature: no penalty moved by more than {_SAME_FACTOR - 1:.0%} from the shared one, so that this is "
        "the shared model again"
    )


def constant_columns(constant: np.ndarray, feature_names: Sequence[str], most: int = 3) -> str:
    """Say which columns never vary.

    Parameters
    ----------
    constant : ndarray of bool, shape (p,)
        Which ones.
    feature_names : sequence of str
        Their names.
    most : int
        How many to name.

    Returns
    -------
    str
        One sentence, or nothing if all columns vary.
    """
    found = [name for name, never_varies in zip(feature_names, constant, strict=True) if never_varies]
    if not found:
        return ""
    names = ", ".join(shown(name, 40) for name in found[:most]) + (", ..." if len(found) > most else "")
    vary = "does not vary" if len(found) == 1 else "do not vary"
    return f"data: {len(found):,} of {len(constant):,} features {vary} in the training rows: {names}"


def empty_columns(columns: np.ndarray | None) -> str:
    """Say how many columns of the source hold no value at all and were left out.

    Parameters
    ----------
    columns : ndarray of int or None
        Positions in the source of the columns that are there, the last of which is the source's last; None if
        nothing was left out.

    Returns
    -------
    str
        One sentence, or nothing.
    """
    if columns is None:
        return ""
    total = int(columns[-1]) + 1
    return (
        f"data: {total - len(columns):,} of {total:,} columns hold no value in any row and were left out; "
        "'columns' in model.npz has the positions of the others"
    )
