"""The data home and its files: where it is, and what damaged files lead to."""

from __future__ import annotations

import gzip
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from nbo.datasets import DataError, data_home, load
from nbo.datasets._readers import read_content
from nbo.datasets._registry import ENTRIES, Content, DataFile
from nbo.datasets._store import find


@pytest.fixture
def plain_environment(monkeypatch, tmp_path):
    for name in ("NBO_DATA", "NBO_DATA_MIRROR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    return monkeypatch


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, "~/.cache/nbo/data"),
        ("linux", {"XDG_CACHE_HOME": "/caches"}, "/caches/nbo/data"),
        ("darwin", {}, "~/Library/Caches/nbo/data"),
        ("win32", {}, "~/AppData/Local/nbo/data"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/nbo/data"),
        ("linux", {"NBO_DATA": "~/sets"}, "~/sets"),
        ("linux", {"NBO_DATA": ""}, "~/.cache/nbo/data"),
    ],
)
def test_data_home(plain_environment, platform, variables, expected):
    plain_environment.setattr(sys, "platform", platform)
    for name, value in variables.items():
        plain_environment.setenv(name, value)
    assert data_home() == Path(expected).expanduser()
    assert data_home("~/mine") == Path("~/mine").expanduser()


def test_environment_names_the_data_home(plain_environment, tmp_path):
    plain_environment.setenv("NBO_DATA", str(tmp_path / "named"))
    with pytest.raises(FileNotFoundError, match="named"):
        load("a9a")


def test_every_file_has_its_own_place():
    files = {file for entry in ENTRIES.values() for origin in entry.origins for file in origin.files()}
    assert len({file.path for file in files}) == len(files)


def test_forms_of_a_file(tmp_path):
    file = DataFile("covtype/covtype.npz", raw="covtype.data.gz")
    assert file.forms == ("covtype.npz", "covtype.data.gz")
    assert find(tmp_path, file) is None
    for place in (tmp_path / "covtype.data.gz", tmp_path / "covtype" / "covtype.data.gz"):
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(b"")
        assert find(tmp_path, file) == place


# --- files that are not what they should be -----------------------------------------------------------------


def idx(array):
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def images(tmp_path):
    """A folder with four pictures of 2 x 3 pixels, and the content that describes it."""
    pictures = np.arange(24, dtype=np.uint8).reshape(4, 2, 3)
    (tmp_path / "images.gz").write_bytes(gzip.compress(idx(pictures)))
    (tmp_path / "labels.gz").write_bytes(gzip.compress(idx(np.array([0, 1, 1, 0], np.uint8))))
    content = Content("idx", (DataFile("images.gz"), DataFile("labels.gz")), 4, 6, {0: 2, 1: 2})
    return tmp_path, content, pictures


def test_idx_files(images):
    home, content, pictures = images
    A, labels = read_content(home, content)
    np.testing.assert_array_equal(A, pictures.reshape(4, 6))
    np.testing.assert_array_equal(labels, [0, 1, 1, 0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: b"\0\0\x0d" + raw[3:], "no idx file of unsigned bytes: it starts with 00000d03"),
        (lambda raw: b"", "it starts with nothing"),
        (lambda raw: raw[:10], "no idx file"),
        (lambda raw: raw[:-1], "holds 23 values; its header says 24"),
        (
            lambda raw: idx(np.zeros((5, 2, 3), np.uint8)),
            "found 5 rows, 6 columns and labels of shape (4,); expected 4",
        ),
    ],
)
def test_damaged_idx_file(images, change, words):
    home, content, pictures = images
    (home / "images.gz").write_bytes(gzip.compress(change(idx(pictures))))
    with pytest.raises(DataError) as caught:
        read_content(home, content)
    assert words in str(caught.value)
    assert "images.gz" in str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": np.eye(2)}, "holds the keys X; expected y"),
        ({"X": np.eye(2), "y": np.arange(3.0)}, "labels of shape (3,)"),
        ({"X": np.eye(2), "y": np.array([0.0, 9.0])}, "found targets from 0 to 9; expected 0 to 1"),
        ({"X": np.eye(2), "y": np.array([0.0, np.nan])}, "found targets from nan to nan"),
        ({"X": np.diag([1, np.inf]), "y": np.arange(2.0)}, "samples that are not finite"),
    ],
)
def test_wrong_npz_file(tmp_path, arrays, words):
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(DataError) as caught:
        read_content(tmp_path, Content("npz", (DataFile("t.npz"),), 2, 2, (0.0, 1.0)))
    assert words in str(caught.value)


def test_compact_covtype_file_with_codes_out_of_range(tmp_path):
    np.savez(
        tmp_path / "t.npz",
        numeric_T=np.zeros((10, 2), np.int16),
        wilderness=np.array([0, 4], np.uint8),
        soil=np.zeros(2, np.uint8),
        y_binary=np.array([1, 2], np.uint8),
    )
    with pytest.raises(DataError, match="found codes that do not fit 2 rows and 4 columns"):
        read_content(tmp_path, Content("covtype_compact", (DataFile("t.npz"),), 2, 54, {1: 1, 2: 1}))


def test_covtype_binary_tells_type_2_from_the_rest(tmp_path):
    X = np.arange(54 * 7).reshape(7, 54)
    np.savez(tmp_path / "t.npz", X=X, y=np.arange(1, 8))
    content = Content("covtype_binary", (DataFile("t.npz"),), 7, 54, {1: 6, 2: 1})
    A, labels = read_content(tmp_path, content)
    np.testing.assert_array_equal(A, X)
    np.testing.assert_array_equal(labels, [1, 2, 1, 1, 1, 1, 1])


def test_compact_covtype_file(tmp_path):
    numbers = np.arange(20, dtype=np.int16).reshape(10, 2)
    codes = {"wilderness": np.array([3, 0], np.uint8), "soil": np.array([0, 39], np.uint8)}
    np.savez(tmp_path / "t.npz", numeric_T=numbers, y_binary=np.array([1, 2], np.uint8), **codes)
    A, _ = read_content(tmp_path, Content("covtype_compact", (DataFile("t.npz"),), 2, 54, {1: 1, 2: 1}))
    np.testing.assert_array_equal(A[:, :10], numbers.T)
    assert [list(row.nonzero()[0] + 10) for row in A[:, 10:]] == [[13, 14], [10, 53]]
