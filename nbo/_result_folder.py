"""The result folder of a command: tried before the work, written whole or not at all, never over others' files."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nbo._files import FolderError, os_errors, plain
from nbo._interrupts import held
from nbo._page import html
from nbo._versions import package_versions
from nbo.datasets import shown

#: The file that says what a folder holds, and the page for people.
RESULT, PAGE = "result.json", "report.html"

_PACKAGES = ("nbo", "numpy", "scipy", "numba", "scikit-learn", "matplotlib")


class ResultFolder:
    """A place for results, in use from before the work to its end; a context manager.

    On entry a temporary folder is made beside the target, so that a place where nothing can be written is found
    before the work. On exit that folder, and the parents that were created for it, are removed unless they hold
    results.

    Parameters
    ----------
    folder : Path
        The target; missing parents are created.
    command : str
        Who writes, such as ``"nbo tune"``; `RESULT` names it as its ``command``.
    files : sequence of str
        The names of all files that it may write.
    force : bool
        Whether an empty folder may be replaced, or one that holds the files of an earlier result and nothing else.

    Raises
    ------
    FolderError
        On entry, if `folder` exists and may not be replaced, or cannot be created.
    """

    def __init__(self, folder: Path, command: str, files: Sequence[str], *, force: bool = False) -> None:
        self.folder, self._command, self._files, self._force = folder, command, (RESULT, *files), force
        self._cleanup = contextlib.ExitStack()

    def __enter__(self) -> ResultFolder:
        with os_errors(f"{self.folder} cannot be created"), contextlib.ExitStack() as stack:
            with held():
                self._target = self._replaceable()
                _make_parents(self._target, stack)
                scratch = Path(tempfile.mkdtemp(prefix=".nbo-", dir=self._target.parent))
                stack.callback(shutil.rmtree, scratch, ignore_errors=True)
                self._fresh, self._old = scratch / "new" / self._target.name, scratch / "old"
                self._fresh.mkdir(parents=True)  # under its final name, which may be too long
            self._cleanup = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        with held():
            self._cleanup.close()

    def write(self, fill: Callable[[Path], list[str]]) -> list[str]:
        """Write all files, and put them in place together.

        Parameters
        ----------
        fill : callable
            Writes them into a folder, and returns a line on each thing that it left out.

        Returns
        -------
        list of str
            Those lines.

        Raises
        ------
        FolderError
            If the files could not be written, or the target was changed in the meantime. Finished files
            then stay in the temporary folder, which the message names.
        """
        with os_errors("the results were not written"):
            omitted = fill(self._fresh)
        try:
            with os_errors(f"{self.folder} cannot be created"):
                self._replaceable()
                _exchange(self._fresh, self._target, self._old)
        except FolderError as error:
            self._cleanup.pop_all()  # what is finished must not be lost
            raise FolderError(f"{error}; the results are in {self._fresh}") from error
        self._cleanup.close()
        return omitted

    def _replaceable(self) -> Path:
        """Refuse a folder that writing would harm; return its path without links."""
        folder = self.folder
        target = Path(os.path.realpath(folder))
        if os.path.lexists(folder):
            if not folder.is_dir():
                raise FolderError(f"{folder} exists and is no folder")
            if not self._force:
                raise FolderError(f"{folder} exists; choose another folder with --out, or replace it with --force")
            if target == Path.cwd():
                raise FolderError(f"{folder} is the current folder and cannot be replaced")
            if os.path.ismount(target):
                raise FolderError(f"{folder} is a mount point and cannot be replaced; choose a folder in it")
            self._refuse_foreign()
        return target

    def _refuse_foreign(self) -> None:
        """Refuse to replace a folder that holds anything but an earlier result."""
        folder = self.folder
        entries = sorted(folder.iterdir())
        foreign = [
            path.name for path in entries if path.name not in self._files or path.is_symlink() or not path.is_file()
        ]
        if foreign:
            raise FolderError(
                f"{folder} holds {shown(foreign[0], 80)!r}, which {self._command} did not write; --force will not "
                "replace it"
            )
        if entries and not _holds_result(folder, self._command):
            raise FolderError(f"{folder} holds no earlier result of {self._command}; --force will not replace it")


def _make_parents(target: Path, cleanup: contextlib.ExitStack) -> None:
    """Create missing parents, to be removed again if they are empty in the end."""
    for parent in [parent for parent in reversed(target.parents) if not parent.exists()]:
        parent.mkdir(exist_ok=True)
        cleanup.callback(_remove_if_empty, parent)


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _exchange(fresh: Path, target: Path, old: Path) -> None:
    """Put `fresh` in the place of `target`, which goes to `old` and comes back on failure."""
    replaces = target.exists()
    if replaces:
        target.rename(old)
    try:
        fresh.rename(target)
    except BaseException:
        if replaces:
            old.rename(target)
        raise


def _holds_result(folder: Path, command: str) -> bool:
    try:
        found = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("command") == command


def write_result(folder: Path, command: str, content: dict[str, Any]) -> None:
    """Write `RESULT`, with the command before what it found, and the versions behind it.

    Parameters
    ----------
    folder : Path
        Where.
    command : str
        Who writes.
    content : dict
        What it found: dicts, lists, numbers and texts; numbers that are not finite become null, and others texts.
    """
    stamped = {
        "command": command,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        **content,
        "versions": package_versions(_PACKAGES),
        "platform": platform.platform(),
    }
    text = json.dumps(plain(stamped, lambda number: None, str), indent=2, ensure_ascii=False, allow_nan=False)
    # Half a surrogate pair, as in a file name that is no text, is escaped as JSON wants it.
    (folder / RESULT).write_text(text + "\n", encoding="utf-8", errors="backslashreplace")


def write_page(folder: Path, title: str, text: str, pictures: Mapping[str, bytes]) -> list[str]:
    """Write `PAGE`.

    Parameters
    ----------
    folder : Path
        Where.
    title, text : str
        Of the page; the text is Markdown.
    pictures : mapping of str to bytes
        Path in the text -> PNG.

    Returns
    -------
    list of str
        A line that it was left out, where a package is missing; else nothing.
    """
    try:
        page = html(title, text, pictures)
    except ImportError:
        return [f'left out: {PAGE}, since it needs markdown: pip install "nbo[report]"']
    (folder / PAGE).write_text(page, encoding="utf-8", errors="backslashreplace")
    return []
