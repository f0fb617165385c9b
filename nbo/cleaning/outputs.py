"""What the result folder of ``nbo clean`` holds."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from nbo import plotting
from nbo._result_folder import PAGE, ResultFolder, write_page, write_result
from nbo.cleaning import CleanedLabels
from nbo.cleaning.report import markdown, verdict

_COMMAND = "nbo clean"

#: Every file that a result folder may hold, besides the one of settings.
FILES = ("weights.csv", "suspects.csv", "weights.png", PAGE)


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


def write_files(found: CleanedLabels, folder: Path, top: int | None = None) -> list[str]:
    """Write all files.

    Parameters
    ----------
    found : CleanedLabels
        The results.
    folder : Path
        An empty folder.
    top : int, optional
        How many rows ``suspects.csv`` ranks; by default those of weight below 1/2.

    Returns
    -------
    list of str
        One line on each thing that was left out, such as pictures without matplotlib.
    """
    write_result(folder, _COMMAND, summary(found))
    suspect = set(found.suspects.tolist())
    _write_table(
        folder / "weights.csv",
        ("row", "label", "weight", "suspect"),
        (
            (i + 1, label, f"{weight:.6g}", "yes" if i in suspect else "no")
            for i, (label, weight) in enumerate(zip(found.table.labels, found.weights, strict=True))
        ),
    )
    ranked = found.suspects if top is None else found.order[:top]
    _write_table(
        folder / "suspects.csv",
        ("rank", "row", "label", "weight", "suggested_label", "probability"),
        (
            (rank + 1, i + 1, found.table.labels[i], f"{found.weights[i]:.6g}", found.suggested[i],
             f"{found.probability[i]:.4g}")
            for rank, i in enumerate(ranked.tolist())
        ),
    )  # fmt: skip
    return _write_report(found, folder)


def _write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with open(path, "w", newline="", encoding="utf-8", errors="backslashreplace") as stream:
        writer = csv.writer(stream)
        writer.writerow(header)
        writer.writerows(rows)


def _write_report(found: CleanedLabels, folder: Path) -> list[str]:
    omitted, pictures = [], {}
    try:
        figure = plotting.off_screen_figure(6.4, 3.6)
        plotting.weights(found.weights, figure.subplots())
        figure.savefig(folder / "weights.png", dpi=150)
        pictures["weights.png"] = (folder / "weights.png").read_bytes()
    except ImportError as error:
        omitted.append(f"left out: weights.png, since {error}")
    title = f"Labels of {found.table.name}"
    return [*omitted, *write_page(folder, title, markdown(found, bool(pictures)), pictures)]


def summary(found: CleanedLabels) -> dict[str, Any]:
    """Return what ``result.json`` says of a run.

    Parameters
    ----------
    found : CleanedLabels
        The results.

    Returns
    -------
    dict
        Settings, data and numbers.
    """
    report, table = found.cleaner.report_, found.table
    return {
        "verdict": verdict(found),
        "settings": found.settings,
        "data": {
            "name": table.name,
            "source": table.source,
            "description": table.description,
            "rows": table.A.shape[0],
            "features": table.A.shape[1],
            "labels": table.label_names,
            "trusted": None if found.trusted is None else found.trusted.source,
        },
        "report": {name: getattr(report, name) for name in report.__dataclass_fields__},
        "notes": found.notes,
    }
