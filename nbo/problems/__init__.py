"""Problems with explicit oracles: two families in closed form, and penalised linear models."""

from nbo.problems.logistic import BinaryLogistic
from nbo.problems.nonquadratic import NonQuadratic
from nbo.problems.quadratic import Quadratic

__all__ = ["BinaryLogistic", "NonQuadratic", "Quadratic"]
