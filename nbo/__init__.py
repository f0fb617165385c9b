"""Bilevel optimisation with explicit oracles: min_x f(x, y*(x)) with y*(x) = argmin_y g(x, y)."""

import importlib
from typing import TYPE_CHECKING

from nbo import initialization, lower_level, problems, schedules, theory, upper_steps
from nbo._minimize import MethodInfo, methods, minimize
from nbo.checks import ProblemReport, check_problem
from nbo.compiled import CompiledProblem
from nbo.history import History, Status
from nbo.lower_level import Hypergradient, LowerSolution, hypergradient, solve_lower_level
from nbo.oracles import OracleCounts
from nbo.problem import BilevelProblem, FiniteSumProblem, LowerModel
from nbo.progress import ProgressLine
from nbo.resuming import resume
from nbo.solvers import (
    ALSET,
    BAMM,
    BAMMNBO,
    BOME,
    BSA,
    F2SA,
    FSLA,
    HOAG,
    ITD,
    MANSBOSAGA,
    MASABA,
    MRBO,
    NBOCG,
    NBOGD,
    NSBOPAGE,
    NSBOSAGA,
    NSBOSGD,
    NSBOSTORM,
    SABA,
    SHINE,
    SOBA,
    SPABA,
    SRBA,
    SUSTAIN,
    TTSA,
    VRBO,
    AIDBiO,
    AmIGOCG,
    AmIGOGD,
    AmIGOSGD,
    Auto,
    LancBiO,
    NBOBlockCG,
    NBOChebyshev,
    NBOCholesky,
    NBOLanczos,
    NoLoopAID,
    StocBiO,
)

if TYPE_CHECKING:
    from nbo.result import BilevelResult

__version__ = "0.1.0"

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
    "BilevelProblem",
    "BilevelResult",
    "CompiledProblem",
    "FiniteSumProblem",
    "History",
    "Hypergradient",
    "LancBiO",
    "LowerModel",
    "LowerSolution",
    "MethodInfo",
    "NBOBlockCG",
    "NBOChebyshev",
    "NBOCholesky",
    "NBOLanczos",
    "NoLoopAID",
    "OracleCounts",
    "ProblemReport",
    "ProgressLine",
    "Status",
    "StocBiO",
    "check_problem",
    "hypergradient",
    "initialization",
    "lower_level",
    "methods",
    "minimize",
    "problems",
    "resume",
    "schedules",
    "solve_lower_level",
    "theory",
    "upper_steps",
]


#: Public modules that are imported when they are first asked for.
_MODULES = ("checkpoints", "datasets", "plotting", "sklearn", "tuning")


def __getattr__(name: str) -> object:
    """Import on demand what takes longer than all the rest, such as whatever needs `scipy.optimize`."""
    if name == "BilevelResult":
        from nbo.result import BilevelResult

        return BilevelResult
    if name in _MODULES:
        return importlib.import_module(f"nbo.{name}")
    raise AttributeError(f"module 'nbo' has no attribute {name!r}")
