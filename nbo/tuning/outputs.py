"""The result folder: written whole or not at all, and never over somebody's files."""

from __future__ import annotations

import csv
import importlib.metadata
import json
import math
import os
import platform
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from nbo.tuning.models import FittedModel
from nbo.tuning.report import TuneReport
from nbo.tuning.stages import Stage

_PACKAGES = ("nbo", "numpy", "scipy", "numba", "scikit-learn", "matplotlib")
_COMMAND = "nbo tune"


class FolderError(ValueError):
    """A result folder that may not be written; the message is one line."""


def check_folder(folder: Path, force: bool) -> None:
    """Refuse a folder that writing would harm.

    Parameters
    ----------
    folder : Path
        Where the results shall go.
    force : bool
        Whether an empty folder or one with an earlier result may be replaced.

    Raises
    ------
    FolderError
        If `folder` exists and may not be replaced, or cannot be created.
    """
    if os.path.lexists(folder):
        if not folder.is_dir():
            raise FolderError(f"{folder} exists and is no folder")
        if not force:
            raise FolderError(f"{folder} exists; choose another folder with --out, or replace it with --force")
        if folder.resolve() == Path.cwd():
            raise FolderError(f"{folder} is the current folder and cannot be replaced")
        if any(folder.iterdir()) and not _holds_result(folder):
            raise FolderError(f"{folder} holds no earlier result of {_COMMAND}; --force will not replace it")
    ground = next(parent for parent in folder.resolve().parents if parent.exists())
    if not ground.is_dir() or not os.access(ground, os.W_OK):
        raise FolderError(f"{folder} cannot be created: {ground} is no writable folder")


def write(report: TuneReport, folder: Path, *, force: bool = False) -> list[str]:
    """Write a report into a folder of its own.

    The files are made in a temporary folder beside the target, which is then renamed, so an interruption
    leaves no half result.

    Parameters
    ----------
    report : TuneReport
        What to write.
    folder : Path
        The target; its parents are created.
    force : bool
        As in :func:`check_folder`.

    Returns
    -------
    list of str
        One line on each thing that was left out, such as pictures without matplotlib.

    Raises
    ------
    FolderError
        As in :func:`check_folder`.
    """
    check_folder(folder, force)
    target = folder.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as scratch:
        fresh = Path(scratch) / "new"
        fresh.mkdir()
        omitted = _write_files(report, fresh)
        _exchange(fresh, target, Path(scratch) / "old")
    return omitted


def _exchange(fresh: Path, target: Path, old: Path) -> None:
    """Put `fresh` in the place of `target`, which goes to `old` and comes back on failure."""
    replaces = target.exists()
    if replaces:
        target.rename(old)
    try:
        fresh.rename(target)
    except BaseException:
        if replaces:
            old.rename(target)
        raise


def _write_files(report: TuneReport, folder: Path) -> list[str]:
    text = json.dumps(_plain(summary(report)), indent=2, ensure_ascii=False, allow_nan=False)
    (folder / "result.json").write_text(text + "\n", encoding="utf-8")
    if not report.stages:
        return ["left out: model.npz, history.csv and the pictures, since no stage was finished"]
    np.savez_compressed(folder / "model.npz", **model_arrays(report))
    _write_history(report, folder / "history.csv")
    return _write_pictures(report, folder)


def _write_pictures(report: TuneReport, folder: Path) -> list[str]:
    from nbo.tuning import pictures

    omitted: dict[str, list[str]] = {}
    for name, draw in (("convergence.png", pictures.convergence_figure), ("penalties.png", pictures.penalties_figure)):
        try:
            draw(report).savefig(folder / name, dpi=150)
        except (ImportError, pictures.NothingToDraw) as error:
            omitted.setdefault(str(error), []).append(name)
    return [f"left out: {' and '.join(names)}, since {reason}" for reason, names in omitted.items()]


def summary(report: TuneReport) -> dict[str, Any]:
    """Return what ``result.json`` holds.

    Parameters
    ----------
    report : TuneReport
        The report.

    Returns
    -------
    dict
        Settings, versions, data, metrics, counts, statuses and the verdict.
    """
    data = report.dataset
    return {
        "command": _COMMAND,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "interrupted": report.interrupted,
        "verdict": report.verdict,
        "settings": report.settings,
        "data": {
            "name": data.name,
            "source": data.source,
            "description": data.description,
            "rows": data.A.shape[0],
            "features": data.A.shape[1],
            "split": report.data.sizes(),
            "labels": {"-1": data.label_names[0], "+1": data.label_names[1]},
        },
        "models": [_model_summary(model) for model in report.models],
        "stages": [_stage_summary(stage) for stage in report.stages],
        "notes": report.notes,
        "compile_seconds": report.compile_seconds,
        "versions": _versions(),
        "platform": platform.platform(),
    }


def _model_summary(model: FittedModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "validation_loss": model.validation_loss,
        "test_loss": model.test_loss,
        "test_accuracy": model.accuracy,
        "seconds": model.seconds,
        "log_penalties": {"smallest": model.log_penalties.min(), "largest": model.log_penalties.max()},
        "counts": None if model.counts is None else model.counts.as_dict(),
    }


def _stage_summary(stage: Stage) -> dict[str, Any]:
    """The stage alone; its three kinds of counts and those of the stages before it make up its model's."""
    result = stage.result
    return {
        "name": stage.name,
        "success": result.success,
        "status": str(result.status),
        "iterations": result.nit,
        "value": result.fun,
        "hypergradient_norm": result.hypergrad_norm,
        "lower_gradient_norm": result.lower_grad_norm,
        "adjoint_residual_norm": result.adjoint_residual,
        "solver_seconds": result.seconds,
        "solver_counts": result.counts.as_dict(),
        "evaluation_counts": result.evaluation_counts.as_dict(),
        "fit_counts": stage.fit_counts.as_dict(),
    }


def model_arrays(report: TuneReport) -> dict[str, Any]:
    """Return what ``model.npz`` holds.

    Parameters
    ----------
    report : TuneReport
        A report with at least one finished stage.

    Returns
    -------
    dict
        The model of the last stage; a key that :class:`FittedModel` has as an attribute is the same here.
        ``a @ coefficients + intercept`` is the score of an unscaled row a, and a positive one means the second
        of ``label_names``. ``scaled_coefficients`` and ``scaled_intercept`` act on ``(a - center) / scale``.
    """
    model, data = report.stages[-1].model, report.data
    return {
        "name": np.array(model.name),
        "coefficients": model.coefficients,
        "intercept": np.array(model.intercept),
        "scaled_coefficients": model.scaled_coefficients,
        "scaled_intercept": np.array(model.scaled_intercept),
        "center": data.center,
        "scale": data.scale,
        "log_penalties": model.log_penalties,
        "C": np.exp(-model.log_penalties) / len(data.train.b),
        "feature_names": np.array(report.dataset.feature_names),
        "label_names": np.array(report.dataset.label_names),
    }


def _write_history(report: TuneReport, path: Path) -> None:
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        keys = list(report.stages[0].result.history)
        writer.writerow(["stage", *keys])
        for stage in report.stages:
            for row in zip(*(stage.result.history[key] for key in keys), strict=True):
                writer.writerow([stage.name, *row])


def _holds_result(folder: Path) -> bool:
    try:
        found = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("command") == _COMMAND


def _versions() -> dict[str, str | None]:
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return versions


def _plain(value: Any) -> Any:
    """The same structure in JSON's types; numbers that are not finite become null."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    return value if value is None or isinstance(value, str) else str(value)
