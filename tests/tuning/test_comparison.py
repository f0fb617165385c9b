"""The verdict."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbo.tuning.comparison import Difference, difference, verdict
from nbo.tuning.models import FittedModel

ROWS = np.random.default_rng(0).exponential(size=400)


def fitted(name, losses, **more):
    empty = np.zeros(1)
    return FittedModel(name, empty, empty, 0.0, empty, 0.0, 0.5, losses, 0.9, 1.0, None, **more)


def model(name, shift, noise=0.0):
    """A model whose test losses differ from ROWS by a shift and by noise."""
    return fitted(name, ROWS + shift + noise * np.random.default_rng(len(name)).normal(size=ROWS.size))


def test_clear_winner():
    said = verdict([model("untuned", 0.3), model("shared", 0.2, 0.01), model("per-feature", 0.1)]).splitlines()
    best = ROWS.mean() + 0.1
    assert said[0] == f"Best on the test rows: per-feature (test loss {best:.4g}, accuracy 90.00%)."
    assert said[1].startswith(f"per-feature beats shared ({best:.4g} against ")
    assert "; difference -0.1, standard error 0.00051)." in said[1]
    assert len(said) == 2


def test_per_feature_that_is_worse_is_said_plainly():
    said = verdict([model("LogisticRegressionCV", 0.05), model("shared", 0.1, 0.01), model("per-feature", 0.3)])
    first, second, third = said.splitlines()
    assert first.startswith("Best on the test rows: LogisticRegressionCV (")
    assert second.startswith("per-feature does not beat shared (")
    assert third.startswith("shared does not beat LogisticRegressionCV (")


def test_difference_below_two_standard_errors_is_not_clear():
    said = verdict([model("LogisticRegressionCV", 0.0), model("shared", 0.0, 0.5), model("untuned", 1.0)])
    assert said.startswith("No clear winner: ")
    assert "no clear lead over " in said
    assert "shared shows no clear difference from LogisticRegressionCV (" in said
    assert "untuned" not in said


@pytest.mark.parametrize(("errors", "words"), [(1.5, "shows no clear difference from"), (2.5, "does not beat")])
def test_two_standard_errors_divide(errors, words):
    noise = np.random.default_rng(1).normal(size=ROWS.size)
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    worse = fitted("shared", ROWS + noise + errors / np.sqrt(ROWS.size))
    said = verdict([fitted("LogisticRegressionCV", ROWS), worse]).splitlines()
    assert said[1].startswith(f"shared {words} LogisticRegressionCV")


@given(seed=st.integers(0, 10_000), size=st.floats(0, 1e-12))
def test_rounding_is_no_difference(seed, size):
    noise = size * np.random.default_rng(seed).normal(size=ROWS.size)
    old, new = fitted("shared", ROWS), fitted("per-feature", ROWS * (1 + noise))
    assert difference(new, old).same
    assert not difference(new, old).clear
    assert verdict([old, new]).splitlines() == [
        f"Best on the test rows: shared and per-feature (test loss {ROWS.mean():#.4g}, accuracy 90.00%).",
        f"per-feature gives the same test loss as shared ({ROWS.mean():#.4g}).",
    ]


def test_losses_of_zero_are_the_same():
    assert difference(fitted("a", np.zeros(3)), fitted("b", np.zeros(3))).same


def wavering(name, shift):
    """A model whose losses are scattered around those of ROWS, with a mean that is larger by the shift."""
    noise = np.random.default_rng(ord(name[0])).normal(size=ROWS.size)
    return fitted(name, ROWS + noise - noise.mean() + shift)


def test_models_with_one_loss_share_the_lead():
    said = verdict([model("untuned", 0.0), model("shared", 0.0), wavering("LogisticRegressionCV", 0.001)])
    assert said.startswith("No clear winner: untuned and shared have the lowest test loss ")
    assert ", but no clear lead over LogisticRegressionCV.\n" in said


@pytest.mark.parametrize(
    ("names", "words"), [("ab", "over b."), ("abc", "over b and c."), ("abcd", "over b, c and d.")]
)
def test_models_too_close_to_tell_are_listed(names, words):
    models = [wavering(name, 0.001 * k) for k, name in enumerate(names)]
    assert verdict(models).startswith("No clear winner: a has the lowest test loss ")
    assert verdict(models).endswith(f"no clear lead {words}")


def test_one_test_row_decides_nothing():
    said = verdict([fitted("LogisticRegressionCV", np.ones(1)), fitted("shared", 2 * np.ones(1))])
    assert said.startswith("No clear winner")
    assert said.endswith("difference +1).")
    assert "inf" not in said and "nan" not in said


def test_interruption_comes_first():
    first, second = verdict([model("untuned", 0.0)], interrupted=True).splitlines()
    assert first.startswith("Interrupted")
    assert second.startswith("Best")


@pytest.mark.parametrize(("rows", "errors"), [(2, 12.7), (3, 4.3), (10, 2.26), (1000, 2.0)])
def test_few_rows_need_more_standard_errors(rows, errors):
    for factor, clear in ((0.98, False), (1.02, True)):
        assert Difference(1.0, 1.5, factor * errors * 0.1, 0.1, rows).clear == clear


def test_losses_that_are_rounding_beside_a_coin_toss_are_the_same():
    old, new = fitted("shared", 1e-12 * ROWS), fitted("per-feature", 5e-11 * ROWS)
    assert difference(new, old).same
    assert not difference(fitted("a", ROWS + 1e-8), fitted("b", ROWS)).same


def test_the_blind_guess_sets_the_scale_of_rounding():
    """Targets of any unit: an error that is rounding beside their variance is none."""
    one, other = (fitted(name, size * ROWS, blind_loss=1e20) for name, size in (("shared", 1.0), ("per-feature", 3.0)))
    assert difference(other, one).same
    assert not difference(fitted("per-feature", 3 * ROWS), fitted("shared", ROWS)).same


def test_a_regression_is_compared_in_its_own_words():
    models = [fitted(name, ROWS + shift, score_name="R2") for name, shift in (("RidgeCV", 0.2), ("shared", 0.1))]
    first, second = verdict(models).splitlines()
    assert first.endswith(f"(test loss {ROWS.mean() + 0.1:.4g}, R2 0.9000).")
    assert second.startswith("shared beats RidgeCV")
