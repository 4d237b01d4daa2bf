"""What a kernel may cost: members, samples of a batch and of a calibration, by fixed models, never by the clock."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from netgrain.families.reading import Reading
from netgrain.families.sizes import operations
from netgrain.families.trace import Trace
from netgrain.learning.kernel_value import KernelKind
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.memory import MemoryShortage, ask, in_words

MEMBERS: dict[KernelKind, int] = {"layers": 8, "last": 16, "tangent": 4}
FEWEST = 2  # members, so that there is an error bar
PASSES: dict[KernelKind, int] = {"layers": 1, "last": 1, "tangent": 4}  # the work of a member in forward passes
WORK = 6e12  # floating-point operations of all members
MOST_WORK = 1.2e13  # of a tangent kernel that nobody asked for: some two minutes of two cores
WORTH_FORKING = 2e11  # operations above which members run in processes of their own
BATCH_BYTES = 2**28  # held by the tensors of one batch
MOST_AT_ONCE = 128  # samples of a batch: more make nothing faster
UNKNOWN_BATCH = 16  # of a network that cannot be traced
ALIVE = 8  # tensors as large as the largest one that a pass without gradients holds at a time
CALIBRATION_BYTES = 2**29


def members_for(kind: KernelKind, reading: Reading, samples: int) -> int:
    """Members by default: fewer where a network or the samples are large."""
    each = PASSES[kind] * samples * operations(reading)
    return max(FEWEST, min(MEMBERS[kind], round(WORK / each)))


def worth_forking(kind: KernelKind, reading: Reading, samples: int, members: int) -> bool:
    """Whether members take so long that processes are worth their start."""
    return members * PASSES[kind] * samples * operations(reading) > WORTH_FORKING


def batch_for(kind: KernelKind, reading: Reading) -> int:
    """Samples of one pass, by the sizes of the tensors in it."""
    if not isinstance(reading.trace, Trace):
        return UNKNOWN_BATCH
    # the trace has two samples
    each = [sum(4 * math.prod(shape) // 2 for shape in step.shapes) for step in reading.trace.steps] or [4]
    held = ALIVE * max(each)
    if kind == "tangent":  # inputs and gradients of all layers, those of one by its weights, and the same with signs
        held += 3 * sum(each) + 3 * 4 * max((p.numel() for p in reading.model.parameters()), default=1)
    return max(1, min(MOST_AT_ONCE, BATCH_BYTES // max(held, 1)))


def calibration_samples(reading: Reading, X: Tensor) -> Tensor:
    """Samples for the statistics of batch norms: all that fit one pass, else evenly over their sorted means."""
    largest = UNKNOWN_BATCH * 2**20
    if isinstance(reading.trace, Trace):
        largest = max((4 * math.prod(shape) // 2 for s in reading.trace.steps for shape in s.shapes), default=4)
    most = max(8, CALIBRATION_BYTES // (ALIVE * largest))
    if len(X) <= most:
        return X
    order = X.flatten(1).double().mean(1).argsort()  # whatever the order of the samples
    return X[order[torch.linspace(0, len(X) - 1, most).long()]]


def check_kernel_fits(n: int, m: int, members: int) -> None:
    """Refuse a kernel that the budget has no room for, with the number; a few more matrices are held on the way."""
    try:
        ask(8 * n * m * (members + 3), f"a kernel of {n} × {m} samples and {members} members")
    except MemoryShortage as e:
        raise NetgrainError(
            f"{e.reason}; pass memory='{in_words(1.1 * e.needed)}' or more, fewer samples or members, or a few samples "
            "as Z. ng.learnability takes more samples as they are, by features."
        ) from e


def tangent_worth_it(reading: Reading, samples: int, members: int = FEWEST) -> bool:
    """Whether the tangent kernel of so many members is cheap enough to be compared unasked."""
    if not isinstance(reading.trace, Trace):
        return True
    return members * PASSES["tangent"] * samples * operations(reading) <= MOST_WORK
