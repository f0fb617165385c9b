"""README.rst: its example runs, its commands fit the package, and the names in it exist."""

from __future__ import annotations

import pydoc
import re
from importlib.metadata import metadata

import pytest
from docutils.core import publish_doctree


@pytest.fixture
def readme(repository):
    return (repository / "README.rst").read_text(encoding="utf-8")


def test_example_runs(repository, run_page):
    assert run_page(repository / "README.rst") > 0


@pytest.mark.parametrize(
    ("name", "last_step"),
    [("tune", "nbo tune breast_cancer"), ("run-tests", "python -m pytest -n 2 --dist loadfile --no-loadscope-reorder")],
)
def test_command_is_one_line_with_known_extras(readme, name, last_step):
    block = re.search(rf"\.\. code-block:: console\n +:name: {name}\n\n((?: +\S.*\n)+)", readme)
    assert block is not None
    (command,) = block[1].splitlines()
    assert command.endswith(last_step)
    extras = re.search(r"\.\[([a-z,]+)\]", command)
    assert extras is not None
    assert set(extras[1].split(",")) <= set(metadata("nbo").get_all("Provides-Extra"))


def test_commands_do_not_share_an_environment(readme):
    """An installation and an editable one in the same environment leave files in each other's way."""
    first, second = re.findall(r"python3 -m venv (\S+) && \1/bin/python -m pip install ", readme)
    assert first != second


def test_names_exist(readme):
    names = set(re.findall(r"``(nbo(?:\.\w+)+)", readme))
    assert "nbo.minimize" in names
    assert [name for name in sorted(names) if pydoc.locate(name) is None] == []


def test_is_valid_markup(readme):
    document = publish_doctree(readme, settings_overrides={"halt_level": 2, "report_level": 2})  # a warning raises
    assert document.children
