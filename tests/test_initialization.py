"""BOX 1 and BOX 2: where they end, what they cost, and how `minimize` uses them."""

import dataclasses
import math

import numpy as np
import pytest
from reference_problems import SelfCounting
from theory_instances import instance, non_quadratic, on_data, rows

import nbo
from nbo.initialization import Box1, Box2, box1, box2, in_box1, in_box2
from nbo.theory import NoConstantsError, ProblemConstants, boxes

CLASSES = ("quadratic:10", "non-quadratic:8", "binary", "multinomial", "ridge", "hyper-cleaning")


def distances(problem, x, y, u):
    """How far y and u are from accurate solutions."""
    h = nbo.hypergradient(problem, x, tol=1e-11)
    return np.linalg.norm(y - h.y), np.linalg.norm(u - h.u)


def random_start(problem, x0, rng):
    """A point anywhere around, and an upper point within the bounds."""
    y0, u0 = (10 ** rng.uniform(-2, 2) * rng.standard_normal(problem.dim_y) for _ in range(2))
    return np.clip(x0 + 0.5 * rng.standard_normal(x0.size), *problem.bounds), y0, u0


@pytest.mark.parametrize("name", CLASSES)
def test_box1_ends_in_the_box_from_anywhere(name):
    problem, x0 = instance(name)
    c, rng = problem.constants(), np.random.default_rng(0)
    radii, rate = boxes.box1(c), boxes.log_rate(1 / c.L_g1, c)
    for _ in range(50):
        x, y0, u0 = random_start(problem, x0, rng)
        start = box1(problem, x, c, y0=y0, u0=u0)
        e_y, e_u = distances(problem, x, start.y, start.u)
        assert e_y <= min(radii.y, start.membership.y_bound) + 1e-12
        assert e_u <= min(radii.u, start.membership.u_bound) * (1 + 1e-12) + 1e-12
        assert start.membership.inside and in_box1(problem, x, start.y, start.u, c)
        # the cost is what the formulas say, up to the steps on u that the certificate needs beyond them
        before = np.linalg.norm(problem.lower_grad_y(x, y0))
        assert max(0, math.ceil(2 * math.log(c.mu * radii.y / before) / rate)) == start.N_0
        after = np.linalg.norm(problem.lower_grad_y(x, start.y))
        reach = np.linalg.norm(u0) + (c.L1 / c.mu**2 * after + c.r_u if c.L_f0 < np.inf else np.inf)
        if reach < np.inf:
            assert max(0, math.ceil(math.log(radii.u / 2 / reach) / rate)) == start.Q_0
        assert 0 <= start.n_linear_steps - start.Q_0 <= max(0, math.ceil(math.log(4 * c.q) / -rate))
        assert start.counts == nbo.OracleCounts(
            upper_grad=1, lower_grad_y=start.N_0 + 1, lower_hvp=start.n_linear_steps + 1
        )


def test_box1_from_zero_saves_a_product_and_changes_nothing_given():
    problem, x0 = instance("non-quadratic:8")
    y0 = np.full(2, 3.0)
    start = box1(problem, x0, y0=y0)
    assert start.counts.lower_hvp == start.n_linear_steps and (y0 == 3).all()
    assert not np.shares_memory(start.y, y0)


def test_box1_counts_what_a_problem_sees():
    inner, x0 = instance("non-quadratic:8")
    problem = SelfCounting(inner)
    start = box1(problem, x0, inner.constants(), u0=np.ones(2))
    assert problem.seen() == start.counts
    again = SelfCounting(inner)
    res = nbo.minimize(again, x0, initialization=Box1(constants=inner.constants()), max_iter=4, tol=0.0)
    assert again.seen() == res.counts + res.evaluation_counts
    assert res.history.lower_grad_y[0] == res.initialization.counts.lower_grad_y == res.initialization.N_0 + 1


def test_a_point_inside_takes_no_steps_on_y():
    problem, x0 = instance("non-quadratic:8")
    start = box1(problem, x0, y0=problem.y_star(x0), u0=problem.u_star(x0))
    assert start.N_0 == 0 and start.counts.lower_grad_y == 1
    assert start.membership.inside


def test_one_step_does_where_a_step_does_all():
    """errata E8: beta_0 mu = 1."""
    family = nbo.problems.Quadratic.family(n=5, m=3, kappa=1)
    start = box1(family, np.ones(3), y0=np.full(5, 1e3))
    assert start.N_0 == 1 and np.allclose(start.y, family.y_star(np.ones(3)))


def test_the_unit_of_f_matters_only_with_delta():
    """errata A10: with delta in proportion to f the same steps are taken."""
    x0 = np.full(2, 0.5)
    starts = [
        box1(non_quadratic(8, s=s, rho=0.01 * s), x0, y0=np.ones(2), u0=np.full(2, s), delta=s) for s in (1.0, 100.0)
    ]
    assert starts[0].N_0 == starts[1].N_0 and starts[0].Q_0 == starts[1].Q_0
    assert np.allclose(starts[1].u, 100 * starts[0].u)
    assert box1(non_quadratic(8, s=100.0, rho=1.0), x0, y0=np.ones(2)).N_0 >= starts[0].N_0


def test_membership_is_certified_by_bounds_of_the_distances():
    problem, x = instance("non-quadratic:8")
    c, rng = problem.constants(), np.random.default_rng(1)
    radii = boxes.box1(c)
    for part in (0.0, 0.02, 0.5, 0.99, 1.01, 3.0):
        towards_y, towards_u = rng.standard_normal((2, 2))
        y = problem.y_star(x) + part * radii.y * towards_y / np.linalg.norm(towards_y)
        u = problem.u_star(x) + part * radii.u * towards_u / np.linalg.norm(towards_u)
        found = in_box1(problem, x, y, u)
        assert found.y_bound >= part * radii.y * (1 - 1e-9) and found.u_bound >= part * radii.u * (1 - 1e-9)
        assert not (found.inside and part > 1) and bool(found) == found.inside
    assert in_box1(problem, x, problem.y_star(x), problem.u_star(x)).inside


def mild():
    """A finite sum whose BOX 2 has batches that can be had."""
    problem = on_data("binary")
    problem.bounds = (0.0, 0.2)
    return problem, np.full(4, 0.1)


def test_box2_is_in_its_box_on_average():
    problem, x0 = mild()
    c = problem.constants()
    radii, starts = boxes.box2(c), []
    for seed in range(60):
        starts.append(box2(problem, x0, c, y0=np.full(4, 5.0), u0=np.full(4, -5.0), random_state=seed))
    squares = np.mean([np.square(distances(problem, x0, s.y, s.u)) for s in starts], axis=0)
    assert squares[0] <= radii.y**2 and squares[1] <= radii.u**2
    found = in_box2(problem, x0, [s.y for s in starts], [s.u for s in starts], c)
    assert found.inside and found.y_bound**2 >= squares[0] and found.u_bound**2 >= squares[1]
    # with single samples a step it is not
    single = dataclasses.replace(c, sigma_f1=0.0, sigma_g1=0.0, sigma_g2=0.0)
    noisy = [box2(problem, x0, single, random_state=seed) for seed in range(60)]
    squares = np.mean([np.square(distances(problem, x0, s.y, s.u)) for s in noisy], axis=0)
    assert squares[0] > radii.y**2


def test_box2_costs_what_its_formulas_say():
    problem, x0 = mild()
    start = box2(problem, x0, random_state=0)
    sizes = start.batches
    n, n_val = problem.n_samples_lower, problem.n_samples_upper
    assert start.samples.lower_grad_y == 2 * n + start.N_0 * sizes.gradient
    assert start.samples.lower_hvp == n + start.Q_0 * sizes.hessian
    assert start.samples.upper_grad == n_val + start.Q_0 * sizes.upper
    again = box2(problem, x0, random_state=0)
    assert (again.y == start.y).all() and (again.u == start.u).all()
    assert (box2(problem, x0, random_state=1).y != start.y).any()


def test_means_over_large_batches_are_drawn_in_parts(monkeypatch):
    """Parts of a batch are weighted by their sizes."""
    import nbo.initialization as module

    problem, x0 = mild()
    c = problem.constants()
    noiseless = dataclasses.replace(c, sigma_f1=0.0, sigma_g2=0.0)
    whole = box2(problem, x0, noiseless, random_state=0)
    monkeypatch.setattr(module, "_CHUNK", 100)
    parts = box2(problem, x0, noiseless, random_state=0)
    assert parts.samples.lower_grad_y == whole.samples.lower_grad_y
    assert parts.counts.lower_grad_y > whole.counts.lower_grad_y
    radius = boxes.box2(c).y
    assert distances(problem, x0, parts.y, parts.u)[0] < 3 * radius


@pytest.mark.parametrize("method", ["nbo-gd", "amigo-cg", "nsbo-sgd", "f2sa", "saba"])
def test_minimize_starts_in_the_box(method):
    problem, x0 = mild()
    stochastic = nbo.methods()[method].kind == "stochastic"
    options = {"step_size": 1e-3}
    settings = {"method": method, "options": options, "max_iter": 3, "random_state": 0}
    res = nbo.minimize(problem, x0, initialization="box1", **settings)
    start = box1(problem, x0)
    assert res.initialization.N_0 == start.N_0 and (res.initialization.y == start.y).all()
    u0 = {} if method == "f2sa" else {"u0": start.u}
    plain = nbo.minimize(problem, x0, y0=start.y, **u0, **settings)
    assert (res.x == plain.x).all() and (res.y == plain.y).all() and (res.u == plain.u).all()
    assert res.counts == plain.counts + start.counts and res.samples == plain.samples + start.samples
    assert plain.initialization is None
    assert res.history.iteration[0] == 0 and res.history.lower_grad_y[0] >= start.counts.lower_grad_y
    if stochastic:
        drawn = [nbo.minimize(problem, x0, initialization="box2", **settings) for _ in range(2)]
        assert (drawn[0].x == drawn[1].x).all() and (drawn[0].initialization.y == drawn[1].initialization.y).all()
        assert drawn[0].initialization.batches.gradient > 1


def test_a_run_with_an_initialisation_resumes(tmp_path):
    problem, x0 = mild()
    settings = {"method": "nbo-gd", "options": {"step_size": 1e-3}, "initialization": "box1", "tol": 0.0}
    nbo.minimize(problem, x0, max_iter=3, **settings).save(tmp_path / "run.npz")
    resumed = nbo.resume(tmp_path / "run.npz", problem, max_iter=6)
    straight = nbo.minimize(problem, x0, max_iter=6, **settings)
    assert (resumed.x == straight.x).all() and resumed.counts == straight.counts
    assert resumed.initialization is None


def test_bounds_of_a_run_are_the_region_of_the_constants():
    problem, _ = instance("binary")
    x0 = np.full(4, -1.0)
    narrow = nbo.minimize(problem, x0, bounds=(-1.1, -0.9), initialization="box1", max_iter=1)
    wide = nbo.minimize(problem, x0, initialization="box1", max_iter=1)
    assert narrow.initialization.N_0 < wide.initialization.N_0


class Stopping(nbo.problems.NonQuadratic):
    """It is interrupted in one of its gradients."""

    left = 10

    def lower_grad_y(self, x, y):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return super().lower_grad_y(x, y)


def test_interrupts_and_time_limits_end_an_initialisation():
    inner, x0 = instance("non-quadratic:32")
    problem = Stopping(inner.B, inner.d, inner.e, mu=inner.mu, L=inner.L)
    res = nbo.minimize(problem, x0, initialization="box1", y0=np.full(2, 50.0))
    assert res.status == "interrupted" and "interrupted in the initialisation" in res.message
    assert res.nit == 0 and (res.x == x0).all() and np.isfinite(res.y).all() and res.initialization is None
    assert "after its 8 steps so far" in res.message and res.counts.lower_grad_y == 10
    Stopping.left = 10**9
    res = nbo.minimize(problem, x0, initialization="box1", y0=np.full(2, 50.0), max_time=0.0)
    assert res.status == "time_limit" and "in the initialisation" in res.message and res.nit == 0


def test_float32():
    problem, x0 = mild()
    (A, scores), (A_val, scores_val) = rows()
    parts = [A, np.where(scores[:, 0] > 0, 1, -1), A_val, np.where(scores_val[:, 0] > 0, 1, -1)]
    single = nbo.problems.BinaryLogistic(*(part.astype(np.float32) for part in parts))
    single.bounds = problem.bounds
    start = box1(single, x0, y0=np.full(4, 5.0))
    assert single.dtype == np.float32 and start.membership.inside and start.y.dtype == np.float64
    assert np.allclose(start.y, box1(problem, x0, y0=np.full(4, 5.0)).y, atol=1e-5)


def test_bad_arguments_are_refused():
    problem, x0 = instance("binary")
    c = problem.constants()
    toy = nbo.problems.ConvexToy(3)
    for call, message in (
        (lambda: box1(toy, np.zeros(3)), "constants: ConvexToy has none; expected a ProblemConstants"),
        (lambda: box1(problem, x0, beta_0=10.0), "beta_0: found 10; expected at most 1/L_g1"),
        (lambda: box1(problem, x0, beta_0=0.0), "beta_0: found 0.0; expected a positive number"),
        (lambda: box1(problem, x0[:2], c), r"x0: found shape \(2,\); expected a vector of shape \(4,\)"),
        (lambda: box1(problem, x0, 3.0), "constants: found float; expected a ProblemConstants"),
        (lambda: box1(problem, x0, delta=0), "delta: found 0"),
        (lambda: box1(problem, x0, max_steps=3), "max_steps: N_0 is [0-9,]+ with these constants; expected at most 3"),
        (lambda: box1(problem, x0, y0=np.full(4, np.nan)), "y0: found"),
        (lambda: box2(instance("quadratic:2")[0], np.zeros(3)), "expected a FiniteSumProblem for BOX 2"),
        (lambda: box2(problem, x0, max_samples=10), r"max_samples: N_0 \|B_\{0,n\}\| is [0-9,]+"),
        (lambda: box2(problem, x0, random_state=-1), "random_state: found -1"),
        (lambda: box2(problem, x0, dataclasses.replace(c, sigma_g1=None)), "constants: found sigma_g1 = None"),
        (lambda: in_box1(problem, x0, np.zeros((2, 4)), np.zeros((2, 4))), r"y, u: found shapes \(2, 4\)"),
        (lambda: in_box2(problem, x0, np.zeros((2, 4)), np.zeros(4)), r"y, u: found shapes \(2, 4\) and \(4,\)"),
        (lambda: nbo.minimize(problem, x0, initialization="box3"), "initialization: found 'box3'; expected 'box1'"),
        (lambda: nbo.minimize(problem, x0, initialization=3), "initialization: found int; expected 'box1', 'box2'"),
        (lambda: nbo.minimize(toy, np.zeros(3), initialization="box1"), "constants: ConvexToy has none"),
        (lambda: Box2(max_samples=0), "max_samples: found 0"),
        (lambda: Box1(constants=1), "constants: found int"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            call()


def test_constants_that_are_wrong_are_noticed():
    problem, x0 = instance("quadratic:10")
    wrong = ProblemConstants(mu=1e-3, L_g1=1e-2, L_g2=0, L_f0=1, L_f1=1, C_f0=1)
    with pytest.raises((ValueError, NoConstantsError), match=r"max_steps|diverged|not finite"):
        box1(problem, x0, wrong, y0=np.full(5, 1e3))


def test_x_outside_of_the_bounds_is_refused():
    problem, _ = instance("binary")
    outside, y = np.full(4, 3.0), np.zeros(4)
    for call in (box1, box2, lambda p, x: in_box1(p, x, y, y), lambda p, x: in_box2(p, x, y, y)):
        with pytest.raises(ValueError, match="x0: found 3 at index 0; expected a value within the bounds"):
            call(problem, outside)


def test_a_time_limit_ends_a_large_batch(monkeypatch):
    import nbo.initialization as module

    monkeypatch.setattr(module, "_CHUNK", 10)
    problem, x0 = mild()
    res = nbo.minimize(
        problem, x0, method="nsbo-sgd", options={"step_size": 1e-3}, initialization="box2", max_time=0.0, random_state=0
    )
    assert res.status == "time_limit" and "after its 0 steps so far" in res.message and (res.y == 0).all()
    assert res.samples.lower_grad_y == problem.n_samples_lower + 10
    with pytest.raises(ValueError, match="save: the run was ended in its initialisation"):
        res.save("nowhere.npz")


def test_points_that_are_too_far_are_named():
    problem, x0 = instance("non-quadratic:8")
    for name in ("y0", "u0"):
        with pytest.raises(ValueError, match=f"{name}: found a point where .* is too large"):
            box1(problem, x0, **{name: np.full(2, 1e200)})


def test_memberships_need_draws():
    problem, x0 = mild()
    none, masked = np.empty((0, 4)), np.ma.masked_array(np.zeros(4), [1, 0, 0, 0])
    with pytest.raises(ValueError, match=r"y, u: found shapes \(0, 4\) and \(0, 4\); expected \(4,\) each, or"):
        in_box2(problem, x0, none, none)
    with pytest.raises(ValueError, match="y: found a masked array with masked entries"):
        in_box2(problem, x0, masked, np.zeros(4))
    with pytest.raises(TypeError, match="constants: found int; expected a ProblemConstants"):
        in_box1(problem, x0, np.zeros(4), np.zeros(4), 1)


class Interrupting(nbo.problems.NonQuadratic):
    def constants(self, bounds=None):
        raise KeyboardInterrupt


def test_an_interrupt_in_the_constants_ends_the_run():
    problem = Interrupting.family(4)
    res = nbo.minimize(problem, np.zeros(2), initialization="box1")
    assert res.status == "interrupted" and res.nit == 0 and "after its 0 steps" in res.message
