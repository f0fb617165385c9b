"""The report: one Markdown text, and the same as one HTML file that holds its pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nbo._page import Formatted, escaped, in_markdown
from nbo.experiments._results import BAND, CONFIDENCE, CaseResult
from nbo.experiments._tables import arrivals, finals, ratio_in_words, steps
from nbo.experiments.catalogue import EXPERIMENTS
from nbo.experiments.claims import Claim, Judgement, tally
from nbo.experiments.configuration import Experiment, FigureLayout

if TYPE_CHECKING:
    from nbo.experiments.reproduction import Reproduction

TITLE = "The experiments of the NBO paper, reproduced"

_QUICK = (
    "**This is the quick version: data, grids, budgets and repeats are reduced. It shows that everything works, and "
    "says little about the paper; `--full` is the paper's size.**"
)

_METHOD = f"""\
Steps are searched with one seed on the grid of the case, which at full size is the paper's where it has one, each pair
for the whole budget; the pair whose run ends lowest is taken, by the mean of its last looks at the metric, or, where
that is a test error, at f, so that the test rows decide on nothing. Repeats have other seeds: of the data where these
are made, else of starts and minibatches. Curves are medians over repeats with the band from {BAND[0]} to {BAND[1]} %;
of an even number of repeats the lower middle one counts, here and everywhere. A repeat that diverged counts as infinite
from then on: a line ends where the median is, and there is no band where its upper end is.

Times are solver time of one process with one thread on a core of its own, without compilation and evaluation: iterates
are kept on the way and measured when the run is over. Phi(x) is f(x, y\\*(x)) with y\\*(x) solved for in float64 until
|grad_2 g| <= 1e-9; Phi\\* is the lowest value that an accurate full-batch method or any run has reached. Samples are
component samples, summed over all oracles; a product with the Hessian counts like a gradient.

Targets are parts of the way that is left between the start and Phi\\* (0 for a distance; for a test error, the lowest
median at which a method ended). A ratio is the NBO method's time, samples or iterations over those of the other one,
the median over repeats in which at least one of both arrived, with a bootstrap interval of {CONFIDENCE:.0%}. A win is
a repeat in which it was there first. Between two looks the way to a target is interpolated. Where the budget is a
number of iterations, a method that is not there at its end counts as never there, whatever time others had.
"""


def markdown(found: Reproduction, figures: Sequence[FigureLayout], facts: Mapping[str, Any]) -> str:
    """Return the report.

    Parameters
    ----------
    found : Reproduction
        The results.
    figures : sequence of FigureLayout
        Those that were drawn.
    facts : mapping
        Machine, versions and settings.

    Returns
    -------
    str
        In Markdown; pictures are in ``figures``.
    """
    lines = [f"# {TITLE}", ""]
    lines += [_QUICK, ""] if found.scale == "quick" else []
    lines += ["## Verdicts", "", f"Claims: {len(found.verdicts)}; {tally(found.verdicts)}.", ""]
    lines += in_markdown(
        ("Section", "Claim", "Measured", "Verdict"),
        [(c.section, c.text, j.measured, Formatted(f"**{j.verdict}**")) for c, j in found.verdicts],
    )
    lines += ["## How it is measured", "", _METHOD, *_omissions(found.omitted)]
    shown: set[str] = set()
    for name in found.names:
        lines += _experiment(EXPERIMENTS[name], found, [f for f in figures if f.name not in shown], shown)
    lines += ["## Machine and versions", "", *in_markdown(("What", "Which"), list(facts.items()))]
    return "\n".join(lines) + "\n"


def _omissions(omitted: Mapping[str, str]) -> list[str]:
    return ["Left out:", "", *(f"- {name}: {escaped(why)}" for name, why in omitted.items()), ""] if omitted else []


def _experiment(
    experiment: Experiment, found: Reproduction, figures: Sequence[FigureLayout], shown: set[str]
) -> list[str]:
    quick = " (quick version, reduced data)" if found.scale == "quick" else ""
    lines = [f"## {experiment.title}{quick}", ""]
    names = {case.name for case in experiment.cases} | {study.name for study in experiment.studies}
    for figure in figures:
        if any(names & set(panel.shows) for panel in figure.panels):
            shown.add(figure.name)
            caption = escaped(figure.caption)
            lines += [f"![{caption}](figures/{figure.name}.png)", "", f"*{escaped(figure.paper)}.* {caption}", ""]
    lines += _claims([pair for pair in found.verdicts if pair[0].experiment == experiment.name])
    for case in experiment.cases:
        if case.name in found.cases:
            lines += _case(found.cases[case.name])
    for study in experiment.studies:
        if study.name in found.studies:
            lines += ["```", found.studies[study.name]["text"], "```", ""]
    return lines


def _claims(verdicts: Sequence[tuple[Claim, Judgement]]) -> list[str]:
    lines = []
    for claim, judgement in verdicts:
        text = f"{claim.text} ({_place(claim.section)}). Rule: {claim.rule.text}. Measured: {judgement.measured}."
        remark = f" *{escaped(claim.remark)}*" if claim.remark else ""
        lines.append(f"- **{judgement.verdict}**: {escaped(text)}{remark}")
    return [*lines, ""] if lines else []


def _place(section: str) -> str:
    return f"Section {section}" if section[0].isdigit() else section


def _case(result: CaseResult) -> list[str]:
    spent, evaluation = result.evaluation_seconds
    budget = result.size.budget
    limit = f"{budget.iterations} iterations" if budget.iterations else f"{budget.seconds:g} s of solver time"
    lines = [
        f"### {result.case.name}: {result.size.problem.title}",
        "",
        f"Repeats: {result.repeats}, of {limit} each; {spent:.3g} s in all, and {evaluation:.3g} s of evaluation "
        "besides.",
    ]
    if result.below > 0:
        lines.append(f"Some run came {result.below:.2g} below the accurate minimum, which then is Phi*.")
    lines.append("")
    lines += in_markdown(
        ("Method", "Inner step", "Ratio", "Outer step", "Pairs tried", "Pairs diverged"),
        [row[1:] for row in steps(result)],
    )
    lines += in_markdown(
        ("Method", f"Final {result.case.metric}", f"{BAND[0]} %", f"{BAND[1]} %", "Iterations", "Seconds", "Diverged"),
        [(row[1], *row[4:9], f"{row[10]} of {row[11]}") for row in finals(result)],
    )
    lines += in_markdown(
        ("Method", "Target", "Over", "Median", f"{BAND[0]} %", f"{BAND[1]} %", "Arrived"),
        [(*row[1:7], f"{row[7]} of {row[8]}") for row in arrivals(result)],
    )
    lines += in_markdown(
        ("NBO method", "Other", "Target", "Over", "Ratio", "Interval", "Wins", "Losses"),
        [(r.first, r.other, r.level, r.axis, *ratio_in_words(r), r.wins, r.losses) for r in result.ratios()],
    )
    return lines
