"""One small finished report for all tests of this folder."""

from __future__ import annotations

import pytest

from nbo.datasets import read_binary
from nbo.tuning import TuneReport, tune


@pytest.fixture(scope="session")
def report() -> TuneReport:
    """Both stages on breast_cancer, cut short."""
    return tune(read_binary("breast_cancer"), seed=0, max_iter=25)
