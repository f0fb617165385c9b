"""Hashes of what functions do."""

from __future__ import annotations

import enum
import hashlib
import math
import os
import subprocess
import sys
import types

import numba
import numpy as np
import pytest

from nbo._code_digest import add_function


def digest(function):
    found = hashlib.sha256()
    add_function(found, function)
    return found.hexdigest()


def uses_a_name(x):
    return thing  # noqa: F821 - a global that the tests set


def uses_a_module(x):
    return other.thing(x)  # noqa: F821 - a global that the tests set


def made(source, **scope):
    return types.FunctionType(source.__code__, scope | {"__name__": __name__})


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Unpicklable:
    """What nothing but identity tells apart; `__getattr__` raises what no one expects."""

    def __getattr__(self, name):
        raise RuntimeError("closed")

    def __reduce__(self):
        raise RuntimeError("closed")


LARGE = np.zeros(5000)
CHANGED = LARGE.copy()
CHANGED[2500] = 1.0


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1.0, 2.0),
        (1, 1.0),
        ("a", "b"),
        (LARGE, CHANGED),
        ((1, (LARGE, 2)), (1, (CHANGED, 2))),
        ((1, 2), (1, 2, 3)),
        (lambda x: x + 1, lambda x: x + 2),
        (numba.njit(lambda x: x + 1), numba.njit(lambda x: x + 2)),
        (numba.njit(uses_a_name), numba.njit(fastmath=True)(uses_a_name)),
        (frozenset("ab"), frozenset("ac")),
        (np.tanh, np.sin),
        (math.sin, math.cos),
        (np.sum, np.prod),
        (np.float64, np.int64),
        (slice(0, 1), slice(0, 3)),
        (Colour.RED, Colour.BLUE),
        (numba.vectorize(lambda x: x + 1), numba.vectorize(lambda x: x + 2)),
        (numba.cfunc("f8(f8)")(lambda x: x + 1.0), numba.cfunc("f8(f8)")(lambda x: x + 2.0)),
        (numba.float64, numba.int64),
        (Unpicklable(), Unpicklable()),
        (np.zeros(2, "M8[s]"), np.ones(2, "M8[s]")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_name_stands_for_counts(left, right):
    assert digest(made(uses_a_name, thing=left)) == digest(made(uses_a_name, thing=left))
    assert digest(made(uses_a_name, thing=left)) != digest(made(uses_a_name, thing=right))


def test_helpers_in_modules_count():
    def module(factor):
        found = types.ModuleType("helpers")
        found.thing = made(uses_a_name, thing=factor)
        found.itself = found
        return found

    assert digest(made(uses_a_module, other=module(1))) == digest(made(uses_a_module, other=module(1)))
    assert digest(made(uses_a_module, other=module(1))) != digest(made(uses_a_module, other=module(2)))


def test_attributes_of_classes_count():
    def uses(kind):
        return made(uses_a_module, other=kind)

    first, second = (type("Settings", (), {"thing": value}) for value in (1, 2))
    assert digest(uses(first)) == digest(uses(first)) != digest(uses(second))


def test_which_helper_a_name_stands_for_counts():
    one, two = (lambda x: x + 1), (lambda x: x + 2)

    def uses(a, b, c):
        return lambda x: a(x) + 10 * b(x) + 100 * c(x)

    found = {digest(uses(*helpers)) for helpers in ((one, two, one), (one, two, two), (one, one, two), (two, one, one))}
    assert len(found) == 4


def test_attributes_are_no_globals():
    def uses(data):
        return data.thing

    source = types.FunctionType(uses.__code__, {"thing": np.zeros(3), "__name__": __name__})
    other = types.FunctionType(uses.__code__, {"thing": np.ones(3), "__name__": __name__})
    assert digest(source) == digest(other)


def test_modules_that_load_on_demand_are_left_alone():
    module = types.ModuleType("lazy")

    def refuse(name):
        raise ImportError(f"cannot load {name}")

    module.__getattr__ = refuse
    assert digest(made(uses_a_module, other=module)) == digest(made(uses_a_module, other=module))


def test_defaults_and_closures_count():
    def default(value):
        def function(x=value):
            return x

        return function

    def closure(value):
        return lambda: value

    for make in (default, closure):
        assert digest(make(1)) == digest(make(1)) != digest(make(2))


def test_functions_that_call_each_other_end():
    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != 0 and even(n - 1)

    assert digest(even) != digest(odd)


def test_the_hash_is_the_same_in_every_process():
    program = (
        "import hashlib, numpy as np\n"
        "from nbo._code_digest import add_function\n"
        "def function(name):\n"
        "    return np.exp(2.0) if name in {'a', 'b', 'c', 'd'} else 0\n"
        "digest = hashlib.sha256(); add_function(digest, function); print(digest.hexdigest())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": str(seed)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in (1, 2, 3)
    }
    assert len(found) == 1
