"""The claims of the paper's experiments, each with a rule for its verdict that is written down before any run."""

from __future__ import annotations

import abc
import dataclasses
import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from nbo.experiments._results import CaseResult, Ratio, median
from nbo.experiments._tables import ratio_in_words
from nbo.experiments.configuration import Axis


class Verdict(enum.StrEnum):
    """What the runs say about a claim."""

    REPRODUCED = "reproduced"
    PARTLY = "partly"
    NOT = "not reproduced"
    OPEN = "not tested"


class Judgement(NamedTuple):
    """A verdict and what it rests on.

    Attributes
    ----------
    verdict : Verdict
        The verdict.
    measured : str
        What was measured, in words.
    """

    verdict: Verdict
    measured: str


def tally(verdicts: Sequence[tuple[Claim, Judgement]]) -> str:
    """Return how many claims have which verdict.

    Parameters
    ----------
    verdicts : sequence of (Claim, Judgement)
        The claims.

    Returns
    -------
    str
        Such as ``"3 reproduced, 1 partly"``.
    """
    counts = Counter(judgement.verdict for _, judgement in verdicts)
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items())


class Evidence(NamedTuple):
    """What rules look at.

    Attributes
    ----------
    cases : mapping
        Name of a case -> its `CaseResult`.
    studies : mapping
        ``"table1"``, ``"table2"`` -> what `nbo.theory` says, as dicts.
    """

    cases: Mapping[str, CaseResult]
    studies: Mapping[str, Mapping[str, Any]]


class Rule(abc.ABC):
    """How a claim is judged."""

    @property
    @abc.abstractmethod
    def text(self) -> str:
        """The rule in words."""

    @property
    @abc.abstractmethod
    def needs(self) -> tuple[str, ...]:
        """Names of the cases or studies that it looks at."""

    @abc.abstractmethod
    def judge(self, evidence: Evidence) -> Judgement:
        """Judge.

        Parameters
        ----------
        evidence : Evidence
            With all that the rule needs.

        Returns
        -------
        Judgement
            The verdict.
        """


@dataclasses.dataclass(frozen=True)
class CaseRule(Rule):
    """A rule about one case.

    Attributes
    ----------
    case : str
        Its name.
    """

    case: str

    @property
    def needs(self) -> tuple[str, ...]:
        """The case."""
        return (self.case,)


def _graded(held: int, of: int) -> Verdict:
    """Return the verdict where a condition held at some of several targets."""
    return Verdict.REPRODUCED if held == of else Verdict.PARTLY if held else Verdict.NOT


def number(value: float) -> str:
    """Return a number with three digits, or words for what is none.

    Parameters
    ----------
    value : float
        The number.

    Returns
    -------
    str
        Such as ``"0.254"``, ``"never"`` or ``"unknown"``.
    """
    if np.isnan(value):
        return "unknown"
    return f"{value:.3g}" if np.isfinite(value) else "never"


def _seconds(value: float) -> str:
    return f"{number(value)} s" if np.isfinite(value) else number(value)


def _levels(result: CaseResult) -> str:
    return f"a {result.case.metric} of {', '.join(f'{target:.3g}' for target in result.targets)}"


def _shown(ratio: Ratio) -> str:
    words, interval = ratio_in_words(ratio)
    between = "" if interval == "-" else f" {interval}"
    neither = ratio.repeats - ratio.wins - ratio.losses
    rest = f", {neither} neither" if neither else ""
    return f"{words}{between} ({ratio.wins} won, {ratio.losses} lost{rest})"


def _divergences(result: CaseResult, *labels: str) -> str:
    """Tell in words which of some methods diverged how often."""
    counts = {label: sum(trace.diverged for trace in result.series[label].traces) for label in labels}
    listed = [f"{label} diverged in {n} of {result.repeats}" for label, n in counts.items() if n]
    return f"; {', '.join(listed)}" if listed else ""


@dataclasses.dataclass(frozen=True)
class Fastest(CaseRule):
    """A method is at the targets before all others.

    Attributes
    ----------
    case : str
        The case.
    label : str
        The method.
    """

    label: str

    @property
    def text(self) -> str:
        """The rule in words."""
        return (
            f"the median time of {self.label} to a target is the least of all methods: at all three targets "
            "(reproduced), at some (partly), at none or never there (not reproduced)"
        )

    def judge(self, evidence: Evidence) -> Judgement:
        """Compare medians; see `Rule.judge`."""
        result, held, parts = evidence.cases[self.case], 0, []
        for target in result.targets:
            times = {label: median(result.arrivals(label, target, "seconds")) for label in result.labels}
            own = times.pop(self.label, np.inf)
            best = min(times, key=lambda label: times[label], default="none")
            held += bool(own < times.get(best, np.inf))
            rank = 1 + sum(time < own for time in times.values())
            place = f"place {rank} of {len(times) + 1}" if np.isfinite(own) else "not there"
            parts.append(f"{_seconds(own)} ({place}), best other {best} {_seconds(times.get(best, np.inf))}")
        diverged = _divergences(result, self.label)
        return Judgement(_graded(held, len(parts)), f"to {_levels(result)}: {'; '.join(parts)}{diverged}")


@dataclasses.dataclass(frozen=True)
class PairRule(CaseRule):
    """A rule about the ratio of a method to another one on the way to the targets.

    Attributes
    ----------
    case : str
        The case.
    first, other : str
        The methods.
    """

    first: str
    other: str

    @property
    @abc.abstractmethod
    def over(self) -> Axis:
        """What the ratio is of."""

    @abc.abstractmethod
    def holds(self, ratio: Ratio) -> bool:
        """Tell whether the condition holds at a target.

        Parameters
        ----------
        ratio : Ratio
            The ratio there.

        Returns
        -------
        bool
            Whether it does.
        """

    def judge(self, evidence: Evidence) -> Judgement:
        """Compare repeat by repeat; see `Rule.judge`."""
        result = evidence.cases[self.case]
        ratios = [result.ratio(self.first, self.other, target, self.over) for target in result.targets]
        text = "; ".join(_shown(ratio) for ratio in ratios)
        return Judgement(
            _graded(sum(map(self.holds, ratios)), len(ratios)),
            f"ratios in {self.over} of {self.first} to {self.other} to {_levels(result)}: {text}"
            f"{_divergences(result, self.first, self.other)}",
        )


@dataclasses.dataclass(frozen=True)
class Faster(PairRule):
    """A method is at the targets before another one.

    Attributes
    ----------
    case : str
        The case.
    first, other : str
        The methods.
    axis : str
        Over what.
    """

    axis: Axis = "seconds"

    @property
    def text(self) -> str:
        """The rule in words."""
        return (
            f"the median over repeats of the ratio of {self.first} to {self.other} in {self.axis} to a target is below "
            "1 with its whole 95 % interval: at all three targets (reproduced), at some (partly), at none (not "
            "reproduced)"
        )

    @property
    def over(self) -> Axis:
        """The axis."""
        return self.axis

    def holds(self, ratio: Ratio) -> bool:
        """Tell whether the interval is below 1; see `PairRule.holds`."""
        return ratio.ratio < 1 and (ratio.high < 1 or np.isnan(ratio.high))


@dataclasses.dataclass(frozen=True)
class Similar(PairRule):
    """Two methods take about as long.

    Attributes
    ----------
    case : str
        The case.
    first, other : str
        The methods.
    factor : float
        How many times as long is still similar.
    """

    factor: float = 1.25

    @property
    def text(self) -> str:
        """The rule in words."""
        return (
            f"the median over repeats of the ratio of {self.first} to {self.other} in seconds to a target is between "
            f"{1 / self.factor:g} and {self.factor:g}: at all three targets (reproduced), at some (partly), at none "
            "(not reproduced)"
        )

    @property
    def over(self) -> Axis:
        """Seconds."""
        return "seconds"

    def holds(self, ratio: Ratio) -> bool:
        """Tell whether the ratio is within the factor; see `PairRule.holds`."""
        return 1 / self.factor <= ratio.ratio <= self.factor


@dataclasses.dataclass(frozen=True)
class Iterations(PairRule):
    """A method needs at most, or at least, so many times the iterations of another one.

    Attributes
    ----------
    case : str
        The case.
    first, other : str
        The methods.
    bound : float
        How many times.
    is_upper : bool
        Whether that is the most, for methods that are comparable, or the least, for one that falls behind.
    """

    bound: float
    is_upper: bool

    @property
    def text(self) -> str:
        """The rule in words."""
        return (
            f"{self.first} needs at {'most' if self.is_upper else 'least'} {self.bound:g} times the iterations of "
            f"{self.other}, median over repeats: at all three targets (reproduced), at some (partly), at none (not "
            "reproduced)"
        )

    @property
    def over(self) -> Axis:
        """Iterations."""
        return "iteration"

    def holds(self, ratio: Ratio) -> bool:
        """Compare with the bound; see `PairRule.holds`."""
        return ratio.ratio <= self.bound if self.is_upper else ratio.ratio >= self.bound


@dataclasses.dataclass(frozen=True)
class SmallestErrors(CaseRule):
    """Some methods end with smaller errors than all others.

    Attributes
    ----------
    case : str
        The case.
    labels : tuple of str
        The methods.
    """

    labels: tuple[str, ...]

    @property
    def text(self) -> str:
        """The rule in words."""
        names = " and ".join(self.labels)
        return (
            f"the median final errors of {names} are below those of every other method: all of them (reproduced), some "
            "of them (partly), none (not reproduced)"
        )

    def judge(self, evidence: Evidence) -> Judgement:
        """Compare medians; see `Rule.judge`."""
        result = evidence.cases[self.case]
        finals = {label: median(result.final(label)) for label in result.labels}
        others = min((value for label, value in finals.items() if label not in self.labels), default=np.inf)
        held = sum(finals.get(label, np.inf) < others for label in self.labels)
        listed = ", ".join(f"{label} {value:.4f}" for label, value in sorted(finals.items(), key=lambda item: item[1]))
        return Judgement(_graded(held, len(self.labels)), f"median final errors: {listed}")


@dataclasses.dataclass(frozen=True)
class Grows(Rule):
    """The time to a target grows at most like a power of the dimension.

    Attributes
    ----------
    cases : tuple of str
        A case a dimension.
    label : str
        The method.
    power : float
        The power.
    """

    cases: tuple[str, ...]
    label: str
    power: float = 1.25

    @property
    def text(self) -> str:
        """The rule in words."""
        return (
            f"median times of {self.label} to the first target of the accurate gap grow with a fitted power of p of at "
            f"most {self.power:g} (reproduced; a pass over the data is linear in p), at most {self.power + 0.5:g} "
            "(partly)"
        )

    @property
    def needs(self) -> tuple[str, ...]:
        """The cases."""
        return self.cases

    def judge(self, evidence: Evidence) -> Judgement:
        """Fit a power to the median times; see `Rule.judge`."""
        results = [evidence.cases[name] for name in self.cases]
        dims = [result.size.problem.p for result in results]  # type: ignore[attr-defined]
        times = [median(r.arrivals(self.label, r.targets[0], "seconds")) for r in results]
        listed = ", ".join(f"p = {p}: {_seconds(time)}" for p, time in zip(dims, times, strict=True))
        if not np.all(np.isfinite(times)):
            return Judgement(Verdict.NOT, f"not there in every dimension: {listed}")
        power = float(np.polyfit(np.log(dims), np.log(times), 1)[0])
        verdict = (
            Verdict.REPRODUCED
            if power <= self.power
            else Verdict.PARTLY if power <= self.power + 0.5 else Verdict.NOT
        )  # fmt: skip
        return Judgement(verdict, f"power {power:.2f} of p ({listed})")


@dataclasses.dataclass(frozen=True)
class Powers(Rule):
    """Costs grow with powers of the condition number.

    Attributes
    ----------
    study : str
        ``"table1"`` or ``"table2"``.
    expected : tuple of (tuple of str, float)
        Where the fitted power is in the study, and what it should be.
    tolerance : float
        How far off it may be.
    """

    study: str
    expected: tuple[tuple[tuple[str, ...], float], ...]
    tolerance: float = 0.35

    @property
    def text(self) -> str:
        """The rule in words."""
        listed = ", ".join(f"{' '.join(path[1:])}: {power:g}" for path, power in self.expected)
        return (
            f"the fitted powers of kappa are within {self.tolerance:g} of the claimed ones ({listed}): all "
            "(reproduced), some (partly), none (not reproduced)"
        )

    @property
    def needs(self) -> tuple[str, ...]:
        """The study."""
        return (self.study,)

    def judge(self, evidence: Evidence) -> Judgement:
        """Compare powers; see `Rule.judge`."""
        held, parts = 0, []
        for path, power in self.expected:
            found: Any = evidence.studies[self.study]
            for name in path:
                found = found[name]
            value = float(found["value"])
            held += abs(value - power) <= self.tolerance
            parts.append(f"{' '.join(path[1:])} {value:.2f} (claimed {power:g})")
        return Judgement(_graded(held, len(parts)), "; ".join(parts))


class BeatsJAX(Rule):
    """An iteration in the loop that Numba compiles takes less time than in JAX."""

    @property
    def text(self) -> str:
        """The rule in words."""
        return (
            "an iteration of SOBA in float32 takes less time in the loop that Numba compiles than in one that JAX "
            "compiles whole (reproduced), or only less than in one that calls JAX from Python (partly)"
        )

    @property
    def needs(self) -> tuple[str, ...]:
        """The study of backends."""
        return ("backends",)

    def judge(self, evidence: Evidence) -> Judgement:
        """Compare times; see `Rule.judge`."""
        times = evidence.studies["backends"]["microseconds"]
        own, whole, calls = (float(times[name]) for name in ("numba, float32", "jax, whole loop", "jax, call by call"))
        verdict = Verdict.REPRODUCED if own < whole else Verdict.PARTLY if own < calls else Verdict.NOT
        listed = ", ".join(f"{name}: {float(value):.2f}" for name, value in times.items())
        return Judgement(verdict, f"microseconds an iteration: {listed}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim of the paper.

    Attributes
    ----------
    experiment : str
        Of which experiment.
    name : str
        Short and unique.
    section : str
        Where it stands in the paper.
    text : str
        The claim in one line.
    rule : Rule
        How it is judged.
    remark : str
        What is doubtful about the claim or the experiment behind it.
    """

    experiment: str
    name: str
    section: str
    text: str
    rule: Rule
    remark: str = ""

    def judge(self, evidence: Evidence) -> Judgement:
        """Judge, if all that the rule needs is there.

        Parameters
        ----------
        evidence : Evidence
            All results that there are.

        Returns
        -------
        Judgement
            "not tested" if something is missing.
        """
        missing = [name for name in self.rule.needs if name not in evidence.cases and name not in evidence.studies]
        if missing:
            return Judgement(Verdict.OPEN, f"no results of {', '.join(missing)}")
        return self.rule.judge(evidence)
