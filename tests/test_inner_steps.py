import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_problems import logistic_data

import nbo
from nbo.inner_steps import InnerStep, Spectrum, SpectrumEstimate, estimate_spectrum, lag


@given(st.integers(1, 60), st.integers(0, 100))
def test_the_spectrum_is_bracketed(n, seed):
    eigenvalues = np.sort(np.random.default_rng(seed).uniform(0.1, 10, n))
    spectrum = estimate_spectrum(lambda V: V * eigenvalues, n, float)
    # gradient descent converges for steps below 2/lambda_max, so an estimate a little low does no harm
    assert 0.85 * eigenvalues[-1] <= spectrum.largest <= 1.5 * eigenvalues[-1]
    assert eigenvalues[0] * (1 - 1e-9) <= spectrum.smallest <= spectrum.largest


def test_few_products_are_used():
    used = []
    estimate_spectrum(lambda V: (used.append(len(V)), V)[1] * np.arange(1, 31), 30, float)
    assert sum(used) == 8


def test_a_given_step_is_kept():
    memory = {}
    gamma, after = InnerStep(lambda k: 1 / (k + 1)).at(3, None, 2, float, memory)
    assert gamma == 0.25 and after is memory
    assert InnerStep(0.1).observe(memory, enlarged=True) is memory


def test_an_estimate_is_halved_at_once_and_renewed_after_ten_iterations():
    scale = 1.0
    step = InnerStep(None)
    gamma, memory = step.at(0, lambda V: scale * V, 4, float, {})
    assert gamma == pytest.approx(1)
    scale = 10.0
    memory = step.observe(memory, enlarged=True)
    for k in range(1, 10):
        assert step.at(k, lambda V: scale * V, 4, float, memory)[0] == pytest.approx(0.5)
    assert step.at(10, lambda V: scale * V, 4, float, memory)[0] == pytest.approx(0.1)


def test_a_suspicion_renews_without_halving():
    step = InnerStep(None)
    _, memory = step.at(0, lambda V: V, 4, float, {})
    memory = step.observe(memory, enlarged=False, suspect=True)
    assert step.at(1, lambda V: 2 * V, 4, float, memory)[0] == pytest.approx(1)
    assert step.at(10, lambda V: 2 * V, 4, float, memory)[0] == pytest.approx(0.5)


@pytest.mark.parametrize("method", ["nbo-gd", "nbo-chebyshev", "amigo-gd", "no-loop-aid"])
@pytest.mark.parametrize("n_inner", [0, 3])
def test_a_curvature_that_grows_along_the_way_is_survived(method, n_inner):
    """x climbs from weak to strong penalties, so lambda_max(H) grows a thousandfold."""
    problem = nbo.problems.BinaryLogistic(*logistic_data(), penalty="shared", prior=(6.0, 0.01))
    options = {"step_size": 1e-4} | ({"n_inner": n_inner} if "n_inner" in nbo.methods()[method].options else {})
    result = nbo.minimize(problem, [-2.0], method=method, max_iter=600, options=options)
    assert result.status in ("converged", "iteration_limit")
    assert result.x[0] > 4 and np.isfinite(result.y).all()


@pytest.mark.parametrize("part", [1.0, 0.5, 1e-3, 1e-17, 1e-300])
@pytest.mark.parametrize("n_steps", [1, 2, 50])
def test_lag(part, n_steps):
    found = lag(n_steps, {"spectrum": SpectrumEstimate(Spectrum(part, 1.0), since=0)})
    assert np.isfinite(found) and found >= 1
    if part >= 1e-3:
        assert found == pytest.approx(1 / (1 - (1 - part) ** n_steps))
    assert lag(n_steps, {}) == 1


def test_eigenvalues_that_are_lost_in_rounding_are_no_negative_curvature():
    eigenvalues = np.array([1e-20, 1e-3, 1.0])
    q = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    H = (q * eigenvalues) @ q.T - 1e-16 * np.eye(3)
    assert 0 < estimate_spectrum(lambda V: V @ H, 3, float).smallest < 1e-14
