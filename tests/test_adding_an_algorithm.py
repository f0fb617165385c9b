"""The guide's files are real ones: what it shows works as a user's own module, compiled and plain."""

import dataclasses
import importlib
import re
from pathlib import Path

import numpy as np
import pytest
from reference_problems import PlainLogistic, logistic_data

import nbo
from nbo.solvers import REGISTRY

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = (DOCS / "adding_an_algorithm.rst").read_text(encoding="utf-8")
SHOWN = [(DOCS / path).resolve() for path in re.findall(r"^\.\. literalinclude:: (\S+)$", PAGE, re.MULTILINE)]
DATA = logistic_data(60, 40, 4)


def test_the_guide_shows_files_of_methods():
    assert {path.stem for path in SHOWN} == {"stocbio", "f2sa"}


def own_copy(path, folder):
    """The only method of a file, from a module that the library knows nothing of."""
    copy = folder / f"my_{path.stem}.py"
    copy.write_text(path.read_text(encoding="utf-8").replace(f'"{path.stem}"', f'"my-{path.stem}"'))
    module = importlib.import_module(copy.stem)
    (solver,) = (value for value in vars(module).values() if getattr(value, "name", "") == f"my-{path.stem}")
    return solver


@pytest.mark.slow
@pytest.mark.parametrize("path", SHOWN, ids=lambda path: path.stem)
def test_a_copy_of_the_file_is_a_method(path, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    solver, original = own_copy(path, tmp_path), REGISTRY[path.stem]
    assert solver is not original and not issubclass(solver, original)
    options = {"step_size": 0.1, "inner_step_size": 0.3, "batch_size": 8}
    for problem in (PlainLogistic(*DATA), nbo.problems.BinaryLogistic(*DATA, bounds=(-20, 12))):
        found, expected = (
            nbo.minimize(problem, np.full(4, -1.0), method=method(**options), max_iter=30, random_state=1)
            for method in (solver, original)
        )
        for part in "xyu":
            np.testing.assert_array_equal(found[part], expected[part])
        assert (found.counts, found.samples) == (expected.counts, expected.samples)
        assert found.method == f"my-{path.stem}"
    assert solver(**options).cost_per_iteration(4) == original(**options).cost_per_iteration(4)
    assert [f.name for f in dataclasses.fields(solver)] == [f.name for f in dataclasses.fields(original)]
