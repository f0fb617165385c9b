"""The documentation pages: their examples run, no code stands outside an example, and nothing public is missing."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import nbo
import nbo.experiments
from nbo.benchmarks import BENCHMARKS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.rst"))

#: A code block: its language, and its body with the empty lines in it.
BLOCK = re.compile(r"^\.\. code-block:: (\w+)\n(?: +:.*\n)*\n((?:(?: +.*)?\n)+)", re.MULTILINE)


def test_there_are_pages():
    names = {page.stem for page in PAGES}
    assert {"index", "quickstart", "defining_a_problem", "methods", "corrections", "accuracy", "tune"} <= names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_run(page, run_page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # an example may write files
    shown = page.read_text(encoding="utf-8").count(">>> ")
    assert (run_page(page) > 0) == (shown > 0)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_is_written_as_examples(page):
    for language, body in BLOCK.findall(page.read_text(encoding="utf-8")):
        assert language in {"python", "console"}
        if language == "python":
            assert body.lstrip().startswith(">>> "), body


def test_every_method_is_described():
    pages = "".join((DOCS / f"{page}.rst").read_text(encoding="utf-8") for page in ("methods", "baselines"))
    assert [name for name in nbo.methods() if f"``{name}``" not in pages] == []


def test_every_correction_that_docstrings_cite_is_on_the_page():
    page = (DOCS / "corrections.rst").read_text(encoding="utf-8")
    labels = set(re.findall(r"^\.\. _errata-([A-Z]\d+):\n\n\1: ", page, re.MULTILINE))
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "nbo").rglob("*.py")]
    lists = [found for source in sources for found in re.findall(r"errata ([A-Z]\d+(?:,\s+[A-Z]\d+)*)", source)]
    cited = set(re.findall(r"[A-Z]\d+", " ".join(lists)))
    assert {"A1", "A2", "E6"} <= cited
    assert cited - labels == set()


def test_every_benchmark_is_described():
    page = (DOCS / "benchmarks.rst").read_text(encoding="utf-8")
    assert [name for name in BENCHMARKS if f"nbo bench {name}\n" not in page] == []


def test_every_status_is_described():
    page = (DOCS / "defining_a_problem.rst").read_text(encoding="utf-8")
    assert [status for status in nbo.Status if f"   * - ``{status}``\n" not in page] == []


def test_every_public_name_is_in_the_reference():
    entries = set(re.findall(r"^   ([\w.]+)$", (DOCS / "api.rst").read_text(encoding="utf-8"), re.MULTILINE))
    public = {name for name in nbo.__all__ if not inspect.ismodule(getattr(nbo, name))}
    public |= {f"theory.{name}" for name in nbo.theory.__all__}
    public |= {f"experiments.{name}" for name in nbo.experiments.__all__ if not name.isupper()}
    assert public - entries == set()
