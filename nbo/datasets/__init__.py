"""Data sets: well-known ones by name, random ones, and tables of the user for ``nbo tune``.

:func:`load` gives a set in training, validation and test parts; :func:`names` lists the sets.
:func:`make_synthetic_logistic` makes random data. :func:`read_binary` reads a file with two labels,
:func:`read_labelled` one with any number of them, and :func:`read_table` one with labels or with numbers to predict.
"""

from nbo.datasets._formats import NPZ_KEYS, Samples
from nbo.datasets._store import data_home
from nbo.datasets.binary import BUILT_IN, BinaryTable, read_binary
from nbo.datasets.dataset import Dataset
from nbo.datasets.errors import DataError, TargetError, shown
from nbo.datasets.loading import load, names
from nbo.datasets.synthetic import make_synthetic_logistic
from nbo.datasets.tables import LabelledTable, read_labelled
from nbo.datasets.tasks import TASK_SETS, TASKS, TaskTable, read_table

__all__ = [
    "BUILT_IN",
    "NPZ_KEYS",
    "TASKS",
    "TASK_SETS",
    "BinaryTable",
    "DataError",
    "Dataset",
    "LabelledTable",
    "Samples",
    "TargetError",
    "TaskTable",
    "data_home",
    "load",
    "make_synthetic_logistic",
    "names",
    "read_binary",
    "read_labelled",
    "read_table",
    "shown",
]
