"""The command ``nbo clean``: files, messages and exit codes."""

import csv
import json
import signal

import numpy as np
import pytest
from sklearn.datasets import load_digits

from nbo.__main__ import main
from nbo.cleaning import outputs

FILES = {"weights.csv", "suspects.csv", "weights.png", "report.html", "result.json"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    X, y = load_digits(n_class=3, return_X_y=True)
    rng = np.random.default_rng(0)
    noisy = y[:300].copy()
    noisy[:60] = rng.integers(3, size=60)
    np.savez(folder / "noisy.npz", X=X[:300], y=noisy)
    np.savez(folder / "right.npz", X=X[300:450], y=y[300:450])
    return folder


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def run(files, *options):
    return main(["clean", str(files / "noisy.npz"), "--trusted", str(files / "right.npz"), *map(str, options)])


@pytest.fixture(scope="module")
def result(files, tmp_path_factory):
    out = tmp_path_factory.mktemp("result") / "out"
    assert run(files, "--out", out) == 0
    return out


def test_files(result):
    assert {path.name for path in result.iterdir()} == FILES
    weights, suspects = rows_of(result / "weights.csv"), rows_of(result / "suspects.csv")
    assert [row["row"] for row in weights] == [str(i + 1) for i in range(300)]
    marked = {row["row"] for row in weights if row["suspect"] == "yes"}
    assert {row["row"] for row in suspects} == marked and 20 < len(marked) < 60
    assert [float(row["weight"]) for row in suspects] == sorted(float(row["weight"]) for row in suspects)
    assert all(0 <= float(row["probability"]) <= 1 and row["suggested_label"] in "012" for row in suspects)
    found = json.loads((result / "result.json").read_text(encoding="utf-8"))
    assert found["command"] == "nbo clean" and found["report"]["n_suspects"] == len(marked)
    assert found["settings"] == {"ridge": "auto", "seed": 0, "max_iter": None}


def test_the_page_stands_alone_and_says_what_matters(result):
    page = (result / "report.html").read_text(encoding="utf-8")
    for words in (
        "What was found",
        "most suspicious labels",
        "Beside the simplest way",
        "How sure this is",
        "cannot know",
        "do next",
    ):
        assert words in page
    assert (
        "data:image/png;base64," in page and 'src="weights.png"' not in page and "http" not in page.split("<body>")[1]
    )


def test_an_earlier_result_is_replaced_only_by_force(files, result, capsys):
    assert run(files, "--out", result) == 2
    assert "exists; choose another folder with --out" in capsys.readouterr().err
    assert run(files, "--out", result, "--force", "--top", 3, "--quiet") == 0
    assert len(rows_of(result / "suspects.csv")) == 3
    assert "are suspect" in capsys.readouterr().out


def test_without_trusted_rows_the_page_says_so(tmp_path, capsys):
    assert main(["clean", "wine", "--out", str(tmp_path / "out")]) == 0
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "held out" in page and "Add trusted rows" in page
    assert "36 of the same rows were taken as if their labels were right" in page
    assert "held out" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "no file and no built-in data set is called 'nothing' (built in: digits, wine)"),
        (["wine", "--target", "x"], "--target: a label column can be chosen in CSV files only"),
        (["wine", "--ridge", "-1"], "argument --ridge: found '-1'; expected auto or a positive number"),
        (["wine", "--max-iter", "0"], "argument --max-iter: found '0'; expected an integer >= 1"),
        (["wine", "--top", "x"], "argument --top: found 'x'; expected an integer >= 0"),
        (["wine", "--seed", "9" * 5000], "argument --seed: found '99"),
        (["wine", "--trusted", "digits"], "has the label '3', which"),
    ],
)
def test_mistakes(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["clean", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_leaves_nothing(tmp_path, monkeypatch, capsys):
    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("nbo.cleaning.clean", stop)
    monkeypatch.chdir(tmp_path)
    assert main(["clean", "wine"]) == 130
    assert "nothing was written" in capsys.readouterr().err and list(tmp_path.iterdir()) == []


def test_ctrl_c_waits_for_the_files(files, tmp_path, monkeypatch, capsys):
    def interrupted(*arguments):
        signal.raise_signal(signal.SIGINT)
        return write_files(*arguments)

    write_files = outputs.write_files
    monkeypatch.setattr(outputs, "write_files", interrupted)
    assert run(files, "--out", tmp_path / "out") == 130
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES
    printed = capsys.readouterr()
    assert f"results: {tmp_path / 'out'}" in printed.out and printed.err == ""


def test_labels_without_trusted_rows_are_noted(files, tmp_path, capsys):
    right = np.load(files / "right.npz")
    two = right["y"] < 2
    np.savez(tmp_path / "two.npz", X=right["X"][two], y=right["y"][two])
    out = tmp_path / "out"
    arguments = ["clean", str(files / "noisy.npz"), "--trusted", str(tmp_path / "two.npz"), "--out", str(out)]
    assert main([*arguments, "--quiet"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and "two.npz has no row with the label '2'; such" in lines[0]
    (note,) = json.loads((out / "result.json").read_text(encoding="utf-8"))["notes"]
    assert lines[0] == f"nbo: {note}" and "<strong>Note:</strong>" in (out / "report.html").read_text(encoding="utf-8")


def write_csv(path, A, labels, names):
    with open(path, "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([[*names, "kind"], *([*a, b] for a, b in zip(A, labels, strict=True))])


def test_target_is_for_the_csv_file_among_two(tmp_path, capsys):
    A = np.random.default_rng(0).standard_normal((60, 2))
    labels = np.where(A[:, 0] > 0, "up", "down")
    write_csv(tmp_path / "rows.csv", A[:40], labels[:40], "uv")
    np.savez(tmp_path / "right.npz", X=A[40:, ::-1], y=labels[40:], feature_names=["v", "u"])
    files = [str(tmp_path / name) for name in ("rows.csv", "right.npz")]
    for i, (data, trusted) in enumerate((files, files[::-1])):
        out = str(tmp_path / str(i))
        assert main(["clean", data, "--trusted", trusted, "--target", "kind", "--out", out, "--quiet"]) == 0
    assert main(["clean", *files[1:], "--target", "kind"]) == 2
    assert "--target: a label column can be chosen in CSV files only" in capsys.readouterr().err


def test_without_extras_the_tables_are_written(tmp_path, monkeypatch, capsys):
    def missing(*arguments):
        raise ImportError('pictures need matplotlib: pip install "nbo[plot]"')

    monkeypatch.setattr(outputs.plotting, "off_screen_figure", missing)
    monkeypatch.setattr("nbo._result_folder.html", missing)
    assert main(["clean", "wine", "--out", str(tmp_path / "out")]) == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES - {"weights.png", "report.html"}
    err = capsys.readouterr().err
    assert "left out: weights.png" in err and "left out: report.html" in err
