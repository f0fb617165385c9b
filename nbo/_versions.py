"""Versions and the machine, for the record of what was run on what."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Sequence
from pathlib import Path


def package_versions(packages: Sequence[str]) -> dict[str, str | None]:
    """Return the versions of Python and of packages, None for those that are not installed."""
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return versions


def machine() -> dict[str, str]:
    """Return what is known of the machine."""
    return {"platform": platform.platform(), "processor": _processor(), "cores": str(os.cpu_count())}


def _processor() -> str:
    """Return the name of the processor; what Python knows is often only its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
