import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nbo
from nbo.theory import NoConstantsError, ProblemConstants
from nbo.theory.constants import constants_of

positive = st.floats(1e-3, 1e3)


@given(positive, positive, positive, positive, positive, positive)
def test_derived_constants(mu, ratio, L_g2, L_f0, L_f1, C_f0):
    q = 1 + ratio
    c = ProblemConstants(mu=mu, L_g1=q * mu, L_g2=L_g2, L_f0=L_f0, L_f1=L_f1, C_f0=C_f0)
    assert c.q == c.kappa == pytest.approx(q)
    assert pytest.approx(L_f1 + L_g2 * L_f0 / mu) == c.L1
    assert c.Lu == pytest.approx(c.L1 * (1 + q)) and c.L_Phi == pytest.approx(c.L1 * (1 + q) ** 2)
    assert pytest.approx(C_f0 + q * L_f0) == c.L2
    scaled = ProblemConstants(mu=mu, L_g1=q * mu, L_g2=L_g2, L_f0=5 * L_f0, L_f1=5 * L_f1, C_f0=5 * C_f0)
    assert scaled.L_Phi == pytest.approx(5 * c.L_Phi)  # errata E6: it scales with f
    assert scaled.hypergradient_error(1, 0) == pytest.approx(5 * c.hypergradient_error(1, 0))


def test_vanishing_third_derivatives_cancel_unbounded_gradients():
    c = ProblemConstants(mu=0.1, L_g1=1.0, L_g2=0.0, L_f0=np.inf, L_f1=2.0, C_f0=np.inf)
    assert c.L1 == 2.0 and c.L_Phi == 2.0 * 11**2 and c.r_u == np.inf and np.inf == c.L2
    assert c.hypergradient_error(0.01, 0.02) == pytest.approx((2 * 11 * 0.01 + 0.02) / 0.1)


def test_numbers_become_floats():
    values = {name: np.float32(2) for name in ("mu", "L_g1", "L_g2", "L_f0", "L_f1", "C_f0")}
    c = ProblemConstants(**values, sigma_f1=np.int64(3))
    assert {type(getattr(c, name)) for name in values} == {float} and type(c.sigma_f1) is float
    assert "np." not in repr(c)


def test_a_problem_that_does_not_implement_constants_has_none():
    class Unknown(nbo.problems.NonQuadratic):
        def constants(self, bounds=None):
            raise NotImplementedError("no idea")

    problem = Unknown.family(4)
    with pytest.raises(NoConstantsError, match=r"constants: Unknown does not implement them \(no idea\)"):
        constants_of(problem)
    assert nbo.hypergradient(problem, np.zeros(2)).error_kind == "estimate"
    known = nbo.problems.NonQuadratic.family(4).constants()
    assert nbo.theory.certify_run(problem, np.zeros(2), constants=known, max_iter=3).ok


def test_impossible_constants_are_refused():
    good = {"mu": 0.1, "L_g1": 1.0, "L_g2": 0.0, "L_f0": 1.0, "L_f1": 1.0, "C_f0": 1.0}
    for change, message in (
        ({"mu": 2.0}, "mu, L_g1: found 2, 1; expected 0 < mu <= L_g1"),
        ({"mu": 0.0}, "mu, L_g1"),
        ({"L_f1": -1.0}, "L_f1: found -1.0"),
        ({"C_f0": np.nan}, "C_f0: found nan"),
    ):
        with pytest.raises(ValueError, match=message):
            ProblemConstants(**(good | change))
