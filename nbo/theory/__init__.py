"""Constants of a problem class, and what the theory makes of them."""

from nbo.theory.constants import NoConstantsError, ProblemConstants

__all__ = ["NoConstantsError", "ProblemConstants"]
