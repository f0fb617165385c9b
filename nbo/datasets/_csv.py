"""CSV files: a header, numbers, and one column of labels."""

from __future__ import annotations

import csv
import difflib
import io
import re
from pathlib import Path
from typing import BinaryIO

import numpy as np

from nbo.datasets._formats import Table
from nbo.datasets.errors import DataError, TargetError, listing, one_line


def read_csv(stream: BinaryIO, path: Path, target: str | None) -> Table:
    """Read a CSV file whose column `target` holds the labels."""
    header, rows, lines = _csv_cells(stream, path)
    if target is None:
        raise TargetError(f"{path} is a CSV file: say which column holds its labels, out of {listing(header)}")
    if target not in header:
        near = difflib.get_close_matches(target, header, n=1)
        hint = f", did you mean {near[0]!r}?" if near else ""
        raise TargetError(f"{path} has no column {target!r}{hint}; its columns are {listing(header)}")
    goal = header.index(target)
    features = [j for j in range(len(header)) if j != goal]
    A = np.empty((len(rows), len(features)))
    for column, j in enumerate(features):
        A[:, column] = _csv_numbers([row[j] for row in rows], header[j], lines, path)
    return Table(
        A,
        _csv_labels([row[goal].strip() for row in rows], target, lines, path),
        [header[j] for j in features],
    )


def _csv_cells(stream: BinaryIO, path: Path) -> tuple[list[str], list[list[str]], list[int]]:
    """Header, rows of cells, and the line on which each row ends."""
    try:
        text = io.StringIO(stream.read().decode("utf-8-sig"), newline="")
        reader = csv.reader(text, delimiter=_separator(text), strict=True)
        header = [cell.strip() for cell in next(reader, [])]
        numbered = [(row, reader.line_num) for row in reader if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is no well-formed CSV file in UTF-8: {one_line(error)}") from error
    if not header or not numbered:
        raise DataError(f"{path} holds no rows below a header")
    if all(_is_number(cell) for cell in header):
        raise DataError(f"{path} starts with a row of numbers; expected a header with the names of the columns")
    _check_names(header, path)
    for number, (row, line) in enumerate(numbered, start=1):
        if len(row) != len(header):
            raise DataError(f"{path}: row {number} (line {line}) has {len(row)} cells; the header has {len(header)}")
    return header, [row for row, _ in numbered], [line for _, line in numbered]


def _check_names(header: list[str], path: Path) -> None:
    for number, name in enumerate(header, start=1):
        if not name or re.fullmatch(r"Unnamed: \d+", name):
            found = f"is called {name!r}, as pandas calls one without a name" if name else "has no name in the header"
            raise DataError(
                f"{path}: column {number} of {len(header)} {found}; expected a name for every column (a saved row "
                "index is no feature: leave it out, in pandas by to_csv(..., index=False))"
            )
        if header.count(name) > 1:
            raise DataError(f"{path} has more than one column called {name!r}")


def _separator(text: io.StringIO) -> str:
    """The comma, semicolon or tab that splits the header into most cells; the comma if all do equally."""

    def n_cells(separator: str) -> int:
        text.seek(0)
        try:
            return len(next(csv.reader(text, delimiter=separator, strict=True), []))
        except csv.Error:  # a quoted cell does not end where this separator would have it end
            return 0

    best = max(",;\t", key=n_cells)
    text.seek(0)
    return best


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _csv_numbers(cells: list[str], name: str, lines: list[int], path: Path) -> np.ndarray:
    try:
        return np.array(cells, dtype=float)
    except ValueError:
        row, cell = next((i, c.strip()) for i, c in enumerate(cells) if not _is_number(c))
    found = f"{cell!r}, which is no number" if cell else "an empty cell (a missing value)"
    if _is_number(cell.replace(",", ".")):
        found += " (decimals need a point)"
    raise DataError(f"{path}: column {name!r} holds {found} in row {row + 1} (line {lines[row]})")


def _csv_labels(cells: list[str], target: str, lines: list[int], path: Path) -> np.ndarray:
    if "" in cells:
        row = cells.index("")
        raise DataError(
            f"{path}: column {target!r} holds an empty cell (a missing value) in row {row + 1} (line {lines[row]})"
        )
    return np.array(cells, dtype=float if all(map(_is_number, cells)) else str)
