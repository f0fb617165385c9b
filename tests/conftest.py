"""What all tests share: the hypothesis profile, the data mirror and the runner of documentation pages."""

from __future__ import annotations

import doctest
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# Drawing windows is no part of any test; set before anything imports matplotlib.
os.environ.setdefault("MPLBACKEND", "Agg")

# Compilation makes single examples slow without being a fault. A check of a submission has to repeat; at a desk
# new examples are drawn each time.
settings.register_profile("nbo", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("nbo")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout that the tests stand in."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def data_mirror() -> Path:
    """The folder of downloaded data sets that ``NBO_DATA_MIRROR`` names; skips where there is none."""
    mirror = os.environ.get("NBO_DATA_MIRROR")
    if not mirror:
        pytest.skip("NBO_DATA_MIRROR is not set: no folder with downloaded data sets")
    if not Path(mirror).is_dir():
        pytest.fail(f"NBO_DATA_MIRROR is {mirror!r}, which is no folder")
    return Path(mirror)


@pytest.fixture
def run_page() -> Callable[[Path], int]:
    """A function that runs the examples of a page, fails at a wrong one and returns how many ran."""

    def run(page: Path) -> int:
        flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
        failed, attempted = doctest.testfile(str(page), module_relative=False, optionflags=flags, encoding="utf-8")
        assert failed == 0, f"{page.name}: {failed} of {attempted} examples failed, see the captured output"
        return attempted

    return run
