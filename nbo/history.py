"""How a run went: its status, its evaluated iterates and the history."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._storable import storable
from nbo.oracles import KINDS, OracleCounts

Array = npt.NDArray[Any]


@storable
class Status(enum.StrEnum):
    """Why a run ended; each compares equal to its text."""

    CONVERGED = "converged"
    ITERATION_LIMIT = "iteration_limit"
    TIME_LIMIT = "time_limit"
    STOPPED = "stopped"
    STALLED = "stalled"
    DIVERGED = "diverged"
    INTERRUPTED = "interrupted"


@storable
class EvaluatedIterate(NamedTuple):
    """An iterate with its upper value.

    Attributes
    ----------
    x, y, u : ndarray
        The iterate.
    fun : float
        f(x, y).
    nit : int
        After how many iterations.
    """

    x: Array
    y: Array
    u: Array
    fun: float
    nit: int


class History(Mapping[str, Array]):
    """Equal-length arrays, one entry an evaluation, by name; also readable as attributes.

    Names: ``iteration``, ``seconds`` (solver time without evaluation, callbacks and compilation),
    ``value`` (f), ``hypergrad_norm`` (of the last d_x computed before the row; NaN where there is
    none yet), ``lower_grad_norm`` (|grad_2 g|), ``adjoint_residual`` (|H u - grad_2 f|), of
    stochastic methods the estimates of these three; a cumulative count for each kind of oracle, and
    ``samples_`` with its name for the component samples that the calls went over.

    Parameters
    ----------
    columns : mapping
        Name -> array.
    """

    def __init__(self, columns: Mapping[str, Array]) -> None:
        self._columns = dict(columns)

    def __getitem__(self, name: str) -> Array:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __getattr__(self, name: str) -> Array:
        if not name.startswith("_") and name in self._columns:
            return self._columns[name]
        raise AttributeError(
            f"the history has no column {name!r}; it has {', '.join(self.__dict__.get('_columns', ()))}"
        )

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._columns]

    def __repr__(self) -> str:
        return f"<History of {self['iteration'].size} rows: {', '.join(self)}>"


#: The columns of a history.
_COUNTS = (*KINDS, *(f"samples_{kind}" for kind in KINDS))
COLUMNS = ("iteration", "seconds", "value", "hypergrad_norm", "lower_grad_norm", "adjoint_residual", *_COUNTS)


class HistoryRecorder:
    """Collects rows; beyond `MAX_ROWS` every second one is dropped and the stride doubles.

    Parameters
    ----------
    rows : sequence of tuple
        Rows that are there already.
    stride, seen : int
        Every how many evaluations one is kept, and how many there were.
    """

    MAX_ROWS = 10_000

    def __init__(self, rows: Sequence[tuple[float, ...]] = (), stride: int = 1, seen: int = 0) -> None:
        self._rows = list(rows)
        self._stride = stride
        self._seen = seen

    def parts(self) -> tuple[list[tuple[float, ...]], int, int]:
        """Return what a recorder can be made from again.

        Returns
        -------
        tuple
            The arguments of the class.
        """
        return list(self._rows), self._stride, self._seen

    def add(
        self,
        iteration: int,
        seconds: float,
        value: float,
        norms: tuple[float, float, float],
        counts: OracleCounts,
        samples: OracleCounts,
    ) -> None:
        """Record one evaluation.

        Parameters
        ----------
        iteration : int
            Iterations done.
        seconds : float
            Solver time so far.
        value : float
            f(x, y).
        norms : tuple of float
            Hypergradient norm, lower gradient norm and adjoint residual.
        counts, samples : OracleCounts
            The method's calls so far, and the samples that they went over.
        """
        if self._seen % self._stride == 0:
            numbers = (*counts.as_dict().values(), *samples.as_dict().values())
            self._rows.append((iteration, seconds, value, *norms, *numbers))
            if len(self._rows) > self.MAX_ROWS:
                self._rows = self._rows[::2]
                self._stride *= 2
        self._seen += 1

    def finish(self) -> History:
        """Return the rows as columns.

        Returns
        -------
        History
            Integer columns for iterations and counts, float64 for the rest.
        """
        columns = zip(*self._rows, strict=True) if self._rows else iter([()] * len(COLUMNS))
        integer = {"iteration", *_COUNTS}
        return History(
            {
                name: np.array(column, dtype=np.int64 if name in integer else np.float64)
                for name, column in zip(COLUMNS, columns, strict=True)
            }
        )
