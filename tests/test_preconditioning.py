"""When a Hessian is formed, follows x, or is replaced."""

import numpy as np
from reference_problems import Exponentials, SelfCounting, logistic_data

import nbo
from nbo.oracles import CountedProblem
from nbo.preconditioning import AT_ONCE, InnerSystem, SystemMemory


def solved(problem, x, y, memory=None, n_steps=500):
    view = CountedProblem(problem)
    system = InnerSystem(view, memory or SystemMemory(), n_steps)
    model = view.lower_model(np.asarray(x, dtype=float), y)
    rhs = np.random.default_rng(0).standard_normal((1, problem.dim_y))
    found = system.solve(model, rhs, np.array([1e-9]))
    np.testing.assert_allclose(model.hvp(found.solution), rhs, atol=1e-7)
    return view.counts.lower_hvp - 1, system.memory


def test_small_hessians_are_formed_at_once_and_follow_the_penalties():
    problem = SelfCounting(nbo.problems.BinaryLogistic(*logistic_data(60, 20, 9)))
    y = np.full(9, 0.1)
    products, memory = solved(problem, np.full(9, -3.0), y)
    assert products <= 9 + 2 and memory.formed is not None
    again, memory = solved(problem, np.full(9, 2.0), y, memory)
    assert again <= 1 + 2  # one product with ones at the new x, and a nearly exact preconditioner
    np.testing.assert_array_equal(memory.formed.x_of_factor, np.full(9, 2.0))
    unmoved, same = solved(problem, np.full(9, 2.0), y, memory)
    assert unmoved <= 2 and same.formed is memory.formed


def test_a_large_hessian_is_formed_when_products_have_paid_for_it():
    rng = np.random.default_rng(0)
    n = AT_ONCE + 16
    A = rng.standard_normal((300, n)) * np.geomspace(1, 0.003, n)
    problem = nbo.problems.Ridge(A[:200], A[:200].sum(axis=1), A[200:], A[200:].sum(axis=1), penalty="shared")
    y = np.zeros(n)
    plain, memory = solved(problem, [-12.0], y)
    assert memory.formed is None and memory.spent == plain - 3 >= n / 2
    formed, memory = solved(problem, [-12.0], y, memory)
    assert memory.formed is not None and n <= formed <= n + 3 and memory.spent == 0
    later, _ = solved(problem, [-12.0], y, memory)
    assert later <= 3


def test_one_factor_serves_all_folds():
    A, b, _, _ = logistic_data(90, 20, 6)
    problem = nbo.problems.CrossValidation(nbo.problems.BinaryLogistic(A, b, A, b, penalty="shared"), 3, random_state=0)
    products, memory = solved(problem, [-2.0], np.zeros(18))
    assert memory.formed.matrix.shape == (6, 6) and 6 < products <= 6 + 8


def test_a_hessian_whose_change_is_not_diagonal_is_formed_anew():
    class Turning(nbo.problems.Quadratic):
        """H depends on x in all its entries."""

        def lower_hvp(self, x, y, v):
            e = np.ones(self.dim_y) / self.dim_y
            return super().lower_hvp(x, y, v) + 1e4 * (1 - x[0]) * e * (e @ v)

    p = nbo.problems.Quadratic.family(n=5, m=2, kappa=4)
    problem = Turning(p.H, p.B, p.c, p.d, p.e)
    _, memory = solved(problem, [0.0, 0.0], np.zeros(5))
    products, following = solved(problem, [1.0, 0.0], np.zeros(5), memory)
    assert following.formed.x_at[0] == 1.0 and products >= 5


def test_memory_is_part_of_a_checkpoint(tmp_path):
    problem = nbo.problems.BinaryLogistic(*logistic_data(60, 20, 5))
    half = nbo.minimize(problem, np.zeros(5), max_iter=3, tol=0)
    half.save(tmp_path / "half.npz")
    whole = nbo.minimize(problem, np.zeros(5), max_iter=6, tol=0)
    found = nbo.resume(tmp_path / "half.npz", problem, max_iter=6)
    np.testing.assert_array_equal(found.x, whole.x)
    assert found.counts == whole.counts


def test_a_useless_factor_is_replaced():
    """The Hessian of the exponentials shrinks by orders on the way to the minimiser."""
    problem = Exponentials(np.zeros(3))
    far = np.array([60.0, 200.0, -300.0])
    found = nbo.solve_lower_level(problem, np.ones(3), y0=far, tol=1e-10)
    assert not found.success and found.n_newton == 200  # each step takes 1 off an exponent, that is all
    found = nbo.solve_lower_level(problem, np.ones(3), y0=found.y, tol=1e-10)
    np.testing.assert_allclose(found.y, 1, atol=1e-10)
    result = nbo.minimize(problem, np.ones(3), y0=[60.0, 30.0, -300.0])
    assert result.success
    np.testing.assert_allclose(result.x, 0, atol=1e-4)
