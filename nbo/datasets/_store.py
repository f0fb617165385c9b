"""The data home: where the files of data sets are kept, and how they get there from a local folder.

A file gets to its place whole and checked, or not at all: everything is made in a temporary folder inside the data
home and moved by :func:`os.replace`, which other processes see as one step.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np

from nbo.datasets._readers import read_content
from nbo.datasets._registry import DataFile, Entry, Origin
from nbo.datasets.errors import DataError, one_line

_PACKINGS = {".bz2": bz2, ".gz": gzip}


def data_home(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder that holds the files of data sets.

    Parameters
    ----------
    folder : str or path, optional
        The folder itself. By default the environment variable ``NBO_DATA`` names it, and without that it is
        ``nbo/data`` in the user's folder for caches: ``$XDG_CACHE_HOME`` or ``~/.cache`` on Linux,
        ``~/Library/Caches`` on macOS, ``%LOCALAPPDATA%`` on Windows.

    Returns
    -------
    Path
        The folder, which need not exist.
    """
    if folder is not None and not isinstance(folder, (str, os.PathLike)):
        raise TypeError(f"data_home: found {type(folder).__name__}; expected a path")
    if chosen := os.fspath(folder) if folder is not None else os.environ.get("NBO_DATA"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        caches = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        caches = "~/Library/Caches"
    else:
        caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(caches).expanduser() / "nbo" / "data"


def mirror() -> Path | None:
    """The folder that ``NBO_DATA_MIRROR`` names, if it is set."""
    named = os.environ.get("NBO_DATA_MIRROR")
    return Path(named).expanduser() if named else None


def origin_in(home: Path, entry: Entry) -> Origin | None:
    """The first origin of a set whose files are all in the data home; they are not opened."""
    complete = (origin for origin in entry.origins if all((home / file.path).is_file() for file in origin.files()))
    return next(complete, None)


def fill_from(folder: Path, home: Path, entry: Entry) -> Origin:
    """Copy the files of a set from a local folder into the data home.

    Parameters
    ----------
    folder : Path
        Has the layout of a data home, or holds the files themselves. They may be packed or not.
    home : Path
        The data home.
    entry : Entry
        The set.

    Returns
    -------
    Origin
        The one that was found in the folder.

    Raises
    ------
    FileNotFoundError
        If the folder lacks files of every origin.
    DataError
        If a file is not what it should be; the data home is as before.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is no folder; expected one with data files")
    for origin in entry.origins:
        sources = {file: find(folder, file) for file in origin.files()}
        if None not in sources.values():
            with staging(home) as stage:
                for file, source in sources.items():
                    assert source is not None
                    keep(source, file, stage)
                install(stage, home, origin)
            return origin
    wanted = " or ".join(" + ".join(file.path for file in origin.files()) for origin in entry.origins)
    raise FileNotFoundError(f"{folder} does not hold {wanted}")


def find(folder: Path, file: DataFile) -> Path | None:
    """Where a file is in a folder that has the layout of a data home, or holds the file itself."""
    places = (folder / Path(file.path).parent, folder)
    paths = (place / form for place in places for form in file.forms)
    return next((path for path in paths if path.is_file()), None)


@contextlib.contextmanager
def staging(home: Path) -> Iterator[Path]:
    """A temporary folder inside the data home, which is made if need be."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        made = tempfile.TemporaryDirectory(prefix=".fetch-", dir=home)
    except OSError as error:
        raise DataError(
            f"the data home {home} (NBO_DATA, or data_home) cannot be written: {one_line(error)}; expected a folder"
        ) from error
    with made as stage:
        yield Path(stage)


def keep(source: Path, file: DataFile, stage: Path) -> None:
    """Put a file into the staging folder in the form that the data home keeps, if its digest is right.

    Parameters
    ----------
    source : Path
        The file in any of its forms; it is only read.
    file : DataFile
        What it should be.
    stage : Path
        The staging folder.

    Raises
    ------
    DataError
        If the file cannot be unpacked, or has another digest than the published one.
    """
    target = stage / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    published = source.name == file.raw if file.raw else True
    if file.digest and published:
        _check_digest(source, file.digest, None if file.raw else _PACKINGS.get(source.suffix))
    if file.raw and published:
        _convert_covtype(source, target)
    elif source.suffix == target.suffix:
        shutil.copyfile(source, target)
    else:
        target.write_bytes(_PACKINGS[target.suffix].compress(source.read_bytes()))


def install(stage: Path, home: Path, origin: Origin) -> None:
    """Check the files of an origin by reading them all, then move them from the staging folder into the data home."""
    for content in origin.parts.values():
        try:
            read_content(stage, content)
        except DataError as error:
            raise DataError(str(error).replace(f"{stage}{os.sep}", "")) from error
    for file in origin.files():
        target = home / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.replace(stage / file.path, target)
        except OSError as error:
            raise DataError(f"{target} cannot be replaced: {one_line(error)}; expected a file or nothing") from error


def _check_digest(source: Path, digest: str, packing: ModuleType | None) -> None:
    algorithm, wanted = digest.split(":")
    try:
        content = source.read_bytes()
        found = hashlib.new(algorithm, packing.decompress(content) if packing else content).hexdigest()
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataError(f"{source.name} cannot be unpacked: {one_line(error)}") from error
    if found != wanted:
        raise DataError(f"{source.name} has the {algorithm.upper()} sum {found}; the published one is {wanted}")


def _convert_covtype(source: Path, target: Path) -> None:
    """Convert the published text file of Covtype, lines of 54 whole numbers and a label, to an NPZ file."""
    try:
        table = np.loadtxt(source, delimiter=",", dtype=np.int16)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise DataError(f"{source.name} is no packed table of whole numbers: {one_line(error)}") from error
    if table.ndim != 2:
        raise DataError(f"{source.name} holds no table of rows and columns")
    np.savez_compressed(target, X=table[:, :-1], y=table[:, -1].astype(np.uint8))
