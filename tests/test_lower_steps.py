import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_problems import SelfCounting

import nbo
from nbo.lower_steps import LowerStep

KRYLOV = ["nbo-cg", "nbo-lanczos", "nbo-block-cg"]


class Hyperbola(nbo.BilevelProblem):
    """g = sum sqrt(1 + (y - x)^2) + mu/2 |y - x|^2: whole Newton steps from |y - x| > 1 leap ever farther away."""

    dim_x = dim_y = 3
    target = np.array([0.5, -1.0, 2.0])
    mu = 1e-2

    def upper_value(self, x, y):
        return 0.5 * float((y - self.target) @ (y - self.target))

    def upper_grad(self, x, y):
        return np.zeros(3), y - self.target

    def lower_value(self, x, y):
        return float(np.sqrt(1 + (y - x) ** 2).sum() + self.mu / 2 * (y - x) @ (y - x))

    def lower_grad_y(self, x, y):
        return (y - x) / np.sqrt(1 + (y - x) ** 2) + self.mu * (y - x)

    def lower_grad_x(self, x, y):
        return -self.lower_grad_y(x, y)

    def lower_hvp(self, x, y, v):
        return ((1 + (y - x) ** 2) ** -1.5 + self.mu) * v

    def lower_jvp(self, x, y, v):
        return -self.lower_hvp(x, y, v)


@given(st.floats(0.01, 100), st.floats(0.01, 1), st.floats(0.1, 10))
def test_a_step_is_too_long_beyond_nine_fifths_of_the_way_to_the_minimum(curvature, length, distance):
    start, minimum = np.array([distance, 1.0]), np.array([0.0, 1.0])

    def grad(y):
        return curvature * (y - minimum)

    for part, expected in ((0.5, False), (1.0, False), (1.75, False), (1.85, True), (4.0, True)):
        direction = part / length * (start - minimum)
        step = LowerStep(start, direction, float(direction @ grad(start)), length)
        assert step.overshot(grad(step.end), rounding=0.0) is expected
        assert not step.overshot(grad(step.end), rounding=1e9)


def test_halving_and_following():
    start, direction = np.array([1.0, 2.0]), np.array([4.0, 8.0])
    step = LowerStep(start, direction, 1.0)
    np.testing.assert_array_equal(step.end, start - direction)
    short = step.halved().halved()
    np.testing.assert_array_equal(short.end, [0.0, 0.0])
    lengths = []
    for _ in range(4):
        short = short.following(start, direction, direction)
        lengths.append(short.length)
    assert lengths == [0.5, 1.0, 1.0, 1.0] and short.slope == 80.0


def test_a_single_precision_step_stays_one():
    ones = np.ones(2, dtype=np.float32)
    assert LowerStep(ones, ones, 1.0).halved().end.dtype == np.float32


@pytest.mark.parametrize("method", [*KRYLOV, "nbo-cholesky"])
def test_newton_steps_that_leap_too_far_are_shortened(method):
    problem = Hyperbola()
    found = nbo.minimize(problem, np.zeros(3), y0=np.full(3, 30.0), method=method)
    assert found.success, found.message
    np.testing.assert_allclose(found.x, Hyperbola.target, atol=1e-4)
    whole = nbo.minimize(problem, np.zeros(3), y0=np.full(3, 30.0), method=method, options={"step_size": 0.1})
    assert not whole.success  # what the test is about: nothing is shortened where the step size of x is given


class Counts(nbo.BilevelProblem):
    """g = sum(exp(y) - b y) + e^x/2 |y|^2, a Poisson model whose first Newton step from zero overflows."""

    dim_x, dim_y = 1, 2
    counts, wanted = np.array([1000.0, 3.0]), np.array([900.0, 5.0])

    def upper_value(self, x, y):
        return float((np.exp(y) - self.wanted * y).sum())

    def upper_grad(self, x, y):
        return np.zeros(1), np.exp(y) - self.wanted

    def lower_value(self, x, y):
        return float((np.exp(y) - self.counts * y).sum() + np.exp(x[0]) * y @ y / 2)

    def lower_grad_y(self, x, y):
        return np.exp(y) - self.counts + np.exp(x[0]) * y

    def lower_hvp(self, x, y, v):
        return (np.exp(y) + np.exp(x[0])) * v

    def lower_jvp(self, x, y, u):
        return np.array([np.exp(x[0]) * y @ u])


@pytest.mark.parametrize("method", [*KRYLOV, "nbo-cholesky"])
@pytest.mark.parametrize("count", [1000.0, 5000.0])  # values that are huge, and values that are infinite
def test_steps_into_an_overflow_are_taken_back(method, count):
    problem = Counts()
    problem.counts = np.array([count, 3.0])
    found = nbo.minimize(problem, [0.0], method=method)
    assert found.success, found.message
    y = nbo.solve_lower_level(problem, found.x).y
    np.testing.assert_allclose(found.y, y, atol=1e-6)


@pytest.mark.parametrize(
    ("method", "options"), [("nbo-gd", {"inner_step_size": 0.1}), ("nbo-chebyshev", {"spectrum": (1.0, 20.0)})]
)
def test_inner_steps_that_are_too_long_still_diverge(method, options):
    """Directions along which g rises are no matter of length."""
    problem = nbo.problems.Quadratic(np.diag([1.0, 10.0, 100.0]), np.ones((3, 2)), np.ones(3), np.ones(3), np.ones(2))
    found = nbo.minimize(problem, np.zeros(2), method=method, options=options, max_iter=2000)
    assert found.status == "diverged"
    assert found.counts.lower_grad_y <= found.nit + 1


def test_subspaces_that_are_dear_do_not_grow_for_ever():
    assert nbo.NBOLanczos.MOST < 1000 < nbo.NBOCG.MOST
    problem = nbo.problems.Quadratic.family(n=700, m=3, kappa=1e8)
    most = nbo.NBOLanczos(n_inner=nbo.NBOLanczos.MOST).cost_per_iteration(700).lower_hvp
    found = nbo.minimize(problem, np.zeros(3), method="nbo-lanczos", max_iter=80)
    assert np.diff(found.history.lower_hvp).max() == most


def test_shortened_steps_are_counted():
    problem = SelfCounting(Hyperbola())
    found = nbo.minimize(problem, np.zeros(3), y0=np.full(3, 30.0))
    assert found.success
    assert found.counts.lower_grad_y > found.nit  # one more for each halving
    assert problem.seen() == found.counts + found.evaluation_counts


@pytest.mark.parametrize("method", KRYLOV)
def test_inner_steps_become_more_while_x_waits(method):
    problem = nbo.problems.Quadratic.family(n=200, m=3, kappa=1e5)

    def left(**options):
        found = nbo.minimize(problem, np.zeros(3), method=method, max_iter=100, options=options)
        return np.linalg.norm(problem.grad_phi(found.x)) / np.linalg.norm(problem.grad_phi(np.zeros(3)))

    assert left() < 1e-7
    assert left(n_inner=10) > 0.1  # the first number, kept: ten restarted steps are lost on this Hessian


def test_given_numbers_of_inner_steps_are_kept():
    problem = nbo.problems.Quadratic.family(n=50, m=3, kappa=1e6)
    found = nbo.minimize(problem, np.zeros(3), method="nbo-cg", options={"n_inner": 2}, max_iter=60, tol=1e-12)
    assert found.counts.lower_hvp == found.nit * nbo.NBOCG(n_inner=2).cost_per_iteration(50).lower_hvp


@pytest.mark.parametrize("start", [0.0, 30.0])
def test_a_run_that_waits_is_resumed_bit_for_bit(tmp_path, start):
    """What was learnt about steps on y and their number is part of a checkpoint."""
    hard = nbo.problems.Quadratic.family(n=50, m=3, kappa=1e6)
    problem = hard if start == 0 else Hyperbola()
    kwargs = {"y0": np.full(problem.dim_y, start), "tol": 1e-11, "method": "nbo-cg"}
    straight = nbo.minimize(problem, np.zeros(3), max_iter=40, **kwargs)
    for half in (3, 11, 25):
        path = tmp_path / f"{half}.npz"
        nbo.minimize(problem, np.zeros(3), max_iter=half, **kwargs).save(path)
        whole = nbo.resume(path, problem, max_iter=40)
        np.testing.assert_array_equal(whole.x, straight.x)
        np.testing.assert_array_equal(whole.y, straight.y)
        assert whole.counts == straight.counts
