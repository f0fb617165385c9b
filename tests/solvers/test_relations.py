"""Methods that docs/comparison.rst calls equal take the same steps."""

from __future__ import annotations

import numpy as np
import pytest
from reference_problems import PlainLogistic, logistic_data

import nbo

PRESET = {"n_inner": 0, "share_batches": True, "batch_size": 16}
FULL = {"batch_size": "full"}

#: A method with options, and the method that it then is, with options.
SAME_BATCHES = [
    ("nsbo-sgd", PRESET, "soba", {}),
    ("nsbo-saga", PRESET, "saba", {}),
    ("ma-nsbo-saga", PRESET, "ma-saba", {}),
    ("nsbo-page", PRESET, "spaba", {}),
    ("ma-nsbo-saga", {"momentum": 0.0}, "nsbo-saga", {}),
    ("ma-saba", {"momentum": 0.0}, "saba", {}),
    ("nsbo-storm", {"momentum": 0.0}, "nsbo-sgd", {}),
    ("fsla", {"momentum": 0.0}, "soba", {}),
    ("alset", {}, "bsa", {}),
    ("bsa", {"n_lower_steps": 1}, "ttsa", {}),
    ("alset", {"truncation": "sum", "n_linear_steps": 4}, "stocbio", {"n_linear_steps": 3}),
    ("spaba", {"probability": 1.0}, "soba", FULL),
    ("srba", {"period": 1}, "soba", FULL),
    ("amigo-cg", {"batch_size": None}, "aid-bio", {"batch_size": None}),
    ("amigo-gd", {"n_lower_steps": 1, "batch_size": None}, "no-loop-aid", {"batch_size": None}),
]

#: The same, where sums are in another order.
NEARLY = [
    ("nbo-gd", {"n_inner": 0, "batch_size": None}, "soba", FULL),
    ("amigo-gd", {"batch_size": None}, "amigo-sgd", FULL),
    ("nbo-lanczos", {"n_inner": 3}, "nbo-cg", {"n_inner": 3}),
]


def after_30(method, options):
    """x, y and u after 30 iterations with given steps."""
    known = nbo.methods()[method].options
    given = {"step_size": 0.3, "inner_step_size": 0.2, "batch_size": 16} | options
    problem = PlainLogistic(*logistic_data(200, 100))
    found = nbo.minimize(
        problem,
        np.full(problem.dim_x, -2.0),
        method=method,
        options={name: value for name, value in given.items() if name in known},
        max_iter=30,
        tol=0.0,
        random_state=0,
    )
    assert found.nit == 30
    return np.concatenate([found.x, found.y, found.u])


@pytest.mark.parametrize(("method", "options", "other", "others"), SAME_BATCHES)
def test_same_steps_to_the_last_bit(method, options, other, others):
    np.testing.assert_array_equal(after_30(method, options), after_30(other, others))


@pytest.mark.parametrize(("method", "options", "other", "others"), NEARLY)
def test_same_steps_up_to_rounding(method, options, other, others):
    np.testing.assert_allclose(after_30(method, options), after_30(other, others), rtol=1e-9, atol=1e-12)


def test_the_defaults_are_others():
    """Without the options above the pairs differ, so that the tests can fail."""
    for method, other in (("nsbo-sgd", "soba"), ("fsla", "soba"), ("bsa", "ttsa"), ("spaba", "soba"), ("srba", "soba")):
        assert not np.allclose(after_30(method, {}), after_30(other, {}), rtol=1e-6)
