"""SHINE: u from the pairs of L-BFGS, with all samples and on minibatches."""

import dataclasses

import numpy as np
import pytest
from reference_problems import LinearCase, Overriding, PlainLogistic, SelfCounting, logistic_data

import nbo
from nbo.lbfgs import LBFGS
from nbo.oracles import CountedProblem, OracleCounts
from nbo.quasi_newton import inverse_product
from nbo.solvers.driver import State
from nbo.solvers.shine import SHINE
from nbo.upper_steps import Scales

DATA = logistic_data(300, 280, 5)
X0 = np.full(5, -2.0)


@pytest.fixture
def problem():
    return nbo.problems.Quadratic.family(n=5, m=3, kappa=8)


def nonquadratic():
    return nbo.problems.NonQuadratic([[1.0, 0.2], [-0.3, 0.8]], [2.0, -1.5], [0.0, 0.5], mu=0.2, L=1.0)


def dense_inverse(pairs, n):
    """The inverse BFGS matrix by its textbook recursion, from s'r/r'r I of the newest pair."""
    s, r = pairs[-1]
    B = (s @ r) / (r @ r) * np.eye(n)
    for s, r in pairs:
        V = np.eye(n) - np.outer(r, s) / (s @ r)
        B = V.T @ B @ V + np.outer(s, s) / (s @ r)
    return B


def directions(problem, solver, **memory):
    """One iteration from x = 1, y = u = 0."""
    n = problem.dim_y
    return solver.directions(
        CountedProblem(problem), State(0, np.ones(problem.dim_x), np.zeros(n), np.zeros(n), memory=memory)
    )


# What u is


def test_u_is_the_dense_bfgs_matrix_times_the_gradient(problem):
    solver = SHINE(n_lower_steps=6, memory=3)
    found = directions(problem, solver)
    end = LBFGS(6, memory=3).minimize(CountedProblem(problem), np.ones(3), np.zeros(5))
    assert len(end.pairs) == 3
    grad_1, grad_2 = problem.upper_grad(np.ones(3), end.point.y)
    u = dense_inverse(end.pairs, 5) @ grad_2
    np.testing.assert_array_equal(found.y, end.point.y)
    np.testing.assert_allclose(found.u, u, atol=1e-10)
    np.testing.assert_allclose(found.d_x, grad_1 - problem.lower_jvp(np.ones(3), found.y, u), atol=1e-10)
    assert found.adjoint_residual == pytest.approx(np.linalg.norm(problem.H @ u - grad_2))
    assert found.lower_grad_norm == pytest.approx(np.linalg.norm(problem.lower_grad_y(np.ones(3), found.y)))
    assert found.correction == pytest.approx(found.u @ problem.lower_grad_y(np.ones(3), found.y))


def test_with_exact_pairs_u_is_exact(problem):
    """n conjugate steps, here along eigenvectors, are all that there is to know about H."""
    values, vectors = np.linalg.eigh(problem.H)
    pairs = tuple((v, value * v) for value, v in zip(values, vectors.T, strict=True))
    x, y = np.ones(3), problem.y_star(np.ones(3))
    state = State(0, x, y, np.zeros(5), memory={"pairs": pairs}, scales=Scales(1.0, 1.0))
    found = SHINE().directions(CountedProblem(problem), state)
    np.testing.assert_allclose(found.u, problem.u_star(x), atol=1e-12)
    np.testing.assert_allclose(found.d_x, problem.grad_phi(x), atol=1e-12)


def test_the_identity_is_the_gradient_itself_and_biased(problem):
    found = directions(problem, SHINE(inverse="identity"))
    np.testing.assert_array_equal(found.u, problem.upper_grad(np.ones(3), found.y)[1])
    solver = SHINE(inverse="identity", step_size=0.05)
    result = nbo.minimize(problem, np.zeros(3), method=solver, tol=1e-8, max_iter=1000)
    HB, Hc = np.linalg.solve(problem.H, problem.B), np.linalg.solve(problem.H, problem.c)
    biased = np.linalg.solve(
        problem.rho * np.eye(3) + problem.s * problem.B.T @ HB,
        problem.rho * problem.e + problem.s * problem.B.T @ (problem.d - Hc),
    )
    np.testing.assert_allclose(result.x, biased, atol=1e-8)
    assert np.abs(biased - problem.x_star()).max() > 0.01
    assert result.status == "iteration_limit" and result.hypergrad_norm < 1e-8 < result.adjoint_residual


def test_refinement_is_conjugate_gradients_from_there(problem):
    plain, refined = (directions(problem, SHINE(refinement=k)) for k in (0, 2))
    grad_2 = problem.upper_grad(np.ones(3), plain.y)[1]
    u = plain.u
    r = grad_2 - problem.H @ u
    p = r
    for _ in range(2):
        t = (r @ r) / (p @ problem.H @ p)
        u, r_new = u + t * p, r - t * problem.H @ p
        p, r = r_new + (r_new @ r_new) / (r @ r) * p, r_new
    np.testing.assert_allclose(refined.u, u, atol=1e-12)
    assert refined.adjoint_residual == pytest.approx(np.linalg.norm(problem.H @ u - grad_2), rel=1e-8)
    assert refined.adjoint_residual < plain.adjoint_residual


def test_awareness_adds_exact_pairs_along_u(problem):
    pairs = directions(problem, SHINE(n_lower_steps=4, opa_every=2)).memory["pairs"]
    assert len(pairs) == 6
    start = CountedProblem(problem)
    for at, steps in ((2, 2), (5, None)):
        s, r = pairs[at]
        np.testing.assert_allclose(r, problem.H @ s, atol=1e-12)
        if steps:  # the first extra pair: t B grad_2 f, as long as the last step
            end = LBFGS(steps).minimize(start, np.ones(3), np.zeros(5))
            direction = inverse_product(end.pairs, problem.upper_grad(np.ones(3), end.point.y)[1])
            np.testing.assert_allclose(
                s, direction * np.linalg.norm(pairs[1][0]) / np.linalg.norm(direction), atol=1e-9
            )
    more = SHINE(n_lower_steps=4, opa_every=2).cost_per_iteration(5) - SHINE(n_lower_steps=4).cost_per_iteration(5)
    assert more == OracleCounts(upper_grad=2, lower_grad_y=2)


def test_awareness_improves_u():
    problem = nbo.problems.Quadratic.family(n=10, m=3, kappa=20)
    plain, aware = (directions(problem, SHINE(n_lower_steps=10, memory=20, opa_every=k)) for k in (None, 1))
    assert aware.adjoint_residual < 0.01 * plain.adjoint_residual


def test_the_product_of_the_residual_is_kept_as_a_pair(problem):
    first = directions(problem, SHINE())
    ((s, r),) = first.memory["products"]
    np.testing.assert_array_equal(s, first.u)
    np.testing.assert_allclose(r, problem.H @ first.u, atol=1e-14)
    x, y = np.ones(3), problem.y_star(np.ones(3))
    state, solver = State(1, x, y, first.u, memory=first.memory, scales=Scales(1.0, 1.0)), SHINE()
    residuals = []
    for _ in range(40):
        found = solver.directions(CountedProblem(problem), state)
        residuals.append(found.adjoint_residual)
        state = dataclasses.replace(state, u=found.u, memory=found.memory)
    assert residuals[-1] < 1e-4 * residuals[0]
    assert "products" not in directions(problem, SHINE(reuse_product=False)).memory
    assert not directions(problem, SHINE(keep_pairs=False)).memory


def test_the_method_of_the_paper_keeps_an_error_in_u(problem):
    solver = SHINE(reuse_product=False, step_size=0.02)
    result = nbo.minimize(problem, np.zeros(3), method=solver, tol=1e-8, max_iter=400)
    assert result.adjoint_residual > 1e-4 and result.status == "iteration_limit"


@pytest.mark.parametrize("options", [{}, {"step_size": 0.02}, {"refinement": 5}, {"opa_every": 5}, {"memory": 30}])
def test_reaches_the_closed_form(problem, options):
    result = nbo.minimize(problem, np.zeros(3), method=SHINE(**options), tol=1e-8, max_iter=5000)
    assert result.status == "converged", result.message
    np.testing.assert_allclose(result.x, problem.x_star(), atol=1e-6)
    np.testing.assert_allclose(result.y, problem.y_star(result.x), atol=1e-6)
    np.testing.assert_allclose(result.u, problem.u_star(result.x), atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"step_size": 0.1}])
def test_a_nonquadratic_problem(options):
    problem = nonquadratic()
    result = nbo.minimize(problem, [0.5, 0.5], method=SHINE(**options), tol=1e-8, max_iter=5000)
    assert result.success, result.message
    np.testing.assert_allclose(problem.grad_phi(result.x), 0, atol=1e-6)


@pytest.mark.parametrize("factor", [-1.0, 0.0])
def test_a_hessian_that_is_not_positive_definite_is_reported(factor):
    faulty = Overriding(lower_hvp=lambda x, y, v: factor * v)
    with pytest.raises(ArithmeticError, match=r"the Hessian of g in y has curvature .*strongly convex in y"):
        nbo.minimize(faulty, np.zeros(2), method=SHINE())


# The contract


@pytest.mark.parametrize("options", [{}, {"step_size": 0.01}, {"refinement": 2, "opa_every": 1, "step_size": 0.01}])
def test_counts(problem, options):
    counting, solver = SelfCounting(problem), SHINE(**options)
    result = nbo.minimize(counting, np.zeros(3), method=solver, tol=0, max_iter=20)
    assert result.counts + result.evaluation_counts == counting.seen()
    if not options:
        return
    most = 20 * solver.cost_per_iteration(5)
    assert all(found <= getattr(most, kind) for kind, found in result.counts.as_dict().items())
    assert result.counts.lower_hvp <= most.lower_hvp == 20 * (1 + solver.refinement)
    assert result.counts.lower_jvp == 20


def test_an_ordinary_iteration_costs_one_point_a_step(problem):
    view = CountedProblem(problem)
    SHINE(n_lower_steps=3).directions(view, State(0, np.ones(3), np.zeros(5), np.zeros(5)))
    assert view.counts == OracleCounts(upper_grad=1, lower_value=4, lower_grad_y=4, lower_hvp=1, lower_jvp=1)


def test_the_same_call_gives_the_same_bits_and_keeps_inputs(problem):
    x0, y0, u0 = np.ones(3), np.ones(5), np.ones(5)
    first, second = (nbo.minimize(problem, x0, y0=y0, u0=u0, method=SHINE(), max_iter=40) for _ in range(2))
    for part in "xyu":
        np.testing.assert_array_equal(first[part], second[part])
    assert first.counts == second.counts and first.method == "shine"
    assert all((a == 1).all() for a in (x0, y0, u0))


@pytest.mark.parametrize("options", [{}, {"step_size": 0.05, "opa_every": 2, "refinement": 1}])
@pytest.mark.parametrize("kind", ["quadratic", "plain32"])
def test_a_resumed_run_is_the_straight_one(problem, tmp_path, options, kind):
    if kind == "plain32":
        A, b, A_val, b_val = logistic_data(61, 43, 7)
        problem = PlainLogistic(A.astype(np.float32), b, A_val.astype(np.float32), b_val)
    x0 = np.full(problem.dim_x, -1.0)
    straight = nbo.minimize(problem, x0, method=SHINE(**options), tol=0, max_iter=20)
    assert straight.chosen == {}
    for half in (1, 7):
        nbo.minimize(problem, x0, method=SHINE(**options), tol=0, max_iter=half).save(tmp_path / "run.npz")
        resumed = nbo.resume(tmp_path / "run.npz", problem, max_iter=20, method=SHINE(**options))
        for part in "xyu":
            assert resumed[part].tobytes() == straight[part].tobytes()
        assert resumed.counts == straight.counts


def test_a_step_far_too_large_diverges_to_the_best_finite_point(problem):
    result = nbo.minimize(problem, np.ones(3), y0=np.full(5, 1e6), method=SHINE(step_size=1e6))
    assert result.status == "diverged" and np.isfinite(result.x).all() and result.fun == result.best.fun


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_compiled_problem(dtype):
    A, b, A_val, b_val = logistic_data()
    problem = nbo.problems.BinaryLogistic(A.astype(dtype), b, A_val.astype(dtype), b_val, prior=(-3.0, 1.0))
    result = nbo.minimize(problem, np.full(5, -3.0), method=SHINE(), tol=1e-4)
    assert result.success, result.message
    assert np.abs(nbo.hypergradient(problem, result.x).grad).max() < 1e-3


def test_a_badly_conditioned_problem_ends_with_a_message():
    problem = nbo.problems.Quadratic.family(n=12, m=3, kappa=1e5)
    result = nbo.minimize(problem, np.zeros(3), method=SHINE(), tol=1e-6, max_iter=100)
    assert np.isfinite(result.x).all() and "adjoint_residual" in result.message


# Minibatches


def run(problem, *, max_iter=12, random_state=5, **options):
    options = {"step_size": 0.1, "batch_size": 32} | options
    return nbo.minimize(problem, X0, method=SHINE(**options), max_iter=max_iter, random_state=random_state)


@pytest.mark.parametrize("refinement", [0, 2])
def test_minibatch_calls_and_samples_are_what_the_problem_sees(refinement):
    problem = PlainLogistic(*DATA)
    result = run(problem, max_iter=21, refinement=refinement, opa_every=2)
    calls, samples = problem.seen()
    assert result.counts + result.evaluation_counts == calls
    evaluated = OracleCounts(upper_value=280 * result.evaluation_counts.upper_value)
    assert result.samples + evaluated == samples
    assert result.counts.lower_hvp == 21 * (refinement + 1 if refinement else 0)
    assert result.counts.upper_grad == 21 * 3 and result.counts.lower_jvp == 21
    assert result.samples.lower_jvp == 300 + 300 + 30  # two epochs of ten blocks and one block more
    assert np.isnan(result.adjoint_residual) == (refinement == 0)


def test_a_minibatch_iteration_is_one_on_the_problem_of_its_batches():
    problem = PlainLogistic(*DATA)
    seen = []

    class Watching(PlainLogistic):
        def lower_jvp(self, x, y, u, batch=None):
            seen.append(("lower", batch))
            return super().lower_jvp(x, y, u, batch)

        def upper_grad(self, x, y, batch=None):
            seen.append(("upper", batch))
            return super().upper_grad(x, y, batch)

    result = run(Watching(*DATA), max_iter=3)
    x, y = X0, np.zeros(5)
    A, b, A_val, b_val = DATA
    for (_, upper), (_, lower) in zip(seen[::2], seen[1::2], strict=True):
        batch = PlainLogistic(A[lower], b[lower], A_val[upper], b_val[upper])
        end = LBFGS(5).minimize(CountedProblem(batch), x, y)
        y = end.point.y
        grad_1, grad_2 = batch.upper_grad(x, y)
        u = inverse_product(end.pairs, grad_2)
        x = x - 0.1 * (grad_1 - batch.lower_jvp(x, y, u))
    for found, expected in ((result.x, x), (result.y, y), (result.u, u)):
        np.testing.assert_allclose(found, expected, atol=1e-12)
    assert problem.seen()[0] == OracleCounts()


def test_an_epoch_uses_each_sample_once():
    lower, upper = [], []

    class Watching(PlainLogistic):
        def lower_jvp(self, x, y, u, batch=None):
            lower.append(batch)
            return super().lower_jvp(x, y, u, batch)

        def upper_grad(self, x, y, batch=None):
            upper.append(batch)
            return super().upper_grad(x, y, batch)

    run(Watching(*DATA), max_iter=20)
    for drawn, blocks, n in ((lower, 10, 300), (upper, 9, 280)):
        epochs = [drawn[:blocks], drawn[blocks : 2 * blocks]]
        for epoch in epochs:
            np.testing.assert_array_equal(np.sort(np.concatenate(epoch)), np.arange(n))
        assert [tuple(batch) for batch in epochs[0]] != [tuple(batch) for batch in epochs[1]]


def test_a_minibatch_run_is_that_of_its_seed():
    first, same, other = (run(PlainLogistic(*DATA), random_state=seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first.x, same.x)
    assert (first.x != other.x).any()
    fresh = run(PlainLogistic(*DATA), random_state=None)
    again = run(PlainLogistic(*DATA), random_state=fresh.chosen["random_state"])
    np.testing.assert_array_equal(fresh.x, again.x)
    assert first.chosen == {"random_state": 5}


@pytest.mark.parametrize("options", [{}, {"keep_pairs": True, "refinement": 1}])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_resumed_minibatch_run_is_the_straight_one(tmp_path, options, dtype):
    A, b, A_val, b_val = DATA
    problem = PlainLogistic(A.astype(dtype), b, A_val.astype(dtype), b_val)
    options = {"eval_every": 5} | options
    straight = run(problem, max_iter=26, random_state=None, **options)
    seed = straight.chosen["random_state"]
    for half in (0, 3, 13):
        run(problem, max_iter=half, random_state=seed, **options).save(tmp_path / "run.npz")
        method = SHINE(step_size=0.1, batch_size=32, **options)
        resumed = nbo.resume(tmp_path / "run.npz", problem, max_iter=26, method=method)
        for part in "xyu":
            assert resumed[part].tobytes() == straight[part].tobytes()
            assert resumed[part].dtype == np.float64
        assert (resumed.counts, resumed.samples, resumed.chosen) == (straight.counts, straight.samples, straight.chosen)


def test_limits_of_minibatch_runs():
    problem = PlainLogistic(*DATA)
    method = SHINE(step_size=0.1, batch_size=32)
    result = nbo.minimize(problem, X0, method=method, random_state=0)
    assert result.status == "iteration_limit" and result.nit == 100  # ten epochs of ten blocks
    np.testing.assert_array_equal(result.history.iteration, np.arange(0, 101, 5))
    assert result.fun < result.history.value[0]
    whole = nbo.minimize(problem, X0, method=SHINE(batch_size="full"), tol=1e-3)
    assert whole.success and whole.chosen == {}


def test_the_default_batch_is_capped_and_otherwise_needs_a_step_size():
    A, b, A_val, b_val = DATA
    whole = PlainLogistic(A[:256], b[:256], A_val[:100], b_val[:100])
    assert nbo.minimize(whole, X0, method=SHINE(), max_iter=3).samples.lower_jvp % 256 == 0
    with pytest.raises(
        ValueError, match=r"^step_size: method 'shine' needs one on minibatches \(here 256 of 300 lower"
    ):
        nbo.minimize(PlainLogistic(*DATA), X0, method=SHINE())
    for size in (281, 301):
        with pytest.raises(ValueError, match=f"^batch_size: found {size}; expected at most"):
            nbo.minimize(PlainLogistic(*DATA), X0, method=SHINE(step_size=0.1, batch_size=size))


@pytest.mark.parametrize("kind", ["binary", "cleaning"])
def test_compiled_and_plain_minibatches_agree(kind):
    """Among them a problem whose x is indexed by sample."""
    case = LinearCase(kind)
    x0, method = np.full(case.problem.dim_x, -1.0), SHINE(step_size=0.5, batch_size=8, refinement=2)
    runs = [
        nbo.minimize(problem, x0, method=method, max_iter=6, random_state=1) for problem in (case.problem, case.plain)
    ]
    for part in "xyu":
        np.testing.assert_allclose(runs[0][part], runs[1][part], atol=1e-8)
    assert runs[0].samples == runs[1].samples


def test_a_view_of_samples_counts_where_it_came_from():
    problem = PlainLogistic(*DATA)
    view = CountedProblem(problem)
    lower, upper = np.arange(7), np.arange(5, 16)
    part = view.over_samples(lower, upper)
    x, y = X0, np.ones(5)
    A, b, A_val, b_val = DATA
    mean = PlainLogistic(A[:7], b[:7], A_val[5:16], b_val[5:16])
    model = part.lower_model(x, y)
    assert model.value() == pytest.approx(mean.lower_value(x, y))
    np.testing.assert_allclose(model.grad_y(), mean.lower_grad_y(x, y))
    np.testing.assert_allclose(model.jvp(y), mean.lower_jvp(x, y, y))
    np.testing.assert_allclose(model.hvp(np.eye(5)[:2]), [mean.lower_hvp(x, y, v) for v in np.eye(5)[:2]])
    assert part.upper_value(x, y) == pytest.approx(mean.upper_value(x, y))
    np.testing.assert_allclose(part.upper_grad(x, y)[1], mean.upper_grad(x, y)[1])
    view.upper_value(x, y)
    view.over_samples(None, upper).lower_model(x, y).value()
    assert (view.counts, view.samples) == problem.seen()
    assert view.samples == OracleCounts(
        upper_value=11 + 280, upper_grad=11, lower_value=7 + 300, lower_grad_y=7, lower_hvp=14, lower_jvp=7
    )


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"n_lower_steps": 0}, "n_lower_steps"),
        ({"memory": 0}, "memory"),
        ({"initial_step": 0}, "initial_step"),
        ({"inverse": "exact"}, "inverse"),
        ({"refinement": -1}, "refinement"),
        ({"opa_every": 0}, "opa_every"),
        ({"opa_every": 6}, "opa_every"),
        ({"keep_pairs": 1}, "keep_pairs"),
        ({"reuse_product": None}, "reuse_product"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": "all"}, "batch_size"),
        ({"eval_every": 0}, "eval_every"),
        ({"step_size": -1.0}, "step_size"),
    ],
)
def test_bad_options(options, error):
    with pytest.raises((ValueError, TypeError), match=f"^{error}: found"):
        SHINE(**options)
