"""The page of ``nbo tune`` for people who do not know the method."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nbo._page import escaped, in_markdown
from nbo.tuning.comparison import difference, loss_text
from nbo.tuning.models import FittedModel
from nbo.tuning.report import TuneReport
from nbo.tuning.stages import Stage

#: A penalty so many times the shared one switches a feature off, all but completely.
OFF = 10.0

#: Features that are named.
LISTED = 30

_WHAT = {
    "untuned": "no tuning: the usual strength C = 1",
    "LogisticRegressionCV": "scikit-learn's search over ten strengths",
    "shared": "one tuned penalty for all features",
    "per-feature": "one tuned penalty for each feature",
}


def markdown(report: TuneReport, pictures: Sequence[str]) -> str:
    """Return the page.

    Parameters
    ----------
    report : TuneReport
        A report with at least one stage.
    pictures : sequence of str
        The names of the pictures that are there.

    Returns
    -------
    str
        In Markdown.
    """
    lines = [f"# Penalties for {escaped(report.dataset.name)}", "", *_introduction(report), *_models(report)]
    lines += [*_finer(report), *_switched_off(report), *_certainty(report)]
    captions = {
        "penalties.png": "The penalties: right of the dashed line a feature is held back, left of it it is freer.",
        "convergence.png": "How the search went: the loss on the validation rows, and the slope that was left.",
    }
    for name, caption in captions.items():
        if name in pictures:
            lines += [f"![{caption}]({name})", "", caption, ""]
    if report.notes:
        lines += ["## Worth knowing", "", *(f"- {escaped(note)}" for note in report.notes), ""]
    return "\n".join(lines)


def _introduction(report: TuneReport) -> list[str]:
    sizes, data = report.data.sizes(), report.dataset
    negative, positive = (escaped(name) for name in data.label_names)
    return [
        f"A model that tells {positive} from {negative} by {data.A.shape[1]:,} features. Penalties keep the influence "
        "of features small unless the data speak for them; how strong they should be was found out, and is no guess: "
        f"the model learns from {sizes['train']:,} rows, and {sizes['validation']:,} other rows judge the penalties. "
        f"{sizes['test']:,} rows that nothing has seen tell how good the result is.",
        "",
        *(["**The work was interrupted; this is what was ready.**", ""] if report.interrupted else []),
    ]


def _models(report: TuneReport) -> list[str]:
    rows = [
        (_WHAT[model.name], loss_text(model.test_loss), f"{model.accuracy:.2%}", f"{model.seconds:.2f}")
        for model in report.models
    ]
    return [
        "## How good it is",
        "",
        *in_markdown(("Penalties", "Loss on the test rows", "Right answers", "Seconds"), rows),
        "The loss is small if the model is sure where it is right, and hesitates where it is wrong. " + " ".join(
            escaped(line) for line in report.verdict.splitlines()
        ),
        "",
    ]  # fmt: skip


def _finer(report: TuneReport) -> list[str]:
    models = {model.name: model for model in report.models}
    if "per-feature" not in models or "shared" not in models:
        return []
    found = difference(models["per-feature"], models["shared"])
    gain = 1 - models["per-feature"].test_loss / models["shared"].test_loss
    if found.clear and found.mean < 0:
        text = f"Yes: the loss on the test rows is {gain:.1%} lower, more than chance explains."
    elif found.clear:
        text = f"No: the loss on the test rows is {-gain:.1%} higher. Take one penalty for all features."
    else:
        text = (
            "No, not that these rows could tell: what is left of a difference is within chance. One penalty for all "
            "features is simpler, and as good."
        )
    return ["## Did a penalty for each feature help?", "", text, ""]


def _switched_off(report: TuneReport) -> list[str]:
    last = _last(report)
    if last.name != "per-feature":
        return []
    shared = _model(report, "shared").log_penalties[0]
    off = np.flatnonzero(last.model.log_penalties > shared + np.log(OFF))
    if not off.size:
        return [f"No feature was switched off: no penalty is {OFF:g} times the shared one or more.", ""]
    names = [escaped(report.dataset.feature_names[j]) for j in off[:LISTED]]
    more = f" and {off.size - LISTED:,} more" if off.size > LISTED else ""
    return [
        f"{off.size:,} of {report.data.n_features:,} features were all but switched off, by a penalty of more than "
        f"{OFF:g} times the shared one: {', '.join(names)}{more}.",
        "",
    ]


def _certainty(report: TuneReport) -> list[str]:
    lines = ["## How sure the end of the search is", ""]
    for stage in report.stages:
        result = stage.result
        if result.success:
            text = (
                f"**{escaped(_WHAT[stage.name])}**: the search has ended by itself after {result.nit} steps. The slope "
                f"that is left, which is zero at the best penalties, is {result.hypergrad_norm:.1e}"
            )
            if np.isfinite(result.hypergrad_error):
                sure = "proven" if result.hypergrad_error_kind == "bound" else "estimated"
                text += f", known to {result.hypergrad_error:.1e} ({sure})"
            lines.append(f"- {text}.")
        else:
            lines.append(f"- **{escaped(_WHAT[stage.name])}**: the search has not ended by itself; see the notes.")
    return [*lines, ""]


def _last(report: TuneReport) -> Stage:
    return report.stages[-1]


def _model(report: TuneReport, name: str) -> FittedModel:
    return next(model for model in report.models if model.name == name)
