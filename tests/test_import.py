"""``import nbo`` stays light: heavy libraries are loaded by what needs them."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def modules_after_import():
    return set(output_of("import nbo, sys; print(*sys.modules)").split())


def output_of(program):
    """What a program prints in a fresh interpreter."""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_nbo_is_there(modules_after_import):
    assert {"nbo", "numpy"} <= modules_after_import


@pytest.mark.parametrize("heavy", ["numba", "sklearn", "matplotlib", "tqdm", "pandas"])
def test_heavy_library_is_not_imported(modules_after_import, heavy):
    assert heavy not in modules_after_import


def test_star_import_gives_what_all_names():
    program = "from nbo import *; import nbo; print(sorted(set(nbo.__all__) - set(globals())))"
    assert output_of(program).strip() == "[]"


@pytest.mark.parametrize("name", ["checkpoints", "datasets", "plotting", "sklearn", "tuning"])
def test_public_modules_need_no_import_of_their_own(name):
    assert output_of(f"import nbo; print(nbo.{name}.__name__)").strip() == f"nbo.{name}"
