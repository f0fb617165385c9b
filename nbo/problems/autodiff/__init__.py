"""Problems from two differentiable functions, by automatic differentiation in JAX or PyTorch."""

from nbo.problems.autodiff.adapters import from_jax, from_torch
from nbo.problems.autodiff.derivatives import Derivatives
from nbo.problems.autodiff.problem import AutodiffProblem, AutodiffSumProblem

__all__ = ["AutodiffProblem", "AutodiffSumProblem", "Derivatives", "from_jax", "from_torch"]
