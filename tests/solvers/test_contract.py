"""What holds for every registered method, full batch or minibatch, whatever it computes."""

import copy
import pickle

import numpy as np
import pytest
from reference_problems import STOCHASTIC, PlainLogistic, SelfCounting, fixed_options, logistic_data

import nbo
from nbo.solvers import REGISTRY

DATA = logistic_data(40, 30, 4)


def options_of(method):
    return fixed_options(method, 0.02, 0.4) | ({"batch_size": 8} if method in STOCHASTIC else {})


def run(solver, problem=None, max_iter=12, x0=(-1.0,) * 4, **keywords):
    return nbo.minimize(
        problem or PlainLogistic(*DATA), x0, method=solver, tol=0.0, max_iter=max_iter, random_state=3, **keywords
    )


@pytest.mark.parametrize("method", REGISTRY)
def test_a_solver_object_can_be_used_again(method):
    """In between on another problem, as a copy, and from a pickle."""
    solver = REGISTRY[method](**options_of(method))
    before = repr(solver)
    first = run(solver)
    run(solver, PlainLogistic(*logistic_data(50, 20, 3)), x0=np.zeros(3))
    for again in (solver, copy.deepcopy(solver), pickle.loads(pickle.dumps(solver))):
        found = run(again)
        for part in ("x", "y", "u", "jac", "fun"):
            np.testing.assert_array_equal(found[part], first[part])
        assert (found.counts, found.samples) == (first.counts, first.samples)
    assert repr(solver) == before


@pytest.mark.parametrize("method", REGISTRY)
def test_a_callback_stops_and_sees_what_is_returned(method):
    seen = []

    def callback(intermediate_result):
        seen.append(intermediate_result)
        if len(seen) == 3:
            raise StopIteration

    options = options_of(method) | {"eval_every": 2}
    found = run(REGISTRY[method](**options), callback=callback)
    assert found.status == nbo.Status.STOPPED and found.nit == 6 and [r.nit for r in seen] == [2, 4, 6]
    for part in "xyu":
        np.testing.assert_array_equal(found[part], seen[-1][part])
    straight = run(REGISTRY[method](**options), max_iter=6)
    np.testing.assert_array_equal(found.x, straight.x)
    assert found.counts == straight.counts == seen[-1].counts


@pytest.mark.parametrize("method", REGISTRY)
def test_inputs_stay_as_they_are(method):
    data = [a.copy() for a in DATA]
    starts = [np.full(4, -1.0), np.full(4, 0.1), np.full(4, 0.2)]
    bounds = np.full(4, -5.0), np.full(4, 3.0)
    x0, y0, u0 = starts
    run(REGISTRY[method](**options_of(method)), x0=x0, y0=y0, u0=u0, bounds=bounds)
    for array, value in zip((*starts, *bounds), (-1.0, 0.1, 0.2, -5.0, 3.0), strict=True):
        assert (array == value).all()
    for array, original in zip(data, DATA, strict=True):
        np.testing.assert_array_equal(array, original)


@pytest.mark.parametrize("method", REGISTRY)
def test_an_iteration_that_diverges_gives_back_the_best_point(method):
    problem = SelfCounting(nbo.problems.Quadratic.family(n=5, m=3, kappa=8))
    options = fixed_options(method, 1e30, 0.4)
    found = nbo.minimize(problem, np.full(3, 0.3), y0=np.ones(5), method=method, max_iter=500, options=options)
    assert found.status == nbo.Status.DIVERGED and not found.success
    assert all(np.isfinite(found[part]).all() for part in "xyu") and np.isfinite(found.fun)
    assert found.fun == found.best.fun == found.history.value.min()
    assert "step_size" in found.message
    assert found.counts + found.evaluation_counts == problem.seen()


@pytest.mark.parametrize("method", REGISTRY)
def test_an_optional_oracle_that_is_missing_is_named_before_the_start(method):
    needs = REGISTRY[method].needs
    problem = SelfCounting(nbo.problems.Quadratic.family(n=5, m=3, kappa=8))
    problem._absent = frozenset(nbo.problem.OPTIONAL_ORACLES)
    solver = REGISTRY[method](**fixed_options(method))
    if not needs:
        assert nbo.minimize(problem, np.zeros(3), method=solver, max_iter=2).nit == 2
        return
    with pytest.raises(TypeError, match=f"does not define {', '.join(needs)}, which method '{method}' needs"):
        nbo.minimize(problem, np.zeros(3), method=solver)
    assert problem.seen() == nbo.OracleCounts()
