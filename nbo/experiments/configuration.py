"""What an experiment consists of, as frozen data: no experiment has code of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from nbo.experiments.problems import Problem
from nbo.experiments.steps import Grid

#: What is measured: |(x, y) - solution| relative to the start, Phi(x) - Phi*, the same relative to the start, or the
#: share of test rows that y gets wrong.
Metric = Literal["distance", "gap", "relative gap", "test error"]

#: What a curve is drawn over.
Axis = Literal["iteration", "seconds", "samples"]

#: "full" is the paper's size, "quick" a small version to see that everything works.
Scale = Literal["full", "quick"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entry:
    """A method that takes part.

    Attributes
    ----------
    label : str
        Its name in figures, which has the same colour and marker in all of them.
    method : str
        Its name for `nbo.minimize`.
    options : mapping
        Besides step sizes.
    decay : tuple of float
        Exponents of (k + 1) by which the outer and the inner step decay.
    inner_option : str
        The option that the inner step of the grid is.
    """

    label: str
    method: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    decay: tuple[float, float] = (0.0, 0.0)
    inner_option: str = "inner_step_size"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Budget:
    """When a run ends, and how often it is looked at.

    Attributes
    ----------
    seconds : float or None
        Solver time.
    iterations : int or None
        Iterations, of deterministic methods.
    looks : int
        How often the metric is computed, about.
    expected : float or None
        Seconds that a run takes, for the time left; by default `seconds`.
    """

    seconds: float | None = None
    iterations: int | None = None
    looks: int = 50
    expected: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Size:
    """How large a case is.

    Attributes
    ----------
    problem : Problem
        On what.
    grid : Grid
        Pairs of steps. A single pair needs no search.
    budget : Budget
        Of each run, in the search and in the repeats.
    repeats : int
        How many there are unless the command says otherwise.
    """

    problem: Problem
    grid: Grid
    budget: Budget
    repeats: int = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """Methods on one problem.

    Attributes
    ----------
    name : str
        Of its files and in claims.
    entries : tuple of Entry
        The methods.
    metric : str
        What is measured; see `Metric`.
    full, quick : Size
        The sizes at both scales.
    levels : tuple of float
        Targets, as parts of the way from the start down to the floor of the metric that are still to go.
    pairs : tuple of (str, str)
        Labels of an NBO method and of one that it is compared with.
    """

    name: str
    entries: tuple[Entry, ...]
    metric: Metric
    full: Size
    quick: Size
    levels: tuple[float, ...]
    pairs: tuple[tuple[str, str], ...]

    def size(self, scale: Scale) -> Size:
        """Return the size at a scale.

        Parameters
        ----------
        scale : {"full", "quick"}
            The scale.

        Returns
        -------
        Size
            Of this case.
        """
        return self.full if scale == "full" else self.quick

    def entry(self, label: str) -> Entry:
        """Return a method by its label.

        Parameters
        ----------
        label : str
            The label.

        Returns
        -------
        Entry
            The method.

        Raises
        ------
        KeyError
            If there is none.
        """
        for entry in self.entries:
            if entry.label == label:
                return entry
        raise KeyError(label)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Curves:
    """A panel with a curve a method.

    Attributes
    ----------
    case : str
        Which case.
    axis : str
        Over what.
    title : str
        Above the panel; by default what the problem is.
    own_floor : bool
        Whether the gap counts from the lowest value that any of the runs reached in place of an accurate Phi*.
    """

    case: str
    axis: Axis
    title: str = ""
    own_floor: bool = False

    @property
    def shows(self) -> tuple[str, ...]:
        """Names of the cases or studies in it."""
        return (self.case,)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scaling:
    """A panel with times over the dimension.

    Attributes
    ----------
    cases : tuple of str
        A case a dimension.
    own_floor : bool
        The paper's rule: Phi* is the value at the end of the run itself, and the target 1e-3 of the gap.
    level : float
        The target, as a part of the gap.
    """

    cases: tuple[str, ...]
    own_floor: bool
    level: float

    @property
    def shows(self) -> tuple[str, ...]:
        """Names of the cases or studies in it."""
        return self.cases


@dataclasses.dataclass(frozen=True, kw_only=True)
class Costs:
    """A panel with the costs of Table 1 over the condition number."""

    shows: ClassVar[tuple[str, ...]] = ("table1",)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Backends:
    """A panel with the time of an iteration by backend."""

    shows: ClassVar[tuple[str, ...]] = ("backends",)


Panel = Curves | Scaling | Costs | Backends


@dataclasses.dataclass(frozen=True, kw_only=True)
class FigureLayout:
    """A figure: panels in a row.

    Attributes
    ----------
    name : str
        Of its files.
    caption : str
        What it shows.
    paper : str
        The figure of the paper that it is laid out like, or why there is a second version.
    panels : tuple
        From left to right.
    """

    name: str
    caption: str
    paper: str
    panels: tuple[Panel, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Study:
    """A table: one of the paper's that `nbo.theory` measures or evaluates, or times of backends.

    Attributes
    ----------
    name : str
        ``"table1"``, ``"table2"`` or ``"backends"``.
    full, quick : tuple of float
        Condition numbers at both scales.
    expected : float
        Seconds that it takes, for the time left.
    needs : str
        A module that has to be installed, which is also the name of the extra that installs it.
    """

    name: str
    full: tuple[float, ...] = ()
    quick: tuple[float, ...] = ()
    expected: float
    needs: str = ""

    def kappas(self, scale: Scale) -> tuple[float, ...]:
        """Return the condition numbers at a scale.

        Parameters
        ----------
        scale : {"full", "quick"}
            The scale.

        Returns
        -------
        tuple of float
            In ascending order.
        """
        return self.full if scale == "full" else self.quick


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """What has a name on the command line.

    Attributes
    ----------
    name : str
        That name.
    title : str
        What it is.
    cases : tuple of Case
        The problems with their methods.
    studies : tuple of Study
        Tables of the theory.
    """

    name: str
    title: str
    cases: tuple[Case, ...] = ()
    studies: tuple[Study, ...] = ()
