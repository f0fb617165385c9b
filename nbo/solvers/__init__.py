"""Solvers: one file per family; a new one joins the registry with its class below."""

from nbo.solvers.alset import ALSET
from nbo.solvers.automatic import Auto
from nbo.solvers.bamm import BAMM
from nbo.solvers.bamm_nbo import BAMMNBO
from nbo.solvers.base import DeterministicSolver, Solver
from nbo.solvers.bome import BOME
from nbo.solvers.bsa import BSA
from nbo.solvers.double_loop import AIDBiO, AmIGOCG, AmIGOGD, NoLoopAID
from nbo.solvers.f2sa import F2SA
from nbo.solvers.fsla import FSLA
from nbo.solvers.hoag import HOAG
from nbo.solvers.itd import ITD
from nbo.solvers.lancbio import LancBiO
from nbo.solvers.mrbo import MRBO
from nbo.solvers.newton import NBOCG, NBOGD, NBOBlockCG, NBOChebyshev, NBOCholesky, NBOLanczos
from nbo.solvers.shine import SHINE
from nbo.solvers.srba import SRBA
from nbo.solvers.stocbio import StocBiO
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
from nbo.solvers.sustain import SUSTAIN
from nbo.solvers.ttsa import TTSA
from nbo.solvers.vrbo import VRBO

#: Every method by name, in the order of the documentation.
REGISTRY: dict[str, type[Solver]] = {
    solver.name: solver
    for solver in (
        NBOGD, NBOCG, NBOChebyshev, NBOLanczos, NBOBlockCG, NBOCholesky, NSBOSGD, NSBOSAGA, NSBOSTORM, NSBOPAGE,
        MANSBOSAGA, BAMMNBO, SOBA, SABA, MASABA, SPABA, AmIGOGD, AmIGOCG, AmIGOSGD, AIDBiO, NoLoopAID, ITD, HOAG,
        SHINE, LancBiO, BOME, BAMM, StocBiO, ALSET, BSA, TTSA, FSLA, SUSTAIN, MRBO, VRBO, SRBA, F2SA,
        Auto,
    )
}  # fmt: skip

__all__ = [
    "ALSET",
    "BAMM",
    "BAMMNBO",
    "BOME",
    "BSA",
    "F2SA",
    "FSLA",
    "HOAG",
    "ITD",
    "MANSBOSAGA",
    "MASABA",
    "MRBO",
    "NBOCG",
    "NBOGD",
    "NSBOPAGE",
    "NSBOSAGA",
    "NSBOSGD",
    "NSBOSTORM",
    "REGISTRY",
    "SABA",
    "SHINE",
    "SOBA",
    "SPABA",
    "SRBA",
    "SUSTAIN",
    "TTSA",
    "VRBO",
    "AIDBiO",
    "AmIGOCG",
    "AmIGOGD",
    "AmIGOSGD",
    "Auto",
    "DeterministicSolver",
    "LancBiO",
    "NBOBlockCG",
    "NBOChebyshev",
    "NBOCholesky",
    "NBOLanczos",
    "NoLoopAID",
    "Solver",
    "StocBiO",
    "StochasticSolver",
]
