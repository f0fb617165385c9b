"""Estimated constants against exact suprema, and the search for violations of claims that hold or do not."""

import dataclasses
import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_problems import Overriding, PlainLogistic, SampledQuadratic, logistic_data

import nbo
from nbo.theory import NoConstantsError, ProblemConstants, _derivatives, check_constants, estimate_constants

NAMES = ("mu", "L_g1", "L_g2", "L_f0", "L_f1", "C_f0")
SIGMAS = ("sigma_f1", "sigma_g1", "sigma_g2", "sigma_g12")
BOX = (-2.0, 0.0)


def far_non_quadratic(n=5, m=3, kappa=20.0, seed=0):
    """One with f near its largest slope, y* on both sides of 0, and d_1 near where y_1 is, so that f is curved too."""
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((n, m)) * 2
    d, e = rng.uniform(20, 30, n), np.append(rng.uniform(20, 30, m - 1), 0.0)
    return nbo.problems.NonQuadratic(B, d, e, mu=2 / kappa, L=2.0, s=1.0, rho=1.5)


def values(constants, names=NAMES):
    return np.array([getattr(constants, name) for name in names])


def plain(dtype=np.float64, p=5, n=120):
    A, b, A_val, b_val = logistic_data(n=n, n_val=60, p=p)
    return PlainLogistic((A / np.sqrt(p)).astype(dtype), b, (A_val / np.sqrt(p)).astype(dtype), b_val, bounds=BOX)


def claim_for(problem, dtype=np.float64):
    return nbo.problems.BinaryLogistic(problem.A, problem.b, problem.A_val, problem.b_val).constants(bounds=BOX)


class Drifting(nbo.BilevelProblem):
    """g = (1 + x) |y|^2/2 + <c, y>, convex for x > -1 alone, and f = |y|^2/2."""

    dim_x, dim_y = 1, 2

    def __init__(self, c=(0.0, 0.0)):
        self.c = np.array(c)

    def upper_value(self, x, y):
        return float(y @ y) / 2

    def upper_grad(self, x, y):
        return np.zeros(1), y

    def lower_value(self, x, y):
        return float((1 + x[0]) * (y @ y) / 2 + self.c @ y)

    def lower_grad_y(self, x, y):
        return (1 + x[0]) * y + self.c

    def lower_hvp(self, x, y, v):
        return (1 + x[0]) * v

    def lower_jvp(self, x, y, u):
        return np.array([y @ u])


class OneDimension(nbo.FiniteSumProblem):
    """g_i = (y - x - c_i)^2/2 and f_i = (y^2 + x^2)/2, whose errors of y are nearly normal."""

    dim_x = dim_y = 1
    n_samples_lower = n_samples_upper = 80

    def __init__(self, spread=1.0):
        self.c = spread * np.random.default_rng(0).standard_normal(80)

    def _mean(self, batch):
        return np.mean(self.c if batch is None else self.c[batch])

    def upper_value(self, x, y, batch=None):
        return float(y @ y + x @ x) / 2

    def upper_grad(self, x, y, batch=None):
        return x, y

    def lower_value(self, x, y, batch=None):
        return float(np.mean((y - x - (self.c if batch is None else self.c[batch])) ** 2) / 2)

    def lower_grad_y(self, x, y, batch=None):
        return y - x - self._mean(batch)

    def lower_hvp(self, x, y, v, batch=None):
        return v

    def lower_jvp(self, x, y, u, batch=None):
        return -u


# ---- estimates


@settings(max_examples=10)
@given(st.integers(2, 6), st.integers(1, 4), st.floats(1.5, 1e3), st.floats(0.1, 10), st.floats(0.1, 10))
def test_estimates_of_quadratic_problems(n, m, kappa, beta, s):
    problem = nbo.problems.Quadratic.family(n, m, kappa, beta=beta, s=s)
    found, claim = estimate_constants(problem, np.zeros(m), random_state=0), problem.constants(bounds=(-1, 1))
    corners = [np.array(x) for x in itertools.product((-1.0, 1.0), repeat=m)]
    gradients = [problem.upper_grad(x, problem.y_star(x)) for x in corners]  # convex in x, so largest at corners
    exact = dataclasses.replace(
        claim,
        C_f0=max(np.linalg.norm(first) for first, _ in gradients),
        L_f0=max(np.linalg.norm(second) for _, second in gradients),
    )
    assert found.kind == "estimate" and found.L_g2 == 0 and found.sigma_f1 is None and found.r == 2
    assert found.mu >= exact.mu * (1 - 1e-9) and found.mu < 1.001 * exact.mu
    ratios = values(found, ("L_g1", "L_f0", "L_f1", "C_f0")) / values(exact, ("L_g1", "L_f0", "L_f1", "C_f0"))
    assert (ratios <= 1 + 1e-9).all() and (ratios > [0.999, 0.5, 0.5, 0.5]).all()


@settings(max_examples=10)
@given(st.integers(2, 8), st.integers(1, 4), st.floats(2, 100), st.integers(0, 9))
def test_estimates_of_non_quadratic_problems(n, m, kappa, seed):
    problem = far_non_quadratic(n, m, kappa, seed)
    found, exact = estimate_constants(problem, np.zeros(m), radius=6.0, random_state=seed), problem.constants()
    assert exact.mu * (1 - 1e-9) <= found.mu <= 2 * exact.mu
    names = ["L_g1", "L_g2", "L_f0", "L_f1"] + ["C_f0"] * (m > 1)
    ratios = values(found, names) / values(exact, names)
    assert (ratios <= 1 + 1e-9).all() and (ratios >= 0.5).all(), dict(zip(names, ratios, strict=True))


def test_estimates_of_noise():
    """Against the deviations of a finite sum whose second derivatives do not depend on the point."""
    problem, x = SampledQuadratic(), np.array([0.3, -0.2, 0.5])
    found = estimate_constants(problem, x, radius=1e-9, random_state=0, n_repeats=0)
    deviation = {
        "sigma_g2": problem.H - problem.H.mean(0),
        "sigma_g12": problem.B - problem.B.mean(0),
    }
    y = problem.exact(x)[0]
    f = np.hstack([problem.r * (x - problem.e), problem.s * (y - problem.d)])
    g = problem.H @ y - problem.B @ x - problem.c
    deviation |= {"sigma_f1": f - f.mean(0), "sigma_g1": g - g.mean(0)}
    for name, parts in deviation.items():
        assert getattr(found, name) == pytest.approx(np.sqrt(np.sum(parts**2) / len(parts)), rel=1e-6), name
    assert found.r == 2


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_noise_of_drawn_samples_and_directions(dtype, monkeypatch):
    problem, x = plain(dtype), np.full(5, -1.0)
    exact = estimate_constants(problem, x, n_points=6, random_state=0, n_repeats=0)
    monkeypatch.setattr("nbo.theory._noise.MAX_SAMPLES", 50)
    monkeypatch.setattr("nbo.theory._noise.MATRIX_DIM", 4)
    drawn = np.array([values(estimate_constants(problem, x, n_points=6, random_state=seed, n_repeats=0), SIGMAS)
                      for seed in range(4)])  # fmt: skip
    assert drawn.mean(axis=0)[:3] == pytest.approx(values(exact, SIGMAS[:3]), rel=0.2)
    assert np.ptp(drawn[:, 0]) > 0 and drawn[:, 3] == pytest.approx(0) and exact.sigma_g12 == 0


def test_errors_of_one_dimension_have_the_ratio_of_normal_ones():
    found = estimate_constants(OneDimension(), [0.0], random_state=0, n_points=6, n_repeats=60)
    assert 1.35 < found.r < 2  # pi/2, as the largest of three measurements


def test_no_ratio_without_errors():
    assert estimate_constants(OneDimension(spread=0.0), [0.0], n_points=6, random_state=0, n_repeats=3).r == 2


def test_vectors_of_the_caller_are_left_alone():
    problem, x, y0 = plain(), np.full(5, -1.0), np.ones(5)
    lower, upper = np.full(5, -1.5), np.full(5, -0.5)
    before = [a.copy() for a in (x, y0, lower, upper, problem.A)]
    found = estimate_constants(problem, x, bounds=(lower, upper), y0=y0, n_points=6, random_state=0, n_repeats=0)
    check_constants(problem, found, bounds=(lower, upper), x=x, n_points=6, random_state=0)
    assert all(np.array_equal(a, b) for a, b in zip(before, (x, y0, lower, upper, problem.A), strict=True))


def test_random_states():
    problem = plain()

    def estimate(state):
        return estimate_constants(problem, np.full(5, -1.0), n_points=6, random_state=state, n_repeats=2)

    assert estimate(3) == estimate(3) == estimate(np.random.default_rng(3)) != estimate(4)
    claim = estimate(3)
    first, second = (check_constants(problem, claim, n_points=9, random_state=1) for _ in range(2))
    assert first.sampled == second.sampled and repr(first) == repr(second)


def test_points_stay_within_bounds_and_the_feasible_set():
    seen = []

    class Watched(PlainLogistic):
        def lower_hvp(self, x, y, v, batch=None):
            seen.append(x.copy())
            return super().lower_hvp(x, y, v, batch)

        def project(self, x):
            shifted = np.clip(x, -2, 0)
            return shifted - max(shifted.sum() + 4, 0) / 5 if shifted.sum() > -4 else shifted

    A = plain()
    problem = Watched(A.A, A.b, A.A_val, A.b_val, bounds=(-9.0, 0.0))
    estimate_constants(problem, np.full(5, -1.0), n_points=12, random_state=0, n_repeats=0)
    points = np.array(seen)
    assert points.sum(axis=1).max() <= -4 + 1e-9 and points.sum(axis=1).max() > -4.1
    assert len(np.unique(points, axis=0)) > 20 and points.max() <= 1e-12


def test_a_box_of_one_point():
    problem, x = plain(), np.full(5, -1.0)
    found = estimate_constants(problem, x, bounds=(x, x), n_points=6, random_state=0, n_repeats=0)
    wide = estimate_constants(problem, x, n_points=6, random_state=0, n_repeats=0)
    assert found.mu > wide.mu and 0 < found.L_g2 < wide.L_g2 and found.L_f1 > 0


# ---- products instead of matrices


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_products_agree_with_matrices(seed, monkeypatch):
    problem, x = plain(p=24, n=40), np.full(24, -1.0)
    matrices = estimate_constants(problem, x, n_points=6, random_state=seed, n_repeats=0)
    monkeypatch.setattr(_derivatives, "DENSE_DIM", 20)
    products = estimate_constants(problem, x, n_points=6, random_state=seed, n_repeats=0)
    names = (*NAMES[:5], *SIGMAS[:3])
    assert values(products, names) == pytest.approx(values(matrices, names), rel=0.03)


@pytest.mark.slow
def test_large_problems_need_no_matrices(monkeypatch):
    problem, x = plain(p=302, n=60), np.full(302, -1.0)
    monkeypatch.setattr(_derivatives.DenseDerivatives, "__init__", None)
    found, claim = estimate_constants(problem, x, n_points=6, random_state=0, n_repeats=0), claim_for(problem)
    assert found.mu == pytest.approx(claim.mu, rel=1e-3)  # fewer rows than columns
    ratios = values(found, (*NAMES[1:5], *SIGMAS[:3])) / values(claim, (*NAMES[1:5], *SIGMAS[:3]))
    assert (ratios[:6] <= 1 + 1e-6).all() and ratios[6] < 1.1 and (ratios > 0.5).all(), ratios  # the last is drawn


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_norms_by_products_are_those_of_matrices(dtype):
    """At two points of a problem whose mixed derivatives depend on x and on y."""
    problem = plain(dtype, p=12)
    view, rng = nbo.oracles.CountedProblem(problem), np.random.default_rng(0)
    dense, products = _derivatives.DenseDerivatives(view), _derivatives.ProductDerivatives(view)
    first, last = (_derivatives.Place(rng.uniform(-2, -1, 12), rng.standard_normal(12).astype(dtype)) for _ in range(2))
    tolerance = {"rel": 1e-5 if dtype is np.float64 else 1e-3}
    for a, b in zip(dense.second_ends(first)[:2], products.second_ends(first)[:2], strict=True):
        assert a == pytest.approx(b, **tolerance)
    assert dense.mixed_norm(first) == pytest.approx(products.mixed_norm(first), **tolerance)
    for name in ("second_change", "mixed_change"):
        a, b = (getattr(form, name)(first, last) for form in (dense, products))
        assert b.value == pytest.approx(a.value, **tolerance), name
        assert abs(a.right @ b.right) > 0.99 and abs(a.left @ b.left) > 0.99


# ---- checks


def built_in(kind):
    A, b, A_val, b_val = logistic_data(n=24, n_val=16, p=4)
    classes, classes_val = (b + 1) // 2 + (A[:, 0] > 0), (b_val + 1) // 2 + (A_val[:, 0] > 0)
    if kind == "logistic":
        return nbo.problems.BinaryLogistic(A, b, A_val, b_val)
    if kind == "sparse":
        return nbo.problems.BinaryLogistic(sp.csr_matrix(A), b, sp.csr_matrix(A_val), b_val)
    if kind == "softmax":
        return nbo.problems.MultinomialLogistic(A, classes, A_val, classes_val, prior=(-1.0, 1.0))
    if kind == "ridge":
        return nbo.problems.Ridge(A, A[:, 0] + b, A_val, A_val[:, 0] + b_val)
    return nbo.problems.HyperCleaning(A, classes, A_val, classes_val, ridge=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["logistic", "sparse", "softmax", "ridge", "cleaning"])
def test_constants_of_built_in_problems_hold(kind):
    problem = built_in(kind)
    claim = problem.constants(bounds=BOX)
    found = check_constants(problem, claim, bounds=BOX, n_points=36, random_state=0)
    assert found.ok and found and not found.violations, found
    assert min(found.ratios.values()) > 1 - 1e-6 and found.ratios["mu"] < 2 and found.ratios["L_g1"] < 3
    assert set(found.claimed) == {*NAMES, *SIGMAS}


@pytest.mark.slow
def test_an_estimate_of_a_compiled_problem():
    problem = built_in("logistic")
    claim, found = problem.constants(bounds=BOX), estimate_constants(problem, np.full(4, -1.0), random_state=0)
    names = (*NAMES[1:], *SIGMAS)
    assert found.mu >= claim.mu and (values(found, names) <= values(claim, names) * (1 + 1e-6)).all()
    assert 1 <= found.r < 2


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_constants_of_a_plain_finite_sum_hold(dtype):
    problem = plain(dtype)
    found = check_constants(problem, claim_for(problem), random_state=0)
    assert found.ok and 1 <= found.ratios["L_g2"] < 2, found


@settings(max_examples=6)
@given(st.integers(2, 6), st.integers(1, 4), st.floats(1.5, 100), st.integers(0, 9))
def test_exact_constants_hold(n, m, kappa, seed):
    for problem in (nbo.problems.Quadratic.family(n, m, kappa), far_non_quadratic(n, m, kappa, seed)):
        claim = problem.constants(bounds=(-3, 3))
        found = check_constants(problem, claim, bounds=(-3, 3), n_points=15, random_state=seed)
        assert found.ok, found


def sampled_claim(problem, box):
    """A claim that holds at every sample: what was found in the tube of a valid one, with a small margin."""
    start = claim_for(problem) if isinstance(problem, PlainLogistic) else problem.constants(bounds=box)
    found = check_constants(problem, start, bounds=box, n_points=30, random_state=0)
    return dataclasses.replace(start, **{name: value * (0.99 if name == "mu" else 1.01)
                                         for name, value in found.sampled.items()})  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_wrong_constants_are_named(name):
    problem, box = far_non_quadratic(), (-3.0, 3.0)
    claim = sampled_claim(problem, box)
    wrong = dataclasses.replace(claim, **{name: getattr(claim, name) * (2 if name == "mu" else 0.5)})
    found = check_constants(problem, wrong, bounds=box, n_points=30, random_state=1)
    assert name in found.violations and not found.ok and not found, found
    if name not in ("mu", "L_g2"):  # these change the tube too
        assert found.violations == (name,), found
    assert found.ratios[name] < 1 and f"{name}: claimed" in repr(found) and repr(found).count("VIOLATED") >= 1


@pytest.mark.parametrize("name", SIGMAS[:3])
@pytest.mark.parametrize("drawn", [False, True])
def test_wrong_noise_is_named(name, drawn, monkeypatch):
    problem = plain()
    if drawn:
        monkeypatch.setattr("nbo.theory._noise.MAX_SAMPLES", 100)
    claim = claim_for(problem)
    wrong = dataclasses.replace(claim, **{name: getattr(claim, name) / 8})
    assert check_constants(problem, wrong, n_points=9, random_state=0).violations == (name,)


def test_one_claim_for_both_second_derivatives():
    problem = SampledQuadratic()
    claim = estimate_constants(problem, np.zeros(3), random_state=0, n_repeats=0)
    claim = dataclasses.replace(claim, L_f0=1e3, L_f1=1e3, C_f0=1e3, sigma_f1=1e3, sigma_g1=1e3)
    assert claim.sigma_g2 < claim.sigma_g12
    assert check_constants(problem, claim, x=np.zeros(3), random_state=1).ok
    both = dataclasses.replace(claim, sigma_g12=None)
    found = check_constants(problem, both, x=np.zeros(3), random_state=1)
    assert found.violations == ("sigma_g2",) and "sigma_g12" not in found.claimed
    assert found.sampled["sigma_g2"] == pytest.approx(claim.sigma_g12)


def test_the_points_of_a_report_show_what_was_found():
    problem = far_non_quadratic()
    found = check_constants(problem, problem.constants(), bounds=(-3, 3), random_state=0)
    for name, (x, y) in found.points.items():
        assert x.shape == (3,) and y.shape == (5,) and (np.abs(x) <= 3).all(), name
    _, y = found.points["mu"]
    assert problem.lower_hvp(None, y, np.ones(5)).min() == pytest.approx(found.sampled["mu"])
    gradient = problem.upper_grad(*found.points["L_f0"])[1]
    assert np.linalg.norm(gradient) == pytest.approx(found.sampled["L_f0"])
    radius = problem.mu / (2 * problem.constants().L_g2)
    assert all(np.linalg.norm(y - problem.y_star(x)) <= radius for x, y in found.points.values())


def test_infinite_boxes_need_a_point():
    problem = far_non_quadratic()
    with pytest.raises(ValueError, match="bounds: found an infinite bound; expected a finite box of x, or a point x"):
        check_constants(problem, problem.constants())
    found = check_constants(problem, problem.constants(), x=np.full(3, 7.0), radius=0.5, random_state=0)
    assert all((np.abs(x - 7) <= 0.5 + 1e-12).all() for x, _ in found.points.values())
    problem.bounds = (0.0, np.inf)
    found = check_constants(problem, problem.constants(), x=np.zeros(3), radius=2.0, random_state=0)
    assert all((x >= 0).all() and (x <= 2).all() for x, _ in found.points.values())


# ---- refusals


@pytest.mark.parametrize("c", [(0.0, 0.0), (1.0, 0.0)])
def test_lower_levels_that_are_not_convex_have_no_constants(c):
    """With c = 0 the solution is known without H, otherwise it is looked for by Newton's method."""
    with pytest.raises(NoConstantsError, match=r"problem: the Hessian of g in y has .*; it has no constants in this"):
        estimate_constants(Drifting(c), [0.0], radius=3.0, random_state=0)
    inside = estimate_constants(Drifting(c), [0.0], radius=0.5, random_state=0)
    assert inside.mu == pytest.approx(0.5)


def test_a_check_names_mu_where_the_lower_level_is_not_convex():
    claim = ProblemConstants(mu=0.1, L_g1=5.0, L_g2=1.0, L_f0=5.0, L_f1=1.0, C_f0=0.0)
    found = check_constants(Drifting(), claim, bounds=(-3.0, 1.0), random_state=0)
    assert found.violations == ("mu",) and found.sampled["mu"] == pytest.approx(-2) and found.ratios["mu"] < 0


def test_values_that_are_not_finite_are_named():
    problem = Overriding(upper_grad=lambda x, y: (np.full(2, np.nan), y))
    with pytest.raises(ValueError, match=r"problem: upper_grad .* not finite at a sampled point"):
        estimate_constants(problem, np.zeros(2))


def test_a_tube_below_the_accuracy_of_y():
    claim = dataclasses.replace(claim_for(plain()), L_g2=1e7)
    with pytest.raises(ValueError, match=r"problem: y.* is not known well enough in float32"):
        check_constants(plain(np.float32), claim, random_state=0)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"x": np.zeros(4)}, ValueError, "x: found shape"),
        ({"x": np.full(5, 0.5)}, ValueError, "x: found a point outside of the bounds or of the feasible set"),
        ({"radius": 0.0}, ValueError, "radius: found 0"),
        ({"bounds": (1.0, 2.0)}, ValueError, "bounds: found no x at index 0 within the problem's bounds"),
        ({"bounds": (0.0, -1.0)}, ValueError, "bounds: found lower 0 > upper -1"),
        ({"y0": np.zeros(3)}, ValueError, "y0: found shape"),
        ({"n_points": 5}, ValueError, "n_points: found 5; expected an integer >= 6"),
        ({"n_points": 6.5}, TypeError, "n_points"),
        ({"n_repeats": -1}, ValueError, "n_repeats: found -1"),
        ({"random_state": -1}, ValueError, "random_state: found -1"),
        ({"random_state": np.random.RandomState(0)}, TypeError, "random_state"),
        ({"problem": "no problem"}, TypeError, "problem: found str; expected a BilevelProblem"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_bad_arguments_of_estimates(settings, error, message):
    with pytest.raises(error, match=message):
        estimate_constants(**({"problem": plain(), "x": np.full(5, -1.0)} | settings))


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"constants": {"mu": 1.0}}, TypeError, "constants: found dict; expected a ProblemConstants"),
        ({"x": np.full(5, 0.5)}, ValueError, "x: found a point outside"),
        ({"n_points": 2}, ValueError, "n_points: found 2"),
        ({"radius": np.inf}, ValueError, "radius: found inf"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_bad_arguments_of_checks(settings, error, message):
    problem = plain()
    with pytest.raises(error, match=message):
        check_constants(problem, **({"constants": claim_for(problem)} | settings))


def test_unknown_names_of_the_module():
    with pytest.raises(AttributeError, match="no attribute 'estimate'"):
        nbo.theory.estimate  # noqa: B018


def test_boxes_too_narrow_for_differences_are_refused():
    problem = nbo.problems.NonQuadratic.family(4)
    with pytest.raises(ValueError, match="bounds, radius: found a side of length 2e-300; expected 0 or more than"):
        nbo.theory.estimate_constants(problem, np.zeros(2), radius=1e-300, random_state=0)


def test_second_derivatives_of_several_targets_deviate_together():
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((30, 4)), rng.standard_normal((30, 3))
    problem = nbo.problems.Ridge(A[:20], b[:20], A[20:], b[20:])
    claim = problem.constants(bounds=(-2, 0))
    report = nbo.theory.check_constants(problem, claim, bounds=(-2, 0), n_points=6, random_state=0)
    assert report.ok and report.ratios["sigma_g2"] < 2
