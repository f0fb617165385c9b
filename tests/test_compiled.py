"""Problems given as arrays and kernels."""

from __future__ import annotations

import pickle
import sys

import numba
import numpy as np
import pytest
import scipy.sparse as sp
from reference_kernels import KERNELS, compiled_logistic
from reference_problems import logistic_data

import nbo

DATA = logistic_data(70, 50, 4)


@pytest.fixture(scope="module")
def problem():
    return compiled_logistic(*DATA)


@pytest.fixture(scope="module")
def reference():
    return nbo.problems.BinaryLogistic(*DATA, penalty="shared")


POINT = np.array([-1.5]), np.array([0.3, -0.2, 0.5, 1.0])
U = np.array([1.0, 2.0, -1.0, 0.5])
BATCHES = [None, slice(None), slice(5, 40), slice(40, 5, -3), np.array([3, 3, 49, 0]), [1, 2, -1]]


def test_every_oracle_checks_out(problem):
    report = nbo.check_problem(problem, *POINT, random_state=0)
    assert report, report
    assert "lower_grad_x" not in {c.name for c in report.checks if "not" not in c.detail}


@pytest.mark.parametrize("batch", BATCHES, ids=repr)
def test_oracles_are_means_over_batches(problem, reference, batch):
    x, y = POINT
    for name, arguments in (
        ("upper_value", ()),
        ("upper_grad", ()),
        ("lower_value", ()),
        ("lower_grad_y", ()),
        ("lower_hvp", (U,)),
        ("lower_jvp", (U,)),
    ):
        found = getattr(problem, name)(x, y, *arguments, batch=batch)
        expected = getattr(reference, name)(x, y, *arguments, batch=batch)
        together = [np.hstack(value if isinstance(value, tuple) else (value,)) for value in (found, expected)]
        np.testing.assert_allclose(*together, rtol=1e-12, atol=1e-15, err_msg=name)


def test_the_lower_model_multiplies_blocks(problem, reference):
    model, expected = problem.lower_model(*POINT), reference.lower_model(*POINT)
    V = np.stack((U, U[::-1], POINT[1]))
    np.testing.assert_allclose(model.hvp(V), expected.hvp(V), rtol=1e-12)
    for found, wanted in zip(model.grad_y_and_hvp(U), expected.grad_y_and_hvp(U), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_deterministic_methods_run_on_it(problem, reference):
    runs = [nbo.minimize(p, [-2.0], method="nbo-cg", max_iter=20, bounds=(-9, 9)) for p in (problem, reference)]
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=1e-8)


@pytest.mark.parametrize("batch", ["all", 1.5, np.array([50]), np.array([], dtype=int), np.array([[0]])], ids=repr)
def test_bad_batches_are_refused(problem, batch):
    with pytest.raises((TypeError, ValueError, IndexError), match="batch"):
        problem.upper_value(*POINT, batch=batch)


def test_what_is_missing_is_listed():
    with pytest.raises(ValueError, match="kernels: missing lower_hvp, upper_grad; a compiled problem needs all"):
        compiled_logistic(*DATA, kernels={k: v for k, v in KERNELS.items() if k not in ("lower_hvp", "upper_grad")})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kernels": list(KERNELS.values())}, "kernels: found list; expected a dict"),
        ({"kernels": KERNELS | {"lower_gradient": KERNELS["lower_grad_y"]}}, "kernels: found lower_gradient; expected"),
        ({"kernels": KERNELS | {"lower_jvp": np.exp}}, r"kernels\['lower_jvp'\]: found ufunc; expected a function"),
        ({"kernels": KERNELS | {"lower_jvp": KERNELS["lower_value"]}}, r"kernels\['lower_jvp'\]: found parameters"),
        ({"lower": DATA[0]}, "lower: found ndarray; expected a non-empty tuple"),
        ({"lower": ()}, "lower: found tuple; expected a non-empty tuple"),
        ({"lower": (DATA[0], DATA[3])}, "lower: found arrays of 70, 50 samples"),
        ({"upper": (DATA[2], np.full(50, np.nan))}, r"upper\[1\]: found nan at index 0"),
        ({"upper": (DATA[2], DATA[3].astype(str))}, r"upper\[1\]: found type <U"),
        ({"upper": (DATA[2], 1.0)}, r"upper\[1\]: found a number"),
        ({"common": [1.0]}, "common: found list; expected a tuple"),
        ({"common": ("text",)}, r"common\[0\]: found str; expected"),
        ({"dim_x": 0}, "dim_x: found 0"),
        ({"dim_y": 2.5}, "dim_y: found 2.5"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_arguments_are_refused(changes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        compiled_logistic(*DATA, **changes)


def test_a_kernel_that_does_not_compile_is_named():
    def lower_jvp(data, lo, hi, scale, x, y, u, out):
        out[0] = undefined_name  # noqa: F821

    problem = compiled_logistic(*DATA, kernels=KERNELS | {"lower_jvp": lower_jvp})
    with pytest.raises(TypeError, match=r"kernels\['lower_jvp'\]: numba cannot compile it"):
        problem.lower_jvp(*POINT, U)


def changes_an_input(data, lo, hi, scale, x, y, u, out):
    u *= 2
    out[0] += 1.0


def sets_an_input(data, lo, hi, scale, x, y, u, out):
    u[0] = 1.0


def mixes_types(data, lo, hi, scale, x, y, u, out):
    out[0] += np.dot(data.lower[0][lo].astype(np.float32), y)


def imports(data, lo, hi, scale, x, y, u, out):
    import math

    out[0] += math.pi


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (changes_an_input, "AttributeError.*does it change an array that is no output"),
        (sets_an_input, "Cannot modify readonly array"),
        (mixes_types, r"np.dot\(\) arguments must all have the same dtype.* in dot\(array\(float32.*test_compiled.py"),
        (imports, "IMPORT_NAME"),
    ],
)
def test_why_a_kernel_does_not_compile_is_told_in_a_line(kernel, message):
    problem = compiled_logistic(*DATA, kernels=KERNELS | {"lower_jvp": kernel})
    with pytest.raises(
        TypeError, match=rf"kernels\['lower_jvp'\]: numba cannot compile it for this data: .*{message}"
    ) as e:
        problem.lower_jvp(*POINT, U)
    assert len(str(e.value)) < 500


def test_errors_of_kernels_are_named():
    def lower_jvp(data, lo, hi, scale, x, y, u, out):
        out[0] += np.dot(x, y)

    problem = compiled_logistic(*DATA, kernels=KERNELS | {"lower_jvp": lower_jvp})
    with pytest.raises(ValueError, match="incompatible array sizes") as error:
        problem.lower_jvp(*POINT, U)
    assert error.value.__notes__ == ["in kernels['lower_jvp']"]
    assert "kernels['lower_jvp']: ValueError: incompatible" in str(nbo.check_problem(problem, *POINT))


def test_absent_optional_kernels_are_told(problem):
    with pytest.raises(NotImplementedError, match="no kernel lower_grad_x"):
        problem.lower_grad_x(*POINT)


def test_types_follow_the_data(problem):
    assert problem.dtype == np.float64
    single = compiled_logistic(*(a.astype(np.float32) for a in DATA))
    assert single.dtype == np.float32
    assert compiled_logistic(DATA[0].astype(np.float32), *DATA[1:]).dtype == np.float64
    np.testing.assert_allclose(single.lower_grad_y(*POINT), problem.lower_grad_y(*POINT), rtol=1e-5)


def csr_upper_grad(data, lo, hi, scale, x, y, out_x, out_y):
    (values, indices, starts), b, _ = data.upper
    for i in range(lo, hi):
        total = 0.0
        for e in range(starts[i], starts[i + 1]):
            total += values[e] * y[indices[e]]
        for e in range(starts[i], starts[i + 1]):
            out_y[indices[e]] -= scale * b[i] / (1 + np.exp(b[i] * total)) * values[e]


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_sparse_data_arrive_as_arrays(problem, kind):
    A = sp.csr_array(DATA[2])
    A.indices, A.indptr = A.indices.astype(kind), A.indptr.astype(kind)
    sparse = compiled_logistic(*DATA, upper=(A, DATA[3]), kernels=KERNELS | {"upper_grad": csr_upper_grad})
    for batch in (None, slice(3, 9), np.array([4, 4, 0])):
        np.testing.assert_allclose(
            sparse.upper_grad(*POINT, batch=batch)[1], problem.upper_grad(*POINT, batch=batch)[1], rtol=1e-12
        )
    shuffled = sparse.shuffled(3)
    order = shuffled.upper[-1]
    values, indices, starts = shuffled.upper[0]
    again = sp.csr_array((values, indices.astype(np.int64), starts.astype(np.int64)), shape=A.shape)
    np.testing.assert_array_equal(again.toarray(), DATA[2][order])


def test_inconsistent_sparse_data_are_refused():
    A = sp.csr_array(DATA[2])
    A.indices[3] = 99
    with pytest.raises(ValueError, match=r"upper\[0\]: found a csr matrix with an index 99; expected 0 to 3"):
        compiled_logistic(*DATA, upper=(A, DATA[3]))


def test_sparse_data_with_room_to_spare_are_left_alone():
    A = sp.csr_array(DATA[2])
    A.data, A.indices = np.append(A.data, 7.0), np.append(A.indices, 0)
    compiled_logistic(*DATA, upper=(A, DATA[3]), kernels=KERNELS | {"upper_grad": csr_upper_grad})
    assert (len(A.data), len(A.indices)) == (DATA[2].size + 1, DATA[2].size + 1)


def test_shuffles_follow_the_data_and_leave_them_alone():
    data = [a.copy() for a in DATA]
    problem = compiled_logistic(*data)
    first = problem.shuffled(5)
    assert sorted(first.lower[-1]) == list(range(70))
    np.testing.assert_array_equal(first.lower[0], DATA[0][first.lower[-1]])
    for array, copy in zip(data, DATA, strict=True):
        np.testing.assert_array_equal(array, copy)
    data[0][3] = 99.0
    again = problem.shuffled(5)
    assert 99.0 in again.lower[0]
    assert not any(a.flags.writeable for a in problem.data.lower[:-1])


def test_memory_maps_are_not_copied(tmp_path):
    mapped = np.memmap(tmp_path / "A.bin", dtype=np.float64, mode="w+", shape=DATA[0].shape)
    mapped[:] = DATA[0]
    mapped.flush()
    read = np.memmap(tmp_path / "A.bin", dtype=np.float64, mode="r", shape=DATA[0].shape)
    problem = compiled_logistic(read, *DATA[1:])
    stored = problem.shuffled(1)
    assert np.shares_memory(stored.lower[0], read)
    assert not np.array_equal(stored.upper[0], DATA[2])
    options = {"step_size": 0.1, "inner_step_size": 0.1, "batch_size": 8}
    res = nbo.minimize(problem, [0.0], method="soba", max_iter=30, options=options, random_state=0)
    assert np.isfinite(res.fun)


def test_the_inner_step_of_a_memory_map_is_that_of_its_batches(tmp_path):
    """Its rows are not shuffled: here all large ones are in one batch."""
    A = DATA[0].copy()
    A[:10] *= 30
    np.save(tmp_path / "A.npy", A)
    steps = [
        nbo.minimize(
            compiled_logistic(rows, *DATA[1:]), [0.0], method="soba", max_iter=1, random_state=0,
            options={"step_size": 1e-9, "batch_size": 10},
        ).chosen["inner_step_size"]
        for rows in (A, np.load(tmp_path / "A.npy", mmap_mode="r"))
    ]  # fmt: skip
    assert steps[1] < 0.7 * steps[0]


def test_pickles_and_fingerprints(problem):
    again = pickle.loads(pickle.dumps(problem))
    assert again.fingerprint() == problem.fingerprint() != compiled_logistic(*logistic_data(70, 50, 4, 1)).fingerprint()
    assert again.upper_value(*POINT) == problem.upper_value(*POINT)


def overwrites(data, lo, hi, scale, x, y, out_x, out_y):
    A, b, _ = data.upper
    out_y[:] = 0
    for i in range(lo, hi):
        out_y -= scale * b[i] / (1 + np.exp(b[i] * np.dot(A[i], y))) * A[i]


def forgets_the_first_row(data, lo, hi, scale, x, y, out_x, out_y):
    A, b, _ = data.upper
    for i in range(0, hi - lo):
        out_y -= scale * b[i] / (1 + np.exp(b[i] * np.dot(A[i], y))) * A[i]


def ignores_the_scale(data, lo, hi, scale, x, y, out_x, out_y):
    A, b, _ = data.upper
    for i in range(lo, hi):
        out_y -= b[i] / (1 + np.exp(b[i] * np.dot(A[i], y))) * A[i] / (hi - lo)


def test_fingerprints_tell_kernels_apart():
    def shifted(shift):
        def upper_value(data, lo, hi, scale, x, y, out):
            out[0] += scale * (hi - lo) * shift

        return compiled_logistic(*DATA, kernels=KERNELS | {"upper_value": upper_value}).fingerprint()

    assert shifted(1.0) == shifted(1.0) != shifted(2.0)


def writes_outside(data, lo, hi, scale, x, y, out_x, out_y):
    for i in range(lo, hi):
        out_y[i] += scale


def reads_outside(data, lo, hi, scale, x, y, out_x, out_y):
    A, _, _ = data.upper
    out_y[0] += scale * A[hi, 0]


@pytest.mark.parametrize("kernel", [writes_outside, reads_outside])
def test_the_check_finds_kernels_that_leave_their_arrays(kernel):
    report = nbo.check_problem(compiled_logistic(*DATA, kernels=KERNELS | {"upper_grad": kernel}), *POINT)
    assert [c.name for c in report.checks] == ["kernels stay within arrays"]
    assert "kernels['upper_grad']" in report.checks[0].detail
    assert "other checks were left out" in report.checks[0].detail


def test_the_check_reports_a_kernel_that_does_not_compile_once():
    def upper_value(data, lo, hi, scale, x, y, out):
        out[0] += undefined_name  # noqa: F821

    report = nbo.check_problem(compiled_logistic(*DATA, kernels=KERNELS | {"upper_value": upper_value}), *POINT)
    assert str(report).count("undefined_name") <= 2
    assert not report


def test_the_check_finds_kernels_that_give_nan():
    """Where an oracle of the class's own hides them from all other checks."""

    def lower_jvp(data, lo, hi, scale, x, y, u, out):
        out[0] += np.nan

    class Own(nbo.CompiledProblem):
        faster_oracles = ("lower_jvp",)

        def lower_jvp(self, x, y, u, batch=None):
            return np.exp(x) * (y @ u)

    kernels = KERNELS | {"lower_jvp": lower_jvp}
    report = nbo.check_problem(Own(lower=DATA[:2], upper=DATA[2:], kernels=kernels, dim_x=1, dim_y=4), *POINT)
    failed = {c.name: c.detail for c in report.checks if not c.passed}
    assert set(failed) == {"kernels add to their outputs", "kernels are the oracles"}
    assert all("lower_jvp" in detail for detail in failed.values())


def returns_a_number(data, lo, hi, scale, x, y, out):
    out[0] += 1.0
    return out[0]


def generates(data, lo, hi, scale, x, y, out):
    yield 1


async def waits(data, lo, hi, scale, x, y, out):
    out[0] += 1.0


def has_a_keyword(data, lo, hi, scale, x, y, *, out):
    out[0] += 1.0


def has_another_order(data, lo, hi, scale, y, x, out):
    out[0] += 1.0


@numba.njit(parallel=True)
def is_parallel(data, lo, hi, scale, x, y, out):
    out[0] += 1.0


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (generates, "found a generator"),
        (waits, "found a coroutine"),
        (has_a_keyword, r"found parameters \(data, lo, hi, scale, x, y, \*, out\)"),
        (has_another_order, r"found parameters in the order \(data, lo, hi, scale, y, x, out\)"),
        (is_parallel, "found the option parallel=True"),
    ],
)
def test_kernels_of_another_form_are_refused(kernel, message):
    with pytest.raises(TypeError, match=rf"kernels\['upper_value'\]: {message}"):
        compiled_logistic(*DATA, kernels=KERNELS | {"upper_value": kernel})


def test_a_kernel_that_returns_something_is_refused():
    problem = compiled_logistic(*DATA, kernels=KERNELS | {"upper_value": returns_a_number})
    with pytest.raises(TypeError, match=r"kernels\['upper_value'\]: returns float64; expected nothing"):
        problem.upper_value(*POINT)


def test_kernels_cannot_be_exchanged(problem):
    with pytest.raises(TypeError, match="item assignment"):
        problem.kernels["upper_value"] = generates


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p, x, y, u: p.upper_value(y, y), r"x: found shape \(4,\); expected \(1,\)"),
        (lambda p, x, y, u: p.lower_grad_y(x, y[:3]), r"y: found shape \(3,\); expected \(4,\)"),
        (lambda p, x, y, u: p.lower_hvp(x, y, u[:2]), r"v: found shape \(2,\); expected \(4,\)"),
        (lambda p, x, y, u: p.lower_jvp(x, y, x), r"u: found shape \(1,\); expected \(4,\)"),
    ],
)
def test_points_of_another_length_are_refused(problem, call, message):
    with pytest.raises(ValueError, match=message):
        call(problem, *POINT, U)


def test_lists_are_taken_for_points(problem):
    x, y = POINT
    np.testing.assert_array_equal(problem.lower_hvp(list(x), list(y), list(U)), problem.lower_hvp(x, y, U))


def far_apart(data, lo, hi, scale, x, y, out):
    difference = y[0] - y[1] * y[1]
    out[0] += scale * (hi - lo) if np.isfinite(difference) else 7 * scale * (hi - lo)


def test_jitted_kernels_keep_their_arithmetic():
    """Sums are not reordered unless the author of a jitted kernel allows it."""
    huge = np.full(4, 1e200)
    for kernel, expected in ((numba.njit(far_apart), 7.0), (numba.njit(fastmath=False)(far_apart), 7.0)):
        problem = compiled_logistic(*DATA, kernels=KERNELS | {"upper_value": kernel})
        assert problem.upper_value(POINT[0], huge) == pytest.approx(expected)


OPTIONS = {"step_size": 0.1, "inner_step_size": 0.1, "batch_size": 8}


def test_oracles_that_loops_would_not_call_are_refused(problem):
    class Doubled(type(problem)):
        def lower_grad_y(self, x, y, batch=None):
            return 2 * super().lower_grad_y(x, y, batch)

    other = Doubled(lower=DATA[:2], upper=DATA[2:], kernels=KERNELS, dim_x=1, dim_y=4)
    with pytest.raises(ValueError, match="problem: Doubled overrides lower_grad_y, which compiled loops would not"):
        nbo.minimize(other, [0.0], method="soba", max_iter=3, options=OPTIONS)


def test_numbers_of_samples_are_those_of_the_data():
    problem = compiled_logistic(*DATA)
    problem.n_samples_lower = 50
    with pytest.raises(ValueError, match="n_samples_lower: found 50; expected 70"):
        nbo.minimize(problem, [0.0], method="soba", max_iter=3, options=OPTIONS)


def test_problems_that_compare_by_value_run():
    class Comparable(nbo.CompiledProblem):
        def __eq__(self, other):
            return self.fingerprint() == other.fingerprint()

    problem = Comparable(lower=DATA[:2], upper=DATA[2:], kernels=KERNELS, dim_x=1, dim_y=4)
    assert np.isfinite(problem.upper_value(*POINT))


@pytest.mark.parametrize(
    ("common", "message"),
    [
        ((np.ma.masked_array([1.0, 2.0], [0, 1]),), r"common\[0\]: found .*mask"),
        ((1.0, 1 << 70), r"common\[1\]: found an integer of 71 bits"),
        (("a",), r"common\[0\]: found str"),
    ],
)
def test_common_parts_are_checked(common, message):
    with pytest.raises((TypeError, ValueError), match=message):
        compiled_logistic(*DATA, common=common)


def test_scalars_of_numpy_are_common_numbers():
    found = compiled_logistic(*DATA, common=(np.float32(0.5), np.int8(3), np.True_)).data.common
    assert [type(value) for value in found] == [float, int, bool]


@pytest.mark.parametrize("kernel", [overwrites, forgets_the_first_row, ignores_the_scale])
def test_the_check_finds_kernels_that_break_the_contract(kernel):
    report = nbo.check_problem(compiled_logistic(*DATA, kernels=KERNELS | {"upper_grad": kernel}), *POINT)
    failed = {c.name: c.detail for c in report.checks if not c.passed}
    assert set(failed) & {"kernels add to their outputs", "means over batches"}
    assert all("upper_grad" in detail for detail in failed.values())


def test_calls_of_kernels_neither_keep_nor_free_data(problem):
    def call():
        problem.lower_grad_y(*POINT)
        problem.upper_grad(*POINT)
        problem.lower_hvp(*POINT, U, batch=slice(3, 9))

    call()
    arrays = [array for level in problem.data[:2] for array in level]
    before = [sys.getrefcount(array) for array in arrays]
    for _ in range(20):
        call()
    assert [sys.getrefcount(array) for array in arrays] == before
