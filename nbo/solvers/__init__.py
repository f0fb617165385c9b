"""Solvers: one file per family; a new one joins the registry with its class below."""

from nbo.solvers.base import DeterministicSolver, Solver
from nbo.solvers.double_loop import AIDBiO, AmIGOCG, AmIGOGD, NoLoopAID
from nbo.solvers.newton import NBOCG, NBOGD, NBOBlockCG, NBOChebyshev, NBOCholesky, NBOLanczos
from nbo.solvers.stochastic import StochasticSolver
from nbo.solvers.stochastic_double_loop import AmIGOSGD
from nbo.solvers.stochastic_newton import (
    MANSBOSAGA,
    MASABA,
    NSBOPAGE,
    NSBOSAGA,
    NSBOSGD,
    NSBOSTORM,
    SABA,
    SOBA,
    SPABA,
)

#: Every method by name, in the order of the documentation.
REGISTRY: dict[str, type[Solver]] = {
    solver.name: solver
    for solver in (
        NBOGD, NBOCG, NBOChebyshev, NBOLanczos, NBOBlockCG, NBOCholesky, NSBOSGD, NSBOSAGA, NSBOSTORM, NSBOPAGE,
        MANSBOSAGA, SOBA, SABA, MASABA, SPABA, AmIGOGD, AmIGOCG, AmIGOSGD, AIDBiO, NoLoopAID,
    )
}  # fmt: skip

__all__ = [
    "MANSBOSAGA",
    "MASABA",
    "NBOCG",
    "NBOGD",
    "NSBOPAGE",
    "NSBOSAGA",
    "NSBOSGD",
    "NSBOSTORM",
    "REGISTRY",
    "SABA",
    "SOBA",
    "SPABA",
    "AIDBiO",
    "AmIGOCG",
    "AmIGOGD",
    "AmIGOSGD",
    "DeterministicSolver",
    "NBOBlockCG",
    "NBOChebyshev",
    "NBOCholesky",
    "NBOLanczos",
    "NoLoopAID",
    "Solver",
    "StochasticSolver",
]
