"""The experiments of the NBO paper: figures, tables, and a verdict on each claim.

Each experiment is frozen data (`nbo.experiments.catalogue`), and one runner does them all. On the command line it is
``nbo reproduce``.
"""

from __future__ import annotations

from nbo.experiments.catalogue import CLAIMS, EXPERIMENTS, FIGURES
from nbo.experiments.claims import Claim, Judgement, Verdict
from nbo.experiments.reproduction import Reproduction, reproduce

__all__ = ["CLAIMS", "EXPERIMENTS", "FIGURES", "Claim", "Judgement", "Reproduction", "Verdict", "reproduce"]
