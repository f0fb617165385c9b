"""BAMM and BAMM+NBO: golden trajectories, NBO-GD on the aggregated problem, exact counts, bias and guards."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_problems import LinearCase, Required, SelfCounting, logistic_data

import nbo
from nbo.aggregation import aggregation_at
from nbo.feasible_sets import Box
from nbo.linear_solvers import CurvatureError
from nbo.oracles import CountedProblem
from nbo.problems import AggregatedProblem, ConvexToy, Quadratic
from nbo.schedules import PowerDecay
from nbo.solvers import REGISTRY
from nbo.solvers.bamm import BAMM, SteepestAdjoint
from nbo.solvers.bamm_nbo import BAMMNBO
from nbo.solvers.driver import State

STEPS = {"step_size": 0.02, "inner_step_size": 0.5}
METHODS = [BAMM, BAMMNBO]


class SecondOrder(SelfCounting):
    """Counts every call, those of the second derivatives of f too."""

    def upper_hvp(self, x, y, v):
        assert v.shape == (self.dim_y,)
        return self._call("upper_hvp", x, y, v)

    def upper_jvp(self, x, y, u):
        return self._call("upper_jvp", x, y, u)


@pytest.fixture
def problem():
    return Quadratic.family(n=5, m=3, kappa=8)


@pytest.mark.parametrize(("name", "solver"), [("bamm", BAMM), ("bamm_nbo_T5", lambda **k: BAMMNBO(n_inner=5, **k))])
def test_golden_trajectories(repository, name, solver):
    stored = json.loads((repository / "tests" / "golden" / "trajectories.json").read_text())["problems"]["toy"]
    method = solver(step_size=stored["alpha"], inner_step_size=stored["step_yu"])
    for iterations, expected in stored["algorithms"][name].items():
        result = nbo.minimize(
            ConvexToy(len(stored["x0"])), stored["x0"], y0=stored["y0"], u0=stored["u0"], method=method, tol=0,
            max_iter=int(iterations),
        )  # fmt: skip
        for part in "xyu":
            np.testing.assert_allclose(result[part], expected[part], rtol=0, atol=1e-9)
        assert result.counts == int(iterations) * method.cost_per_iteration(6)


@pytest.mark.parametrize("given_steps", [True, False])
@pytest.mark.parametrize("variant", ["old-point", "newton-point"])
@pytest.mark.parametrize("T", [0, 1, 4])
def test_it_is_nbo_gd_on_the_aggregated_problem(given_steps, variant, T):
    """With a constant weight, in every bit that matters; BAMM is T = 0."""
    inner = nbo.problems.NonQuadratic([[1.0, 0.2], [-0.3, 0.8]], [2.0, -1.5], [0.0, 0.5], mu=0.2, L=1.0)
    options = {"step_size": 0.05, "variant": variant} | ({"inner_step_size": 0.4} if given_steps else {})
    method = BAMM(aggregation=0.3, **options) if T == 0 else BAMMNBO(aggregation=0.3, n_inner=T, **options)
    run = {"y0": [1.0, -1.0], "u0": [0.5, 0.5], "tol": 0, "max_iter": 25}
    found = nbo.minimize(inner, [0.5, 0.5], method=method, **run)
    expected = nbo.minimize(AggregatedProblem(inner, 0.3), [0.5, 0.5], method=nbo.NBOGD(n_inner=T, **options), **run)
    for part in "xyu":
        np.testing.assert_allclose(found[part], expected[part], rtol=0, atol=1e-13)
    for kind in ("upper_grad", "lower_grad_y", "lower_hvp", "lower_jvp"):
        assert getattr(found.counts, kind) == getattr(expected.counts, kind)
    assert found.counts.upper_hvp == found.counts.lower_hvp and found.counts.upper_jvp == found.counts.lower_jvp


@settings(max_examples=20)
@given(st.integers(1, 5), st.integers(0, 99), st.floats(0.05, 0.99), st.floats(0, 1))
def test_a_hand_written_loop_with_steepest_descent(n, seed, scale, exponent):
    problem, rng = ConvexToy(n), np.random.default_rng(seed)
    x, (y, u) = rng.standard_normal(n), rng.standard_normal((2, 2 * n))

    def weight(k):
        return scale / (k + 1) ** exponent

    method = BAMM(step_size=0.1, inner_step_size=0.3, aggregation=weight, adjoint_step="steepest-descent")
    result = nbo.minimize(problem, x, y0=y, u0=u, method=method, tol=0, max_iter=4)
    for k in range(4):
        mu = weight(k)
        grad_1, grad_2 = problem.upper_grad(x, y)
        K = mu * np.eye(2 * n) + (1 - mu) * np.diag([1.0] * n + [0.0] * n)
        r = K @ u - grad_2
        x, y, u = (
            x - 0.1 * (grad_1 - mu * problem.upper_jvp(x, y, u) - (1 - mu) * problem.lower_jvp(x, y, u)),
            y - 0.3 * (mu * grad_2 + (1 - mu) * problem.lower_grad_y(x, y)),
            u - (r @ r) / (r @ K @ r) * r,
        )
    for part, value in zip("xyu", (x, y, u), strict=True):
        np.testing.assert_allclose(result[part], value, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("method", "products", "joint"),
    [
        (BAMM(**STEPS), 1, 1),
        (BAMM(**STEPS, adjoint_step="steepest-descent"), 2, 1),
        (BAMM(**STEPS, variant="newton-point"), 1, 2),
        (BAMMNBO(**STEPS), 3, 1),
        (BAMMNBO(**STEPS, n_inner=0), 1, 1),
        (BAMMNBO(**STEPS, n_inner=5), 11, 1),
        (BAMMNBO(**STEPS, n_inner=5, variant="newton-point"), 11, 2),
    ],
)
def test_counts(problem, method, products, joint):
    counting = SecondOrder(problem)
    result = nbo.minimize(counting, np.zeros(3), method=method, tol=0, max_iter=23)
    expected = nbo.OracleCounts(
        upper_grad=joint, upper_hvp=products, upper_jvp=1, lower_grad_y=1, lower_hvp=products, lower_jvp=1
    )
    assert method.cost_per_iteration(5) == expected
    assert result.counts == 23 * expected
    assert result.counts + result.evaluation_counts == counting.seen()


@pytest.mark.parametrize("solver", METHODS)
def test_own_inner_steps_are_counted_for_both_levels(problem, solver):
    counting = SecondOrder(problem)
    method = solver(step_size=0.02)
    result = nbo.minimize(counting, np.zeros(3), method=method, tol=0, max_iter=9)
    assert result.counts + result.evaluation_counts == counting.seen()
    estimate = result.counts.lower_hvp - 9 * method.cost_per_iteration(5).lower_hvp
    assert estimate == result.counts.upper_hvp - 9 * method.cost_per_iteration(5).upper_hvp == 5


@pytest.mark.parametrize("solver", METHODS)
def test_the_text_of_the_cost(solver):
    parts = dict(reversed(part.split(" ")) for part in solver.cost.split(", "))
    T = getattr(solver(), "n_inner", 0)
    assert solver().cost_per_iteration(5) == nbo.OracleCounts(**{k: eval(v, {"T": T}) for k, v in parts.items()})


# --- where they go


@pytest.mark.parametrize(
    ("method", "most"),
    [
        (BAMM(step_size=0.2, inner_step_size=0.5), 350),
        (BAMM(step_size=0.2), 450),
        (BAMM(step_size=0.2, inner_step_size=0.5, adjoint_step="steepest-descent"), 450),
        (BAMM(step_size=0.5, inner_step_size=1.0), 180),
        (BAMMNBO(step_size=0.2, inner_step_size=0.5, n_inner=5), 420),
        (BAMMNBO(step_size=0.2), 420),
    ],
)
def test_the_toy_is_solved(method, most):
    """The minimisers of f and g agree at the solution, so that even this slow schedule leaves no bias."""
    problem = ConvexToy(100)
    x0, y0 = problem.start
    result = nbo.minimize(problem, x0, y0=y0, method=method, tol=1e-8, max_iter=1000)
    assert result.success and result.nit <= most
    np.testing.assert_allclose(np.concatenate([result.x, result.y]), 1, atol=1e-7)


def biased_solution(problem, weight):
    """The minimiser of f(x, y_w(x)), y_w the minimiser of weight f + (1 - weight) g, in closed form."""
    K = weight * problem.s * np.eye(problem.dim_y) + (1 - weight) * problem.H
    slope = np.linalg.solve(K, (1 - weight) * problem.B)
    offset = np.linalg.solve(K, (1 - weight) * problem.c + weight * problem.s * problem.d)
    matrix = problem.rho * np.eye(problem.dim_x) + problem.s * slope.T @ slope
    return np.linalg.solve(matrix, problem.rho * problem.e + problem.s * slope.T @ (problem.d - offset))


@pytest.mark.parametrize("solver", METHODS)
@pytest.mark.parametrize("own", [True, False])
def test_a_constant_weight_leads_to_its_biased_solution(solver, own):
    problem, errors = Quadratic.family(n=5, m=3, kappa=3), []
    for weight in (0.3, 0.1, 0.01, 0.0):
        inner = {} if own else {"inner_step_size": 0.9}
        method = solver(step_size=0.03, aggregation=weight, eval_every=100, **inner)
        result = nbo.minimize(problem, np.zeros(3), method=method, tol=1e-8, max_iter=5000)
        assert result.success, result.message
        np.testing.assert_allclose(result.x, biased_solution(problem, weight), atol=1e-6)
        errors.append(np.abs(result.x - problem.x_star()).max())
    assert errors[0] > 1e-2 and errors[2] < errors[1] / 5 and errors[1] < errors[0]
    assert errors[3] < 1e-6


@pytest.mark.parametrize("solver", METHODS)
def test_a_vanishing_weight_leads_to_the_solution(solver):
    problem = Quadratic.family(n=5, m=3, kappa=3)
    method = solver(step_size=0.03, inner_step_size=0.9, aggregation=PowerDecay(0.9, 1.5), eval_every=100)
    result = nbo.minimize(problem, np.zeros(3), method=method, tol=0, max_iter=2000)
    np.testing.assert_allclose(result.x, problem.x_star(), atol=1e-4)


def test_the_schedule_counts_from_the_first_iteration():
    assert BAMM().aggregation(0) == 0.9 and BAMM().aggregation(9) == pytest.approx(0.9 / 10**0.1)
    seen = []

    def schedule(k):
        seen.append(k)
        return 0.5

    nbo.minimize(ConvexToy(2), np.zeros(2), method=BAMM(**STEPS, aggregation=schedule), tol=0, max_iter=4)
    assert seen == [0, 1, 2, 3]


def test_the_right_hand_side_of_the_adjoint_is_the_gradient_of_f(problem):
    """Not that of phi: the fixed point u = K^{-1} grad_2 f tells them apart."""
    x = np.array([0.3, 0.1, -0.2])
    method = BAMM(step_size=1e-9, inner_step_size=0.7, aggregation=0.4)
    result = nbo.minimize(problem, x, method=method, tol=1e-12, max_iter=3000, bounds=(x, x))
    K = 0.4 * np.eye(5) + 0.6 * problem.H
    np.testing.assert_allclose(result.u, np.linalg.solve(K, problem.upper_grad(x, result.y)[1]), atol=1e-9)
    assert result.adjoint_residual <= 1e-11


@pytest.mark.parametrize("solver", METHODS)
def test_an_estimated_inner_step_is_renewed_when_the_curvature_grows(solver):
    """lambda_max of phi grows from 0.2 to 70 as the weight falls, far beyond twice the inverse of the first step."""
    family = Quadratic.family(4, 2, 2)
    steep = Quadratic(100 * family.H, family.B, np.ones(4), np.zeros(4), np.zeros(2), s=0.1, rho=1.0)
    method = solver(step_size=0.3, aggregation=lambda k: 0.999 if k < 5 else 0.3)
    result = nbo.minimize(steep, np.ones(2), method=method, tol=1e-8, max_iter=500)
    assert result.status in ("converged", "iteration_limit"), result.message
    np.testing.assert_allclose(result.x, biased_solution(steep, 0.3), atol=1e-6)
    np.testing.assert_allclose(steep.lower_grad_y(result.x, result.y) * 0.7 + 0.03 * result.y, 0, atol=1e-6)


def test_steepest_descent_does_not_make_the_inner_step_suspect():
    """It may enlarge the residual of u, which says nothing about rho: no estimate comes after the first iterations."""
    problem, x0 = LinearCase("binary").problem, np.full(4, -3.0)
    method = BAMM(step_size=0.1, aggregation=0.01, adjoint_step="steepest-descent", eval_every=100)
    early, late = (nbo.minimize(problem, x0, method=method, tol=0, max_iter=k).counts for k in (60, 300))
    assert late.lower_hvp - early.lower_hvp == 240 * 2


# --- guards


def test_steepest_descent_from_a_solution_is_no_division_by_zero(problem):
    """r = 0: f without y has u = 0 as its solution."""
    flat = Quadratic(problem.H, problem.B, problem.c, problem.d, problem.e, s=0.0)
    method = BAMM(**STEPS, adjoint_step="steepest-descent", aggregation=0.2)
    result = nbo.minimize(flat, np.zeros(3), method=method, tol=0, max_iter=5)
    np.testing.assert_array_equal(result.u, 0)
    assert result.counts == 5 * method.cost_per_iteration(5)


@pytest.mark.parametrize("size", [0.0, 1e-200, 1e-150, 1.0, 1e150])
def test_steepest_descent_at_any_scale(size):
    H = np.diag([1.0, 2.0, 4.0])
    r = size * np.array([1.0, -2.0, 0.5])
    rhs = np.stack([np.ones(3), r])
    found = SteepestAdjoint(0.5).solve(lambda V: V @ H, rhs)
    unit = np.array([1.0, -2.0, 0.5])
    best = size * (unit @ unit) / (unit @ H @ unit) * unit
    np.testing.assert_array_equal(found.solution[0], 0.5)
    np.testing.assert_allclose(found.solution[1], best, rtol=1e-12)
    assert found.n_products == 1 and np.isfinite(found.residual_norms).all()
    with pytest.raises(CurvatureError, match="g must be strongly convex"):
        SteepestAdjoint(0.5).solve(lambda V: -V, np.ones((2, 3)))


@pytest.mark.parametrize("solver", METHODS)
@pytest.mark.parametrize("bad", [{"step_size": 1e6}, {"inner_step_size": 1e8}])
def test_steps_far_too_large_diverge(problem, solver, bad):
    result = nbo.minimize(problem, np.ones(3), method=solver(**STEPS | bad), max_iter=3000)
    assert result.status == "diverged" and "smaller step_size" in result.message
    for part in "xyu":
        np.testing.assert_array_equal(result[part], result.best._asdict()[part])


def test_steepest_descent_that_overflows_diverges(problem):
    method = BAMM(step_size=1e80, inner_step_size=0.5, adjoint_step="steepest-descent")
    result = nbo.minimize(problem, np.ones(3), method=method, max_iter=300)
    assert result.status == "diverged" and np.isfinite(result.u).all()


@pytest.mark.parametrize("solver", METHODS)
def test_a_problem_without_second_derivatives_of_f_is_refused(problem, solver):
    counting = Required(problem)
    with pytest.raises(TypeError, match="does not define upper_hvp, upper_jvp, which method 'bamm"):
        nbo.minimize(counting, np.zeros(3), method=solver(**STEPS))
    assert counting.seen() == nbo.OracleCounts()


@pytest.mark.parametrize("solver", METHODS)
def test_a_badly_conditioned_lower_level_is_no_crash(solver):
    problem = Quadratic(np.diag([1.0, 1e-19]), np.eye(2), [1.0, 0.0], [0.0, 0.0], [0.0, 0.0])
    assert np.isfinite(nbo.minimize(problem, [0.1, 0.0], method=solver(step_size=0.05), max_iter=60).x).all()


# --- contracts


@pytest.mark.parametrize("solver", METHODS)
@pytest.mark.parametrize("own", [True, False])
def test_a_run_goes_on_exactly(problem, solver, own, tmp_path, monkeypatch):
    monkeypatch.setitem(REGISTRY, solver.name, solver)
    options = {"step_size": 0.02} | ({} if own else {"inner_step_size": 0.5})
    run = {"method": solver.name, "options": options, "tol": 0.0}
    straight = nbo.minimize(problem, np.zeros(3), max_iter=14, **run)
    nbo.minimize(problem, np.zeros(3), max_iter=5, **run).save(tmp_path / "run.npz")
    gone_on = nbo.resume(tmp_path / "run.npz", problem, max_iter=14)
    for part in "xyu":
        np.testing.assert_array_equal(gone_on[part], straight[part])
    assert gone_on.counts == straight.counts


@pytest.mark.parametrize("solver", METHODS)
def test_the_same_call_gives_the_same_bits_and_keeps_inputs(problem, solver):
    x0, y0, u0 = np.ones(3), np.ones(5), np.ones(5)
    method = solver(**STEPS)
    runs = [nbo.minimize(problem, x0, y0=y0, u0=u0, method=method, max_iter=40) for _ in range(2)]
    for part in "xyu":
        np.testing.assert_array_equal(runs[0][part], runs[1][part])
    for array in (x0, y0, u0):
        assert (array == 1).all()


@pytest.mark.parametrize("solver", METHODS)
def test_compiled_and_plain_problems_agree(solver):
    case = LinearCase("binary")
    method = solver(step_size=0.5)
    runs = [nbo.minimize(p, np.full(4, -2.0), method=method, max_iter=15, tol=0) for p in (case.problem, case.plain)]
    for part in "xyu":
        np.testing.assert_allclose(runs[0][part], runs[1][part], atol=1e-10)
    assert runs[0].counts == runs[1].counts


@pytest.mark.parametrize("method", [BAMM(**STEPS), BAMM(**STEPS, adjoint_step="steepest-descent"), BAMMNBO(**STEPS)])
def test_single_precision_stays(method):
    A, b, A_val, b_val = logistic_data()
    problem = nbo.problems.BinaryLogistic(A.astype(np.float32), b, A_val.astype(np.float32), b_val)
    state = State(0, np.full(5, -2.0), np.zeros(5, np.float32), np.zeros(5, np.float32))
    for _ in range(3):
        state = method.step(CountedProblem(problem), state, Box.unbounded(5), 0.0)
        assert state.y.dtype == state.u.dtype == np.float32


@pytest.mark.parametrize(
    ("solver", "options", "message"),
    [
        (BAMM, {}, "step_size: method 'bamm' needs one"),
        (BAMMNBO, {}, "step_size: method 'bamm-nbo' needs one"),
        (BAMM, STEPS | {"aggregation": 1.0}, r"aggregation: found 1; expected a number in \[0, 1\)"),
        (BAMM, STEPS | {"aggregation": -0.5}, "aggregation: found -0.5"),
        (BAMM, STEPS | {"aggregation": PowerDecay}, "aggregation: found the class PowerDecay"),
        (BAMM, STEPS | {"aggregation": "slow"}, r"aggregation: found 'slow' \(str\)"),
        (BAMM, STEPS | {"aggregation": lambda k: 1.0}, r"aggregation \(the schedule at k = 0\): found 1; .*\[0, 1\)"),
        (BAMM, STEPS | {"adjoint_step": "exact"}, "adjoint_step: found 'exact'; expected one of 'fixed', 'steepest"),
        (BAMM, STEPS | {"inner_step_size": 0}, "inner_step_size: found 0"),
        (BAMMNBO, STEPS | {"n_inner": -1}, "n_inner: found -1"),
        (BAMMNBO, STEPS | {"aggregation": PowerDecay(2.0)}, "aggregation: found 2"),
    ],
)
def test_bad_options_are_named(problem, solver, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        nbo.minimize(problem, np.zeros(3), method=solver(**options))


def test_a_weight_of_one_is_refused_later_too():
    assert aggregation_at("aggregation", PowerDecay(0.9, 0.1), 0) == 0.9
    with pytest.raises(ValueError, match=r"aggregation \(the schedule at k = 3\): found 1; expected a number in"):
        aggregation_at("aggregation", lambda k: k / 3, 3)
