"""The command line of the experiments."""

from __future__ import annotations

import io

import pytest

from nbo.__main__ import main
from nbo.experiments import command
from nbo.experiments.catalogue import EXPERIMENTS
from nbo.progress import TimeLeft


def test_without_a_name_the_experiments_are_listed(capsys):
    assert main(["reproduce"]) == 0
    shown = capsys.readouterr().out
    for name, experiment in EXPERIMENTS.items():
        assert f"{name} " in shown and experiment.title in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nobody"], "there is no experiment 'nobody'; choose from all, synthetic"),
        (["mnist", "--quick", "--full"], "not allowed with"),
        (["averaged", "--repeats", "0"], "--repeats: found 0"),
        (["averaged", "--repeats", "x"], "--repeats"),
        (["averaged", "--jobs", "1000"], "--jobs: found 1000"),
        (["averaged", "--data", "nowhere"], "--data: found nowhere"),
    ],
)
def test_mistakes_are_one_line(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and message in shown.err and shown.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists_is_refused(capsys, tmp_path):
    (tmp_path / "mine").write_text("x")
    assert main(["reproduce", "table2", "--out", str(tmp_path)]) == 2
    assert "was not made by nbo reproduce" in capsys.readouterr().err


@pytest.mark.slow
def test_a_command_ends_with_verdicts_and_the_report(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "table2", "--jobs", "1"]) == 0
    shown = capsys.readouterr()
    assert "table2: orders" in shown.out and shown.out.endswith("report: nbo-reproduce-quick/report.html\n")
    assert (tmp_path / "nbo-reproduce-quick" / "report.html").exists()
    assert "left" in shown.err


def test_interruption_is_told(capsys, tmp_path, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_done", interrupted)
    assert main(["reproduce", "table2", "--out", str(tmp_path / "out")]) == 130
    assert "--resume goes on from there" in capsys.readouterr().err


class Broken(io.StringIO):
    """A stream that cannot be written to."""

    def write(self, text):
        raise OSError("gone")


def test_the_time_left_is_shown_and_a_broken_stream_does_no_harm():
    stream = io.StringIO()
    with TimeLeft(stream) as bar:
        bar(0.0, 100.0, "")
        bar(50.0, 100.0, "half of it")
        bar(100.0, 100.0, "all of it")
    assert "100%" in stream.getvalue() and "all of it" in stream.getvalue() and "left" in stream.getvalue()
    with TimeLeft(Broken()) as bar:
        bar(0.0, 100.0, "")
        bar(50.0, 100.0, "half of it")
