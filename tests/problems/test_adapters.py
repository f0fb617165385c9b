"""Problems from JAX and torch functions against the same problems written by hand."""

from __future__ import annotations

import doctest
import inspect
import pickle
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_problems import PlainLogistic, SelfCounting, logistic_data

import nbo
from nbo.problems import from_jax, from_torch

LIBRARIES = ("jax", "torch")
BOUNDS = (-20.0, 12.0)


def library_named(name):
    """The library's functions `xp`, the adapter `make`, and `data`, which turns arrays into what functions capture."""
    if name == "jax":
        return SimpleNamespace(name=name, xp=pytest.importorskip("jax.numpy"), make=from_jax, data=np.asarray)
    torch = pytest.importorskip("torch")
    return SimpleNamespace(name=name, xp=torch, make=from_torch, data=torch.tensor)


@pytest.fixture(scope="module", params=LIBRARIES)
def library(request):
    return library_named(request.param)


@pytest.fixture(scope="module")
def torch():
    return library_named("torch").xp


@pytest.fixture(scope="module")
def jax():
    return pytest.importorskip("jax")


def quadratic(library, n=6, m=4, **settings):
    """A problem with f, g in a library, and the same one by hand."""
    hand = nbo.problems.Quadratic.family(n, m, 30.0 if n > 1 else 1.0)
    H, B, c, d, e = map(library.data, (hand.H, hand.B, hand.c, hand.d, hand.e))

    def f(x, y):
        return hand.s / 2 * ((y - d) ** 2).sum() + hand.rho / 2 * ((x - e) ** 2).sum()

    def g(x, y):
        return y @ (H @ y) / 2 - y @ (B @ x + c)

    return library.make(f, g, m, n, **settings), hand


def nonquadratic(library):
    rng = np.random.default_rng(0)
    hand = nbo.problems.NonQuadratic(
        rng.standard_normal((5, 3)) / 2, 2 * rng.standard_normal(5), rng.standard_normal(3), mu=0.1, L=1.0
    )
    xp, a, b = library.xp, (hand.L + hand.mu) / 2, (hand.L - hand.mu) / 2
    B, d, e = map(library.data, (hand.B, hand.d, hand.e))

    def f(x, y):
        return hand.s * (xp.sqrt(1 + (y - d) ** 2) - 1).sum() + hand.rho * (xp.sqrt(1 + (x - e) ** 2) - 1).sum()

    def g(x, y):
        return (a * y**2 / 2 + b * ((y * xp.sqrt(1 + y**2) + xp.arcsinh(y)) / 2 - y)).sum() - y @ (B @ x)

    return library.make(f, g, 3, 5), hand


def logistic_functions(library, data, dtype=np.float64, samples=False):
    """f and g of `BinaryLogistic` with one penalty a feature, of a batch or of all."""
    xp = library.xp
    A, b, A_val, b_val = (library.data(part.astype(dtype)) for part in data)

    def loss(A, b, y):
        return xp.log1p(xp.exp(-b * (A @ y))).mean()

    def f(x, y, batch=slice(None)):
        return loss(xp.asarray(A_val)[batch], xp.asarray(b_val)[batch], y)

    def g(x, y, batch=slice(None)):
        return loss(xp.asarray(A)[batch], xp.asarray(b)[batch], y) + (xp.exp(x) * y**2).sum() / 2

    return (f, g) if samples else (lambda x, y: f(x, y), lambda x, y: g(x, y))


def logistic(library, dtype=np.float64, samples=False):
    A, b, A_val, b_val = data = logistic_data()
    hand = nbo.problems.BinaryLogistic(A.astype(dtype), b, A_val.astype(dtype), b_val, bounds=BOUNDS)
    sizes = {"n_samples_upper": len(b_val), "n_samples_lower": len(b)} if samples else {}
    functions = logistic_functions(library, data, dtype, samples)
    return library.make(*functions, 5, 5, bounds=BOUNDS, dtype=dtype, **sizes), hand


FAMILIES = {"quadratic": quadratic, "nonquadratic": nonquadratic, "logistic": logistic}


@pytest.fixture(scope="module", params=FAMILIES)
def pair(library, request):
    """An adapted problem and the one written by hand."""
    return FAMILIES[request.param](library)


@pytest.fixture(scope="module")
def with_samples(library):
    return logistic(library, samples=True)[0]


@pytest.fixture(scope="module")
def single_precision(library):
    return logistic(library, np.float32)


def point(problem, seed=0):
    """Read-only x, y, two directions and a block of three."""
    rng = np.random.default_rng(seed)
    x, *rest = rng.standard_normal(problem.dim_x), *rng.standard_normal((3, problem.dim_y)).astype(problem.dtype)
    arrays = (x, *rest, np.stack([*rest[1:], rest[0]]))
    for array in arrays:
        array.flags.writeable = False
    return arrays


def oracles(problem, seed=0):
    """Everything that a problem and its models return at one point, by name."""
    x, y, u, v, V = point(problem, seed)
    model, used, single = (problem.lower_model(x, y) for _ in range(3))
    gradient, product = used.grad_y_and_hvp(u)
    return {
        "upper_value": problem.upper_value(x, y), "upper_grad_x": problem.upper_grad(x, y)[0],
        "upper_grad_y": problem.upper_grad(x, y)[1], "upper_hvp": problem.upper_hvp(x, y, v),
        "upper_jvp": problem.upper_jvp(x, y, u), "lower_value": problem.lower_value(x, y),
        "lower_grad_y": problem.lower_grad_y(x, y), "lower_grad_x": problem.lower_grad_x(x, y),
        "lower_hvp": problem.lower_hvp(x, y, v), "lower_jvp": problem.lower_jvp(x, y, u),
        "model value": model.value(), "model grad_y": model.grad_y(), "model grad_x": model.grad_x(),
        "model hvp": model.hvp(V), "model hvp of one": single.hvp(V[:1]), "used hvp": used.hvp(V),
        "used hvp of none": used.hvp(V[:0]), "grad_y of both": gradient, "hvp of both": product,
        "model jvp": used.jvp(u), "hessian": model.hessian @ v,
    }  # fmt: skip


def test_oracles_equal_those_by_hand(pair):
    problem, hand = pair
    found, expected = oracles(problem), oracles(hand)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-10, atol=1e-12, err_msg=name)


def test_oracles_in_single_precision(single_precision):
    problem, hand = single_precision
    assert problem.dtype == np.float32
    found, expected = oracles(problem), oracles(hand)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-5, err_msg=name)
        in_x = name in ("upper_grad_x", "lower_grad_x", "model grad_x") or name.endswith("jvp")
        if isinstance(found[name], np.ndarray):
            assert found[name].dtype == (np.float64 if in_x else np.float32), name


def test_taylor_slopes(pair):
    x, y, *_ = point(pair[0], seed=1)
    report = nbo.check_problem(pair[0], x, y)
    assert report, str(report)


def test_taylor_slopes_in_single_precision(single_precision):
    x, y, *_ = point(single_precision[0], seed=1)
    report = nbo.check_problem(single_precision[0], x, y)
    assert report, str(report)


@pytest.mark.slow
def test_taylor_slopes_with_samples(with_samples):
    x, y, *_ = point(with_samples, seed=2)
    report = nbo.check_problem(with_samples, x, y)
    assert report, str(report)
    assert "means over batches" in [check.name for check in report.checks]


def iterates(problem, options, **settings):
    """The x of every iteration, and the result."""
    path = []
    x0 = np.full(problem.dim_x, -1.0)
    result = nbo.minimize(problem, x0, callback=path.append, tol=0, max_iter=8, options=options, **settings)
    return np.array(path), result


def test_full_batch_iterates_and_counts_equal_those_by_hand(pair):
    problem, hand = pair
    counting = SelfCounting(problem)
    options = {"step_size": 0.3, "n_inner": 1}
    (path, result), (expected, by_hand), (_, plain) = (
        iterates(p, options, method="nbo-cg", bounds=BOUNDS) for p in (problem, hand, counting)
    )
    np.testing.assert_allclose(path, expected, rtol=0, atol=1e-10)
    assert result.counts == by_hand.counts == plain.counts
    assert plain.counts + plain.evaluation_counts == counting.seen()


@pytest.mark.parametrize("method", ["soba", "nsbo-saga"])
def test_minibatch_iterates_and_counts_equal_those_by_hand(with_samples, method):
    options = {"step_size": 0.2, "inner_step_size": 0.3, "batch_size": 7}
    plain = PlainLogistic(*logistic_data(), bounds=BOUNDS)
    (path, result), (expected, by_hand) = (
        iterates(p, options, method=method, random_state=3) for p in (with_samples, plain)
    )
    np.testing.assert_allclose(path, expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(result.u, by_hand.u, rtol=0, atol=1e-10)
    assert (result.counts, result.samples) == (by_hand.counts, by_hand.samples)
    assert by_hand.counts + by_hand.evaluation_counts == plain.seen()[0]


def test_batches_are_slices_lists_or_arrays_and_are_checked(with_samples):
    x, y, *_ = point(with_samples)
    expected = PlainLogistic(*logistic_data()).lower_grad_y(x, y, batch=np.arange(3, 9))
    for batch in (slice(3, 9), list(range(3, 9)), np.arange(3, 9), np.arange(3, 9) - 60):
        np.testing.assert_allclose(with_samples.lower_grad_y(x, y, batch=batch), expected, rtol=1e-10)
    with pytest.raises(IndexError, match="60"):
        with_samples.lower_grad_y(x, y, batch=[60])
    with pytest.raises(IndexError, match="40"):
        with_samples.upper_grad(x, y, batch=[40])
    for batch in ([[1, 2]], slice(0, 0), 3):
        with pytest.raises(ValueError, match="batch: found indices of shape"):
            with_samples.lower_grad_y(x, y, batch=batch)


def test_a_batch_without_samples_is_refused(pair):
    x, y, *_ = point(pair[0])
    with pytest.raises(TypeError, match="batch: this problem has no samples; give n_samples_upper"):
        pair[0].lower_grad_y(x, y, batch=[0])


def uncompiled(library):
    """Arguments that keep JAX from compiling every size that hypothesis draws."""
    return {"jit": False} if library.name == "jax" else {}


@pytest.mark.slow
@settings(max_examples=4)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 99))
def test_all_sizes(library, m, n, seed):
    problem, hand = quadratic(library, n, m, **uncompiled(library))
    found, expected = oracles(problem, seed), oracles(hand, seed)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-10, atol=1e-12, err_msg=name)


@pytest.mark.slow
@settings(max_examples=4)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 2), st.data())
def test_all_numbers_of_samples(library, n, n_val, p, draw):
    data = logistic_data(n, n_val, p, seed=n)
    sizes = {"n_samples_upper": n_val, "n_samples_lower": n}
    problem = library.make(*logistic_functions(library, data, samples=True), p, p, **sizes, **uncompiled(library))
    plain = PlainLogistic(*data)
    x, y, u, *_ = point(problem)
    lower, upper = (draw.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=3)) for size in (n, n_val))
    for batch in (None, lower):
        for name, more in (("lower_value", ()), ("lower_grad_y", ()), ("lower_hvp", (u,)), ("lower_jvp", (u,))):
            found, expected = (getattr(p, name)(x, y, *more, batch=batch) for p in (problem, plain))
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12, err_msg=name)
    for batch in (None, upper):
        found, expected = (np.concatenate(p.upper_grad(x, y, batch=batch)) for p in (problem, plain))
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_what_a_function_does_not_depend_on_gives_zeros(library):
    problem = library.make(lambda x, y: (y**3).sum(), lambda x, y: y.sum() + (x**2).sum(), 2, 3)
    x, y, u, v, V = point(problem)
    np.testing.assert_array_equal(problem.upper_grad(x, y)[0], np.zeros(2))
    np.testing.assert_array_equal(problem.upper_jvp(x, y, u), np.zeros(2))
    np.testing.assert_array_equal(problem.lower_grad_y(x, y), np.ones(3))
    np.testing.assert_array_equal(problem.lower_hvp(x, y, v), np.zeros(3))
    np.testing.assert_array_equal(problem.lower_jvp(x, y, u), np.zeros(2))
    np.testing.assert_array_equal(problem.lower_model(x, y).hvp(V), np.zeros((3, 3)))
    flat = library.make(lambda x, y: (x**2).sum(), lambda x, y: (y**2).sum(), 2, 3)
    np.testing.assert_array_equal(flat.upper_grad(x, y)[1], np.zeros(3))
    np.testing.assert_array_equal(flat.upper_hvp(x, y, v), np.zeros(3))
    np.testing.assert_array_equal(flat.lower_grad_x(x, y), np.zeros(2))


def test_results_belong_to_the_caller(library):
    """The gradient of |y|^2/2 is y itself: a result that shared its memory would let the caller change the point."""
    problem = library.make(lambda x, y: (y * y).sum() / 2, lambda x, y: (y * y).sum() / 2, 2000, 2000)
    x, y = np.ones(2000), np.full(2000, 2.0)
    model = problem.lower_model(x, y)
    results = [problem.lower_grad_y(x, y), problem.lower_hvp(x, y, y), model.grad_y(), *model.grad_y_and_hvp(y)]
    for result in results:
        np.testing.assert_array_equal(result, 2.0)
        result[:] = 7.0
    np.testing.assert_array_equal(y, 2.0)
    np.testing.assert_array_equal(model.grad_y(), 2.0)
    np.testing.assert_array_equal(model.hvp(y[None]), 2.0 * np.ones((1, 2000)))


def test_threads_do_not_disturb_one_another(with_samples, single_precision):
    """Both precisions at once in several threads give what they give alone."""
    problems = [with_samples, single_precision[0]]
    expected = [oracles(problem) for problem in problems]
    faults = []

    def work(i):
        for _ in range(5):
            found = oracles(problems[i % 2])
            for name, value in expected[i % 2].items():
                if not np.allclose(found[name], value, rtol=1e-13 if i % 2 == 0 else 1e-5, atol=1e-13):
                    faults.append((i, name))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def ordinary_f(x, y):
    return (x**2).sum() + (y**2).sum()


def ordinary_g(x, y):
    return (y**2).sum() - x.sum() * y.sum()


def test_problems_of_module_level_functions_can_be_pickled(library):
    problem = library.make(ordinary_f, ordinary_g, 2, 3, bounds=(-1, 2))
    problem.lower_hvp(*point(problem)[:3])
    again = pickle.loads(pickle.dumps(problem))
    found, expected = oracles(again), oracles(problem)
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])
    assert again.fingerprint() == problem.fingerprint()
    np.testing.assert_array_equal(again.bounds, problem.bounds)
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(library.make(lambda x, y: (y**2).sum(), ordinary_g, 2, 3))


def test_fingerprints_tell_functions_and_types_apart(library):
    texts = {
        library.make(ordinary_f, ordinary_g, 2, 3).fingerprint(),
        library.make(ordinary_g, ordinary_g, 2, 3).fingerprint(),
        library.make(ordinary_f, ordinary_g, 2, 2).fingerprint(),
        library.make(ordinary_f, ordinary_g, 2, 3, dtype=np.float32).fingerprint(),
    }
    assert len(texts) == 4


GOOD = {"f": ordinary_f, "g": ordinary_g, "dim_x": 2, "dim_y": 3}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"f": 3}, r"f: found int; expected a function f\(x, y\)"),
        (
            {"g": lambda y: y.sum()},
            r"g: found parameters \(y\) .*; expected g\(x, y\); a function of a batch needs n_s",
        ),
        ({"f": lambda x, y, batch: y.sum()}, r"f: found parameters .*batch.*needs n_samples_upper and n_samples_lower"),
        (
            {"n_samples_upper": 3, "n_samples_lower": 4},
            r"f: found parameters .*; expected f\(x, y, batch\), since there",
        ),
        ({"n_samples_upper": 3}, "n_samples_lower: found None though the other number is given; expected both or none"),
        ({"n_samples_lower": 3}, "n_samples_upper: found None"),
        ({"dim_x": 0}, "dim_x: found 0; expected an integer >= 1"),
        ({"dim_y": 2.0}, r"dim_y: found 2.0 \(float\); expected an integer"),
        ({"bounds": (1, 0)}, "bounds: found lower 1 > upper 0"),
        ({"dtype": np.float16}, "dtype: found <class 'numpy.float16'>; expected NumPy's float64 or float32"),
        ({"dtype": "nothing"}, "dtype: found 'nothing'"),
    ],
)
def test_bad_arguments(library, changes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        library.make(**(GOOD | changes))


BAD_RESULTS = {
    "vector": (lambda x, y: y**2, r"g: returned an? \w+ of shape \(3,\); expected one real number"),
    "integer": (lambda x, y: (y > 0).sum(), r"g: returned a number of type \S*int"),
    "boolean": (lambda x, y: (y > 0).any(), r"g: returned a number of type \S*bool"),
    "nothing": (lambda x, y: None, "g: returned NoneType, which has no derivative"),
    "a Python number": (lambda x, y: 1.0, "g: returned float, which has no derivative"),
    "a NumPy number": (lambda x, y: np.float64(1), "g: returned float64, which has no derivative"),
}


@pytest.mark.parametrize("fault", BAD_RESULTS)
def test_bad_results_of_functions(library, fault):
    g, message = BAD_RESULTS[fault]
    with pytest.raises((TypeError, ValueError), match=message):
        problem = library.make(ordinary_f, g, 2, 3)
        problem.lower_grad_y(np.ones(2), np.ones(3))


def test_a_result_in_lower_precision_is_refused(library):
    xp = library.xp

    def g(x, y):
        narrow = y.astype(xp.float32) if library.name == "jax" else y.to(xp.float32)
        return (narrow**2).sum()

    with pytest.raises(TypeError, match=r"g: returned a number of type .*float32 though dtype is float64"):
        library.make(ordinary_f, g, 2, 3).lower_value(np.ones(2), np.ones(3))


def test_wrong_lengths_are_refused_and_not_broadcast(pair):
    problem = pair[0]
    x, y, u, *_ = point(problem)
    with pytest.raises(ValueError, match=rf"x: found shape \(1,\); expected \({problem.dim_x},\) \(dim_x\)"):
        problem.lower_value(x[:1], y)
    with pytest.raises(ValueError, match=rf"y: found shape \(1,\); expected \({problem.dim_y},\) \(dim_y\)"):
        problem.lower_grad_y(x, y[:1])
    with pytest.raises(ValueError, match=r"v: found shape \(2, "):
        problem.lower_hvp(x, y, np.stack([u, u]))


def test_an_error_inside_a_function_says_how_it_was_called(library):
    data = library.data(np.ones((4, 5)))
    with pytest.raises((TypeError, ValueError, RuntimeError)) as caught:
        library.make(ordinary_f, lambda x, y: (data @ y).sum(), 2, 3).lower_value(np.ones(2), np.ones(3))
    assert "g was called with arguments of shapes" in " ".join(caught.value.__notes__)


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_missing_library_is_named_with_its_extra(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    make = {"jax": from_jax, "torch": from_torch}[name]
    with pytest.raises(ImportError, match=rf'from_{name} needs {name}: pip install "nbo\[{name}\]"'):
        make(ordinary_f, ordinary_g, 2, 3)


def test_libraries_are_not_imported_before_they_are_needed():
    program = "import nbo.problems, nbo.problems.autodiff, sys; print(sorted({'jax', 'torch'} & set(sys.modules)))"
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


@pytest.mark.parametrize("switch", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_users_switch_is_neither_needed_nor_changed(jax, switch, dtype):
    seen = []

    def g(x, y):
        terms = y**2 * np.ones(3)  # NumPy's float64, which would widen them if the switch were on
        seen.append(terms.dtype)
        return terms.sum() / 3

    with jax.enable_x64(switch):
        problem = from_jax(ordinary_f, g, 2, 3, dtype=dtype)
        y = np.array([1.0, 1 + 1e-12, 1 / 3], dtype=dtype)
        gradient = problem.lower_grad_y(np.ones(2), y)
        assert jax.config.jax_enable_x64 is switch
        assert jax.numpy.ones(1, dtype=float).dtype == (np.float64 if switch else np.float32)
    assert gradient.dtype == dtype and set(seen) == {np.dtype(dtype)}
    np.testing.assert_allclose(gradient, 2 * y / 3, rtol=4 * np.finfo(dtype).eps)
    assert not jax.config.jax_enable_x64


def test_an_oracle_is_compiled_once_for_each_shape(jax):
    traced = []

    def g(x, y, batch):
        traced.append(batch)
        return (y**2).sum() + jax.numpy.asarray(np.arange(9.0))[batch].mean() * x @ x

    def f(x, y, batch):
        return (y**2).sum()

    problem = from_jax(f, g, 2, 3, n_samples_upper=9, n_samples_lower=9)
    tried = len(traced)
    x, y, *_ = point(problem)
    for _ in range(3):
        problem.lower_grad_y(x, y)
        for start in (0, 4):
            problem.lower_grad_y(x, y, batch=np.arange(start, start + 4))
            problem.lower_grad_y(x, y, batch=np.arange(start, start + 5))
    assert len(traced) == tried + 3  # all samples, four and five


def test_products_at_new_points_are_not_compiled_anew(jax):
    problem, _ = quadratic(library_named("jax"))
    for seed in range(4):
        x, y, u, _, V = point(problem, seed)
        model = problem.lower_model(x, y)
        model.grad_y_and_hvp(u)
        model.hvp(V)
    functions = problem._lower._functions
    assert [functions[kind]._cache_size() for kind in ("linear_and_hvp", "products")] == [1, 1]


def test_compilation_is_no_solver_time(jax):
    problem, _ = quadratic(library_named("jax"))
    first, second = (nbo.minimize(problem, np.zeros(4), tol=0, max_iter=3) for _ in range(2))
    assert first.compile_seconds > 0 == second.compile_seconds


def test_without_compilation_functions_may_look_at_values(jax):
    def g(x, y):
        return (y**2).sum() if y[0] > 0 else (y**4).sum()

    with pytest.raises(jax.errors.TracerBoolConversionError):
        from_jax(ordinary_f, g, 2, 3)
    problem = from_jax(ordinary_f, g, 2, 3, jit=False)
    x, V = np.ones(2), np.eye(3)
    for y, factor in ((np.array([1.0, 2.0, 3.0]), np.full(3, 2.0)), (-np.ones(3), np.full(3, 12.0))):
        for model in (problem.lower_model(x, y), problem.lower_model(x, y)):
            np.testing.assert_allclose(model.hvp(V), np.diag(factor))
        np.testing.assert_allclose(problem.lower_hvp(x, y, V[1]), factor * V[1])
    assert pickle.loads(pickle.dumps(from_jax(ordinary_f, ordinary_g, 2, 3, jit=False)))._lower._jit is False


def test_numpy_in_a_function_is_refused_at_the_door(jax):
    with pytest.raises(jax.errors.TracerArrayConversionError) as caught:
        from_jax(ordinary_f, lambda x, y: np.sum(np.asarray(y) ** 2), 2, 3)
    assert "it has to compute with jax.numpy" in " ".join(caught.value.__notes__)


def test_bad_jit(jax):
    with pytest.raises(TypeError, match="jit: found 'yes'; expected True or False"):
        from_jax(ordinary_f, ordinary_g, 2, 3, jit="yes")


@pytest.mark.parametrize("mode", ["no_grad", "inference_mode", "enable_grad"])
def test_the_callers_mode_does_not_matter(torch, mode):
    problem, hand = logistic(library_named("torch"))
    with getattr(torch, mode)():
        before = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        found = oracles(problem)
        assert (torch.is_grad_enabled(), torch.is_inference_mode_enabled()) == before
    for name, value in oracles(hand).items():
        np.testing.assert_allclose(found[name], value, rtol=1e-10, atol=1e-12, err_msg=name)


def test_nothing_is_accumulated_and_no_default_changes(torch):
    parameter = torch.ones(3, dtype=torch.float64, requires_grad=True)

    def g(x, y):
        return (parameter * y**2).sum() + x.sum() * y.sum()

    problem = from_torch(ordinary_f, g, 2, 3)
    oracles(problem)
    assert parameter.grad is None and torch.get_default_dtype() == torch.float32 and torch.is_grad_enabled()


@pytest.mark.parametrize(
    "g", [
        lambda x, y: (y.detach() ** 2).sum(),
        lambda x, y: x.new_tensor((y.detach() ** 2).sum().item()),
        lambda x, y: x.new_tensor(np.sum(y.detach().numpy() ** 2)),
    ]
)  # fmt: skip
def test_a_graph_that_is_cut_is_refused(torch, g):
    problem = from_torch(ordinary_f, g, 2, 3)
    x, y, u, _, V = point(problem)
    for call in (
        lambda: problem.lower_grad_y(x, y), lambda: problem.lower_hvp(x, y, u), lambda: problem.lower_jvp(x, y, u),
        lambda: problem.lower_model(x, y).hvp(V), lambda: nbo.minimize(problem, x),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="g: returned a tensor that is cut off from x and y"):
            call()


def run_skipped(text, name):
    """Run the examples that are marked as skipped, as where a library may be missing; return how many there are."""
    examples = [e for e in doctest.DocTestParser().get_examples(text) if e.options.pop(doctest.SKIP, False)]
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    failed, _ = runner.run(doctest.DocTest(examples, {}, name, None, 0, text))
    assert failed == 0, f"{name}: {failed} examples failed, see the captured output"
    return len(examples)


def test_examples_of_docstrings(library):
    assert run_skipped(inspect.getdoc(library.make), library.name) > 5


def test_examples_of_the_page(torch, repository):
    assert run_skipped((repository / "docs" / "autodiff.rst").read_text(encoding="utf-8"), "autodiff.rst") > 5
