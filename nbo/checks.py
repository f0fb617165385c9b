"""`check_problem`: verify a problem's oracles against one another."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from nbo._validation import dimension, validate_random_state, vector
from nbo.compiled import CompiledProblem
from nbo.oracles import KINDS, frozen, sample_sizes, working_type
from nbo.problem import OPTIONAL_ORACLES, BilevelProblem, FiniteSumProblem, provides

Array = npt.NDArray[Any]

#: Oracles that no sensible problem has without its samples.
_DATA_ORACLES = ("upper_value", "upper_grad", "lower_value", "lower_grad_y")

#: phi(t) and the claimed phi'(0), each with its size.
_Line = tuple[tuple[float, float], tuple[float, float]]


@dataclasses.dataclass(frozen=True)
class Check:
    """The outcome of one check.

    Attributes
    ----------
    name : str
        The oracle, or what was checked.
    passed : bool
        Whether it holds.
    detail : str
        The measured slope or error, or the reason of a failure.
    """

    name: str
    passed: bool
    detail: str


@dataclasses.dataclass(frozen=True)
class ProblemReport:
    """What `check_problem` found; its text is a table.

    Attributes
    ----------
    checks : tuple of Check
        One an oracle and property.
    """

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        width = max(len(check.name) for check in self.checks)
        rows = [f"{'ok' if c.passed else 'FAIL':4}  {c.name:{width}}  {c.detail}" for c in self.checks]
        return "\n".join([*rows, "all checks passed" if self.passed else "some checks FAILED"])


def check_problem(
    problem: BilevelProblem, x: npt.ArrayLike, y: npt.ArrayLike, *, random_state: Any = None
) -> ProblemReport:
    """Check every oracle at one point, along random directions.

    First derivatives against values and products against gradients by the slope of Taylor remainders
    (the remainder of a correct derivative shrinks like h^2); H for symmetry and positive curvature;
    J u against the change of grad_2 g in x (adjointness) and, where it exists, of grad_1 g in y;
    linearity of the products; a `lower_model` of the problem's own against the plain oracles; whether an
    oracle returns the same twice; and for a `FiniteSumProblem` whether the means over two parts of the
    samples make up the whole.

    Parameters
    ----------
    problem : BilevelProblem
        The problem.
    x, y : array_like
        The point, (m,) and (n,): one where nothing vanishes by accident, such as random numbers.
    random_state : None, int or numpy.random.Generator
        For the directions; None means 0, so that the outcome repeats.

    Returns
    -------
    ProblemReport
        True when all passed; print it for the table.

    Raises
    ------
    TypeError, ValueError
        For bad arguments. Faults of the oracles do not raise, they are reported.

    Examples
    --------
    >>> import nbo, numpy as np
    >>> problem = nbo.problems.Quadratic.family(n=4, m=2, kappa=10)
    >>> bool(nbo.check_problem(problem, np.ones(2), np.ones(4)))
    True
    """
    if not isinstance(problem, BilevelProblem):
        raise TypeError(f"problem: found {type(problem).__name__}; expected a BilevelProblem")
    upper = vector("x", x, dimension(problem, "dim_x"), np.float64, "dim_x")
    lower = vector("y", y, dimension(problem, "dim_y"), working_type(problem), "dim_y")
    validate_random_state(random_state)
    rng = random_state if isinstance(random_state, np.random.Generator) else np.random.default_rng(random_state or 0)
    checker = _Checker(problem, upper, lower, rng)
    return ProblemReport(tuple(checker.run()))


class _Checker:
    """The point and directions that all checks share."""

    def __init__(self, problem: BilevelProblem, x: Array, y: Array, rng: np.random.Generator) -> None:
        self.problem = problem
        self.x, self.y = frozen(x, y)
        self.dx = _unit(rng, x) * max(1.0, 0.1 * float(np.linalg.norm(x)))
        self.dy = (_unit(rng, y) * max(1.0, 0.1 * float(np.linalg.norm(y)))).astype(y.dtype)
        self.v, self.w = (rng.standard_normal(y.size).astype(y.dtype) for _ in range(2))
        self.eps = float(np.finfo(y.dtype).eps)

    def run(self) -> list[Check]:
        if isinstance(self.problem, CompiledProblem):
            bounds = self._guarded("kernels stay within arrays", self.within_bounds)
            if not bounds.passed:  # compiled code that leaves its arrays may bring the process down
                return [dataclasses.replace(bounds, detail=f"{bounds.detail} (all other checks were left out)")]
            return [bounds, *self._checks()]
        return self._checks()

    def _checks(self) -> list[Check]:
        names: list[tuple[str, Callable[[], Check]]] = [
            ("shapes and types", self.shapes),
            *self._slopes(),
            ("symmetry of H", self.symmetry),
            ("positive curvature of H", self.curvature),
            ("linearity of products", self.linearity),
            ("repeatability", self.repeatability),
        ]
        if provides(self.problem, "lower_model"):
            names.append(("lower_model", self.model))
        if isinstance(self.problem, FiniteSumProblem):
            names.append(("means over batches", self.batches))
        if isinstance(self.problem, CompiledProblem):
            names.append(("kernels add to their outputs", self.kernels))
            names.append(("kernels are the oracles", self.faithful))
        return [self._guarded(name, check) for name, check in names]

    def _slopes(self) -> list[tuple[str, Callable[[], Check]]]:
        """Return the Taylor checks, those of optional oracles where the problem has them."""
        lines = [
            ("upper_grad", "upper_grad, first part", self._upper_x),
            ("upper_grad", "upper_grad, second part", self._upper_y),
            ("lower_grad_y", "lower_grad_y", self._lower_y),
            ("lower_hvp", "lower_hvp", self._lower_hvp),
            ("lower_jvp", "lower_jvp", self._lower_jvp),
            ("lower_grad_x", "lower_grad_x", self._lower_x),
            ("lower_grad_x", "lower_jvp as derivative of lower_grad_x", self._jvp_y),
            ("upper_hvp", "upper_hvp", self._upper_hvp),
            ("upper_jvp", "upper_jvp", self._upper_jvp),
        ]
        return [
            (name, functools.partial(self.slope, line))
            for oracle, name, line in lines
            if oracle not in OPTIONAL_ORACLES or provides(self.problem, oracle)
        ]

    def _guarded(self, name: str, check: Callable[[], Check]) -> Check:
        """Run one check; whatever a faulty oracle raises is its failure."""
        try:
            return dataclasses.replace(check(), name=name)
        except Exception as error:
            return Check(name, False, f"{type(error).__name__}: {error}")

    # Each of the following returns phi(t) along a line and its claimed derivative at t = 0.

    def _upper_x(self, t: float) -> _Line:
        p = self.problem
        return _number(p.upper_value(self.x + t * self.dx, self.y)), _dot(p.upper_grad(self.x, self.y)[0], self.dx)

    def _upper_y(self, t: float) -> _Line:
        p = self.problem
        return _number(p.upper_value(self.x, self._moved(t))), _dot(p.upper_grad(self.x, self.y)[1], self.dy)

    def _lower_y(self, t: float) -> _Line:
        p = self.problem
        return _number(p.lower_value(self.x, self._moved(t))), _dot(p.lower_grad_y(self.x, self.y), self.dy)

    def _lower_x(self, t: float) -> _Line:
        p = self.problem
        return _number(p.lower_value(self.x + t * self.dx, self.y)), _dot(p.lower_grad_x(self.x, self.y), self.dx)

    def _lower_hvp(self, t: float) -> _Line:
        p, product = self.problem, self.problem.lower_hvp(self.x, self.y, self.dy)
        return _dot(p.lower_grad_y(self.x, self._moved(t)), self.v), _dot(product, self.v)

    def _lower_jvp(self, t: float) -> _Line:
        p, product = self.problem, self.problem.lower_jvp(self.x, self.y, self.v)
        return _dot(p.lower_grad_y(self.x + t * self.dx, self.y), self.v), _dot(product, self.dx)

    def _jvp_y(self, t: float) -> _Line:
        p, product = self.problem, self.problem.lower_jvp(self.x, self.y, self.dy)
        return _dot(p.lower_grad_x(self.x, self._moved(t)), self.dx), _dot(product, self.dx)

    def _upper_hvp(self, t: float) -> _Line:
        p, product = self.problem, self.problem.upper_hvp(self.x, self.y, self.dy)
        return _dot(p.upper_grad(self.x, self._moved(t))[1], self.v), _dot(product, self.v)

    def _upper_jvp(self, t: float) -> _Line:
        p, product = self.problem, self.problem.upper_jvp(self.x, self.y, self.dy)
        return _dot(p.upper_grad(self.x, self._moved(t))[0], self.dx), _dot(product, self.dx)

    def _moved(self, t: float) -> Array:
        return self.y + self.y.dtype.type(t) * self.dy

    def slope(self, line: Callable[[float], _Line]) -> Check:
        """Compare the symmetric remainder of a line with its order: at least quadratic down to rounding.

        Terms larger than its value may cancel inside an oracle, whose rounding cannot be seen from outside
        and spoils a slope; then an agreement to the square root of the rounding unit passes.
        """
        (value, size), (derivative, derivative_size) = line(0.0)
        steps = 2.0 ** -np.arange(2, 22, 2) if self.eps < 1e-10 else 2.0 ** -np.arange(1, 9)
        remainders, floors = [], []
        for h in steps:
            (ahead, size_ahead), (behind, size_behind) = line(h)[0], line(-h)[0]
            if not np.isfinite([ahead, behind, derivative, value]).all():
                return Check("", False, "returned a value that is not finite")
            remainders.append(abs((ahead - behind) / 2 - h * derivative))
            floors.append(64 * self.eps * (size_ahead + size_behind + size + h * derivative_size))
        verdict = _judge(steps, np.array(remainders), np.array(floors))
        error = min(r / h for r, h in zip(remainders, steps, strict=True))
        if verdict.passed or error > np.sqrt(self.eps) * derivative_size:
            return verdict
        return Check("", True, f"no slope for rounding, but right to {error / derivative_size:.0e} relative")

    def shapes(self) -> Check:
        p, m, n = self.problem, self.x.size, self.y.size
        pair = p.upper_grad(self.x, self.y)
        if not isinstance(pair, tuple) or len(pair) != 2:
            return Check("", False, f"upper_grad returned {type(pair).__name__}; expected a pair of arrays")
        found = [
            ("upper_grad, first part", pair[0], m),
            ("upper_grad, second part", pair[1], n),
            ("lower_grad_y", p.lower_grad_y(self.x, self.y), n),
            ("lower_hvp", p.lower_hvp(self.x, self.y, self.v), n),
            ("lower_jvp", p.lower_jvp(self.x, self.y, self.v), m),
        ]
        for name, array, size in found:
            if np.shape(array) != (size,):
                return Check("", False, f"{name} returned shape {np.shape(array)}; expected ({size},)")
        for name, number in (
            ("upper_value", p.upper_value(self.x, self.y)),
            ("lower_value", p.lower_value(self.x, self.y)),
        ):
            if np.size(number) != 1:
                return Check("", False, f"{name} returned shape {np.shape(number)}; expected a number")
        return Check("", True, f"dim_x = {m}, dim_y = {n}")

    def symmetry(self) -> Check:
        Hv, Hw = (self.problem.lower_hvp(self.x, self.y, a) for a in (self.v, self.w))
        scale = np.linalg.norm(Hv) * np.linalg.norm(self.w) + np.linalg.norm(Hw) * np.linalg.norm(self.v)
        error = abs(float(np.vdot(self.w, Hv)) - float(np.vdot(self.v, Hw))) / max(float(scale), 1e-300)
        return Check("", error < 1e3 * self.eps, f"|w'Hv - v'Hw| = {error:.1e} relative")

    def curvature(self) -> Check:
        directions = (self.v, self.w, self.dy)
        products = (self.problem.lower_hvp(self.x, self.y, a) for a in directions)
        worst = min(float(np.vdot(a, Ha) / np.vdot(a, a)) for a, Ha in zip(directions, products, strict=True))
        return Check("", worst > 0, f"smallest v'Hv/v'v = {worst:.3g}")

    def linearity(self) -> Check:
        p = self.problem
        worst = 0.0
        for product in (p.lower_hvp, p.lower_jvp):
            a, b, both = (np.asarray(product(self.x, self.y, z)) for z in (self.v, self.w, self.v + 2 * self.w))
            worst = max(worst, _relative(both, a + 2 * b))
        return Check("", worst < 1e3 * self.eps, f"{worst:.1e} relative")

    def _calls(self) -> list[tuple[str, int, Callable[..., Array]]]:
        """Return (oracle, samples of its level, call with a batch) for every oracle, as flat arrays."""
        p: Any = self.problem
        sizes = (getattr(p, "n_samples_upper", 1), getattr(p, "n_samples_lower", 1))
        arguments = {"hvp": (self.v,), "jvp": (self.v,)}
        found: list[tuple[str, int, Callable[..., Array]]] = []
        for name in KINDS:
            if name in OPTIONAL_ORACLES and not provides(p, name):
                continue
            extra = arguments.get(name.split("_")[1], ())
            oracle = functools.partial(getattr(p, name), self.x, self.y, *extra)
            size = sizes[0] if name.startswith("upper") else sizes[1]
            found.append((name, size, functools.partial(_flat, oracle)))
        return found

    def repeatability(self) -> Check:
        for name, _, call in self._calls():
            if not np.array_equal(call(), call()):
                return Check("", False, f"{name} returned different numbers for the same point")
        return Check("", True, "same point, same bits")

    def model(self) -> Check:
        """Compare every method of a problem's own lower model, on fresh and on used ones, with the plain oracles."""
        p = self.problem
        Hv, Hw = (np.asarray(p.lower_hvp(self.x, self.y, a)) for a in (self.v, self.w))
        gradient, block = np.asarray(p.lower_grad_y(self.x, self.y)), np.stack([self.v, self.w, self.v])
        calls: list[tuple[str, Callable[[Any], Any], Any]] = [
            ("value", lambda m: [m.value()], [p.lower_value(self.x, self.y)]),
            ("hvp of one row", lambda m: m.hvp(self.v[None]), Hv[None]),
            ("hvp of three rows", lambda m: m.hvp(block), np.stack([Hv, Hw, Hv])),
            ("grad_y", lambda m: m.grad_y(), gradient),
            ("grad_y_and_hvp", lambda m: np.concatenate(m.grad_y_and_hvp(self.w)), np.concatenate([gradient, Hw])),
            ("jvp", lambda m: m.jvp(self.v), p.lower_jvp(self.x, self.y, self.v)),
        ]
        if provides(p, "lower_grad_x"):
            calls.append(("grad_x", lambda m: m.grad_x(), p.lower_grad_x(self.x, self.y)))
        used, worst = p.lower_model(self.x, self.y), 0.0
        for name, call, expected in [*calls, *reversed(calls)]:
            for model in (used, p.lower_model(self.x, self.y)):
                found = np.asarray(call(model), dtype=np.float64)
                if found.shape != np.shape(expected):
                    return Check("", False, f"{name}: shape {found.shape}; the oracles give {np.shape(expected)}")
                error = _relative(found, np.asarray(expected, dtype=np.float64))
                worst = max(worst, error)
                if not error < 1e4 * self.eps:
                    return Check("", False, f"{name} differs from the plain oracles by {error:.1e} relative")
        return Check("", True, f"agrees with the plain oracles to {worst:.1e} relative")

    def batches(self) -> Check:
        """Compare the mean over a slice and an index array with the mean over all samples."""
        sample_sizes(self.problem)  # raises where a number is missing
        worst, at = 0.0, "all oracles"
        for name, size, call in self._calls():
            cut = max(1, size // 3)
            # the slice does not begin at 0, so that a kernel that forgets its first row is found
            parts = [(cut, np.arange(cut))] + ([(size - cut, slice(cut, size))] if size > cut else [])
            means = [call(batch=batch) for _, batch in parts]
            if name in _DATA_ORACLES and len(parts) > 1 and np.array_equal(means[0], means[1]) and means[0].any():
                return Check("", False, f"{name} returned the same for two sets of samples: it seems to ignore batch")
            mean = sum(weight * mean for (weight, _), mean in zip(parts, means, strict=True)) / size
            error = _relative(np.asarray(mean), call())
            if error > worst:
                worst, at = error, name
        return Check("", worst < 1e4 * self.eps, f"{worst:.1e} relative, worst in {at}")

    def kernels(self) -> Check:
        """Call kernels with two scales on outputs that hold something, which oracles over samples cannot tell."""
        assert isinstance(self.problem, CompiledProblem)
        error, name = self.problem.contract_error(self.x, self.y)
        return Check("", error < 1e4 * self.eps, f"{error:.1e} relative, worst in {name}")

    def within_bounds(self) -> Check:
        """Call every kernel over samples in a form that looks at its indices, before any other form runs."""
        assert isinstance(self.problem, CompiledProblem)
        for name in self.problem.kernels:
            try:
                self.problem.call_within_bounds(name, self.x, self.y, self.v)
            except TypeError:  # it has the name already
                raise
            except Exception as error:
                return Check("", False, f"kernels[{name!r}]: {type(error).__name__}: {error}")
        return Check("", True, "over all samples; not looked at in functions that they call")

    def faithful(self) -> Check:
        """Compare the oracles with the kernels that compiled loops call instead of them."""
        assert isinstance(self.problem, CompiledProblem)
        self.problem.require_faithful()
        worst, at = 0.0, "all kernels"
        for name, _, call in self._calls():
            outputs = self.problem.call_over_all_samples(name, self.x, self.y, self.v)
            error = _relative(np.concatenate([np.ravel(output) for output in outputs]), call())
            if error > worst:
                worst, at = error, name
        return Check("", worst < 1e4 * self.eps, f"{worst:.1e} relative, worst in {at}")


def _flat(oracle: Callable[..., Any], **batch: Any) -> Array:
    """Return what an oracle returns as one float64 vector."""
    returned = oracle(**batch)
    parts = returned if isinstance(returned, tuple) else (returned,)
    return np.concatenate([np.asarray(part, dtype=np.float64).ravel() for part in parts])


def _relative(found: Array, expected: Array) -> float:
    """Return a relative error; infinity where it is no number, which no comparison would find too large."""
    error = float(np.linalg.norm(found - expected)) / max(float(np.linalg.norm(expected)), 1e-300)
    return np.inf if np.isnan(error) else error


def _number(value: Any) -> tuple[float, float]:
    """Return a value and its size, by which its rounding error is judged."""
    return float(value), abs(float(value))


def _dot(a: Array, b: Array) -> tuple[float, float]:
    """Return an inner product and its size before cancellation."""
    return float(np.vdot(a, b)), float(np.linalg.norm(a) * np.linalg.norm(b))


def _unit(rng: np.random.Generator, like: Array) -> Array:
    direction = rng.standard_normal(like.size)
    return direction / np.linalg.norm(direction)


def _judge(steps: Array, remainders: Array, floors: Array) -> Check:
    """Decide from remainders of central differences, whose order is three for a correct derivative.

    A wrong derivative leaves a remainder of order one. Points below the rounding floor tell nothing;
    if all are below it, the line is a quadratic within rounding and the derivative is right.
    """
    telling = remainders > floors
    if not telling.any():
        return Check("", True, "remainder at the rounding floor")
    usable = np.flatnonzero(telling)
    if usable.size < 2:
        return Check("", bool(usable[0] == 0), "remainder at the rounding floor but for the largest step")
    logs = np.log2(remainders[usable]), np.log2(steps[usable])
    slopes = np.diff(logs[0]) / np.diff(logs[1])
    best = float(slopes[-1]) if slopes.size < 3 else float(np.median(slopes[-3:]))
    return Check("", best > 1.8, f"slope {best:.2f} (2 or more is right, 1 is a wrong derivative)")
