"""Sphinx configuration: ``python -m sphinx -W -b html docs docs/_build/html`` builds the pages."""

import re
import sys
from pathlib import Path
from typing import Any

import nbo

sys.path.append(str(Path(__file__).parent / "_extensions"))

project = "nbo"
author = "the nbo developers"
copyright = "2026, the nbo developers"
version = release = nbo.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "method_table",
]
exclude_patterns = ["_build", "examples"]
templates_path = ["_templates"]

html_theme = "pydata_sphinx_theme"
html_title = f"nbo {version}"
html_show_sourcelink = False
html_sidebars = {"*": []}  # the pages of the first level have no others below them
html_theme_options = {"show_toc_level": 2, "secondary_sidebar_items": ["page-toc"]}

autosummary_generate = True
autodoc_typehints = "none"  # the numpydoc sections carry types together with shapes and units
numpydoc_show_class_members = False  # the class template lists the members

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "auto_examples",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "reset_modules": ("matplotlib",),
}


def escape_bars(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Keep the bars of norms such as ``|grad_2 g|`` in docstrings from being read as substitutions."""
    for i, line in enumerate(lines):
        parts = re.split("(``.*?``)", line)
        lines[i] = "".join(part if part.startswith("``") else part.replace("|", r"\|") for part in parts)


def unlink_scikit_learn(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Turn links of inherited scikit-learn docstrings, whose targets are pages of its own, into their text."""
    if not getattr(obj, "__module__", "").startswith("sklearn."):
        return
    for i, line in enumerate(lines):
        lines[i] = re.sub(r":(?:ref|term|func|class|meth):`([^`<]*?)\s*(?:<[^`]*>)?`", r"\1", line)


def setup(app: Any) -> None:
    """Register the hooks, before numpydoc's (of priority 500) splits the docstring into sections."""
    app.connect("autodoc-process-docstring", escape_bars, priority=400)
    app.connect("autodoc-process-docstring", unlink_scikit_learn, priority=400)
