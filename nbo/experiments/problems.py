"""The problems of the experiments: data, models and starting points, a small frozen class each."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo.datasets import load, make_synthetic_logistic
from nbo.problem import BilevelProblem
from nbo.problems import BinaryLogistic, ConvexToy, HyperCleaning, MultinomialLogistic

Array = npt.NDArray[Any]


class Instance(NamedTuple):
    """A problem that methods can run on.

    Attributes
    ----------
    problem : BilevelProblem
        The problem.
    A_test, b_test : ndarray or None
        Rows and labels of the test part, which no method sees.
    """

    problem: BilevelProblem
    A_test: Any = None
    b_test: Array | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Problem(abc.ABC):
    """What an experiment is run on, as data.

    Attributes
    ----------
    dataset : str
        The data set whose files are needed, a key of `nbo.datasets.names`; empty where the data are made.
    redrawn : bool
        Whether every repeat draws data of its own.
    """

    redrawn: ClassVar[bool] = False
    dataset: str = ""

    @abc.abstractmethod
    def instance(self, seed: int) -> Instance:
        """Make the problem.

        Parameters
        ----------
        seed : int
            Of the data, where they are drawn anew in every repeat.

        Returns
        -------
        Instance
            With the test part, if there is one.
        """

    @abc.abstractmethod
    def start(self, problem: BilevelProblem, seed: int) -> tuple[Array, Array]:
        """Return where a repeat starts.

        Parameters
        ----------
        problem : BilevelProblem
            For the dimensions.
        seed : int
            Of the start, where it is random.

        Returns
        -------
        tuple of ndarray
            x0 and y0; u0 is zero.
        """

    @property
    @abc.abstractmethod
    def title(self) -> str:
        """What it is, in a few words."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Synthetic(Problem):
    """One penalty a feature of a logistic regression on random data (paper, Section 4.1), from zero.

    Attributes
    ----------
    dataset : str
        The data set; empty for made ones.
    r : float
        Standard deviation of the samples, r' in the paper.
    p : int
        Number of features.
    n_train, n_val : int
        Numbers of rows.
    """

    redrawn: ClassVar[bool] = True
    r: float = 1.0
    p: int = 50
    n_train: int = 16_000
    n_val: int = 4_000

    def instance(self, seed: int) -> Instance:
        """Draw the data; see `Problem.instance`."""
        data = make_synthetic_logistic(self.n_train, self.n_val, self.p, self.r, random_state=seed)
        return Instance(BinaryLogistic(data.A, data.b, data.A_val, data.b_val))

    def start(self, problem: BilevelProblem, seed: int) -> tuple[Array, Array]:
        """Return zeros; see `Problem.start`."""
        return np.zeros(problem.dim_x), np.zeros(problem.dim_y)

    @property
    def title(self) -> str:
        """The shape of the data."""
        return f"synthetic data, r' = {self.r:g}, p = {self.p}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _OnData(Problem):
    """A problem on a data set.

    Attributes
    ----------
    n_train, n_val, n_test : int or None
        That many rows of each part; None takes the set's own numbers.
    dtype : str
        Of the data.
    """

    n_train: int | None = None
    n_val: int | None = None
    n_test: int | None = None
    dtype: str = "float64"

    model: ClassVar[Callable[..., BilevelProblem]]

    @property
    def settings(self) -> dict[str, Any]:
        """What `nbo.datasets.load` is given besides the rows of each part and the type."""
        return {}

    def instance(self, seed: int) -> Instance:
        """Load the data; see `Problem.instance`."""
        data = load(
            self.dataset, n_train=self.n_train, n_val=self.n_val, n_test=self.n_test, dtype=self.dtype, **self.settings
        )
        return Instance(type(self).model(data.A, data.b, data.A_val, data.b_val), data.A_test, data.b_test)

    def start(self, problem: BilevelProblem, seed: int) -> tuple[Array, Array]:
        """Return x = -2 and y = 0; see `Problem.start`."""
        return constant_start(problem)

    @property
    def title(self) -> str:
        """The data set, and the rows if they are not all of them."""
        name = {"ijcnn1": "IJCNN1", "mnist": "MNIST", "fashion_mnist": "FashionMNIST"}.get(self.dataset)
        name = name or self.dataset.replace("_", " ").capitalize()
        return name if self.n_train is None else f"{name}, {self.n_train} + {self.n_val} rows"


def random_start(problem: BilevelProblem, seed: int = 0) -> tuple[Array, Array]:
    """Return the public benchmark's start on IJCNN1: x = log U(0, 1), within the bounds, and y ~ N(0, I).

    Parameters
    ----------
    problem : BilevelProblem
        For the dimensions and bounds.
    seed : int
        Of the draws.

    Returns
    -------
    tuple of ndarray
        x0 and y0.
    """
    rng = np.random.default_rng(seed)
    return problem.project(np.log(rng.random(problem.dim_x))), rng.standard_normal(problem.dim_y)


def constant_start(problem: BilevelProblem) -> tuple[Array, Array]:
    """Return the public benchmark's start on Covtype and in hyper-cleaning: x = -2 and y = 0.

    Parameters
    ----------
    problem : BilevelProblem
        For the dimensions.

    Returns
    -------
    tuple of ndarray
        x0 and y0.
    """
    return np.full(problem.dim_x, -2.0), np.zeros(problem.dim_y)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeaturePenalties(_OnData):
    """One penalty a feature of a binary logistic regression (paper, Section 4.2, IJCNN1).

    Attributes
    ----------
    dataset : str
        The data set.
    n_train, n_val, n_test : int or None
        That many rows of each part; None takes the set's own numbers.
    dtype : str
        Of the data.
    """

    model: ClassVar = BinaryLogistic

    def start(self, problem: BilevelProblem, seed: int) -> tuple[Array, Array]:
        """Return the benchmark's random start; see `Problem.start`."""
        return random_start(problem, seed)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassPenalties(_OnData):
    """One penalty a class of a multinomial logistic regression (paper, Section 4.2, Covtype).

    Attributes
    ----------
    dataset : str
        The data set.
    n_train, n_val, n_test : int or None
        That many rows of each part; None takes the set's own numbers.
    dtype : str
        Of the data.
    """

    model: ClassVar = MultinomialLogistic


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cleaning(_OnData):
    """A weight for every training row, half of whose labels were drawn anew (paper, Section 4.3).

    Attributes
    ----------
    dataset : str
        The data set.
    n_train, n_val, n_test : int or None
        That many rows of each part; None takes the set's own numbers.
    dtype : str
        Of the data.
    corruption : float
        The probability with which a label was drawn anew, p' in the paper.
    """

    model: ClassVar = HyperCleaning
    corruption: float = 0.5

    @property
    def settings(self) -> dict[str, Any]:
        """The corruption."""
        return {"corruption": self.corruption}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Toy(Problem):
    """The lower level that is convex but not strongly (paper, Section 4.4).

    Attributes
    ----------
    dataset : str
        The data set; empty for made ones.
    n : int
        The length of x.
    """

    n: int = 100

    def instance(self, seed: int) -> Instance:
        """Make the problem; see `Problem.instance`."""
        return Instance(ConvexToy(self.n))

    def start(self, problem: BilevelProblem, seed: int) -> tuple[Array, Array]:
        """Return 0.01 (1 + z/10) with z ~ N(0, 1) in every entry, so that repeats differ; see `Problem.start`."""
        assert isinstance(problem, ConvexToy)
        x0, y0 = problem.start
        rng = np.random.default_rng(seed)
        return tuple(part * (1 + 0.1 * rng.standard_normal(part.size)) for part in (x0, y0))  # type: ignore[return-value]

    @property
    def title(self) -> str:
        """The size."""
        return f"convex lower level, n = {self.n}"
