"""The directive ``methods``: what the registry says about all methods, as a table or as a list of sources."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import nbo

COLUMNS = {
    "Method": 9, "Kind": 9, "Oracles": 13, "Upper step": 6, "Inner step": 6, "Memory": 12, "Cost of an iteration": 30,
    "Source": 15,
}  # fmt: skip

#: A source: authors, year, and what they wrote.
SOURCE = re.compile(r"(?P<authors>.+?, \d{4}), (?P<title>.+)")

#: Options that are steps of the lower level.
INNER_STEPS = ("inner_step_size", "spectrum")


def table() -> str:
    """Return the table of all methods in reStructuredText."""
    widths = " ".join(map(str, COLUMNS.values()))
    rows = [list(COLUMNS), *(row(info) for name, info in nbo.methods().items())]
    lines = [f"   {'* -' if i == 0 else '  -'} {cell}".rstrip() for cells in rows for i, cell in enumerate(cells)]
    return "\n".join([".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", "", *lines, ""])


def row(info: nbo.MethodInfo) -> list[str]:
    """Return the cells of one method."""
    order = " (first order)" if info.first_order else ""
    return [
        f"``{info.name}``",
        info.kind,
        ", ".join(f"``{oracle}``" for oracle in info.oracles) + order,
        upper_step(info),
        inner_step(info),
        info.storage or "a few vectors",
        ", ".join(f"``{term}``" for term in re.split(r", (?![^()]*\))", info.cost))
        + (f"; {info.cost_note}" if info.cost_note else ""),
        SOURCE.fullmatch(info.source)["authors"],
    ]


def upper_step(info: nbo.MethodInfo) -> str:
    """Return whether the upper step has to be given."""
    if not info.solver.chooses_step:
        return "given"
    return "found" if info.kind == "deterministic" else "found over all samples, else given"


def inner_step(info: nbo.MethodInfo) -> str:
    """Return whether a step of the lower level has to be given."""
    steps = [info.options[option] for option in INNER_STEPS if option in info.options]
    if not steps:
        return "none"
    return "found" if None in steps else "has a default"


def sources() -> str:
    """Return the list of sources with their methods in reStructuredText."""
    found: dict[str, list[str]] = {}
    for name, info in nbo.methods().items():
        found.setdefault(info.source, []).append(f"``{name}``")
    entries = []
    for source, names in found.items():
        authors, title = SOURCE.fullmatch(source).group("authors", "title")
        entries.append(f"- {authors}, *{title}*: {', '.join(names)}")
    return "\n".join([*entries, ""])


class Methods(SphinxDirective):
    """Puts the table or the list where it stands."""

    required_arguments = 1
    contents = {"table": table, "sources": sources}  # noqa: RUF012 - as docutils declares its attributes

    def run(self) -> list[nodes.Node]:
        """Return the nodes of the text."""
        if self.arguments[0] not in self.contents:
            raise self.error(f"found {self.arguments[0]!r}; expected one of {', '.join(self.contents)}")
        return self.parse_text_to_nodes(self.contents[self.arguments[0]]())


def setup(app: Any) -> dict[str, Any]:
    """Register the directive; the page is read anew in each build, since the registry may have changed."""
    app.add_directive("methods", Methods)
    app.connect("env-get-outdated", lambda app, env, *changes: ["comparison"] if "comparison" in env.all_docs else [])
    return {"parallel_read_safe": True}
