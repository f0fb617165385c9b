"""Problems that tests share: one that counts its own calls, and small logistic data."""

from __future__ import annotations

from collections import Counter, defaultdict
from types import SimpleNamespace

import numpy as np
from scipy.special import expit, logsumexp, softmax

import nbo
from nbo.solvers import REGISTRY

#: Methods that work on all samples, and methods that work on minibatches.
DETERMINISTIC = sorted(k for k, solver in REGISTRY.items() if issubclass(solver, nbo.solvers.DeterministicSolver))
STOCHASTIC = sorted(k for k, solver in REGISTRY.items() if issubclass(solver, nbo.solvers.StochasticSolver))


#: Full-batch methods that find their step size, and those that need one and keep a bias with a constant one.
CHOOSING = [name for name in DETERMINISTIC if REGISTRY[name].chooses_step]
GIVEN = [name for name in DETERMINISTIC if not REGISTRY[name].chooses_step]
#: Methods with inner solvers that may stop early, whose cost is an upper bound in the kinds named.
EARLY = {
    **dict.fromkeys(("nbo-cg", "nbo-lanczos", "nbo-block-cg", "amigo-cg", "aid-bio", "lancbio"), ("lower_hvp",)),
    "hoag": ("lower_hvp", "lower_value", "lower_grad_y"),
    "shine": ("lower_value", "lower_grad_y"),
    "auto": ("upper_grad", "lower_value", "lower_grad_y", "lower_hvp", "lower_jvp"),
}
#: Methods whose number of products with H is drawn.
DRAWN = [name for name in STOCHASTIC if "truncation" in nbo.methods()[name].options]


def calls(method):
    """The oracles that a method calls for its directions."""
    info = REGISTRY[method]
    return {"upper_grad", "lower_grad_y", "lower_hvp", "lower_jvp", *info.needs} - set(info.spares)


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

    def lower_grad_x(self, x, y):
        return self._call("lower_grad_x", x, y)

    def upper_hvp(self, x, y, v):
        return self._call("upper_hvp", x, y, v)

    def upper_jvp(self, x, y, u):
        return self._call("upper_jvp", x, y, u)

    def seen(self):
        """The calls as `OracleCounts`."""
        return nbo.OracleCounts(**self.calls)


class Required(SelfCounting):
    """The same without the optional oracles."""

    _absent = frozenset(nbo.problem.OPTIONAL_ORACLES)


class Overriding(nbo.BilevelProblem):
    """A problem, a small quadratic one by default, in which single oracles are replaced, for tests of faulty ones."""

    def __init__(self, inner=None, /, **replaced):
        self.inner = inner or nbo.problems.Quadratic.family(n=3, m=2, kappa=4)
        self.dim_x, self.dim_y = self.inner.dim_x, self.inner.dim_y
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

    def lower_grad_x(self, x, y):
        return self._call("lower_grad_x", x, y)

    def upper_hvp(self, x, y, v):
        return self._call("upper_hvp", x, y, v)

    def upper_jvp(self, x, y, u):
        return self._call("upper_jvp", x, y, u)


class Exponentials(nbo.BilevelProblem):
    """g = sum e^y - e^x y, whose Newton steps are of length 1 far up, and of any length far down; y* = x."""

    def __init__(self, target):
        self.target = np.asarray(target)
        self.dim_x = self.dim_y = self.target.size

    def upper_value(self, x, y):
        return float(np.sum((y - self.target) ** 2)) / 2

    def upper_grad(self, x, y):
        return np.zeros(self.dim_x), y - self.target

    def lower_value(self, x, y):
        return float(np.sum(np.exp(y) - np.exp(x) * y))

    def lower_grad_y(self, x, y):
        return np.exp(y) - np.exp(x)

    def lower_hvp(self, x, y, v):
        return np.exp(y) * v

    def lower_jvp(self, x, y, u):
        return -np.exp(x) * u


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
        return A.T @ (-b * expit(-b * (A @ y))) / len(b)

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
        s = expit(A @ y)
        return A.T @ (s * (1 - s) * (A @ v)) / len(A) + np.exp(x) * v

    def lower_jvp(self, x, y, u, batch=None):
        self._rows("lower_jvp", batch)
        return np.exp(x) * y * u

    def lower_grad_x(self, x, y, batch=None):
        self._rows("lower_grad_x", batch)
        return np.exp(x) * y**2 / 2

    def upper_hvp(self, x, y, v, batch=None):
        A, _ = self._rows("upper_hvp", batch)
        s = expit(A @ y)
        return A.T @ (s * (1 - s) * (A @ v)) / len(A)

    def upper_jvp(self, x, y, u, batch=None):
        self._rows("upper_jvp", batch)
        return np.zeros(self.dim_x)

    def seen(self):
        """Calls and samples as `OracleCounts`."""
        return nbo.OracleCounts(**self.calls), nbo.OracleCounts(**self.samples)


class SampledQuadratic(nbo.FiniteSumProblem):
    """g_i = 1/2 y'H_i y - y'(B_i x + c_i), f_i = s_i/2 |y - d_i|^2 + r_i/2 |x - e_i|^2: all parts differ by sample."""

    def __init__(self, dtype=np.float64):
        rng = np.random.default_rng(0)
        self.dim_x, self.dim_y, self.dtype, self.bounds = 3, 4, np.dtype(dtype), (-np.inf, np.inf)
        self.n_samples_lower, self.n_samples_upper = 23, 17
        G = rng.standard_normal((23, 4, 4))
        self.H = G @ G.transpose(0, 2, 1) / 4 + 0.1 * np.eye(4)
        self.B, self.c = rng.standard_normal((23, 4, 3)), rng.standard_normal((23, 4))
        self.d, self.e = rng.standard_normal((17, 4)), rng.standard_normal((17, 3))
        self.s, self.r = rng.uniform(0.5, 2, (17, 1)), rng.uniform(0.5, 2, (17, 1))

    @staticmethod
    def _chosen(batch, *arrays):
        return [a if batch is None else a[batch] for a in arrays]

    def upper_value(self, x, y, batch=None):
        s, d, r, e = self._chosen(batch, self.s, self.d, self.r, self.e)
        return float(np.mean((s * (y - d) ** 2).sum(1) + (r * (x - e) ** 2).sum(1)) / 2)

    def upper_grad(self, x, y, batch=None):
        s, d, r, e = self._chosen(batch, self.s, self.d, self.r, self.e)
        return (r * (x - e)).mean(0), (s * (y - d)).mean(0)

    def lower_value(self, x, y, batch=None):
        H, B, c = (a.mean(0) for a in self._chosen(batch, self.H, self.B, self.c))
        return float(y @ (H @ y / 2 - B @ x - c))

    def lower_grad_y(self, x, y, batch=None):
        H, B, c = (a.mean(0) for a in self._chosen(batch, self.H, self.B, self.c))
        return H @ y - B @ x - c

    def lower_hvp(self, x, y, v, batch=None):
        return self._chosen(batch, self.H)[0].mean(0) @ v

    def lower_jvp(self, x, y, u, batch=None):
        return -(u @ self._chosen(batch, self.B)[0].mean(0))

    def lower_grad_x(self, x, y, batch=None):
        return -(y @ self._chosen(batch, self.B)[0].mean(0))

    def exact(self, x):
        """y*, u* and the hypergradient."""
        H, B, c = self.H.mean(0), self.B.mean(0), self.c.mean(0)
        y = np.linalg.solve(H, B @ x + c)
        grad_1, grad_2 = self.upper_grad(x, y)
        u = np.linalg.solve(H, grad_2)
        return y, u, grad_1 + u @ B

    def solution(self):
        """The x* where the hypergradient, affine in x, is zero."""
        offset = self.exact(np.zeros(3))[2]
        columns = [self.exact(e)[2] - offset for e in np.eye(3)]
        return np.linalg.solve(np.array(columns).T, -offset)


class Recorded(nbo.FiniteSumProblem):
    """A finite sum that notes the batches of all calls, by oracle and in order."""

    def __init__(self, problem):
        self.problem, self.dtype, self.batches = problem, problem.dtype, defaultdict(list)
        for name in ("dim_x", "dim_y", "bounds", "n_samples_lower", "n_samples_upper"):
            setattr(self, name, getattr(problem, name))

    def _noted(self, name, *arguments, batch):
        self.batches[name].append(batch)
        return getattr(self.problem, name)(*arguments, batch=batch)

    def upper_value(self, x, y, batch=None):
        return self.problem.upper_value(x, y, batch=batch)

    def lower_value(self, x, y, batch=None):
        return self.problem.lower_value(x, y, batch=batch)

    def upper_grad(self, x, y, batch=None):
        return self._noted("upper_grad", x, y, batch=batch)

    def lower_grad_y(self, x, y, batch=None):
        return self._noted("lower_grad_y", x, y, batch=batch)

    def lower_grad_x(self, x, y, batch=None):
        return self._noted("lower_grad_x", x, y, batch=batch)

    def lower_hvp(self, x, y, v, batch=None):
        return self._noted("lower_hvp", x, y, v, batch=batch)

    def lower_jvp(self, x, y, u, batch=None):
        return self._noted("lower_jvp", x, y, u, batch=batch)

    def replay(self):
        """The oracles by name, each on the batches of its past calls, one after the other."""

        def oracle(name):
            coming = iter(list(self.batches[name]))
            return lambda *arguments: getattr(self.problem, name)(*arguments, batch=next(coming))

        return SimpleNamespace(**{name: oracle(name) for name in list(self.batches)})


def logistic_derivatives(M, b):
    """Losses (k,), slopes (k, c) and curvatures (k, c, c) of margins M (k, 1) and labels -1/+1."""
    t = b * M[:, 0]
    return np.logaddexp(0, -t), (-b * expit(-t))[:, None], (expit(t) * expit(-t))[:, None, None]


def softmax_derivatives(M, b):
    """The same of margins (k, c) and classes 0 .. c - 1."""
    P, chosen = softmax(M, axis=1), np.eye(M.shape[1])[b]
    losses = logsumexp(M, axis=1) - np.take_along_axis(M, b[:, None], axis=1)[:, 0]
    return losses, P - chosen, P[:, :, None] * np.eye(M.shape[1]) - P[:, :, None] * P[:, None, :]


def squared_derivatives(M, b):
    """The same of margins and targets (k, c)."""
    curvatures = np.broadcast_to(np.eye(M.shape[1]), (len(M), M.shape[1], M.shape[1]))
    return ((M - b) ** 2).sum(axis=1) / 2, M - b, curvatures


def _of_mean_one(weights, n):
    return np.ones(n) if weights is None else weights * n / np.sum(weights)


class PlainLinear(nbo.FiniteSumProblem):
    """A problem with linear models as its documentation states it: plain NumPy, in double, H and J as matrices.

    `groups` (c, p) are those of log penalties; without them x weighs the samples, and the penalty is ridge |W|^2.
    """

    def __init__(
        self, derivatives, A, b, A_val, b_val, c, *, groups=None, ridge=None, weights=None, weights_val=None,
        intercept=False, prior=None, noise_variance=1.0, bounds=(-np.inf, np.inf),
    ):  # fmt: skip
        self.derivatives, self.c, self.p, self.groups, self.ridge = derivatives, c, A.shape[1], groups, ridge
        self.width = self.p + intercept
        self.levels = {
            level: (np.hstack([rows, np.ones((len(rows), int(intercept)))]), labels, _of_mean_one(given, len(rows)))
            for level, rows, labels, given in (("lower", A, b, weights), ("upper", A_val, b_val, weights_val))
        }
        self.dim_y, self.bounds = c * self.width, bounds
        self.dim_x = len(A) if groups is None else int(groups.max()) + 1
        self.n_samples_lower, self.n_samples_upper = len(A), len(A_val)
        self.sums_intercepts = bool(intercept) and derivatives is softmax_derivatives
        self.center, self.curvature = (0.0, 0.0)
        if prior is not None:
            total = len(A_val) if weights_val is None else np.sum(weights_val)
            self.center, self.curvature = prior[0], noise_variance / (prior[1] ** 2 * total)

    def _at(self, level, y, batch):
        """Rows, weights over their number, and what the losses give at y."""
        Z, b, weights = (part if batch is None else part[batch] for part in self.levels[level])
        return Z, weights / len(Z), self.derivatives(Z @ np.reshape(y, (self.c, -1)).T, b)

    def _trust(self, x, batch):
        """sigma(x_i) and its derivative, or ones."""
        if self.groups is not None:
            return 1.0, 0.0
        chosen = x if batch is None else x[batch]
        return expit(chosen), expit(chosen) * expit(-chosen)

    def _factors(self, x):
        """The penalty on each entry of y, none on intercepts."""
        factors = np.zeros((self.c, self.width))
        factors[:, : self.p] = 2 * self.ridge if self.groups is None else np.exp(x)[self.groups]
        return factors.ravel()

    def _intercepts(self):
        """Where y has the intercepts, if their sum is held at zero."""
        at = np.zeros((self.c, self.width))
        if self.sums_intercepts:
            at[:, -1] = 1
        return at.ravel()

    def _curvature(self, Z, weights, curvatures):
        H = np.einsum("i,iqr,ij,il->qjrl", weights, curvatures, Z, Z)
        return H.reshape(self.dim_y, self.dim_y)

    def hessian(self, x, y, batch=None):
        """H, (n, n)."""
        Z, weights, (_, _, curvatures) = self._at("lower", y, batch)
        at = self._intercepts()
        data = self._curvature(Z, weights * self._trust(x, batch)[0], curvatures)
        return data + np.diag(self._factors(x)) + np.outer(at, at)

    def cross(self, x, y, batch=None):
        """J, (m, n)."""
        J = np.zeros((self.dim_x, self.dim_y))
        if self.groups is None:
            Z, weights, (_, slopes, _) = self._at("lower", y, batch)
            rows = np.arange(self.dim_x) if batch is None else np.arange(self.dim_x)[batch]
            entries = np.einsum("i,iq,ij->iqj", weights * self._trust(x, batch)[1], slopes, Z)
            np.add.at(J, rows, entries.reshape(len(rows), -1))
            return J
        places = np.arange(self.dim_y).reshape(self.c, -1)[:, : self.p].ravel()
        J[self.groups.ravel(), places] = (self._factors(x) * y)[places]
        return J

    def upper_value(self, x, y, batch=None):
        _, weights, (losses, _, _) = self._at("upper", y, batch)
        return float(weights @ losses + self.curvature / 2 * np.sum((x - self.center) ** 2))

    def upper_grad(self, x, y, batch=None):
        Z, weights, (_, slopes, _) = self._at("upper", y, batch)
        return self.curvature * (x - self.center), ((weights[:, None] * slopes).T @ Z).ravel()

    def upper_hvp(self, x, y, v, batch=None):
        Z, weights, (_, _, curvatures) = self._at("upper", y, batch)
        return self._curvature(Z, weights, curvatures) @ v

    def upper_jvp(self, x, y, u, batch=None):
        return np.zeros(self.dim_x)

    def lower_value(self, x, y, batch=None):
        _, weights, (losses, _, _) = self._at("lower", y, batch)
        penalty = self._factors(x) @ np.square(y) + (self._intercepts() @ y) ** 2
        return float((weights * self._trust(x, batch)[0]) @ losses + penalty / 2)

    def lower_grad_y(self, x, y, batch=None):
        Z, weights, (_, slopes, _) = self._at("lower", y, batch)
        data = ((weights * self._trust(x, batch)[0])[:, None] * slopes).T @ Z
        at = self._intercepts()
        return data.ravel() + self._factors(x) * y + (at @ y) * at

    def lower_hvp(self, x, y, v, batch=None):
        return self.hessian(x, y, batch) @ v

    def lower_jvp(self, x, y, u, batch=None):
        return self.cross(x, y, batch) @ u

    def lower_grad_x(self, x, y, batch=None):
        if self.groups is not None:
            return self.cross(x, y) @ y / 2
        _, weights, (losses, _, _) = self._at("lower", y, batch)
        grad, rows = np.zeros(self.dim_x), np.arange(self.dim_x)
        np.add.at(grad, rows if batch is None else rows[batch], weights * self._trust(x, batch)[1] * losses)
        return grad


class ByBatches(nbo.FiniteSumProblem):
    """A plain problem over the oracles of another one, which loops call batch by batch."""

    def __init__(self, problem):
        self.problem, self.dtype = problem, problem.dtype
        for name in ("dim_x", "dim_y", "bounds", "n_samples_lower", "n_samples_upper"):
            setattr(self, name, getattr(problem, name))

    def upper_value(self, x, y, batch=None):
        return self.problem.upper_value(x, y, batch=batch)

    def upper_grad(self, x, y, batch=None):
        return self.problem.upper_grad(x, y, batch=batch)

    def lower_value(self, x, y, batch=None):
        return self.problem.lower_value(x, y, batch=batch)

    def lower_grad_y(self, x, y, batch=None):
        return self.problem.lower_grad_y(x, y, batch=batch)

    def lower_hvp(self, x, y, v, batch=None):
        return self.problem.lower_hvp(x, y, v, batch=batch)

    def lower_jvp(self, x, y, u, batch=None):
        return self.problem.lower_jvp(x, y, u, batch=batch)

    def lower_grad_x(self, x, y, batch=None):
        return self.problem.lower_grad_x(x, y, batch=batch)


#: Sizes of the data of `LinearCase`: training and validation rows, columns, outputs.
N, N_VAL, P, C = 40, 30, 4, 3


def linear_groups(penalty, c, p):
    """The group of each entry of W (c, p) that a penalty means."""
    named = {
        "feature": np.arange(p), "shared": np.zeros(1, int), "rows": np.arange(c)[:, None],
        "entries": np.arange(c * p).reshape(c, p),
    }  # fmt: skip
    return np.array(np.broadcast_to(named[penalty] if isinstance(penalty, str) else penalty, (c, p)))


class LinearCase:
    """One of the four problems with linear models and `PlainLinear` on the same data."""

    KINDS = ("binary", "multinomial", "ridge", "targets", "cleaning")

    def __init__(
        self, kind, *, layout=np.asarray, dtype=np.float64, penalty="feature", intercept=False, weighted=False,
        prior=None, noise_variance=1.0, n=N, n_val=N_VAL, p=P, c=C, seed=0,
    ):  # fmt: skip
        rng = np.random.default_rng(seed)
        A, A_val = (rng.standard_normal((rows, p)) * (rng.random((rows, p)) < 0.8) for rows in (n, n_val))
        A, A_val = A.astype(dtype), A_val.astype(dtype)
        c = {"binary": 1, "ridge": 1}.get(kind, c)
        weights, weights_val = (rng.integers(0, 4, rows) + 0.25 if weighted else None for rows in (n, n_val))
        common = {"sample_weight": weights, "sample_weight_val": weights_val, "fit_intercept": intercept}
        plain = {"weights": weights, "weights_val": weights_val, "intercept": intercept}
        if kind != "cleaning":
            outputs = {"multinomial": "class", "targets": "target"}.get(kind)
            names = {"rows": outputs, "entries": f"{outputs}-feature"} if outputs else {}
            named = names.get(penalty, penalty) if isinstance(penalty, str) else penalty
            common |= {"penalty": named, "prior": prior, "bounds": (-np.inf, np.inf)}
            plain |= {"groups": linear_groups(penalty, c, p), "prior": prior}
        b, b_val = (self._labels(kind, rng, rows, c, dtype) for rows in (n, n_val))
        own = {"n_classes": c} if kind in ("multinomial", "cleaning") else {}
        if kind in ("ridge", "targets"):
            own |= {"noise_variance": noise_variance}
            plain |= {"noise_variance": noise_variance}
        if kind == "cleaning":
            own |= {"ridge": 0.15}
            plain |= {"ridge": 0.15}
        self.data, self.options = (layout(A), b, layout(A_val), b_val), common | own
        self.problem = self.kinds()[kind](*self.data, **self.options)
        derivatives = {"binary": logistic_derivatives, "ridge": squared_derivatives, "targets": squared_derivatives}
        self.plain = PlainLinear(
            derivatives.get(kind, softmax_derivatives), A.astype(float), b, A_val.astype(float), b_val, c, **plain
        )
        self.rng = rng

    @staticmethod
    def kinds():
        """The classes by the kind of a case."""
        problems = nbo.problems
        return {
            "binary": problems.BinaryLogistic, "multinomial": problems.MultinomialLogistic, "ridge": problems.Ridge,
            "targets": problems.Ridge, "cleaning": problems.HyperCleaning,
        }  # fmt: skip

    @staticmethod
    def _labels(kind, rng, n, c, dtype):
        if kind == "binary":
            return np.where(np.arange(n) % 3 > 0, 1, -1)
        if kind in ("ridge", "targets"):
            return rng.standard_normal((n, c)).astype(dtype)
        return np.concatenate([np.arange(c), rng.integers(c, size=max(n - c, 0))])[:n]

    def point(self, scale=1.0):
        """x, y, u of the problem's types."""
        y, u = scale * self.rng.standard_normal((2, self.problem.dim_y))
        return self.rng.standard_normal(self.problem.dim_x), *(a.astype(self.problem.dtype) for a in (y, u))
