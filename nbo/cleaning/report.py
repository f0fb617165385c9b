"""The report on cleaned labels, for people who do not know the method."""

from __future__ import annotations

import numpy as np

from nbo._page import escaped, in_markdown
from nbo.cleaning import CleanedLabels, unjudged
from nbo.datasets.errors import listing
from nbo.history import Status

#: Suspects that the report lists.
LISTED = 20

_UNCONVINCED = (
    "Where the suggestion is the label itself, the row is a borderline case: the label was hardly trusted while the "
    "weights were learnt, and the final model agrees with it all the same."
)


def markdown(found: CleanedLabels, pictures: bool) -> str:
    """Return the report.

    Parameters
    ----------
    found : CleanedLabels
        The results.
    pictures : bool
        Whether ``weights.png`` is there.

    Returns
    -------
    str
        In Markdown.
    """
    lines = [f"# Labels of {escaped(found.table.name)}", "", *_verdict(found), *_suspects(found)]
    if pictures:
        lines += ["## How far each label is trusted", "", "![weights of all labels](weights.png)", ""]
        lines += ["Labels left of 1/2 are suspect. Two separate heaps are a good sign: the model is sure.", ""]
    lines += [*_beside(found), *_certainty(found), *_unknown(found), *_next(found)]
    return "\n".join(lines)


def verdict(found: CleanedLabels) -> str:
    """Return the result in a few sentences.

    Parameters
    ----------
    found : CleanedLabels
        The results.

    Returns
    -------
    str
        One paragraph.
    """
    report, table = found.cleaner.report_, found.table
    judged = "a fifth of the same rows, held out" if found.trusted is None else f"{report.n_trusted:,} trusted rows"
    text = (
        f"{report.n_suspects:,} of {report.n_rows:,} labels ({report.suspect_share:.1%}) are suspect: more likely "
        f"wrong than right. {table.A.shape[1]:,} features, {report.n_classes} labels, judged by {judged}."
    )
    unknown = [] if found.trusted is None else unjudged(found.table, found.trusted)
    if unknown:
        names = listing([repr(name) for name in unknown], 5)
        text += (
            f" That does not hold for labels without a trusted row ({names}), and less for the others, which may be "
            "mistaken for these: add trusted rows of every label."
        )
    if not report.n_suspects:
        text += " No label is suspect: either all are right, or the rows cannot tell."
    if found.trusted is None:
        text += (
            " Labels of the rows that were held out may be wrong, too, which makes the weights cautious: many wrong "
            "labels may be above 1/2. The order is better than that threshold, so go on down weights.csv by trust, or "
            "give trusted rows."
        )
    return text


def _verdict(found: CleanedLabels) -> list[str]:
    notes = [line for note in found.notes for line in (f"**Note:** {escaped(note)}.", "")]
    return ["## What was found", "", verdict(found), "", *notes]


def _suspects(found: CleanedLabels) -> list[str]:
    rows = [
        (
            i + 1,
            found.table.labels[i],
            f"{found.weights[i]:.3g}",
            found.suggested[i],
            f"{found.probability[i]:.0%}",
        )
        for i in found.suspects[:LISTED].tolist()
    ]
    if not rows:
        return []
    unconvinced = any(label == suggested for _, label, _, suggested, _ in rows)
    return [
        f"## The {len(rows)} most suspicious labels",
        "",
        "Rows are counted from 1, without the header. `suspects.csv` has the whole list, `weights.csv` every row.",
        "",
        *in_markdown(("Row", "Label", "Trust, 0 to 1", "Suggested label", "Its probability"), rows),
        *([_UNCONVINCED, ""] if unconvinced else []),
    ]


def _beside(found: CleanedLabels) -> list[str]:
    report = found.cleaner.report_
    judges = "rows that were held out" if found.trusted is None else "trusted rows"
    return [
        "## Beside the simplest way",
        "",
        f"One could instead train a model on the {judges} alone and doubt every label that it disagrees with. It "
        f"disagrees with {report.n_disagree:,} labels ({report.n_disagree / report.n_rows:.1%}), "
        f"{report.n_both:,} of which are suspect here, too. Both judge {report.agreement:.1%} of the rows alike. The "
        "simple way finds more of the wrong labels, and doubts more of the right ones, of rows that are hard to tell "
        "apart; where both agree, a label is most probably wrong.",
        "",
    ]


def _certainty(found: CleanedLabels) -> list[str]:
    report, weights = found.cleaner.report_, found.weights
    unsure = float(np.mean((weights > 0.1) & (weights < 0.9)))
    judges = "held-out" if found.trusted is None else "trusted"
    return [
        "## How sure this is",
        "",
        f"{unsure:.1%} of the labels are neither clearly trusted (above 0.9) nor clearly doubted (below 0.1). The mean "
        f"loss on the {judges} rows of the model that learns the weights was {report.uncleaned_loss:.3g} with equal "
        f"trust and is {report.trusted_loss:.3g} with the weights that were found"
        f"{'' if report.trusted_loss < report.uncleaned_loss else ', no better: do not rely on them'}. These rows have "
        "chosen the weights, so that new rows will show less of a difference.",
        "",
        f"{_end(found)} Whether another moment would have been better, only rows can tell that were never used here "
        "and whose labels are known.",
        "",
    ]


def _end(found: CleanedLabels) -> str:
    """Say why the search ended."""
    result, chosen = found.cleaner.result_, found.settings["max_iter"]
    done = f"{result.nit} iteration{'s' * (result.nit != 1)}"
    if result.status is Status.CONVERGED:
        return f"The search ended after {done}, since nothing was left to gain on these rows."
    if result.status is not Status.ITERATION_LIMIT:
        return f"The search ended after {done} without an answer ({result.status}): take the result with care."
    if chosen is None:
        return (
            f"The search was ended on purpose after {done}, far from the end: on known data, more of them lowered this "
            "loss and made the weights worse."
        )
    return (
        f"The search was ended after {done}, as asked. More than a few lower this loss and make the weights worse; the "
        "usual number is two."
    )


def _unknown(found: CleanedLabels) -> list[str]:
    judges = (
        "Whether the labels of the rows that judged are right. There were no trusted rows: "
        f"{found.cleaner.report_.n_trusted:,} of the same rows were taken as if their labels were right, and some of "
        "them may be as wrong as the rest."
        if found.trusted is None
        else "Whether the labels of the trusted rows are right. They were taken as right without a check."
    )
    return [
        "## What this cannot know",
        "",
        f"- {judges}",
        "- Mistakes that all rows of a kind share: nothing contradicts them.",
        "- Classes that a linear model of these columns cannot tell apart: suspects and suggestions are guesses there.",
        "- How many of the suspects are wrong. Checking some of them by hand is the only way to find out.",
        "",
    ]


def _next(found: CleanedLabels) -> list[str]:
    return [
        "## What to do next",
        "",
        "- Look at the suspects, in their order, and correct what is wrong. Do not delete rows unseen: a suspect label "
        "may be right, and the row a rare case.",
        "- Run it again with another `--seed`, which splits the rows anew: labels that stay suspect are surer, and "
        "a suggestion that changes is no more than a guess.",
        f"- {'Add trusted rows' if found.trusted is None else 'More trusted rows make this better'}: a few hundred, "
        "of every class, picked at random and checked by somebody.",
        "",
    ]
