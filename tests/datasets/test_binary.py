"""Tables with two labels: what the readers accept, what they refuse and with which words, and how labels are mapped."""

from __future__ import annotations

import bz2
import gzip

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_breast_cancer

from nbo.datasets import BUILT_IN, NPZ_KEYS, DataError, TargetError, read_binary, shown

SVMLIGHT = "1 1:0.5 3:2\n2 2:1 # a comment\n1 1:-1 2:4 3:1\n"
CSV = 'name,"size, cm",weight\nyes,1.5,10\nno,2.5,20\nyes,-3,30\n'


@pytest.fixture
def file(tmp_path):
    """A function that writes a file and returns its path."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def refusal(*arguments, kind=DataError):
    """The message of the error that loading raises: one line."""
    with pytest.raises(kind) as caught:
        read_binary(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- built-in sets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "shape"), [("breast_cancer", (569, 30)), ("digits-3-8", (357, 64))])
def test_built_in_set(name, shape):
    dataset = read_binary(name)
    assert dataset.name == name
    assert dataset.A.shape == shape
    assert dataset.A.dtype == np.float64
    assert set(dataset.b) == {-1.0, 1.0}
    assert len(dataset.feature_names) == shape[1]
    assert dataset.description


def test_breast_cancer_keeps_the_meaning_of_its_labels():
    dataset, bunch = read_binary("breast_cancer"), load_breast_cancer()
    assert dataset.label_names == ("malignant", "benign")
    np.testing.assert_array_equal(dataset.b == 1, bunch.target == 1)
    np.testing.assert_array_equal(dataset.A, bunch.data)


def test_digits_are_threes_and_eights():
    dataset = read_binary("digits-3-8")
    assert dataset.label_names == ("3", "8")
    assert int(np.sum(dataset.b == -1)) == 183


def test_unknown_name_suggests_the_nearest():
    message = refusal("brest_cancer", kind=FileNotFoundError)
    assert "did you mean 'breast_cancer'?" in message
    assert all(name in message for name in BUILT_IN)


def test_missing_file(tmp_path):
    assert str(tmp_path / "none.csv") in refusal(tmp_path / "none.csv", kind=FileNotFoundError)


# --- svmlight -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "pack"),
    [("tiny.svm", bytes), ("tiny.bz2", bz2.compress), ("tiny.t.gz", gzip.compress), ("tiny", bytes)],
)
def test_svmlight(file, name, pack):
    dataset = read_binary(file(name, pack(SVMLIGHT.encode())))
    np.testing.assert_array_equal(dataset.A, [[0.5, 0, 2], [0, 1, 0], [-1, 4, 1]])
    np.testing.assert_array_equal(dataset.b, [-1, 1, -1])
    assert dataset.label_names == ("1", "2")
    assert dataset.feature_names == ("f1", "f2", "f3")
    assert dataset.name in {"tiny", "tiny.t"}


def test_svmlight_counts_from_zero_if_the_file_does(file):
    dataset = read_binary(file("zero.svm", "0 0:1 1:2\n1 0:3\n"))
    assert dataset.feature_names == ("f0", "f1")
    np.testing.assert_array_equal(dataset.A, [[1, 2], [3, 0]])


def test_svmlight_that_is_sparse_stays_sparse(file):
    lines = [f"{j % 2} {j}:{j + 0.5}" for j in range(1, 21)]
    dataset = read_binary(file("sparse.svm", "\n".join(lines)))
    assert sp.issparse(dataset.A)
    assert dataset.A.format == "csr"
    assert dataset.columns is None
    np.testing.assert_array_equal(dataset.A.toarray(), np.diag(np.arange(1.5, 21)))


@pytest.mark.parametrize(
    ("content", "columns", "names"),
    [
        ("-1 3:1 7:2\n+1 2000000000:3\n", [2, 6, 1999999999], ("f3", "f7", "f2000000000")),
        ("-1 0:1 7:2\n+1 20000000:3\n", [0, 7, 20000000], ("f0", "f7", "f20000000")),
    ],
)
def test_svmlight_columns_without_values_are_left_out(file, content, columns, names):
    dataset = read_binary(file("wide.svm", content))
    np.testing.assert_array_equal(dataset.A, [[1, 2, 0], [0, 0, 3]])
    np.testing.assert_array_equal(dataset.columns, columns)
    assert dataset.feature_names == names


@pytest.mark.parametrize("index", [2**31, 10**12, 2**63])
def test_svmlight_index_beyond_the_reader(file, index):
    assert "expected indices below 2,147,483,647" in refusal(file("far.svm", f"1 1:1\n2 {index}:1\n"))


@pytest.mark.parametrize(
    "content", ["1 1:a\n2 1:1\n", "1 3:1 2:1\n2 1:1\n", "1 1\n2 1:1\n", "1,2 1:1\n2 1:1\n", "1 -4:1\n2 1:1\n"]
)
def test_malformed_svmlight(file, content):
    path = file("bad.svm", content)
    assert f"{path} is no well-formed svmlight file" in refusal(path)


def test_svmlight_with_missing_values(file):
    path = file("nan.svm", "1 1:1 2:1\n2 1:nan\n")
    assert "column 'f1' holds nan in row 2" in refusal(path)


def test_svmlight_without_entries(file):
    assert "2 rows and 0 feature columns" in refusal(file("bare.svm", "1\n2\n"))


@given(seed=st.integers(0, 10_000), n=st.integers(2, 12), p=st.integers(1, 6))
def test_svmlight_round_trip(tmp_path_factory, seed, n, p):
    rng = np.random.default_rng(seed)
    A, labels = rng.normal(size=(n, p)), np.resize([3, -7], n)
    path = tmp_path_factory.mktemp("svmlight") / "round.svm"
    dump_svmlight_file(A, labels, str(path), zero_based=False)
    dataset = read_binary(path)
    np.testing.assert_allclose(dataset.A, A, rtol=1e-12)
    np.testing.assert_array_equal(dataset.b, np.where(labels == 3, 1, -1))


# --- CSV ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", CSV.encode()),
        ("bom.csv", b"\xef\xbb\xbf" + CSV.encode()),
        ("crlf.csv", CSV.replace("\n", "\r\n").encode()),
        ("blank.csv", CSV.replace("\nno", "\n\nno").encode()),
        ("t.csv.gz", gzip.compress(CSV.encode(), mtime=0)),
        ("unnamed", CSV.encode()),
    ],
)
def test_csv(file, name, content):
    dataset = read_binary(file(name, content), "name")
    np.testing.assert_array_equal(dataset.A, [[1.5, 10], [2.5, 20], [-3, 30]])
    np.testing.assert_array_equal(dataset.b, [1, -1, 1])
    assert dataset.label_names == ("no", "yes")
    assert dataset.feature_names == ("size, cm", "weight")


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_csv_with_another_delimiter(file, delimiter):
    dataset = read_binary(
        file("t.csv", delimiter.join("ab") + "\n" + delimiter.join("12") + "\n" + "3" + delimiter + "4\n"),
        "b",
    )
    np.testing.assert_array_equal(dataset.A, [[1], [3]])
    assert dataset.label_names == ("2", "4")


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ("size, cm;weight;name", ("size, cm", "weight")),
        ('"size, cm";weight;name', ("size, cm", "weight")),
        ('"a;b;c",weight,name', ("a;b;c", "weight")),
        ("a;b,weight,name", ("a;b", "weight")),
        ("size, cm\tweight; kg\tname", ("size, cm", "weight; kg")),
        ('"size,\nin cm";weight;name', ("size,\nin cm", "weight")),
    ],
)
def test_csv_separator_is_the_one_that_splits_the_header_most(file, header, names):
    separator = ";" if header.endswith(";name") else header[-5]
    rows = "".join(separator.join(cells) + "\n" for cells in ("12x", "34y"))
    dataset = read_binary(file("t.csv", f"{header}\n{rows}"), "name")
    assert dataset.feature_names == names
    np.testing.assert_array_equal(dataset.A, [[1, 2], [3, 4]])


def test_csv_labels_that_are_numbers_are_ordered_as_numbers(file):
    dataset = read_binary(file("t.csv", "a,b\n1,9\n2,10\n3,9.0\n"), "b")
    assert dataset.label_names == ("9", "10")
    np.testing.assert_array_equal(dataset.b, [-1, 1, -1])


def test_csv_one_hot_columns_become_sparse(file):
    header = ",".join(f"c{j}" for j in range(10))
    rows = [",".join("1" if j == i else "0" for j in range(10)) for i in range(4)]
    dataset = read_binary(
        file("t.csv", f"{header},label\n" + "".join(f"{row},{i % 2}\n" for i, row in enumerate(rows))),
        "label",
    )
    assert sp.issparse(dataset.A)
    np.testing.assert_array_equal(dataset.A.toarray(), np.eye(10)[:4])


@pytest.mark.parametrize(
    ("content", "target", "words"),
    [
        (CSV, None, "say which column holds its labels, out of name, size, cm, weight"),
        (CSV, "nme", "no column 'nme', did you mean 'name'?"),
        (CSV, "colour", "no column 'colour'; its columns are"),
        ("a,b\n1,x\n2,y\noops,x\n", "b", "column 'a' holds 'oops', which is no number in row 3 (line 4)"),
        ("a,b\n1,x\n\n,y\n", "b", "column 'a' holds an empty cell (a missing value) in row 2 (line 4)"),
        ("a,b\n1,x\n2,\n", "b", "column 'b' holds an empty cell (a missing value) in row 2 (line 3)"),
        ("a,b\n1,x\nnan,y\n", "b", "column 'a' holds nan in row 2"),
        ("a,b\n1,0\n2,nan\n", "b", "the label of row 2 is nan"),
        ("a,b\n1,x\n2\n", "b", "row 2 (line 3) has 1 cells; the header has 2"),
        ("a,a\n1,x\n", "a", "more than one column called 'a'"),
        (",a,b\n0,1,x\n1,2,y\n", "b", "column 1 of 3 has no name in the header; expected a name for every column"),
        ("a,b,\n1,x,\n2,y,\n", "b", "column 3 of 3 has no name in the header"),
        (",,b\n0,1,x\n1,2,y\n", "b", "column 1 of 3 has no name"),
        ("Unnamed: 0,b\n0,x\n1,y\n", "b", "column 1 of 2 is called 'Unnamed: 0', as pandas calls one without a name"),
        ("a;b\n1,5;x\n2,5;y\n", "b", "'1,5', which is no number (decimals need a point) in row 1 (line 2)"),
        ("1,2\n3,4\n", "1", "starts with a row of numbers; expected a header"),
        ("a,b\n", "b", "holds no rows below a header"),
        ("b\n1\n2\n", "b", "0 feature columns"),
        ('a,b\n"1,x\n', "b", "no well-formed CSV file"),
        (b"a,b\n\xff\xfe,x\n", "b", "no well-formed CSV file in UTF-8"),
    ],
)
def test_csv_refusal(file, content, target, words):
    path = file("t.csv", content)
    message = refusal(path, target)
    assert words in message
    assert str(path) in message


# --- NPZ ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", NPZ_KEYS)
def test_npz(tmp_path, keys):
    path = tmp_path / "t.npz"
    np.savez(path, **{keys[0]: np.array([[1, 2], [3, 4]], dtype=np.int16), keys[1]: np.array([[True], [False]])})
    dataset = read_binary(path)
    np.testing.assert_array_equal(dataset.A, [[1.0, 2], [3, 4]])
    assert dataset.A.dtype == np.float64
    assert dataset.label_names == ("False", "True")
    np.testing.assert_array_equal(dataset.b, [1, -1])


def test_npz_feature_names(tmp_path):
    np.savez(tmp_path / "t.npz", A=np.eye(2), b=np.array(["u", "v"]), feature_names=np.array(["left", "right"]))
    dataset = read_binary(tmp_path / "t.npz")
    assert dataset.feature_names == ("left", "right")
    assert dataset.label_names == ("u", "v")


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": np.eye(2)}, "holds the keys X; expected one of the pairs 'A' and 'b'"),
        ({"A": np.ones((2, 2, 2)), "b": np.arange(2)}, "'A' has shape (2, 2, 2); expected two dimensions"),
        ({"A": np.array([["p"], ["q"]]), "b": np.arange(2)}, "expected real numbers"),
        ({"A": np.eye(2), "b": np.arange(3)}, "2 rows but labels of shape (3,)"),
        ({"A": np.eye(2), "b": np.ones(2, dtype=complex)}, "labels have type complex128"),
        ({"A": np.eye(2), "b": np.array([{}, {}])}, "no NPZ archive of plain arrays"),
        ({"A": np.array([[1, 2], [np.inf, 0]]), "b": np.arange(2)}, "column 'f0' holds inf in row 2"),
    ],
)
def test_npz_refusal(tmp_path, arrays, words):
    np.savez(tmp_path / "t.npz", **arrays)
    assert words in refusal(tmp_path / "t.npz")


def test_npz_of_a_sparse_matrix_has_no_labels(tmp_path):
    sp.save_npz(tmp_path / "t.npz", sp.csr_matrix(np.eye(3)))
    assert "a sparse matrix alone has no labels" in refusal(tmp_path / "t.npz")


def test_damaged_npz(file, tmp_path):
    np.savez(tmp_path / "whole.npz", A=np.eye(20), b=np.arange(20) % 2)
    whole = (tmp_path / "whole.npz").read_bytes()
    assert "no NPZ archive" in refusal(file("cut.npz", whole[: len(whole) // 2]))


def test_npy_is_no_archive(tmp_path, file):
    np.save(tmp_path / "one.npy", np.eye(2))
    assert "a single array" in refusal(file("one.npz", (tmp_path / "one.npy").read_bytes()))


# --- any file -----------------------------------------------------------------------------------------------


@pytest.mark.skipif(np.finfo(np.longdouble).max == np.finfo(float).max, reason="no type wider than float64")
@pytest.mark.parametrize("n_zeros", [0, 20])
def test_numbers_beyond_float64_are_refused(tmp_path, n_zeros):
    A = np.zeros((2, 2 + n_zeros), dtype=np.longdouble)
    A[1, 1] = np.longdouble("1e4000")
    A[0, 0] = 1
    np.savez(tmp_path / "t.npz", A=A, b=np.arange(2))
    message = refusal(tmp_path / "t.npz")
    assert "column 'f1' holds 1e+4000 in row 2; expected numbers up to 1.8e+308" in message


def test_labels_of_any_size_have_names(tmp_path):
    np.savez(tmp_path / "t.npz", A=np.eye(2), b=np.array([1e300, 3.0]))
    assert read_binary(tmp_path / "t.npz").label_names == ("3", "1e+300")


def test_lack_of_memory_is_not_called_a_bad_file(tmp_path, monkeypatch):
    def fail(*arguments, **options):
        raise MemoryError

    (tmp_path / "t.npz").write_bytes(b"PK")
    monkeypatch.setattr(np, "load", fail)
    with pytest.raises(MemoryError):
        read_binary(tmp_path / "t.npz")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain, ü, 花", "plain, ü, 花"),
        ("a\nb\x1b[31m\x00", r"a\nb\x1b[31m\x00"),
        ("\udcff\u2028", r"\udcff\u2028"),
        ("ab" * 500, "ab" * 9 + "a" + "..." + "b" + "ab" * 9),
    ],
)
def test_text_in_messages_is_one_short_line(text, line):
    assert shown(text, 41) == line


def test_messages_quote_little_of_a_bad_file(file):
    message = refusal(file("raw.svm", b"1 1:\xff\x1b[31m\x00" + b"z" * 100_000 + b"\n2 1:1\n"))
    assert message.isprintable() and len(message) < 500
    message = refusal(file("t.csv", "a\x07" + "n" * 100_000 + ",b\nx\x1b,1\n"), "b")
    assert message.isprintable() and len(message) < 500
    message = refusal(file("t.csv", "a\x07" + "n" * 100_000 + ",b\nx\x1b,1\n"), kind=TargetError)
    assert message.isprintable() and len(message) < 500


def test_folder_is_refused(tmp_path):
    assert "is a folder" in refusal(tmp_path)


@pytest.mark.parametrize("name", ["t.csv", "t.svm", "t.npz", "t"])
def test_empty_file_is_refused(file, name):
    assert "is empty" in refusal(file(name, ""))


@pytest.mark.parametrize("content", ["some words without structure\n", b"\x00\x01\x02\x03", "\n\n"])
def test_unknown_format_is_refused(file, content):
    assert "neither svmlight" in refusal(file("thing.dat", content))


@pytest.mark.parametrize("name", ["t.bz2", "t.svm.gz", "t.csv.gz"])
def test_file_that_is_not_compressed_as_its_name_says(file, name):
    assert "cannot be read" in refusal(file(name, SVMLIGHT))


def test_truncated_compression(file):
    packed = gzip.compress(SVMLIGHT.encode() * 50)
    assert "cannot be read" in refusal(file("t.svm.gz", packed[: len(packed) // 2]))


@pytest.mark.parametrize(
    ("content", "words"),
    [("1 1:1\n1 1:2\n", "labels take 1 value (1)"), ("1 1:1\n2 1:2\n3 1:1\n", "3 values (1, 2, 3)")],
)
def test_other_than_two_labels(file, content, words):
    assert words in refusal(file("t.svm", content))


def test_trouble_with_the_label_column_names_the_argument(file):
    path = file("t.csv", CSV)
    for arguments in ((path,), (path, "colour"), ("breast_cancer", "label")):
        with pytest.raises(TargetError, match=r"^target: ") as caught:
            read_binary(*arguments)
        assert str(caught.value) == f"target: {caught.value.reason}"


def test_data_print_in_one_line():
    assert (
        repr(read_binary("digits-3-8")) == "<BinaryTable digits-3-8: 357 rows, 64 features, labels 3 (-1) and 8 (+1)>"
    )


def test_target_is_for_csv_only(file):
    assert "in CSV files only" in refusal(file("t.svm", SVMLIGHT), "label")
    assert "in CSV files only" in refusal("breast_cancer", "label")


def test_larger_number_is_positive_and_keeps_its_digits(file):
    dataset = read_binary(file("t.svm", "1234568 1:1\n1234567.5 1:2\n"))
    assert dataset.label_names == ("1234567.5", "1234568")
    np.testing.assert_array_equal(dataset.b, [1, -1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shape", "sparse"),
    [
        ("libsvm/mushrooms.bz2", (8124, 112), True),
        ("libsvm/a9a.bz2", (32561, 123), True),
        ("libsvm/phishing.bz2", (11055, 68), False),
        ("ijcnn1/ijcnn1.bz2", (49990, 22), False),
    ],
)
def test_published_set(data_mirror, name, shape, sparse):
    dataset = read_binary(data_mirror / name)
    assert dataset.A.shape == shape
    assert sp.issparse(dataset.A) == sparse
