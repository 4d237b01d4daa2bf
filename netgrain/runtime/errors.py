"""What netgrain says when something is wrong: one sentence with what was expected, what was found, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable


class NetgrainError(ValueError):
    """Base of every error that netgrain raises on purpose.

    The message is one sentence: what was expected, what was found, what to do. The command line
    prints it and exits with code 2.
    """


class GrainWarning(UserWarning):
    """The result is correct, but you should know something about it."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The nearest known word as a question to append to a sentence, or nothing when none is near.

    >>> did_you_mean("ResNet81", ["mlp", "resnet18"])
    " Did you mean 'resnet18'?"
    >>> did_you_mean("banana", ["mlp", "resnet18"])
    ''
    """
    near = _nearest(word, known)
    return "" if near is None else f" Did you mean {near!r}?"


def known_name(what: str, name: object, names: Collection[str]) -> str:
    """The name if it is one of the names, else one sentence with the nearest or with all of them.

    >>> known_name("estimator", "exact", ["auto", "exact"])
    'exact'
    """
    if isinstance(name, str) and name in names:
        return name
    near = _nearest(str(name), names)
    hint = f"expected one of {', '.join(names)}." if near is None else f"did you mean {near!r}?"
    raise NetgrainError(f"{what} {name!r} is not known; {hint}")


def _nearest(word: str, known: Iterable[str]) -> str | None:
    originals = {name.casefold(): name for name in known}
    near = difflib.get_close_matches(word.casefold(), originals, n=1, cutoff=0.5)
    return originals[near[0]] if near else None


def install(extra: str) -> str:
    """The command that brings an optional part; netgrain is on no package index.

    >>> install("vision")
    "pip install -e '.[vision]' (in the folder of netgrain's source)"
    """
    return f"pip install -e '.[{extra}]' (in the folder of netgrain's source)"
