"""Estimators for scikit-learn that tune their penalties by bilevel optimisation."""

from nbo.sklearn._logistic import BilevelLogisticRegression
from nbo.sklearn._report import StageReport, TuningReport
from nbo.sklearn._ridge import BilevelRidge

__all__ = ["BilevelLogisticRegression", "BilevelRidge", "StageReport", "TuningReport"]
