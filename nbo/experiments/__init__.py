"""The experiments of the NBO paper: figures, tables, and a verdict on each claim.

Each experiment is frozen data (`nbo.experiments.catalogue`), and one runner does them all. On the command line it is
``nbo reproduce``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbo.experiments.catalogue import CLAIMS, EXPERIMENTS, FIGURES
    from nbo.experiments.claims import Claim, Judgement, Verdict
    from nbo.experiments.reproduction import Reproduction, reproduce

#: Name -> the module that has it; they are imported when they are asked for.
_HOMES = {
    "CLAIMS": "catalogue",
    "EXPERIMENTS": "catalogue",
    "FIGURES": "catalogue",
    "Claim": "claims",
    "Judgement": "claims",
    "Reproduction": "reproduction",
    "Verdict": "claims",
    "reproduce": "reproduction",
}

__all__ = ["CLAIMS", "EXPERIMENTS", "FIGURES", "Claim", "Judgement", "Reproduction", "Verdict", "reproduce"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"nbo.experiments.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
