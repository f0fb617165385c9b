"""Constants of a problem class, what the theory makes of them, and checks that it holds."""

import importlib
from typing import TYPE_CHECKING

from nbo.theory.constants import NoConstantsError, ProblemConstants
from nbo.theory.parameters import DeterministicParameters, StochasticParameters, theoretical_parameters

if TYPE_CHECKING:
    from nbo.theory.certificates import Certificate, certify_run
    from nbo.theory.complexity import ComplexityRow, ComplexityStudy, complexity_study
    from nbo.theory.estimates import ConstantsReport, check_constants, estimate_constants
    from nbo.theory.exponents import Exponent
    from nbo.theory.lyapunov import Lyapunov, LyapunovSummary
    from nbo.theory.samples import SampleComplexity, SampleRow, sample_complexity

__all__ = [
    "Certificate",
    "ComplexityRow",
    "ComplexityStudy",
    "ConstantsReport",
    "DeterministicParameters",
    "Exponent",
    "Lyapunov",
    "LyapunovSummary",
    "NoConstantsError",
    "ProblemConstants",
    "SampleComplexity",
    "SampleRow",
    "StochasticParameters",
    "certify_run",
    "check_constants",
    "complexity_study",
    "estimate_constants",
    "sample_complexity",
    "theoretical_parameters",
]

#: What runs methods, which themselves need the constants, by the module that has it.
_LATER = {
    "Certificate": "certificates",
    "certify_run": "certificates",
    "ConstantsReport": "estimates",
    "check_constants": "estimates",
    "estimate_constants": "estimates",
    "ComplexityRow": "complexity",
    "ComplexityStudy": "complexity",
    "complexity_study": "complexity",
    "Exponent": "exponents",
    "Lyapunov": "lyapunov",
    "LyapunovSummary": "lyapunov",
    "SampleComplexity": "samples",
    "SampleRow": "samples",
    "sample_complexity": "samples",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    """Import on demand what depends on the methods."""
    if name in _LATER:
        return getattr(importlib.import_module(f"nbo.theory.{_LATER[name]}"), name)
    raise AttributeError(f"module 'nbo.theory' has no attribute {name!r}")
