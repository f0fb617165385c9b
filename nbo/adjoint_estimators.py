"""Estimates of u ~ H^{-1} grad_2 f on minibatch Hessians, and of the hypergradient from u at one point.

An estimator of u (warm-started steps, Neumann series) is the class of its rooms, a NamedTuple, and one function that
runs in plain Python and inside compiled loops. A new one is such a pair and an entry in the table `adjoint`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nbo._dual import by_class, dual
from nbo._updates import add_scaled, copy, scale, subtract
from nbo.coordinates import Room, hypergradient_from
from nbo.minibatches import Components, Oracles, empty_components, lower_hvp, lower_jvp, upper_grad
from nbo.sampling import B1, B3, B4, coin, draw

Array = npt.NDArray[Any]


class WarmSteps(NamedTuple):
    """N steps u <- u - eta (H_b u - grad_2 f) from the last u, a fresh batch b each.

    Attributes
    ----------
    product : ndarray
        Room for H u, (1, n).
    """

    product: Array


class NeumannSum(NamedTuple):
    """u = eta sum_{q=0..N} prod_{i=1..q} (I - eta H_i) grad_2 f, all N + 1 terms, a fresh batch for each of the N H_i.

    Attributes
    ----------
    term, product : ndarray
        Room for a term and its product, (1, n).
    """

    term: Array
    product: Array


class NeumannDraw(NamedTuple):
    """u = N eta prod_{i=1..N'} (I - eta H_i) grad_2 f with N' uniform on {0, .., N - 1}, the mean of which is a sum.

    Over the draws of N' it is eta sum_{q=0..N-1} prod_{i=1..q} (I - eta H_i) grad_2 f.

    Attributes
    ----------
    term, product : ndarray
        Room for a term and its product, (1, n).
    """

    term: Array
    product: Array


#: Each of the classes.
AdjointEstimator = WarmSteps | NeumannSum | NeumannDraw


class HypergradientMemory(NamedTuple):
    """The rooms of `hypergradient_at`.

    Attributes
    ----------
    parts : Components
        For estimates of J u and both parts of grad f.
    estimator : NamedTuple
        Of the estimator of u.
    """

    parts: Components
    estimator: Any


def hypergradient_memory(kind: type[Any], room: Room, dim_y: int, dtype: npt.DTypeLike) -> HypergradientMemory:
    """Return rooms.

    Parameters
    ----------
    kind : type
        The estimator of u: `WarmSteps`, `NeumannSum` or `NeumannDraw`.
    room : Room
        The sizes in the space of x.
    dim_y : int
        n.
    dtype : dtype
        Of y.

    Returns
    -------
    HypergradientMemory
        Zeros.
    """
    return HypergradientMemory(
        empty_components(room, dim_y, dtype), kind(*(np.zeros((1, dim_y), dtype) for _ in kind._fields))
    )


def most_products(kind: type[Any], n_steps: int) -> int:
    """Return the most products with H of one estimate, which is the number of batches that it may draw.

    Parameters
    ----------
    kind : type
        The estimator.
    n_steps : int
        N.

    Returns
    -------
    int
        N, or N - 1 where the number is drawn.
    """
    return n_steps - 1 if kind is NeumannDraw else n_steps


@dual
def step_adjoint(
    memory: WarmSteps,
    o: Oracles,
    k: int,
    x: Array,
    y: Array,
    u: Array,
    grad_2: Array,
    residual: Array,
    eta: float,
    n_steps: int,
) -> None:
    """Take the steps of `WarmSteps`.

    Parameters
    ----------
    memory : NamedTuple
        The estimator's rooms.
    o : Oracles
        What reaches the problem.
    k : int
        The number of the estimate, which decides about its batches.
    x, y : ndarray
        The point, (m,) and (n,).
    u : ndarray
        Where the estimate goes, (n,); some start from what is there.
    grad_2 : ndarray
        grad_2 f at the point, (n,).
    residual : ndarray
        Where H u - grad_2 f goes, (n,), for u before the last step or term.
    eta : float
        The step.
    n_steps : int
        N.
    """
    U, product = u.reshape((1, u.shape[0])), memory.product
    for q in range(n_steps):
        lower_hvp(o, draw(o.streams, B1, k * n_steps + q), x, y, U, product)
        subtract(residual, product[0], grad_2)
        add_scaled(u, -eta, residual)


@dual
def sum_adjoint(
    memory: NeumannSum,
    o: Oracles,
    k: int,
    x: Array,
    y: Array,
    u: Array,
    grad_2: Array,
    residual: Array,
    eta: float,
    n_steps: int,
) -> None:
    """Sum the terms of `NeumannSum`.

    Parameters
    ----------
    memory : NamedTuple
        The estimator's rooms.
    o : Oracles
        What reaches the problem.
    k : int
        The number of the estimate, which decides about its batches.
    x, y : ndarray
        The point, (m,) and (n,).
    u : ndarray
        Where the estimate goes, (n,).
    grad_2 : ndarray
        grad_2 f at the point, (n,).
    residual : ndarray
        Where H u - grad_2 f goes, (n,), for u before the last step or term.
    eta : float
        The step.
    n_steps : int
        N.
    """
    term, product = memory.term, memory.product
    scale(term[0], eta, grad_2)
    scale(u, eta, grad_2)
    for q in range(n_steps):
        lower_hvp(o, draw(o.streams, B1, k * n_steps + q), x, y, term, product)
        add_scaled(term[0], -eta, product[0])
        add_scaled(u, 1.0, term[0])
    scale(residual, -1.0 / eta, term[0])


@dual
def draw_adjoint(
    memory: NeumannDraw,
    o: Oracles,
    k: int,
    x: Array,
    y: Array,
    u: Array,
    grad_2: Array,
    residual: Array,
    eta: float,
    n_steps: int,
) -> None:
    """Compute the term of `NeumannDraw` that the coin of this estimate selects.

    Parameters
    ----------
    memory : NamedTuple
        The estimator's rooms.
    o : Oracles
        What reaches the problem.
    k : int
        The number of the estimate, which decides about its batches and N'.
    x, y : ndarray
        The point, (m,) and (n,).
    u : ndarray
        Where the estimate goes, (n,).
    grad_2 : ndarray
        grad_2 f at the point, (n,).
    residual : ndarray
        Where minus what the N' factors leave of grad_2 f goes, (n,).
    eta : float
        The step.
    n_steps : int
        N.
    """
    term, product = memory.term, memory.product
    scale(term[0], n_steps * eta, grad_2)
    for q in range(int(coin(o.streams, k) * n_steps)):
        lower_hvp(o, draw(o.streams, B1, k * (n_steps - 1) + q), x, y, term, product)
        add_scaled(term[0], -eta, product[0])
    copy(u, term[0])
    scale(residual, -1.0 / (n_steps * eta), term[0])


#: Writes an estimate of u: (memory, oracles, k, x, y, u, grad_2 f, residual, eta, N).
adjoint = by_class({WarmSteps: step_adjoint, NeumannSum: sum_adjoint, NeumannDraw: draw_adjoint})


@dual
def hypergradient_at(
    memory: HypergradientMemory,
    o: Oracles,
    k: int,
    x: Array,
    y: Array,
    u: Array,
    residual: Array,
    eta: float,
    n_steps: int,
    out: Array,
) -> None:
    """Write grad_1 f - J u with u estimated at (x, y), each part on its own batch.

    Parameters
    ----------
    memory : HypergradientMemory
        The rooms.
    o : Oracles
        What reaches the problem.
    k : int
        The number of the estimate; one number always means the same batches.
    x, y : ndarray
        The point, (m,) and (n,).
    u : ndarray
        Where the estimate of u goes, (n,).
    residual : ndarray
        Where H u - grad_2 f goes, (n,).
    eta : float
        The step of the estimator of u.
    n_steps : int
        Its N.
    out : ndarray
        Where the hypergradient goes, (m,) or as `Coordinates` say.
    """
    parts = memory.parts
    upper_grad(o, draw(o.streams, B3, k), x, y, parts.upper_x, parts.upper_y)
    adjoint(memory.estimator, o, k, x, y, u, parts.upper_y, residual, eta, n_steps)
    lower_jvp(o, draw(o.streams, B4, k), x, y, u, parts.jvp)
    hypergradient_from(out, parts.upper_x, parts.jvp)
