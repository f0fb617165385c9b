"""Every public object has a numpydoc docstring that passes the checks listed in pyproject.toml."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import pkgutil
import pydoc
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from numpydoc.docscrape import ClassDoc
from numpydoc.validate import ERROR_MSGS, validate

import nbo

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def checks():
    """The codes of the checks that apply: "all" in the configuration inverts the rest of the list."""
    named = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["tool"]["numpydoc_validation"]["checks"]
    return set(ERROR_MSGS) - set(named) if "all" in named else set(named)


def public_modules():
    """The package and all its modules with no private part in their names."""
    names = [module.name for module in pkgutil.walk_packages(nbo.__path__, "nbo.")]
    return ["nbo", *(name for name in names if not any(part.startswith("_") for part in name.split(".")))]


def public_members(owner, module):
    """The public classes and functions of ``owner`` that are written in ``module``, by name."""
    for name, member in vars(owner).items():
        target = inspect.unwrap(getattr(member, "__func__", member))
        if isinstance(member, property):
            target = member.fget
        is_code = inspect.isfunction(target) or inspect.isclass(target)
        if is_code and not name.startswith("_") and target.__module__ == module:
            yield name, member


def public_objects():
    """Dotted names of all that needs a docstring: public functions, classes and their own members."""
    exported = (getattr(nbo, name) for name in nbo.__all__)
    found = {f"{thing.__module__}.{thing.__qualname__}" for thing in exported if hasattr(thing, "__qualname__")}
    for module in public_modules():
        for name, member in public_members(import_module(module), module):
            found.add(f"{module}.{name}")
            if inspect.isclass(member):
                found.update(f"{module}.{name}.{method}" for method, _ in public_members(member, module))
    return sorted(found)


def needs_no_parameters(thing):
    """True for a record whose fields are all described as attributes, and for what nobody constructs."""
    if not inspect.isclass(thing):
        return False
    if issubclass(thing, enum.Enum) or getattr(thing, "_is_protocol", False):
        return True
    fields = getattr(thing, "_fields", ())
    if dataclasses.is_dataclass(thing):
        fields = [field.name for field in dataclasses.fields(thing)]
    described = {name for entry in ClassDoc(thing)["Attributes"] for name in entry.name.split(", ")}
    return bool(fields) and set(fields) <= described


def overrides(name):
    """True for a method that a base class documents; its arguments and results are described there."""
    owner, _, method = name.rpartition(".")
    bases = getattr(pydoc.locate(owner), "__mro__", ())[1:]
    return any(getattr(vars(base).get(method), "__doc__", None) for base in bases)


def errors_of(name):
    """What is wrong with a docstring, under the checks that apply."""
    wanted = checks()
    if needs_no_parameters(pydoc.locate(name)):
        wanted -= {"PR01"}
    if overrides(name):
        wanted -= {"PR01", "RT01"}
    return [f"{code} {message}" for code, message in validate(name)["errors"] if code in wanted]


@pytest.mark.parametrize("module", public_modules())
def test_module_has_a_summary(module):
    documentation = import_module(module).__doc__
    assert documentation
    assert documentation.split("\n")[0].endswith(".")


@pytest.mark.parametrize("name", public_objects())
def test_docstring(name):
    errors = errors_of(name)
    assert not errors, f"{name}: " + "; ".join(errors)
