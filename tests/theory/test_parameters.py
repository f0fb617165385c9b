"""Parameters of the theorems against their definitions, and against what the paper prints."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from theory_instances import instance, non_quadratic

import nbo
from nbo.theory import NoConstantsError, ProblemConstants, boxes, parameters, printed, theoretical_parameters

NOISE = {"sigma_f1": 1.0, "sigma_g1": 1.0, "sigma_g2": 1.0}
log_uniform = st.floats(-3, 3).map(lambda e: 10.0**e)


@st.composite
def constants(draw, **fixed):
    """Admissible constants over six orders of magnitude."""
    mu = draw(log_uniform)
    values = {name: draw(log_uniform) for name in ("L_g2", "L_f0", "L_f1", "C_f0", "sigma_f1", "sigma_g1", "sigma_g2")}
    q = 1 + draw(log_uniform)
    return ProblemConstants(**({"mu": mu, "L_g1": q * mu, "r": 1 + draw(log_uniform)} | values | fixed))


def exact_six_terms(c):
    """The minimum of Theorem 3.2 with L_Phi as it should be."""
    return min(
        c.mu**2 / (8 * c.L_g1 * c.L2 * c.L_g2),
        5 * c.mu * c.L1 / (8 * c.Lu * c.L2 * c.L_g2),
        c.mu / (4 * c.L_g1 * c.Lu),
        1 / (4 * c.L_Phi),
        c.L1 / (4 * c.Lu**2),
        c.mu**2 / (64 * c.L1 * c.L_g1**2),
    )


def exact_stochastic_terms(c):
    """The minimum of Lemma E.9 and of the addition in the proof of Theorem 3.7."""
    r = c.r
    return min(
        c.mu / (6 * math.sqrt(2) * c.Lu * c.L_g1),
        c.mu**2 / (8 * math.sqrt(30 * r) * c.L1 * c.L_g1**2),
        c.mu**2 / (80 * r * c.L_g1 * c.L2 * c.L_g2),
        c.L1 * c.mu / (6 * math.sqrt(10 * r) * c.L_g2 * c.Lu * c.L2),
        1 / (4 * c.L_Phi),
        c.mu**2 / (160 * r * c.L1 * c.L_g1**2),
        c.L1 / (3 * c.Lu**2),
    )


@settings(max_examples=10_000)
@given(constants())
def test_redundant_minima(c):
    """Errata I2: all but two terms of both step sizes are implied by those two."""
    assert theoretical_parameters(c).alpha == pytest.approx(exact_six_terms(c), rel=1e-12)
    assert theoretical_parameters(c, "nsbo-sgd").alpha == pytest.approx(exact_stochastic_terms(c), rel=1e-12)


@given(constants())
def test_the_coefficients_of_the_proof(c):
    """With alpha the coefficients in the descent of V are what the theorem needs, and the boxes are kept."""
    p = theoretical_parameters(c)
    a, b_y, b_u, mu, L1, Lu, g = p.alpha, p.b_y, p.b_u, c.mu, c.L1, c.Lu, c.L_g1
    slack = 1 + 1e-12
    assert c.L_Phi * a / 2 + 4 * b_u * Lu**2 * a / mu**2 + 2 * b_y * g**2 * a / mu**2 <= 3 / 8 * slack
    assert L1**2 * a + 8 * b_u * L1**2 / mu**2 + L1 / 2 <= b_y / 2 * slack
    assert g**2 * a + 7 * mu**2 / (128 * L1) <= 7 / 8 * b_u * slack
    y, u = mu / (2 * c.L_g2), 5 * L1 / (2 * c.L_g2)
    move = a * (c.L2 + g * u)
    assert c.L_g2 / (2 * mu) * y**2 + g / mu * move + y / 4 <= y * slack
    assert u / 4 + 5 * L1 / (4 * mu) * y + Lu / mu * move <= u * slack


@given(constants(), st.floats(1e-4, 1))
def test_inner_steps_contract(c, part):
    """T steps of size gamma leave at most a quarter, and fewer would not, by the bound of the paper."""
    gamma = part / c.L_g1
    for tight, extra in ((False, 0.5), (True, 1.0)):
        p = theoretical_parameters(c, gamma=gamma, tight=tight)
        left = 1 - c.mu * gamma
        assert left ** (p.T + extra) <= 1 / 4 * (1 + 1e-9)
        assert p.T == 0 or left ** (p.T - 1 + extra) > 1 / 4 * (1 - 1e-9)
        cg = theoretical_parameters(c, "nbo-cg", tight=tight).T
        root = math.sqrt(c.q)
        rate, before = (root - 1) / (root + 1), 2.5 * root if tight else 2 * root * c.q
        assert before * rate ** (cg + 1) <= 1 / 4 * (1 + 1e-9)
        assert cg == 0 or before * rate**cg > 1 / 4 * (1 - 1e-9)


def test_a_single_step_suffices_where_the_lower_level_is_isotropic():
    c = ProblemConstants(mu=1, L_g1=1, L_g2=1, L_f0=1, L_f1=1, C_f0=1)
    assert [theoretical_parameters(c, method).T for method in ("nbo-gd", "nbo-cg")] == [0, 0]
    assert theoretical_parameters(c, "amigo-cg").options()["n_linear_steps"] == 1


def contraction(c, gamma, T):
    """The factors of E|y - y*|^2 and E|u - u*|^2 in the lemmas for NSBO-SGD, at the limits of the variances."""
    left, S_1 = 1 - c.mu * gamma / 2, min(1 / (160 * c.r), 1 / 768)
    of_y = c.r * (5 * left ** (2 * T + 1) + 20 * S_1)
    of_u = 6 * left ** (T + 2) + 48 * S_1 + (12 * left**T * (gamma * c.mu) ** 2 + 48) / 768
    return of_y, of_u


@given(constants(), st.floats(1e-3, 1))
def test_the_stochastic_T_contracts(c, part):
    gamma = part / c.L_g1
    right, literal = (theoretical_parameters(c, "nsbo-sgd", gamma=gamma, literal=flag) for flag in (False, True))
    assert max(contraction(c, gamma, right.T)) <= 1 / 4 * (1 + 1e-9)
    assert literal.T <= right.T


@pytest.mark.parametrize("kappa", [10, 100])
@pytest.mark.parametrize(("r", "which"), [(1, 1), (2, 1), (10, 1), (1000, 0), (1e5, 0)])
def test_errata_E2_the_printed_T_does_not_contract(kappa, r, which):
    """The maximum of two negative logarithms over a negative one is the smaller of two numbers of steps."""
    c = ProblemConstants(mu=1 / kappa, L_g1=1, L_g2=1, L_f0=1, L_f1=1, C_f0=1, r=r, **NOISE)
    literal = theoretical_parameters(c, "nsbo-sgd", literal=True)
    assert contraction(c, 1.0, literal.T)[which] > 1 / 4


def test_errata_E2_at_the_numbers_that_the_errata_have():
    c = ProblemConstants(mu=0.1, L_g1=1, L_g2=1, L_f0=1, L_f1=1, C_f0=1, r=1, **NOISE)
    right, literal = (theoretical_parameters(c, "nsbo-sgd", literal=flag).T for flag in (False, True))
    assert (right, literal) == (89, 36)
    assert 6 * 0.95 ** (literal + 2) + 3 * 48 / 768 > 1 / 4


def test_errata_E1_the_step_of_the_initialisation():
    """1/L_f1 knows nothing of g: gradient steps of that length diverge."""
    problem = non_quadratic(8, s=0.1, rho=0.1)
    c = problem.constants()
    right, literal = (theoretical_parameters(c, literal=flag) for flag in (False, True))
    assert (right.beta_0, literal.beta_0) == (pytest.approx(1), pytest.approx(10))
    x, far = np.full(2, 0.5), []
    for beta in (right.beta_0, literal.beta_0):
        y = np.zeros(2)
        for _ in range(50):
            y = y - beta * problem.lower_grad_y(x, y)
        far.append(np.linalg.norm(y - problem.y_star(x)))
    assert far[0] < 0.02 and far[1] > 1e6
    assert literal.beta_0 * c.mu > 1  # so that ln(1 - beta_0 mu) does not exist
    with pytest.raises(ValueError, match=r"beta_0: found 10; expected at most 1/L_g1 = 1"):
        nbo.initialization.box1(problem, x, beta_0=literal.beta_0)


def test_errata_E3_an_inner_step_beyond_the_bound_is_refused():
    c = ProblemConstants(mu=0.1, L_g1=10, L_g2=1, L_f0=1, L_f1=1, C_f0=1)
    with pytest.raises(ValueError, match=r"gamma: found 1; expected at most 1/L_g1 = 0.1"):
        theoretical_parameters(c, gamma=1 / c.L_f1)
    # 1/L_f1 as the inner step enlarges the error of the steepest direction in each inner step
    assert abs(1 - c.L_g1 / c.L_f1) > 1


def test_errata_E4_hessian_noise_sizes_the_batches_of_the_adjoint():
    """In other units of g the right size stays what it is, as a number of samples has to, the printed one does not."""
    c = ProblemConstants(mu=0.1, L_g1=1, L_g2=1, L_f0=1, L_f1=1, C_f0=1, sigma_f1=1, sigma_g1=3, sigma_g2=2)
    stretched = _rescaled(c, length=10.0)
    sizes = [boxes.box2_batches(k, 0.0, 1 / k.L_g1).hessian for k in (c, stretched)]
    literal = [printed.box2_hessian_batch(k, 0.0, 1 / k.L_g1) for k in (c, stretched)]
    assert sizes[1] == pytest.approx(sizes[0], rel=1e-3)
    assert literal[1] / literal[0] == pytest.approx(100, rel=1e-3)
    noiseless = dataclasses.replace(c, sigma_g2=0.0)
    assert boxes.box2_batches(noiseless, 0.0, 1.0).hessian == 1 < printed.box2_hessian_batch(noiseless, 0.0, 1.0)


def _rescaled(c, length=1.0, f=1.0, g=1.0):
    """The constants of one problem in other units."""
    factor = {
        "mu": g / length**2, "L_g1": g / length**2, "L_g2": g / length**3, "L_f0": f / length, "L_f1": f / length**2,
        "C_f0": f / length, "sigma_f1": f / length, "sigma_g1": g / length, "sigma_g2": g / length**2,
    }  # fmt: skip
    known = {name: getattr(c, name) for name in factor}
    values = {name: value if value is None else value * factor[name] for name, value in known.items()}
    return dataclasses.replace(c, **values)


@given(constants(), log_uniform, log_uniform, log_uniform)
def test_parameters_do_not_depend_on_the_units(c, length, f, g):
    other = _rescaled(c, length, f, g)
    p, q = theoretical_parameters(c), theoretical_parameters(other, delta=f)
    assert q.alpha == pytest.approx(p.alpha * length**2 / f) and q.T == p.T
    assert q.box.y == pytest.approx(p.box.y * length) and q.box.u == pytest.approx(p.box.u * f * length / g)
    assert q.b_y * length**2 / f == pytest.approx(p.b_y) and q.V_0(f) == pytest.approx(f * p.V_0(1.0))
    s, t = (theoretical_parameters(k, "nsbo-sgd", K=50, gap=d, delta=d) for k, d in ((c, 1.0), (other, f)))
    for role, size in s.batch_sizes.items():
        assert t.batch_sizes[role] == pytest.approx(size, abs=1, rel=1e-6)
    if s.batch_sizes == t.batch_sizes:  # and not one more or less by rounding
        assert t.rate_bound(50, f) == pytest.approx(s.rate_bound(50, 1.0) * f**2 / length**2, rel=1e-6)


def test_errata_E5_hessian_noise_sizes_the_inner_batches():
    c = ProblemConstants(mu=0.1, L_g1=1, L_g2=1, L_f0=1, L_f1=1, C_f0=1, sigma_f1=0, sigma_g1=0, sigma_g2=2)
    right, literal = (theoretical_parameters(c, "nsbo-sgd", literal=flag) for flag in (False, True))
    assert right.batch_sizes["B1t"] == math.ceil(4 / min(0.01 / 320, 0.01 / 768))
    assert literal.batch_sizes["B1t"] == 1  # whose inner iterates have the noise that the lemma excludes
    assert c.sigma_g2**2 / literal.batch_sizes["B1t"] > c.mu**2 / 8


@given(constants())
def test_errata_E6_the_smoothness_constant_scales_with_f(c):
    times_100 = _rescaled(c, f=100.0)
    assert times_100.L_Phi == pytest.approx(100 * c.L_Phi)
    expanded = printed.L_Phi(c) + c.L_g2 * (c.L_f0 - c.L_f0**2) / c.mu
    assert c.L_Phi == pytest.approx(expanded, rel=1e-9)
    excess = c.L_g2 * c.L_f0**2 / c.mu
    assert printed.L_Phi(times_100) - 100 * printed.L_Phi(c) == pytest.approx(
        9900 * excess, rel=1e-6, abs=1e-9 * printed.L_Phi(times_100)
    )


def test_errata_E7_the_old_iterate_gives_the_direction_of_x():
    """In place, line by line, is another method, for which nothing is proved."""
    problem, x = instance("non-quadratic:4")
    p = theoretical_parameters(problem.constants())
    y, u = problem.y_star(x) + 0.1, problem.u_star(x) + 0.2
    res = nbo.minimize(problem, x, y0=y, u0=u, method=p.solver(), tol=0.0, max_iter=1)
    directions = [problem.upper_grad(x, at)[0] - problem.lower_jvp(x, at, v) for at, v in ((y, u), (res.y, res.u))]
    assert np.allclose(res.x, x - p.alpha * directions[0], rtol=0, atol=1e-15)
    assert not np.allclose(directions[0], directions[1], rtol=1e-3)


def test_errata_E8_counts_at_their_limits():
    c = ProblemConstants(mu=1, L_g1=1, L_g2=0, L_f0=1, L_f1=1, C_f0=1)
    assert boxes.log_rate(1.0, c) == -math.inf
    assert boxes.box1_lower_steps(c, 0.49, 1.0) == 0  # inside already
    assert boxes.box1_lower_steps(c, 0.51, 1.0) == 1  # where the printed quotient by ln 0 is 0
    assert math.ceil(2 * math.log(0.5 / 0.51) / -math.inf) == 0
    assert boxes.steps_until(0.25, 1.0, math.log(0.5)) == 2 and boxes.steps_until(0.26, 1.0, math.log(0.5)) == 2
    assert boxes.box1_linear_steps(c, 0.0, 0.0, 0.5) == 1


def test_errata_E9_a_quadratic_lower_level():
    c = nbo.problems.Quadratic.family(n=5, m=3, kappa=10).constants()
    assert c.L_f0 == c.C_f0 == np.inf
    p = theoretical_parameters(c)
    assert p.alpha == pytest.approx(c.mu**2 / (64 * c.L_f1 * c.L_g1**2))
    assert p.box == (pytest.approx(0.5 / math.sqrt(c.L_f1)), pytest.approx(math.sqrt(c.L_f1) / c.mu))
    assert math.isnan(theoretical_parameters(c, literal=True).alpha)
    assert math.isnan(printed.L_Phi(c))


@given(constants(L_g2=0.0, L_f0=np.inf, C_f0=np.inf))
def test_nothing_is_nan_without_third_derivatives(c):
    for method in ("nbo-gd", "nbo-cg", "amigo-gd", "amigo-cg", "aid-bio"):
        for tight in (False, True):
            p = theoretical_parameters(c, method, tight=tight)
            numbers = [p.alpha, p.gamma, p.b_y, p.b_u, *p.box, p.V_0(1.0), p.rate_bound(10, 1.0)]
            assert not np.isnan(numbers).any() and np.isfinite(p.alpha)
    with pytest.raises(NoConstantsError, match="L_f0 = inf, C_f0 = inf; expected finite ones"):
        theoretical_parameters(c, "nsbo-sgd")
    s = theoretical_parameters(dataclasses.replace(c, L_f0=1.0), "nsbo-sgd", K=10, gap=1.0)
    numbers = [s.alpha, s.S_f1, s.S_g1, s.S_1, s.S_2, s.S_3, s.rate_bound(10, 1.0)]
    assert np.isfinite(numbers).all() and s.rate_bound(10, 1.0) <= 4 * s.V_0(1.0) / (s.alpha * 10) * (1 + 1e-9)


@given(constants(), st.integers(1, 10**6), log_uniform)
def test_batches_reach_the_stochastic_rate(c, K, gap):
    """Variances stay below their limits, and all noise together adds no more than the start does."""
    p = theoretical_parameters(c, "nsbo-sgd", K=K, gap=gap)
    limits = {"B1t": p.S_1, "B1": p.S_2, "B2": p.S_g1, "B3": p.S_f1, "B4": p.S_3}
    for role, variance in p.variances().items():
        assert variance <= limits[role] * (1 + 1e-12)
        sigma = {"B2": c.sigma_g1, "B3": c.sigma_f1}.get(role, c.sigma_g2)
        size = p.batch_sizes[role]
        assert size == 1 or sigma**2 / (size - 1) > limits[role] * (1 - 1e-9)
    assert p.rate_bound(K, gap) <= 4 * p.V_0(gap) / (p.alpha * K) * (1 + 1e-9)
    near = theoretical_parameters(c, "nsbo-sgd")
    assert near.K is None and all(near.batch_sizes[role] <= size for role, size in p.batch_sizes.items())
    assert c.L_g1**2 * c.r_u**2 <= c.L2**2  # why the printed min in S_3 is L_g1^2


@given(constants())
def test_invariants_of_the_stochastic_lemma(c):
    """With these alpha and variances the bounds of BOX 2 pass from one iterate to the next (Lemma E.9)."""
    p = theoretical_parameters(c, "nsbo-sgd")
    mu, L1, r, g = c.mu, c.L1, c.r, c.L_g1
    y, u = mu**2 / (20 * r * c.L_g2**2), 4 * L1**2 / (5 * r * c.L_g2**2)
    moved = p.alpha**2 * (6 * g**2 * u + 8 * c.L2**2)
    slack = 1 + 1e-9
    next_y = 5 * r * c.L_g2**2 / mu**2 * y**2 + y / 4 + 5 * r * g**2 / mu**2 * moved + 21 * r * p.S_g1 / mu**2
    assert next_y <= y * slack
    next_u = u / 4 + 4 * L1**2 / mu**2 * y + 3 * c.Lu**2 / mu**2 * moved
    assert next_u + 25 * p.S_f1 / mu**2 + 49 * p.S_2 * c.r_u**2 / mu**2 <= u * slack


def test_iterations_for_an_accuracy():
    c = non_quadratic(8).constants()
    p = theoretical_parameters(c)
    K = p.K(1e-3, 2.0)
    assert p.rate_bound(K, 2.0) <= 1e-3 < p.rate_bound(K - 1, 2.0)
    noisy = dataclasses.replace(c, **NOISE)
    s = theoretical_parameters(noisy, "nsbo-sgd", eps=1e-2, gap=2.0)
    assert 4 * s.V_0(2.0) / (s.alpha * s.K) <= 1e-2 and s.rate_bound(s.K, 2.0) <= 1e-2 * (1 + 1e-9)


@pytest.mark.parametrize("method", parameters.METHODS[:-1])
def test_counts_are_those_of_a_run(method):
    problem, x0 = instance("non-quadratic:4")
    p = theoretical_parameters(problem.constants(), method)
    res = nbo.minimize(problem, x0, method=method, options=p.options(), tol=0.0, max_iter=3, initialization="box1")
    start = res.initialization
    expected = p.counts(3, N_0=start.N_0, Q_0=start.n_linear_steps)
    found = dataclasses.asdict(res.counts)
    for kind, count in dataclasses.asdict(expected).items():
        if kind == "lower_hvp" and method not in ("nbo-gd", "amigo-gd"):
            assert found[kind] <= count  # conjugate gradients end early in two dimensions
        else:
            assert found[kind] == count


def test_samples_are_those_of_a_run():
    problem, x0 = instance("binary")
    c = dataclasses.replace(problem.constants(), sigma_f1=0.0, sigma_g1=0.0, sigma_g2=0.0, sigma_g12=0.0)
    p = theoretical_parameters(c, "nsbo-sgd")
    assert p.batch_sizes == dict.fromkeys(("B1t", "B1", "B2", "B3", "B4"), 1)
    res = nbo.minimize(problem, x0, method="nsbo-sgd", options=p.options(), max_iter=4, random_state=0)
    assert res.samples == p.samples(4) and res.counts == p.counts(4)


def test_batches_beyond_the_data_become_all_samples():
    problem, x0 = instance("binary")
    p = theoretical_parameters(problem.constants(), "nsbo-sgd")
    assert p.batch_sizes["B2"] > problem.n_samples_lower and p.options()["batch_sizes"] == p.batch_sizes
    sizes = p.options(problem)["batch_sizes"]
    assert sizes["B2"] == "full" and sizes["B4"] == p.batch_sizes["B4"] == 1
    res = nbo.minimize(problem, x0, method=p.solver(problem), max_iter=2, random_state=0)
    assert res.samples.lower_grad_y == 2 * problem.n_samples_lower and res.counts == p.counts(2)


def test_cross_noise_of_its_own():
    c = ProblemConstants(mu=0.1, L_g1=1, L_g2=1, L_f0=1, L_f1=1, C_f0=1, **NOISE)
    assert theoretical_parameters(c, "nsbo-sgd", K=10**6, gap=1.0).batch_sizes["B4"] > 1
    without = dataclasses.replace(c, sigma_g12=0.0)
    assert theoretical_parameters(without, "nsbo-sgd", K=10**6, gap=1.0).batch_sizes["B4"] == 1


def test_what_cannot_be_represented_is_told():
    values = {"mu": 1.0, "L_g1": 2.0, "L_g2": 1.0, "L_f0": 1.0, "L_f1": 1.0, "C_f0": 1.0}
    p = theoretical_parameters(ProblemConstants(**values | {"mu": 1e-100}))
    assert 0 < p.alpha < 1e-290 and p.T > 1e99 and p.options()["n_inner"] == p.T
    with pytest.raises(NoConstantsError, match=r"constants: found bounds or weights .* expected positive, finite"):
        theoretical_parameters(ProblemConstants(**values | {"mu": 1e-200, "L_g1": 1e100}))
    with pytest.raises(ValueError, match=r"eps: found 1e-300; expected a larger one"):
        p.K(1e-300, 1e300)
    huge = box_steps(1e180)
    assert all(0 < steps < 1e6 for steps in huge) and all(a > b for a, b in zip(huge, box_steps(1e3), strict=True))
    with pytest.raises(NoConstantsError, match="constants: found that a distance of inf must become"):
        box_steps(np.inf)


def box_steps(distance):
    """The steps that all routines take from so far away, whose squares may overflow."""
    c = ProblemConstants(mu=1, L_g1=2, L_g2=1, L_f0=1, L_f1=1, C_f0=1)
    on_y = [steps(c, distance, 0.5) for steps in (boxes.box1_lower_steps, boxes.box2_lower_steps)]
    return on_y + [steps(c, distance, 0.0, 0.5) for steps in (boxes.box1_linear_steps, boxes.box2_linear_steps)]


def test_bad_arguments_are_refused():
    c = non_quadratic(4).constants()
    noisy = dataclasses.replace(c, **NOISE)
    for arguments, message in (
        ({"constants": 3}, "constants: found int; expected a ProblemConstants"),
        ({"method": "soba"}, "method: found 'soba'; expected one of 'nbo-gd'"),
        ({"gamma": 0.0}, "gamma: found 0.0; expected a positive number"),
        ({"K": 3}, "K: found 3 for 'nbo-gd'; expected none"),
        ({"delta": -1}, "delta: found -1"),
        ({"tight": True, "literal": True}, "tight: found True beside literal=True"),
        ({"method": "nsbo-sgd"}, "constants: found sigma_g2 = None"),
        ({"method": "nsbo-sgd", "constants": noisy, "K": 3}, "gap: found None; expected a bound"),
        ({"method": "nsbo-sgd", "constants": noisy, "gap": 3}, "gap: found 3 without K or eps"),
        ({"method": "nsbo-sgd", "constants": noisy, "gap": 3, "K": 3, "eps": 1.0}, "eps: found 1.0 beside K = 3"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            theoretical_parameters(**({"constants": c} | arguments))
    with pytest.raises(NoConstantsError, match=r"expected L1 = .* to be positive"):
        theoretical_parameters(dataclasses.replace(c, L_f1=0.0, L_f0=0.0))
    with pytest.raises(ValueError, match="gap: found -1"):
        theoretical_parameters(c).K(1e-3, -1.0)


def test_numbers_at_the_ends_of_the_range():
    values = {"mu": 1.0, "L_g1": 2.0, "L_g2": 1.0, "L_f0": 1.0, "L_f1": 1.0, "C_f0": 1.0, **NOISE}
    almost_flat = theoretical_parameters(ProblemConstants(**values | {"L_g2": 1e-300}), "nsbo-sgd")
    flat = theoretical_parameters(ProblemConstants(**values | {"L_g2": 0.0}), "nsbo-sgd")
    assert almost_flat.batch_sizes == flat.batch_sizes and almost_flat.alpha == flat.alpha
    assert ProblemConstants(**values | {"mu": 1e-200}).L_Phi == np.inf
    changes = {"nbo-cg": {"mu": 1e-100}, "nbo-gd": {"mu": 1e300, "L_g1": 1e300}, "nsbo-sgd": {"r": 1e200}}
    for method, change in changes.items():
        with pytest.raises(NoConstantsError, match="constants: found numbers beyond the range of floating point"):
            theoretical_parameters(ProblemConstants(**values | change), method)
