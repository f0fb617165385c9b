"""Compiled loops against the same source in plain Python, and what surrounds them: caches, processes, notebooks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from reference_kernels import compiled_logistic
from reference_problems import STOCHASTIC, PlainLogistic, logistic_data

import nbo
from nbo._updates import _move_loop
from nbo.kernels.engine import compiled
from nbo.kernels.loops import type_of

TESTS = Path(__file__).resolve().parents[1]
DATA = logistic_data(150, 90, 5)
OPTIONS = {"step_size": 0.5, "inner_step_size": 0.3, "batch_size": 16}


def run(problem, method, iterations=500, **options):
    return nbo.minimize(
        problem,
        np.full(problem.dim_x, -3.0),
        method=method,
        options=OPTIONS | options,
        max_iter=iterations,
        random_state=7,
    )


def assert_same(found, expected, rtol):
    for name in ("x", "y", "u", "jac", "fun"):
        np.testing.assert_allclose(found[name], expected[name], rtol=rtol, atol=rtol, err_msg=name)
    assert (found.counts, found.samples) == (expected.counts, expected.samples)


def samplers(method):
    return ("epoch",) if "sag" in method or "saba" in method else ("epoch", "window", "iid")


@pytest.mark.slow
@pytest.mark.parametrize("method", STOCHASTIC)
def test_compiled_equals_plain_after_500_iterations(method):
    compiled = nbo.problems.BinaryLogistic(*DATA, bounds=(-20, 12))
    assert isinstance(compiled, nbo.CompiledProblem)
    for sampler in samplers(method):
        plain = run(PlainLogistic(*DATA), method, sampler=sampler)
        assert_same(run(compiled, method, sampler=sampler), plain, 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("nsbo-sgd", {"n_inner": 3}),
        ("nsbo-sgd", {"share_batches": True}),
        ("nsbo-saga", {"n_inner": 0, "share_batches": True}),
        ("nsbo-saga", {"initialization": "zero"}),
        ("spaba", {"share_batches": False}),
        ("amigo-sgd", {"n_lower_steps": 2, "n_linear_steps": 5}),
    ],
)
def test_compiled_equals_plain_with_other_options(method, changes):
    compiled = nbo.problems.BinaryLogistic(*DATA, bounds=(-20, 12))
    assert_same(run(compiled, method, **changes), run(PlainLogistic(*DATA), method, **changes), 1e-12)


def test_a_users_kernels_equal_the_library():
    library = nbo.problems.BinaryLogistic(*DATA, penalty="shared", bounds=(-np.inf, np.inf))
    assert_same(run(compiled_logistic(*DATA), "nsbo-sgd"), run(library, "nsbo-sgd"), 1e-12)


def test_schedules_are_the_same_compiled_and_plain():
    compiled, plain = nbo.problems.BinaryLogistic(*DATA, bounds=(-20, 12)), PlainLogistic(*DATA)
    for schedule in (nbo.schedules.PowerDecay(0.8, 0.4), lambda k: 0.8 / (k + 1) ** 0.4):
        runs = [run(p, "soba", step_size=schedule, inner_step_size=schedule) for p in (compiled, plain)]
        assert_same(*runs, 1e-12)


@pytest.mark.parametrize("direction", [np.inf, -np.inf, np.nan, 1e308, -1e308])
def test_compiled_moves_show_what_is_not_finite(direction):
    """With the flags of loops, which let the compiler reorder sums."""
    x, bounds = np.zeros(1), (np.full(1, -3.0), np.full(1, 3.0))
    arguments = x, 10.0, np.full(1, direction), bounds
    compiled(_move_loop, tuple(type_of(a) for a in arguments))(*arguments)
    assert np.isnan(x)


def test_a_result_tells_compilation_apart():
    problem = compiled_logistic(*logistic_data(40, 30, 3), common=(1.5,))  # a new type: nothing is in memory
    first, second = run(problem, "soba", 10), run(problem, "soba", 10)
    assert first.compile_seconds > 0 == second.compile_seconds
    assert first.seconds < first.compile_seconds or first.seconds < 0.5


def test_nan_in_the_data_of_a_batch_diverges_within_a_chunk():
    problem = nbo.problems.BinaryLogistic(*DATA)
    problem.A[77] = np.nan  # past the checks at the door
    res = run(problem, "soba", 20_000, eval_every=5)
    assert res.status == "diverged"
    assert np.isfinite(res.x).all() and np.isfinite(res.y).all() and np.isfinite(res.fun)
    assert res.nit < 20_000


SCRIPT = """
import numpy as np, sys
sys.path.insert(0, {tests!r})
from reference_problems import logistic_data
import nbo
problem = nbo.problems.BinaryLogistic(*logistic_data(60, 40, 3))
res = nbo.minimize(problem, np.full(3, -3.0), method={method!r}, max_iter=50, random_state=3,
                   options=dict(step_size=0.5, inner_step_size=0.3, batch_size=8))
print(res.x.tobytes().hex(), res.y.tobytes().hex())
"""


#: Little to compile, for tests that do it often.
LIGHT = (
    SCRIPT.replace("nbo.problems.BinaryLogistic(", "compiled_logistic(")
    .replace("np.full(3, -3.0)", "[-3.0]")
    .replace("import nbo", "import nbo\nfrom reference_kernels import compiled_logistic")
)


def start(method, script=SCRIPT, **environment):
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", script.format(tests=str(TESTS), method=method)],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(process):
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    return out.split()


def numbers(texts):
    return [np.frombuffer(bytes.fromhex(text)) for text in texts]


@pytest.mark.slow
def test_new_processes_give_the_same_bits_with_and_without_a_cache(tmp_path):
    cold = output(start("nsbo-sgd", NUMBA_CACHE_DIR=str(tmp_path)))
    assert list(tmp_path.rglob("*.nbc"))
    assert output(start("nsbo-sgd", NUMBA_CACHE_DIR=str(tmp_path))) == cold


@pytest.mark.slow
def test_an_unwritable_cache_costs_the_cache_only(tmp_path):
    file = tmp_path / "file"
    file.write_text("no folder")
    expected = numbers(output(start("soba")))
    found = numbers(output(start("soba", NUMBA_CACHE_DIR=str(file / "cache"))))
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_array_equal(f, e)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["nsbo-saga", "amigo-sgd"])
def test_without_the_compiler_the_loops_run_as_plain_python(method):
    expected = numbers(output(start(method)))
    found = numbers(output(start(method, NUMBA_DISABLE_JIT="1")))
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-12)


@pytest.mark.slow
def test_processes_that_start_together_on_an_empty_cache(tmp_path):
    for trial in range(20):
        folder = str(tmp_path / str(trial))
        pair = [start("soba", LIGHT, NUMBA_CACHE_DIR=folder) for _ in range(2)]
        first, second = (output(process) for process in pair)
        assert first == second


NOTEBOOK = """
import numpy as np, nbo
from reference_kernels import KERNELS, compiled_logistic
from reference_problems import logistic_data

def run(curvature):
    source = '''
def lower_jvp(data, lo, hi, scale, x, y, u, out):
    out[0] += {} * scale * (hi - lo) * np.exp(x[0]) * np.dot(y, u)
'''.format(curvature)
    scope = {"np": np}
    exec(source, scope)  # as a notebook does, without a file behind it
    problem = compiled_logistic(*logistic_data(60, 40, 3), kernels=KERNELS | {"lower_jvp": scope["lower_jvp"]})
    return nbo.minimize(problem, [-3.0], method="soba", max_iter=30, random_state=3,
                        options=dict(step_size=0.5, inner_step_size=0.3)).x[0]

first, edited = run(1.0), run(5.0)
assert first != edited, "an edited kernel was not seen"
print("fine")
"""


@pytest.mark.slow
def test_kernels_without_a_file_work_and_edits_are_seen(tmp_path):
    code = f"import sys; sys.path.insert(0, {str(TESTS)!r})\n" + NOTEBOOK
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert run.stdout.strip() == "fine", run.stderr
