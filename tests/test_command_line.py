"""The command line: statuses, messages, files, and that no mistake of the user gives a traceback."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import nbo
from nbo import _interrupts as interrupts
from nbo import tuning
from nbo.__main__ import main
from nbo.datasets import NPZ_KEYS
from nbo.theory import command
from nbo.tuning import outputs
from nbo.tuning.report import wrapped

FILES = {"convergence.png", "history.csv", "model.npz", "penalties.png", "report.html", "result.json"}


@pytest.fixture(autouse=True)
def in_a_new_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


def test_tune_prints_and_writes(tmp_path, capsys):
    assert main(["tune", "breast_cancer", "--max-iter", "5", "--seed", "3"]) == 0
    shown = capsys.readouterr()
    folder = tmp_path / "nbo-tune-breast_cancer"
    assert {path.name for path in folder.iterdir()} == FILES
    found = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    assert found["settings"] == {"penalty": "feature", "cv": 5, "prior": "auto", "seed": 3, "max_iter": 5}
    for name in ("untuned", "LogisticRegressionCV", "shared", "per-feature"):
        assert any(line.startswith(name) for line in shown.out.splitlines())
    assert shown.out.endswith(f"\n\n{wrapped(found['verdict'], 100)}\nresults: nbo-tune-breast_cancer\n")
    assert "of at most 5 iterations" in shown.err


def test_quiet_prints_verdict_and_folder_only(tmp_path, capsys):
    arguments = ["tune", "digits-3-8", "--max-iter", "3", "--penalty", "shared", "--quiet", "--out", "here"]
    assert main([*arguments, "--cv", "1"]) == 0
    shown = capsys.readouterr()
    found = json.loads((tmp_path / "here" / "result.json").read_text(encoding="utf-8"))
    assert shown.out == f"{wrapped(found['verdict'], 100)}\nresults: here\n"
    assert any(note.startswith("data: ") for note in found["notes"])
    (line,) = shown.err.splitlines()
    assert line.startswith("nbo: shared: stopped at the limit of 3 iterations (--max-iter)")
    assert [stage["name"] for stage in found["stages"]] == ["shared"]
    assert found["settings"]["cv"] == 1 and found["data"]["held_out"].startswith("one split that holds out 0.25")


def test_quiet_is_quiet_about_what_converged(capsys):
    assert main(["tune", "breast_cancer", "--penalty", "shared", "--quiet", "--out", "here"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("columns", "most"), [(60, 60), (200, 100), (10, 40)])
def test_prose_is_wrapped_to_the_terminal(monkeypatch, capsys, columns, most):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["tune", "breast_cancer", "--max-iter", "2", "--out", "here"]) == 0
    prose = capsys.readouterr().out.splitlines()[6:]
    assert max(map(len, prose)) <= most
    assert max(map(len, prose)) > most - 20


@pytest.mark.parametrize(
    ("arguments", "task", "words"),
    [
        (["wine", "--penalty", "class", "--cv", "3"], "multiclass", "per-class"),
        (["diabetes", "--cv", "1", "--prior", "0.3"], "regression", "per-feature"),
    ],
)
def test_other_tasks(tmp_path, capsys, arguments, task, words):
    assert main(["tune", *arguments, "--out", "here"]) == 0
    shown = capsys.readouterr()
    found = json.loads((tmp_path / "here" / "result.json").read_text(encoding="utf-8"))
    assert {path.name for path in (tmp_path / "here").iterdir()} == FILES
    assert found["data"]["task"] == task and found["stages"][1]["name"] == words
    assert f"{task} data: " in shown.out and words in shown.out and "Warning" not in shown.err


def test_what_the_labels_were_taken_for_is_told_and_can_be_changed(tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows = "".join(f"{rng.normal()},{k % 3}\n" for k in range(60))
    (tmp_path / "t.csv").write_text("a,stars\n" + rows)
    arguments = ["tune", "t.csv", "--target", "stars", "--penalty", "shared", "--cv", "1", "--force"]
    assert main(arguments) == 0
    assert "taken as classes (multiclass); if they are quantities to predict, say --task regression" in " ".join(
        capsys.readouterr().out.split()
    )
    assert "say --task regression" in (tmp_path / "nbo-tune-t" / "report.html").read_text(encoding="utf-8")
    assert main([*arguments, "--task", "regression"]) == 0
    shown = capsys.readouterr().out
    assert "regression data: " in shown and "--task" not in shown and "RidgeCV" in shown


def test_priors(tmp_path):
    spread = {}
    for prior in ("none", "auto", "0.01"):
        arguments = ["tune", "breast_cancer", "--cv", "1", "--prior", prior, "--quiet", "--out", prior]
        assert main(arguments) == 0
        with np.load(tmp_path / prior / "model.npz") as model:
            spread[prior] = np.ptp(model["log_penalties"])
        settings = json.loads((tmp_path / prior / "result.json").read_text(encoding="utf-8"))["settings"]
        assert settings["prior"] == {"none": None, "auto": "auto"}.get(prior, 0.01)
    assert spread["none"] > spread["auto"] > spread["0.01"]


def test_bar_of_a_stage_that_converges_is_full(capsys):
    assert main(["tune", "breast_cancer", "--penalty", "shared", "--out", "here"]) == 0
    last = capsys.readouterr().err.rstrip().replace("\r", "\n").splitlines()[-1]
    assert re.search(r"shared     : \|[█#]+\| \d+ iterations, value", last)


def test_help_describes_files_and_labels(capsys):
    assert main(["tune", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for samples, labels in NPZ_KEYS:
        assert f"{samples} and {labels}" in shown
    assert "commas, semicolons or tabs" in shown
    assert "is the positive one" in shown


def test_csv_with_a_target(tmp_path, capsys):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(60, 2))
    b = np.where(A[:, 0] + rng.normal(size=60) > 0, "spam", "ham")
    lines = [f"{r[0]},{r[1]},{label}" for r, label in zip(A, b, strict=True)]
    (tmp_path / "mail.csv").write_text("\n".join(["length,words,kind", *lines]))
    assert main(["tune", "mail.csv", "--target", "kind", "--max-iter", "5", "--quiet"]) == 0
    found = json.loads((tmp_path / "nbo-tune-mail" / "result.json").read_text(encoding="utf-8"))
    assert found["data"]["labels"] == ["ham", "spam"]


@pytest.mark.parametrize(
    ("content", "arguments", "words"),
    [
        (None, [], "no file and no built-in data set is called 'data.csv'"),
        ("a,b\n1,x\n2,y\n", [], "--target: data.csv is a CSV file: say which column holds its labels, out of a, b"),
        ("a,b\n1,x\n2,y\n", ["--target", "c"], "--target: data.csv has no column 'c'"),
        ("a,b\n1,x\n2,x\n", ["--target", "b"], "labels take one value, x; expected at least two"),
        ("a,b\n1,x\n2,y\n", ["--target", "b", "--task", "regression"], "expected numbers for a regression"),
        ("a,b\nnan,x\n2,y\n", ["--target", "b"], "column 'a' holds nan in row 1"),
        ("a,b\n1,x\n2,y\n", ["--target", "b"], "too few rows"),
        ("", ["--target", "b"], "is empty"),
    ],
)
def test_bad_data_is_one_line_and_status_two(tmp_path, capsys, content, arguments, words):
    if content is not None:
        (tmp_path / "data.csv").write_text(content)
    before = set(tmp_path.iterdir())
    assert main(["tune", "data.csv", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.splitlines()
    assert words in line
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--seed", "-1"], "found '-1'; expected an integer >= 0"),
        (["--seed", "x"], "found 'x'; expected an integer >= 0"),
        (["--seed", str(2**32)], "expected an integer below 2**32"),
        (["--max-iter", "1.5"], "found '1.5'; expected an integer >= 0"),
        (["--max-iter", "9" * 5000], "of at most 18 digits"),
        (["--max-iter", "0"], "found '0'; expected an integer >= 1"),
        (["--penalty", "groups"], "invalid choice: 'groups'"),
        (["--penalty", "class"], "--penalty of binary data: found 'class'; expected one of 'feature', 'shared'"),
        (["--cv", "0"], "argument --cv: found '0'; expected an integer >= 1"),
        (["--cv", "1000"], "--cv: found 1000 folds for n_samples=455 rows; expected at most one fold a row"),
        (["--prior", "-1"], "argument --prior: found '-1'; expected auto, none or a positive number"),
        (["--task", "clustering"], "invalid choice: 'clustering'"),
        (
            ["--task", "regression"],
            "--task: found 'regression' for the built-in set 'breast_cancer'; expected 'binary'",
        ),
        (["--unknown"], "unrecognized arguments: --unknown"),
    ],
)
def test_bad_arguments(capsys, arguments, words):
    assert main(["tune", "breast_cancer", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
    assert line.startswith("nbo: ")
    assert line.endswith("; see 'nbo tune --help'") or "unrecognized" in line or "built-in set" in line


def test_existing_folder_is_refused_before_the_work(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tuning, "tune", lambda *arguments, **options: pytest.fail("the work started"))
    (tmp_path / "out").mkdir()
    assert main(["tune", "breast_cancer", "--out", "out"]) == 2
    assert "out exists; choose another folder" in capsys.readouterr().err


def test_force_replaces_a_result_but_no_other_folder(tmp_path, capsys):
    arguments = ["tune", "breast_cancer", "--max-iter", "1", "--quiet", "--out", "out", "--force"]
    assert main(arguments) == 0
    assert main([*arguments, "--seed", "8"]) == 0
    assert json.loads((tmp_path / "out" / "result.json").read_text())["settings"]["seed"] == 8
    (tmp_path / "out" / "result.json").unlink()
    assert main(arguments) == 2
    assert "--force will not replace it" in capsys.readouterr().err
    assert len(list((tmp_path / "out").iterdir())) == len(FILES) - 1


def test_extras_that_are_missing_take_one_line_each(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    assert main(["tune", "breast_cancer", "--max-iter", "1"]) == 0
    bar, plot = capsys.readouterr().err.splitlines()
    assert 'pip install "nbo[progress]"' in bar
    assert 'pip install "nbo[plot]"' in plot
    assert not (tmp_path / "nbo-tune-breast_cancer" / "penalties.png").exists()


def test_ctrl_c_in_a_stage_writes_what_there_is(tmp_path, capsys, monkeypatch):
    from nbo.progress import ProgressBar

    def interrupt(self, stage, iteration, value):
        if iteration == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(ProgressBar, "__call__", interrupt)
    assert main(["tune", "breast_cancer", "--out", "out"]) == 130
    assert "\nInterrupted; " in capsys.readouterr().out
    found = json.loads((tmp_path / "out" / "result.json").read_text(encoding="utf-8"))
    assert found["interrupted"] is True
    assert [model["name"] for model in found["models"]] == ["untuned"] and found["stages"] == []


def test_ctrl_c_before_anything_is_ready(tmp_path, capsys, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning, "tune", interrupt)
    assert main(["tune", "breast_cancer", "--out", "out"]) == 130
    assert capsys.readouterr().err == "nbo: interrupted; nothing was written\n"
    assert not (tmp_path / "out").exists()


def test_reader_that_stops_early_does_not_cost_the_results(tmp_path):
    command = [sys.executable, "-m", "nbo", "tune", "breast_cancer", "--max-iter", "1", "--out", "out"]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    run.stdout.close()
    assert run.wait() == 141
    assert "Traceback" not in run.stderr.read()
    run.stderr.close()
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES


def test_results_that_cannot_be_written_are_shown_all_the_same(capsys, monkeypatch):
    def fail(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(outputs, "write_files", fail)
    assert main(["tune", "breast_cancer", "--max-iter", "1"]) == 2
    shown = capsys.readouterr()
    assert "per-feature" in shown.out
    assert "results:" not in shown.out
    assert "the results were not written: No space left on device" in shown.err


def run(arguments, redirections="", **environment):
    """Run the command in a shell; return its status, output and error output."""
    command = f'exec "$0" -m nbo "$@" {redirections}'
    finished = subprocess.run(
        ["bash", "-c", command, sys.executable, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": ""} | environment,
        check=False,
    )
    assert "Traceback" not in finished.stderr and "Exception ignored" not in finished.stderr
    return finished.returncode, finished.stdout, finished.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("redirections", "expected"),
    [(">&-", 1), (">/dev/full", 1), ("2>&-", 0), ("2>/dev/full", 0), (">&- 2>&-", 1), ("<&- >&- 2>&-", 1)],
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_streams_that_cannot_be_written_to_cost_no_results(tmp_path, redirections, expected, unbuffered):
    arguments = ["tune", "breast_cancer", "--max-iter", "1", "--out", "out"]
    status, shown, said = run(arguments, redirections, PYTHONUNBUFFERED=unbuffered)
    assert status == expected
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES
    if "2>" not in redirections:
        assert said.splitlines()[-2] == "nbo: results: out"
        assert said.splitlines()[-1].startswith("nbo: input or output failed: [Errno ")
    if status == 0:
        assert shown.endswith("results: out\n")


@pytest.mark.parametrize(
    ("arguments", "redirections", "expected"),
    [
        (["--help"], ">/dev/full", 1),
        (["--version"], ">&-", 1),
        (["methods"], ">/dev/full", 1),
        (["nonsense"], "2>/dev/full", 2),
        (["tune", "nonsense"], "2>&-", 2),
    ],
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_short_commands_tell_that_they_could_not_print(arguments, redirections, expected, unbuffered):
    assert run(arguments, redirections, PYTHONUNBUFFERED=unbuffered)[0] == expected


@pytest.mark.slow
def test_names_that_the_terminal_cannot_show_are_escaped(tmp_path):
    rng = np.random.default_rng(0)
    rows = "".join(f"{value},7,{k % 2}\n" for k, value in enumerate(rng.normal(size=60)))
    (tmp_path / "花$.csv").write_text("β,花\u2028$,y\n" + rows, encoding="utf-8")
    arguments = ["tune", "花$.csv", "--target", "y", "--max-iter", "2"]
    status, shown, said = run(arguments, LC_ALL="C", PYTHONIOENCODING="ascii")
    assert status == 0
    assert (shown + said).isascii()
    assert r"does not vary in the rows that tune: \u82b1\u2028$" in " ".join(shown.split())
    assert "Warning" not in said
    with np.load(tmp_path / "nbo-tune-花$" / "model.npz") as saved:
        assert list(saved["feature_names"]) == ["β", "花\u2028$"]


@pytest.mark.parametrize(("sizes", "words"), [(1e300, "column 'a' is too large to standardise"), (1e-300, "too small")])
def test_sizes_that_cannot_be_standardised(tmp_path, capsys, sizes, words):
    rows = "".join(f"{value},{k % 2}\n" for k, value in enumerate(sizes * np.arange(1, 61)))
    (tmp_path / "t.csv").write_text("a,y\n" + rows)
    assert main(["tune", "t.csv", "--target", "y", "--quiet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_columns_without_values_are_noted_and_mapped(tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows = "".join(f"{k % 2} 1:{rng.normal():.3f} {20_000_000 + k % 3}:1\n" for k in range(60))
    (tmp_path / "wide.svm").write_text(rows)
    assert main(["tune", "wide.svm", "--max-iter", "2", "--out", "out"]) == 0
    assert "19,999,998 of 20,000,002 columns hold no value" in " ".join(capsys.readouterr().out.split())
    with np.load(tmp_path / "out" / "model.npz") as saved:
        assert list(saved["columns"]) == [0, 19_999_999, 20_000_000, 20_000_001]


def test_lack_of_memory_is_one_line(tmp_path, capsys, monkeypatch):
    def fail(*arguments, **options):
        raise MemoryError("Unable to allocate 9 EiB")

    monkeypatch.setattr(tuning, "tune", fail)
    assert main(["tune", "breast_cancer", "--out", "deep/out"]) == 2
    assert capsys.readouterr().err == "nbo: not enough memory: Unable to allocate 9 EiB\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["n" * 300, "/proc/a\nb", "file/below"])
def test_place_that_cannot_be_is_found_before_the_work(tmp_path, capsys, monkeypatch, place):
    monkeypatch.setattr(tuning, "tune", lambda *arguments, **options: pytest.fail("the work started"))
    (tmp_path / "file").touch()
    assert main(["tune", "breast_cancer", "--out", place]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "cannot be created: " in line
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_ctrl_c_while_files_are_written_waits_for_them(tmp_path, capsys, monkeypatch):
    write_files = outputs.write_files

    def press_and_write(*arguments):
        signal.raise_signal(signal.SIGINT)
        return write_files(*arguments)

    monkeypatch.setattr(outputs, "write_files", press_and_write)
    assert main(["tune", "breast_cancer", "--max-iter", "1", "--out", "out", "--quiet"]) == 130
    assert capsys.readouterr().out.endswith("results: out\n")
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES


def test_ctrl_c_during_imports(capsys, monkeypatch, tmp_path):
    @contextlib.contextmanager
    def press_then_hold():
        with held():
            signal.raise_signal(signal.SIGINT)
            yield

    held = interrupts.held
    monkeypatch.setattr(interrupts, "held", press_then_hold)
    assert main(["tune", "breast_cancer"]) == 130
    assert capsys.readouterr().err == "nbo: interrupted; nothing was written\n"
    assert list(tmp_path.iterdir()) == []


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"nbo {nbo.__version__}\n"


def test_methods(capsys, monkeypatch):
    methods = nbo.methods()
    assert main(["methods"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(methods)
    assert (
        lines[0]
        == f"{'nbo-gd':<16} {'deterministic':<{max(len(m.kind) for m in methods.values())}}  {methods['nbo-gd']}"
    )
    for line, info in zip(lines, methods.values(), strict=True):
        assert info.kind in line and str(info) in line
        assert ("; first order" in line) == info.first_order
        assert all(oracle in line for oracle in info.needs)


def test_a_method_that_needs_more(capsys, monkeypatch):
    monkeypatch.setattr(nbo.NBOGD, "cost", "1 upper_grad, 2 lower_grad_y")
    monkeypatch.setattr(nbo.NBOGD, "needs", ("lower_grad_x",))
    assert main(["methods"]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("; first order; needs lower_grad_x")
    assert main(["methods", "nbo-gd"]) == 0
    assert "oracles:  upper_grad, lower_grad_y, lower_grad_x (first order)\n" in capsys.readouterr().out


def test_one_method(capsys):
    info = nbo.methods()["nsbo-sgd"]
    assert main(["methods", "nsbo-sgd"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == str(info)
    assert f"source:   {info.source}" in lines and "kind:     stochastic" in lines
    assert "step:     step_size has to be given" in lines
    assert f"cost:     {info.cost} an iteration; T = n_inner, n = dim_y" in lines
    start = next(i for i, line in enumerate(lines) if "help(nbo.NSBOSGD)" in line)
    assert {line.split()[0] for line in lines[start + 1 :]} == set(info.options)
    assert main(["methods", "nsbo"]) == 2
    assert "there is no method 'nsbo'" in capsys.readouterr().err


def test_no_command(capsys):
    assert main([]) == 2
    assert "COMMAND" in capsys.readouterr().err


def test_help_is_light():
    program = (
        "import sys; from nbo.__main__ import main; main(['--help']); "
        "print('loaded:', *{'numba', 'sklearn', 'matplotlib', 'tqdm'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "tune" in run.stdout
    assert run.stdout.splitlines()[-1].strip() == "loaded:"


def test_benchmarks_are_found_by_name(capsys, monkeypatch):
    calls = []
    made = SimpleNamespace(BENCHMARKS={"one": lambda quick: calls.append(quick)})
    monkeypatch.setitem(sys.modules, "nbo.benchmarks", made)
    assert main(["bench", "one", "--quick"]) == 0
    assert main(["bench", "one"]) == 0
    assert calls == [True, False]
    assert main(["bench", "two"]) == 2
    assert capsys.readouterr().err == "nbo: there is no benchmark 'two'; choose a benchmark from one\n"


def test_benchmarks_are_listed_without_a_name(capsys):
    assert main(["bench"]) == 2
    assert (
        capsys.readouterr().err
        == "nbo: choose a benchmark from full-batch, minibatch, methods, estimators, label-cleaning\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["libsvm/mushrooms.bz2", "libsvm/a9a.bz2", "libsvm/phishing.bz2", "ijcnn1/ijcnn1.bz2"])
def test_published_set(data_mirror, tmp_path, capsys, name):
    assert main(["tune", str(data_mirror / name), "--out", "out", "--max-iter", "30"]) == 0
    rows = json.loads((tmp_path / "out" / "result.json").read_text(encoding="utf-8"))["models"]
    loss = {row["name"]: row["validation_loss"] for row in rows}
    assert loss["shared"] <= loss["untuned"] + 1e-9
    assert all(np.isfinite(row["test_loss"]) for row in rows)
    assert "Traceback" not in capsys.readouterr().err


@pytest.fixture
def tiny_theory(monkeypatch):
    """Table 1 over condition numbers that take no time."""
    monkeypatch.setattr(command, "KAPPAS", (1, 1.5, 2))
    monkeypatch.setattr(command, "QUICK_KAPPAS", (1, 1.5))


def test_theory_table1_prints_and_writes(tmp_path, capsys, tiny_theory):
    assert main(["theory", "table1", "--out", "a.json", "--plot", "a.png"]) == 0
    shown = capsys.readouterr()
    found = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert len(found["rows"]) == 12
    assert f"{found['rows'][2]['K']:,}" in shown.out
    assert f"{found['exponents']['nbo-gd']['K']['value']:.2f} [" in shown.out
    assert "quick" not in shown.out
    assert "nbo-gd, kappa = 1.5" in shown.err
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_theory_table1_says_that_it_is_quick(tmp_path, capsys, tiny_theory):
    assert main(["theory", "table1", "--quick"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("quick version: kappa up to 1.5 only; without --quick it goes up to 2\n\n")
    assert not list(tmp_path.iterdir())


def test_theory_table2_prints_and_writes(tmp_path, capsys):
    assert main(["theory", "table2", "--out", "b.json"]) == 0
    shown = capsys.readouterr()
    found = json.loads((tmp_path / "b.json").read_text(encoding="utf-8"))
    assert f"{found['unit_gap_exponents']['lower_hvp']['value']:.2f} [" in shown.out
    assert shown.err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["table1", "--out", "old"], "--out: found old, which exists; expected a new file, or force"),
        (["table1", "--plot", "old.png"], "--plot: found old.png, which exists; expected a new file, or force"),
        (["table1", "--plot", "new.foo"], "--plot: found new.foo; expected a name that ends in one of"),
        (["table1", "--plot", "new"], "--plot: found new; expected a name that ends in one of"),
        (["table1", "--out", "no/a.json"], "--out: found no/a.json; expected an existing folder to put it in"),
        (["table1", "--out", ".", "--force"], "--out: found the folder .; expected a file"),
        (["table2", "--out", "old"], "--out: found old, which exists; expected a new file, or force"),
        (["table2", "--quick"], "unrecognized arguments: --quick"),
        ([], "the following arguments are required: TOPIC"),
        (["table3"], "invalid choice: 'table3'"),
    ],
)
def test_theory_refuses_in_one_line_before_the_work(tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.setattr("nbo.theory.complexity.complexity_study", lambda **_: pytest.fail("it began to work"))
    for name in ("old", "old.png"):
        (tmp_path / name).write_text("mine")
    assert main(["theory", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.splitlines()
    assert line.startswith("nbo: ") and message in line
    assert (tmp_path / "old").read_text() == (tmp_path / "old.png").read_text() == "mine"


def test_theory_replaces_files_by_force(tmp_path, capsys, tiny_theory):
    for name in ("a.json", "a.svg"):
        (tmp_path / name).write_text("old")
    assert main(["theory", "table1", "--quick", "--out", "a.json", "--plot", "a.svg", "--force"]) == 0
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["study"] == "table1"
    assert "<svg" in (tmp_path / "a.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(("missing", "options"), [("tqdm", []), ("matplotlib", ["--plot", "a.png"])])
def test_theory_without_an_extra(monkeypatch, capsys, tiny_theory, missing, options):
    for module in [name for name in sys.modules if name.partition(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, missing, None)
    status = main(["theory", "table1", "--quick", *options])
    shown = capsys.readouterr()
    assert status == (0 if missing == "tqdm" else 2)  # a bar is a comfort, a picture was asked for
    (line,) = shown.err.splitlines()
    assert re.search(r'pip install "nbo\[(progress|plot)\]"', line)


def test_theory_certify_checks_a_run(capsys, tmp_path):
    path = tmp_path / "certificate.json"
    status = main(["theory", "certify", "quadratic", "--kappa", "4", "--max-iter", "20", "--out", str(path)])
    out = capsys.readouterr().out
    assert status == 0 and "all that the theorem says holds, if these constants do" in out and "kappa = 4" in out
    assert json.loads(path.read_text())["ok"] is True
    assert main(["theory", "certify", "quadratic", "--out", str(path)]) == 2
    assert "exists" in capsys.readouterr().err
    arguments = ["theory", "certify", "non-quadratic", "--kappa", "2", "--method", "nbo-cg", "--tight"]
    assert main([*arguments, "--step-factor", "100", "--start", "box1"]) == 3
    assert "an inequality of the proof fails" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", ["binary", "ridge", "multinomial", "hyper-cleaning"])
def test_theory_certify_on_data(name, capsys):
    for start in ("box1", "edge"):
        assert main(["theory", "certify", name, "--max-iter", "30", "--start", start]) == 0
    assert "rows" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["binary", "--kappa", "3"], "--kappa: found 3 for binary; only quadratic and non-quadratic have one"),
        (["quadratic", "--kappa", "0.5"], "--kappa: found 0.5; expected a number >= 1"),
        (["quadratic", "--kappa", "x"], "--kappa: found 'x'; expected a number"),
        (["quadratic", "--max-iter", "0"], "--max-iter: found 0; expected an integer >= 1"),
        (["quadratic", "--seed", "-1"], "--seed: found -1; expected an integer >= 0"),
        (["quadratic", "--step-factor", "0"], "--step-factor: found 0.0; expected a positive number"),
        (["cubic"], "invalid choice: 'cubic'"),
        (
            ["quadratic", "--out", "no/such/folder.json"],
            "--out: found no/such/folder.json; expected an existing folder",
        ),
    ],
)
def test_theory_certify_names_what_is_wrong(arguments, message, capsys):
    assert main(["theory", "certify", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_theory_table1_keeps_its_files_apart(capsys, tmp_path):
    path = tmp_path / "a.png"
    assert main(["theory", "table1", "--quick", "--out", str(path), "--plot", str(path)]) == 2
    assert "the file of --out; expected another one" in capsys.readouterr().err and not path.exists()


def test_theory_certify_interrupted(capsys, monkeypatch):
    def interrupt(self, x, y, u):
        raise KeyboardInterrupt

    monkeypatch.setattr(nbo.problems.Quadratic, "lower_jvp", interrupt)
    assert main(["theory", "certify", "quadratic"]) == 130
    assert "nothing was checked, no step was seen; interrupted after 0 iterations" in capsys.readouterr().out
