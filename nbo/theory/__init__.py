"""Constants of a problem class, what the theory makes of them, and checks that it holds."""

import importlib
from typing import TYPE_CHECKING

from nbo.theory.constants import NoConstantsError, ProblemConstants
from nbo.theory.parameters import DeterministicParameters, StochasticParameters, theoretical_parameters

if TYPE_CHECKING:
    from nbo.theory.certificates import Certificate, certify_run
    from nbo.theory.estimates import ConstantsReport, check_constants, estimate_constants
    from nbo.theory.lyapunov import Lyapunov, LyapunovSummary

__all__ = [
    "Certificate",
    "ConstantsReport",
    "DeterministicParameters",
    "Lyapunov",
    "LyapunovSummary",
    "NoConstantsError",
    "ProblemConstants",
    "StochasticParameters",
    "certify_run",
    "check_constants",
    "estimate_constants",
    "theoretical_parameters",
]

#: What runs methods, which themselves need the constants, by the module that has it.
_LATER = {
    "Certificate": "certificates",
    "ConstantsReport": "estimates",
    "certify_run": "certificates",
    "check_constants": "estimates",
    "estimate_constants": "estimates",
    "Lyapunov": "lyapunov",
    "LyapunovSummary": "lyapunov",
}


def __getattr__(name: str) -> object:
    """Import on demand what depends on the methods."""
    if name in _LATER:
        return getattr(importlib.import_module(f"nbo.theory.{_LATER[name]}"), name)
    raise AttributeError(f"module 'nbo.theory' has no attribute {name!r}")
