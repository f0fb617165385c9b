"""What a library of automatic differentiation has to offer: one scalar function and its derivatives."""

from __future__ import annotations

import abc
import importlib
import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from nbo.problem import BilevelProblem, LowerModel

Array = npt.NDArray[Any]


class Derivatives(abc.ABC):
    """A scalar function h(x, y), or h(x, y, batch) over samples, and its derivatives on NumPy arrays.

    Parameters
    ----------
    function : callable
        h, written with the operations of the library.
    name : str
        What messages call it, ``"f"`` or ``"g"``.
    dtype : dtype
        In which everything is computed, float64 or float32.
    has_samples : bool
        Whether h takes a batch.

    Raises
    ------
    TypeError
        If `function` cannot be called with so many arguments.
    """

    #: The library's name in messages.
    library: ClassVar[str]

    def __init__(self, function: Callable[..., Any], name: str, dtype: np.dtype[Any], has_samples: bool) -> None:
        _require_arity(function, name, has_samples)
        self.function, self.name, self.dtype, self.has_samples = function, name, dtype, has_samples

    def __reduce__(self) -> tuple[Any, ...]:
        """What is compiled stays behind; a function that cannot be pickled says so itself."""
        return type(self), (self.function, self.name, self.dtype, self.has_samples)

    @abc.abstractmethod
    def evaluate(self, kind: str, *arguments: Array) -> Any:
        """Return one derivative.

        Parameters
        ----------
        kind : {"value", "grad", "grad_x", "grad_y", "hvp", "jvp"}
            Which one; ``"grad"`` is the joint gradient, ``"hvp"`` nabla_22^2 h v and ``"jvp"`` nabla_12^2 h v.
        *arguments : ndarray
            x, y, the direction v of a product, and the indices of a batch, if it is not all samples.

        Returns
        -------
        ndarray, tuple of ndarray or float
            Arrays that belong to the caller.
        """

    @abc.abstractmethod
    def model(self, problem: BilevelProblem, x: Array, y: Array) -> LowerModel:
        """Return h around one point, where derivatives share work.

        Parameters
        ----------
        problem : BilevelProblem
            The problem whose lower level h is.
        x, y : ndarray
            The point; they must not change while the model is used.

        Returns
        -------
        LowerModel
            Over all samples; no work yet.
        """

    def require_traceable(self, dim_x: int, dim_y: int) -> None:
        """Try the function on vectors without values, where the library can; by default it cannot.

        Parameters
        ----------
        dim_x, dim_y : int
            The lengths of x and y.

        Raises
        ------
        Exception
            What the function raises, or the complaint about what it returns.
        """
        return

    def _call(self, x: Any, y: Any, *batch: Any) -> Any:
        """Call the function in the library's own arrays and require a real scalar of at least the working precision."""
        everything = (slice(None),) if self.has_samples and not batch else ()
        arguments = (x, y, *batch, *everything)
        try:
            value = self.function(*arguments)
        except Exception as error:
            shown = ", ".join(str(tuple(a.shape) if hasattr(a, "shape") else a) for a in arguments)
            error.add_note(
                f"nbo: {self.name} was called with arguments of shapes {shown}; it has to compute with {self.library}, "
                "and neither x, y nor what depends on them may become NumPy arrays or Python numbers"
            )
            raise
        self._require_scalar(value)
        return value

    @abc.abstractmethod
    def _require_scalar(self, value: Any) -> None:
        """Raise unless `value` is a real scalar of the library."""

    def _refuse(self, found: str, kind: type[Exception] = TypeError) -> None:
        raise kind(f"{self.name}: returned {found}; expected one real number (shape ()) of {self.library}")


def required(module: str, extra: str) -> Any:
    """Return an optional module.

    Parameters
    ----------
    module : str
        Its name.
    extra : str
        The extra that installs it.

    Returns
    -------
    module
        The imported module.

    Raises
    ------
    ImportError
        If it is not there, with the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f'nbo.problems.from_{extra} needs {module}: pip install "nbo[{extra}]"') from error


def _require_arity(function: Any, name: str, has_samples: bool) -> None:
    """Raise unless a function can be called as messages promise."""
    wanted = f"{name}(x, y, batch), since there are samples" if has_samples else f"{name}(x, y)"
    if not callable(function):
        raise TypeError(f"{name}: found {type(function).__name__}; expected a function {wanted}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # not every callable tells its parameters
        return
    try:
        signature.bind(*range(3 if has_samples else 2))
    except TypeError as error:
        hint = "" if has_samples else "; a function of a batch needs n_samples_upper and n_samples_lower"
        raise TypeError(f"{name}: found parameters {signature} ({error}); expected {wanted}{hint}") from None
