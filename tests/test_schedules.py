import numpy as np
import pytest

from nbo.schedules import step_at, validate_schedule


def test_numbers_and_functions():
    assert step_at("step_size", 0.5, 7) == 0.5
    assert step_at("step_size", lambda k: np.array(2.0 / (k + 1)), 3) == 0.5


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (lambda k: 0.0, "found 0.0"),
        (lambda k: None, "found None"),
        (lambda k: np.nan, "found nan"),
        (lambda k: "1", "'1'"),
    ],
)
def test_what_a_function_returns_is_checked(schedule, message):
    with pytest.raises((TypeError, ValueError), match=rf"step_size \(the schedule at k = 2\): .*{message}"):
        step_at("step_size", schedule, 2)


@pytest.mark.parametrize("schedule", [0, -1.0, np.inf, np.nan, "fast", True, [0.1]])
def test_other_things_are_refused(schedule):
    with pytest.raises((TypeError, ValueError), match="inner_step_size: found"):
        validate_schedule("inner_step_size", schedule)
