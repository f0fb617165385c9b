"""What went wrong with data, in one line."""

from __future__ import annotations

from collections.abc import Sequence


def shown(text: object, most: int = 400) -> str:
    """Return text that came with the data as one line that a message can quote.

    Parameters
    ----------
    text : object
        Such as a file name, a column name or a whole message.
    most : int
        How many characters to keep, at least 5; of longer texts the middle is left out.

    Returns
    -------
    str
        The text with escapes for line breaks, control characters and what else is not printable.
    """
    line = str(text)
    if len(line) > most:
        half = (most - 3) // 2
        line = f"{line[:half]}...{line[-half:]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in line)


class DataError(ValueError):
    """Data that cannot be used.

    Parameters
    ----------
    message : str
        What was found and what was expected; it is cut and escaped to one line, as files may hold anything.
    """

    def __init__(self, message: str) -> None:
        super().__init__(shown(message))


class TargetError(DataError):
    """A label column that is not named, not there, or not asked for.

    Parameters
    ----------
    reason : str
        What was found and what was expected; the message puts ``target:`` before it.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"target: {reason}")
        self.reason = shown(reason)


def listing(names: Sequence[str], most: int = 8) -> str:
    """Join names by commas, the first ones only if they are many.

    Parameters
    ----------
    names : sequence of str
        Such as names of columns.
    most : int
        How many to show.

    Returns
    -------
    str
        The names, with dots in place of those that are left out.
    """
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def one_line(error: BaseException) -> str:
    """Return the message of a foreign error without its line breaks.

    Parameters
    ----------
    error : BaseException
        The error.

    Returns
    -------
    str
        Its message, or its type if there is none.
    """
    return " ".join(str(error).split()) or type(error).__name__
