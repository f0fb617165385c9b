"""What a folder of results holds besides the runs: figures, tables and the report."""

from __future__ import annotations

import importlib
import io
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from nbo._page import html
from nbo._versions import machine, package_versions
from nbo.experiments import _figures, _report, _tables
from nbo.experiments.catalogue import FIGURES

if TYPE_CHECKING:
    from nbo.experiments._store import Store
    from nbo.experiments.reproduction import Reproduction

_PACKAGES = ("nbo", "numpy", "scipy", "numba", "scikit-learn", "matplotlib", "loky", "jax", "jaxlib")


def require_packages() -> None:
    """Raise before the work if something is missing that is needed after it."""
    for name in ("matplotlib", "markdown", "loky"):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ImportError(f'experiments need {name}: pip install "nbo[reproduce]"') from error


def write(found: Reproduction, store: Store, *, jobs: int, seconds: float) -> None:
    """Write figures, tables and the report of what is complete.

    Parameters
    ----------
    found : Reproduction
        The results.
    store : Store
        The folder.
    jobs : int
        Processes.
    seconds : float
        Of this command.
    """
    facts = {
        "scale": found.scale,
        "repeats": "each case's own" if found.repeats is None else found.repeats,
        "processes": jobs,
        "wall time of this command": f"{seconds:.0f} s",
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        **machine(),
        **package_versions(_PACKAGES),
    }
    for name, table in _tables.tables(found).items():
        store.write(f"tables/{name}.csv", table.csv())
    drawn, pictures = [], {}
    for layout in FIGURES:
        if (figure := _figures.draw(layout, found)) is not None:
            drawn.append(layout)
            pictures[f"figures/{layout.name}.png"] = _saved(figure.figure, "png")
            store.write(f"figures/{layout.name}.png", pictures[f"figures/{layout.name}.png"])
            store.write(f"figures/{layout.name}.pdf", _saved(figure.figure, "pdf"))
            store.write(f"figures/{layout.name}.csv", _tables.Table(figure.header, figure.rows).csv())
    text = _report.markdown(found, drawn, facts)
    store.write("report.md", text)
    store.write("report.html", html(_report.TITLE, text, pictures))
    store.write_json("machine.json", facts)


def _saved(figure: Any, form: str) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format=form, dpi=150)
    return stream.getvalue()
