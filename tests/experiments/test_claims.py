"""Rules give each of their verdicts, on results whose answers are known."""

from __future__ import annotations

import dataclasses

import pytest
from experiment_cases import make_case, outcome, result_of

from nbo.experiments.claims import (
    BeatsJAX,
    Claim,
    Evidence,
    Faster,
    Fastest,
    Grows,
    Iterations,
    Powers,
    Similar,
    SmallestErrors,
    Verdict,
    number,
)
from nbo.experiments.problems import Synthetic

FAST, SLOW, STUCK = [1, 0.4, 0.15, 0.05, 0.05], [1, 0.9, 0.4, 0.15, 0.05], [1, 0.9, 0.9, 0.9, 0.9]
EARLY = [1, 0.4, 0.3, 0.3, 0.3, 0.3]  # first at the first target, never at the others


def evidence(first, other, metric="distance"):
    runs = {"BAMM": [outcome(other)] * 3, "BAMM+NBO": [outcome(first)] * 3}
    return Evidence({"small": result_of(make_case(metric=metric), runs, 3)}, {})


@pytest.mark.parametrize(
    ("rule", "first", "other", "verdict"),
    [
        (Fastest("small", "BAMM+NBO"), FAST, SLOW, Verdict.REPRODUCED),
        (Fastest("small", "BAMM+NBO"), EARLY, SLOW, Verdict.PARTLY),
        (Fastest("small", "BAMM+NBO"), SLOW, FAST, Verdict.NOT),
        (Fastest("small", "BAMM+NBO"), STUCK, STUCK, Verdict.NOT),
        (Faster("small", "BAMM+NBO", "BAMM"), FAST, SLOW, Verdict.REPRODUCED),
        (Faster("small", "BAMM+NBO", "BAMM"), EARLY, SLOW, Verdict.PARTLY),
        (Faster("small", "BAMM+NBO", "BAMM"), FAST, FAST, Verdict.NOT),
        (Faster("small", "BAMM+NBO", "BAMM"), STUCK, STUCK, Verdict.NOT),
        (Faster("small", "BAMM+NBO", "BAMM"), FAST, STUCK, Verdict.REPRODUCED),
        (Similar("small", "BAMM+NBO", "BAMM"), FAST, FAST, Verdict.REPRODUCED),
        (Similar("small", "BAMM+NBO", "BAMM"), FAST, SLOW, Verdict.NOT),
        (Similar("small", "BAMM+NBO", "BAMM"), STUCK, STUCK, Verdict.NOT),
        (Iterations("small", "BAMM+NBO", "BAMM", 1.1, True), FAST, FAST, Verdict.REPRODUCED),
        (Iterations("small", "BAMM+NBO", "BAMM", 1.1, True), SLOW, FAST, Verdict.NOT),
        (Iterations("small", "BAMM+NBO", "BAMM", 1.1, True), EARLY, SLOW, Verdict.PARTLY),
        (Iterations("small", "BAMM+NBO", "BAMM", 1.3, False), SLOW, FAST, Verdict.REPRODUCED),
        (Iterations("small", "BAMM+NBO", "BAMM", 1.3, False), FAST, FAST, Verdict.NOT),
        (Iterations("small", "BAMM+NBO", "BAMM", 1.3, False), STUCK, FAST, Verdict.REPRODUCED),
    ],
)  # fmt: skip
def test_rules_about_arrivals(rule, first, other, verdict):
    found = rule.judge(evidence(first, other))
    assert found.verdict is verdict
    assert found.measured and rule.text
    assert rule.needs == ("small",)


@pytest.mark.parametrize(
    ("finals", "verdict"),
    [
        ((0.1, 0.15, 0.2), Verdict.REPRODUCED),
        ((0.1, 0.3, 0.2), Verdict.PARTLY),
        ((0.3, 0.25, 0.2), Verdict.NOT),
        ((0.2, 0.2, 0.2), Verdict.NOT),
    ],
)
def test_smallest_errors(finals, verdict):
    case = make_case(metric="test error", labels=("NSBO-SGD", "AmIGO", "SOBA"))
    runs = {label: [outcome([0.9, end])] * 2 for label, end in zip(("NSBO-SGD", "AmIGO", "SOBA"), finals, strict=True)}
    found = SmallestErrors("small", ("NSBO-SGD", "AmIGO")).judge(Evidence({"small": result_of(case, runs, 2)}, {}))
    assert found.verdict is verdict and "SOBA 0.2000" in found.measured


@pytest.mark.parametrize(("power", "verdict"), [(1, "reproduced"), (1.6, "partly"), (2.5, "not reproduced")])
def test_growth_over_the_dimension(power, verdict):
    cases = {}
    for p in (10, 20, 40):
        labels = ("NBO-GD (T=1)", "AmIGO (Q=1)")
        case = make_case(metric="relative gap", problem=Synthetic(p=p), labels=labels)
        run = outcome([1.0, 0.4], seconds=[0.0, 1e-3 * p**power])
        cases[f"p{p}"] = result_of(case, {key: [run] for key in labels}, 1)
    rule = Grows(tuple(cases), "NBO-GD (T=1)")
    found = rule.judge(Evidence(cases, {}))
    assert found.verdict == verdict and f"power {power:.2f}" in found.measured


def test_growth_needs_arrivals_in_every_dimension():
    case = make_case(metric="relative gap", problem=Synthetic(p=5), labels=("NBO-GD (T=1)", "AmIGO (Q=1)"))
    result = result_of(case, {key: [outcome([1.0, 0.9])] for key in ("NBO-GD (T=1)", "AmIGO (Q=1)")}, 1)
    found = Grows(("a",), "NBO-GD (T=1)").judge(Evidence({"a": result}, {}))
    assert found.verdict is Verdict.NOT and "never" in found.measured


@pytest.mark.parametrize(
    ("values", "verdict"), [((3.1, 3.9), "reproduced"), ((3.1, 5), "partly"), ((1, 1), "not reproduced")]
)
def test_powers(values, verdict):
    study = {"exponents": {"nbo-gd": {"gradients": {"value": values[0]}, "products": {"value": values[1]}}}}
    expected = ((("exponents", "nbo-gd", "gradients"), 3.0), (("exponents", "nbo-gd", "products"), 4.0))
    assert Powers("table1", expected).judge(Evidence({}, {"table1": study})).verdict == verdict


@pytest.mark.parametrize(("own", "verdict"), [(2.0, "reproduced"), (20.0, "partly"), (2000.0, "not reproduced")])
def test_backends(own, verdict):
    times = {"numba, float64": 5.0, "numba, float32": own, "jax, whole loop": 10.0, "jax, call by call": 100.0}
    assert BeatsJAX().judge(Evidence({}, {"backends": {"microseconds": times}})).verdict == verdict


def test_a_claim_without_results_is_open():
    claim = Claim(experiment="mnist", name="n", section="4", text="t", rule=Fastest("mnist", "SOBA"))
    found = claim.judge(Evidence({}, {}))
    assert found.verdict is Verdict.OPEN and "mnist" in found.measured
    assert (
        dataclasses.replace(claim, rule=Fastest("small", "BAMM+NBO")).judge(evidence(FAST, SLOW)).verdict
        == "reproduced"
    )


def test_numbers_that_are_none_are_words():
    assert [number(v) for v in (0.12345, float("inf"), float("nan"))] == ["0.123", "never", "unknown"]
