"""The largest values that derivatives take at sampled points of a region, and what is found from there."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._validation import box
from nbo._vectors import norm
from nbo.lower_level import DEFAULT_TOL, solve_lower_level
from nbo.oracles import CountedProblem
from nbo.problem import FiniteSumProblem
from nbo.theory._derivatives import Derivatives, Place, derivatives
from nbo.theory._noise import deviations

Array = npt.NDArray[Any]

#: What is searched for at every point, what of it are norms of grad_1 f and grad_2 f, and what single samples give.
SUPREMA = ("mu", "L_g1", "L_g2", "L_f0", "L_f1", "C_f0")
GRADIENTS = ("C_f0", "L_f0")
DEVIATIONS = ("sigma_f1", "sigma_g1", "sigma_g2", "sigma_g12")
#: Relative errors of oracles and eigenvalues, in rounding units.
ROUNDING = 20.0
#: The shortest side of the box, relative to 1 + |x|, unless it is zero.
NARROWEST = 1e-11
#: Points in the tube are so near its border that short moves stay within.
BORDER = 0.99
#: The radius of a tube is at least so many times that error of y.
RESOLUTION = 50.0
#: Improvements of a direction of a move, for g and for f.
ASCENTS, GRADIENT_ASCENTS = 3, 5
#: Perturbations in which grad f alone is looked at, for each in which all is.
GRADIENT_ROUNDS = 3
#: Points at which single samples are compared.
NOISE_PLACES = 3


class Tube(NamedTuple):
    """Where y is sampled: |y - y*(x)| <= radius.

    Attributes
    ----------
    radius : float
        mu/(2 L_g2), or less where that is too large.
    mu, slope : float
        Strong convexity of g and a Lipschitz constant of y*, by which points are known to be within.
    capped : bool
        Whether the radius is less; grad f, which needs no bound there where L_g2 = 0, is then taken at y*(x) alone.
    """

    radius: float
    mu: float
    slope: float
    capped: bool


def tube(mu: float, L_g1: float, L_g2: float, y: Array) -> Tube:
    """Return the tube of constants, of a radius up to 1 + |y|.

    Parameters
    ----------
    mu, L_g1, L_g2 : float
        The constants.
    y : ndarray
        A point whose size is typical.

    Returns
    -------
    Tube
        Of finite radius.
    """
    cap = 1 + norm(y)
    capped = mu >= 2 * L_g2 * cap
    return Tube(cap if capped else mu / (2 * L_g2), mu, L_g1 / mu, capped)


@dataclasses.dataclass(frozen=True)
class Region:
    """Where x is sampled: a finite box, whose points are projected onto the feasible set.

    Parameters
    ----------
    view : CountedProblem
        Whose problem has the feasible set.
    lower, upper : ndarray
        The box, (m,) each.
    """

    view: CountedProblem
    lower: Array
    upper: Array

    @property
    def width(self) -> Array:
        """The sides of the box, (m,)."""
        return self.upper - self.lower

    def inside(self, x: Array) -> Array:
        """Return the nearest point of the box, projected.

        Parameters
        ----------
        x : ndarray
            (m,).

        Returns
        -------
        ndarray
            (m,).
        """
        projected = self.view.problem.project(np.minimum(np.maximum(x, self.lower), self.upper))
        return np.array(projected, dtype=np.float64)

    def points(self, first: Array | None, count: int, rng: np.random.Generator) -> list[Array]:
        """Return the first point and the two extreme corners, then random points and corners by turns.

        Parameters
        ----------
        first : ndarray or None
            The first one; the centre by default.
        count : int
            How many.
        rng : numpy.random.Generator
            Draws them.

        Returns
        -------
        list of ndarray
            (m,) each.
        """
        found = [(self.lower + self.upper) / 2 if first is None else first, self.lower, self.upper]
        while len(found) < count:
            fractions = rng.uniform(size=self.lower.size)
            found.append(self.lower + self.width * (fractions if len(found) % 2 else np.round(fractions)))
        return [self.inside(x) for x in found[:count]]


def region(view: CountedProblem, bounds: Any, x: Array | None, radius: float, whole: bool) -> Region:
    """Return the box to search, within the problem's bounds.

    Parameters
    ----------
    view : CountedProblem
        The problem.
    bounds : pair or None
        The box wanted; None for the problem's bounds.
    x : ndarray or None
        A point of it.
    radius : float
        Half the side of the box around x that replaces what is left out or infinite.
    whole : bool
        Whether finite bounds of the problem are the box where `bounds` is left out.

    Returns
    -------
    Region
        The box.

    Raises
    ------
    TypeError, ValueError
        For bad bounds, a point outside, or an infinite side without a point.
    """
    limits = box("problem.bounds", view.problem.bounds, view.dim_x)
    lower, upper = limits if bounds is None else box("bounds", bounds, view.dim_x)
    if x is None and not (np.isfinite(lower).all() and np.isfinite(upper).all()):
        raise ValueError("bounds: found an infinite bound; expected a finite box of x, or a point x to search around")
    if x is not None:
        near = np.full(view.dim_x, bounds is None and not whole)
        lower = np.where(near | ~np.isfinite(lower), np.maximum(x - radius, lower), lower)
        upper = np.where(near | ~np.isfinite(upper), np.minimum(x + radius, upper), upper)
    lower, upper = np.maximum(lower, limits[0]), np.minimum(upper, limits[1])
    if (lower > upper).any():
        i = int((lower > upper).argmax())
        raise ValueError(f"bounds: found no x at index {i} within the problem's bounds; expected some")
    width, least = upper - lower, NARROWEST * (1 + np.abs(upper))
    if ((width > 0) & (width < least)).any():
        narrow = float(width[width > 0].min())
        raise ValueError(
            f"bounds, radius: found a side of length {narrow:.3g}; expected 0 or more than {least.min():.3g}, below "
            "which differences are lost in rounding"
        )
    found = Region(view, lower, upper)
    if x is not None and norm(found.inside(x) - x) > 1e-9 * (1 + norm(x)):
        raise ValueError("x: found a point outside of the bounds or of the feasible set; expected one inside")
    return found


class Worst(NamedTuple):
    """The largest value of one kind (the smallest of mu) so far.

    Attributes
    ----------
    value : float
        Without what rounding may have added.
    doubt : float
        By how much it may be too large, where samples were drawn.
    place : Place
        Where.
    offset : ndarray
        y - y*(x) there, (n,).
    """

    value: float
    doubt: float
    place: Place
    offset: Array

    def badness(self, name: str) -> float:
        """Return what grows as the value gets worse.

        Parameters
        ----------
        name : str
            The constant.

        Returns
        -------
        float
            The certain part of the value, of mu its negative.
        """
        return -self.value if name == "mu" else self.value - self.doubt


class Search:
    """Samples derivatives and remembers the worst.

    Parameters
    ----------
    view : CountedProblem
        The oracles.
    where : Region
        Of x.
    rng : numpy.random.Generator
        Draws points and directions.
    start : ndarray or None
        Where the first y*(x) is looked for, (n,).

    Attributes
    ----------
    worst : dict
        Constant -> `Worst`.
    """

    def __init__(
        self, view: CountedProblem, where: Region, rng: np.random.Generator, start: Array | None = None
    ) -> None:
        self.view, self.where, self.rng = view, where, rng
        self.forms: Derivatives = derivatives(view)
        self.worst: dict[str, Worst] = {}
        self._start = start
        eps = float(np.finfo(view.dtype).eps)
        self._rounding, self._step = ROUNDING * eps, eps**0.25

    def solution(self, x: Array, within: Tube | None = None) -> tuple[Array, float]:
        """Return y*(x), (n,), and the radius around it that is known to be in the tube, 0 without one.

        Parameters
        ----------
        x : ndarray
            (m,).
        within : Tube, optional
            The tube.

        Returns
        -------
        tuple
            The solution in the type of y, and the radius.

        Raises
        ------
        ValueError
            If the lower level is not solved accurately enough.
        """
        tol = DEFAULT_TOL[self.view.dtype]
        if within is not None:
            tol = min(tol, 1e-2 * within.mu * within.radius)
        found = solve_lower_level(self.view.problem, x, y0=self._start, tol=tol)
        self._start = found.y
        if within is None:
            return found.y.astype(self.view.dtype), 0.0
        radius = within.radius - found.grad_norm / within.mu
        if radius <= self._rounding * RESOLUTION * norm(found.y):
            raise ValueError(
                f"problem: y*(x) is not known well enough in {self.view.dtype} for points within "
                f"{within.radius:.3g}, the radius of the tube, usually mu/(2 L_g2): {found.message}"
            )
        return found.y.astype(self.view.dtype), radius

    def at_solutions(self, points: list[Array], within: Tube | None) -> None:
        """Look at y*(x) for every x.

        Parameters
        ----------
        points : list of ndarray
            (m,) each.
        within : Tube or None
            The tube that moves must stay in.
        """
        for x in points:
            y, radius = self.solution(x, within)
            self.measure(x, y, np.zeros_like(y), radius, within)

    def elsewhere(self, points: list[Array], within: Tube) -> None:
        """Look at a point near the border of the tube for every x.

        Parameters
        ----------
        points : list of ndarray
            (m,) each.
        within : Tube
            The tube.
        """
        for x in points:
            y, radius = self.solution(x, within)
            self.measure(x, y, BORDER * radius * self._offset(y), radius, within)

    def refine(self, rounds: int, within: Tube) -> None:
        """Perturb the worst points of the constants by turns, and those of grad f, which costs less, more often.

        Parameters
        ----------
        rounds : int
            Points at which all is looked at.
        within : Tube
            The tube.
        """
        for k in range(rounds):
            self.measure(*self._perturbed(SUPREMA[k % len(SUPREMA)], within), within)
            for name in GRADIENTS * GRADIENT_ROUNDS:
                x, y, offset, _ = self._perturbed(name, within)
                self._note_gradients(Place(x, (y + offset).astype(self.view.dtype)), offset, within)

    def _perturbed(self, name: str, within: Tube) -> tuple[Array, Array, Array, float]:
        """Return a point near the worst one of a constant: x, y*(x), the offset from it and the radius of the tube."""
        at, rng = self.worst[name], self.rng
        m, n = self.view.dim_x, self.view.dim_y
        near = at.place.x + 0.2 * self.where.width * rng.standard_normal(m)
        side = np.where(rng.uniform(size=m) < 0.5, self.where.lower, self.where.upper)
        x = self.where.inside(np.where(rng.uniform(size=m) < 0.25, side, near))
        y, radius = self.solution(x, within)
        offset = at.offset + 0.5 * radius * rng.standard_normal(n) / math.sqrt(n)
        if within.capped and name in GRADIENTS:
            offset = np.zeros(n)
        return x, y, offset * BORDER * min(1.0, radius / max(norm(offset), 1e-300)), radius

    def noise(self, points: list[Array]) -> None:
        """Compare single samples at the first few points, if there are samples.

        Parameters
        ----------
        points : list of ndarray
            (m,) each.
        """
        if not isinstance(self.view.problem, FiniteSumProblem):
            return
        for x in points[:NOISE_PLACES]:
            y, _ = self.solution(x)
            for name, found in deviations(self.view, Place(x, y), self.rng, self._rounding).items():
                self._note(name, found.value, Place(x, y), np.zeros_like(y), found.doubt)

    def measure(self, x: Array, y: Array, offset: Array, radius: float, within: Tube | None) -> None:
        """Note all norms at y + offset, and quotients of differences over short moves from there.

        Parameters
        ----------
        x : ndarray
            (m,).
        y, offset : ndarray
            y*(x) and what is added to it, (n,) each.
        radius : float
            Of the tube around y.
        within : Tube or None
            The tube; without one moves may have any direction.
        """
        place = Place(x, (y + offset).astype(self.view.dtype))
        ends, mixed = self.forms.second_ends(place), self.forms.mixed_norm(place)
        largest = max(ends.largest, mixed)
        self._note("mu", ends.smallest + self._rounding * largest, place, offset)
        self._note("L_g1", (1 - self._rounding) * largest, place, offset)
        self._note_gradients(place, offset, within)
        moves = _Moves(self, place, offset, radius - norm(offset), within, largest)
        moves.second_derivatives(ends.vectors)
        moves.gradients()

    def _note_gradients(self, place: Place, offset: Array, within: Tube | None) -> None:
        if within is not None and within.capped and offset.any():
            return
        for name, part in zip(GRADIENTS, self.view.upper_grad(*place), strict=True):
            self._note(name, (1 - self._rounding) * norm(part.astype(np.float64)), place, offset)

    def _note(self, name: str, value: float, place: Place, offset: Array, doubt: float = 0.0) -> None:
        found = Worst(value, doubt, Place(place.x.copy(), place.y.astype(np.float64)), offset.astype(np.float64))
        if name not in self.worst or found.badness(name) > self.worst[name].badness(name):
            self.worst[name] = found

    def _offset(self, y: Array) -> Array:
        """Return a unit vector: any, along y, or along its largest entry."""
        kind = self.rng.integers(3)
        size = norm(y.astype(np.float64))
        if kind == 0 or size == 0:
            return unit(self.rng, y.size)
        if kind == 1:
            return y.astype(np.float64) / size * self.rng.choice([-1.0, 1.0])
        at = int(np.abs(y).argmax())
        return np.where(np.arange(y.size) == at, np.sign(y[at]), 0.0)


class _Moves:
    """Quotients of differences between two points around one."""

    def __init__(
        self, search: Search, place: Place, offset: Array, room: float, within: Tube | None, largest: float
    ) -> None:
        self._search, self._place, self._offset, self._within = search, place, offset, within
        self._room, self._largest = room, largest
        self._size = norm(place.x) + norm(place.y.astype(np.float64))
        self._lengths = self._scales()

    def _scales(self) -> tuple[float, float]:
        """Return the lengths of moves in x and in y."""
        step, width = self._search._step, float(self._search.where.width.max())
        x, y = (1 + float(np.abs(part).max()) for part in self._place)
        y = y if self._within is None else min(y, self._within.radius)
        return step * min(x, width), step * y

    def second_derivatives(self, vectors: Array) -> None:
        """Note the changes of H and J, along several directions and better ones found from those that mix all."""
        for dx, dy in self._starts(vectors):
            best: dict[str, tuple[float, Array, Array]] = {}
            self._try(dx, dy, best)
            if np.count_nonzero(dx) > 1:
                self._ascend(best)

    def _ascend(self, best: dict[str, tuple[float, Array, Array]]) -> None:
        """Turn to the directions in which what changed most so far changes most."""
        for name in list(best):
            for _ in range(ASCENTS):
                before, left, right = best[name]
                self._try(*(self._along_y(right) if name == "second" else self._along_x(left, right)), best)
                if best[name][0] <= before * 1.001:
                    break

    def gradients(self) -> None:
        """Note the changes of grad f, along directions that tend to the one of its largest slope."""
        dx, dy = self._joint()
        for _ in range(GRADIENT_ASCENTS):
            ends = self._ends(dx, dy)
            if ends is None:
                return
            first, last, length = ends
            after, before = (self._search.view.upper_grad(*end) for end in (last, first))
            x, y = (b.astype(np.float64) - a for a, b in zip(before, after, strict=True))
            change, size = math.hypot(norm(x), norm(y)), math.hypot(*map(norm, before))
            self._note("L_f1", change, size, length)
            if change == 0:
                return
            dx, dy = x / change, y / change

    def _starts(self, vectors: Array) -> Iterator[tuple[Array, Array]]:
        m, n = self._place.x.size, self._place.y.size
        rng = self._search.rng
        yield self._joint()
        yield np.full(m, 1 / math.sqrt(m)), np.zeros(n)
        yield np.eye(1, m, int(rng.integers(m)))[0], np.zeros(n)
        for vector in vectors:
            yield np.zeros(m), vector
        yield np.zeros(m), np.eye(1, n, int(rng.integers(n)))[0]

    def _joint(self) -> tuple[Array, Array]:
        m = self._place.x.size
        both = unit(self._search.rng, m + self._place.y.size)
        return both[:m], both[m:]

    def _try(self, dx: Array, dy: Array, best: dict[str, tuple[float, Array, Array]]) -> None:
        ends = self._ends(dx, dy)
        if ends is None:
            return
        first, last, length = ends
        forms = self._search.forms
        for name, pair in (("second", forms.second_change(first, last)), ("mixed", forms.mixed_change(first, last))):
            self._note("L_g2", pair.value, self._largest, length)
            if name not in best or pair.value / length > best[name][0]:
                best[name] = pair.value / length, pair.left, pair.right

    def _along_y(self, v: Array) -> tuple[Array, Array]:
        """Return the direction d in which v'H v changes most: the changes of J v and H v along v."""
        return self._products_change(v, np.zeros(self._place.x.size), v)

    def _along_x(self, u: Array, v: Array) -> tuple[Array, Array]:
        """Return the direction d in which u'J v changes most: the changes of J v and H v along u."""
        return self._products_change(v, u, np.zeros(self._place.y.size))

    def _products_change(self, v: Array, dx: Array, dy: Array) -> tuple[Array, Array]:
        ends = self._ends(dx, dy)
        if ends is None:
            return dx, dy
        first, last, _ = ends
        forms = self._search.forms
        x = forms.mixed_product(last, v) - forms.mixed_product(first, v)
        y = forms.second_product(last, v) - forms.second_product(first, v)
        size = math.hypot(norm(x), norm(y))
        return (x / size, y / size) if size > 0 else (dx, dy)

    def _ends(self, dx: Array, dy: Array) -> tuple[Place, Place, float] | None:
        """Return two points of region and tube on both sides of the place, and their distance; None if that is 0."""
        dx = np.where(self._search.where.width > 0, dx, 0.0)
        parts = norm(dx), norm(dy)
        length = min((scale / part for scale, part in zip(self._lengths, parts, strict=True) if part), default=0.0)
        if self._within is not None:
            length = min(length, 2 * self._room / max(self._within.slope * parts[0] + parts[1], 1e-300))
        first, last = (self._moved(sign * length / 2, dx, dy) for sign in (-1, 1))
        gap = (after.astype(np.float64) - before for before, after in zip(first, last, strict=True))
        distance = math.hypot(*map(norm, gap))
        return (first, last, distance) if distance > 0 else None

    def _moved(self, step: float, dx: Array, dy: Array) -> Place:
        x, y = self._place
        return Place(self._search.where.inside(x + step * dx), (y.astype(np.float64) + step * dy).astype(y.dtype))

    def _note(self, name: str, change: float, size: float, length: float) -> None:
        """Note a quotient without what rounding of values of that size, and of their arguments, may add to it."""
        relative = self._search._rounding / length
        value = change / length * (1 - relative * self._size) - relative * size
        self._search._note(name, max(value, 0.0), self._place, self._offset)


def unit(rng: np.random.Generator, size: int) -> Array:
    """Return a random unit vector.

    Parameters
    ----------
    rng : numpy.random.Generator
        Draws it.
    size : int
        Its length.

    Returns
    -------
    ndarray
        (size,).
    """
    v = rng.standard_normal(size)
    return v / norm(v)
