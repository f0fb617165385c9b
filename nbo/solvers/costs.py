"""What an iteration costs, as each method states it: oracle calls in terms of its numbers of steps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nbo.oracles import KINDS, OracleCounts

if TYPE_CHECKING:
    from nbo.solvers.base import Solver

#: The symbols of cost texts that are options, and which ones; the last symbol is n, the dimension of y.
COST_SYMBOLS = {"T": "n_inner", "Q": "n_lower_steps", "N": "n_linear_steps"}

#: Between two terms; commas inside of parentheses separate arguments.
_COMMA = re.compile(r",\s*(?![^()]*\))")

#: What a term may hold besides symbols.
_FUNCTIONS = {"min": min, "max": max}

#: Oracles of second derivatives.
_SECOND = ("hvp", "jvp")


def terms(cost: str) -> dict[str, str]:
    """Return the numbers of calls in a cost text, unevaluated.

    Parameters
    ----------
    cost : str
        Such as ``"1 upper_grad, 2*T+1 lower_hvp"``.

    Returns
    -------
    dict
        Oracle -> number of calls, such as ``{"upper_grad": "1", "lower_hvp": "2*T+1"}``.

    Raises
    ------
    ValueError
        If a term has no number or ends in no oracle, or if an oracle occurs twice.
    """
    found: dict[str, str] = {}
    for term in _COMMA.split(cost):
        number, _, oracle = term.rpartition(" ")
        if not number.strip() or oracle not in KINDS or oracle in found:
            raise ValueError(f"cost: found {term!r} in {cost!r}; expected a number and one of {', '.join(KINDS)}, once")
        found[oracle] = number
    return found


def evaluated(solver: Solver, dim_y: int) -> OracleCounts:
    """Return the calls that the cost text of a method means.

    Parameters
    ----------
    solver : Solver
        The method with its options.
    dim_y : int
        n.

    Returns
    -------
    OracleCounts
        Of one iteration with given step sizes.

    Raises
    ------
    ValueError
        If the text is wrong, or has a symbol whose option the method lacks.
    """
    values = {symbol: steps(solver, option) for symbol, option in COST_SYMBOLS.items() if hasattr(solver, option)}
    names = {"__builtins__": {}, **_FUNCTIONS, **values, "n": dim_y}
    try:
        return OracleCounts(**{oracle: eval(number, names) for oracle, number in terms(solver.cost).items()})
    except (NameError, SyntaxError) as error:
        raise ValueError(
            f"cost: found {solver.cost!r} of {solver.name!r}, which has {', '.join([*values, 'n'])}: {error}"
        ) from None


def steps(solver: Solver, option: str) -> int:
    """Return a number of steps.

    Parameters
    ----------
    solver : Solver
        The method with its options.
    option : str
        Such as ``"n_linear_steps"``.

    Returns
    -------
    int
        The option, or what the method uses in its place where that is None.
    """
    value = getattr(solver, option)
    if value is None:
        value = solver.implied[option]
    return steps(solver, value) if isinstance(value, str) else value


def oracles(solver: type[Solver]) -> tuple[str, ...]:
    """Return the oracles that a method calls.

    Parameters
    ----------
    solver : type
        The class of the method.

    Returns
    -------
    tuple of str
        Those of its cost and those it needs, in the order of `OracleCounts`; without those that only a rule for the
        step size calls.
    """
    called = {*terms(solver.cost), *solver.needs}
    return tuple(kind for kind in KINDS if kind in called)


def is_first_order(solver: type[Solver]) -> bool:
    """Tell whether a method does without second derivatives.

    Parameters
    ----------
    solver : type
        The class of the method.

    Returns
    -------
    bool
        Whether it calls no product with a second derivative.
    """
    return not any(oracle.endswith(_SECOND) for oracle in oracles(solver))
