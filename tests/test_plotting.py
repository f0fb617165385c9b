"""Pictures: what is drawn from given arrays, which entries are chosen, and what is refused."""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.metrics import average_precision_score

import nbo
from nbo import plotting
from nbo.sklearn import BilevelRidge

HISTORY = {
    "iteration": np.arange(5),
    "seconds": np.linspace(0, 1, 5),
    "value": np.array([0.5, np.nan, 0.3, 0.2, 0.25]),
    "hypergrad_norm": np.array([np.nan, 1e-1, 1e-2, 1e-3, 1e-4]),
    "lower_hvp": np.arange(5) * 3,
}


@pytest.fixture
def ax():
    return plotting.off_screen_figure(4, 3).subplots()


def labels(axis):
    return [text.get_text() for text in axis.get_ticklabels()]


def test_convergence_draws_what_is_known(ax):
    assert plotting.convergence(HISTORY, ax, label="run") is ax
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), [1, 2, 3, 4])
    np.testing.assert_array_equal(line.get_ydata(), [1e-1, 1e-2, 1e-3, 1e-4])
    assert line.get_label() == "run"
    assert ax.get_yscale() == "log"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("iteration", "projected hypergradient norm")


def test_convergence_of_a_result_is_that_of_its_history(ax):
    result = nbo.minimize(nbo.problems.Quadratic.family(n=4, m=2, kappa=10), np.zeros(2), max_iter=5)
    lines = [plotting.convergence(given, ax).lines[-1].get_xydata() for given in (result, result.history)]
    np.testing.assert_array_equal(*lines)


def test_what_an_estimator_has_found_is_drawn(ax):
    X, y = load_iris(return_X_y=True)
    model = BilevelRidge(penalty="feature", random_state=0).fit(X, y)
    plotting.penalties(model.log_penalty_, ["a", "b", "c", "d"], ax=ax)
    assert sorted(labels(ax.yaxis)) == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(ax.collections[1].get_offsets()[:, 0], np.sort(model.log_penalty_)[::-1])
    ax = plotting.off_screen_figure(4, 3).subplots()
    for stage, path in model.validation_path_.items():
        plotting.convergence(path, ax, quantity="value", against="seconds", label=stage)
    assert ax.get_legend_handles_labels()[1] == list(model.validation_path_)


def test_convergence_of_the_value_against_a_count(ax):
    plotting.convergence(HISTORY, ax, quantity="value", against="lower_hvp")
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [0, 6, 9, 12])
    assert ax.get_yscale() == "linear"
    assert ax.get_xlabel() == "lower_hvp calls"


def drawn(ax, line):
    """The vertices of a line in pixels that are really drawn."""
    vertices = ax.transData.transform(line.get_xydata())
    return vertices[np.isfinite(vertices).all(axis=1)]


@pytest.mark.parametrize("norms", [[0.0, 0.0, 0.1, 0.01], [0.1, 0.0, 1e-2, 1e-3], [0.1, 0.01, 1e-3, 0.0]])
def test_zeros_are_gaps_on_a_logarithmic_axis(ax, norms):
    plotting.convergence({"iteration": np.arange(4), "hypergrad_norm": norms}, ax)
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_xdata(), np.arange(4))
    np.testing.assert_array_equal(np.isnan(line.get_ydata()), np.equal(norms, 0))
    low, high = ax.get_ylim()
    assert 0.1 * min(filter(None, norms)) < low and high < 10 * max(norms)
    assert len(drawn(ax, line)) == np.count_nonzero(norms)


@pytest.mark.parametrize("zeros_first", [False, True])
def test_a_run_of_zeros_beside_another_draws_no_vertical_line(ax, zeros_first):
    runs = [[1.0, 0.1, 0.01], [0.0, 0.0, 0.0]]
    for norms in runs[::-1] if zeros_first else runs:
        plotting.convergence({"iteration": np.arange(3), "hypergrad_norm": norms}, ax)
    ax.figure.canvas.draw()
    assert ax.get_yscale() == "log"
    assert [len(drawn(ax, line)) for line in ax.lines] == ([0, 3] if zeros_first else [3, 0])


def test_convergence_of_zeros_stays_linear(ax):
    plotting.convergence({"iteration": [0, 1], "hypergrad_norm": [0.0, 0.0]}, ax)
    assert ax.get_yscale() == "linear"


@pytest.mark.parametrize(
    ("history", "words"),
    [
        ({"iteration": [0]}, "has no 'hypergrad_norm'; it has 'iteration'"),
        ({"iteration": [0, 1], "hypergrad_norm": [1.0]}, "expected the same"),
    ],
)
def test_convergence_refuses(ax, history, words):
    with pytest.raises(ValueError, match=words):
        plotting.convergence(history, ax)


def test_without_axes_a_new_figure_is_made():
    before = set(plt.get_fignums())
    ax = plotting.penalties([-1.0, -2.0], ["a", "b"])
    assert set(plt.get_fignums()) - before == {ax.figure.number}
    plt.close(ax.figure)


def test_off_screen_figures_leave_pyplot_alone(ax):
    before = plt.get_fignums()
    plotting.penalties([-1.0], ["a"], ax=ax)
    plotting.convergence(HISTORY, plotting.off_screen_figure(3, 3).subplots())
    assert plt.get_fignums() == before


def test_penalties_are_sorted_with_the_smallest_on_top(ax):
    plotting.penalties([-1.0, -5.0, -3.0], ["mid $", "low", "mean"], -3.0, ax, center_name="common")
    assert labels(ax.yaxis) == [r"mid \$", "mean", "low"]
    np.testing.assert_allclose(ax.collections[1].get_offsets()[:, 0], [-1, -3, -5])
    (line,) = ax.lines
    np.testing.assert_allclose(line.get_xdata(), -3)
    assert ax.get_title() == "dashed: common 0.05, its log -3"
    assert ax.get_legend() is None


def test_penalties_that_are_all_equal_have_an_axis(ax):
    plotting.penalties([-3.0, -3.0], ["a", "b"], -3.0, ax)
    low, high = ax.get_xlim()
    assert low < -3 < high
    ax.figure.canvas.draw()


def test_long_names_are_cut(ax):
    plotting.penalties([0.0], ["n" * 100], ax=ax)
    assert len(labels(ax.yaxis)[0]) == 28


@pytest.mark.parametrize(
    ("name", "drawn"),
    [("$x", r"\$x"), ("a\nb", r"a\nb"), ("\udcff", r"\udcff"), ("花", "花"), ("x" * 30, "x" * 27 + "…")],
)
def test_names_are_drawn_as_they_stand(name, drawn):
    assert plotting.drawable(name) == drawn


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), p=st.integers(plotting.MAX_ROWS + 1, 200))
def test_of_many_penalties_the_furthest_are_shown(seed, p):
    x = np.random.default_rng(seed).normal(size=p)
    ax = plotting.penalties(x, [str(j) for j in range(p)], 0.2, plotting.off_screen_figure(4, 4).subplots())
    shown = np.array([int(name) for name in labels(ax.yaxis)])
    assert len(shown) == plotting.MAX_ROWS
    hidden = np.setdiff1d(np.arange(p), shown)
    assert np.abs(x[shown] - 0.2).min() >= np.abs(x[hidden] - 0.2).max()
    assert ax.get_title().splitlines()[1] == f"the {plotting.MAX_ROWS} of {p} penalties furthest from it"


@pytest.mark.parametrize(
    ("x", "words"),
    [
        ([-3.0, -3.0], "(all are equal)"),
        ([-3.0], "(equal to the dashed one)"),
        ([-9.0], "(left: weaker; right: stronger)"),
        ([-4.0, -2.0], "(left: weaker; right: stronger)"),
        ([-6.0, -2.0], "(left: weaker, feature kept freely; right: stronger)"),
        ([-6.0, 0.0], "(left: weaker, feature kept freely; right: stronger, feature suppressed)"),
    ],
)
def test_axis_of_penalties_says_what_distances_mean(ax, x, words):
    plotting.penalties(x, list("ab")[: len(x)], -3.0, ax)
    assert ax.get_xlabel() == f"log penalty   {words}"


@pytest.mark.parametrize(
    ("x", "names", "words"),
    [
        ([], [], "vector of finite log penalties"),
        ([[1.0]], ["a"], "vector of finite log penalties"),
        ([np.nan], ["a"], "1 entries that are not finite"),
        ([1.0, 2.0], ["a"], "found 1 names; expected 2"),
    ],
)
def test_penalties_refuses(ax, x, names, words):
    with pytest.raises(ValueError, match=words):
        plotting.penalties(x, names, ax=ax)


@pytest.mark.parametrize("draw", [lambda: plotting.convergence(HISTORY), lambda: plotting.off_screen_figure(3, 3)])
def test_without_matplotlib_the_extra_is_named(monkeypatch, draw):
    for module in ("pyplot", "figure", "backends.backend_agg"):
        monkeypatch.setitem(sys.modules, f"matplotlib.{module}", None)
    with pytest.raises(ImportError, match=r'pip install "nbo\[plot\]"'):
        draw()


# --- weights of labels


def judged():
    rng = np.random.default_rng(0)
    wrong = rng.random(200) < 0.3
    return np.clip(np.where(wrong, 0.2, 0.8) + 0.25 * rng.standard_normal(200), 0, 1), wrong


def test_weights_are_counted():
    weights, wrong = judged()
    ax = nbo.plotting.weights(weights, plotting.off_screen_figure(4, 3).subplots())
    assert sum(patch.get_height() for patch in ax.patches) == 200
    assert ax.get_title() == f"{(weights < 0.5).sum()} of 200 labels are suspect"
    ax = nbo.plotting.weights(weights, plotting.off_screen_figure(4, 3).subplots(), wrong=wrong, threshold=0.4)
    suspect = weights < 0.4
    assert ax.get_title() == (f"suspects: precision {wrong[suspect].mean():.3f}, recall {suspect[wrong].mean():.3f}")
    nothing = nbo.plotting.weights([0.9, 0.8], plotting.off_screen_figure(4, 3).subplots(), wrong=[False, False])
    assert nothing.get_title() == "suspects: precision -, recall -"


def test_precision_and_recall():
    weights, wrong = judged()
    ax = nbo.plotting.precision_recall(weights, wrong, plotting.off_screen_figure(4, 3).subplots())
    assert ax.get_title() == f"average precision {average_precision_score(wrong, -weights):.3f}"
    perfect = nbo.plotting.precision_recall([0.1, 0.9], [True, False], plotting.off_screen_figure(4, 3).subplots())
    assert perfect.get_title() == "average precision 1.000"


@pytest.mark.parametrize(
    ("weights", "wrong", "message"),
    [
        ([], None, "weights: found an array of shape"),
        ([0.5, 1.5], None, "expected a vector of numbers from 0 to 1"),
        ([0.5, np.nan], None, "expected a vector of numbers from 0 to 1"),
        ([0.5, 0.6], [True], r"wrong: found shape \(1,\) and type bool; expected booleans of shape \(2,\)"),
        ([0.5, 0.6], [1, 0], "type int64; expected booleans"),
    ],
)
def test_bad_weights(weights, wrong, message):
    with pytest.raises(ValueError, match=message):
        nbo.plotting.weights(weights, wrong=wrong)


def test_a_curve_needs_a_wrong_label():
    with pytest.raises(ValueError, match="wrong: found no wrong label"):
        nbo.plotting.precision_recall([0.5, 0.6], [False, False])
