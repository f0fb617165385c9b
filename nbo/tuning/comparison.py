"""The verdict: which model is best on the test rows, and whether the differences mean anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from nbo.tuning.models import FittedModel

#: A difference of two losses up to this is rounding, relative to the larger one or to that of a blind guess.
_ROUNDING = 1e-9

#: A difference of more paired standard errors than these is clear, unless the rows are few.
_CLEAR = 2.0

#: The quantile of Student's t that takes the place of _CLEAR where it is larger, on fewer than about 60 rows.
_CONFIDENT = 0.975


@dataclass(frozen=True)
class Difference:
    """Two test losses, and how far the second row of losses exceeds the first.

    Attributes
    ----------
    new, old : float
        The losses.
    mean, standard_error : float
        Of the paired differences new - old of the losses of the test rows.
    rows : int
        The number of test rows.
    blind : float
        The loss of a guess without features; by default that of a coin's toss.
    """

    new: float
    old: float
    mean: float
    standard_error: float
    rows: int
    blind: float = float(np.log(2))

    @property
    def same(self) -> bool:
        """Whether only rounding tells the losses apart."""
        return abs(self.new - self.old) <= _ROUNDING * max(abs(self.new), abs(self.old), self.blind)

    @property
    def clear(self) -> bool:
        """Whether the difference exceeds two standard errors, or more where the rows are few."""
        if self.same or self.rows < 2:
            return False
        return bool(abs(self.mean) > max(_CLEAR, stdtrit(self.rows - 1, _CONFIDENT)) * self.standard_error)


def loss_text(value: float) -> str:
    """Return a loss with the four digits that the table and the verdict show.

    Parameters
    ----------
    value : float
        The loss.

    Returns
    -------
    str
        The number.
    """
    return f"{value:#.4g}".rstrip(".")


def difference(new: FittedModel, old: FittedModel) -> Difference:
    """Compare two models by the losses of the test rows.

    Parameters
    ----------
    new, old : FittedModel
        Measured on the same rows.

    Returns
    -------
    Difference
        With an infinite standard error if there is one row only.
    """
    rows = new.test_losses - old.test_losses
    error = float(rows.std(ddof=1) / np.sqrt(len(rows))) if len(rows) > 1 else np.inf
    return Difference(new.test_loss, old.test_loss, float(rows.mean()), error, len(rows), old.blind_loss)


def verdict(models: Sequence[FittedModel], interrupted: bool = False) -> str:
    """Say which model has the lowest test loss, and whether the differences are clear.

    A difference is clear if it exceeds two standard errors of the paired differences of the row losses; on few
    rows, which hardly tell the standard error, it takes the 97.5 % quantile of Student's t of them.

    Parameters
    ----------
    models : sequence of FittedModel
        At least one model, all measured on the same test rows.
    interrupted : bool
        Whether some models are missing or unfinished.

    Returns
    -------
    str
        A sentence a line.
    """
    by_rank = {model.rank: model for model in models}  # an untuned model is compared with nothing
    pairs = [(by_rank[new], by_rank[old]) for new, old in ((3, 2), (2, 1)) if new in by_rank and old in by_rank]
    return "\n".join(
        [
            *(["Interrupted; what follows compares what was ready."] if interrupted else []),
            _winner(models),
            *(_comparison(new, old) for new, old in pairs),
        ]
    )


def _winner(models: Sequence[FittedModel]) -> str:
    best = min(models, key=lambda model: model.test_loss)
    against = {model.name: difference(model, best) for model in models}
    first = [name for name, found in against.items() if found.same]
    close = [name for name, found in against.items() if not found.same and not found.clear]
    figures = f"test loss {loss_text(best.test_loss)}, {best.score_name} {best.score_text}"
    if not close:
        return f"Best on the test rows: {_listed(first)} ({figures})."
    have = "has" if len(first) == 1 else "have"
    return f"No clear winner: {_listed(first)} {have} the lowest {figures}, but no clear lead over {_listed(close)}."


def _comparison(new: FittedModel, old: FittedModel) -> str:
    found = difference(new, old)
    if found.same:
        return f"{new.name} gives the same test loss as {old.name} ({loss_text(new.test_loss)})."
    said = "shows no clear difference from"
    if found.clear:
        said = "beats" if found.mean < 0 else "does not beat"
    spread = f"difference {found.mean:+.2g}"
    if np.isfinite(found.standard_error):
        spread += f", standard error {found.standard_error:.2g}"
    return f"{new.name} {said} {old.name} ({loss_text(found.new)} against {loss_text(found.old)}; {spread})."


def _listed(names: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
