"""How studies are shown and kept: text in columns, and JSON files."""

from __future__ import annotations

import abc
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nbo._files import plain, write_whole
from nbo._validation import flag
from nbo.datasets import shown

#: Between two columns.
_GAP = "  "


class Report(abc.ABC):
    """What a study or a check found: it prints itself and can be kept as JSON."""

    @abc.abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """Return all of it as numbers, texts, lists and dicts.

        Returns
        -------
        dict
            What `save` writes.
        """

    @abc.abstractmethod
    def __str__(self) -> str: ...

    def __repr__(self) -> str:
        return str(self)

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write a JSON file, in which numbers that are infinite or NaN are texts.

        Parameters
        ----------
        path : str or path-like
            Where to; the folder has to exist.
        force : bool
            Whether an existing file may be replaced.

        Raises
        ------
        OSError
            If the file exists already (FileExistsError), or cannot be written.
        """
        save_json(self.as_dict(), path, flag("force", force))


def columns(rows: Sequence[Sequence[object]], left: int = 1) -> str:
    """Align cells below each other, the first `left` columns at their left ends and the others at their right."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    forms = [f"{{:{'<' if i < left else '>'}{width}}}" for i, width in enumerate(widths)]
    return "\n".join(_GAP.join(forms).format(*row).rstrip() for row in texts)


def require_free(path: str | os.PathLike[str], force: bool) -> Path:
    """Return the path of a file that may be written; refuse an existing one unless forced, and a missing folder."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path: found {type(path).__name__}; expected a path")
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"path: found the folder {shown(target)}; expected a file")
    if os.path.lexists(target) and not force:
        raise FileExistsError(f"path: found {shown(target)}, which exists; expected a new file, or force")
    target = target.resolve() if target.is_symlink() else target  # a link stays one
    if target.exists() and not (target.is_file() and os.access(target, os.W_OK)):
        raise PermissionError(f"path: found {shown(target)}, no file that may be written; expected one, or a new name")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"path: found {shown(target)}; expected an existing folder to put it in")
    return target


def save_json(content: dict[str, Any], path: str | os.PathLike[str], force: bool) -> None:
    """Write a file whole or not at all; numbers that are infinite or NaN become texts."""
    target = require_free(path, force)
    text = json.dumps(plain(content), indent=2, allow_nan=False) + "\n"
    write_whole(target, text.encode())
