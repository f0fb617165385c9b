"""Tables with labels of any number of kinds."""

import numpy as np
import pytest

from nbo.datasets import DataError, TargetError, read_labelled


def test_built_in_sets():
    wine = read_labelled("wine")
    assert wine.A.shape == (178, 13) and wine.label_names == ("0", "1", "2") and set(wine.labels) == {"0", "1", "2"}
    assert "178 rows, 13 features, 3 labels" in repr(wine)
    with pytest.raises(TargetError, match="brings its own labels"):
        read_labelled("wine", "x")


def test_text_labels_of_a_csv_file(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,kind,b\n1,red,2\n3,blue,4\n5,red,6\n7,green,8\n", encoding="utf-8")
    found = read_labelled(path, "kind")
    assert found.labels.tolist() == ["red", "blue", "red", "green"] and found.label_names == ("blue", "green", "red")
    np.testing.assert_array_equal(found.A, [[1, 2], [3, 4], [5, 6], [7, 8]])
    assert found.feature_names == ("a", "b") and found.name == "t"


def test_numbers_keep_their_order(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.eye(4), y=np.array([10.0, 9.0, 10.0, 2.5]))
    assert read_labelled(tmp_path / "t.npz").label_names == ("2.5", "9", "10")


def test_what_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"did you mean 'wine'\? \(built in: digits, wine\)"):
        read_labelled("wime")
    np.savez(tmp_path / "one.npz", X=np.eye(3), y=np.ones(3))
    with pytest.raises(DataError, match=r"labels take 1 value \(1\); expected from 2 to 1000 classes"):
        read_labelled(tmp_path / "one.npz")
    np.savez(tmp_path / "bad.npz", X=np.array([[1.0], [np.nan]]), y=np.arange(2))
    with pytest.raises(DataError, match="holds nan in row 2"):
        read_labelled(tmp_path / "bad.npz")
