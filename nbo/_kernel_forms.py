"""The parameters of the kernels of a compiled problem, and the check of those that a user gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class KernelForm(NamedTuple):
    """What follows (data, lo, hi, scale) among the parameters of a kernel.

    Attributes
    ----------
    directions : tuple of str
        ``"u"``, one direction, or ``"V"``, a block of them.
    outputs : tuple of str
        What each output is shaped like: ``"value"``, ``"x"``, ``"samples"`` (like x, or with an entry for each row
        where x has one for each sample), ``"y"``, ``"V"``, ``"pair"``, two rows like y, or ``"curvatures"``.
    point : tuple of str
        What comes before the directions.
    """

    directions: tuple[str, ...]
    outputs: tuple[str, ...]
    point: tuple[str, ...] = ("x", "y")

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the arrays that are read."""
        return (*self.point, *self.directions)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of all parameters, in order."""
        outputs = ("out",) if len(self.outputs) == 1 else tuple(f"out_{output}" for output in self.outputs)
        return ("data", "lo", "hi", "scale", *self.inputs, *outputs)


#: The forms of all kernels.
KERNELS = {
    "lower_value": KernelForm((), ("value",)),
    "lower_grad_y": KernelForm((), ("y",)),
    "lower_hvp": KernelForm(("V",), ("V",)),
    "lower_grad_y_and_hvp": KernelForm(("u",), ("pair",)),
    "lower_jvp": KernelForm(("u",), ("samples",)),
    "upper_value": KernelForm((), ("value",)),
    "upper_grad": KernelForm((), ("x", "y")),
    "lower_grad_x": KernelForm((), ("samples",)),
    "upper_hvp": KernelForm(("V",), ("V",)),
    "upper_jvp": KernelForm(("u",), ("x",)),
    "lower_pass": KernelForm(("V",), ("y", "V", "curvatures")),
    "lower_parts": KernelForm(("u",), ("pair", "samples")),
    "lower_kept_hvp": KernelForm(("V",), ("V",), point=("x", "curvatures")),
}

#: Those that are oracles which a problem may lack.
OPTIONAL_ORACLES = ("lower_grad_x", "upper_hvp", "upper_jvp")

#: Those that share work between products over all samples.
KEEPING = ("lower_pass", "lower_kept_hvp")

#: All that a problem may lack; the last one is the two for H u and J u at once.
OPTIONAL_KERNELS = (*OPTIONAL_ORACLES, *KEEPING, "lower_parts")


def checked_kernels(kernels: Any) -> dict[str, Callable[..., Any]]:
    """Return the kernels that a user gave, all those that a compiled problem needs among them.

    Parameters
    ----------
    kernels : mapping of str to callable
        Functions, jitted or not.

    Returns
    -------
    dict
        A copy, in the order of `KERNELS`.

    Raises
    ------
    TypeError, ValueError
        For missing or unknown names and for what has other parameters, with the names.
    """
    if not isinstance(kernels, Mapping):
        raise TypeError(f"kernels: found {type(kernels).__name__}; expected a dict of names and functions")
    unknown = [str(name) for name in kernels if name not in KERNELS]
    if unknown:
        raise ValueError(f"kernels: found {', '.join(unknown)}; expected names among {', '.join(KERNELS)}")
    missing = [name for name in KERNELS if name not in OPTIONAL_KERNELS and name not in kernels]
    if missing:
        raise ValueError(
            f"kernels: missing {', '.join(missing)}; a compiled problem needs all of them (or subclass "
            "FiniteSumProblem, whose methods are plain NumPy)"
        )
    halves = [name for name in KEEPING if name in kernels]
    if len(halves) == 1:
        raise ValueError(f"kernels: found {halves[0]} alone; expected {' and '.join(KEEPING)}, or neither")
    for name, kernel in kernels.items():
        _require_form(f"kernels[{name!r}]", kernel, KERNELS[name].parameters)
    return {name: kernels[name] for name in KERNELS if name in kernels}


def _require_form(name: str, kernel: Any, parameters: tuple[str, ...]) -> None:
    """Raise unless a kernel is a function of the given parameters, by number, and by order where names are the same."""
    function = getattr(kernel, "py_func", kernel)
    if not inspect.isfunction(function):
        raise TypeError(f"{name}: found {type(kernel).__name__}; expected a function, jitted or not")
    expected = f"expected ({', '.join(parameters)})"
    signature = inspect.signature(function, follow_wrapped=False)
    found = tuple(signature.parameters.values())
    names = tuple(parameter.name for parameter in found)
    positional = all(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in found)
    if not positional or len(found) != len(parameters):
        raise TypeError(f"{name}: found parameters {signature}; {expected}")
    if names != parameters and sorted(names) == sorted(parameters):
        raise TypeError(f"{name}: found parameters in the order ({', '.join(names)}); {expected}")
    kinds = {"generator": inspect.isgeneratorfunction, "coroutine": inspect.iscoroutinefunction}
    for kind, is_kind in {**kinds, "asynchronous generator": inspect.isasyncgenfunction}.items():
        if is_kind(function):
            raise TypeError(f"{name}: found a {kind}; expected a function that adds to its last arguments")
    if getattr(kernel, "targetoptions", {}).get("parallel"):
        raise TypeError(f"{name}: found the option parallel=True; expected none, since loops run on one thread")
