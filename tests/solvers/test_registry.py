"""The registry of methods: complete, unambiguous, and true about costs."""

from __future__ import annotations

import dataclasses
import inspect
import itertools

import pytest
from reference_problems import DETERMINISTIC, STOCHASTIC

import nbo
from nbo import solvers
from nbo.oracles import KINDS
from nbo.solvers import REGISTRY, costs
from nbo.solvers.base import PAPER
from nbo.solvers.costs import COST_SYMBOLS

KIND_NAMES = {"deterministic", "stochastic", "deterministic or on batches"}


def names_of_steps(solver):
    """The options of a method that costs may depend on."""
    fields = {field.name for field in dataclasses.fields(solver)}
    return [option for option in COST_SYMBOLS.values() if option in fields]


def settings(solver):
    """Options with defaults, and with several numbers of steps."""
    options = names_of_steps(solver)
    yield {}
    yield from (dict(zip(options, values, strict=True)) for values in itertools.product((1, 2, 7), repeat=len(options)))
    yield from ({option: value} for option in options for value in (1, 3, 12))


@pytest.mark.parametrize("name", REGISTRY)
def test_the_text_of_a_cost_is_true(name):
    for options in settings(REGISTRY[name]):
        solver = REGISTRY[name](**options)
        for dim_y in (1, 5, 40):
            assert costs.evaluated(solver, dim_y) == solver.cost_per_iteration(dim_y), options


@pytest.mark.parametrize("name", REGISTRY)
def test_options_of_steps_that_are_none_stand_for_something(name):
    solver = REGISTRY[name]
    missing = {option for option in names_of_steps(solver) if getattr(solver(), option) is None}
    assert missing == set(solver.implied)
    assert all(costs.steps(solver(), option) >= 0 for option in missing)


@pytest.mark.parametrize("name", REGISTRY)
def test_a_method_says_what_it_is(name):
    solver = REGISTRY[name]
    assert solver.name == name
    for text in (solver.description, solver.source, solver.cost, solver.storage):
        assert text == " ".join(text.split()) and not text.endswith(".")
    assert solver.description and solver.cost
    assert any(f"{year}, " in solver.source for year in range(2016, 2027))
    assert solver.kind in KIND_NAMES
    assert {*solver.needs, *solver.spares} <= set(KINDS)
    assert set(solver.spares) & set(costs.oracles(solver)) == set()


def test_the_class_tells_the_kind():
    assert all(REGISTRY[name].kind.startswith("deterministic") for name in DETERMINISTIC)
    assert all(REGISTRY[name].kind == "stochastic" for name in STOCHASTIC)
    assert all(
        ("batch_size" in nbo.methods()[name].options) == (REGISTRY[name].kind != "deterministic") for name in REGISTRY
    )


def test_every_method_that_nbo_has_is_registered_once():
    public = {thing for thing in map(vars(solvers).get, solvers.__all__) if inspect.isclass(thing)}
    methods = {thing for thing in public if issubclass(thing, nbo.solvers.Solver) and not inspect.isabstract(thing)}
    assert methods == set(REGISTRY.values())
    assert len({solver.name for solver in methods}) == len(methods)
    assert all(getattr(nbo, solver.__name__) is solver and solver.__name__ in nbo.__all__ for solver in methods)


def test_the_family_of_the_library_comes_first():
    own = [solver.source == PAPER for solver in REGISTRY.values()]
    assert any(own) and not all(own)
    assert own == sorted(own, reverse=True)
    assert list(nbo.methods()) == [*REGISTRY]


def test_information_is_that_of_the_class():
    for name, solver in REGISTRY.items():
        info = nbo.methods()[name]
        assert (info.kind, info.source, info.cost, info.storage, info.needs) == (
            solver.kind, solver.source, solver.cost, solver.storage, solver.needs
        )  # fmt: skip
        assert set(info.needs) <= set(info.oracles)
        assert info.first_order == ("lower_hvp" not in info.oracles and "lower_jvp" not in info.oracles)
    assert nbo.methods()["soba"].oracles == ("upper_grad", "lower_grad_y", "lower_hvp", "lower_jvp")


class Odd(nbo.NBOGD):
    """A method whose cost text is given."""


def odd(monkeypatch, cost, **options):
    monkeypatch.setattr(Odd, "cost", cost, raising=False)
    return Odd(**options)


def test_costs_know_functions_symbols_and_precedence(monkeypatch):
    solver = odd(monkeypatch, "1 upper_grad, min(2*(T + 1), n) lower_hvp, max(T, 3)-1 lower_grad_x", n_inner=4)
    assert costs.evaluated(solver, 20) == nbo.OracleCounts(upper_grad=1, lower_hvp=10, lower_grad_x=3)
    assert costs.evaluated(solver, 6).lower_hvp == 6
    assert costs.oracles(type(solver)) == ("upper_grad", "lower_grad_x", "lower_hvp")


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        ("1 upper_grad, lower_hvp", "found 'lower_hvp' in"),
        ("1 upper_grads", "found '1 upper_grads' in"),
        ("1 upper_grad, 2 upper_grad", "found '2 upper_grad' in"),
        ("", "found '' in ''"),
        ("Q lower_hvp", "which has T, n: name 'Q' is not defined"),
        ("2T lower_hvp", "which has T, n: invalid decimal literal"),
        ("len(T) lower_hvp", "name 'len' is not defined"),
    ],
)
def test_wrong_costs_are_refused(monkeypatch, cost, words):
    with pytest.raises(ValueError, match=r"^cost: ") as caught:
        costs.evaluated(odd(monkeypatch, cost), 5)
    assert words in str(caught.value)
