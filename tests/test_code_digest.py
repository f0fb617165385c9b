"""Hashes of what functions do."""

from __future__ import annotations

import hashlib
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
    ],
    ids=str,
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
