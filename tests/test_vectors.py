"""Norms of vectors of any scale."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbo._vectors import binary_unit, norm, row_norms


@given(st.integers(-300, 300), st.integers(1, 5), st.integers(0, 99))
def test_norms_are_right_at_any_scale(power, n, seed):
    unit = np.random.default_rng(seed).standard_normal(n)
    assert norm(10.0**power * unit) == pytest.approx(10.0**power * np.linalg.norm(unit), rel=1e-14)


@pytest.mark.parametrize("power", [-37, -30, -22, -10, 0, 10, 19, 22, 37])
def test_norms_in_single_precision(power):
    a = (10.0**power * np.array([1.0, -2.0, 0.5])).astype(np.float32)
    assert norm(a) == pytest.approx(np.linalg.norm(a.astype(float)), rel=1e-6)
    np.testing.assert_allclose(row_norms(np.stack([a, 0 * a])), [np.linalg.norm(a.astype(float)), 0], rtol=1e-6)


def test_special_values():
    assert norm(np.zeros(3)) == norm(np.zeros(0)) == 0
    assert norm(np.full(4, 5e-324)) == 1e-323
    assert norm(np.full(3, 1.7e308)) == norm(np.array([1.0, np.inf])) == np.inf
    assert np.isnan(norm(np.array([1.0, np.nan])))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_units_do_not_round(value):
    unit = binary_unit(np.array([value, value / 2]))
    assert value / unit * unit == value and (value == 0 or abs(value) < 2.3e-308 or 1 <= abs(value / unit) < 2)
