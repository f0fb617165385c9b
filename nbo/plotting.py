"""Pictures of runs and of tuned penalties; needs matplotlib (``pip install "nbo[plot]"``)."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nbo.datasets import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nbo.theory.complexity import ComplexityStudy

__all__ = ["convergence", "costs", "off_screen_figure", "penalties", "precision_recall", "weights"]

#: Most rows of :func:`penalties` that stay readable.
MAX_ROWS = 30

#: Log penalties closer than this are drawn as equal ones.
_EQUAL = 1e-6

#: The distance (a factor of 10) from which a penalty frees or suppresses a feature beside the others.
_FAR = float(np.log(10.0))

_LABELS = {
    "value": "upper-level value",
    "hypergrad_norm": "projected hypergradient norm",
    "lower_grad_norm": "lower-level gradient norm",
    "adjoint_residual": "adjoint residual norm",
    "iteration": "iteration",
    "seconds": "solver time in seconds",
}


def convergence(
    history: Mapping[str, Any],
    ax: Axes | None = None,
    *,
    quantity: str = "hypergrad_norm",
    against: str = "iteration",
    label: str | None = None,
) -> Axes:
    """Draw one quantity of a history as a line.

    Parameters
    ----------
    history : mapping of str to array_like
        Arrays of equal length, such as ``result.history``, or a result that has them.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if omitted.
    quantity : str
        The key to draw. Norms and residuals get a logarithmic axis unless they are zero throughout. A zero,
        such as d_x has at y0 = u0 = 0 where grad_1 f vanishes, is a gap on that axis.
    against : str
        The key of the horizontal axis, such as ``"iteration"``, ``"seconds"`` or an oracle count.
    label : str, optional
        The line's name in a legend.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the line.

    Raises
    ------
    ImportError
        If matplotlib is missing.
    ValueError
        If the history lacks a key or the arrays differ in length.
    """
    history = history.get("history", history)
    across, up = _column(history, against), _column(history, quantity)
    if across.shape != up.shape:
        raise ValueError(
            f"history: {against!r} has shape {across.shape}, {quantity!r} has {up.shape}; expected the same"
        )
    ax = _axes(ax)
    known = np.isfinite(up)  # a quantity may be unknown in some rows; the line joins the others
    across, up = across[known], up[known]
    norms = quantity != "value" and bool(np.any(up > 0))
    if norms or ax.get_yscale() == "log":
        up = np.where(up > 0, up, np.nan)
    marker = "o" if up.size <= MAX_ROWS else None
    ax.plot(across, up, marker=marker, markersize=3.5, linewidth=1.5, label=label)
    if norms:  # unless masked, the zeros of an earlier line on these axes would become a vertical one
        ax.set_yscale("log", nonpositive="mask")
    if against != "seconds":
        ax.xaxis.set_major_locator(_matplotlib("ticker").MaxNLocator(integer=True))
    ax.set_xlabel(_LABELS.get(against, f"{against} calls"))
    ax.set_ylabel(_LABELS.get(quantity, quantity))
    ax.grid(True, alpha=0.3)
    return ax


def costs(study: ComplexityStudy, ax: Axes | None = None) -> Axes:
    """Draw gradients (solid) and Hessian-vector products (dashed) over kappa, both axes logarithmic.

    Parameters
    ----------
    study : nbo.theory.ComplexityStudy
        The costs, and the fitted powers for the legend.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if omitted.

    Returns
    -------
    matplotlib.axes.Axes
        The axes, with a colour a method.

    Raises
    ------
    ImportError
        If matplotlib is missing.
    """
    ax = _axes(ax)
    for i, method in enumerate(study.methods):
        rows = [row for row in study.rows if row.method == method]
        for quantity, style, name in (("gradients", "o-", "gradients"), ("products", "s--", "Hv products")):
            label = f"{method}, {name}: {study.exponents[method][quantity].value:.2f}"
            heights = [getattr(row, quantity) for row in rows]
            # lines of equal costs lie on each other: the first ones are the widest
            width = 1.2 * (len(study.methods) - i)
            ax.plot(
                [row.kappa for row in rows], heights, style, color=f"C{i}", markersize=4, linewidth=width, label=label
            )
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_title(study.family)
    ax.set_xlabel("kappa")
    ax.set_ylabel(f"cost until |grad Phi|^2 <= {study.eps:g}")
    ax.legend(title="fitted power of kappa", fontsize="small")
    ax.grid(True, alpha=0.3)
    return ax


def penalties(
    x: npt.ArrayLike,
    feature_names: Sequence[str],
    center: float | None = None,
    ax: Axes | None = None,
    *,
    center_name: str = "shared penalty",
) -> Axes:
    """Draw log penalties, one row per feature, the smallest on top.

    Parameters
    ----------
    x : array_like, shape (p,)
        Log penalties.
    feature_names : sequence of str
        One name per entry of `x`.
    center : float, optional
        A log penalty to compare with, such as the shared one; the median of `x` if omitted.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if omitted.
    center_name : str
        What the title calls the penalty at `center`.

    Returns
    -------
    matplotlib.axes.Axes
        The axes. The title tells what the dashed line at the center is; of more than 30 features, those
        furthest from it are drawn, and the title says so.

    Raises
    ------
    ImportError
        If matplotlib is missing.
    ValueError
        If `x` is empty, not finite or no vector, or the names do not fit it.
    """
    x = np.asarray(x, dtype=float)
    if x.ndim != 1 or x.size == 0 or not np.isfinite(x).all():
        raise ValueError(
            f"x: found shape {x.shape} with {np.sum(~np.isfinite(x))} entries that are not finite; "
            "expected a vector of finite log penalties"
        )
    if len(feature_names) != x.size:
        raise ValueError(f"feature_names: found {len(feature_names)} names; expected {x.size}, one per entry of x")
    middle = float(np.median(x)) if center is None else float(center)
    chosen = _furthest(x, middle)
    ax = _axes(ax, height=1.6 + 0.22 * len(chosen))
    rows = np.arange(len(chosen))
    ax.set_xlim(*_padded([*x[chosen], middle]))
    colors = np.where(x[chosen] <= middle, "tab:blue", "tab:orange")
    ax.hlines(rows, middle, x[chosen], colors=list(colors), linewidth=1.5)
    ax.scatter(x[chosen], rows, c=colors, s=22, zorder=3)
    ax.axvline(middle, color="0.35", linestyle="--", linewidth=1)
    name = "median penalty" if center is None else center_name
    title = f"dashed: {name} {np.exp(middle):.2g}, its log {middle:.4g}"
    if len(chosen) < x.size:
        title += f"\nthe {len(chosen)} of {x.size:,} penalties furthest from it"
    ax.set_title(title, fontsize="medium")
    ax.set_xlabel(_directions(x - middle))
    _dress_rows(ax, rows, [drawable(feature_names[j]) for j in chosen])
    return ax


def weights(
    weights: npt.ArrayLike, ax: Axes | None = None, *, wrong: npt.ArrayLike | None = None, threshold: float = 0.5
) -> Axes:
    """Draw a histogram of how far labels are trusted.

    Parameters
    ----------
    weights : array_like, shape (n,)
        From 0 to 1, such as ``LabelCleaner.weights_``.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if omitted.
    wrong : array_like of bool, shape (n,), optional
        Which labels are wrong, if that is known: they get a colour of their own, and the title tells precision and
        recall of the labels below the threshold.
    threshold : float
        Where labels become suspect.

    Returns
    -------
    matplotlib.axes.Axes
        The axes; counts are on a logarithmic axis.

    Raises
    ------
    ImportError
        If matplotlib is missing.
    ValueError
        If the weights are no numbers from 0 to 1, or `wrong` does not fit them.
    """
    values, truth = _judged(weights, wrong)
    ax = _axes(ax)
    bins = np.linspace(0, 1, 41).tolist()
    if truth is None:
        ax.hist(values, bins, color="tab:blue")
        ax.set_title(f"{int((values < threshold).sum()):,} of {values.size:,} labels are suspect", fontsize="medium")
    else:
        parts = [values[~truth], values[truth]]
        ax.hist(parts, bins, stacked=True, color=["tab:blue", "tab:orange"], label=["right labels", "wrong labels"])
        suspect = values < threshold
        found = int((suspect & truth).sum())
        precision, recall = (f"{found / n:.3f}" if n else "-" for n in (int(suspect.sum()), int(truth.sum())))
        ax.set_title(f"suspects: precision {precision}, recall {recall}", fontsize="medium")
        ax.legend()
    ax.axvline(threshold, color="0.35", linestyle="--", linewidth=1)
    ax.set(xlabel="trust in a label, from 0 to 1", ylabel="labels", yscale="log", xlim=(0, 1))
    return ax


def precision_recall(weights: npt.ArrayLike, wrong: npt.ArrayLike, ax: Axes | None = None) -> Axes:
    """Draw precision against recall of the least trusted labels, for every threshold.

    Parameters
    ----------
    weights : array_like, shape (n,)
        From 0 to 1.
    wrong : array_like of bool, shape (n,)
        Which labels are wrong; some are.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure if omitted.

    Returns
    -------
    matplotlib.axes.Axes
        The axes. The title has the average precision.

    Raises
    ------
    ImportError
        If matplotlib is missing.
    ValueError
        If the weights are no numbers from 0 to 1, or `wrong` does not fit them or is false throughout.
    """
    from sklearn.metrics import average_precision_score, precision_recall_curve

    values, truth = _judged(weights, wrong)
    if truth is None or not truth.any():
        raise ValueError("wrong: found no wrong label; expected at least one")
    precision, recall, _ = precision_recall_curve(truth, -values)
    ax = _axes(ax)
    ax.step(recall, precision, where="post")
    ax.set_title(f"average precision {average_precision_score(truth, -values):.3f}", fontsize="medium")
    ax.set(xlabel="recall: share of wrong labels found", ylabel="precision: share of suspects that are wrong")
    ax.set(xlim=(0, 1.02), ylim=(0, 1.05))
    return ax


def _judged(weights: npt.ArrayLike, wrong: npt.ArrayLike | None) -> tuple[np.ndarray, np.ndarray | None]:
    values = np.asarray(weights, dtype=float)
    if values.ndim != 1 or not values.size or not ((values >= 0) & (values <= 1)).all():
        raise ValueError(f"weights: found an array of shape {values.shape}; expected a vector of numbers from 0 to 1")
    if wrong is None:
        return values, None
    truth = np.asarray(wrong)
    if truth.dtype != bool or truth.shape != values.shape:
        raise ValueError(
            f"wrong: found shape {truth.shape} and type {truth.dtype}; expected booleans of shape {values.shape}"
        )
    return values, truth


def _furthest(x: np.ndarray, middle: float) -> np.ndarray:
    """Indices of the at most MAX_ROWS entries furthest from the middle, by descending x (bottom to top)."""
    chosen = np.argsort(-np.abs(x - middle), kind="stable")[:MAX_ROWS]
    return chosen[np.argsort(-x[chosen], kind="stable")]


def _padded(values: Sequence[float], least: float = 0.3) -> tuple[float, float]:
    """Limits around all values that are apart even if these are equal."""
    margin = max(0.05 * (max(values) - min(values)), least)
    return min(values) - margin, max(values) + margin


def _directions(offsets: np.ndarray) -> str:
    """Label the axis of log penalties by what the distances from the dashed line amount to."""
    if np.abs(offsets).max() <= _EQUAL:
        return "log penalty   (equal to the dashed one)" if offsets.size == 1 else "log penalty   (all are equal)"
    left, right = "weaker", "stronger"
    if offsets.size > 1 and offsets.min() <= -_FAR:
        left += ", feature kept freely"
    if offsets.size > 1 and offsets.max() >= _FAR:
        right += ", feature suppressed"
    return f"log penalty   (left: {left}; right: {right})"


def _dress_rows(ax: Axes, rows: np.ndarray, names: list[str]) -> None:
    ax.set_yticks(rows, names)
    ax.set_ylim(-0.7, len(rows) - 0.3)
    ax.grid(True, axis="x", alpha=0.3)


def drawable(name: str, most: int = 28) -> str:
    """Return a name as text that matplotlib draws as it stands.

    Parameters
    ----------
    name : str
        The name.
    most : int
        How many characters to keep.

    Returns
    -------
    str
        The start of the name on one line, with escapes for dollar signs, which would start mathematics.
    """
    line = shown(name)
    return (line if len(line) <= most else line[: most - 1] + "…").replace("$", r"\$")


def _column(history: Mapping[str, npt.ArrayLike], key: str) -> np.ndarray:
    if key not in history:
        raise ValueError(f"history: has no {key!r}; it has {', '.join(map(repr, history))}")
    return np.asarray(history[key], dtype=float)


def off_screen_figure(width: float, height: float) -> Figure:
    """Return a figure that needs no display and leaves pyplot's global state alone.

    Parameters
    ----------
    width, height : float
        Size in inches.

    Returns
    -------
    matplotlib.figure.Figure
        An empty figure, for ``savefig``.

    Raises
    ------
    ImportError
        If matplotlib is missing.
    """
    agg = _matplotlib("backends.backend_agg")
    figure = _matplotlib("figure").Figure(figsize=(width, height), layout="constrained")
    agg.FigureCanvasAgg(figure)
    return figure


def _axes(ax: Axes | None, height: float = 4.0) -> Axes:
    if ax is not None:
        return ax
    return _matplotlib("pyplot").subplots(figsize=(6.4, height), layout="constrained")[1]


def _matplotlib(module: str) -> Any:
    try:
        return importlib.import_module(f"matplotlib.{module}")
    except ImportError as error:
        raise ImportError('pictures need matplotlib: pip install "nbo[plot]"') from error
