"""Solvers: one file per family; a new one joins the registry with its class below."""

from nbo.solvers.base import DeterministicSolver
from nbo.solvers.double_loop import AIDBiO, AmIGOCG, AmIGOGD, NoLoopAID
from nbo.solvers.newton import NBOCG, NBOGD, NBOBlockCG, NBOChebyshev, NBOCholesky, NBOLanczos

#: Every method by name, in the order of the documentation.
REGISTRY: dict[str, type[DeterministicSolver]] = {
    solver.name: solver
    for solver in (
        NBOGD, NBOCG, NBOChebyshev, NBOLanczos, NBOBlockCG, NBOCholesky, AmIGOGD, AmIGOCG, AIDBiO, NoLoopAID
    )
}  # fmt: skip

__all__ = [
    "NBOCG",
    "NBOGD",
    "REGISTRY",
    "AIDBiO",
    "AmIGOCG",
    "AmIGOGD",
    "DeterministicSolver",
    "NBOBlockCG",
    "NBOChebyshev",
    "NBOCholesky",
    "NBOLanczos",
    "NoLoopAID",
]
