"""Problems on which a certificate can be asked for by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nbo import datasets, problems
from nbo._validation import choice, real
from nbo.problem import BilevelProblem

#: The box of log penalties for which constants are valid, and where runs start.
PENALTIES = (-2.0, 0.0)
_MIDDLE = -1.0

#: The share of training labels that are redrawn for hyper-cleaning, and its ridge.
_CORRUPTION, _RIDGE = 0.5, 0.1

#: The most rows of a part: the certificate solves every iterate accurately.
_ROWS = 500


class Instance(NamedTuple):
    """A problem with a start.

    Attributes
    ----------
    problem : BilevelProblem
        With constants.
    x0 : ndarray
        (m,).
    phi_star : float or None
        The least value of Phi or a lower bound of it.
    text : str
        What it is, in a line.
    """

    problem: BilevelProblem
    x0: npt.NDArray[np.float64]
    phi_star: float | None
    text: str


def _quadratic(kappa: float) -> Instance:
    problem = problems.Quadratic.family(5, 3, kappa)
    text = f"quadratic family with n = 5, m = 3, kappa = {kappa:g}"
    return Instance(problem, np.zeros(3), problem.phi(problem.x_star()), text)


def _non_quadratic(kappa: float) -> Instance:
    problem = problems.NonQuadratic.family(kappa)
    return Instance(problem, np.full(2, 0.5), 0.0, f"non-quadratic family with kappa = {kappa:g}; Phi* >= 0")


def _penalised(kind: type, name: str, text: str) -> Instance:
    data = _rows(name)
    problem = kind(data.A, data.b, data.A_val, data.b_val)
    problem.bounds = PENALTIES
    return Instance(problem, np.full(problem.dim_x, _MIDDLE), 0.0, f"{text} on {_shown(data)}; Phi* >= 0")


def _binary(_: float) -> Instance:
    return _penalised(problems.BinaryLogistic, "breast_cancer", "binary logistic regression")


def _multinomial(_: float) -> Instance:
    return _penalised(problems.MultinomialLogistic, "wine", "multinomial logistic regression")


def _ridge(_: float) -> Instance:
    data = _rows("diabetes")
    centre, spread = data.b.mean(), data.b.std()
    problem = problems.Ridge(data.A, (data.b - centre) / spread, data.A_val, (data.b_val - centre) / spread)
    problem.bounds = PENALTIES
    text = f"ridge regression on {_shown(data)}, targets of mean 0 and deviation 1; Phi* >= 0"
    return Instance(problem, np.full(problem.dim_x, _MIDDLE), 0.0, text)


def _hyper_cleaning(_: float) -> Instance:
    data = _rows("digits", corruption=_CORRUPTION)
    length = math.sqrt(data.A.shape[1])
    problem = problems.HyperCleaning(data.A / length, data.b, data.A_val / length, data.b_val, ridge=_RIDGE)
    text = f"hyper-cleaning of {_CORRUPTION:.0%} redrawn labels on {_shown(data)}, rows of length about 1; Phi* >= 0"
    return Instance(problem, np.zeros(problem.dim_x), 0.0, text)


def _rows(name: str, corruption: float = 0.0) -> datasets.Dataset:
    """Return a data set, of which parts that are too large are cut."""
    whole = datasets.load(name)
    sizes = {"n_train": min(_ROWS, whole.A.shape[0]), "n_val": min(_ROWS, whole.A_val.shape[0])}
    return datasets.load(name, corruption=corruption, **sizes)


def _shown(data: datasets.Dataset) -> str:
    return f"{data.name} ({data.A.shape[0]} + {data.A_val.shape[0]} rows, {data.A.shape[1]} features)"


#: Name -> a function of kappa, which problems on data do not use.
INSTANCES: dict[str, Callable[[float], Instance]] = {
    "quadratic": _quadratic,
    "non-quadratic": _non_quadratic,
    "binary": _binary,
    "ridge": _ridge,
    "multinomial": _multinomial,
    "hyper-cleaning": _hyper_cleaning,
}

#: Of those, the ones with a condition number to choose.
WITH_KAPPA = ("quadratic", "non-quadratic")


def instance(name: str, kappa: float = 8.0) -> Instance:
    """Return a problem by name.

    Parameters
    ----------
    name : str
        A key of `INSTANCES`.
    kappa : float
        The condition number of a family, at least 1.

    Returns
    -------
    Instance
        With a start inside the bounds.

    Raises
    ------
    TypeError, ValueError
        For an unknown name or a bad number.
    """
    return INSTANCES[choice("name", name, tuple(INSTANCES))](real("kappa", kappa, minimum=1.0))
