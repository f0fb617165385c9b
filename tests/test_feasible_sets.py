import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_problems import Overriding

from nbo.feasible_sets import Box, ProjectedSet, feasible_set


@given(st.lists(st.floats(-5, 5), min_size=3, max_size=3), st.lists(st.floats(-5, 5), min_size=3, max_size=3))
def test_a_box(x, d):
    box = Box(np.array([-1.0, -np.inf, 0.5]), np.array([1.0, 2.0, 0.5]))
    point, d = box(np.array(x)), np.array(d)
    np.testing.assert_array_equal(point, np.clip(x, box.lower, box.upper))
    moved = box(point - 1e-3 * d)
    np.testing.assert_array_equal(
        box.free(point, d) & (d != 0) & (np.abs(d) > 1e-9), (moved != point) & (np.abs(d) > 1e-9)
    )
    assert not box.free(point, d)[2]  # equal bounds


def test_which_set_a_problem_has():
    problem = Overriding()
    assert isinstance(feasible_set(problem, 2, None, np.zeros(2)), Box)
    with pytest.raises(ValueError, match=r"x0: found 3 at index 1; expected a value within the bounds \[-1, 1\]"):
        feasible_set(problem, 2, (-1, 1), np.array([0.0, 3.0]))
    problem.bounds = (1, 0)
    with pytest.raises(ValueError, match=r"problem.bounds: found lower 1 > upper 0"):
        feasible_set(problem, 2, None, np.zeros(2))


def test_a_projection_of_the_problem_is_checked():
    class Onto(Overriding):
        def project(self, x):
            x /= max(1.0, np.linalg.norm(x))  # on a copy
            return x if x[0] < 0.9 else x[:1]

    chosen, x = feasible_set(Onto(), 2, None, np.zeros(2)), np.array([3.0, 4.0])
    assert isinstance(chosen, ProjectedSet) and chosen.free(x, x) is None
    np.testing.assert_array_equal(chosen(x), [0.6, 0.8])
    np.testing.assert_array_equal(x, [3, 4])
    with pytest.raises(ValueError, match=r"x0: found a point at distance 4 from the set that Onto.project"):
        feasible_set(Onto(), 2, None, x)
    with pytest.raises(ValueError, match=r"project \(returned by the problem\): found shape \(1,\)"):
        chosen(np.array([4.0, 0.0]))
