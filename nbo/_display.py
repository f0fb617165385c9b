"""How results print themselves: one attribute a line, long arrays cut short."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np


def lines(values: Mapping[str, Any]) -> str:
    """Return ``name: value`` in lines, with the colons below each other.

    Parameters
    ----------
    values : mapping
        What to show, by name.

    Returns
    -------
    str
        Without a newline at the end.
    """
    width = max(map(len, values))
    with np.printoptions(threshold=6, edgeitems=3, precision=6):
        shown = {name: str(value).replace("\n", "\n" + " " * (width + 2)) for name, value in values.items()}
        return "\n".join(f"{name:>{width}}: {text}" for name, text in shown.items())


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Printed:
    """Prints the fields of a dataclass in lines."""

    def __repr__(self) -> str:
        return lines({field.name: getattr(self, field.name) for field in dataclasses.fields(self)})
