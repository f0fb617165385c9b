"""Checkpoints: what is written comes back exactly, and nothing else is read or overwritten."""

from __future__ import annotations

import dataclasses
import enum
import errno
import io
import json
import math
import os
import struct
import tempfile
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from nbo import _storable, checkpoints
from nbo._storable import storable
from nbo.checkpoints import CheckpointError, read, write


@storable
@dataclasses.dataclass(frozen=True, slots=True)
class SampleRecord:
    first: Any
    second: Any = None
    derived: Any = dataclasses.field(init=False, default=0)


@storable
class SamplePair(NamedTuple):
    left: Any
    right: Any


@storable
class SampleWord(enum.StrEnum):
    GO_ON = "go on"
    STOP = "stop"


@pytest.fixture
def no_classes(monkeypatch):
    """A registry of its own for a test."""
    monkeypatch.setattr(_storable, "_classes", {})


def assert_same(found, expected):
    """Types, bits, shapes, orders of keys and all parts are the same; arrays are plain ones."""
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray):
        native = expected.astype(expected.dtype.newbyteorder("="))
        assert found.dtype == native.dtype and found.dtype.isnative and found.shape == native.shape
        assert found.flags.c_contiguous and found.flags.writeable
        assert found.tobytes() == native.tobytes()
    elif isinstance(expected, np.generic):
        assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes()
    elif type(expected) is float:
        assert math.isnan(found) if math.isnan(expected) else struct.pack("d", found) == struct.pack("d", expected)
    elif type(expected) is dict:
        assert list(found) == list(expected)
        assert_same(list(found.values()), list(expected.values()))
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif type(expected) is SampleRecord:
        for name in ("first", "second", "derived"):
            assert_same(getattr(found, name), getattr(expected, name))
    else:
        assert found == expected


def round_trip(tree):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "state")
        write(path, tree)
        return read(path)


def record(first, second, derived):
    made = SampleRecord(first, second)
    object.__setattr__(made, "derived", derived)
    return made


def strided(array):
    """Views of the same array: as it is, transposed, reversed, every second row."""
    return st.sampled_from(
        [array, array.T, array[..., ::-1] if array.ndim else array, array[::2] if array.ndim else array]
    )


DTYPES = st.one_of(
    npst.boolean_dtypes(),
    npst.integer_dtypes(endianness="?"),
    npst.unsigned_integer_dtypes(endianness="?"),
    npst.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
    npst.complex_number_dtypes(endianness="?", sizes=(64, 128)),
)
ARRAYS = npst.arrays(DTYPES, npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)).flatmap(strided)
SCALARS = npst.arrays(DTYPES, ()).map(lambda array: array[()])
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.sampled_from(SampleWord), ARRAYS, SCALARS
)
TREES = st.recursive(
    LEAVES,
    lambda parts: st.one_of(
        st.lists(parts, max_size=4),
        st.lists(parts, max_size=4).map(tuple),
        st.dictionaries(st.text(), parts, max_size=4),
        st.builds(SamplePair, parts, parts),
        st.builds(record, parts, parts, parts),
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), TREES, max_size=4))
def test_round_trip(tree):
    assert_same(round_trip(tree), tree)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    "size", [2**53 - 1, 2**53, 2**64, 10**5000], ids=["53 bits", "54 bits", "65 bits", "5001 digits"]
)
def test_integers_of_any_size(size, sign):
    assert_same(round_trip({"n": sign * size})["n"], sign * size)


@pytest.mark.parametrize("value", [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, 0.1, 1e22, 1.7976931348623157e308])
def test_floats(value):
    assert_same(round_trip({"value": value})["value"], value)


@pytest.mark.parametrize("text", ["", "\0", "\ud800", "\ud83d\ude00", "\U0001f600", '"\\\n'])
def test_texts_and_keys(text):
    assert_same(round_trip({text: text}), {text: text})


def test_the_payload_of_a_nan_in_an_array_is_kept():
    bits = np.array([0x7FF8000000000ABC, 0xFFF8000000000001], dtype=np.uint64)
    found = round_trip({"a": bits.view(np.float64), "s": bits.view(np.float64)[0]})
    np.testing.assert_array_equal(found["a"].view(np.uint64), bits)
    assert found["s"].tobytes() == bits[:1].tobytes()


def test_long_doubles():
    value = np.longdouble(1) / 3
    found = round_trip({"scalar": value, "array": np.array([value, -value])})
    assert type(found["scalar"]) is np.longdouble and found["scalar"] == value
    assert found["array"].dtype == np.longdouble and list(found["array"]) == [value, -value]


def test_one_array_in_several_places_is_stored_once_and_stays_one_object():
    x, equal = np.arange(3.0), np.arange(3.0)
    with tempfile.TemporaryDirectory() as folder:
        write(f"{folder}/c", {"x": x, "best": SamplePair(x, equal), "list": [x]})
        found = read(f"{folder}/c")
        with np.load(f"{folder}/c", allow_pickle=False) as archive:
            assert archive.files == ["nbo_checkpoint", "array_0", "array_1"]
    assert found["x"] is found["best"].left is found["list"][0]
    assert not np.shares_memory(found["x"], found["best"].right)


def test_the_tree_is_not_changed_and_not_referred_to():
    tree = {"a": np.arange(6)[::2], "f": np.asfortranarray(np.eye(2)), "list": [1]}
    array = tree["a"]
    found = round_trip(tree)
    found["a"][:] = -1
    assert tree["a"] is array and array.tolist() == [0, 2, 4] and tree["f"].flags.f_contiguous
    assert tree["list"] == [1] and not array.flags.c_contiguous


def test_equal_trees_give_equal_files(tmp_path):
    for name in ("a", "b"):
        write(tmp_path / name, {"x": np.arange(3.0), "n": 1})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


class Odd:
    pass


@dataclasses.dataclass(frozen=True)
class Unmarked(SampleRecord):
    pass


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (Odd(), "Odd"),
        (Unmarked(1), "Unmarked"),
        (len, "builtin_function_or_method"),
        ({1}, "set"),
        (b"raw", "bytes"),
        (1j, "complex"),
        (np.array([None]), "numpy.ndarray of dtype object"),
        (np.array(["text"]), "numpy.ndarray of dtype <U4"),
        (np.zeros(1, dtype=[("a", float)]), "numpy.ndarray of dtype"),
        (np.ma.masked_array([1.0], [True]), "MaskedArray of dtype float64"),
        (np.str_("text"), "numpy.str_"),
        (np.datetime64("2020-01-01"), "numpy.datetime64"),
        (enum.IntEnum("Level", "LOW").LOW, "Level"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_stored_is_named_with_its_place(value, kind, tmp_path):
    tree = {"state": record({"upper": SamplePair(0, [1, (2, value)])}, None, None)}
    with pytest.raises(TypeError, match="cannot be stored") as caught:
        write(tmp_path / "c", tree)
    assert str(caught.value).startswith("state.first['upper'].right[1][1]: found ") and kind in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ([1], "tree: found list; expected a dict"),
        ({"a b": Odd()}, r"tree\['a b'\]: found"),
        ({1: 2}, "tree: found a key 1 of type int"),
        ({"a": {SampleWord.STOP: 2}}, "a: found a key .*SampleWord; expected a str"),
    ],
)
def test_trees_that_are_refused(tree, message, tmp_path):
    with pytest.raises(TypeError, match=message):
        write(tmp_path / "c", tree)


def test_a_tree_that_contains_itself(tmp_path):
    tree: dict[str, Any] = {"inner": []}
    tree["inner"].append(tree)
    with pytest.raises(ValueError, match="contains itself"):
        write(tmp_path / "c", tree)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["state", "state.npz", "state.of.run", "ä state", "n" * 255])
@pytest.mark.parametrize("kind", [str, Path])
def test_the_path_is_used_as_it_is(name, kind, tmp_path):
    path = kind(tmp_path / name)
    write(path, {"n": 1})
    write(path, {"n": 2})
    assert read(path) == {"n": 2}
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_a_path_relative_to_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("state", {"n": 1})
    assert read("state") == read(tmp_path / "state") == {"n": 1}


def test_a_symbolic_link_stays_one(tmp_path):
    (tmp_path / "folder").mkdir()
    link = tmp_path / "link"
    link.symlink_to(Path("folder", "state"))
    for n in (1, 2):
        write(link, {"n": n})
        assert link.is_symlink() and read(tmp_path / "folder" / "state") == {"n": n}


@pytest.mark.parametrize("use", [lambda path: write(path, {}), read])
@pytest.mark.parametrize("path", [3, b"state", None])
def test_paths_of_another_type(use, path):
    with pytest.raises(TypeError, match=r"path: found .*; expected a str or a path-like object"):
        use(path)


@pytest.mark.skipif(os.name == "nt", reason="permissions are those of POSIX")
def test_a_new_file_follows_the_umask_and_an_old_one_keeps_its_permissions(tmp_path):
    path = tmp_path / "state"
    before = os.umask(0o027)
    try:
        write(path, {})
        assert path.stat().st_mode & 0o777 == 0o640
        path.chmod(0o600)
        write(path, {"n": 1})
        assert path.stat().st_mode & 0o777 == 0o600 and read(path) == {"n": 1}
    finally:
        os.umask(before)


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("folder", IsADirectoryError, "path: '.*folder' is a folder"),
        ("missing/state", FileNotFoundError, "path: '.*state' .* there is no folder '.*missing'; create it"),
        ("file/state", FileNotFoundError, "path: '.*state' .* there is no folder '.*file'"),
        ("n" * 256, OSError, "path: 'n*.*' cannot be written"),
    ],
)
def test_places_where_nothing_can_be_written(path, error, message, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("text")
    with pytest.raises(error, match=message):
        write(tmp_path / path, {})
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder"]


def raising(error):
    def fail(*arguments, **keywords):
        raise error

    return fail


@pytest.mark.parametrize("where", ["os.replace", "os.fsync", "numpy.lib.format.write_array", "shutil.copymode"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()], ids=["full", "Ctrl-C"])
def test_a_failure_leaves_the_old_file_and_nothing_else(where, error, tmp_path, monkeypatch):
    path = tmp_path / "state"
    write(path, {"n": 1})
    with monkeypatch.context() as patched, pytest.raises(type(error)) as caught:
        patched.setattr(where, raising(error))
        write(path, {"n": 2, "x": np.ones(3)})
    assert list(tmp_path.iterdir()) == [path] and read(path) == {"n": 1}
    if isinstance(error, OSError):
        assert caught.value.errno == errno.ENOSPC and f"path: {str(path)!r} cannot be written" in str(caught.value)


def test_a_folder_without_permission_to_write(tmp_path, monkeypatch):
    refusal = PermissionError(errno.EACCES, "Permission denied", ".nbo-0.tmp")
    monkeypatch.setattr("builtins.open", raising(refusal))
    with pytest.raises(PermissionError, match=r"path: '.*state' cannot be written \(Permission denied\)"):
        write(tmp_path / "state", {})


def test_an_error_of_the_tree_leaves_the_old_file(tmp_path):
    path = tmp_path / "state"
    write(path, {"n": 1})
    with pytest.raises(TypeError):
        write(path, {"n": 2, "odd": Odd()})
    assert list(tmp_path.iterdir()) == [path] and read(path) == {"n": 1}


def npz(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


FOREIGN = {
    "empty": b"",
    "text": b"some text that is longer than what is compared",
    "start of a zip": b"PK\x03\x04",
    "npz": npz(nbo=np.ones(3)),
    "npz with a similar name": npz(**{"nbo_checkpoint.npy": np.ones(3)}),
    "npz with the name in second place": npz(a=np.ones(3), nbo_checkpoint=np.ones(3)),
    "pickle": b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00]\x94(K\x01K\x02e.",
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_file_is_neither_read_nor_replaced(content, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(FileExistsError, match=r"path: '.*file' exists and is no checkpoint, so it is not replaced"):
        write(path, {})
    assert path.read_bytes() == content and list(tmp_path.iterdir()) == [path]
    with pytest.raises(CheckpointError, match=r"path: '.*file' is no checkpoint"):
        read(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileExistsError):
        write(tmp_path / "pipe", {})


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none")


SMALL = {"x": np.arange(3.0), "n": SamplePair(1, "text"), "e": np.empty((0, 2))}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The bytes of a small checkpoint, and a path to write variants of it to."""
    path = tmp_path_factory.mktemp("small") / "state"
    write(path, SMALL)
    return path.read_bytes(), path


@given(st.data())
def test_a_truncated_file_is_refused(small, data):
    content, path = small
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(CheckpointError, match=r"path: '.*state' is no"):
        read(path)


@given(st.data())
def test_a_changed_byte_is_noticed_or_does_no_harm(small, data):
    content, path = small
    place, change = data.draw(st.integers(0, len(content) - 1)), data.draw(st.integers(1, 255))
    path.write_bytes(content[:place] + bytes([content[place] ^ change]) + content[place + 1 :])
    try:
        found = read(path)
    except CheckpointError:
        return
    assert_same(found, SMALL)


def test_a_damaged_checkpoint_is_named_and_may_be_replaced(small, tmp_path):
    content, _ = small
    path = tmp_path / "state"
    path.write_bytes(content.replace(np.arange(3.0).tobytes(), np.ones(3).tobytes()))
    with pytest.raises(CheckpointError, match=r"path: '.*state' is not readable .* take an intact copy") as caught:
        read(path)
    assert isinstance(caught.value, ValueError) and caught.value.__cause__ is not None
    write(path, {"n": 1})
    assert read(path) == {"n": 1}


def forge(path, tree, *, name=checkpoints.FORMAT, version=checkpoints.VERSION, **arrays):
    """Write a file as `write` does, but with any content."""
    text = json.dumps({"format": name, "version": version, "tree": tree}).encode()
    path.write_bytes(npz(nbo_checkpoint=np.frombuffer(text, dtype=np.uint8), **arrays))
    return path


def test_a_forged_file_is_read_if_it_is_right(tmp_path):
    found = read(forge(tmp_path / "c", {"dict": {"a": {"array": 0}}}, array_0=np.asfortranarray(np.eye(2, 3), ">f4")))
    assert_same(found, {"a": np.eye(2, 3, dtype=np.float32)})


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ([1], "found a list for the tree"),
        ({"dict": {"a": {"array": 0}}}, "array_0.npy"),
        ({"dict": {"a": {"scalar": ["<f8", "00"]}}}, "ValueError"),
        ({"dict": {"a": {"scalar": ["O", "00" * 8]}}}, "ValueError"),
        ({"dict": {"a": {"pickle": "00"}}}, "unknown kind of value 'pickle'"),
        ({"dict": {"a": {}}}, "ValueError"),
        ({"dict": {"a": {"int": "0x", "float": "nan"}}}, "ValueError"),
        ({"dict": {"a": {"object": ["Popen", {"args": "ls"}]}}}, "unknown class 'Popen'"),
        ({"dict": {"a": {"object": ["SamplePair", {"left": 1}]}}}, "found left; expected left, right"),
        ({"dict": {"a": {"object": ["SampleRecord", {}]}}}, "found none; expected first, second, derived"),
        ({"dict": {"a": {"object": ["SampleWord", {"value": "walk"}]}}}, "'walk' is not a valid SampleWord"),
    ],
)
def test_content_that_means_nothing(tree, message, tmp_path):
    with pytest.raises(CheckpointError, match=f"path: '.*c' is not readable as a checkpoint .*{message}"):
        read(forge(tmp_path / "c", tree))


def test_a_tree_nested_too_deeply_for_the_reader(tmp_path):
    text = '{"format": "nbo checkpoint", "version": 1, "tree": ' + "[" * 100_000 + "]" * 100_000 + "}"
    (tmp_path / "c").write_bytes(npz(nbo_checkpoint=np.frombuffer(text.encode(), dtype=np.uint8)))
    with pytest.raises(CheckpointError, match="not readable"):
        read(tmp_path / "c")


@pytest.mark.parametrize(
    "header", [np.frombuffer(b"{no json", np.uint8), np.frombuffer(b"\xff\xfe", np.uint8), np.ones(3)]
)
def test_a_header_that_is_no_json(header, tmp_path):
    (tmp_path / "c").write_bytes(npz(nbo_checkpoint=header))
    with pytest.raises(CheckpointError, match="not readable"):
        read(tmp_path / "c")


def test_another_format(tmp_path):
    with pytest.raises(CheckpointError, match="found the format 'mine'; expected 'nbo checkpoint'"):
        read(forge(tmp_path / "c", {"dict": {}}, name="mine"))


def test_another_version(tmp_path):
    path = forge(tmp_path / "c", {"novel": {}}, version=17)
    with pytest.raises(CheckpointError, match=f"path: .* version 17 .* reads version {checkpoints.VERSION};"):
        read(path)
    write(path, {})
    assert read(path) == {}


class Trap:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


def test_no_pickle_is_loaded(tmp_path):
    array = np.array([Trap(tmp_path / "trace")], dtype=object)
    path = forge(tmp_path / "c", {"dict": {"a": {"array": 0}}}, array_0=array)
    with pytest.raises(CheckpointError, match="not readable"):
        read(path)
    assert not (tmp_path / "trace").exists()
    with zipfile.ZipFile(path) as archive:  # the trap works
        np.lib.format.read_array(io.BytesIO(archive.read("array_0.npy")), allow_pickle=True)
    assert (tmp_path / "trace").exists()


def test_an_array_of_texts_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match=r"found a numpy\.ndarray of dtype <U4 in array_0"):
        read(forge(tmp_path / "c", {"dict": {"a": {"array": 0}}}, array_0=np.array(["text"])))


def test_running_out_of_memory_is_not_blamed_on_the_file(small, monkeypatch):
    content, path = small
    path.write_bytes(content)
    monkeypatch.setattr("numpy.lib.format.read_array", raising(MemoryError()))
    with pytest.raises(MemoryError):
        read(path)


def test_a_dataclass_gets_its_fields_as_they_were_and_what_its_constructor_adds(no_classes):
    @storable
    @dataclasses.dataclass
    class Doubling:
        n: int

        def __post_init__(self):
            self.n *= 2
            self.extra = "added"

    found = round_trip({"a": Doubling(4)})["a"]
    assert type(found) is Doubling and found.n == 8 and found.extra == "added"


def test_two_classes_of_one_name_are_refused(no_classes):
    def another():
        class Same(NamedTuple):
            a: int

        return Same

    first = another()
    assert storable(first) is first and storable(first) is first
    with pytest.raises(ValueError, match="storable: found two classes named 'Same'"):
        storable(another())
    assert _storable.is_storable(first)


def test_a_module_that_is_executed_again_replaces_its_classes(no_classes):
    program = "import enum\n@storable\nclass Again(enum.StrEnum):\n    A = 'a'\n"
    first, second = ({"storable": storable, "__name__": "module"} for _ in range(2))
    exec(program, first)
    exec(program, second)
    assert _storable.is_storable(second["Again"]) and not _storable.is_storable(first["Again"])
    with pytest.raises(ValueError, match="two classes"):
        exec(program, {"storable": storable, "__name__": "other"})


class Derived(SamplePair):
    """May hold more than its fields."""


@dataclasses.dataclass
class Unstored:
    a: dataclasses.InitVar[int]


@dataclasses.dataclass(init=False)
class OwnConstructor:
    a: int

    def __init__(self, b):
        self.a = b


class Plain(SampleRecord):
    """Derives from a dataclass without being made one."""


@pytest.mark.parametrize("cls", [Odd, Derived, Unstored, OwnConstructor, Plain, enum.IntEnum, tuple])
def test_classes_that_cannot_be_stored(cls, no_classes):
    with pytest.raises(TypeError, match=r"storable: found .*; expected a NamedTuple, a StrEnum or"):
        storable(cls)
