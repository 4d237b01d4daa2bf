"""Which outputs of a network count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from netgrain.families.members import forward
from netgrain.runtime.arguments import found, whole
from netgrain.runtime.errors import NetgrainError

Output = str | int | tuple[str, int, int] | Callable[[Tensor], Tensor]


def checked_output(output: Any, outputs: int | None = None) -> Output:
    """The output asked for, if it is one, and if a model with so many outputs has it (None: not known yet).

    Indices count from 0; there are no negative ones.

    >>> checked_output("mean"), checked_output(2, 3), checked_output(("diff", 0, 1))
    ('mean', 2, ('diff', 0, 1))
    """
    if callable(output) or (isinstance(output, str) and output in ("all", "mean")):
        return output  # type: ignore[no-any-return]
    two = isinstance(output, tuple) and len(output) == 3 and output[0] == "diff"
    try:
        indices = [whole("output", i) for i in (output[1:] if two else (output,))]
    except NetgrainError as e:
        raise NetgrainError(
            f"output expects 'all', 'mean', an index, ('diff', i, j) or a function, found {found(output)}."
        ) from e
    has = "" if outputs is None else f", the model has {outputs} output{'s' * (outputs != 1)} (0 to {outputs - 1})"
    if min(indices) < 0:
        raise NetgrainError(f"output {output} was asked for{has}; outputs count from 0, negative ones are not known.")
    if outputs is not None and max(indices) >= outputs:
        raise NetgrainError(f"output {output} was asked for{has}.")
    if two and indices[0] == indices[1]:
        raise NetgrainError(f"output {output} is zero for every model; expected two different outputs.")
    return ("diff", indices[0], indices[1]) if two else indices[0]


def select(y: Tensor, output: Output) -> Tensor:
    """The scalar outputs whose gradients count, (points, outputs) → (points, chosen)."""
    output = checked_output(output, y.shape[1])
    if callable(output):
        return forward(output, y, who="output=: the function", advice="it gets the outputs as (batch, outputs)")
    if output == "all":
        return y
    if output == "mean":
        return y.mean(1, keepdim=True)
    if isinstance(output, tuple):
        _, i, j = output
        return y[:, i : i + 1] - y[:, j : j + 1]
    assert isinstance(output, int)
    return y[:, output : output + 1]


def describe_output(output: Output) -> str:
    return "custom" if callable(output) else output if isinstance(output, str) else str(output)
