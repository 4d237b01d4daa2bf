"""Results in a notebook: a short table, escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def snippet(title: str, lines: Sequence[tuple[str, str]]) -> str:
    """A short table for notebooks, escaped.

    >>> snippet("<b>", [("verdict", "a & b")])[-55:]
    "<td style='text-align:left'>a &amp; b</td></tr></table>"
    """
    left = "text-align:left"
    cells = (
        f"<tr><th style='{left}'>{escape(name)}</th><td style='{left}'>{escape(said)}</td></tr>" for name, said in lines
    )
    return f"<table><caption style='{left}'>{escape(title)}</caption>{''.join(cells)}</table>"
