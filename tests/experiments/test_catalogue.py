"""The experiments are those of the paper: settings, grids, methods, figures and claims fit together."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from nbo.experiments import _figures, _results
from nbo.experiments.catalogue import CLAIMS, EXPERIMENTS, FIGURES
from nbo.experiments.configuration import Curves, Scaling
from nbo.experiments.problems import Cleaning, FeaturePenalties, Synthetic
from nbo.experiments.steps import COVTYPE_GRID, IJCNN1_GRID
from nbo.solvers import REGISTRY

CASES = {case.name: case for experiment in EXPERIMENTS.values() for case in experiment.cases}
STUDIES = {study.name for experiment in EXPERIMENTS.values() for study in experiment.studies}


def test_all_experiments_of_the_paper_are_there():
    assert list(EXPERIMENTS) == [
        "synthetic", "dimension", "ijcnn1", "covtype", "mnist", "fashion", "variance", "averaged", "table1", "table2",
        "backends",
    ]  # fmt: skip
    assert all(name == experiment.name for name, experiment in EXPERIMENTS.items())
    assert len(CASES) == sum(len(experiment.cases) for experiment in EXPERIMENTS.values())


def test_settings_of_section_4_1():
    for r in (0.5, 1.0, 2.0):
        case = CASES[f"synthetic-r{r:g}"]
        assert case.full.problem == Synthetic(r=r, p=50, n_train=16_000, n_val=4_000)
        assert [(e.method, dict(e.options)) for e in case.entries] == [
            ("nbo-gd", {"n_inner": 1}),
            ("nbo-gd", {"n_inner": 10}),
            ("amigo-gd", {"n_lower_steps": 1}),
            ("amigo-gd", {"n_lower_steps": 10}),
        ]
        for entry in case.entries:
            task = _results.repeated(case, entry, "full", *first_steps(case))[0]
            options = task.options()
            assert options["step_size"](7) == pytest.approx(1) and options["inner_step_size"](7) == pytest.approx(0.03)


def first_steps(case):
    return case.full.grid.pairs[0], 1


def test_grids_are_those_of_the_appendix():
    np.testing.assert_allclose(IJCNN1_GRID.inner, 2.0 ** np.arange(-5, 1))
    np.testing.assert_allclose(IJCNN1_GRID.ratios, [10**-2, 10**-1.5, 10**-1, 10**-0.5, 1])
    np.testing.assert_allclose(COVTYPE_GRID.inner, 2.0 ** np.arange(-6, 1))
    np.testing.assert_allclose(COVTYPE_GRID.ratios, [1e-2, 1e-1, 1, 10])
    for name in ("mnist", "fashion"):
        np.testing.assert_allclose(CASES[name].full.grid.inner, [1e-3, 1e-2, 1e-1, 1])
        np.testing.assert_allclose(CASES[name].full.grid.ratios, [1e-6, 1e-5, 1e-4, 1e-3])


def test_settings_of_the_stochastic_experiments():
    for name in ("ijcnn1", "covtype", "mnist", "fashion"):
        case = CASES[name]
        methods = [entry.method for entry in case.entries]
        assert methods == ["nsbo-sgd", "soba", "saba", "stocbio", "amigo-sgd", "shine", "f2sa", "ma-saba"]
        assert case.full.repeats == 10
    assert CASES["mnist"].full.problem == Cleaning(dataset="mnist", corruption=0.5, dtype="float32")
    assert CASES["ijcnn1"].full.problem == FeaturePenalties(dataset="ijcnn1")
    weights = {"ijcnn1": 0.9, "covtype": 0.8, "mnist": 0.99, "fashion": 0.99}
    for name, weight in weights.items():
        for case in (CASES[name], CASES[f"variance-{name}"]):
            found = {entry.options["momentum"] for entry in case.entries if entry.method.startswith("ma-")}
            assert found == {weight}


def test_batches_and_inner_iterations_are_those_of_the_paper():
    entries = {entry.label: entry for entry in CASES["ijcnn1"].entries}
    problem = FeaturePenalties(dataset="breast_cancer").instance(0).problem
    for label, entry in entries.items():
        solver = REGISTRY[entry.method](step_size=0.1, **dict(entry.options))
        drawn = [stream for stream in solver.streams(problem) if stream.draws]
        wanted = {64} if label not in ("NSBO-SGD", "SHINE") else {64, 256} if label == "NSBO-SGD" else {256}
        n = {"lower": problem.n_samples_lower, "upper": problem.n_samples_upper}
        assert {stream.size for stream in drawn} <= {min(size, n[s.level]) for size in wanted for s in drawn}
        if label == "NSBO-SGD":
            assert solver.n_inner == 1
        if label in ("AmIGO", "StocBiO", "F2SA"):
            assert solver.n_lower_steps == 10
        if label == "SHINE":
            assert solver.n_lower_steps == 5


@pytest.mark.parametrize("scale", ["full", "quick"])
def test_every_run_has_valid_options_and_a_key_of_its_own(scale):
    keys = {}
    for case in CASES.values():
        for entry in case.entries:
            tasks = _results.search(case, entry, scale)
            tasks += _results.repeated(case, entry, scale, case.size(scale).grid.pairs[0], 2)
            for task in tasks:
                REGISTRY[entry.method](**task.options())
                keys.setdefault(task.key, task.described())
                assert keys[task.key] == task.described()
                assert task.expected > 0 and task.title


def test_cases_with_the_same_runs_share_them():
    """So that the comparison of variance reduction does not run SABA again."""
    for label in ("SABA", "MA-SABA"):
        one, other = (
            {task.key for task in _results.search(CASES[name], CASES[name].entry(label), "full")}
            for name in ("mnist", "variance-mnist")
        )
        assert one == other


def test_figures_show_cases_that_exist_and_every_method_has_a_style():
    shown = set()
    for layout in FIGURES:
        for panel in layout.panels:
            names = panel.cases if isinstance(panel, Scaling) else (panel.case,) if isinstance(panel, Curves) else ()
            assert set(names) <= set(CASES)
            shown |= set(names)
    assert shown == set(CASES)
    assert len({layout.name for layout in FIGURES}) == len(FIGURES)
    for case in CASES.values():
        styles = [_figures.STYLES[entry.label] for entry in case.entries]
        assert len({style.color for style in styles}) == len(styles)
        assert len({style.marker for style in styles}) == len(styles)


def lightness(color):
    """Perceived lightness of a colour in grey, from 0 to 255."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue


def test_methods_can_be_told_apart_in_grey():
    for case in CASES.values():
        styles = [_figures.STYLES[entry.label] for entry in case.entries]
        greys = [(style.marker, style.line, round(lightness(style.color))) for style in styles]
        assert len(set(greys)) == len(greys)
        assert max(lightness(style.color) for style in styles) < 200  # not too pale for white paper


def test_claims_refer_to_what_there_is():
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)
    for claim in CLAIMS:
        assert claim.experiment in EXPERIMENTS
        assert set(claim.rule.needs) <= set(CASES) | STUDIES
        assert claim.rule.text and claim.text and claim.section
        for name in ("label", "first", "other"):
            if hasattr(claim.rule, name) and hasattr(claim.rule, "case"):
                CASES[claim.rule.case].entry(getattr(claim.rule, name))


def test_pairs_are_methods_of_their_case():
    for case in CASES.values():
        for pair in case.pairs:
            for label in pair:
                case.entry(label)
        assert len(case.levels) == 3 and all(0 < level < 1 for level in case.levels)
        assert sorted(case.levels, reverse=True) == list(case.levels)


def test_an_unknown_label_is_no_entry():
    with pytest.raises(KeyError, match="nobody"):
        CASES["mnist"].entry("nobody")


def test_configurations_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        EXPERIMENTS["mnist"].name = "other"
