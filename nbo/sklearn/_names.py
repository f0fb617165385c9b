"""What penalties are called in reports and warnings."""

from __future__ import annotations

from collections.abc import Sequence


class PenaltyNames(Sequence[str]):
    """The names of penalties, made when they are asked for.

    Parameters
    ----------
    penalty : str
        ``"shared"``, ``"feature"``, ``"outputs"`` (one a row of coefficients), ``"entry"`` or ``"groups"``.
    size : int
        The number of penalties.
    features : sequence of str or None
        The names of the features; None numbers them.
    n_features : int
        p.
    outputs : sequence
        The classes or the numbers of the targets.
    """

    def __init__(
        self, penalty: str, size: int, features: Sequence[str] | None, n_features: int, outputs: Sequence[object]
    ) -> None:
        self.penalty, self.size, self.features = penalty, size, features
        self.n_features, self.outputs = n_features, outputs

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, k: int) -> str:  # type: ignore[override]
        if self.penalty == "feature":
            return self._feature(k)
        if self.penalty == "outputs":
            return str(self.outputs[k])
        if self.penalty == "entry":
            return f"{self.outputs[k // self.n_features]} / {self._feature(k % self.n_features)}"
        return "all coefficients" if self.penalty == "shared" else f"group {k}"

    def _feature(self, j: int) -> str:
        return f"x{j}" if self.features is None else str(self.features[j])
