"""The experiments of the paper, their figures and claims: all numbers of Section 4 and of the appendix on experiments.

Where the paper gives no number, the comment says so and the choice is this library's.
"""

from __future__ import annotations

import dataclasses

from nbo.experiments.claims import BeatsJAX, Claim, Faster, Fastest, Grows, Iterations, Powers, Similar, SmallestErrors
from nbo.experiments.configuration import (
    Backends,
    Budget,
    Case,
    Costs,
    Curves,
    Entry,
    Experiment,
    FigureLayout,
    Metric,
    Scaling,
    Size,
    Study,
)
from nbo.experiments.problems import ClassPenalties, Cleaning, FeaturePenalties, Problem, Synthetic, Toy
from nbo.experiments.steps import CLEANING_GRID, CONSTANT, COVTYPE_GRID, DECAY, IJCNN1_GRID, Grid


def _entry(label: str, method: str, inner_option: str = "inner_step_size", **options: object) -> Entry:
    decay = DECAY.get(method, CONSTANT)
    return Entry(label=label, method=method, options=options, decay=decay, inner_option=inner_option)


# --- synthetic data: Section 4.1 ------------------------------------------------------------------------------

#: "The outer step size is set to 1, and the inner step size is set to 0.03."
_FULL_BATCH_STEPS = Grid(inner=(0.03,), ratios=(0.03,))

_FULL_BATCH = (
    _entry("NBO-GD (T=1)", "nbo-gd", n_inner=1),
    _entry("NBO-GD (T=10)", "nbo-gd", n_inner=10),
    _entry("AmIGO (Q=1)", "amigo-gd", n_lower_steps=1),
    _entry("AmIGO (Q=10)", "amigo-gd", n_lower_steps=10),
)

_FULL_BATCH_PAIRS = (
    ("NBO-GD (T=1)", "AmIGO (Q=1)"),
    ("NBO-GD (T=1)", "AmIGO (Q=10)"),
    ("NBO-GD (T=10)", "AmIGO (Q=10)"),
    ("NBO-GD (T=1)", "NBO-GD (T=10)"),
)


def _synthetic(r: float) -> Case:
    """Return the case of one r'; the paper does not say how many iterations its figures show."""
    return Case(
        name=f"synthetic-r{r:g}",
        entries=_FULL_BATCH,
        metric="relative gap",
        full=Size(
            problem=Synthetic(r=r),
            grid=_FULL_BATCH_STEPS,
            budget=Budget(iterations=3000, looks=60, expected=18.0),
        ),
        quick=Size(
            problem=Synthetic(r=r, p=20, n_train=2000, n_val=500),
            grid=_FULL_BATCH_STEPS,
            budget=Budget(iterations=1500, looks=30, expected=1.5),
            repeats=3,
        ),
        levels=(0.8, 0.6, 0.4),
        pairs=_FULL_BATCH_PAIRS,
    )


#: Dimensions at both scales; the paper gives none.
_DIMENSIONS = ((50, 10), (100, 20), (200, 40), (400, 80))


def _dimension(index: int, full: int, quick: int) -> Case:
    """Return the case of one dimension; the paper runs 5,000 iterations."""
    return Case(
        name=f"dimension-{index}",
        entries=_FULL_BATCH[:1],
        metric="relative gap",
        full=Size(
            problem=Synthetic(p=full),
            grid=_FULL_BATCH_STEPS,
            budget=Budget(iterations=5000, looks=100, expected=10.0 * full / 50),
        ),
        quick=Size(
            problem=Synthetic(p=quick, n_train=2000, n_val=500),
            grid=_FULL_BATCH_STEPS,
            budget=Budget(iterations=1500, looks=50, expected=1.0),
            repeats=2,
        ),
        levels=(0.8, 0.7, 0.6),
        pairs=(),
    )


# --- real data: Sections 4.2, 4.3 and the first part of 4.4 ---------------------------------------------------

#: Of the way from the start to the floor, what is left at the targets.
_LEVELS = (0.1, 0.03, 0.01)

#: Pairs of steps of quick versions.
_QUICK_PENALTIES = Grid(inner=(2.0**-3, 2.0**-1), ratios=(10**-1.5, 10**-0.5))
_QUICK_COVTYPE = Grid(inner=(2.0**-3, 2.0**-1), ratios=(1.0, 10.0))
_QUICK_CLEANING = Grid(inner=(1e-2, 1e-1), ratios=(1e-6, 1e-5))


def _on_data(
    name: str, metric: Metric, full: Problem, quick: Problem, grid: Grid, quick_grid: Grid, seconds: float
) -> Case:
    """Return a case without methods; the paper's times are those of other machines, so `seconds` is a choice."""
    return Case(
        name=name,
        entries=(),
        metric=metric,
        full=Size(problem=full, grid=grid, budget=Budget(seconds=seconds, looks=60)),
        quick=Size(problem=quick, grid=quick_grid, budget=Budget(seconds=0.4, looks=20), repeats=3),
        levels=_LEVELS,
        pairs=(),
    )


def _small(problem: Problem, n_train: int, n_val: int, n_test: int | None = None) -> Problem:
    return dataclasses.replace(problem, n_train=n_train, n_val=n_val, n_test=n_test, dtype="float64")  # type: ignore[call-arg]


_IJCNN1 = FeaturePenalties(dataset="ijcnn1")
_COVTYPE = ClassPenalties(dataset="covtype", dtype="float32")
_COVTYPE_SAMPLE = ClassPenalties(dataset="covtype_50k")
_MNIST = Cleaning(dataset="mnist", dtype="float32")
_FASHION = Cleaning(dataset="fashion_mnist", dtype="float32")

#: The four data sets, with the weight of moving averages.
_BASES = (
    (_on_data("ijcnn1", "gap", _IJCNN1, _small(_IJCNN1, 8000, 4000), IJCNN1_GRID, _QUICK_PENALTIES, 5.0), 0.9),
    (
        _on_data(
            "covtype", "test error", _COVTYPE, _small(_COVTYPE_SAMPLE, 8000, 2000, 4000), COVTYPE_GRID,
            _QUICK_COVTYPE, 10.0,
        ),
        0.8,
    ),
    (
        _on_data(
            "mnist", "test error", _MNIST, _small(_MNIST, 2000, 500, 2000), CLEANING_GRID, _QUICK_CLEANING, 6.0,
        ),
        0.99,
    ),
    (
        _on_data(
            "fashion", "test error", _FASHION, _small(_FASHION, 2000, 500, 2000), CLEANING_GRID, _QUICK_CLEANING, 6.0,
        ),
        0.99,
    ),
)  # fmt: skip

#: The others that NSBO-SGD is compared with.
_RIVALS = ("SOBA", "SABA", "StocBiO", "AmIGO", "SHINE", "F2SA", "MA-SABA")


def _compared(base: Case, momentum: float) -> Case:
    """Return NSBO-SGD against the other methods.

    Batches of 64, |B_2| = 256 in NSBO-SGD, 256 in SHINE, T = 1 and ten inner iterations are defaults of the methods.
    """
    entries = (
        _entry("NSBO-SGD", "nsbo-sgd"),
        _entry("SOBA", "soba"),
        _entry("SABA", "saba"),
        _entry("StocBiO", "stocbio"),
        _entry("AmIGO", "amigo-sgd"),
        _entry("SHINE", "shine", inner_option="initial_step"),
        _entry("F2SA", "f2sa"),
        _entry("MA-SABA", "ma-saba", momentum=momentum),
    )
    return dataclasses.replace(base, entries=entries, pairs=tuple(("NSBO-SGD", rival) for rival in _RIVALS))


def _variance(base: Case, momentum: float) -> Case:
    """Return the methods with variance reduction and moving averages, with and without Newton directions."""
    entries = (
        _entry("SABA", "saba"),
        _entry("NSBO-SAGA", "nsbo-saga"),
        _entry("MA-SABA", "ma-saba", momentum=momentum),
        _entry("MA-NSBO-SAGA", "ma-nsbo-saga", momentum=momentum),
    )
    pairs = (("NSBO-SAGA", "SABA"), ("MA-NSBO-SAGA", "MA-SABA"))
    return dataclasses.replace(base, name=f"variance-{base.name}", entries=entries, pairs=pairs)


# --- a convex lower level: the second part of 4.4 -------------------------------------------------------------

#: The paper gives neither steps nor a number of iterations: both methods have the same search.
_TOY_GRID = Grid(inner=(0.1, 0.2, 0.5, 1.0), ratios=(0.5, 1.0, 2.0, 5.0))
_AVERAGED = Case(
    name="averaged",
    entries=(_entry("BAMM", "bamm"), _entry("BAMM+NBO", "bamm-nbo")),
    metric="distance",
    full=Size(problem=Toy(), grid=_TOY_GRID, budget=Budget(iterations=2000, looks=200, expected=1.5)),
    quick=Size(problem=Toy(n=20), grid=_TOY_GRID, budget=Budget(iterations=500, looks=100, expected=0.4), repeats=3),
    levels=(0.3, 0.1, 0.03),
    pairs=(("BAMM+NBO", "BAMM"),),
)


# --- all of them ----------------------------------------------------------------------------------------------

_RADII = (1.0, 0.5, 2.0)
_DIMENSION_CASES = tuple(_dimension(i, *dims) for i, dims in enumerate(_DIMENSIONS, start=1))
_COMPARED = tuple(_compared(*base) for base in _BASES)

#: The experiments by name, in the order of the report.
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            name="synthetic",
            title="Full-batch methods on synthetic data (Section 4.1)",
            cases=tuple(_synthetic(r) for r in _RADII),
        ),
        Experiment(
            name="dimension", title="Growing dimension (appendix, Synthetic Data)", cases=_DIMENSION_CASES
        ),
        *(
            Experiment(name=case.name, title=title, cases=(case,))
            for case, title in zip(
                _COMPARED,
                (
                    "Penalties of IJCNN1 (Section 4.2)",
                    "Penalties of Covtype (Section 4.2)",
                    "Hyper-cleaning of MNIST (Section 4.3)",
                    "Hyper-cleaning of FashionMNIST (Section 4.3)",
                ),
                strict=True,
            )
        ),
        Experiment(
            name="variance",
            title="Variance reduction and moving averages (Section 4.4)",
            cases=tuple(_variance(*base) for base in _BASES),
        ),
        Experiment(name="averaged", title="A convex lower level (Section 4.4)", cases=(_AVERAGED,)),
        Experiment(
            name="table1",
            title="Costs over the condition number (Table 1)",
            studies=(Study(name="table1", full=(4, 8, 16, 32), quick=(4, 8, 16), expected=40.0),),
        ),
        Experiment(
            name="table2",
            title="Samples over the condition number (Table 2)",
            studies=(Study(name="table2", full=(4, 8, 16, 32), quick=(4, 8, 16, 32), expected=1.0),),
        ),
        Experiment(
            name="backends",
            title="Compiled loops: Numba and JAX (appendix, Datasets)",
            studies=(Study(name="backends", expected=20.0, needs="jax"),),
        ),
    )
}  # fmt: skip


# --- figures --------------------------------------------------------------------------------------------------


def _synthetic_figure(number: int, r: float) -> FigureLayout:
    return FigureLayout(
        name=f"figure-{number}",
        caption=f"Synthetic data with r' = {r:g}: relative gap to an accurate Phi*.",
        paper=f"Figure {number}",
        panels=(Curves(case=f"synthetic-r{r:g}", axis="iteration"), Curves(case=f"synthetic-r{r:g}", axis="seconds")),
    )


def _pair_of_figures(number: int, caption: str, cases: tuple[str, str]) -> tuple[FigureLayout, FigureLayout]:
    return (
        FigureLayout(
            name=f"figure-{number}",
            caption=f"{caption}, by solver time.",
            paper=f"Figure {number}",
            panels=tuple(Curves(case=case, axis="seconds") for case in cases),
        ),
        FigureLayout(
            name=f"figure-{number}-samples",
            caption=f"{caption}, by component samples over all oracles.",
            paper=f"Figure {number} over samples, which do not depend on the machine",
            panels=tuple(Curves(case=case, axis="samples") for case in cases),
        ),
    )


_DIMENSION_NAMES = tuple(case.name for case in _DIMENSION_CASES)

#: All figures, in the order of the report; panels whose case has no results are left out.
FIGURES: tuple[FigureLayout, ...] = (
    _synthetic_figure(1, 1.0),
    FigureLayout(
        name="figure-1-end-value",
        caption="The same runs, with the lowest value that any of them reached in the place of Phi*.",
        paper="Figures 1, 6 and 7 as a Phi* from the runs themselves shows them: gaps look smaller than they are",
        panels=tuple(Curves(case=f"synthetic-r{r:g}", axis="iteration", own_floor=True) for r in _RADII),
    ),
    FigureLayout(
        name="figure-1-samples",
        caption="The same runs by component samples over all oracles: what an iteration of each method costs.",
        paper="Figures 1, 6 and 7 by cost: where T = 1 gains is not the number of iterations",
        panels=tuple(Curves(case=f"synthetic-r{r:g}", axis="samples") for r in _RADII),
    ),
    *_pair_of_figures(2, "Hyperparameter optimisation", ("ijcnn1", "covtype")),
    *_pair_of_figures(3, "Hyper-cleaning", ("mnist", "fashion")),
    *_pair_of_figures(4, "Variance reduction and moving averages", ("variance-ijcnn1", "variance-mnist")),
    FigureLayout(
        name="figure-5",
        caption="A convex lower level: distance to the solution, relative to the start.",
        paper="Figure 5",
        panels=(Curves(case="averaged", axis="iteration"), Curves(case="averaged", axis="seconds")),
    ),
    _synthetic_figure(6, 0.5),
    _synthetic_figure(7, 2.0),
    FigureLayout(
        name="figure-8",
        caption="Solver time of NBO-GD (T = 1) over the dimension: by the paper's rule, and accurately.",
        paper="Figure 8, and a version with an accurate Phi*",
        panels=(
            Scaling(cases=_DIMENSION_NAMES, own_floor=True, level=1e-3),
            Scaling(cases=_DIMENSION_NAMES, own_floor=False, level=0.8),
        ),
    ),
    *_pair_of_figures(9, "Variance reduction and moving averages", ("variance-covtype", "variance-fashion")),
    FigureLayout(
        name="table-1",
        caption="Gradients and Hessian-vector products until |grad Phi|^2 <= 1e-4 over the condition number.",
        paper="Table 1, measured",
        panels=(Costs(),),
    ),
    FigureLayout(
        name="backends",
        caption="The time of an iteration of SOBA with minibatches of 64 rows of 22 features.",
        paper="No figure of the paper: what it says about Numba and JAX",
        panels=(Backends(),),
    ),
)


# --- claims ---------------------------------------------------------------------------------------------------

_NEWTON_IS_GRADIENT_STEPS = (
    "On a lower level that is nearly quadratic along a step, NBO-GD with T is nearly T + 1 gradient steps on y, so "
    "that in iterations T = 1 lies beside Q = 2, and T = 10 beside Q = 11. What is gained is cost: one gradient in "
    "place of Q, and one Hessian for both linear systems."
)

_END_VALUE = (
    "With a Phi* taken from the run itself the rule fires close to its end whatever the method does: the last "
    "value is at distance 0 from itself. The figure's right panel counts from an accurate Phi*."
)


def _synthetic_claims(r: float, section: str) -> tuple[Claim, ...]:
    case, where = f"synthetic-r{r:g}", f"(in iterations, r' = {r:g})"
    return (
        Claim(
            experiment="synthetic",
            name=f"{case}: one Newton step like Q = 10",
            section=section,
            text=f"NBO-GD (T = 10), a single inexact Newton step, performs comparably to AmIGO with Q = 10 {where}",
            rule=Iterations(case, "NBO-GD (T=10)", "AmIGO (Q=10)", 1.1, True),
            remark=_NEWTON_IS_GRADIENT_STEPS,
        ),
        Claim(
            experiment="synthetic",
            name=f"{case}: T = 1 like Q = 10",
            section=section,
            text=f"NBO-GD maintains that performance, comparable to Q = 10, even with T = 1 {where}",
            rule=Iterations(case, "NBO-GD (T=1)", "AmIGO (Q=10)", 1.1, True),
            remark=_NEWTON_IS_GRADIENT_STEPS,
        ),
        Claim(
            experiment="synthetic",
            name=f"{case}: Q = 1 degrades",
            section=section,
            text=f"AmIGO degrades significantly with one gradient step in place of ten {where}",
            rule=Iterations(case, "AmIGO (Q=1)", "AmIGO (Q=10)", 1.25, False),
        ),
        Claim(
            experiment="synthetic",
            name=f"{case}: T = 1 is fastest",
            section=section,
            text=f"In running time NBO-GD (T = 1) outperforms the other methods (r' = {r:g})",
            rule=Fastest(case, "NBO-GD (T=1)"),
        ),
    )


def _fastest(case: str, section: str, data: str) -> Claim:
    return Claim(
        experiment=case,
        name=f"{case}: NSBO-SGD is fastest",
        section=section,
        text=f"NSBO-SGD has the fastest convergence of all methods on {data}",
        rule=Fastest(case, "NSBO-SGD"),
    )


def _smallest(case: str, data: str) -> Claim:
    return Claim(
        experiment=case,
        name=f"{case}: smallest errors",
        section="4.3",
        text=f"AmIGO and NSBO-SGD outperform all other methods by reaching the smallest error on {data}",
        rule=SmallestErrors(case, ("NSBO-SGD", "AmIGO")),
    )


def _against_amigo(case: str, data: str) -> Claim:
    return Claim(
        experiment=case,
        name=f"{case}: T = 1 beats Q = 10",
        section="4.2",
        text=f"The inner loop of NSBO-SGD with T = 1 is more effective than that of AmIGO with Q = 10 on {data}",
        rule=Faster(case, "NSBO-SGD", "AmIGO"),
    )


_SAGA, _MOVING = ("NSBO-SAGA", "SABA"), ("MA-NSBO-SAGA", "MA-SABA")


def _variance_claims(
    data: str, title: str, section: str, pairs: tuple[tuple[str, str], ...] = (_SAGA, _MOVING)
) -> tuple[Claim, ...]:
    case = f"variance-{data}"
    return tuple(
        Claim(
            experiment="variance",
            name=f"{case}: {first} beats {other}",
            section=section,
            text=f"{first} achieves better performance than {other} on {title}",
            rule=Faster(case, first, other),
        )
        for first, other in pairs
    )


def _power(method: str, quantity: str, power: float) -> tuple[tuple[str, ...], float]:
    return ("exponents", method, quantity), power


#: Every claim of Section 4 and of the appendix on experiments, and of both tables.
CLAIMS: tuple[Claim, ...] = (
    *_synthetic_claims(1.0, "4.1"),
    *_synthetic_claims(0.5, "appendix, Synthetic Data"),
    *_synthetic_claims(2.0, "appendix, Synthetic Data"),
    Claim(
        experiment="dimension",
        name="dimension: it scales",
        section="appendix, Synthetic Data",
        text="NBO scales to large dimensions",
        rule=Grows(_DIMENSION_NAMES, "NBO-GD (T=1)"),
        remark=_END_VALUE,
    ),
    _fastest("ijcnn1", "4.2", "IJCNN1"),
    Claim(
        experiment="ijcnn1",
        name="ijcnn1: several inner steps help",
        section="4.2",
        text="The gap between SOBA and AmIGO on IJCNN1 shows the benefit of several steps on y and u",
        rule=Faster("ijcnn1", "AmIGO", "SOBA"),
    ),
    _against_amigo("ijcnn1", "IJCNN1"),
    _fastest("covtype", "4.2", "Covtype"),
    _against_amigo("covtype", "Covtype"),
    Claim(
        experiment="backends",
        name="backends: Numba beats JAX",
        section="appendix, Datasets",
        text="On IJCNN1 Numba is faster than JAX",
        rule=BeatsJAX(),
        remark="At 22 features an iteration is a few microseconds of arithmetic. A loop that calls JAX for each one "
        "compares overheads; so does one that measures the dispatch of asynchronous work. Rows here are random, of the "
        "size of IJCNN1.",
    ),
    _smallest("mnist", "MNIST"),
    _fastest("mnist", "4.3", "MNIST"),
    _smallest("fashion", "FashionMNIST"),
    _fastest("fashion", "4.3", "FashionMNIST"),
    *_variance_claims("ijcnn1", "IJCNN1", "4.4"),
    *_variance_claims("mnist", "MNIST", "4.4"),
    *_variance_claims("covtype", "Covtype", "appendix, Additional results"),
    *_variance_claims("fashion", "FashionMNIST", "appendix, Additional results", (_SAGA,)),
    Claim(
        experiment="variance",
        name="variance-fashion: MA-NSBO-SAGA like MA-SABA",
        section="appendix, Additional results",
        text="MA-NSBO-SAGA and MA-SABA perform similarly on FashionMNIST",
        rule=Similar("variance-fashion", *_MOVING),
    ),
    Claim(
        experiment="averaged",
        name="averaged: BAMM+NBO beats BAMM",
        section="4.4",
        text="BAMM+NBO significantly outperforms BAMM on the toy problem (in iterations)",
        rule=Faster("averaged", "BAMM+NBO", "BAMM", axis="iteration"),
    ),
    Claim(
        experiment="averaged",
        name="averaged: BAMM+NBO is faster",
        section="4.4",
        text="BAMM+NBO significantly outperforms BAMM on the toy problem (in time)",
        rule=Faster("averaged", "BAMM+NBO", "BAMM"),
    ),
    Claim(
        experiment="table1",
        name="table1: orders",
        section="Table 1",
        text="NBO-GD takes O(kappa^3) gradients and O(kappa^4) Hessian-vector products, NBO-CG O(kappa^3.5) of these; "
        "AmIGO O(kappa^4) gradients, up to logarithms",
        rule=Powers(
            "table1",
            (
                _power("nbo-gd", "gradients", 3.0),
                _power("nbo-gd", "products", 4.0),
                _power("nbo-cg", "products", 3.5),
                _power("amigo-gd", "gradients", 4.0),
                _power("amigo-cg", "gradients", 4.0),
            ),
        ),
        remark="The logarithm in AmIGO's orders is one of its published analysis: with as many steps as the proof of "
        "NBO-GD needs, AmIGO has none.",
    ),
    Claim(
        experiment="table2",
        name="table2: orders",
        section="Table 2",
        text="NSBO-SGD takes O(kappa^9) gradients of G, O(kappa^7) Hessian-vector products and O(kappa^5) of the rest",
        rule=Powers(
            "table2",
            (
                (("unit_gap_exponents", "lower_grad_y"), 9.0),
                (("unit_gap_exponents", "lower_hvp"), 7.0),
                (("unit_gap_exponents", "upper_grad"), 5.0),
                (("unit_gap_exponents", "lower_jvp"), 5.0),
            ),
        ),
        remark="The numbers of samples are evaluated, not run: batches of the theory have millions of samples.",
    ),
)
