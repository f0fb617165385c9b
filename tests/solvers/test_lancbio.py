"""LancBiO against a hand-written loop, Cholesky on a frozen Hessian, exact counts, honest residuals and its guards."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_problems import LinearCase, Overriding, SelfCounting, logistic_data

import nbo
from nbo.feasible_sets import Box
from nbo.linear_solvers import CurvatureError
from nbo.oracles import CountedProblem
from nbo.solvers import REGISTRY
from nbo.solvers.driver import State
from nbo.solvers.lancbio import LancBiO, SlowBasis, restarted
from nbo.upper_steps import iterations_at_rest

STEPS = {"step_size": 0.01, "inner_step_size": 0.5}


@pytest.fixture
def problem():
    return nbo.problems.Quadratic.family(n=5, m=3, kappa=8)


@pytest.fixture
def curved():
    return nbo.problems.NonQuadratic([[1.0, 0.2], [-0.3, 0.8], [0.5, 0.4]], [2.0, -1.5, 1.0], [0.0, 0.5], mu=0.2, L=1.0)


def hessian(problem, x, y):
    return np.stack([problem.lower_hvp(x, y, e) for e in np.eye(problem.dim_y)], axis=1)


def by_hand(problem, x, y, u, *, alpha, rho, Q, m, n_iterations):
    """The method in plain NumPy, the basis as a list of columns, Tri as a full matrix."""
    basis = []
    for _ in range(n_iterations):
        for _ in range(Q):
            y = y - rho * problem.lower_grad_y(x, y)
        H, (grad_1, b) = hessian(problem, x, y), problem.upper_grad(x, y)
        if len(basis) in (0, m):
            start, w = u, H @ u
            basis, tri, following, beta = [], np.zeros((0, 0)), (b - w) / np.linalg.norm(b - w), 0.0
        q, j = following, len(basis)
        basis.append(q)
        tri = np.pad(tri, (0, 1))
        tri[j, j] = q @ H @ q
        if j:
            tri[j, j - 1] = tri[j - 1, j] = beta
        columns = np.stack(basis, axis=1)
        following = H @ q - columns @ np.linalg.lstsq(columns, H @ q, rcond=None)[0]
        beta = np.linalg.norm(following)
        following = following / beta
        u = start + columns @ np.linalg.solve(tri, columns.T @ (b - w))
        x = x - alpha * (grad_1 - problem.lower_jvp(x, y, u))
    return x, y, u


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("kind", ["problem", "curved"])
def test_a_hand_written_loop(request, kind, m):
    problem = request.getfixturevalue(kind)
    x, y, u = np.full(problem.dim_x, 0.2), np.linspace(-1, 1, problem.dim_y), np.full(problem.dim_y, 0.3)
    method = LancBiO(step_size=0.02, inner_step_size=0.4, n_lower_steps=3, subspace_dim=m, growth=1)
    result = nbo.minimize(problem, x, y0=y, u0=u, method=method, tol=0, max_iter=9)
    expected = by_hand(problem, x, y, u, alpha=0.02, rho=0.4, Q=3, m=m, n_iterations=9)
    for part, value in zip("xyu", expected, strict=True):
        np.testing.assert_allclose(result[part], value, atol=1e-11)


@settings(max_examples=20)
@given(st.integers(1, 8), st.floats(1, 50), st.integers(0, 99))
def test_on_a_frozen_hessian_n_iterations_are_exact(n, kappa, seed):
    """x is held by its bounds and y does not move: the subspace grows to the whole space."""
    problem, rng = nbo.problems.Quadratic.family(n, 3, kappa if n > 1 else 1.0), np.random.default_rng(seed)
    x, u = rng.standard_normal(3), rng.standard_normal(n)
    y = problem.y_star(x)
    residuals = []

    def follow(intermediate_result):
        found = intermediate_result
        residuals.append(np.linalg.norm(problem.H @ found.u - problem.upper_grad(x, y)[1]) - found.adjoint_residual)

    method = LancBiO(step_size=1e-9, inner_step_size=0.1, n_lower_steps=1, subspace_dim=n)
    result = nbo.minimize(problem, x, y0=y, u0=u, method=method, tol=0, max_iter=n, bounds=(x, x), callback=follow)
    np.testing.assert_allclose(result.u, np.linalg.solve(problem.H, problem.upper_grad(x, y)[1]), atol=1e-10)
    np.testing.assert_allclose(residuals, 0, atol=1e-10)  # the Lanczos relation gives the true ones


@pytest.mark.parametrize("m", [1, 2, 4])
def test_products(problem, m):
    counting = SelfCounting(problem)
    method = LancBiO(**STEPS, n_lower_steps=4, subspace_dim=m, growth=1)
    result = nbo.minimize(counting, np.zeros(3), method=method, tol=0, max_iter=23)
    restarts = -(-23 // m)
    assert result.counts == nbo.OracleCounts(upper_grad=23, lower_grad_y=4 * 23, lower_hvp=23 + restarts, lower_jvp=23)
    assert result.counts + result.evaluation_counts == counting.seen()
    bound = method.cost_per_iteration(5)
    assert bound == nbo.OracleCounts(upper_grad=1, lower_grad_y=4, lower_hvp=2, lower_jvp=1)
    assert result.counts.lower_hvp <= 23 * bound.lower_hvp and (m > 1 or result.counts == 23 * bound)


def test_the_text_of_the_cost(problem):
    parts = dict(reversed(part.split(" ")) for part in LancBiO.cost.split(", "))
    counts = {kind: eval(cost, {"Q": 7}) for kind, cost in parts.items()}
    assert LancBiO(n_lower_steps=7).cost_per_iteration(5) == nbo.OracleCounts(**counts)


def test_growth():
    method = LancBiO()
    found = [method.dimension(k) for k in (0, 49, 50, 99, 100, 150, 200, 250, 300, 350, 10_000)]
    assert found == [1, 1, 2, 2, 3, 4, 6, 8, 10, 10, 10]
    assert LancBiO(subspace_dim=20).dimension(10**9) == 20
    assert LancBiO(subspace_dim=3, growth=1).dimension(10**9) == 3
    assert LancBiO(subspace_dim=2, max_subspace_dim=50, growth=3, growth_every=1).dimension(2) == 18


@pytest.mark.parametrize("m", [1, 3, 5])
def test_reaches_closed_forms_without_a_step_size(problem, m):
    result = nbo.minimize(problem, np.zeros(3), method=LancBiO(subspace_dim=m), tol=1e-8, max_iter=5000)
    assert result.status == "converged"
    np.testing.assert_allclose(result.x, problem.x_star(), atol=1e-6)
    np.testing.assert_allclose(result.y, problem.y_star(result.x), atol=1e-6)
    np.testing.assert_allclose(result.u, problem.u_star(result.x), atol=1e-6)
    true = np.linalg.norm(problem.H @ result.u - problem.upper_grad(result.x, result.y)[1])
    assert true <= 1e-8 and result.adjoint_residual == pytest.approx(true, rel=1e-3, abs=1e-13)


@pytest.mark.parametrize("m", [1, 3])
def test_reaches_closed_forms_with_given_steps(problem, m):
    method = LancBiO(step_size=0.01, inner_step_size=0.5, subspace_dim=m)
    result = nbo.minimize(problem, np.zeros(3), method=method, tol=1e-8, max_iter=5000)
    assert result.success
    np.testing.assert_allclose(result.x, problem.x_star(), atol=1e-6)
    assert np.linalg.norm(problem.H @ result.u - problem.upper_grad(result.x, result.y)[1]) <= 1e-8


@pytest.mark.parametrize("m", [1, 4])
def test_reaches_a_stationary_point_of_a_nonquadratic_problem(curved, m):
    result = nbo.minimize(curved, [0.5, 0.5], method=LancBiO(subspace_dim=m), tol=1e-8, max_iter=5000)
    assert result.success
    np.testing.assert_allclose(curved.grad_phi(result.x), 0, atol=1e-6)


def test_only_an_exact_residual_ends_a_run(curved):
    """A basis of another Hessian, 3 I, finds nothing left to do at u = b/3; the next iteration finds out."""
    view, x = CountedProblem(curved), np.array([0.3, -0.2])
    y, b = curved.y_star(x), curved.upper_grad(x, curved.y_star(x))[1]
    first = b / np.linalg.norm(b)
    across = np.linalg.svd(first[None])[2][1]  # orthogonal to b, so that its product changes nothing
    stale = SlowBasis(np.zeros(3), np.zeros(3), first[None], np.array([3.0]), np.array([0.0]), across)
    method = LancBiO(step_size=1e-12, inner_step_size=0.1, subspace_dim=3)
    start = State(7, x, y, b / 3, norms=(9.0, 9.0, 9.0), memory={"basis": stale})
    misled = method.step(view, start, Box.unbounded(2), tol=2.0)
    np.testing.assert_allclose(misled.u, b / 3, atol=1e-14)
    assert misled.norms[2] < 1e-13 and max(misled.norms) <= 2.0 and not misled.converged
    before = view.counts.lower_hvp
    found = method.step(view, misled, Box.unbounded(2), tol=2.0)
    assert view.counts.lower_hvp == before + 2 and len(found.memory["basis"].vectors) == 1
    true = np.linalg.norm(hessian(curved, x, found.y) @ found.u - curved.upper_grad(x, found.y)[1])
    assert found.norms[2] == pytest.approx(true, rel=1e-12) and true > 1e-3


def test_a_move_of_the_adaptive_rule_restarts(problem):
    """It is not slow, and going back restores u."""
    method, view, everywhere = (
        LancBiO(subspace_dim=5),
        CountedProblem(problem),
        Box(np.full(3, -np.inf), np.full(3, np.inf)),
    )
    state, moves = State(0, np.zeros(3), np.zeros(5), np.zeros(5)), 0
    for _ in range(60):
        moved, x = state.nit > 0 and iterations_at_rest(state.memory) == 0, state.x
        state = method.step(view, state, everywhere, 0.0)
        if moved:
            assert len(state.memory["basis"].vectors) == 1
            np.testing.assert_array_equal(state.memory["basis"].product, problem.H @ state.memory["basis"].start)
        moves += not np.array_equal(x, state.x)
    assert moves > 3


# --- guards


def test_a_residual_of_zero():
    """grad_2 f = 0 = u: there is no first vector, and nothing is divided."""
    problem = nbo.problems.Quadratic(np.diag([1.0, 2.0]), np.eye(2), [1.0, 0.0], [0.0, 0.0], [0.0, 0.0], s=0.0)
    result = nbo.minimize(problem, np.ones(2), method=LancBiO(step_size=0.5, inner_step_size=0.4, n_lower_steps=30))
    assert result.success
    np.testing.assert_array_equal(result.u, 0)
    np.testing.assert_allclose(result.x, 0, atol=1e-4)
    assert result.counts.lower_hvp == result.nit


def test_an_invariant_subspace():
    """Two eigenvalues: two vectors span the solution, and the basis ends there, for a restart."""
    H, b = np.diag([2.0, 2.0, 3.0, 3.0, 3.0]), np.arange(1.0, 6.0)
    basis = restarted(lambda V: V @ H, np.zeros(5), b)
    for exhausted in (False, True):
        basis = basis.extended(lambda V: V @ H)
        assert basis.exhausted == exhausted
    u, residual = basis.solution(b)
    np.testing.assert_allclose(u, np.linalg.solve(H, b), atol=1e-13)
    assert residual < 1e-13
    problem, x = nbo.problems.Quadratic(H, np.eye(5), b, np.zeros(5), np.zeros(5)), np.ones(5)
    method = LancBiO(step_size=1e-9, inner_step_size=0.3, n_lower_steps=1, subspace_dim=5)
    y = problem.y_star(x) + 0.1
    result = nbo.minimize(problem, x, y0=y, method=method, tol=0, max_iter=6, bounds=(x, x))
    assert result.counts.lower_hvp > 6 + 2  # more restarts than m = 5 asks for
    assert np.isfinite(result.u).all()


def test_a_projection_that_is_not_positive_definite_any_more():
    """The vectors before the last one give u, and the next iteration restarts."""
    rng = np.random.default_rng(0)
    H, b = np.diag([1.0, 2.0, 3.0, 4.0]), rng.standard_normal(4)
    basis = restarted(lambda V: V @ H, np.zeros(4), b).extended(lambda V: V @ H)
    model = nbo.LowerModel(Overriding(lower_hvp=lambda x, y, v: -9.0 * v), np.zeros(2), np.zeros(4))
    kept, u, residual = LancBiO._extend(basis, model, b)
    assert kept.exhausted and len(kept.vectors) == 1
    np.testing.assert_array_equal(u, basis.solution(b)[0])
    assert residual == pytest.approx(np.linalg.norm(H @ u - b))
    with pytest.raises(CurvatureError, match=r"curvature -9 at this point; g must be strongly convex"):
        LancBiO._extend(restarted(model.hvp, np.zeros(4), b), model, b)


@pytest.mark.parametrize("given_steps", [True, False])
@pytest.mark.parametrize("factor", [-1.0, 0.0])
def test_a_hessian_that_is_not_positive_definite(given_steps, factor):
    faulty = Overriding(lower_hvp=lambda x, y, v: factor * v)
    with pytest.raises(ArithmeticError, match=r"the Hessian of g in y has curvature .*strongly convex in y"):
        nbo.minimize(faulty, np.ones(2), method=LancBiO(**STEPS if given_steps else {}))


def test_a_basis_stays_orthonormal_though_h_moves():
    """With the three-term recurrence alone it would not."""
    rng = np.random.default_rng(1)
    H = np.diag(np.linspace(1, 2, 30))
    basis = restarted(lambda V: V @ H, np.zeros(30), rng.standard_normal(30))
    for _ in range(12):
        noise = 0.05 * rng.standard_normal((30, 30))
        moved = H + noise + noise.T
        basis = basis.extended(lambda V, moved=moved: V @ moved)
    np.testing.assert_allclose(basis.vectors @ basis.vectors.T, np.eye(12), atol=1e-13)


def test_steps_far_too_large_diverge(problem):
    for bad in ({"step_size": 1e6}, {"inner_step_size": 1e8}):
        for m in (1, 4):
            result = nbo.minimize(problem, np.ones(3), method=LancBiO(**STEPS | bad, subspace_dim=m))
            assert result.status == "diverged" and "smaller step_size" in result.message
            for part in "xyu":
                np.testing.assert_array_equal(result[part], result.best._asdict()[part])


def test_a_badly_conditioned_lower_level_is_no_crash():
    problem = nbo.problems.Quadratic(np.diag([1.0, 1e-19]), np.eye(2), [1.0, 0.0], [0.0, 0.0], [0.0, 0.0])
    assert np.isfinite(nbo.minimize(problem, [0.1, 0.0], method=LancBiO(), max_iter=60).x).all()
    problem = nbo.problems.Quadratic.family(n=30, m=3, kappa=1e8)
    result = nbo.minimize(problem, np.zeros(3), method=LancBiO(), max_iter=200)
    assert np.isfinite(result.x).all() and not result.success and "max_iter" in result.message


# --- contracts


@pytest.mark.parametrize("options", [{}, STEPS | {"subspace_dim": 3}])
def test_a_run_goes_on_exactly(problem, options, tmp_path, monkeypatch):
    monkeypatch.setitem(REGISTRY, "lancbio", LancBiO)
    run = {"method": "lancbio", "options": {**options, "growth_every": 5}, "tol": 0.0}
    straight = nbo.minimize(problem, np.zeros(3), max_iter=20, **run)
    for half in (1, 7, 8, 9):
        nbo.minimize(problem, np.zeros(3), max_iter=half, **run).save(tmp_path / "run.npz")
        gone_on = nbo.resume(tmp_path / "run.npz", problem, max_iter=20)
        for part in "xyu":
            np.testing.assert_array_equal(gone_on[part], straight[part])
        assert gone_on.counts == straight.counts and gone_on.adjoint_residual == straight.adjoint_residual


def test_the_same_call_gives_the_same_bits_and_keeps_inputs(problem):
    x0, y0, u0 = np.ones(3), np.ones(5), np.ones(5)
    method = LancBiO()
    runs = [nbo.minimize(problem, x0, y0=y0, u0=u0, method=method, max_iter=40) for _ in range(2)]
    for part in "xyu":
        np.testing.assert_array_equal(runs[0][part], runs[1][part])
    for array in (x0, y0, u0):
        assert (array == 1).all()
    assert method == LancBiO()


def test_compiled_and_plain_problems_agree():
    case = LinearCase("binary")
    runs = [
        nbo.minimize(p, np.full(4, -2.0), method=LancBiO(step_size=0.5, subspace_dim=3), max_iter=15, tol=0)
        for p in (case.problem, case.plain)
    ]
    for part in "xyu":
        np.testing.assert_allclose(runs[0][part], runs[1][part], atol=1e-10)
    assert runs[0].counts == runs[1].counts


def test_single_precision_stays():
    A, b, A_val, b_val = logistic_data()
    problem = nbo.problems.BinaryLogistic(A.astype(np.float32), b, A_val.astype(np.float32), b_val)
    method, view = LancBiO(step_size=0.1, subspace_dim=4), CountedProblem(problem)
    state = State(0, np.full(5, -2.0), np.zeros(5, np.float32), np.zeros(5, np.float32))
    for _ in range(6):
        state = method.step(view, state, Box.unbounded(5), 0.0)
        basis = state.memory["basis"]
        assert state.y.dtype == state.u.dtype == basis.vectors.dtype == basis.following.dtype == np.float32
    assert np.isfinite(nbo.minimize(problem, np.full(5, -2.0), method=LancBiO(), max_iter=300, tol=1e-4).x).all()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("step_size", -1.0, "step_size: found -1"),
        ("inner_step_size", 0, "inner_step_size: found 0"),
        ("n_lower_steps", 0, "n_lower_steps: found 0; expected an integer >= 1"),
        ("subspace_dim", 0, "subspace_dim: found 0; expected an integer >= 1"),
        ("max_subspace_dim", 2.5, r"max_subspace_dim: found 2.5 \(float\)"),
        ("growth", 0.9, "growth: found 0.9; expected a number >= 1"),
        ("growth_every", 0, "growth_every: found 0"),
    ],
)
def test_bad_options_are_named(option, value, message):
    with pytest.raises((TypeError, ValueError), match=message):
        LancBiO(**{option: value})
