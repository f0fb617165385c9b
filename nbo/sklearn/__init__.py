"""Estimators for scikit-learn that solve bilevel problems: tuned penalties, and training labels to trust."""

from nbo.sklearn._cleaner import LabelCleaner
from nbo.sklearn._cleaning_report import CleaningReport
from nbo.sklearn._logistic import BilevelLogisticRegression
from nbo.sklearn._report import StageReport, TuningReport
from nbo.sklearn._ridge import BilevelRidge

__all__ = [
    "BilevelLogisticRegression",
    "BilevelRidge",
    "CleaningReport",
    "LabelCleaner",
    "StageReport",
    "TuningReport",
]
