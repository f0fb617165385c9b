"""Constants of a problem class, and what the theory makes of them."""

from nbo.theory.constants import ProblemConstants

__all__ = ["ProblemConstants"]
