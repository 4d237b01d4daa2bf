"""What netgrain says when something is wrong: one sentence with what was expected, what was found, what to do."""


class NetgrainError(ValueError):
    """Base of every error netgrain raises on purpose; the command line prints it and exits with code 2."""


class GrainWarning(UserWarning):
    """The result is correct but a person should know something about it."""


def install(extra: str) -> str:
    """The command that brings an optional part; netgrain is on no package index.

    >>> install("vision")
    "pip install -e '.[vision]' (in the folder of netgrain's source)"
    """
    return f"pip install -e '.[{extra}]' (in the folder of netgrain's source)"
