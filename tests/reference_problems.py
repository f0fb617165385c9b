"""Problems that tests share: one that counts its own calls, and small logistic data."""

from __future__ import annotations

from collections import Counter

import numpy as np

import nbo
from nbo.solvers import REGISTRY

#: Methods that work on all samples, and methods that work on minibatches.
DETERMINISTIC = sorted(k for k, solver in REGISTRY.items() if issubclass(solver, nbo.solvers.DeterministicSolver))
STOCHASTIC = sorted(k for k, solver in REGISTRY.items() if issubclass(solver, nbo.solvers.StochasticSolver))


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


class PlainLogistic(nbo.FiniteSumProblem):
    """`BinaryLogistic` with one penalty a feature, written in plain NumPy, which counts calls and samples."""

    def __init__(self, A, b, A_val, b_val, bounds=(-20.0, 12.0)):
        self.A, self.b, self.A_val, self.b_val = A, b, A_val, b_val
        self.dim_x = self.dim_y = A.shape[1]
        self.n_samples_lower, self.n_samples_upper = len(b), len(b_val)
        self.bounds, self.dtype = bounds, A.dtype
        self.calls, self.samples = Counter(), Counter()

    def _rows(self, name, batch):
        upper = name.startswith("upper")
        A, b = (self.A_val, self.b_val) if upper else (self.A, self.b)
        batch = slice(None) if batch is None else batch
        self.calls[name] += 1
        self.samples[name] += len(b[batch])
        return A[batch], b[batch]

    @staticmethod
    def _loss(A, b, y):
        return float(np.mean(np.logaddexp(0, -b * (A @ y))))

    @staticmethod
    def _gradient(A, b, y):
        return A.T @ (-b / (1 + np.exp(b * (A @ y)))) / len(b)

    def upper_value(self, x, y, batch=None):
        return self._loss(*self._rows("upper_value", batch), y)

    def upper_grad(self, x, y, batch=None):
        return np.zeros(self.dim_x), self._gradient(*self._rows("upper_grad", batch), y)

    def lower_value(self, x, y, batch=None):
        return self._loss(*self._rows("lower_value", batch), y) + float(np.exp(x) @ y**2) / 2

    def lower_grad_y(self, x, y, batch=None):
        return self._gradient(*self._rows("lower_grad_y", batch), y) + np.exp(x) * y

    def lower_hvp(self, x, y, v, batch=None):
        A, _ = self._rows("lower_hvp", batch)
        s = 1 / (1 + np.exp(-(A @ y)))
        return A.T @ (s * (1 - s) * (A @ v)) / len(A) + np.exp(x) * v

    def lower_jvp(self, x, y, u, batch=None):
        self._rows("lower_jvp", batch)
        return np.exp(x) * y * u

    def seen(self):
        """Calls and samples as `OracleCounts`."""
        return nbo.OracleCounts(**self.calls), nbo.OracleCounts(**self.samples)
