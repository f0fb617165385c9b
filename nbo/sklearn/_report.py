"""What tuning did, for those who have to decide whether it was worth it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nbo.oracles import OracleCounts
from nbo.sklearn._stages import Stage

_WIDTH = 100

#: A relative gain that is none, as the same rows have chosen the penalties.
_NO_GAIN = 0.01

#: How far from its bound a log penalty counts as at it.
_AT_BOUND = 0.01

#: A penalty that exceeds the shared one by this factor leaves little of its coefficients.
_SWITCHED_OFF = 10.0

#: How many names a sentence lists.
_MOST_NAMES = 8


@dataclass(frozen=True)
class StageReport:
    """How one stage of tuning went.

    Attributes
    ----------
    name : str
        ``"shared"`` or ``"finer"``.
    success : bool
        Whether it converged.
    status, message : str
        How the solver ended, in a word and in its own sentence.
    n_iter : int
        Iterations.
    seconds : float
        Wall time.
    loss : float
        The mean held-out loss that it reached, without the prior.
    hypergrad_norm : float
        The projected hypergradient at the end, which is zero at a minimiser.
    hypergrad_error : float or None
        The solver's estimate of the error of that; None if it gives none.
    counts : OracleCounts
        The oracle calls, with those for the history.
    """

    name: str
    success: bool
    status: str
    message: str
    n_iter: int
    seconds: float
    loss: float
    hypergrad_norm: float
    hypergrad_error: float | None
    counts: OracleCounts

    def __str__(self) -> str:
        calls = sum(self.counts.as_dict().values())
        error = "" if self.hypergrad_error is None else f", known to {self.hypergrad_error:.1g}"
        return (
            f"{self.name} stage: {self.status} after {self.n_iter} iterations, {self.seconds:.2f} seconds and "
            f"{calls:,} oracle calls; the slope that is left (projected hypergradient) is {self.hypergrad_norm:.1g}"
            f"{error}"
        )


def stage_report(stage: Stage) -> StageReport:
    """Return what a report tells of a stage.

    Parameters
    ----------
    stage : Stage
        A finished one.

    Returns
    -------
    StageReport
        Without its arrays.
    """
    result = stage.result
    return StageReport(
        name=stage.name,
        success=bool(result.success),
        status=str(result.status).replace("_", " "),
        message=result.message,
        n_iter=result.nit,
        seconds=stage.seconds,
        loss=stage.loss,
        hypergrad_norm=float(result.hypergrad_norm),
        hypergrad_error=result.get("hypergrad_error"),
        counts=stage.look_counts + result.counts + result.evaluation_counts,
    )


@dataclass(frozen=True)
class TuningReport:
    """What tuning did to the mean loss of held-out rows.

    No loss in it includes a prior, and all are those of rows that have chosen the penalties: on new rows the gain
    is smaller.

    Attributes
    ----------
    criterion : str
        What held rows out.
    n_folds : int
        K, 1 for a single split.
    n_rows, n_held_out : int
        The rows in all, training and validation, and those held out, counted as often as they were.
    loss_name : str
        What the losses are.
    strength : str
        How scikit-learn calls the shared penalty's strength, and its value.
    untuned_name : str
        The strength that tuning started from.
    untuned_loss, shared_loss : float
        The losses before tuning and with one shared penalty.
    finer_loss : float or None
        The loss with finer penalties; None if there are none.
    penalty : str
        Which penalties those are.
    n_penalties : int
        Their number.
    switched_off : tuple of str
        Whose penalty is more than 10 times the shared one.
    at_upper, at_lower : tuple of str
        Whose penalty ended at its upper and at its lower bound.
    stages : tuple of StageReport
        One or two.
    seconds : float
        Wall time of `fit`.
    """

    criterion: str
    n_folds: int
    n_rows: int
    n_held_out: int
    loss_name: str
    strength: str
    untuned_name: str
    untuned_loss: float
    shared_loss: float
    finer_loss: float | None
    penalty: str
    n_penalties: int
    switched_off: tuple[str, ...]
    at_upper: tuple[str, ...]
    at_lower: tuple[str, ...]
    stages: tuple[StageReport, ...]
    seconds: float

    @property
    def finer_helped(self) -> bool:
        """Whether finer penalties lowered the loss of the shared one by more than a hundredth."""
        return self.finer_loss is not None and self.finer_loss < (1 - _NO_GAIN) * self.shared_loss

    def summary(self) -> str:
        """Return the report as a few lines of text.

        Returns
        -------
        str
            What ``str()`` gives.
        """
        held_out = f"{self.n_held_out:,} of {self.n_rows:,} rows" if self.n_folds == 1 else f"{self.n_rows:,} rows"
        lines = [f"Penalties tuned on {self.criterion} ({held_out}), mean {self.loss_name} of held-out rows:"]
        lines += [*self._table(), *self._verdict(), *self._bounds(), *map(str, self.stages)]
        lines += [f"{stage.name} stage: {stage.message.split('; ')[0]}" for stage in self.stages if not stage.success]
        return "\n".join(textwrap.fill(line, _WIDTH, subsequent_indent="  ", tabsize=2) for line in lines)

    def __str__(self) -> str:
        return self.summary()

    def _table(self) -> list[str]:
        rows = [
            (f"untuned ({self.untuned_name})", self.untuned_loss),
            (f"one shared penalty ({self.strength})", self.shared_loss),
        ]
        if self.finer_loss is not None:
            rows.append((f"penalty {self.penalty} ({self.n_penalties:,} penalties)", self.finer_loss))
        width = max(len(name) for name, _ in rows)
        return [f"  {name}:{' ' * (width - len(name))}  {loss:.6g}" for name, loss in rows]

    def _verdict(self) -> list[str]:
        if self.finer_loss is None:
            return []
        if not all(stage.success for stage in self.stages):
            return ["A stage ended early, so that nothing can be said about the finer penalties yet."]
        gain = 1 - self.finer_loss / self.shared_loss if self.shared_loss > 0 else 0.0
        if not self.finer_helped:
            how = f"changed this loss by {-gain:+.2%}" if gain else "did not change this loss"
            return [
                f"The finer penalties did not help by more than {_NO_GAIN:.0%}: they {how}. penalty='shared' is the "
                "simpler model and about as good here."
            ]
        return [
            f"The finer penalties lowered this loss by {gain:.1%}. The same rows have chosen them, so that new rows "
            "will show less: compare with penalty='shared' by cross_val_score before you rely on it."
        ]

    def _bounds(self) -> list[str]:
        lines = []
        if self.switched_off:
            lines.append(
                f"Switched off, with a penalty more than {_SWITCHED_OFF:g} times the shared one: "
                f"{len(self.switched_off)} of {self.n_penalties:,} ({listed(self.switched_off)})."
            )
        if self.at_upper:
            lines.append(f"At the strongest penalty allowed: {listed(self.at_upper)}; held-out rows ask for no effect.")
        if self.at_lower:
            lines.append(
                f"At the weakest penalty allowed: {listed(self.at_lower)}; held-out rows ask for a weaker "
                "one still, as where a few features tell all, or there is no noise."
            )
        return lines


def listed(names: Sequence[str]) -> str:
    """Return some names in one line.

    Parameters
    ----------
    names : sequence of str
        At least one.

    Returns
    -------
    str
        The first ones, and how many more there are.
    """
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more:,} more" if more > 0 else "")


def at_bounds(stage: Stage, names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return whose penalties ended at the lower and at the upper bound.

    Parameters
    ----------
    stage : Stage
        A finished one.
    names : sequence of str
        Of its penalties.

    Returns
    -------
    tuple of tuple of str
        Those at the lower, and those at the upper one.
    """
    x = stage.result.x
    return _named(x <= stage.lower + _AT_BOUND, names), _named(x >= stage.upper - _AT_BOUND, names)


def switched_off(finer: Stage | None, shared: Stage, names: Sequence[str]) -> tuple[str, ...]:
    """Return whose penalties are far above the shared one.

    Parameters
    ----------
    finer : Stage or None
        The finer stage, if there was one.
    shared : Stage
        The shared one.
    names : sequence of str
        Of the finer penalties.

    Returns
    -------
    tuple of str
        Some of them.
    """
    if finer is None:
        return ()
    return _named(finer.result.x > shared.result.x[0] + np.log(_SWITCHED_OFF), names)


def _named(chosen: npt.NDArray[np.bool_], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(names[k] for k in np.flatnonzero(chosen).tolist())
