"""Measured and evaluated exponents: fits, runs, tables and files."""

from __future__ import annotations

import json
import math
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nbo
from nbo.problems import NonQuadratic, Quadratic
from nbo.theory import theoretical_parameters
from nbo.theory.complexity import complexity_study
from nbo.theory.exponents import fitted_exponent
from nbo.theory.samples import sample_complexity

QUICK = {"kappas": (2, 4), "eps": 1e-2, "methods": ("nbo-gd", "amigo-cg")}


@pytest.fixture(scope="module")
def small():
    return complexity_study(**QUICK)


class Plain(NonQuadratic):
    """Formulas that the compiled loop does not know to be the same."""


class Open(nbo.BilevelProblem):
    """A problem without closed forms."""

    def __init__(self, inner):
        self.inner, self.dim_x, self.dim_y = inner, inner.dim_x, inner.dim_y
        for oracle in ("upper_value", "upper_grad", "lower_value", "lower_grad_y", "lower_hvp", "lower_jvp"):
            setattr(self, oracle, getattr(inner, oracle))

    upper_value = upper_grad = lower_value = lower_grad_y = lower_hvp = lower_jvp = None

    def constants(self, bounds=None):
        return self.inner.constants(bounds)


@given(st.floats(-5, 5), st.floats(1e-3, 1e3), st.lists(st.integers(1, 200), min_size=3, max_size=8, unique=True))
def test_a_power_is_found_exactly(power, factor, x):
    fit = fitted_exponent(x, [factor * v**power for v in x])
    assert fit.value == pytest.approx(power, abs=1e-8)
    assert fit.low - 1e-8 <= power <= fit.high + 1e-8
    assert fit.high - fit.low < 1e-6


def test_the_interval_is_that_of_a_regression():
    from scipy import stats

    x, y = [1, 2, 4, 8, 16], [1.0, 5.0, 14.0, 70.0, 250.0]
    reference = stats.linregress(np.log(x), np.log(y))
    half = stats.t.ppf(0.975, 3) * reference.stderr
    fit = fitted_exponent(x, y)
    assert fit == pytest.approx((reference.slope, reference.slope - half, reference.slope + half))
    assert str(fit) == f"{fit.value:.2f} [{fit.low:.2f}, {fit.high:.2f}]"


def test_two_points_have_no_interval_and_one_has_no_exponent():
    fit = fitted_exponent([2, 4], [3, 24])
    assert fit == (pytest.approx(3.0), None, None)
    assert str(fit) == "3.00"
    with pytest.raises(ValueError, match="x: found"):
        fitted_exponent([2, 2], [1, 2])
    with pytest.raises(ValueError, match=r"y\[1\]: found 0"):
        fitted_exponent([2, 4], [1, 0])
    with pytest.raises(ValueError, match="y: found 1 numbers"):
        fitted_exponent([2, 4], [1])


def test_numbers_beyond_int64_are_fitted():
    assert fitted_exponent([2, 4, 8], [2**90, 2**180, 2**270]).value == pytest.approx(90)


def test_a_run_starts_in_the_box_and_counts_the_way_there():
    parameters = theoretical_parameters(NonQuadratic.family(16).constants(), "nbo-gd")
    start = nbo.initialization.box1(NonQuadratic.family(16), np.array([0.5, 0.5]))
    assert start.membership.inside and start.N_0 > 0
    counts = parameters.counts(7, N_0=start.N_0, Q_0=start.n_linear_steps)
    assert counts == parameters.counts(7) + start.counts
    assert counts.lower_hvp == 7 * (2 * parameters.T + 1) + start.n_linear_steps
    with pytest.raises(ValueError, match=r"eps: found 1000; expected less than .* at kappa = 15"):
        complexity_study(kappas=(15, 16), eps=1e3, methods=["nbo-gd"])


def test_rows_hold_first_hits_and_exact_costs(small):
    assert [(row.method, row.kappa) for row in small.rows] == [(m, k) for m in QUICK["methods"] for k in (2, 4)]
    for row in small.rows:
        assert row.square <= 1e-2
        parameters = theoretical_parameters(NonQuadratic.family(row.kappa).constants(), row.method)
        lower = 1 if row.D is None else row.D
        assert row.gradients == row.K * (lower + 1) + row.N_0 + 2
        linear = 2 * row.T if row.method == "nbo-gd" else row.N
        assert row.products == row.K * (linear + 1) + row.Q_0
        assert (row.alpha, row.gamma, row.T) == (parameters.alpha, parameters.gamma, parameters.T)
    assert small.methods == QUICK["methods"]
    for quantity in ("K", "gradients", "products"):
        two, four = (getattr(row, quantity) for row in small.rows[:2])
        assert small.exponents["nbo-gd"][quantity].value == pytest.approx(math.log(four / two, 2))


@pytest.mark.parametrize("method", ["nbo-gd", "amigo-cg"])
def test_the_solvers_need_as_many_iterations_as_the_compiled_loop(method):
    def family(kappa):
        problem = NonQuadratic.family(kappa)
        return Plain(problem.B, problem.d, problem.e, mu=problem.mu, L=problem.L, rho=problem.rho), (0.5, 0.5)

    settings = {"kappas": (1, 1.5), "eps": 5e-2, "methods": [method]}
    interpreted, compiled = complexity_study(family, **settings), complexity_study(**settings)
    assert min(row.K for row in compiled.rows) > 10
    assert [row.K for row in interpreted.rows] == [row.K for row in compiled.rows]
    assert [row.counts for row in interpreted.rows] == [row.counts for row in compiled.rows]
    assert interpreted.family == "family family"


def test_problems_without_closed_forms_are_solved_for_grad_phi():
    def family(kappa):
        return Open(Quadratic.family(2, 2, kappa)), (0.5, 0.5)

    settings = {"kappas": (1, 2), "eps": 0.5, "methods": ["nbo-cg"]}
    found, closed = complexity_study(family, **settings), complexity_study("quadratic", **settings)
    assert min(row.K for row in closed.rows) > 5
    assert [row.K for row in found.rows] == [row.K for row in closed.rows]


def test_bounds_keep_a_problem_out_of_the_compiled_loop():
    def family(kappa):
        problem = NonQuadratic.family(kappa)
        problem.bounds = (0.4, 0.6)
        return problem, (0.5, 0.5)

    with pytest.raises(ValueError, match=r"max_iter: found 40; after \d+ iterations of nbo-cg .* expected enough"):
        complexity_study(family, (1, 2), 1e-8, ["nbo-cg"], max_iter=40)


def test_tight_steps_are_fewer():
    fewer = complexity_study(**QUICK, tight=True)
    for row, other in zip(fewer.rows, complexity_study(**QUICK).rows, strict=True):
        assert row.products < other.products or row.method == "nbo-gd"
        assert row.alpha == other.alpha
    assert "the smaller inner steps of theory" in str(fewer)


def test_progress_is_told():
    told = []
    complexity_study(**QUICK, progress=lambda *values: told.append(values))
    assert {stage for stage, _, _ in told} == {f"{m}, kappa = {k}" for m in QUICK["methods"] for k in (2, 4)}
    assert all(square <= 1e-2 for _, _, square in told)


def test_table_has_the_paper_beside_the_exponents(small):
    lines = small.table().splitlines()
    assert [line.split()[0] for line in lines] == ["method", "nbo-gd", "amigo-cg", "aid-bio", "no-loop-aid", "f2sa"]
    assert f"{small.exponents['nbo-gd']['products'].value:.2f}" in lines[1]
    assert lines[1].endswith("O(kappa^3 eps^-1)  O(kappa^3 eps^-1)                 O(kappa^4 eps^-1)")
    assert "not run" in str(small).splitlines()[-1]
    assert repr(small) == str(small)


def test_json_holds_everything_and_is_not_overwritten(small, tmp_path):
    path = tmp_path / "table1.json"
    small.save(path)
    found = json.loads(path.read_text(encoding="utf-8"))
    assert [row["K"] for row in found["rows"]] == [row.K for row in small.rows]
    assert found["rows"][0]["counts"]["lower_hvp"] == small.rows[0].products
    assert found["exponents"]["nbo-gd"]["K"] == small.exponents["nbo-gd"]["K"]._asdict()
    assert found["paper"]["f2sa"]["note"] == "quoted, not run: no explicit constants"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match=r"path: found .*table1.json, which exists; expected a new file"):
        small.save(path)
    assert path.read_text() == "mine"
    small.save(path, force=True)
    assert json.loads(path.read_text(encoding="utf-8")) == found
    with pytest.raises(FileNotFoundError, match="expected an existing folder"):
        small.save(tmp_path / "none" / "a.json")
    with pytest.raises(IsADirectoryError, match="expected a file"):
        small.save(tmp_path, force=True)
    with pytest.raises(TypeError, match="path: found int; expected a path"):
        small.save(3)
    assert [entry.name for entry in tmp_path.iterdir()] == ["table1.json"]


def test_plot_has_two_lines_a_method(small):
    from nbo.plotting import off_screen_figure

    ax = off_screen_figure(6, 4).add_subplot()
    assert small.plot(ax) is ax
    assert len(ax.lines) == 4
    np.testing.assert_allclose(ax.lines[1].get_ydata(), [row.products for row in small.rows[:2]])
    assert ax.get_xscale() == ax.get_yscale() == "log"
    value = small.exponents["amigo-cg"]["gradients"].value
    assert ax.lines[2].get_label() == f"amigo-cg, gradients: {value:.2f}"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"family": "cubic"}, ValueError, "family: found 'cubic'; expected one of 'non-quadratic', 'quadratic'"),
        ({"family": lambda kappa: 3}, TypeError, "family: returned int; expected a pair"),
        ({"family": lambda k: (NonQuadratic.family(k), [1])}, ValueError, r"x0: found shape \(1,\)"),
        ({"family": lambda k: (Open(NonQuadratic.family(k)).inner, "no")}, TypeError, "x0: found an array of type"),
        ({"kappas": 4}, TypeError, "kappas: found int"),
        ({"kappas": [4, 4]}, ValueError, r"kappas: found \[4, 4\]; expected at least two different"),
        ({"kappas": [0.5, 4]}, ValueError, r"kappas\[0\]: found 0.5; expected a number >= 1"),
        ({"eps": 0}, ValueError, "eps: found 0.0; expected a positive number"),
        ({"methods": "nbo-gd"}, TypeError, "methods: found 'nbo-gd'; expected a sequence of names"),
        ({"methods": ["nbo-gd", "itd"]}, ValueError, r"methods\[1\]: found 'itd'; expected one of"),
        ({"tight": 1}, TypeError, "tight: found 1"),
        ({"max_iter": -1}, ValueError, "max_iter: found -1"),
        ({"max_iter": 3}, ValueError, "max_iter: found 3; after 3 iterations of nbo-gd"),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        complexity_study(**(QUICK | arguments))


def test_a_problem_without_constants_is_refused():
    class Bare(Open):
        constants = nbo.BilevelProblem.constants

    with pytest.raises(nbo.theory.NoConstantsError, match="constants: Bare has none"):
        complexity_study(lambda kappa: (Bare(NonQuadratic.family(kappa)), (0.5, 0.5)), **QUICK)


@pytest.mark.slow
def test_exponents_of_the_family():
    """K is that of kappa^3, and AmIGO pays a factor of more than kappa in gradients."""
    kappas = (4, 8, 16, 32)
    newton = complexity_study(kappas=kappas, methods=("nbo-gd", "nbo-cg"))
    amigo = complexity_study(kappas=kappas[:3], methods=("amigo-gd", "amigo-cg"))
    iterations = {row.kappa: row.K for row in newton.rows}
    for row in (*newton.rows, *amigo.rows):
        assert abs(row.K - iterations[row.kappa]) < 20  # x hardly depends on the method
    for method, powers in {"nbo-gd": (2.92, 3.93), "nbo-cg": (2.92, 3.67)}.items():
        found = newton.exponents[method]
        assert (found["gradients"].value, found["products"].value) == pytest.approx(powers, abs=0.15)
        assert found["K"].value == pytest.approx(3, abs=0.1) and found["alpha"].value == pytest.approx(-3, abs=0.1)
    for method, powers in {"amigo-gd": (4.32, 4.32), "amigo-cg": (4.32, 3.72)}.items():
        # at the largest kappa by its exact cost and the iterations of the others
        counts = [
            theoretical_parameters(NonQuadratic.family(kappa).constants(), method).counts(iterations[kappa])
            for kappa in kappas
        ]
        gradients = fitted_exponent(kappas, [c.lower_grad_y + c.upper_grad for c in counts]).value
        products = fitted_exponent(kappas, [c.lower_hvp for c in counts]).value
        assert (gradients, products) == pytest.approx(powers, abs=0.15)
        assert amigo.exponents[method]["gradients"].value == pytest.approx(powers[0], abs=0.2)


@pytest.mark.slow
def test_quadratics_have_a_lower_power():
    """Without third derivatives alpha is Theta(kappa^-2) (errata E9)."""
    study = complexity_study("quadratic", (2, 4, 8), 1e-2, ["nbo-cg"])
    assert study.exponents["nbo-cg"]["K"].value == pytest.approx(2, abs=0.1)
    assert study.exponents["nbo-cg"]["alpha"].value == pytest.approx(-2, abs=0.01)


def test_samples_have_the_powers_of_the_theorem():
    study = sample_complexity()
    powers = {"lower_grad_y": 9, "lower_hvp": 7, "upper_grad": 5, "lower_jvp": 5}
    for kind, power in powers.items():
        assert study.unit_gap_exponents[kind].value == pytest.approx(power, abs=0.15)
        # the rest is the gap's: K and the batches are proportional to it and to nothing
        assert study.exponents[kind].value > study.unit_gap_exponents[kind].value
        assert study.eps_exponents[kind].value == pytest.approx(-2, abs=1e-3)
    assert 0.3 < study.gap_exponent.value < 0.5


def test_samples_are_those_of_the_batches():
    for row in sample_complexity((4, 8)).rows:
        size, samples = row.batch_sizes, row.samples
        assert samples.lower_hvp == row.K * (2 * row.T * size["B1t"] + size["B1"])
        assert (samples.lower_grad_y, samples.upper_grad) == (row.K * size["B2"], row.K * size["B3"])
        assert samples.lower_jvp == row.K * size["B4"]
        assert row.gap == NonQuadratic.family(row.kappa).phi([0.5, 0.5])


def test_sample_table_and_file(tmp_path):
    study = sample_complexity((4, 8, 16))
    lines = study.table().splitlines()
    assert len(lines) == 5
    assert f"{study.unit_gap_exponents['lower_grad_y'].value:.2f}" in lines[1]
    assert lines[1].endswith("O(kappa^9 eps^-2)")
    assert "O(kappa^11 eps^-3 log(kappa/eps))" in str(study) == repr(study)
    study.save(tmp_path / "a.json")
    found = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert found["rows"][2]["samples"]["lower_grad_y"] == study.rows[2].samples.lower_grad_y
    assert found["gap_exponent"]["value"] == study.gap_exponent.value
    with pytest.raises(FileExistsError):
        study.save(tmp_path / "a.json")
    with pytest.raises(ValueError, match="eps: found"):
        sample_complexity(eps=-1)


def test_only_files_are_replaced(small, tmp_path):
    fifo, folder, link, target = (tmp_path / name for name in ("fifo", "folder", "link", "target"))
    os.mkfifo(fifo)
    folder.mkdir()
    target.write_text("old")
    link.symlink_to(target)
    for path, error in ((fifo, PermissionError), (folder, IsADirectoryError)):
        with pytest.raises(error, match="path: found"):
            small.save(path, force=True)
    assert fifo.is_fifo()
    small.save(link, force=True)
    assert link.is_symlink() and json.loads(target.read_text())["study"] == "table1"


def test_progress_has_to_be_callable():
    with pytest.raises(TypeError, match="progress: found int; expected a callable or None"):
        complexity_study(progress=3)


def test_an_interrupt_keeps_finished_methods():
    def stop(stage, iterations, square):
        if stage == interrupted_at:
            raise KeyboardInterrupt

    interrupted_at = "amigo-cg, kappa = 4"
    study = complexity_study(**QUICK, progress=stop)
    assert study.interrupted and study.methods == ("nbo-gd",) and len(study.rows) == 2
    assert "interrupted: runs are missing." in str(study) and study.as_dict()["interrupted"] is True
    interrupted_at = "nbo-gd, kappa = 4"
    with pytest.raises(KeyboardInterrupt):
        complexity_study(**QUICK, progress=stop)
