"""What the reader of the table should know besides it, in the words of the command."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nbo.datasets import shown
from nbo.history import Status
from nbo.result import BilevelResult
from nbo.tuning.data import TuningData

#: A factor between two penalties that is no difference.
_SAME_FACTOR = 1.01


def unfinished(name: str, result: BilevelResult) -> str:
    """Say how a stage ended that has not converged.

    Parameters
    ----------
    name : str
        The stage.
    result : BilevelResult
        Its outcome.

    Returns
    -------
    str
        One sentence; norms that were never computed are left out.
    """
    done = f"{result.nit} iteration{'s' * (result.nit != 1)}"
    how = {
        Status.ITERATION_LIMIT: f"stopped at the limit of {done} (--max-iter) before it converged",
        Status.DIVERGED: f"diverged after {done}; the iterate with the lowest upper-level value was taken",
    }.get(result.status, f"ended after {done} without convergence (status {result.status})")
    left = f": the slope that is left is {result.hypergrad_norm:.2g}" if np.isfinite(result.hypergrad_norm) else ""
    return f"{name}: {how}{left}"


def interrupted(name: str) -> str:
    """Say which search is missing.

    Parameters
    ----------
    name : str
        What Ctrl-C ended.

    Returns
    -------
    str
        One sentence.
    """
    return f"{name}: interrupted before its end, and left out"


def at_end_of_range(log_penalty: float, lower: float, upper: float, data: TuningData) -> str:
    """Say that a shared penalty ended at an end of its range.

    Parameters
    ----------
    log_penalty, lower, upper : float
        The tuned log penalty and its bounds.
    data : TuningData
        Its number of training rows makes the penalty a C or an alpha.

    Returns
    -------
    str
        One sentence, or nothing if the penalty lies inside.
    """
    margin = np.log(_SAME_FACTOR)
    if lower + margin < log_penalty < upper - margin:
        return ""
    end, trend = ("weakest", "weaker") if log_penalty <= lower + margin else ("strongest", "stronger")
    alpha = np.exp(log_penalty) * data.n_train
    strength = f"alpha = {alpha:.2g}" if data.task == "regression" else f"C = {1 / alpha:.2g}"
    return (
        f"shared: the penalty ended at the {end} one allowed ({strength}); the held-out rows ask for one that "
        f"is {trend} still, or hardly tell"
    )


def without_prior(name: str) -> str:
    """Say what finer penalties without a prior are worth.

    Parameters
    ----------
    name : str
        The search.

    Returns
    -------
    str
        One sentence.
    """
    return (
        f"{name}: without a prior so many penalties fit the rows that were held out and not what is behind them; trust "
        "the test loss alone"
    )


def at_weakest(name: str, log_penalties: np.ndarray, lower: float) -> str:
    """Say that finer penalties ended at the weak end of their range.

    Parameters
    ----------
    name : str
        The search.
    log_penalties : ndarray, shape (G,)
        The tuned ones.
    lower : float
        Their lower bound.

    Returns
    -------
    str
        One sentence, or nothing if none did.
    """
    found = int(np.sum(log_penalties <= lower + np.log(_SAME_FACTOR)))
    if not found:
        return ""
    return (
        f"{name}: {found:,} of {len(log_penalties):,} penalties ended at the weakest one allowed; the held-out rows "
        "ask for none there"
    )


def unmoved(name: str, log_penalties: np.ndarray, shared: float) -> str:
    """Say that finer penalties stayed at the shared one.

    Parameters
    ----------
    name : str
        The search.
    log_penalties : ndarray, shape (G,)
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
        f"{name}: no penalty moved by more than {_SAME_FACTOR - 1:.0%} from the shared one, so that this is "
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
    return f"data: {len(found):,} of {len(constant):,} features {vary} in the rows that tune: {names}"


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
