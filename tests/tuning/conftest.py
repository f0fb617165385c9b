"""One small finished report for all tests of this folder."""

from __future__ import annotations

import pytest

from nbo.datasets import read_table
from nbo.tuning import TuneReport, tune


@pytest.fixture(scope="session")
def report() -> TuneReport:
    """Both searches on breast_cancer."""
    return tune(read_table("breast_cancer"), seed=0, cv=3)


@pytest.fixture(scope="session")
def classes_report() -> TuneReport:
    """A penalty for each class and feature of three wines, on a single split."""
    return tune(read_table("wine"), penalty="class-feature", cv=1, seed=1)


@pytest.fixture(scope="session")
def numbers_report() -> TuneReport:
    """Both searches of a regression."""
    return tune(read_table("diabetes"), seed=0, cv=3)
