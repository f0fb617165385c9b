"""Step sizes, numbers of inner steps and batch sizes for which the theorems hold (paper, Theorems 3.2 and 3.7)."""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import TYPE_CHECKING, Any

from nbo._validation import choice, flag, integer, real
from nbo.oracles import OracleCounts, sample_sizes
from nbo.theory import boxes, printed
from nbo.theory.constants import NoConstantsError, ProblemConstants, over, required, times

if TYPE_CHECKING:
    from nbo.problem import BilevelProblem
    from nbo.solvers.base import Solver

#: Methods for which constants with proofs are known.
METHODS = ("nbo-gd", "nbo-cg", "amigo-gd", "amigo-cg", "aid-bio", "nsbo-sgd")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TheoreticalParameters(abc.ABC):
    """Parameters for which a convergence theorem holds; see `theoretical_parameters`.

    Parameters
    ----------
    method : str
        Its name for `nbo.minimize`.
    constants : ProblemConstants
        What they follow from.
    alpha : float
        The step on x, in l^2/f.
    gamma : float
        The inner step, in l^2/g.
    beta_0 : float
        The step of the initialisation, in l^2/g.
    b_y, b_u : float
        The weights in V = Phi - Phi* + b_y |y - y*|^2 + b_u |u - u*|^2, in f/l^2 and g^2/(l^2 f).
    surplus : float
        A bound of V_0 - (Phi(x0) - Phi*) in the box, in f (errata M14 of the printed 2).
    delta : float
        The unit of f in the radii of the box.
    literal : bool
        Whether these are the printed formulas, for comparison.
    """

    method: str
    constants: ProblemConstants
    alpha: float
    gamma: float
    beta_0: float
    b_y: float
    b_u: float
    surplus: float
    delta: float = 1.0
    literal: bool = False

    @property
    @abc.abstractmethod
    def box(self) -> boxes.Radii:
        """The radii of the box in which a run has to start."""

    @abc.abstractmethod
    def options(self, problem: BilevelProblem | None = None) -> dict[str, Any]:
        """Return the options of the method.

        Parameters
        ----------
        problem : BilevelProblem, optional
            What they are for, which matters for batches alone.

        Returns
        -------
        dict
            For ``nbo.minimize(..., options=...)``.
        """

    def V_0(self, gap: float) -> float:
        """Bound the Lyapunov function at a start in the box.

        Parameters
        ----------
        gap : float
            Phi(x0) - Phi*, or a bound of it, in f.

        Returns
        -------
        float
            gap + 9 delta/8.
        """
        return real("gap", gap, minimum=0.0) + self.surplus

    def solver(self, problem: BilevelProblem | None = None) -> Solver:
        """Return the method with these options.

        Parameters
        ----------
        problem : BilevelProblem, optional
            See `options`.

        Returns
        -------
        Solver
            For ``nbo.minimize(..., method=...)``.
        """
        from nbo.solvers import REGISTRY

        return REGISTRY[self.method](**self.options(problem))


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeterministicParameters(TheoreticalParameters):
    """Parameters of a full-batch method (paper, Theorem 3.2 and Remark 3.4; errata F).

    Parameters
    ----------
    method : str
        Its name for `nbo.minimize`.
    constants : ProblemConstants
        What they follow from.
    alpha : float
        The step on x.
    gamma : float
        The inner step.
    beta_0 : float
        The step of the initialisation.
    b_y, b_u : float
        The weights in V.
    surplus : float
        A bound of V_0 - (Phi(x0) - Phi*) in the box.
    delta : float
        The unit of f in the radii of the box.
    literal : bool
        Whether these are the printed formulas.
    T : int, optional
        Of the NBO methods: T + 1 steps of the inner solver.
    D, N : int, optional
        Of the others: steps on y, and steps on u.
    """

    T: int | None = None
    D: int | None = None
    N: int | None = None

    @property
    def box(self) -> boxes.Radii:
        """The radii of BOX 1."""
        return boxes.box1(self.constants, self.delta)

    def options(self, problem: BilevelProblem | None = None) -> dict[str, Any]:
        """Return the options of the method; see `TheoreticalParameters.options`.

        Parameters
        ----------
        problem : BilevelProblem, optional
            Not looked at.

        Returns
        -------
        dict
            `step_size`, and those of `inner_step_size`, `n_inner`, `n_lower_steps`, `n_linear_steps` that it has.
        """
        inner = {} if self.method == "nbo-cg" else {"inner_step_size": self.gamma}
        numbers = {"n_inner": self.T, "n_lower_steps": self.D, "n_linear_steps": self.N}
        return {"step_size": self.alpha, **inner, **{k: v for k, v in numbers.items() if v is not None}}

    def K(self, eps: float, gap: float) -> int:
        """Return the iterations after which some |grad Phi(x^k)|^2 <= eps.

        Parameters
        ----------
        eps : float
            The bound of the squared norm, in (f/l)^2.
        gap : float
            Phi(x0) - Phi*, or a bound of it.

        Returns
        -------
        int
            ceil(2 V_0/(alpha eps)).
        """
        return _iterations_until(eps, 2 * self.V_0(gap), self.alpha)

    def rate_bound(self, K: int, gap: float) -> float:
        """Bound the mean of |grad Phi(x^k)|^2 over the first iterations.

        Parameters
        ----------
        K : int
            The iterations, at least 1.
        gap : float
            Phi(x0) - Phi*, or a bound of it.

        Returns
        -------
        float
            2 V_0/(alpha K), in (f/l)^2.
        """
        return 2 * self.V_0(gap) / (self.alpha * integer("K", K, minimum=1))

    def counts(self, K: int, *, N_0: int | None = None, Q_0: int | None = None) -> OracleCounts:
        """Return the oracle calls of a run, an upper bound for conjugate gradients (errata A2).

        Parameters
        ----------
        K : int
            Iterations.
        N_0, Q_0 : int, optional
            Steps of BOX 1 from zero on y and u, 0 for one that is left out; it takes one gradient of each level more.
            With neither the run starts in the box.

        Returns
        -------
        OracleCounts
            The total.
        """
        from nbo.solvers.costs import evaluated

        total = integer("K", K) * evaluated(self.solver(), 1)
        if N_0 is None and Q_0 is None:
            return total
        on_y, on_u = integer("N_0", N_0 or 0), integer("Q_0", Q_0 or 0)
        return total + OracleCounts(upper_grad=1, lower_grad_y=on_y + 1, lower_hvp=on_u)


@dataclasses.dataclass(frozen=True, kw_only=True)
class StochasticParameters(TheoreticalParameters):
    """Parameters of NSBO-SGD (paper, Theorem 3.7 with Lemma E.9; errata F).

    Parameters
    ----------
    method : str
        Its name for `nbo.minimize`.
    constants : ProblemConstants
        What they follow from, with the deviations of single samples.
    alpha : float
        The step on x.
    gamma : float
        The inner step.
    beta_0 : float
        The step of the initialisation.
    b_y, b_u : float
        The weights in V.
    surplus : float
        A bound of V_0 - (Phi(x0) - Phi*) in the box.
    delta : float
        The unit of f in the radii of the box.
    literal : bool
        Whether these are the printed formulas.
    T : int
        T + 1 inner steps.
    K : int or None
        The iterations that the batch sizes are for; None for sizes that keep the iterates near, without a rate.
    gap : float or None
        Phi(x0) - Phi* that the batch sizes are for.
    S_f1, S_g1, S_1, S_2, S_3 : float
        Upper limits of the variances of the means over B3, B2, B1t, B1 and B4.
    batch_sizes : dict
        Role -> max(1, ceil(sigma^2/S)).
    """

    T: int
    K: int | None
    gap: float | None
    S_f1: float
    S_g1: float
    S_1: float
    S_2: float
    S_3: float
    batch_sizes: dict[str, int]

    @property
    def box(self) -> boxes.Radii:
        """The radii of BOX 2, of root mean squares."""
        return boxes.box2(self.constants, self.delta)

    def options(self, problem: BilevelProblem | None = None) -> dict[str, Any]:
        """Return the options of the method; see `TheoreticalParameters.options`.

        Parameters
        ----------
        problem : BilevelProblem, optional
            What they are for: sizes that exceed its numbers of samples, which methods refuse, become ``"full"``, means
            without noise.

        Returns
        -------
        dict
            `step_size`, `inner_step_size`, `n_inner`, `batch_sizes` and the sampler with replacement that the
            theorem assumes (errata A8).
        """
        return {
            "step_size": self.alpha,
            "inner_step_size": self.gamma,
            "n_inner": self.T,
            "batch_sizes": {role: self._size(role, problem) for role in self.batch_sizes},
            "sampler": "iid",
        }

    def _size(self, role: str, problem: BilevelProblem | None) -> int | str:
        size = self.batch_sizes[role]
        if problem is None or size <= sample_sizes(problem)["upper" if role == "B3" else "lower"]:
            return size
        return "full"

    def counts(self, K: int) -> OracleCounts:
        """Return the oracle calls of a run, without the initialisation.

        Parameters
        ----------
        K : int
            Iterations.

        Returns
        -------
        OracleCounts
            K upper_grad, lower_grad_y and lower_jvp each, and K (2 T + 1) lower_hvp.
        """
        each = OracleCounts(upper_grad=1, lower_grad_y=1, lower_hvp=2 * self.T + 1, lower_jvp=1)
        return integer("K", K) * each

    def variances(self) -> dict[str, float]:
        """Return the variances of the means over these batches.

        Returns
        -------
        dict
            Role -> sigma^2/|B|, at most the limit.
        """
        c, sizes = self.constants, self.batch_sizes
        return {role: boxes.noise(c, name) ** 2 / sizes[role] for role, name in _NOISE.items()}

    def rate_bound(self, K: int, gap: float) -> float:
        """Bound the mean of E|grad Phi(x^k)|^2 over the first iterations.

        Parameters
        ----------
        K : int
            The iterations, at least 1.
        gap : float
            Phi(x0) - Phi*, or a bound of it.

        Returns
        -------
        float
            2 V_0/(alpha K) and what the noise adds, in (f/l)^2.
        """
        c, s, a, L1 = self.constants, self.variances(), self.alpha, self.constants.L1
        of_u = s["B2"] * 168 * c.r * L1 / (c.mu**2 * a)
        noise = 4 * s["B3"] + 8 * s["B4"] * c.r_u**2 + of_u + (25 * s["B3"] + 49 * s["B1"] * c.r_u**2) / (4 * L1 * a)
        return 2 * self.V_0(gap) / (a * integer("K", K, minimum=1)) + noise

    def samples(self, K: int) -> OracleCounts:
        """Return the component samples of a run, without the initialisation.

        Parameters
        ----------
        K : int
            Iterations.

        Returns
        -------
        OracleCounts
            K |B3| upper_grad, K |B2| lower_grad_y, K (2 T |B1t| + |B1|) lower_hvp, K |B4| lower_jvp.
        """
        size = self.batch_sizes
        each = OracleCounts(
            upper_grad=size["B3"],
            lower_grad_y=size["B2"],
            lower_hvp=2 * self.T * size["B1t"] + size["B1"],
            lower_jvp=size["B4"],
        )
        return integer("K", K) * each


#: Role -> the deviation that counts for its size.
_NOISE = {"B1t": "sigma_g2", "B1": "sigma_g2", "B2": "sigma_g1", "B3": "sigma_f1", "B4": "cross_noise"}


def theoretical_parameters(
    constants: ProblemConstants,
    method: str = "nbo-gd",
    *,
    gamma: float | None = None,
    K: int | None = None,
    eps: float | None = None,
    gap: float | None = None,
    delta: float = 1.0,
    tight: bool = False,
    literal: bool = False,
) -> DeterministicParameters | StochasticParameters:
    """Return parameters for which the convergence theorem of a method holds.

    With q = L_g1/mu, L1 = L_f1 + L_g2 L_f0/mu and L2 = C_f0 + L_g1 L_f0/mu, the deterministic methods have
    alpha = min(mu^2/(64 L1 L_g1^2), mu^2/(8 L_g1 L2 L_g2)) and

    - ``nbo-gd``: T = ceil(ln 4/(-ln(1 - mu gamma)) - 1/2), or - 1 if `tight`;
    - ``nbo-cg``: T = ceil(ln(8 sqrt(q) q)/ln((sqrt(q) + 1)/(sqrt(q) - 1))) - 1, with ln(10 sqrt(q)) if `tight`;
    - ``amigo-gd``, ``amigo-cg``, ``aid-bio``: the steps of the published analyses,
      D = ceil(ln(36 q (q + L_g2 L_f0/mu^2)^2)/(-ln(1 - mu gamma))) on y, as many on u for gradient steps, and
      N = ceil(ln(12 q (q + L_g2 L_f0/mu^2))/ln((sqrt(q) + 1)/(sqrt(q) - 1))) for conjugate gradients; if `tight`,
      D = ceil(ln 4/(-ln(1 - mu gamma))) and the tight steps of ``nbo-cg`` (errata C3). alpha is that of NBO, so
      that costs can be compared; the analyses of these methods have other constants, of the same order.

    ``nsbo-sgd`` has alpha = min(mu^2/(160 r L1 L_g1^2), mu^2/(80 r L_g1 L2 L_g2)) and
    T = ceil(max(ln sqrt(40 r), ln 96)/(-ln(1 - mu gamma/2))), with batches for the limits of variances in
    `StochasticParameters`; those that make the rate 4 (gap + 9/8)/(alpha K) need `gap` and `K` or `eps`.

    Parameters
    ----------
    constants : ProblemConstants
        Of the problem.
    method : str
        One of ``"nbo-gd"``, ``"nbo-cg"``, ``"amigo-gd"``, ``"amigo-cg"``, ``"aid-bio"``, ``"nsbo-sgd"``.
    gamma : float, optional
        The inner step, at most 1/L_g1, which is the default (errata E3).
    K : int, optional
        Iterations of ``nsbo-sgd``, which its batches are for.
    eps : float, optional
        Instead of `K`: as many iterations as lead to E|grad Phi|^2 <= eps for some k.
    gap : float, optional
        A bound of Phi(x0) - Phi*, with `K` or `eps`.
    delta : float
        The unit of f in the radii of the box (errata A10); alpha and T do not depend on it.
    tight : bool
        Take the smaller numbers of steps that are proven too (errata I1, I3, C3).
    literal : bool
        Take the printed formulas, which are wrong in places (errata E1 to E9), for comparison.

    Returns
    -------
    DeterministicParameters or StochasticParameters
        The parameters, with `options()` for `nbo.minimize`.

    Raises
    ------
    NoConstantsError
        If a constant that is needed is unknown or infinite, or if L1 = 0.
    TypeError, ValueError
        For a bad argument, with its name.

    Notes
    -----
    The six bounds of alpha in the theorem are redundant, and those of the stochastic one (errata I2). Nothing here
    calls an oracle.

    Examples
    --------
    >>> import nbo
    >>> constants = nbo.problems.Quadratic.family(n=5, m=3, kappa=10).constants()
    >>> p = nbo.theory.theoretical_parameters(constants, "nbo-gd")
    >>> print(f"alpha = {p.alpha:.3g}, T = {p.T}, K = {p.K(eps=1e-2, gap=1.0):,}")
    alpha = 0.000156, T = 13, K = 2,720,000
    >>> sorted(p.options())
    ['inner_step_size', 'n_inner', 'step_size']
    """
    required(constants)
    choice("method", method, METHODS)
    for name, value in (("tight", tight), ("literal", literal)):
        flag(name, value)
    if tight and literal:
        raise ValueError("tight: found True beside literal=True; expected at most one of them")
    gamma = boxes.inner_step("gamma", gamma, constants, "E3")
    if method != "nsbo-sgd":
        for name, given in (("K", K), ("eps", eps), ("gap", gap)):
            if given is not None:
                raise ValueError(f"{name}: found {given!r} for {method!r}; expected none: see the methods K and counts")
    try:
        common = _common(method, constants, gamma, real("delta", delta, positive=True), literal)
        if method == "nsbo-sgd":
            return _stochastic(common, K, eps, gap)
        alpha = printed.alpha(constants) if literal else _alpha(constants)
        return DeterministicParameters(**common, alpha=alpha, **_steps(method, constants, gamma, tight))
    except (OverflowError, ZeroDivisionError) as error:
        raise NoConstantsError(f"constants: found numbers beyond the range of floating point ({error})") from error


def _common(method: str, c: ProblemConstants, gamma: float, delta: float, literal: bool) -> dict[str, Any]:
    """Return what all methods have."""
    weights = {"b_y": 4 * boxes.positive_L1(c), "b_u": c.mu**2 / (8 * c.L1)}
    if not 0 < min(weights.values()) <= max(weights.values()) < math.inf:
        raise _beyond_range(*weights.values())
    return {
        "method": method,
        "constants": c,
        "gamma": gamma,
        "beta_0": printed.beta_0(c) if literal else 1 / c.L_g1,
        **weights,
        "surplus": (2.0 if literal else 9 / 8) * delta,
        "delta": delta,
        "literal": literal,
    }


def _alpha(c: ProblemConstants) -> float:
    return _least(1 / (64 * c.q**2 * boxes.positive_L1(c)), over(c.mu / c.q, 8 * times(c.L_g2, c.L2)))


def _least(*bounds: float) -> float:
    """Return the least bound of alpha, which has to be a positive number in floating point."""
    alpha = min(bounds)
    if not 0 < alpha < math.inf:
        raise _beyond_range(*bounds)
    return alpha


def _beyond_range(*found: float) -> NoConstantsError:
    shown = " and ".join(f"{value:g}" for value in found)
    return NoConstantsError(f"constants: found bounds or weights {shown} with them; expected positive, finite numbers")


def _steps(method: str, c: ProblemConstants, gamma: float, tight: bool) -> dict[str, Any]:
    """Return the numbers of inner steps of a deterministic method."""
    rate = boxes.log_rate(gamma, c)
    if method == "nbo-gd":
        return {"T": max(0, math.ceil(-math.log(4) / rate - (1 if tight else 0.5)))}
    contraction = c.q + times(c.L_g2, c.r_u) / c.mu
    wanted = 10 * math.sqrt(c.q) if tight else 8 * math.sqrt(c.q) * c.q
    if method == "nbo-cg":
        return {"T": max(0, _krylov_steps(wanted, c.q) - 1)}
    D = max(1, math.ceil(-math.log(4 if tight else 36 * c.q * contraction**2) / rate))
    if method == "amigo-gd":
        return {"D": D, "N": D}
    return {"D": D, "N": max(1, _krylov_steps(wanted if tight else 12 * c.q * contraction, c.q))}


def _krylov_steps(factor: float, q: float) -> int:
    """Return the steps of conjugate gradients that shrink an error by a factor."""
    root = math.sqrt(q)
    return 1 if root == 1 else math.ceil(math.log(factor) / math.log((root + 1) / (root - 1)))


def _stochastic(common: dict[str, Any], K: int | None, eps: float | None, gap: float | None) -> StochasticParameters:
    c: ProblemConstants = common["constants"]
    literal = common["literal"]
    if not max(c.L_f0, times(c.L_g2, c.C_f0)) < math.inf:
        raise NoConstantsError(
            f"constants: found L_f0 = {c.L_f0:g}, C_f0 = {c.C_f0:g}; expected finite ones: bound x (C_f0 may be "
            "infinite for L_g2 = 0)"
        )
    rate = boxes.log_rate(common["gamma"] / 2, c)
    alpha = printed.stochastic_alpha(c) if literal else _stochastic_alpha(c)
    T = printed.stochastic_T(c, rate) if literal else math.ceil(max(math.log(40 * c.r) / 2, math.log(96)) / -rate)
    K, eta = _iterations(K, eps, gap, common["surplus"], alpha)
    caps = _variance_caps(c, alpha, eta)
    names = {"B1t": "S_1", "B1": "S_2", "B2": "S_g1", "B3": "S_f1", "B4": "S_3"}
    noises = printed.NOISE if literal else _NOISE
    sizes = {role: boxes.batch_size(boxes.noise(c, noises[role]), caps[cap]) for role, cap in names.items()}
    return StochasticParameters(**common, alpha=alpha, T=T, K=K, gap=gap, **caps, batch_sizes=sizes)


def _stochastic_alpha(c: ProblemConstants) -> float:
    L1 = boxes.positive_L1(c)
    return _least(1 / (160 * c.r * c.q**2 * L1), over(c.mu / c.q, 80 * c.r * times(c.L_g2, c.L2)))


def _iterations_until(eps: Any, total: float, alpha: float) -> int:
    """Return ceil(total/(alpha eps))."""
    found = total / alpha / real("eps", eps, positive=True)
    if not found < math.inf:
        raise ValueError(f"eps: found {eps:g}; expected a larger one: the number of iterations is not finite")
    return math.ceil(found)


def _iterations(
    K: int | None, eps: float | None, gap: float | None, surplus: float, alpha: float
) -> tuple[int | None, float]:
    """Return K, and eta, by which each kind of noise may raise the mean of E|grad Phi|^2."""
    if K is None and eps is None:
        if gap is not None:
            raise ValueError(f"gap: found {gap!r} without K or eps; expected one of them beside it")
        return None, math.inf
    if K is not None and eps is not None:
        raise ValueError(f"eps: found {eps!r} beside K = {K!r}; expected one of the two")
    if gap is None:
        raise ValueError("gap: found None; expected a bound of Phi(x0) - Phi* beside K or eps")
    V_0 = real("gap", gap, minimum=0.0) + surplus
    if K is None:
        K = _iterations_until(eps, 4 * V_0, alpha)
    return integer("K", K, minimum=1), 2 * V_0 / (5 * alpha * K)


def _variance_caps(c: ProblemConstants, a: float, eta: float) -> dict[str, Any]:
    """Return the limits of variances that keep the iterates near (Lemma E.9) and those of the rate, whichever is less.

    Of the five terms that noise adds to the rate each may be eta.
    """
    mu, L1, r, u = c.mu, c.L1, c.r, c.r_u
    near_g = 1 / c.L_g2 / c.L_g2 if c.L_g2 else math.inf
    return {
        "S_f1": min(near_g * (L1 * mu) ** 2 / (375 * r), c.L2**2, 2 * eta / (4 + 25 / (4 * L1 * a))),
        "S_g1": min(near_g * mu**4 / (3360 * r**2), eta * mu**2 * a / (168 * r * L1)),
        "S_1": min(mu**2 / (160 * r), mu**2 / 768),
        "S_2": min(over((L1 * mu) ** 2, 735 * r * (c.L_g2 * u) ** 2), mu**2 / 768, over(4 * eta * L1 * a, 49 * u**2)),
        # the printed min(L_g1^2, L2^2/r_u^2) is L_g1^2, as L2 >= L_g1 r_u
        "S_3": min(c.L_g1**2, over(eta, 8 * u**2)),
    }
