"""The scripts that fetch data sets: from a server that misbehaves in every way, from a folder, and what they refuse."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from nbo.datasets import load
from nbo.datasets._registry import ENTRIES, Content, DataFile, Entry, Origin

ROOT = Path(__file__).resolve().parents[1]

#: A data set of its own, long enough to be cut in the middle.
ROWS = 20_000
TINY = b"".join(b"%+d 1:%d 2:%d\n" % ((-1) ** i, i, i % 7) for i in range(1, ROWS + 1))
HALF = len(TINY) // 2


def entry_of(content, url="http://nowhere.invalid/tiny", digest=True):
    sum_ = f"sha256:{hashlib.sha256(content).hexdigest()}" if digest else ""
    file = DataFile("sets/tiny.bz2", url, sum_)
    table = Content("svmlight", (file,), ROWS, 2, {-1: ROWS // 2, 1: ROWS // 2})
    return Entry("a set for tests", "binary", "a test", (Origin({"train": table}),), positive=1)


@pytest.fixture
def fetching(monkeypatch):
    """The module that the scripts share; the registry has one tiny set more."""
    monkeypatch.syspath_prepend(str(ROOT / "data_scripts"))
    monkeypatch.delenv("NBO_DATA_MIRROR", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setitem(ENTRIES, "tiny", entry_of(TINY))
    import _fetching

    return _fetching


class Server(ThreadingHTTPServer):
    """Serves one file on the loopback interface. `answers` are taken in turn, the last one again and again."""

    daemon_threads = True
    close = ThreadingHTTPServer.server_close

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.requests, self.released = [{}], [], threading.Event()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        """Connections that break are what these tests are about."""


class Handler(BaseHTTPRequestHandler):
    """Behaves as the answers of the server say; a blind one answers any range, whatever version it is asked for."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        server = self.server
        server.requests.append((self.path, self.headers.get("Range")))
        answer = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
        if answer.get("hang"):
            server.released.wait(30)
            return
        content, tag = answer.get("content", TINY), answer.get("etag", '"one"')
        status, start = answer.get("status", 200), 0
        asked = self.headers.get("Range")
        same = self.headers.get("If-Range") == tag or answer.get("blind", False)
        if asked and answer.get("ranges", True) and same:
            status, start = 206, int(asked.removeprefix("bytes=").removesuffix("-"))
        self.send_response(status)
        if status == 206:
            first = start + answer.get("shift", 0)
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        if tag:
            self.send_header("ETag", tag)
        if "location" in answer:
            self.send_header("Location", answer["location"])
        body = content[start:] if status < 300 else b""
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body[: max(0, answer["cut"] - start)] if "cut" in answer else body)
        self.close_connection = True


@pytest.fixture
def server():
    with contextlib.closing(Server()) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.released.set()
        running.shutdown()
        thread.join()


def quick(fetching, **changes):
    return fetching.Patience(**{"timeout": 5.0, "tries": 3, "pause": 0.0, **changes})


def fetched(fetching, server, home, **changes):
    return fetching.fetch("tiny", home, base_url=server.url, patience=quick(fetching, **changes))


def files_in(home):
    return sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()) if home.exists() else []


def assert_is_tiny(home):
    assert files_in(home) == [os.path.join("sets", "tiny.bz2")]
    assert bz2.decompress((home / "sets" / "tiny.bz2").read_bytes()) == TINY


# --- from a server ------------------------------------------------------------------------------------------


def test_download(fetching, server, tmp_path):
    assert fetched(fetching, server, tmp_path) == [tmp_path / "sets" / "tiny.bz2"]
    assert_is_tiny(tmp_path)
    assert server.requests == [("/tiny", None)]
    assert load("tiny", data_home=tmp_path).A.shape == (12_800, 2)


def test_broken_connection_goes_on_where_it_stopped(fetching, server, tmp_path, capsys):
    server.answers = [{"cut": HALF}, {}]
    fetched(fetching, server, tmp_path)
    assert_is_tiny(tmp_path)
    assert server.requests == [("/tiny", None), ("/tiny", f"bytes={HALF}-")]
    assert f"the connection ended after {HALF:,} of {len(TINY):,} bytes" in capsys.readouterr().err


def test_server_without_ranges_starts_again(fetching, server, tmp_path):
    server.answers = [{"cut": HALF, "ranges": False}, {"ranges": False}]
    fetched(fetching, server, tmp_path)
    assert_is_tiny(tmp_path)
    assert server.requests[1] == ("/tiny", f"bytes={HALF}-")


@pytest.mark.parametrize("tag", ["", 'W/"weak"'])
def test_without_a_strong_validator_nothing_is_resumed(fetching, server, tmp_path, tag):
    server.answers = [{"cut": HALF, "etag": tag}, {"etag": tag}]
    fetched(fetching, server, tmp_path)
    assert_is_tiny(tmp_path)
    assert server.requests == [("/tiny", None), ("/tiny", None)]


def test_file_that_changes_between_tries_is_not_mixed(fetching, server, tmp_path):
    other = TINY.replace(b":6\n", b":5\n")
    server.answers = [{"cut": HALF, "content": other, "etag": '"old"'}, {"etag": '"new"'}]
    fetched(fetching, server, tmp_path)
    assert_is_tiny(tmp_path)


def test_part_of_another_version_is_not_appended(fetching, server, tmp_path):
    server.answers = [{"cut": HALF, "etag": '"old"'}, {"etag": '"new"', "blind": True}, {"etag": '"new"'}]
    fetched(fetching, server, tmp_path)
    assert_is_tiny(tmp_path)
    assert server.requests[1:] == [("/tiny", f"bytes={HALF}-"), ("/tiny", None)]


def test_wrong_range_is_not_appended(fetching, server, tmp_path):
    server.answers = [{"cut": HALF}, {"shift": 10}, {}]
    fetched(fetching, server, tmp_path)
    assert_is_tiny(tmp_path)
    assert server.requests[2] == ("/tiny", None)


def test_file_that_became_shorter(fetching, server, tmp_path):
    server.answers = [{"cut": HALF}, {"status": 416}, {}]
    server.answers[1]["ranges"] = False
    fetched(fetching, server, tmp_path)
    assert_is_tiny(tmp_path)
    assert server.requests[2] == ("/tiny", None)


@pytest.mark.parametrize("status", [429, 503])
def test_passing_trouble_is_waited_for(fetching, server, tmp_path, status):
    server.answers = [{"status": status}, {}]
    fetched(fetching, server, tmp_path)
    assert_is_tiny(tmp_path)


def test_pauses_grow(fetching, server, tmp_path, monkeypatch):
    pauses = []
    monkeypatch.setattr(fetching.time, "sleep", pauses.append)
    server.answers = [{"status": 500}]
    with pytest.raises(fetching.FetchError, match=r"500 .* at the last of 4 tries"):
        fetched(fetching, server, tmp_path, tries=4, pause=1.0)
    assert pauses == [1.0, 2.0, 4.0]
    assert files_in(tmp_path) == []


def test_missing_file_is_not_asked_for_again(fetching, server, tmp_path):
    server.answers = [{"status": 404}]
    with pytest.raises(fetching.FetchError, match="404"):
        fetched(fetching, server, tmp_path)
    assert len(server.requests) == 1
    assert files_in(tmp_path) == []


def test_silent_server(fetching, server, tmp_path):
    server.answers = [{"hang": True}]
    with pytest.raises(fetching.FetchError, match=r"timed out.*--from DIR or NBO_DATA_MIRROR"):
        fetched(fetching, server, tmp_path, timeout=0.1, tries=2)
    assert len(server.requests) == 2


def test_no_server(fetching, server, tmp_path):
    server.shutdown()
    server.server_close()
    with pytest.raises(fetching.FetchError, match="no connection"):
        fetched(fetching, server, tmp_path)


def test_redirect(fetching, server, tmp_path):
    server.answers = [{"status": 302, "location": "/elsewhere"}, {}]
    fetched(fetching, server, tmp_path)
    assert_is_tiny(tmp_path)
    assert [path for path, _ in server.requests] == ["/tiny", "/elsewhere"]


def test_wrong_checksum_keeps_what_is_there(fetching, server, tmp_path):
    fetched(fetching, server, tmp_path)
    server.answers = [{"content": TINY.replace(b"1:17 ", b"1:71 ")}]
    with pytest.raises(ValueError, match="tiny has the SHA256 sum"):
        fetching.fetch("tiny", tmp_path, force=True, base_url=server.url, patience=quick(fetching))
    assert_is_tiny(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (TINY + b"+1 1:1\n", "expected 20,000 rows, 2 columns"),
        (TINY.replace(b"-1 ", b"+1 ", 1), "found the labels 9,999 x -1, 10,001 x 1; expected 10,000 x -1"),
        (TINY.replace(b"1:17 ", b"1:nan "), "found samples that are not finite"),
        (TINY.replace(b" 2:", b" 9:"), "no svmlight file of 2 columns"),
        (b"<html>moved</html>", "no svmlight file of 2 columns"),
    ],
)
def test_without_a_published_checksum_the_content_is_checked(
    fetching, server, tmp_path, monkeypatch, content, words, capsys
):
    monkeypatch.setitem(ENTRIES, "tiny", entry_of(TINY, digest=False))
    server.answers = [{"content": content}]
    assert fetching.main("tiny", ["--data-home", str(tmp_path), "--base-url", server.url]) == 1
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert files_in(tmp_path) == []


def test_interruption_leaves_nothing(fetching, server, tmp_path, monkeypatch, capsys):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(fetching, "install", interrupt)
    assert fetching.main("tiny", ["--data-home", str(tmp_path), "--base-url", server.url]) == 130
    assert list(tmp_path.iterdir()) == []
    assert "interrupted" in capsys.readouterr().err


def test_progress_without_tqdm_is_lines(fetching, server, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    fetched(fetching, server, tmp_path)
    lines = capsys.readouterr().err.splitlines()
    assert 2 <= len(lines) <= 10
    assert lines[-1] == f"tiny: {len(TINY):,} of {len(TINY):,} bytes"


# --- what is there already ----------------------------------------------------------------------------------


def test_sound_set_is_left_alone(fetching, server, tmp_path, capsys):
    fetched(fetching, server, tmp_path)
    before = (tmp_path / "sets" / "tiny.bz2").stat()
    assert fetching.main("tiny", ["--data-home", str(tmp_path), "--base-url", server.url]) == 0
    after = (tmp_path / "sets" / "tiny.bz2").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert len(server.requests) == 1
    out, err = capsys.readouterr()
    assert out == f"{tmp_path / 'sets' / 'tiny.bz2'}\n"
    assert "is there and sound" in err


def test_force_fetches_again(fetching, server, tmp_path):
    for _ in range(2):
        assert fetching.main("tiny", ["--force", "--data-home", str(tmp_path), "--base-url", server.url]) == 0
    assert len(server.requests) == 2


def test_damaged_file_is_fetched_again(fetching, server, tmp_path, capsys):
    fetched(fetching, server, tmp_path)
    path = tmp_path / "sets" / "tiny.bz2"
    packed = bytearray(path.read_bytes())
    packed[len(packed) // 2] ^= 0xFF
    path.write_bytes(packed)
    with pytest.raises(ValueError, match=r"tiny\.bz2 .*fetch it again by `python data_scripts/fetch_tiny\.py`"):
        load("tiny", data_home=tmp_path)
    fetched(fetching, server, tmp_path)
    assert_is_tiny(tmp_path)
    assert "damaged" in capsys.readouterr().err


# --- from a folder ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["", "sets"])
@pytest.mark.parametrize(("name", "pack"), [("tiny", bytes), ("tiny.bz2", bz2.compress)])
def test_from_a_folder(fetching, tmp_path, place, name, pack):
    folder, home = tmp_path / "folder", tmp_path / "home"
    (folder / place).mkdir(parents=True, exist_ok=True)
    (folder / place / name).write_bytes(pack(TINY))
    assert fetching.main("tiny", ["--from", str(folder), "--data-home", str(home)]) == 0
    assert_is_tiny(home)
    assert files_in(folder) == [os.path.join(place, name)]


def test_mirror_of_the_environment(fetching, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NBO_DATA_MIRROR", str(tmp_path))
    assert fetching.main("tiny", ["--data-home", str(tmp_path / "home")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"fetch_tiny: {tmp_path} does not hold sets/tiny.bz2"
    (tmp_path / "tiny").write_bytes(TINY)
    assert fetching.main("tiny", ["--data-home", str(tmp_path / "home")]) == 0


def test_set_without_a_public_address(fetching, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(ENTRIES, "tiny", entry_of(TINY, url=""))
    assert fetching.main("tiny", ["--data-home", str(tmp_path)]) == 1
    assert "tiny has no public address; take it from a folder" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--from", "no such folder"], ["--frm", "x"], ["more"]])
def test_usage(fetching, arguments):
    with pytest.raises(SystemExit) as caught:
        fetching.main("tiny", arguments)
    assert caught.value.code == 2


# --- the files of the sets ----------------------------------------------------------------------------------


def test_every_set_with_files_has_a_script():
    scripts = {path.stem.removeprefix("fetch_") for path in (ROOT / "data_scripts").glob("fetch_*.py")}
    assert scripts == {name for name, entry in ENTRIES.items() if not entry.built_in}


def test_published_addresses_end_in_a_form_of_the_file():
    for entry in ENTRIES.values():
        for file in (file for origin in entry.origins for file in origin.files() if file.url):
            assert file.url.startswith("https://")
            assert file.raw or file.url.rpartition("/")[2] in file.forms


def test_covtype_is_converted(fetching, server, tmp_path, monkeypatch):
    rows = np.random.default_rng(0).integers(-173, 7174, size=(30, 54))
    labels = np.resize(np.arange(1, 8), 30)
    lines = "".join(",".join(map(str, [*row, label])) + "\n" for row, label in zip(rows, labels, strict=True))
    packed = gzip.compress(lines.encode())
    server.answers = [{"content": packed}]
    file = DataFile(
        "covtype/covtype.npz", "http://nowhere.invalid/5976039", f"sha256:{hashlib.sha256(packed).hexdigest()}",
        raw="covtype.data.gz",
    )  # fmt: skip
    counts = dict(zip(*(part.tolist() for part in np.unique(labels, return_counts=True)), strict=True))
    origin = Origin({"train": Content("npz", (file,), 30, 54, counts)})
    monkeypatch.setitem(ENTRIES, "tiny", Entry("few rows", "multiclass", "a test", (origin,), cuts={"validation": 7}))
    fetched(fetching, server, tmp_path)
    assert server.requests == [("/covtype.data.gz", None)]
    with np.load(tmp_path / "covtype" / "covtype.npz") as saved:
        np.testing.assert_array_equal(saved["X"], rows)
        np.testing.assert_array_equal(saved["y"], labels)
    assert fetching.fetch("tiny", tmp_path / "copy", tmp_path) == [tmp_path / "copy" / "covtype" / "covtype.npz"]


def run_script(name, *arguments, **variables):
    environment = {key: value for key, value in os.environ.items() if key != "NBO_DATA_MIRROR"}
    command = [sys.executable, str(ROOT / "data_scripts" / f"fetch_{name}.py"), *arguments]
    return subprocess.Popen(
        command,
        env={**environment, "PYTHONPATH": str(ROOT), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_two_processes_at_once(data_mirror, tmp_path):
    runs = [run_script("mushrooms", "--data-home", str(tmp_path), NBO_DATA_MIRROR=str(data_mirror)) for _ in range(2)]
    for run in runs:
        out, err = run.communicate(timeout=60)
        assert (run.returncode, out) == (0, f"{tmp_path / 'libsvm' / 'mushrooms.bz2'}\n"), err
    assert files_in(tmp_path) == [os.path.join("libsvm", "mushrooms.bz2")]
    assert load("mushrooms", data_home=tmp_path).A.shape == (5_199, 112)


@pytest.mark.slow
def test_script_fails_with_one_line(tmp_path):
    run = run_script("covtype_50k", "--data-home", str(tmp_path))
    out, err = run.communicate(timeout=60)
    assert (run.returncode, out) == (1, "")
    assert (
        err
        == "fetch_covtype_50k: covtype_50k has no public address; take it from a folder that has it, by --from DIR\n"
    )
