"""Small data for estimators."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(scope="session")
def rows():
    """Rows and labels 0/1 of a noisy linear model, (80, 6)."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 6))
    return X, (X @ [2.0, -1.0, 1.0, 0.0, 0.0, 0.0] + rng.logistic(size=80) > 0).astype(int)


@pytest.fixture(scope="session")
def three(rows):
    """The same rows with three classes of different sizes."""
    X, _ = rows
    return X, np.digitize(X[:, 0] + np.random.default_rng(1).standard_normal(80), [-0.8, 0.5])
