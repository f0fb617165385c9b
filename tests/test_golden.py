"""Trajectories of an independent plain-NumPy implementation, to 1e-9, with exact counts."""

import json
from pathlib import Path

import numpy as np
import pytest

import nbo

GOLDEN = json.loads((Path(__file__).parent / "golden" / "trajectories.json").read_text())["problems"]
METHODS = {
    "nbo_gd_T0": ("nbo-gd", {"n_inner": 0}),
    "nbo_gd_T1": ("nbo-gd", {"n_inner": 1}),
    "nbo_gd_T5": ("nbo-gd", {"n_inner": 5}),
    "soba": ("nbo-gd", {"n_inner": 0}),
    "nbo_cg_T1": ("nbo-cg", {"n_inner": 1}),
    "amigo_gd_Q1": ("amigo-gd", {"n_lower_steps": 1}),
    "amigo_gd_Q5": ("amigo-gd", {"n_lower_steps": 5}),
    "amigo_cg_Q3_N2": ("amigo-cg", {"n_lower_steps": 3, "n_linear_steps": 2}),
    "f2sa_Q3": (
        "f2sa", {"n_lower_steps": 3, "multiplier": 1.0, "multiplier_increment": 0.1, "batch_size": "full"},
    ),
}  # fmt: skip
#: What the steps of the file are multiplied by: outer and inner one.
FACTORS = {"f2sa_Q3": (0.1, 0.3)}
COUNTS = {
    "grad_f": "upper_grad", "grad2_g": "lower_grad_y", "grad1_g": "lower_grad_x", "hvp": "lower_hvp", "jvp": "lower_jvp"
}  # fmt: skip


def problem(name):
    data = {k: np.array(v) for k, v in GOLDEN[name]["data"].items()}
    if name == "quadratic":
        return nbo.problems.Quadratic(data["Hm"], data["B"], data["c"], data["d"], data["e"])
    return nbo.problems.BinaryLogistic(data["X"], data["t"], data["Xv"], data["tv"])


def options(algorithm, golden):
    method, given = METHODS[algorithm]
    outer, inner = FACTORS.get(algorithm, (1.0, 1.0))
    steps = {"step_size": outer * golden["alpha"]}
    if "inner_step_size" in nbo.methods()[method].options:
        steps["inner_step_size"] = inner * golden["gamma"]
    return method, given | steps


@pytest.mark.parametrize("name", ["quadratic", "binary"])
@pytest.mark.parametrize("algorithm", METHODS)
def test_iterates_and_counts(name, algorithm):
    golden = GOLDEN[name]
    method, chosen = options(algorithm, golden)
    for iterations, expected in golden["algorithms"][algorithm].items():
        result = nbo.minimize(
            problem(name), golden["x0"], y0=golden["y0"], u0=golden["u0"], method=method,
            tol=0, max_iter=int(iterations), options=chosen,
        )  # fmt: skip
        for part in "xyu":
            np.testing.assert_allclose(result[part], expected[part], rtol=0, atol=1e-9)
        for short, kind in COUNTS.items():
            assert getattr(result.counts, kind) == expected["calls"][short], (iterations, kind)


@pytest.mark.parametrize("name", ["quadratic", "binary"])
def test_oracles(name):
    golden, expected = GOLDEN[name], GOLDEN[name]["oracles_at_x0_y0"]
    p, x, y, u = problem(name), *(np.array(golden[k]) for k in ("x0", "y0", "u0"))
    found = {
        "f": p.upper_value(x, y), "g": p.lower_value(x, y), "grad1_f": p.upper_grad(x, y)[0],
        "grad2_f": p.upper_grad(x, y)[1], "grad2_g": p.lower_grad_y(x, y), "grad1_g": p.lower_grad_x(x, y),
        "hvp_u0": p.lower_hvp(x, y, u), "jvp_u0": p.lower_jvp(x, y, u),
    }  # fmt: skip
    for key, value in found.items():
        np.testing.assert_allclose(value, expected[key], rtol=0, atol=1e-12, err_msg=key)


@pytest.mark.parametrize("name", ["quadratic", "binary"])
def test_hypergradient(name):
    golden = GOLDEN[name]
    h = nbo.hypergradient(problem(name), golden["x0"])
    for found, expected in ((h.grad, "grad_phi0"), (h.value, "phi0"), (h.y, "ystar0"), (h.u, "ustar0")):
        np.testing.assert_allclose(found, golden[expected], rtol=0, atol=1e-9)
    assert np.linalg.norm(h.grad - golden["grad_phi0"]) <= h.error + 1e-12
