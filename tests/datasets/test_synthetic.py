"""Synthetic logistic data."""

from __future__ import annotations

import numpy as np
import pytest

from nbo.datasets import make_synthetic_logistic


@pytest.mark.parametrize("r", [0.5, 1.0, 2.0])
def test_sizes_of_the_paper(r):
    data = make_synthetic_logistic(r=r)
    assert (data.A.shape, data.A_val.shape) == ((16_000, 50), (4_000, 50))
    assert (data.b.shape, data.b_val.shape, data.A_test, data.b_test) == ((16_000,), (4_000,), None, None)
    assert data.A.std() == pytest.approx(r, rel=0.01)
    assert abs(data.A.mean()) < 0.01 * r
    assert int(np.concatenate([data.b, data.b_val]).sum()) == 0  # the median parts the rows evenly
    assert data.task == "binary"


def test_labels_come_from_a_linear_rule_with_little_noise():
    data = make_synthetic_logistic(n_train=4_000, n_val=1_000, p=10)
    weights = np.linalg.lstsq(data.A, data.b, rcond=None)[0]
    assert np.mean(np.sign(data.A_val @ weights) == data.b_val) > 0.97


def test_seeds():
    first, again, other = (make_synthetic_logistic(50, 10, 4, random_state=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.A, again.A)
    np.testing.assert_array_equal(first.b_val, again.b_val)
    assert not np.array_equal(first.A, other.A)


@pytest.mark.parametrize(
    ("argument", "value", "kind"),
    [("n_train", 0, ValueError), ("n_val", 2.5, TypeError), ("p", -1, ValueError), ("r", 0.0, ValueError)],
)
def test_bad_arguments(argument, value, kind):
    with pytest.raises(kind, match=f"^{argument}: found"):
        make_synthetic_logistic(**{argument: value})
