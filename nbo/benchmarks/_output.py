"""Tables of a benchmark, printed and in files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from nbo._files import write_whole
from nbo._page import in_markdown
from nbo.experiments._tables import Table
from nbo.tuning.report import aligned


class Section(NamedTuple):
    """A table with its title.

    Attributes
    ----------
    title : str
        One line.
    header : tuple of str
        Names of columns.
    rows : list of tuple of str
        Cells.
    """

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def show(self) -> None:
        """Print the table, if it has rows."""
        if self.rows:
            lines = aligned([list(row) for row in (self.header, *self.rows)])
            print("\n".join([f"\n{self.title}", *(f"  {line}" for line in lines)]), flush=True)


def write(folder: Path, records: str, table: Table, sections: Sequence[Section]) -> None:
    """Write what was measured and what it says.

    Parameters
    ----------
    folder : Path
        Where; made if it is not there.
    records : str
        The name of the CSV file.
    table : Table
        Its content.
    sections : sequence of Section
        The content of ``summary.md``.
    """
    shown = [section for section in sections if section.rows]
    lines = [line for s in shown for line in (f"## {s.title}", "", *in_markdown(s.header, s.rows))]
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / records, table.csv().encode())
    write_whole(folder / "summary.md", "\n".join(lines).encode())
