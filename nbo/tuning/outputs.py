"""The result folder: found to work before the work, written whole or not at all, never over somebody's files."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import platform
import shutil
import tempfile
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from nbo._files import FolderError, os_errors
from nbo._interrupts import held
from nbo._versions import package_versions
from nbo.datasets import shown
from nbo.tuning.models import FittedModel
from nbo.tuning.report import TuneReport
from nbo.tuning.stages import Stage

_PACKAGES = ("nbo", "numpy", "scipy", "numba", "scikit-learn", "matplotlib")
_COMMAND = "nbo tune"


#: Every file that a result folder may hold.
FILES = ("result.json", "model.npz", "history.csv", "convergence.png", "penalties.png")


class ResultFolder:
    """A place for results, in use from before the work to its end; a context manager.

    On entry a temporary folder is made beside the target, so that a place where nothing can be written is found
    before the work. On exit that folder, and the parents that were created for it, are removed unless they hold
    results.

    Parameters
    ----------
    folder : Path
        The target; missing parents are created.
    force : bool
        Whether an empty folder may be replaced, or one that holds the files of an earlier result and nothing else.

    Raises
    ------
    FolderError
        On entry, if `folder` exists and may not be replaced, or cannot be created.
    """

    def __init__(self, folder: Path, *, force: bool = False) -> None:
        self.folder, self.force = folder, force
        self._cleanup = contextlib.ExitStack()

    def __enter__(self) -> ResultFolder:
        with os_errors(f"{self.folder} cannot be created"), contextlib.ExitStack() as stack:
            with held():
                self._target = _replaceable(self.folder, self.force)
                _make_parents(self._target, stack)
                scratch = Path(tempfile.mkdtemp(prefix=".nbo-", dir=self._target.parent))
                stack.callback(shutil.rmtree, scratch, ignore_errors=True)
                self._fresh, self._old = scratch / "new" / self._target.name, scratch / "old"
                self._fresh.mkdir(parents=True)  # under its final name, which may be too long
            self._cleanup = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        with held():
            self._cleanup.close()

    def write(self, report: TuneReport) -> list[str]:
        """Write a report.

        Parameters
        ----------
        report : TuneReport
            What to write.

        Returns
        -------
        list of str
            One line on each thing that was left out, such as pictures without matplotlib.

        Raises
        ------
        FolderError
            If the files could not be written, or the target was changed in the meantime. Finished files
            then stay in the temporary folder, which the message names.
        """
        with os_errors("the results were not written"):
            omitted = _write_files(report, self._fresh)
        try:
            with os_errors(f"{self.folder} cannot be created"):
                _replaceable(self.folder, self.force)
                _exchange(self._fresh, self._target, self._old)
        except FolderError as error:
            self._cleanup.pop_all()  # what is finished must not be lost
            raise FolderError(f"{error}; the results are in {self._fresh}") from error
        self._cleanup.close()
        return omitted


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
    with ResultFolder(folder, force=force) as place:
        return place.write(report)


def _replaceable(folder: Path, force: bool) -> Path:
    """Refuse a folder that writing would harm; return its path without links."""
    target = Path(os.path.realpath(folder))
    if os.path.lexists(folder):
        if not folder.is_dir():
            raise FolderError(f"{folder} exists and is no folder")
        if not force:
            raise FolderError(f"{folder} exists; choose another folder with --out, or replace it with --force")
        if target == Path.cwd():
            raise FolderError(f"{folder} is the current folder and cannot be replaced")
        if os.path.ismount(target):
            raise FolderError(f"{folder} is a mount point and cannot be replaced; choose a folder in it")
        _refuse_foreign(folder)
    return target


def _refuse_foreign(folder: Path) -> None:
    """Refuse to replace a folder that holds anything but an earlier result."""
    entries = sorted(folder.iterdir())
    foreign = [path.name for path in entries if path.name not in FILES or path.is_symlink() or not path.is_file()]
    if foreign:
        raise FolderError(
            f"{folder} holds {shown(foreign[0], 80)!r}, which {_COMMAND} did not write; --force will not replace it"
        )
    if entries and not _holds_result(folder):
        raise FolderError(f"{folder} holds no earlier result of {_COMMAND}; --force will not replace it")


def _make_parents(target: Path, cleanup: contextlib.ExitStack) -> None:
    """Create missing parents, to be removed again if they are empty in the end."""
    for parent in [parent for parent in reversed(target.parents) if not parent.exists()]:
        parent.mkdir(exist_ok=True)
        cleanup.callback(_remove_if_empty, parent)


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


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
    # Half a surrogate pair, as in a file name that is no text, is escaped as JSON wants it.
    (folder / "result.json").write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
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
            with warnings.catch_warnings():  # a font without a sign of some name shows a box in its place
                warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)
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
        "versions": package_versions(_PACKAGES),
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
        "columns": np.arange(data.n_features) if report.dataset.columns is None else report.dataset.columns,
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
