"""Problems with explicit oracles: linear models on data, examples in closed form, and functions to differentiate."""

from nbo.problems.aggregated import AggregatedProblem
from nbo.problems.autodiff import from_jax, from_torch
from nbo.problems.cleaning import HyperCleaning
from nbo.problems.cross_validation import CrossValidation
from nbo.problems.logistic import BinaryLogistic
from nbo.problems.multinomial import MultinomialLogistic
from nbo.problems.nonquadratic import NonQuadratic
from nbo.problems.quadratic import Quadratic
from nbo.problems.ridge import Ridge
from nbo.problems.toy import ConvexToy

__all__ = [
    "AggregatedProblem",
    "BinaryLogistic",
    "ConvexToy",
    "CrossValidation",
    "HyperCleaning",
    "MultinomialLogistic",
    "NonQuadratic",
    "Quadratic",
    "Ridge",
    "from_jax",
    "from_torch",
]
