"""Problems that tests share: one that counts its own calls, and small logistic data."""

from __future__ import annotations

from collections import Counter

import numpy as np

import nbo


class SelfCounting(nbo.BilevelProblem):
    """A plain problem over another one, which counts every call of its own oracles."""

    def __init__(self, problem):
        self.problem = problem
        self.dim_x, self.dim_y, self.bounds = problem.dim_x, problem.dim_y, problem.bounds
        self.dtype = problem.dtype
        self.calls = Counter()

    def _call(self, name, *arguments):
        self.calls[name] += 1
        return getattr(self.problem, name)(*arguments)

    def upper_value(self, x, y):
        return self._call("upper_value", x, y)

    def upper_grad(self, x, y):
        return self._call("upper_grad", x, y)

    def lower_value(self, x, y):
        return self._call("lower_value", x, y)

    def lower_grad_y(self, x, y):
        return self._call("lower_grad_y", x, y)

    def lower_hvp(self, x, y, v):
        assert v.shape == (self.dim_y,)
        return self._call("lower_hvp", x, y, v)

    def lower_jvp(self, x, y, u):
        return self._call("lower_jvp", x, y, u)

    def seen(self):
        """The calls as `OracleCounts`."""
        return nbo.OracleCounts(**self.calls)


class Overriding(nbo.BilevelProblem):
    """A quadratic problem in which single oracles are replaced, for tests of faulty ones."""

    def __init__(self, **replaced):
        self.inner = nbo.problems.Quadratic.family(n=3, m=2, kappa=4)
        self.dim_x, self.dim_y = 2, 3
        self.replaced = replaced

    def _call(self, name, *arguments):
        return self.replaced.get(name, getattr(self.inner, name))(*arguments)

    def upper_value(self, x, y):
        return self._call("upper_value", x, y)

    def upper_grad(self, x, y):
        return self._call("upper_grad", x, y)

    def lower_value(self, x, y):
        return self._call("lower_value", x, y)

    def lower_grad_y(self, x, y):
        return self._call("lower_grad_y", x, y)

    def lower_hvp(self, x, y, v):
        return self._call("lower_hvp", x, y, v)

    def lower_jvp(self, x, y, u):
        return self._call("lower_jvp", x, y, u)


def logistic_data(n=60, n_val=40, p=5, seed=0):
    """Two noisy classes: A, b, A_val, b_val."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal(p)
    A, A_val = rng.standard_normal((n, p)), rng.standard_normal((n_val, p))
    b, b_val = (np.where(X @ truth + 0.5 * rng.standard_normal(len(X)) > 0, 1, -1) for X in (A, A_val))
    return A, b, A_val, b_val


def fixed_options(name, step_size=0.01, inner_step_size=0.5):
    """Options with given steps for a method, for runs whose counts follow the formula."""
    options = nbo.methods()[name].options
    return (
        {"step_size": step_size}
        | ({"inner_step_size": inner_step_size} if "inner_step_size" in options else {})
        | ({"spectrum": (0.1, 1.0)} if "spectrum" in options else {})
    )
