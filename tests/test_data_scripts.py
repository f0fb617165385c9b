"""The script that fetches LIBSVM sets: from a folder, from an address, and what it refuses."""

from __future__ import annotations

import bz2
import importlib.util

import pytest

TINY = b"-1 1:1 2:1\n+1 1:2 2:1\n+1 2:3\n"


def loaded(repository):
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("fetch_libsvm", repository / "data_scripts" / "fetch_libsvm.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def script(repository, monkeypatch):
    """The script as a module, which knows one tiny set."""
    module = loaded(repository)
    monkeypatch.delenv("NBO_DATA_MIRROR", raising=False)
    monkeypatch.setattr(module, "SETS", {"tiny": module.Published("tiny", 3, 2)})
    return module


def test_from_a_folder(script, tmp_path, capsys):
    mirror, target = tmp_path / "mirror", tmp_path / "data"
    (mirror / "below").mkdir(parents=True)
    (mirror / "below" / "tiny.bz2").write_bytes(bz2.compress(TINY))
    assert script.main(["tiny", "--from", str(mirror), "--to", str(target)]) == 0
    assert capsys.readouterr().out == f"{target / 'tiny.bz2'}\n"
    assert [path.name for path in target.iterdir()] == ["tiny.bz2"]


def test_from_the_environment(script, tmp_path, monkeypatch):
    monkeypatch.setenv("NBO_DATA_MIRROR", str(tmp_path / "nowhere"))
    assert script.main(["tiny", "--to", str(tmp_path / "data")]) == 2


def test_from_an_address(script, tmp_path, monkeypatch):
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "tiny").write_bytes(TINY)
    monkeypatch.setattr(script, "HOME", (tmp_path / "web").as_uri() + "/")
    assert script.main(["tiny", "--to", str(tmp_path / "data")]) == 0
    assert (tmp_path / "data" / "tiny").read_bytes() == TINY
    (tmp_path / "web" / "tiny").unlink()
    assert script.main(["tiny", "--to", str(tmp_path / "data")]) == 0  # it is there and is not fetched again


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "holds neither tiny nor tiny.bz2"),
        (b"-1 1:1\n+1 2:1\n", "has 2 rows and 2 columns; published are 3 and 2"),
        (b"<html>not found</html>\n", "neither svmlight"),
    ],
)
def test_refusal_leaves_nothing(script, tmp_path, capsys, content, words):
    mirror, target = tmp_path / "mirror", tmp_path / "data"
    mirror.mkdir()
    if content is not None:
        (mirror / "tiny").write_bytes(content)
    assert script.main(["tiny", "--from", str(mirror), "--to", str(target)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
    assert not target.exists() or list(target.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a9a", "a9a.t", "ijcnn1", "ijcnn1.t", "mushrooms", "phishing", "w8a"])
def test_published_sizes(repository, data_mirror, tmp_path, name):
    assert loaded(repository).fetch(name, tmp_path, data_mirror).is_file()
