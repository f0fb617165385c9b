"""The file format of checkpoints: a tree of Python values <-> one npz file.

A checkpoint is a zip archive of ``.npy`` members, which `numpy.load` opens without pickle. The first member,
``nbo_checkpoint``, is JSON in UTF-8 as a uint8 array, ``{"format": ..., "version": ..., "tree": ...}``; the other
ones are the arrays, ``array_0``, ``array_1``, ... In the tree, None, booleans, texts, finite floats, integers below
2^53 and lists stand for themselves. Everything else is an object with one entry:

=============================================  ====================================================
``{"int": "0x..."}``                           a larger integer, hexadecimal
``{"float": "nan"}``                           a float that is not finite: ``nan``, ``inf``, ``-inf``
``{"tuple": [...]}``, ``{"dict": {...}}``      containers
``{"array": i}``                               the member ``array_i``
``{"scalar": [dtype, bytes]}``                 a NumPy scalar, its bytes hexadecimal
``{"object": [class, {field: value, ...}]}``   a dataclass, NamedTuple or StrEnum of this library
=============================================  ====================================================
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from nbo import _storable

Array = npt.NDArray[Any]

#: What the header calls the format.
FORMAT = "nbo checkpoint"
#: The version of the format that is written, and the only one that is read.
VERSION = 3

_HEADER = "nbo_checkpoint"
#: The first bytes of a checkpoint of any version: section 4.3.7 of the zip specification has a signature, 22 bytes of
#: details, the length of the member's name, that of what follows it, and the name. Details and last length are zeros
#: here.
_START = b"PK\x03\x04" + bytes(22) + len(f"{_HEADER}.npy").to_bytes(2, "little") + bytes(2) + f"{_HEADER}.npy".encode()
#: Kinds of dtype that are stored: Booleans and numbers.
_KINDS = "biufc"
#: Integers below it survive every JSON reader.
_LARGE = 2**53


class CheckpointError(ValueError):
    """A file is no checkpoint, is damaged, or was written by another version of the library."""


def write(path: str | os.PathLike[str], tree: dict[str, Any]) -> None:
    """Write a tree of values to one file, completely or not at all.

    The tree may hold dicts with texts as keys, lists, tuples, arrays and NumPy scalars of numbers or booleans, bool,
    int, float, str, None, and instances of the library's own storable classes. An array that occurs several times
    (the same object) is stored once, and is one object again when read. Other shared objects, and arrays that only
    share memory, come back as separate equal copies.

    Parameters
    ----------
    path : str or path-like
        The file to write, used as it is: no extension is added. A checkpoint that is there is replaced and its
        permissions are kept; through a symbolic link, the file it points to.
    tree : dict
        What to store.

    Raises
    ------
    TypeError
        If something in the tree cannot be stored; the message names its place.
    ValueError
        If the tree contains itself or is nested too deeply.
    FileExistsError
        If there is a file that is no checkpoint.
    OSError
        If the file cannot be written: `FileNotFoundError` without its folder, `IsADirectoryError` if it is a folder,
        `PermissionError` where writing is not allowed, and so on. What was there before stays as it was.
    """
    target = _checked_path(path)
    if type(tree) is not dict:
        raise TypeError(f"tree: found {_type_name(tree)}; expected a dict")
    encoder = _Encoder()
    try:
        content = {"format": FORMAT, "version": VERSION, "tree": encoder.encode(tree, "")}
        text = json.dumps(content, ensure_ascii=False, allow_nan=False)
    except RecursionError as error:
        raise ValueError("tree: contains itself or is nested too deeply; expected a finite, shallow tree") from error
    header = np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8)
    _require_replaceable(target)
    try:
        with _replacing(Path(os.path.realpath(target))) as stream:
            _write_members(stream, {_HEADER: header} | {f"array_{i}": a for i, a in enumerate(encoder.arrays)})
    except OSError as error:
        reason = f"path: {str(target)!r} cannot be written ({error.strerror or error})"
        raise OSError(error.errno, reason) from error


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the tree of values that `write` stored; nothing in the file is executed or unpickled.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    dict
        The tree, with values of the same types. Arrays have the dtype and shape that they had, and are writable,
        C-contiguous and of native byte order.

    Raises
    ------
    CheckpointError
        If the file is no checkpoint, is damaged, or is of another version.
    OSError
        If the file cannot be opened: `FileNotFoundError` if there is none, and so on.
    """
    source = _checked_path(path)
    with open(source, "rb") as stream:
        start = stream.read(len(_START))
        if not _is_checkpoint(start):
            begins = f"begins with {start!r}" if start else "is empty"
            begins = "is another npz or zip archive" if start.startswith(_START[:4]) else begins
            raise CheckpointError(
                f"path: {str(source)!r} is no checkpoint (it {begins}); give a file that this library wrote"
            )
        try:
            return _read_tree(stream)
        except _OtherVersionError as error:
            raise CheckpointError(f"path: {str(source)!r} {error}") from None
        except MemoryError:
            raise
        except Exception as error:  # a damaged file makes the parsers below raise almost anything
            raise CheckpointError(
                f"path: {str(source)!r} is not readable as a checkpoint ({type(error).__name__}: {error}); it is "
                "damaged or from another version of the library: take an intact copy, or the version that wrote it"
            ) from error


class _OtherVersionError(ValueError):
    """The file is intact, but of another version of the format."""


class _Encoder:
    """Turns a tree into JSON values, and collects its arrays."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []  # keeps them alive, so that an id stays that of one array
        self._numbers: dict[int, int] = {}

    def encode(self, value: Any, place: str) -> Any:
        """Return the JSON value for `value`, which stands at `place` in the tree."""
        kind = type(value)
        if value is None or kind in (bool, str):
            return value
        if kind is int:
            return value if abs(value) < _LARGE else {"int": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind in (list, tuple):
            items = [self.encode(item, f"{place}[{i}]") for i, item in enumerate(value)]
            return items if kind is list else {"tuple": items}
        if kind is dict:
            return {"dict": {_checked_key(key, place): self.encode(value[key], _below(place, key)) for key in value}}
        if kind is np.ndarray and value.dtype.kind in _KINDS:
            return {"array": self._number_of(value)}
        if isinstance(value, np.generic) and value.dtype.kind in _KINDS:
            return {"scalar": [value.dtype.str, value.tobytes().hex()]}
        if _storable.is_storable(kind):
            fields = _storable.fields_of(value).items()
            return {"object": [kind.__name__, {name: self.encode(item, f"{place}.{name}") for name, item in fields}]}
        raise TypeError(f"{place}: found {_type_name(value)}, which cannot be stored in a checkpoint")

    def _number_of(self, array: Array) -> int:
        """Return the number of an array, a new one at its first occurrence."""
        number = self._numbers.setdefault(id(array), len(self.arrays))
        if number == len(self.arrays):
            self.arrays.append(array)
        return number


class _Decoder:
    """Turns JSON values into the tree again, with the arrays of an archive."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._arrays: dict[int, Array] = {}

    def decode(self, node: Any) -> Any:
        """Return the value that a JSON value stands for."""
        if isinstance(node, list):
            return [self.decode(item) for item in node]
        if not isinstance(node, dict):
            return node
        ((tag, content),) = node.items()
        match tag:
            case "int":
                return int(content, 16)
            case "float":
                return float(content)
            case "tuple":
                return tuple(self.decode(content))
            case "dict":
                return self._entries(content)
            case "array":
                return self._array(content)
            case "scalar":
                return _scalar(*content)
            case "object":
                name, fields = content
                return _storable.rebuild(name, self._entries(fields))
        raise ValueError(f"unknown kind of value {tag!r}")

    def _entries(self, nodes: Mapping[str, Any]) -> dict[str, Any]:
        return {key: self.decode(node) for key, node in nodes.items()}

    def _array(self, number: int) -> Array:
        """Return an array; the same object each time."""
        if number not in self._arrays:
            self._arrays[number] = _read_member(self._archive, f"array_{number}")
        return self._arrays[number]


def _scalar(dtype: str, content: str) -> Any:
    (scalar,) = np.frombuffer(bytes.fromhex(content), dtype=np.dtype(dtype))
    return scalar


def _checked_key(key: Any, place: str) -> str:
    if type(key) is not str:
        raise TypeError(f"{place or 'tree'}: found a key {key!r} of type {_type_name(key)}; expected a str")
    return key


def _below(place: str, key: str) -> str:
    """Return the place of an entry of a dict; entries of the tree itself are called by their name."""
    if not place:
        return key if key.isidentifier() else f"tree[{key!r}]"
    return f"{place}[{key!r}]"


def _type_name(value: Any) -> str:
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"{name} of dtype {value.dtype}" if isinstance(value, np.ndarray) else name


def _checked_path(path: Any) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path: found {path!r} ({_type_name(path)}); expected a str or a path-like object")
    return Path(path)


def _require_replaceable(target: Path) -> None:
    """Raise unless there is nothing at `target`, in an existing folder, or a checkpoint."""
    if os.path.isdir(target):
        raise IsADirectoryError(f"path: {str(target)!r} is a folder; expected the path of a file")
    if not os.path.isdir(folder := os.path.dirname(os.path.realpath(target))):
        raise FileNotFoundError(
            f"path: {str(target)!r} cannot be written: there is no folder {folder!r}; create it first"
        )
    if not os.path.exists(target):
        return
    if os.path.isfile(target):  # opening a pipe would wait
        with open(target, "rb") as stream:
            if _is_checkpoint(stream.read(len(_START))):
                return
    raise FileExistsError(
        f"path: {str(target)!r} exists and is no checkpoint, so it is not replaced; give another path or remove it"
    )


def _is_checkpoint(start: bytes) -> bool:
    """True for the first bytes of a checkpoint, be it damaged further on."""
    return all(start[part] == _START[part] for part in (slice(4), slice(26, 28), slice(30, None)))


@contextlib.contextmanager
def _replacing(target: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that takes the place of `target` at the end, and is removed if anything goes wrong."""
    # An ordinary open, unlike the tempfile module, gives a new file the permissions that the umask asks for.
    temporary = target.parent / f".nbo-{secrets.token_hex(8)}.tmp"
    try:
        with open(temporary, "xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _write_members(stream: BinaryIO, arrays: Mapping[str, Array]) -> None:
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in arrays.items():
            plain = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, plain, allow_pickle=False)


def _read_tree(stream: BinaryIO) -> dict[str, Any]:
    """Return the tree in an archive whose checksums are right."""
    with zipfile.ZipFile(stream) as archive:
        if (damaged := archive.testzip()) is not None:
            raise ValueError(f"wrong checksum of {damaged}")
        text = _read_member(archive, _HEADER).tobytes().decode("utf-8", "surrogatepass")
        header = json.loads(text)
        if header["format"] != FORMAT:
            raise ValueError(f"found the format {header['format']!r}; expected {FORMAT!r}")
        if header["version"] != VERSION:
            raise _OtherVersionError(
                f"is of version {header['version']} of the format, and this version of the library reads version "
                f"{VERSION}; use the version that wrote it"
            )
        tree = _Decoder(archive).decode(header["tree"])
    if not isinstance(tree, dict):
        raise ValueError(f"found a {_type_name(tree)} for the tree; expected a dict")
    return tree


def _read_member(archive: zipfile.ZipFile, name: str) -> Array:
    """Return an array that owns its memory, in C order and native byte order."""
    with archive.open(f"{name}.npy") as member:
        array = np.lib.format.read_array(member, allow_pickle=False)
    if array.dtype.kind not in _KINDS:
        raise ValueError(f"found a {_type_name(array)} in {name}; expected numbers or booleans")
    return np.require(array, dtype=array.dtype.newbyteorder("="), requirements=["C", "W"])
