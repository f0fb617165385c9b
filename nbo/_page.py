"""Reports: Markdown from data, and one HTML file from Markdown and pictures."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 0.85rem; display: block; overflow-x: auto; }
th, td { border: 1px solid #ccc; padding: 0.2rem 0.6rem; text-align: left; vertical-align: top; }
th { background: #f2f2f2; }
img { max-width: 100%; height: auto; }
pre { overflow-x: auto; background: #f7f7f7; padding: 0.8rem; font-size: 0.8rem; }
"""


class Formatted(str):
    """A text that is Markdown already."""


def escaped(text: str) -> str:
    """Return a text of which Markdown and HTML take no sign for one of theirs."""
    if isinstance(text, Formatted):
        return text
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", escape(text, quote=False))


def in_markdown(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Return the lines of a table in Markdown."""

    def line(cells: Sequence[Any]) -> str:
        return "| " + " | ".join(escaped(_short(cell)) for cell in cells) + " |"

    return [line(header), line(["---"] * len(header)), *map(line, rows), ""] if rows else []


def _short(value: Any) -> str:
    if not isinstance(value, (float, np.floating)):
        return value if isinstance(value, str) else str(value)
    if np.isnan(value):
        return "-"
    return f"{value:.3g}" if np.isfinite(value) else "never"


def html(title: str, text: str, pictures: Mapping[str, bytes]) -> str:
    """Return a report as one HTML file.

    Parameters
    ----------
    title : str
        Of the page.
    text : str
        In Markdown.
    pictures : mapping of str to bytes
        Path in the text -> PNG.

    Returns
    -------
    str
        The page, which needs no other file.
    """
    import markdown as converter

    body = converter.markdown(text, extensions=["tables", "fenced_code", "sane_lists"])

    def embedded(match: re.Match[str]) -> str:
        return f'src="data:image/png;base64,{base64.b64encode(pictures[match[1]]).decode()}"'

    body = re.sub(r'src="([^"]+)"', embedded, body)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )
