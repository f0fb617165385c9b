"""What the scripts of this folder share: they bring the files of a data set into the data home.

The files come from their public addresses, or from a local folder. A file reaches its place in the data home only
whole and checked; an interruption leaves it as it was.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import urlsplit

from nbo.datasets import DataError, data_home, shown
from nbo.datasets._readers import read_content
from nbo.datasets._registry import ENTRIES, DataFile, Entry, Origin
from nbo.datasets._store import fill_from, install, keep, mirror, origin_in, staging

DONE, FAILED, INTERRUPTED = 0, 1, 130

_BLOCK = 1 << 16

#: Answers of a server that may be better at the next try: timeout, unfit range, too many requests, server errors.
_PASSING = frozenset({408, 416, 429, *range(500, 600)})


class Patience(NamedTuple):
    """How long to wait for a server.

    Attributes
    ----------
    timeout : float
        Seconds without any data after which a connection is given up.
    tries : int
        How often to connect for one file.
    pause : float
        Seconds before the second try; every further pause is twice as long.
    """

    timeout: float = 30.0
    tries: int = 5
    pause: float = 1.0


PATIENCE = Patience()


class FetchError(Exception):
    """A data set that could not be had; the message is one line."""


class _BrokenError(Exception):
    """A try that failed, after which another one may succeed."""


def main(name: str, argv: Sequence[str] | None = None) -> int:
    """Fetch a data set as the command line says.

    Parameters
    ----------
    name : str
        The data set.
    argv : sequence of str, optional
        Arguments, by default those of the process.

    Returns
    -------
    int
        The exit status: 0 if the set is there, 1 if not, 130 after Ctrl-C. Wrong arguments exit with 2.
    """
    parser = _parser(name)
    arguments = parser.parse_args(argv)
    if arguments.folder is not None and not arguments.folder.is_dir():
        parser.error(f"--from: {arguments.folder} is no folder")
    folder = arguments.folder or mirror()
    home = data_home(arguments.data_home)
    try:
        for path in fetch(name, home, folder, force=arguments.force, base_url=arguments.base_url):
            print(path)
    except (FetchError, DataError, OSError) as error:
        _tell(f"fetch_{name}: {error}")
        return FAILED
    except KeyboardInterrupt:
        _tell(f"fetch_{name}: interrupted; {home} is as it was")
        return INTERRUPTED
    return DONE


def _parser(name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"fetch_{name}.py",
        description=f"Fetch the data set {name}: {ENTRIES[name].summary}.",
        epilog="exit status: 0 if the set is there, 1 if it could not be had, 2 for wrong arguments, 130 after Ctrl-C",
    )
    parser.add_argument(
        "--from",
        dest="folder",
        metavar="DIR",
        type=Path,
        help="take the files from this folder and not from the network (default: NBO_DATA_MIRROR, if it is set)",
    )
    parser.add_argument(
        "--data-home",
        metavar="DIR",
        type=Path,
        help="where to put the files (default: NBO_DATA, or nbo/data in your folder for caches)",
    )
    parser.add_argument("--force", action="store_true", help="fetch the set even if it is there and sound")
    parser.add_argument("--base-url", default="", help=argparse.SUPPRESS)
    return parser


def fetch(
    name: str,
    home: Path,
    folder: Path | None = None,
    *,
    force: bool = False,
    base_url: str = "",
    patience: Patience = PATIENCE,
) -> list[Path]:
    """Bring the files of a data set into the data home.

    Parameters
    ----------
    name : str
        The data set.
    home : Path
        The data home, which is made if need be.
    folder : Path, optional
        Where to take the files from; by default from their public addresses.
    force : bool
        Whether to fetch a set that is there and sound.
    base_url : str
        The address of a server that has the files under their names, in place of the public addresses.
    patience : Patience
        With servers.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    FetchError, DataError, OSError
        If the set could not be had; the data home is then as before.
    """
    entry = ENTRIES[name]
    origin = None if force else _sound(home, entry)
    if origin is not None:
        _tell(f"{name} is there and sound")
    elif folder is not None:
        origin = fill_from(folder, home, entry)
    else:
        origin = _from_the_web(name, home, base_url, patience)
    if origin.note:
        _tell(f"{name}: {origin.note}")
    return [home / file.path for file in origin.files()]


def _sound(home: Path, entry: Entry) -> Origin | None:
    """The origin whose files are in the data home, if all of them can be read."""
    origin = origin_in(home, entry)
    try:
        for content in origin.parts.values() if origin else ():
            read_content(home, content)
    except DataError as error:
        _tell(f"fetching again what is damaged: {error}")
        return None
    return origin


def _from_the_web(name: str, home: Path, base_url: str, patience: Patience) -> Origin:
    origin = next((origin for origin in ENTRIES[name].origins if all(file.url for file in origin.files())), None)
    if origin is None:
        raise FetchError(f"{name} has no public address; take it from a folder that has it, by --from DIR")
    with staging(home) as stage:
        for file in origin.files():
            published = file.raw or PurePosixPath(urlsplit(file.url).path).name
            fresh = stage / "download" / published
            fresh.parent.mkdir(exist_ok=True)
            with open(fresh, "wb") as stream:
                download(f"{base_url.rstrip('/')}/{published}" if base_url else file.url, stream, patience)
            _keep(fresh, file, stage)
        install(stage, home, origin)
    return origin


def _keep(fresh: Path, file: DataFile, stage: Path) -> None:
    keep(fresh, file, stage)
    fresh.unlink()


# --- downloads ----------------------------------------------------------------------------------------------


def download(url: str, stream: BinaryIO, patience: Patience = PATIENCE) -> None:
    """Write what is at an address to a stream.

    A transfer that breaks goes on where it stopped if the server offers that and says that the file is the same;
    if not, it starts from the beginning.

    Parameters
    ----------
    url : str
        The address.
    stream : binary file
        Empty, open for writing, seekable.
    patience : Patience
        With the server.

    Raises
    ------
    FetchError
        If the server refuses, or no try succeeds.
    """
    transfer = _Transfer(url, stream, patience.timeout)
    for attempt in range(1, patience.tries + 1):
        try:
            with contextlib.closing(_Progress(url)) as progress:
                transfer.run(progress)
            return
        except _BrokenError as error:
            if attempt == patience.tries:
                raise FetchError(
                    f"{url}: {error}, at the last of {attempt} tries; where there is no network, use --from DIR or "
                    "NBO_DATA_MIRROR"
                ) from error
            pause = patience.pause * 2 ** (attempt - 1)
            _tell(f"{url}: {error}; trying again in {pause:g} s")
            time.sleep(pause)


class _Transfer:
    """A file on its way, over as many connections as it takes."""

    def __init__(self, url: str, stream: BinaryIO, timeout: float) -> None:
        self.url, self.stream, self.timeout = url, stream, timeout
        self.validator = ""  # identifies the version of the file that the bytes so far belong to

    def run(self, progress: _Progress) -> None:
        """Open a connection and receive what is missing."""
        if self.stream.tell() and not self.validator:
            self.restart()
        with self.answer() as response:
            self.resume(response)
            length = response.headers.get("Content-Length")
            total = self.stream.tell() + int(length) if length else None
            for block in _blocks(response):
                self.stream.write(block)
                progress.show(self.stream.tell(), total)
        if total is not None and self.stream.tell() != total:
            raise _BrokenError(f"the connection ended after {self.stream.tell():,} of {total:,} bytes")

    def restart(self) -> None:
        """Forget what has been received."""
        self.stream.seek(0)
        self.stream.truncate()
        self.validator = ""

    def answer(self) -> Any:
        """Send the request and return the response."""
        request = urllib.request.Request(self.url, headers={"User-Agent": "nbo-data-scripts"})
        if received := self.stream.tell():
            request.add_header("Range", f"bytes={received}-")
            request.add_header("If-Range", self.validator)
        try:
            return urllib.request.urlopen(request, timeout=self.timeout)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416:  # the file has become shorter than what is here
                self.restart()
            if error.code in _PASSING:
                raise _BrokenError(f"the server answers {error.code} {error.reason}") from error
            raise FetchError(f"{self.url}: the server answers {error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise FetchError(f"{self.url}: {reason}") from error
            raise _BrokenError(f"no connection ({reason or type(error).__name__})") from error

    def resume(self, response: Any) -> None:
        """Stand where the answer starts: after what is here, or at the beginning."""
        received, validator = self.stream.tell(), _validator(response.headers)
        if response.status == 206:
            start = response.headers.get("Content-Range", "")
            if not start.startswith(f"bytes {received}-") or validator not in ("", self.validator):
                self.restart()
                raise _BrokenError("the server goes on with another part or version of the file")
            return
        self.restart()
        self.validator = validator


def _validator(headers: Any) -> str:
    """What the server tells two versions of a file apart by: a strong ETag, or the time of the last change."""
    tag = str(headers.get("ETag", ""))
    return tag if tag and not tag.startswith("W/") else str(headers.get("Last-Modified", ""))


def _blocks(response: Any) -> Iterator[bytes]:
    while True:
        try:
            block = response.read(_BLOCK)
        except (OSError, http.client.HTTPException) as error:
            raise _BrokenError(f"the connection broke ({error or type(error).__name__})") from error
        if not block:
            return
        yield block


class _Progress:
    """The state of a transfer, on the standard error output: a bar if tqdm is there, or else a line for every tenth."""

    def __init__(self, url: str) -> None:
        self.label, self.tenths = PurePosixPath(urlsplit(url).path).name, 0
        self.bar: Any = None
        self.tqdm: Any = None
        with contextlib.suppress(ImportError):
            from tqdm import tqdm

            self.tqdm = tqdm

    def show(self, received: int, total: int | None) -> None:
        """Say how many bytes are here."""
        if self.tqdm is not None:
            if self.bar is None:
                self.bar = self.tqdm(desc=self.label, total=total, unit="B", unit_scale=True, leave=False)
            self.bar.update(received - self.bar.n)
        elif total and 10 * received // total > self.tenths:
            self.tenths = 10 * received // total
            _tell(f"{self.label}: {received:,} of {total:,} bytes")

    def close(self) -> None:
        """Take the bar away."""
        if self.bar is not None:
            self.bar.close()


def _tell(message: str) -> None:
    """Print one line to the standard error output."""
    print(shown(message, 1000), file=sys.stderr, flush=True)
