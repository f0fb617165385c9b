"""What the result folder of ``nbo tune`` holds."""

from __future__ import annotations

import csv
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from nbo._result_folder import PAGE, ResultFolder, write_page, write_result
from nbo.tuning.models import FittedModel
from nbo.tuning.report import TuneReport
from nbo.tuning.stages import Stage, strengths

_COMMAND = "nbo tune"


#: Every file that a result folder may hold.
FILES = ("model.npz", "history.csv", "convergence.png", "penalties.png", PAGE)


def place_for(folder: Path, *, force: bool = False) -> ResultFolder:
    """Return the place for the results of a run.

    Parameters
    ----------
    folder : Path
        The target.
    force : bool
        Whether an earlier result may be replaced.

    Returns
    -------
    ResultFolder
        A context manager.
    """
    return ResultFolder(folder, _COMMAND, FILES, force=force)


def write(report: TuneReport, folder: Path, *, force: bool = False) -> list[str]:
    """Write a report into a folder of its own.

    Parameters
    ----------
    report : TuneReport
        What to write.
    folder : Path
        The target; its parents are created.
    force : bool
        As in :class:`ResultFolder`.

    Returns
    -------
    list of str
        As :meth:`ResultFolder.write`.

    Raises
    ------
    FolderError
        As in :class:`ResultFolder`.
    """
    with place_for(folder, force=force) as place:
        return place.write(lambda folder: write_files(report, folder))


def write_files(report: TuneReport, folder: Path) -> list[str]:
    """Write all files.

    Parameters
    ----------
    report : TuneReport
        What to write.
    folder : Path
        An empty folder.

    Returns
    -------
    list of str
        One line on each thing that was left out, such as pictures without matplotlib.
    """
    write_result(folder, _COMMAND, summary(report))
    if not report.stages:
        return ["left out: model.npz, history.csv, the pictures and report.html, since no search was finished"]
    np.savez_compressed(folder / "model.npz", **model_arrays(report))
    _write_history(report, folder / "history.csv")
    omitted = _write_pictures(report, folder)
    return [*omitted, *_write_page(report, folder)]


def _write_page(report: TuneReport, folder: Path) -> list[str]:
    from nbo.tuning.page import markdown

    names = [name for name in FILES if name.endswith(".png") and (folder / name).exists()]
    pictures = {name: (folder / name).read_bytes() for name in names}
    return write_page(folder, f"Penalties for {report.dataset.name}", markdown(report, names), pictures)


def _write_pictures(report: TuneReport, folder: Path) -> list[str]:
    from nbo.tuning import pictures

    omitted: dict[str, list[str]] = {}
    for name, draw in (("convergence.png", pictures.convergence_figure), ("penalties.png", pictures.penalties_figure)):
        try:
            with warnings.catch_warnings():  # a font without a sign of some name shows a box in its place
                warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
                draw(report).savefig(folder / name, dpi=150)
        except (ImportError, pictures.NothingToDraw) as error:
            omitted.setdefault(str(error), []).append(name)
    return [f"left out: {' and '.join(names)}, since {reason}" for reason, names in omitted.items()]


def summary(report: TuneReport) -> dict[str, Any]:
    """Return what ``result.json`` says of a run.

    Parameters
    ----------
    report : TuneReport
        The report.

    Returns
    -------
    dict
        Settings, data, metrics, counts, statuses and the verdict.
    """
    data = report.dataset
    return {
        "interrupted": report.interrupted,
        "verdict": report.verdict,
        "settings": report.settings,
        "data": {
            "name": data.name,
            "source": data.source,
            "description": data.description,
            "rows": data.A.shape[0],
            "features": data.A.shape[1],
            "task": data.task,
            "labels": data.label_names or None,
            "split": report.data.sizes(),
            "held_out": report.data.criterion,
        },
        "models": [_model_summary(model) for model in report.models],
        "stages": [_stage_summary(stage) for stage in report.stages],
        "notes": report.notes,
        "compile_seconds": report.compile_seconds,
    }


def _model_summary(model: FittedModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "validation_loss": model.validation_loss,
        "test_loss": model.test_loss,
        f"test_{model.score_name.lower()}": model.score,
        "seconds": model.seconds,
        "log_penalties": {"smallest": model.log_penalties.min(), "largest": model.log_penalties.max()},
        "counts": None if model.counts is None else model.counts.as_dict(),
    }


def _stage_summary(stage: Stage) -> dict[str, Any]:
    """The search alone; its three kinds of counts and those of the one before it make up its model's."""
    result = stage.result
    before = stage.report.counts - result.counts - result.evaluation_counts
    return {
        "name": stage.name,
        "success": result.success,
        "status": str(result.status),
        "iterations": result.nit,
        "value": result.fun,
        "held_out_loss": stage.model.validation_loss,
        "hypergradient_norm": result.hypergrad_norm,
        "hypergradient_error": result.hypergrad_error,
        "hypergradient_error_kind": result.hypergrad_error_kind,
        "solver_seconds": result.seconds,
        "first_look_counts": before.as_dict(),
        "solver_counts": result.counts.as_dict(),
        "evaluation_counts": result.evaluation_counts.as_dict(),
    }


def model_arrays(report: TuneReport) -> dict[str, Any]:
    """Return what ``model.npz`` holds.

    Parameters
    ----------
    report : TuneReport
        A report with at least one finished search.

    Returns
    -------
    dict
        The model of the last search; a key that :class:`FittedModel` has as an attribute is the same here.
        ``a @ coefficients.T + intercept`` is what an unscaled row a gives: of two classes the score of the second of
        ``label_names``, of more the scores of all, else the prediction. ``scaled_coefficients`` and
        ``scaled_intercept`` act on ``(a - center) / scale``.
    """
    model, data = report.stages[-1].model, report.data
    strength, values = strengths(report.stages[-1])
    return {
        "name": np.array(model.name),
        "task": np.array(data.task),
        "coefficients": model.coefficients,
        "intercept": model.intercept,
        "scaled_coefficients": model.scaled_coefficients,
        "scaled_intercept": model.scaled_intercept,
        "center": data.center,
        "scale": data.scale,
        "log_penalties": model.log_penalties,
        strength: values,
        "columns": np.arange(data.n_features) if report.dataset.columns is None else report.dataset.columns,
        "feature_names": np.array(report.dataset.feature_names),
        "label_names": np.array(report.dataset.label_names, dtype=str),
    }


def _write_history(report: TuneReport, path: Path) -> None:
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        keys = list(report.stages[0].result.history)
        writer.writerow(["stage", *keys])
        for stage in report.stages:
            for row in zip(*(stage.result.history[key] for key in keys), strict=True):
                writer.writerow([stage.name, *row])
