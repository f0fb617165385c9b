"""The folder of an experiment: what is finished in it, and files that appear whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from nbo._files import FolderError, os_errors, plain, write_whole
from nbo.experiments._tasks import Task

#: The file that says that a folder is one of ours, and with what settings.
MARKER = "reproduce.json"

_COMMAND = "nbo reproduce"


class Store:
    """The outcomes of tasks in a folder, a JSON file each, and other files.

    Parameters
    ----------
    folder : Path
        Where; it is made if it does not exist.
    settings : dict
        What all outcomes in the folder have in common, such as the scale.
    resume : bool
        Whether the folder may be there already, with the same settings.

    Raises
    ------
    FolderError
        If the folder may not be used or cannot be written.
    """

    def __init__(self, folder: Path, settings: dict[str, Any], *, resume: bool) -> None:
        self.folder = folder
        with os_errors(f"{folder} cannot be used"):
            if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
                self._check(settings, resume)
            (folder / "runs").mkdir(parents=True, exist_ok=True)
            self.write_json(MARKER, {"command": _COMMAND, "settings": settings})

    def _check(self, settings: dict[str, Any], resume: bool) -> None:
        """Refuse a folder that is not ours, not to be touched, or has other settings."""
        if not self.folder.is_dir():
            raise FolderError(f"{self.folder} exists and is no folder")
        if not (found := _settings_of(self.folder / MARKER)):
            raise FolderError(f"{self.folder} exists and was not made by {_COMMAND}; choose another folder with --out")
        if not resume:
            raise FolderError(f"{self.folder} exists; go on in it with --resume, or choose another folder with --out")
        for name, value in settings.items():
            if name not in found or found[name] != value:
                before, now = _option(name, found.get(name)), _option(name, value)
                raise FolderError(
                    f"{self.folder} was begun with {before}, found {now}; expected the same, or another "
                    "folder with --out"
                )

    def load(self, task: Task) -> dict[str, Any] | None:
        """Return the outcome of a task, or None if there is none, or none that is whole and of this very task."""
        try:
            found = json.loads(self._path(task).read_text(encoding="utf-8"))
            same = found["task"] == json.loads(json.dumps(plain({"kind": task.kind, **task.described()})))
            return found if same and task.accepts(found) else None
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
            return None

    def save(self, task: Task, outcome: dict[str, Any]) -> None:
        """Keep the outcome of a task, with what the task was."""
        self.write_json(f"runs/{task.key}.json", {"task": {"kind": task.kind, **task.described()}, **outcome})

    def _path(self, task: Task) -> Path:
        return self.folder / "runs" / f"{task.key}.json"

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Write a JSON file, in which numbers that are infinite or NaN are texts."""
        self.write(name, json.dumps(plain(content), indent=1, allow_nan=False) + "\n")

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file whole or not at all; the one before it is replaced."""
        path = self.folder / name
        with os_errors(f"{path} cannot be written"):
            path.parent.mkdir(exist_ok=True)
            write_whole(path, content.encode() if isinstance(content, str) else content)


def _option(name: str, value: Any) -> str:
    """Return how a setting is given on the command line."""
    if name == "scale":
        return f"--{value}"
    return f"no --{name}" if value is None else f"--{name} {value}"


def _settings_of(marker: Path) -> dict[str, Any]:
    """Return the settings that a marker holds, empty if it is none of ours."""
    try:
        found = json.loads(marker.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    ours = isinstance(found, dict) and found.get("command") == _COMMAND
    return dict(found["settings"]) if ours and isinstance(found.get("settings"), dict) else {}
