"""Why something is not done: a value, so that nobody has to read a sentence to find out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """Why a module cannot be read, or a part of it not averaged exactly.

    Running out of memory raises an error instead.

    Parameters
    ----------
    kind : str
        A fixed keyword to compare with: "asked for", "not traced", "no entry", "shared weight", "law", ...
    where : str, default ""
        The module or call concerned, if any.
    text : str, default ""
        The whole reason as a clause that can follow a colon; by default the kind.

    Examples
    --------
    >>> str(Reason("shared weight", "fc", "the weight of 'fc' is shared"))
    "the weight of 'fc' is shared"
    """

    kind: str
    where: str = ""
    text: str = ""

    def __str__(self) -> str:
        return self.text or self.kind
