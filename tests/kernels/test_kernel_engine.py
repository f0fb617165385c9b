"""Compilation: one dispatcher a signature, a cache that is never stale, and running without either."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import numba
import numpy as np
import pytest

import nbo
from nbo._clock import compilation
from nbo.kernels.engine import array, by_precision, compiled, helper

PACKAGE = Path(nbo.__file__).parent

#: A small problem in each storage; prints what the kernels give, and whether they came from a cache.
PROGRAM = """
import sys
import numpy as np, scipy.sparse as sp
import nbo
from nbo.kernels import engine
dtype = np.dtype(sys.argv[1])
rng = np.random.default_rng(0)
A = np.round(rng.standard_normal((9, 5)), 3).astype(dtype) * (rng.random((9, 5)) < 0.7)
b = np.where(rng.random(9) < 0.5, -1, 1).astype(dtype)
V = rng.standard_normal((3, 5)).astype(dtype)
for data in (A, sp.csr_array(A))[: int(sys.argv[2])]:
    problem = nbo.problems.BinaryLogistic(data, b, data, b)
    model = problem.lower_model(np.zeros(5), V[0])
    gradient, product = model.grad_y_and_hvp(V[1])
    numbers = [model.value(), *gradient, *product, *model.hvp(V).ravel()]
    print(*(f"{number:.5e}" for number in np.float64(numbers)))
stats = [kernel.stats for kernel in engine._dispatchers.values()]
print("hits", sum(sum(s.cache_hits.values()) for s in stats), "of", len(stats))
print(*sorted({type(kernel._cache).__name__ for kernel in engine._dispatchers.values()}))
"""


def start(dtype="float64", path=PACKAGE.parent, storages=1, **environment):
    """Start the program in a process of its own, with warnings as errors; each storage compiles three kernels."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROGRAM, dtype, str(storages)],
        cwd=path,
        env={**os.environ, "PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    """The lines that the program prints; fails with its message if it failed."""
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return output.splitlines()


def scaled(x):
    return factor * x  # noqa: F821 - a global that the tests set


def second(i):
    return table[i]  # noqa: F821 - a global that the test sets


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    return tmp_path


def test_one_dispatcher_for_each_signature(own_cache):
    def double(x):
        return x + x

    first = compiled(double, (numba.float64,))
    assert compiled(double, (numba.float64,)) is first
    second = compiled(double, (numba.float32,))
    assert second is not first
    assert len(first.signatures) == len(second.signatures) == 1
    assert first.py_func.__qualname__ != second.py_func.__qualname__
    assert first(1.5) == 3.0
    assert len({file.stem.split("-")[0] for file in own_cache.rglob("*.nbi")}) == 2


@pytest.mark.parametrize("flags", [{}, {"fastmath": False}])
def test_other_globals_are_other_code(own_cache, flags):
    functions = [types.FunctionType(scaled.__code__, {"factor": k, "__name__": __name__}) for k in (2.0, 3.0)]
    assert [compiled(f, (numba.float64,), **flags)(1.0) for f in functions] == [2.0, 3.0]


def test_other_global_arrays_are_other_code(own_cache):
    arrays = np.array([1.0, 2.0]), np.array([1.0, 3.0])
    functions = [types.FunctionType(second.__code__, {"table": a, "__name__": __name__}) for a in arrays]
    assert [compiled(f, (numba.int64,))(1) for f in functions] == [2.0, 3.0]


def test_changed_helper_is_other_code(own_cache):
    def caller(function):
        def call(x):
            return function(x)

        return compiled(call, (numba.float64,))

    assert caller(helper(lambda x: x * x))(3.0) == 9.0
    assert caller(helper(lambda x: x * x * x))(3.0) == 27.0


def test_what_a_name_means_when_a_kernel_is_asked_for_counts(own_cache):
    """As in a notebook, where a cell is run again with another constant."""
    scope = {"factor": 2.0, "__name__": __name__}
    function = types.FunctionType(scaled.__code__, scope)
    first = compiled(function, (numba.float64,))
    scope["factor"] = 3.0
    second = compiled(function, (numba.float64,))
    assert [first(1.0), second(1.0)] == [2.0, 3.0]


def test_compilation_is_clocked(own_cache):
    def negative(x):
        return -x

    before = compilation.seconds
    kernel = compiled(negative, (numba.float64,))
    clocked = compilation.seconds
    assert clocked > before
    assert kernel(1.0) == -1.0
    assert compiled(negative, (numba.float64,)) is kernel
    assert compilation.seconds == clocked


def test_errors_of_compilation_are_passed_on(own_cache):
    def nonsense(x):
        return x.no_such_attribute

    with pytest.raises(numba.core.errors.TypingError):
        compiled(nonsense, (numba.float64,))


def test_nan_is_not_optimised_away(own_cache):
    def is_finite(x):
        return np.isfinite(x)

    kernel = compiled(is_finite, (numba.float64,))
    assert [kernel(value) for value in (1.0, np.nan, np.inf)] == [True, False, False]


def test_full_disk_costs_the_cache_only(own_cache, monkeypatch):
    def half(x):
        return x / 2

    def refuse(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(numba.core.caching.FunctionCache, "save_overload", refuse)
    assert compiled(half, (numba.float64,))(3.0) == 1.5


def test_a_choice_is_the_same_in_plain_python_and_compiled(own_cache):
    precision = by_precision(helper(lambda x: 2), helper(lambda x: 1))

    def choose_precision(x):
        return precision(x[0])

    x = np.arange(3.0)
    for dtype, expected in ((np.float64, 2), (np.float32, 1)):
        assert precision(dtype(0)) == expected
        assert compiled(choose_precision, (array(dtype, 1),))(x.astype(dtype)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_runs_without_compiler(dtype):
    usual = finish(start(dtype, storages=2))
    plain = finish(start(dtype, storages=2, NUMBA_DISABLE_JIT="1"))
    assert plain[2] == "hits 0 of 0"
    for fast, slow in zip(usual[:2], plain[:2], strict=True):
        np.testing.assert_allclose(np.float64(fast.split()), np.float64(slow.split()), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_processes_that_start_together_on_an_empty_cache(tmp_path):
    cache = {"NUMBA_CACHE_DIR": str(tmp_path)}
    together = [start(dtype, **cache) for dtype in ("float64", "float32")]
    before = [finish(process) for process in together]
    for dtype, lines in zip(("float64", "float32"), before, strict=True):
        assert finish(start(dtype, **cache))[:2] == [lines[0], "hits 3 of 3"]


@pytest.mark.slow
def test_runs_where_no_cache_can_be_written(tmp_path):
    blocked = tmp_path / "file"
    blocked.touch()
    shutil.copytree(PACKAGE, tmp_path / "nbo", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "nbo" / "kernels" / "__pycache__").touch()
    places = {name: str(blocked / "x") for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME")}
    lines = finish(start(path=tmp_path, **places))
    assert lines == [finish(start())[0], "hits 0 of 3", "NullCache"]
