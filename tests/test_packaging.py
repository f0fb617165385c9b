"""The installed distribution fits the package: version, command, type marker, change log."""

from __future__ import annotations

import re
from importlib.metadata import distribution, entry_points, version
from importlib.resources import files

import nbo


def test_version_is_the_package_version():
    assert version("nbo") == nbo.__version__


def test_console_script_resolves_to_a_function():
    (script,) = entry_points(group="console_scripts", name="nbo")
    assert script.value == "nbo.__main__:main"
    assert callable(script.load())


def test_change_log_starts_with_this_version(repository):
    log = (repository / "CHANGELOG.rst").read_text(encoding="utf-8")
    headings = re.findall(r"^(\d+\.\d+\.\d+).*\n-+$", log, flags=re.MULTILINE)
    assert headings[0] == nbo.__version__


def test_type_marker_is_shipped():
    assert files("nbo").joinpath("py.typed").is_file()


def test_licence_is_declared_and_shipped():
    package = distribution("nbo")
    assert package.metadata["License-Expression"] == "BSD-3-Clause"
    assert "License-File" in package.metadata


def test_required_libraries_have_lower_bounds():
    requirements = [line for line in distribution("nbo").requires or [] if "extra ==" not in line]
    names = {re.match(r"[\w-]+", line)[0] for line in requirements}
    assert names == {"numpy", "scipy", "numba", "scikit-learn"}
    assert all(">=" in line for line in requirements)
