"""Files that appear whole or not at all, what is said where they cannot, and values in JSON's types."""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nbo.datasets.errors import shown


class FolderError(ValueError):
    """A result folder that cannot or may not be written.

    Parameters
    ----------
    message : str
        What is wrong, which is cut and escaped to one line.
    """

    def __init__(self, message: str) -> None:
        super().__init__(shown(message))


@contextlib.contextmanager
def os_errors(what: str) -> Iterator[None]:
    """Turn an OSError into a FolderError that begins with `what`."""
    try:
        yield
    except OSError as error:
        raise FolderError(f"{what}: {error.strerror or error}") from error


def write_whole(target: Path, content: bytes) -> None:
    """Write a file in an existing folder; one that is there is replaced when the new one is complete."""
    handle, name = tempfile.mkstemp(prefix=".nbo-", dir=target.parent)
    try:
        with open(handle, "wb") as stream:
            stream.write(content)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _umask() -> int:
    """Return what new files may not be allowed; temporary ones are private, whatever it is."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _itself(value: Any) -> Any:
    return value


def plain(value: Any, unbounded: Callable[[float], Any] = str, other: Callable[[Any], Any] = _itself) -> Any:
    """Return a value that JSON has a form for.

    `unbounded` takes the place of numbers that are infinite or NaN, by default texts, and `other` that of what is
    neither structure nor number nor text.
    """
    if isinstance(value, dict):
        return {name: plain(part, unbounded, other) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part, unbounded, other) for part in value]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else unbounded(float(value))
    if isinstance(value, (int, np.integer)):
        return int(value)
    return value if value is None or isinstance(value, str) else other(value)
