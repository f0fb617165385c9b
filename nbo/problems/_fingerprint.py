"""A hash of a problem's data and settings."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np


def fingerprint(kind: type, *parts: Any) -> str:
    """Return a SHA-256 of a class name, arrays and settings.

    Parameters
    ----------
    kind : type
        The problem's class.
    *parts : object
        Arrays (hashed with type and shape), CSR matrices, and values with a faithful `repr`.

    Returns
    -------
    str
        Class name and hash.
    """
    digest = hashlib.sha256()
    for part in parts:
        arrays = (part.data, part.indices, part.indptr) if hasattr(part, "indptr") else (part,)
        digest.update(f"|{type(part).__name__}{getattr(part, 'shape', '')}".encode())
        for array in arrays:
            if isinstance(array, np.ndarray):
                digest.update(f"{array.dtype.str}{array.shape}".encode())
                digest.update(np.ascontiguousarray(array).data)
            else:
                digest.update(repr(array).encode())
    return f"{kind.__module__}.{kind.__qualname__}:{digest.hexdigest()}"
