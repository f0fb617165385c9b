"""The table of methods and the list of their sources, which the documentation makes from the registry."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from docutils import nodes
from docutils.core import publish_doctree

import nbo

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture
def method_table() -> ModuleType:
    """The extension of the documentation that makes the table of methods."""
    spec = importlib.util.spec_from_file_location("method_table", DOCS / "_extensions" / "method_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cells(text):
    """The texts of the cells of a table, row by row."""
    tree = publish_doctree(text, settings_overrides={"halt_level": 2, "report_level": 2})
    (table,) = tree.findall(nodes.table)
    return [[entry.astext() for entry in row.findall(nodes.entry)] for row in table.findall(nodes.row)]


def test_the_table_of_methods_is_complete_and_true(method_table):
    head, *rows = cells(method_table.table())
    assert head == list(method_table.COLUMNS)
    assert [row[0] for row in rows] == list(nbo.methods())
    for name, kind, oracles, upper, inner, memory, cost, source in rows:
        info = nbo.methods()[name]
        noted = f"{info.cost}; {info.cost_note}" if info.cost_note else info.cost
        assert kind == info.kind and cost == noted and memory == (info.storage or "a few vectors")
        assert oracles.removesuffix(" (first order)") == ", ".join(info.oracles)
        assert oracles.endswith(" (first order)") == info.first_order
        assert upper.startswith("found" if info.solver.chooses_step else "given")
        assert ("else given" in upper) == (kind == "deterministic or on batches")
        assert inner in {"found", "none", "has a default"}
        assert info.source.startswith(f"{source}, ")
    inner_steps = {row[0]: row[4] for row in rows}
    assert (inner_steps["nbo-gd"], inner_steps["nbo-chebyshev"], inner_steps["nbo-cg"]) == ("found", "found", "none")


def test_the_list_of_sources_names_every_method_once(method_table):
    text = method_table.sources()
    named = re.findall(r"``(.+?)``", text)
    assert sorted(named) == sorted(name for name in nbo.methods())
    tree = publish_doctree(text, settings_overrides={"halt_level": 2, "report_level": 2})
    assert len(list(tree.findall(nodes.list_item))) == len({info.source for info in nbo.methods().values()})


def test_the_comparison_has_no_table_typed_by_hand():
    page = (DOCS / "comparison.rst").read_text(encoding="utf-8")
    assert re.findall(r"^\.\. methods:: (\w+)$", page, re.MULTILINE) == ["table", "sources"]
    assert "list-table" not in page
