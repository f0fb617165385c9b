"""The documentation pages: their examples run, no code stands outside an example, and nothing public is missing."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import nbo

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = sorted(DOCS.glob("*.rst"))

#: A code block: its language, and its body with the empty lines in it.
BLOCK = re.compile(r"^\.\. code-block:: (\w+)\n(?: +:.*\n)*\n((?:(?: +.*)?\n)+)", re.MULTILINE)


def test_there_are_pages():
    assert {"index", "quickstart", "defining_a_problem", "methods", "tune"} <= {page.stem for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_run(page, run_page):
    shown = page.read_text(encoding="utf-8").count(">>> ")
    assert (run_page(page) > 0) == (shown > 0)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_is_written_as_examples(page):
    for language, body in BLOCK.findall(page.read_text(encoding="utf-8")):
        assert language in {"python", "console"}
        if language == "python":
            assert body.lstrip().startswith(">>> "), body


def test_every_method_is_described():
    page = (DOCS / "methods.rst").read_text(encoding="utf-8")
    assert [name for name in nbo.methods() if name != "auto" and f"``{name}``" not in page] == []


def test_every_public_name_is_in_the_reference():
    entries = set(re.findall(r"^   ([\w.]+)$", (DOCS / "api.rst").read_text(encoding="utf-8"), re.MULTILINE))
    public = {name for name in nbo.__all__ if not inspect.ismodule(getattr(nbo, name))}
    assert public - entries == set()
