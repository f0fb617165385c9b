"""Compiled passes over the data; the only part of the package that imports numba."""
