"""Tables for any task: how labels are understood, and what is refused."""

import numpy as np
import pytest

from nbo.datasets import TASK_SETS, DataError, TargetError, read_binary, read_labelled, read_table


def saved(folder, labels):
    labels = np.asarray(labels)
    np.savez(folder / "t.npz", X=np.random.default_rng(0).normal(size=(labels.size, 2)), y=labels)
    return folder / "t.npz"


@pytest.mark.parametrize("name", TASK_SETS)
def test_built_in_sets(name):
    table = read_table(name)
    assert table.task == TASK_SETS[name] and table.name == name and table.taken == ""
    assert len(table.b) == table.A.shape[0] and len(table.feature_names) == table.A.shape[1]
    assert (table.label_names == ()) == (table.task == "regression")
    if table.label_names:
        assert set(table.b) == set(range(len(table.label_names)))


def test_other_readers_agree():
    binary, table = read_binary("breast_cancer"), read_table("breast_cancer")
    np.testing.assert_array_equal(table.b, binary.b > 0)
    assert table.label_names == binary.label_names == ("malignant", "benign")
    labelled, table = read_labelled("wine"), read_table("wine")
    np.testing.assert_array_equal(np.array(table.label_names)[table.b], labelled.labels)
    np.testing.assert_array_equal(table.A, labelled.A)


@pytest.mark.parametrize(
    ("labels", "task", "words"),
    [
        (np.resize([0, 1, 2], 40), "multiclass", "say --task regression"),
        (np.resize([0.5, 2.5], 10), "binary", "say --task regression"),
        (np.resize([0.5, 1, 2], 40), "regression", "say --task multiclass"),
        (np.resize([0, 1, 2, 3], 40), "regression", "the labels take 4 different values, and were taken as quantities"),
        (np.resize(range(21), 500), "regression", "say --task multiclass"),
        (np.resize(range(20), 500), "multiclass", "taken as classes (multiclass)"),
        (np.resize(["1a", "b", "c"], 6), "multiclass", "are no numbers, and were taken as classes (multiclass)"),
        (np.resize(["no", "yes"], 6), "binary", "are no numbers, and were taken as classes (binary)"),
        (np.linspace(0, 1, 1001), "regression", "quantities to predict (regression)"),
    ],
)
def test_labels_are_understood_and_that_is_told(tmp_path, labels, task, words):
    table = read_table(saved(tmp_path, labels))
    assert table.task == task and words in table.taken
    assert ("--task multiclass" in table.taken) == (task == "regression" and np.unique(labels).size <= 1000)


def test_the_task_can_be_said(tmp_path):
    labels = np.resize([3.0, 5.0, 9.0], 40)
    path = saved(tmp_path, labels)
    numbers, classes = read_table(path, task="regression"), read_table(path, task="multiclass")
    np.testing.assert_array_equal(numbers.b, labels)
    assert numbers.label_names == () and classes.label_names == ("3", "5", "9")
    np.testing.assert_array_equal(classes.b, np.resize([0, 1, 2], 40))
    assert numbers.taken == classes.taken == ""


@pytest.mark.parametrize(
    ("labels", "task", "words"),
    [
        (np.resize([0, 1, 2], 40), "binary", r"labels take 3 values \(0, 1, 2\); expected exactly two"),
        (np.resize([0, 1], 40), "multiclass", r"labels take 2 values \(0, 1\); expected from 3 to 1000 classes"),
        (np.ones(5), "auto", "labels take one value, 1; expected at least two"),
        (np.ones(5), "regression", "labels take one value, 1; expected at least two"),
        (np.resize(["a", "b"], 6), "regression", "expected numbers for a regression"),
        (np.linspace(0, 1, 1001), "multiclass", "expected from 3 to 1000 classes"),
        (
            np.resize([1, 1e200], 6),
            "regression",
            r"the largest magnitude of the labels is 1e\+200; expected one between",
        ),
        (
            np.resize([0, 1e-200], 6),
            "regression",
            "the largest magnitude of the labels is 1e-200; expected one between",
        ),
        (np.resize(np.array([1, np.finfo(np.longdouble).max]), 6), "regression", "magnitude of the labels is inf"),
    ],
)
def test_labels_that_do_not_suit_the_task(tmp_path, labels, task, words):
    with pytest.raises(DataError, match=words):
        read_table(saved(tmp_path, labels), task=task)


def test_what_is_refused_of_built_in_sets():
    with pytest.raises(DataError, match="task: found 'regression' for the built-in set 'wine'; expected 'multiclass'"):
        read_table("wine", task="regression")
    with pytest.raises(TargetError, match="brings its own labels"):
        read_table("diabetes", "x")
    with pytest.raises(TargetError, match="brings its own labels"):
        read_table("breast_cancer", "x")
    with pytest.raises(FileNotFoundError, match=r"did you mean 'diabetes'\? \(built in: breast_cancer, .*diabetes\)"):
        read_table("diabets")
    with pytest.raises(ValueError, match="task: found 'clustering'; expected one of 'auto', 'binary'"):
        read_table("wine", task="clustering")
