"""What label cleaning found, beside what the simplest way would have found."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

_WIDTH = 100


@dataclass(frozen=True)
class CleaningReport:
    """What label cleaning found.

    Attributes
    ----------
    n_rows, n_trusted : int
        Rows whose labels were judged, and rows that judged them.
    held_out : bool
        Whether the latter are some of the former, held out for want of trusted rows.
    n_classes : int
        The number of classes.
    C : float
        The strength of penalties of the models that predict, as scikit-learn has it.
    ridge : float
        c_r of the model that the weights were learnt with.
    uncleaned_loss, start_loss, trusted_loss : float
        Its mean log loss on the trusted rows: with equal weights, with the weights that hyper-cleaning started from,
        and at the end. These rows have chosen the weights, so that new rows will show less of a difference.
    n_suspects : int
        Rows of weight below 1/2.
    n_disagree : int
        Rows whose label is not what a model of the trusted rows alone predicts.
    n_both : int
        Rows of both kinds.
    n_iter : int
        Iterations of hyper-cleaning.
    seconds : float
        Wall time of `fit`.
    """

    n_rows: int
    n_trusted: int
    held_out: bool
    n_classes: int
    C: float
    ridge: float
    uncleaned_loss: float
    start_loss: float
    trusted_loss: float
    n_suspects: int
    n_disagree: int
    n_both: int
    n_iter: int
    seconds: float

    @property
    def suspect_share(self) -> float:
        """The share of rows of weight below 1/2."""
        return self.n_suspects / self.n_rows

    @property
    def agreement(self) -> float:
        """The share of rows that the weights and the model of the trusted rows alone judge alike."""
        return 1 - (self.n_suspects + self.n_disagree - 2 * self.n_both) / self.n_rows

    def summary(self) -> str:
        """Return the report as a few lines of text.

        Returns
        -------
        str
            What ``str()`` gives.
        """
        held = ", held out of them and as doubtful as the rest" if self.held_out else ""
        lines = [
            f"Labels of {self.n_rows:,} rows in {self.n_classes} classes, judged by {self.n_trusted:,} trusted "
            f"rows{held}.",
            f"Suspect (weight below 1/2): {self.n_suspects:,} rows ({self.suspect_share:.1%}).",
            f"The simplest way, a model of the trusted rows alone, disagrees with {self.n_disagree:,} labels "
            f"({self.n_disagree / self.n_rows:.1%}), {self.n_both:,} of them suspect; both judge {self.agreement:.1%} "
            "of the rows alike.",
            f"Mean log loss on trusted rows of the model that learns the weights: {self.uncleaned_loss:.4g} with equal "
            f"weights, {self.start_loss:.4g} at the start, {self.trusted_loss:.4g} after {self.n_iter} iterations.",
            f"Penalties: C = {self.C:.3g} for predictions, ridge = {self.ridge:.3g} while weights are learnt. "
            f"{self.seconds:.2f} seconds in all.",
        ]
        return "\n".join(textwrap.fill(line, _WIDTH, subsequent_indent="  ") for line in lines)

    def __str__(self) -> str:
        return self.summary()
