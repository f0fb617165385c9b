"""The report on cleaned labels, for people who do not know the method."""

from __future__ import annotations

import numpy as np

from nbo._page import in_markdown
from nbo.cleaning import CleanedLabels

#: Suspects that the report lists.
LISTED = 20


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
    lines = [f"# Labels of {found.table.name}", "", *_verdict(found), *_suspects(found)]
    if pictures:
        lines += ["## How far each label is trusted", "", "![weights of all labels](weights.png)", ""]
        lines += ["Labels left of 1/2 are suspect. Two separate heaps are a good sign: the model is sure.", ""]
    lines += [*_beside(found), *_certainty(found), *_next(found)]
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
    if not report.n_suspects:
        text += " No label is suspect: either all are right, or the rows cannot tell."
    if found.trusted is None:
        text += " Labels of the rows that were held out may be wrong, too: give trusted rows for a better result."
    return text


def _verdict(found: CleanedLabels) -> list[str]:
    return ["## What was found", "", verdict(found), ""]


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
    return [
        f"## The {len(rows)} most suspicious labels",
        "",
        "Rows are counted from 1, without the header. `suspects.csv` has the whole list, `weights.csv` every row.",
        "",
        *in_markdown(("Row", "Label", "Trust, 0 to 1", "Suggested label", "Its probability"), rows),
    ]


def _beside(found: CleanedLabels) -> list[str]:
    report = found.cleaner.report_
    return [
        "## Beside the simplest way",
        "",
        "One could instead train a model on the trusted rows alone and doubt every label that it disagrees with. It "
        f"disagrees with {report.n_disagree:,} labels ({report.n_disagree / report.n_rows:.1%}), "
        f"{report.n_both:,} of which are suspect here, too. Both judge {report.agreement:.1%} of the rows alike. The "
        "simple way doubts many right labels of rows that are hard to tell apart; where both agree, a label is most "
        "probably wrong.",
        "",
    ]


def _certainty(found: CleanedLabels) -> list[str]:
    report, weights = found.cleaner.report_, found.weights
    unsure = float(np.mean((weights > 0.1) & (weights < 0.9)))
    return [
        "## How sure this is",
        "",
        f"{unsure:.1%} of the labels are neither clearly trusted (above 0.9) nor clearly doubted (below 0.1). The mean "
        f"loss on the trusted rows of the model that learns the weights fell from {report.uncleaned_loss:.3g} with "
        f"equal trust to {report.trusted_loss:.3g}. These rows have chosen the weights, so that new rows will show "
        f"less. The search was ended on purpose after {report.n_iter} iterations: more of them make the weights worse.",
        "",
    ]


def _next(found: CleanedLabels) -> list[str]:
    return [
        "## What to do next",
        "",
        "- Look at the suspects, in their order, and correct what is wrong. Do not delete rows unseen: a suspect label "
        "may be right, and the row a rare case.",
        "- A suggested label is a guess of a linear model, and wrong where classes cannot be told apart by it.",
        "- What cannot be seen here: labels that are wrong in the trusted rows, and mistakes that all rows of a kind "
        "share.",
        f"- {'Add trusted rows' if found.trusted is None else 'More trusted rows make this better'}: a few hundred, "
        "of every class, whose labels somebody has checked.",
        "",
    ]
