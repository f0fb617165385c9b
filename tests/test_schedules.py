"""Step sizes and weights as numbers or functions of the iteration."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbo.schedules import (
    PowerDecay,
    PowerRise,
    power,
    step_at,
    validate_schedule,
    validate_weight,
    value,
    values_between,
    weight_at,
)


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


@given(st.floats(1e-3, 1e3), st.floats(0, 3), st.integers(0, 10**9))
def test_power_decay(scale, exponent, k):
    schedule = PowerDecay(scale, exponent)
    assert schedule(k) == power(scale, exponent, k) == pytest.approx(scale * math.exp(-exponent * math.log(k + 1)))
    assert schedule(0) == scale
    assert pickle.loads(pickle.dumps(schedule)) == schedule


def test_power_decay_by_default_and_without_decay():
    assert PowerDecay(1.0)(8) == pytest.approx(1 / 3)
    assert {PowerDecay(0.3, 0.0)(k) for k in range(9)} == {0.3}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0,), r"scale: found 0\.0; expected a positive number"),
        ((np.inf,), "scale: found inf"),
        (("1",), "scale: found '1'"),
        ((1.0, -0.5), r"exponent: found -0\.5"),
        ((1.0, np.nan), "exponent: found nan"),
    ],
)
def test_other_decays_are_refused(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        PowerDecay(*arguments)


SCHEDULES = [0.25, PowerDecay(2.0, 0.6), PowerDecay(2.0, 0.0), lambda k: 1.0 / (k + 2)]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=["number", "decay", "no decay", "function"])
@pytest.mark.parametrize(("start", "stop"), [(0, 1), (0, 7), (40, 53)])
def test_loops_see_the_values_of_each_iteration(schedule, start, stop):
    values = values_between("step_size", schedule, start, stop)
    for k in range(start, stop):
        assert value(values, k, start) == step_at("step_size", schedule, k)


def test_errors_of_functions_tell_the_option():
    with pytest.raises(ZeroDivisionError) as error:
        step_at("step_size", lambda k: 1 / k, 0)
    assert error.value.__notes__ == ["in step_size (the schedule at k = 0)"]


def test_subclasses_have_a_rule_of_their_own():
    class Halved(PowerDecay):
        def __call__(self, k):
            return super().__call__(k) / 2

    schedule = Halved(2.0, 0.6)
    values = values_between("step_size", schedule, 3, 9)
    assert [value(values, k, 3) for k in range(3, 9)] == [PowerDecay(2.0, 0.6)(k) / 2 for k in range(3, 9)]
    validate_weight("momentum", schedule)


def test_functions_are_called_once_an_iteration_and_in_order():
    called = []
    values_between("step_size", lambda k: called.append(k) or 1.0, 3, 8)
    assert called == [3, 4, 5, 6, 7]
    with pytest.raises(ValueError, match=r"step_size \(the schedule at k = 5\): found -1"):
        values_between("step_size", lambda k: 9.0 - 2 * k, 3, 8)


@pytest.mark.parametrize("weight", [0, 1, 0.5, np.float32(0.25), lambda k: 2.0])
def test_weights(weight):
    validate_weight("momentum", weight)
    if not callable(weight):
        assert weight_at("momentum", weight, 4) == float(weight)


@pytest.mark.parametrize("weight", [-0.1, 1.0001, np.nan, "all", None, True])
def test_other_weights_are_refused(weight):
    with pytest.raises((TypeError, ValueError), match="momentum: found"):
        validate_weight("momentum", weight)


def test_what_a_function_returns_as_a_weight_is_checked():
    assert weight_at("momentum", lambda k: np.array([k / 4]), 3) == 0.75
    for found, message in ((1.5, r"found 1\.5; expected a number from 0 to 1"), (-1, "found -1"), (None, "found None")):
        with pytest.raises((TypeError, ValueError), match=r"momentum \(the schedule at k = 3\): " + message):
            weight_at("momentum", lambda k, found=found: found, 3)


def test_a_decaying_weight_is_checked_too():
    """Loops compute it themselves, so its first and largest value has to be refused at the door."""
    validate_weight("momentum", PowerDecay(1.0, 0.5))
    with pytest.raises(ValueError, match=r"momentum.*: found 1\.2"):
        validate_weight("momentum", PowerDecay(1.2, 0.5))


@given(st.floats(0, 1), st.floats(0, 3), st.integers(0, 10**9))
def test_power_rise(scale, exponent, k):
    schedule = PowerRise(scale, exponent)
    assert schedule(k) == pytest.approx(1 - scale * math.exp(-exponent * math.log(k + 1)), abs=1e-12)
    assert 0 <= schedule(k) <= 1
    values = values_between("momentum", schedule, 5, 9, weight_at)
    assert values.table.size == 0 and value(values, k, 5) == schedule(k)
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    validate_weight("momentum", schedule)


def test_a_rise_from_zero_is_no_step():
    with pytest.raises(ValueError, match=r"step_size \(the schedule at k = 0\): found 0.0; expected a positive number"):
        validate_schedule("step_size", PowerRise(1.0, 0.5))
    validate_schedule("step_size", PowerRise(0.9, 0.5))
    for scale in (-0.1, 1.1, np.nan, "1"):
        with pytest.raises((TypeError, ValueError), match="scale: found"):
            PowerRise(scale)
