"""What every stochastic method shares: options, minibatch streams, and the session that runs a loop in chunks."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from nbo._clock import Timer
from nbo._interrupts import held
from nbo._validation import choice, integer, real
from nbo._vectors import norm
from nbo.compiled import CompiledProblem
from nbo.coordinates import Room, coordinates_for, dense_direction
from nbo.feasible_sets import FeasibleSet
from nbo.gradient_estimators import new_point
from nbo.inner_steps import estimate_spectrum, largest_curvature
from nbo.minibatches import AnyOracles, Data, FusedOracles, Oracles, SharedOracles
from nbo.oracles import KINDS, CountedProblem, OracleCounts, sample_sizes
from nbo.plain_oracles import PlainOracles
from nbo.problem import BilevelProblem, FiniteSumProblem
from nbo.sampling import (
    B2,
    B4,
    IID,
    SAMPLERS,
    WINDOW,
    Stream,
    batch_size,
    block_of,
    independent_rows,
    integer_state,
    make_streams,
    seed_of,
    shuffled,
    validate_batch_size,
)
from nbo.schedules import LoopValues, Schedule, validate_schedule, values_between, weight_at
from nbo.solvers.base import Solver
from nbo.solvers.driver import Limits, Session, State

Array = npt.NDArray[Any]

#: Names of the batches, in the order of their roles.
BATCHES = ("B1", "B2", "B3", "B4")

#: Seconds that a chunk of iterations is meant to take: between two of them the limits are looked at.
CHUNK_SECONDS = 0.1

#: The least of that, whatever the limits: to enter a compiled loop takes up to a millisecond, which a chunk of a single
#: short iteration would pay for that iteration alone, again and again, as its time leaves no room for a second one.
SHORTEST_CHUNK = 0.01

#: A chunk has at most this many times the iterations of the one before: the first times are no good estimates.
CHUNK_GROWTH = 8

#: Epochs of a run whose `max_iter` is left out, and evaluations of one whose `eval_every` is.
EPOCHS, EVALUATIONS = 10, 20

#: Batches that an estimated inner step looks at by one product each, and by several where that was large, at most.
SCREENED_BATCHES, MEASURED_BATCHES = 1024, 16

#: Steps of one kind in an iteration, and iterations between two over all samples, at most: loops count in 64 bits.
MOST_STEPS, LONGEST_PERIOD = 10**6, 10**12

#: Rows that are copied for independent samples of one chunk, at most.
INDEPENDENT_ROWS = 1 << 16


@dataclasses.dataclass(frozen=True, kw_only=True)
class StochasticSolver(Solver):
    """A method that works on minibatches: one loop, compiled or plain, run in chunks.

    Parameters
    ----------
    step_size : float or callable
        alpha of the upper level, or a schedule k -> alpha such as `nbo.schedules.PowerDecay`.
    inner_step_size : float or callable, optional
        The step on y and u; left out, it is estimated at the start from the Hessians of some batches (counted).
    batch_size : int or "full", optional
        The size of every batch; 64 by default. Defaults are capped at the number of samples.
    batch_sizes : dict, optional
        Sizes of single batches, "B1" (Hessian in D_u), "B1t" (inner Hessians), "B2" (grad_2 g), "B3" (grad f) and
        "B4" (Jacobian), where the method has them; they override `batch_size`.
    sampler : {"epoch", "window", "iid"}
        See `nbo.sampling.SAMPLERS`.
    eval_every : int, optional
        Iterations between two evaluations of f over all samples (reporting, not counted as the method's); by default
        a twentieth of `max_iter`.
    eval_seconds : float, optional
        Seconds of solver time after which f is evaluated besides; which iterations these are is not reproducible. A
        twentieth of `max_time` by default, at least 0.05.
    """

    #: Default sizes that differ from 64.
    default_sizes: ClassVar[Mapping[str, int]] = {}
    kind: ClassVar[str] = "stochastic"
    chooses_step: ClassVar[bool] = False

    inner_step_size: Schedule | None = None
    batch_size: int | str | None = None
    batch_sizes: Mapping[str, int | str] | None = None
    sampler: str = "epoch"
    eval_every: int | None = None
    eval_seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("step_size", "inner_step_size"):
            if getattr(self, name) is not None:
                validate_schedule(name, getattr(self, name))
        choice("sampler", self.sampler, tuple(SAMPLERS))
        if self.eval_every is not None:
            integer("eval_every", self.eval_every, minimum=1)
        if self.eval_seconds is not None:
            real("eval_seconds", self.eval_seconds, positive=True)
        if isinstance(self.batch_sizes, Mapping):  # the caller's may change later
            object.__setattr__(self, "batch_sizes", dict(self.batch_sizes))
        for name, value in self._given_sizes().items():
            validate_batch_size(_label(name, self.batch_sizes), value)

    @abc.abstractmethod
    def loop(self) -> Callable[..., None]:
        """Return the loop: (oracles, memory, point, feasible, values, settings, k0, k1).

        Returns
        -------
        callable
            A function marked by `nbo._dual.dual`.
        """

    @abc.abstractmethod
    def settings(self) -> Any:
        """Return numbers and flags for the loop.

        Returns
        -------
        NamedTuple
            Of fixed types.
        """

    @abc.abstractmethod
    def memory(
        self, problem: BilevelProblem, room: Room, streams: list[Stream], stored: Data, dtype: np.dtype[Any]
    ) -> Any:
        """Return the memory of the estimator, as before the first iteration.

        Parameters
        ----------
        problem : BilevelProblem
            For the dimensions.
        room : Room
            The sizes of arrays in the space of x.
        streams : list of Stream
            The roles.
        stored : Data
            All samples.
        dtype : dtype
            Of y.

        Returns
        -------
        NamedTuple
            Of arrays and numbers.
        """

    @abc.abstractmethod
    def draws(self) -> Mapping[str, int]:
        """Return how many batches of each name an iteration draws.

        Returns
        -------
        mapping
            Name -> number; "B1t" has one stream for each draw, the others one for all.
        """

    @abc.abstractmethod
    def cost_per_iteration(self, dim_y: int) -> OracleCounts:
        """Return the oracle calls of one iteration on minibatches.

        Parameters
        ----------
        dim_y : int
            n.

        Returns
        -------
        OracleCounts
            The exact counts; of PAGE's iterations over minibatches.
        """

    def margin(self, noisy: bool) -> float:
        """Return by how much an estimated inner step falls below 1 over the largest curvature of a batch.

        Parameters
        ----------
        noisy : bool
            Whether batches are parts of the samples.

        Returns
        -------
        float
            At least 1.
        """
        return 2.0 if noisy else 1.0

    def touches_batches_only(self) -> bool:
        """Tell whether an iteration changes x along one batch's J u alone, with nothing dense in the space of x.

        Returns
        -------
        bool
            False by default.
        """
        return False

    def shares(self) -> bool:
        """Tell whether one lower batch serves D_y, H u and J u.

        Returns
        -------
        bool
            False by default.
        """
        return False

    def kernels(self, fused: bool) -> tuple[str, ...]:
        """Return the names of the kernels that the loop calls with these options.

        Parameters
        ----------
        fused : bool
            Whether the problem has ``lower_parts``.

        Returns
        -------
        tuple of str
            By default those of the four oracles of a minibatch.
        """
        return ("lower_grad_y", "lower_hvp", "lower_jvp", "upper_grad")

    def weight(self) -> Schedule:
        """Return the weight of the past in momentum or an estimator.

        Returns
        -------
        float or callable
            0 for none.
        """
        return 0.0

    def linear_step(self, inner: Schedule) -> Schedule:
        """Return the step of the linear system for u.

        Parameters
        ----------
        inner : float or callable
            The inner step, given or estimated.

        Returns
        -------
        float or callable
            The same by default.
        """
        return inner

    def streams(self, problem: BilevelProblem) -> list[Stream]:
        """Return the streams of all roles.

        Parameters
        ----------
        problem : BilevelProblem
            For the numbers of samples.

        Returns
        -------
        list of Stream
            B1, B2, B3, B4, the coin, and B1t for each t.

        Raises
        ------
        ValueError
            If an explicit size is larger than its level.
        """
        sizes, draws, given = sample_sizes(problem), self.draws(), self._given_sizes()

        def stream(name: str, count: int) -> Stream:
            level = "upper" if name == "B3" else "lower"
            if name in given:
                size = batch_size(_label(name, self.batch_sizes), given[name], sizes[level])
            else:
                size = min(self.default_sizes.get(name, 64), sizes[level])
            return Stream(level, sizes[level], size, count)

        found = [stream(name, draws.get(name, 0)) for name in BATCHES]
        return [*found, Stream("none", 1, 1, 0), *(stream("B1t", 1) for _ in range(draws.get("B1t", 0)))]

    def _given_sizes(self) -> dict[str, int | str]:
        """Return the sizes that were given, by name."""
        names = [name for name, count in self.draws().items() if count]
        given = {} if self.batch_size is None else dict.fromkeys(names, self.batch_size)
        if self.batch_sizes is None:
            return given
        if not isinstance(self.batch_sizes, Mapping):
            raise TypeError(f"batch_sizes: found {type(self.batch_sizes).__name__}; expected a dict of names and sizes")
        unknown = [str(name) for name in self.batch_sizes if name not in names]
        if unknown:
            raise ValueError(
                f"batch_sizes: found {', '.join(unknown)}; {self.name} with these options has {', '.join(names)}"
            )
        return given | dict(self.batch_sizes)

    def limits(self, problem: BilevelProblem, tol: float, max_iter: int | None, max_time: float) -> Limits:
        """Return the limits, 10 epochs and 20 evaluations by default; see `Solver.limits`."""
        if max_iter is None:
            streams = self.streams(problem)
            first = next(s for s in streams if s.level == "lower" and s.draws)
            max_iter = EPOCHS * first.blocks
        every = self.eval_every or max(1, math.ceil(max_iter / EVALUATIONS))
        return Limits(None, max_iter, max_time, every, self.eval_seconds)

    def session(
        self, problem: BilevelProblem, start: State, feasible: FeasibleSet, limits: Limits, random_state: Any
    ) -> tuple[Session, State]:
        """Set to work; see `Solver.session`."""
        chunk_seconds = min(CHUNK_SECONDS, max(SHORTEST_CHUNK, min(limits.seconds_between / 2, limits.max_time / 10)))
        session = StochasticSession(self, problem, start, feasible, random_state, chunk_seconds)
        return session, session.start


def _label(name: str, batch_sizes: Mapping[str, Any] | None) -> str:
    return f"batch_sizes[{name!r}]" if batch_sizes and name in batch_sizes else "batch_size"


class StochasticSession(Session):
    """A stochastic method at work: arrays that the loop changes in place, and chunks of its iterations.

    Parameters
    ----------
    solver : StochasticSolver
        The method.
    problem : BilevelProblem
        The problem.
    start : State
        The first iterate, or a saved state.
    feasible : FeasibleSet
        The feasible set of x.
    random_state : None, int or numpy.random.Generator
        Where the seed comes from.
    chunk_seconds : float
        What a chunk is meant to take.

    Attributes
    ----------
    start : State
        With the method's memory.
    """

    def __init__(
        self,
        solver: StochasticSolver,
        problem: BilevelProblem,
        start: State,
        feasible: FeasibleSet,
        random_state: Any,
        chunk_seconds: float,
    ) -> None:
        self._solver, self._feasible, self._chunk_seconds = solver, feasible, chunk_seconds
        self._view = CountedProblem(problem)  # for what goes over all samples
        self._before = OracleCounts(), OracleCounts()
        saved = start.memory
        self._random_state = saved["random_state"] if saved else integer_state(random_state)
        self._seed = seed_of(self._random_state)
        self._inner = saved["inner_step_size"] if saved else None
        self._backend = _backend(problem)
        self._streams = solver.streams(problem)
        self._kind = SAMPLERS[solver.sampler]
        self._shuffles = self._kind != IID and any(s.size < s.n for s in self._streams if s.draws)
        self._stored = self._backend.data(self._seed if self._shuffles else None)
        self._oracles: AnyOracles | None = None
        source = self._streams[B2 if solver.shares() else B4]
        self._coordinates, room = coordinates_for(problem, source.n, source.size, solver.touches_batches_only())
        self._memory = solver.memory(problem, room, self._streams, self._stored, self._view.dtype)
        self._point = new_point(start.x, start.y, start.u, room)
        self._arrays = _arrays((self._memory, self._point))
        if saved:
            for array, stored in zip(self._arrays, saved["arrays"], strict=True):
                if (stored.shape, stored.dtype) != (array.shape, array.dtype):
                    raise ValueError(
                        f"memory: found an array of shape {stored.shape} and {stored.dtype}; expected {array.shape} "
                        f"and {array.dtype}"
                    )
                array[...] = stored
        self._chunk, self._torn = 1, False
        self.start = self._state(start.nit, start)

    def _state(self, nit: int, shown: State) -> State:
        """Return a state whose memory refers to the live arrays."""
        memory = {"random_state": self._random_state, "inner_step_size": self._inner, "arrays": self._arrays}
        return dataclasses.replace(shown, nit=nit, memory=memory)

    def advance(self, state: State, until: int) -> State:
        """Run a chunk; see `Session.advance`."""
        self._prepare(state)
        stop = min(state.nit + self._chunk, until)
        self._torn = True
        seconds = self._run(state.nit, stop)
        self._torn = False
        self._chunk = self._next_chunk(stop - state.nit, seconds)
        p = self._point
        d_x = dense_direction(self._coordinates, p.d_x, p.x.shape[0])
        size = norm(p.x_left - self._feasible(p.x_left - d_x))
        norms = size, norm(p.d[0]), norm(p.d[1])
        shown = dataclasses.replace(state, x=p.x.copy(), y=p.y.copy(), u=p.u.copy(), d_x=d_x, norms=norms)
        return self._state(stop, shown)

    def _prepare(self, state: State) -> None:
        """Compile, and choose the inner step, before the first iteration."""
        if self._oracles is None:
            streams = make_streams(self._kind, self._seed, self._streams, self._backend.wraps)
            counts = np.zeros((2, len(KINDS)), dtype=np.int64)
            fused = self._backend.fuses
            kind = (FusedOracles if fused else SharedOracles) if self._solver.shares() else Oracles
            kernels = self._backend.kernels(self._solver.kernels(fused))
            self._oracles = kind(kernels, self._coming(), streams, counts, self._coordinates)
        if self._solver.inner_step_size is None and self._inner is None:
            self._inner = self._estimated_step(state)

    def _estimated_step(self, state: State) -> float:
        """Return an inner step from the curvature of all samples, or of batches where these are others."""
        view = self._view
        used = (role for role, stream in enumerate(self._streams) if stream.level == "lower" and stream.draws)
        role = min(used, key=lambda role: self._streams[role].size)
        n, size = self._streams[role].n, self._streams[role].size
        differences = "lower_hvp" in self._solver.spares
        if not isinstance(view.problem, FiniteSumProblem) or (size == n and self._kind != IID):
            x, y = state.x, state.y
            hvp = view.batch_differences(x, y, None) if differences else view.lower_model(x, y).hvp
            return 1 / (self._solver.margin(False) * estimate_spectrum(hvp, view.dim_y, view.dtype).largest)
        order = shuffled(self._seed, "lower", n) if self._kind == IID else self._stored.lower[-1]
        assert self._oracles is not None
        count = min(self._streams[role].blocks, SCREENED_BATCHES)
        blocks = [block_of(self._oracles.streams, role, k) for k in range(count)]
        product = view.batch_differences if differences else view.batch_hvp
        hvps = [product(state.x, state.y, order[block.lo : block.hi]) for block in blocks]
        return 1 / (self._solver.margin(True) * largest_curvature(hvps, view.dim_y, view.dtype, MEASURED_BATCHES))

    def _coming(self) -> Data:
        """Return the data that the loop reads; windows of a plain problem go on from the end to the beginning."""
        if self._backend.wraps or self._kind != WINDOW or not self._shuffles:
            return self._stored
        doubled = (np.concatenate((level[-1], level[-1])) for level in self._stored[:2])
        return self._backend.chosen(*doubled)

    def _next_chunk(self, done: int, seconds: float) -> int:
        wanted = done * self._chunk_seconds / max(seconds, 1e-9)
        chunk = max(1, int(min(wanted, CHUNK_GROWTH * max(done, self._chunk))))
        if self._kind == IID:
            rows = max(sum(s.size * s.draws for s in self._streams if s.level == level) for level in ("lower", "upper"))
            chunk = max(1, min(chunk, INDEPENDENT_ROWS // max(rows, 1)))
        return chunk

    def _run(self, start: int, stop: int) -> float:
        """Do the iterations start .. stop - 1 and return their seconds, compilation left out."""
        oracles, solver = self._oracles, self._solver
        assert oracles is not None
        if self._kind == IID:
            rows = (independent_rows(oracles.streams, self._streams, lv, start, stop) for lv in ("lower", "upper"))
            oracles = oracles._replace(data=self._backend.chosen(*rows))
        inner = solver.inner_step_size if self._inner is None else self._inner
        assert inner is not None and solver.step_size is not None
        inner_values, linear = values_between("inner_step_size", inner, start, stop), solver.linear_step(inner)
        values = LoopValues(
            inner_values,
            values_between("step_size", solver.step_size, start, stop),
            values_between("momentum", solver.weight(), start, stop, weight_at),
            inner_values if linear is inner else values_between("linear_step_size", linear, start, stop),
        )
        feasible = self._backend.feasible(self._feasible)
        timer = Timer()
        arguments = oracles, self._memory, self._point, feasible, values, solver.settings(), start, stop
        self._backend.call(solver.loop(), *arguments)
        return timer.seconds()

    def protected(self) -> contextlib.AbstractContextManager[None]:
        """Hold Ctrl-C until a chunk is complete; see `Session.protected`."""
        return held(once=True)

    def damage(self) -> str | None:
        """Tell whether a loop was left in the middle of an iteration; see `Session.damage`."""
        return "the run was interrupted within an iteration" if self._torn else None

    def count_before(self, calls: OracleCounts, samples: OracleCounts) -> None:
        """Add earlier calls; see `Session.count_before`."""
        self._before = self._before[0] + calls, self._before[1] + samples

    def on_trial(self, state: State) -> bool:
        """Return False; see `Session.on_trial`."""
        return False

    def chosen(self) -> dict[str, Any]:
        """Return the random state as an integer, and the estimated inner step; see `Session.chosen`."""
        return {"random_state": self._random_state} | ({} if self._inner is None else {"inner_step_size": self._inner})

    @property
    def counts(self) -> OracleCounts:
        """The calls so far."""
        return self._before[0] + self._view.counts + self._counted(0)

    @property
    def samples(self) -> OracleCounts:
        """The component samples that they went over."""
        return self._before[1] + self._view.samples + self._counted(1)

    def _counted(self, row: int) -> OracleCounts:
        return OracleCounts() if self._oracles is None else OracleCounts(*self._oracles.counts[row].tolist())


def _backend(problem: BilevelProblem) -> Any:
    if not isinstance(problem, CompiledProblem):
        return PlainOracles(problem)
    from nbo.kernels.loops import CompiledOracles  # the compiler is imported only for problems that need it

    return CompiledOracles(problem)


def _arrays(tree: Any) -> list[Array]:
    """Return the arrays of a memory in order; the data in it do not belong to it."""
    if isinstance(tree, np.ndarray):
        return [tree]
    if isinstance(tree, tuple) and not isinstance(tree, Data):
        return [array for part in tree for array in _arrays(part)]
    return []
