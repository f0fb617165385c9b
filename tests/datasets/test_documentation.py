"""The page about data sets names them all, with the sizes that the registry has."""

from __future__ import annotations

import re

import pytest

from nbo import datasets
from nbo.datasets._registry import ENTRIES


@pytest.fixture
def table(repository):
    """Name -> the other cells of its row in the table of ``docs/data.rst``."""
    page = (repository / "docs" / "data.rst").read_text(encoding="utf-8")
    rows = re.findall(r"^   \* - ``(\w+)``\n((?:     - .*\n)+)", page, re.MULTILINE)
    return {name: [line.removeprefix("     - ") for line in cells.splitlines()] for name, cells in rows}


def test_every_set_is_in_the_table(table):
    assert list(table) == list(datasets.names())


def test_rows_columns_and_tasks(table):
    for name, (rows, columns, parts, task, _) in table.items():
        entry = ENTRIES[name]
        contents = entry.origins[0].parts.values()
        assert rows == f"{sum(content.rows for content in contents):,}"
        assert {columns} == {f"{content.columns:,}" for content in contents}
        n_classes = len(next(iter(contents)).labels)
        words = {"binary": "binary", "regression": "regression", "multiclass": f"{n_classes} classes"}[entry.task]
        assert task == words + (", sparse" if entry.sparse else "")
        assert parts.endswith(" *s*") == entry.standardize


def test_sizes_of_the_parts_of_built_in_sets(table):
    for name in (name for name, entry in ENTRIES.items() if entry.built_in):
        dataset = datasets.load(name)
        sizes = " / ".join(f"{len(b):,}" for b in (dataset.b, dataset.b_val, dataset.b_test))
        assert table[name][2].removesuffix(" *s*") == sizes
