"""Fetch a binary classification set of the LIBSVM collection, for ``nbo tune`` and the benchmarks.

    python data_scripts/fetch_libsvm.py a9a
    python data_scripts/fetch_libsvm.py ijcnn1 --from /some/folder --to data

The file comes from https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/, or from a folder that holds it
already (``--from``, or the environment variable ``NBO_DATA_MIRROR``). It is kept only if it has the published
number of rows and columns.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from nbo.datasets import DataError, load

HOME = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"

#: Seconds without an answer after which a download is given up.
TIMEOUT = 60.0


class Published(NamedTuple):
    """What the collection says about a set."""

    file: str
    rows: int
    columns: int


SETS = {
    "a9a": Published("a9a", 32_561, 123),
    "a9a.t": Published("a9a.t", 16_281, 123),
    "ijcnn1": Published("ijcnn1.bz2", 49_990, 22),
    "ijcnn1.t": Published("ijcnn1.t.bz2", 91_701, 22),
    "mushrooms": Published("mushrooms", 8_124, 112),
    "phishing": Published("phishing", 11_055, 68),
    "w8a": Published("w8a", 49_749, 300),
}


class FetchError(Exception):
    """A set that could not be had; the message is one line."""


def main(argv: Sequence[str] | None = None) -> int:
    """Fetch one set and return the exit status: 0, or 2 if it could not be had."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", metavar="NAME", choices=sorted(SETS), help=", ".join(sorted(SETS)))
    parser.add_argument("--from", metavar="DIR", dest="mirror", type=Path, help="folder to search instead of the web")
    parser.add_argument("--to", metavar="DIR", type=Path, default=Path("data"), help="where to put it (default: data)")
    arguments = parser.parse_args(argv)
    mirror = arguments.mirror or (Path(found) if (found := os.environ.get("NBO_DATA_MIRROR")) else None)
    try:
        path = fetch(arguments.name, arguments.to, mirror)
    except (FetchError, DataError, OSError) as error:
        print(f"fetch_libsvm: {arguments.name}: {error}", file=sys.stderr)
        return 2
    print(path)
    return 0


def fetch(name: str, folder: Path, mirror: Path | None) -> Path:
    """Put the set `name` into `folder`, unless it is there, and return its path."""
    published = SETS[name]
    source = _in_mirror(name, mirror) if mirror is not None else None
    target = folder / (published.file if source is None else source.name)
    if target.exists():
        _check(target, published)
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
        fresh = Path(scratch) / target.name
        if source is None:
            with urllib.request.urlopen(HOME + published.file, timeout=TIMEOUT) as stream, open(fresh, "wb") as file:
                shutil.copyfileobj(stream, file)
        else:
            shutil.copyfile(source, fresh)
        _check(fresh, published)
        fresh.rename(target)
    return target


def _in_mirror(name: str, mirror: Path) -> Path:
    if not mirror.is_dir():
        raise FetchError(f"{mirror} is no folder")
    for wanted in (name, f"{name}.bz2"):
        if found := sorted(path for path in mirror.rglob(wanted) if path.is_file()):
            return found[0]
    raise FetchError(f"{mirror} holds neither {name} nor {name}.bz2")


def _check(path: Path, published: Published) -> None:
    shape = load(path).A.shape
    if shape != (published.rows, published.columns):
        raise FetchError(
            f"{path.name} has {shape[0]:,} rows and {shape[1]} columns; "
            f"published are {published.rows:,} and {published.columns}"
        )


if __name__ == "__main__":
    sys.exit(main())
