"""The page of ``nbo tune`` for people who do not know the method."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nbo._page import escaped, in_markdown
from nbo.tuning.comparison import difference, loss_text
from nbo.tuning.models import FittedModel
from nbo.tuning.pictures import names_of_penalties
from nbo.tuning.report import TuneReport

#: A penalty so many times the shared one switches off what it belongs to, all but completely.
OFF = 10.0

#: A relative difference of losses that is too little to matter, however sure it is.
_SLIGHT = 0.01

#: The smallest relative difference that is shown as a number.
_SHOWN = 0.001

#: Features that are named.
LISTED = 30

_WHAT = {
    "untuned": "no tuning (the usual strength, {strength} = 1)",
    "LogisticRegressionCV": "scikit-learn's search over ten strengths",
    "RidgeCV": "scikit-learn's search over ten strengths",
    "shared": "one tuned penalty for all features",
    "per-feature": "one tuned penalty for each feature",
    "per-class": "one tuned penalty for each class",
    "per-class-and-feature": "one tuned penalty for each feature and class",
}

_CAPTIONS = {
    "penalties.png": "The penalties: right of the dashed line a feature is held back, left of it it is freer.",
    "convergence.png": "How the search went: the loss on the rows that were held out, and the slope that was left.",
}


def markdown(report: TuneReport, pictures: Sequence[str]) -> str:
    """Return the page.

    Parameters
    ----------
    report : TuneReport
        A report with at least one search.
    pictures : sequence of str
        The names of the pictures that are there.

    Returns
    -------
    str
        In Markdown.
    """
    lines = [f"# Penalties for {escaped(report.dataset.name)}", "", *_introduction(report), *_models(report)]
    lines += [*_plain_ones(report), *_finer(report), *_switched_off(report), *_certainty(report)]
    for name, caption in _CAPTIONS.items():
        if name in pictures:
            lines += [f"![{caption}]({name})", "", caption, ""]
    if report.notes:
        lines += ["## Worth knowing", "", *(f"- {escaped(note)}" for note in report.notes), ""]
    return "\n".join(lines)


def _introduction(report: TuneReport) -> list[str]:
    sizes, data = report.data.sizes(), report.dataset
    by = f"by {data.A.shape[1]:,} features"
    labels = [escaped(name) for name in data.label_names]
    what = f"A model that predicts a number {by}."
    if data.task == "binary":
        what = f"A model that tells {labels[1]} from {labels[0]} {by}."
    elif labels:
        more = f" and {len(labels) - LISTED:,} more" if len(labels) > LISTED else ""
        what = f"A model that tells {len(labels):,} classes apart {by}: {', '.join(labels[:LISTED])}{more}."
    return [
        f"{what} Penalties keep the influence of features small unless the data speak for them; how strong they should "
        f"be was found out, and is no guess: {_judges(report)} Another {sizes['test']:,} rows, which took no part in "
        "any of this, tell how good the result is.",
        "",
        *(["**The work was interrupted; this is what was ready.**", ""] if report.interrupted else []),
    ]


def _judges(report: TuneReport) -> str:
    n, folds = report.data.sizes()["tuning"], report.data.folds
    if len(folds) == 1:
        train, held_out = folds[0]
        return (
            f"models learn from {train.size:,} rows, and {held_out.size:,} other rows judge the penalties. The final "
            f"model learns from all {n:,}."
        )
    return (
        f"{n:,} rows were divided into {len(folds)} parts. Each part judges the penalties of models that learn from "
        f"the others, and the final model learns from all {n:,}."
    )


def _models(report: TuneReport) -> list[str]:
    numbers = report.data.task == "regression"
    rows = [
        (_what(model, report), model.name, loss_text(model.test_loss), model.score_text, f"{model.seconds:.2f}")
        for model in report.models
    ]
    blind = loss_text(report.models[0].blind_loss)
    meaning = (
        "The loss is the mean square of the errors, in the units of the target squared. R2 is the share of the "
        f"variation that the model explains: 1 is perfect, 0 no better than always guessing the mean (loss {blind})."
        if numbers
        else "The loss is small if the model is sure where it is right, and hesitates where it is wrong; blind "
        f"guessing has {blind}."
    )
    return [
        "## How good it is",
        "",
        *in_markdown(
            ("Penalties", "Called", "Loss on the test rows", "R2" if numbers else "Right answers", "Seconds"), rows
        ),
        f"{meaning} " + " ".join(escaped(line) for line in report.verdict.splitlines()),
        "",
    ]


def _what(model: FittedModel, report: TuneReport) -> str:
    return _WHAT[model.name].format(strength="alpha" if report.data.task == "regression" else "C")


def _plain_ones(report: TuneReport) -> list[str]:
    """Say how one tuned penalty compares with what takes less work."""
    by_rank = {model.rank: model for model in report.models}
    if 2 not in by_rank:
        return []
    shared = by_rank[2]
    lines = [
        f"- {_compared(shared, by_rank[rank])} {_what(by_rank[rank], report)}." for rank in (0, 1) if rank in by_rank
    ]
    return ["## Was tuning worth it?", "", "One tuned penalty for all features is", "", *lines, ""]


def _compared(new: FittedModel, old: FittedModel) -> str:
    found = difference(new, old)
    if not found.clear:
        return "as good, as far as these rows can tell, as"
    how = "slightly" if _slight(new, old) else "clearly"
    return f"{how} {'better' if found.mean < 0 else 'worse'} ({_change(new, old)}) than"


def _slight(new: FittedModel, old: FittedModel) -> bool:
    return abs(new.test_loss - old.test_loss) < _SLIGHT * old.test_loss


def _change(new: FittedModel, old: FittedModel) -> str:
    gain = 1 - new.test_loss / old.test_loss
    size = f"{abs(gain):.1%}" if abs(gain) >= _SHOWN else f"less than {_SHOWN:.1%}"
    return f"the loss on the test rows is {size} {'lower' if gain > 0 else 'higher'}"


def _finer(report: TuneReport) -> list[str]:
    by_rank = {model.rank: model for model in report.models}
    if 3 not in by_rank or 2 not in by_rank:
        return []
    new, old = by_rank[3], by_rank[2]
    found = difference(new, old)
    if found.clear and found.mean < 0 and _slight(new, old):
        text = (
            f"Hardly: {_change(new, old)}. That is more than chance explains, but so little that one penalty for all "
            "features (--penalty shared), which is simpler, will do."
        )
    elif found.clear and found.mean < 0:
        text = f"Yes: {_change(new, old)}, more than chance explains."
    elif found.clear:
        text = f"No: {_change(new, old)}. Take one penalty for all features (--penalty shared)."
    else:
        text = (
            "No, as far as these rows can tell: what there is of a difference is within chance. One penalty for all "
            "features (--penalty shared) is simpler, and as good."
        )
    return [f"## Did {_WHAT[new.name].replace('one tuned', 'a')} help?", "", text, ""]


def _switched_off(report: TuneReport) -> list[str]:
    last = report.stages[-1]
    if last.name == "shared":
        return []
    x, names = last.model.log_penalties, names_of_penalties(last, report)
    things = {"per-feature": "features", "per-class": "classes"}.get(last.name, "features of a class")
    shared = next(model for model in report.models if model.name == "shared").log_penalties[0]
    off = np.flatnonzero(x > shared + np.log(OFF)).tolist()
    if not off:
        return [f"None of the {things} was switched off: no penalty is more than {OFF:g} times the shared one.", ""]
    more = f" and {len(off) - LISTED:,} more" if len(off) > LISTED else ""
    return [
        f"{len(off):,} of {x.size:,} {things} were all but switched off, by a penalty of more than "
        f"{OFF:g} times the shared one: {', '.join(escaped(names[j]) for j in off[:LISTED])}{more}.",
        "",
    ]


def _certainty(report: TuneReport) -> list[str]:
    lines = ["## How sure the end of the search is", ""]
    for stage in report.stages:
        result = stage.result
        if result.success:
            text = (
                f"the search has ended by itself after {result.nit} step{'s' * (result.nit != 1)}. The slope "
                f"that is left (projected hypergradient), which is zero at the best penalties, is "
                f"{result.hypergrad_norm:.1e}"
            )
            if np.isfinite(result.hypergrad_error):
                sure = "proven" if result.hypergrad_error_kind == "bound" else "estimated"
                text += f", known to within {result.hypergrad_error:.1e} ({sure})"
            lines.append(f"- **{_what(stage.model, report)}**: {text}.")
        else:
            lines.append(f"- **{_what(stage.model, report)}**: the search has not ended by itself; see the notes.")
    return [*lines, ""]
