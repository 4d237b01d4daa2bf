"""The samples that an audit measures, with labels of any kind: classes, numbers or none."""

from __future__ import annotations

import copy
import itertools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from netgrain.auditing.checks import checked_data, checked_inputs, one_class_left
from netgrain.auditing.sections.contract import TargetKind
from netgrain.families.failures import unwrapped_model
from netgrain.families.members import Family
from netgrain.families.reinitialised import fresh
from netgrain.learning.targets import targets_of
from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.runtime.randomness import generator_for
from netgrain.runtime.samples import may_be_classes, tensor_of

SAMPLES = 2000
PARTS = 5  # of equal size, into which samples are divided by a number


@dataclass(frozen=True, eq=False)
class MeasuredData:
    """Samples and labels as every section gets them.

    Attributes
    ----------
    X : Tensor of shape (samples, *input_shape)
        In float32 on the CPU.
    y : Tensor or None
        Labels: classes as whole numbers, numbers in floating point, or none.
    groups : Tensor of shape (samples,)
        The class of each sample; for numbers the fifth of the samples by size; 0 for all without labels.
    names : tuple of str
        What the groups are called.
    target : {"classes", "numbers", "none"}
        What the labels are.
    rows : Tensor or None
        Places among the given samples; None where all are measured.
    given : int
        Number of samples that were given.
    first : torch.nn.Module
        A network of the family.
    can_train : bool
        Whether its outputs fit the labels one by one, as a short training needs.
    """

    X: Tensor
    y: Tensor | None
    groups: Tensor
    names: tuple[str, ...]
    target: TargetKind
    rows: Tensor | None
    given: int
    first: nn.Module
    can_train: bool = True


def measured_data(
    make: Family,
    X: Any,
    y: Any,
    *,
    classes: Sequence[str] = (),
    target: Literal["classes", "numbers"] | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
) -> MeasuredData:
    """At most `samples` of the samples, drawn by the seed, with their labels and groups; what is wrong is refused."""
    kind = kind_of(y, target)
    values: Tensor | None = None
    can_train = True
    if kind == "classes":
        X, values, first = checked_data(make, X, _as_classes(y, target), classes, seed=seed)
    else:
        X, first, outputs = checked_inputs(make, X, seed=seed)
        if kind == "numbers":
            values = _numbers(y, len(X), outputs)
            can_train = outputs == values.reshape(len(values), -1).shape[1]
    given, rows = len(X), None
    if given > samples:
        rows = torch.randperm(given, generator=generator_for(seed, "audit samples"))[:samples].sort().values
        X, values = X[rows], None if values is None else values[rows]
        one_class_left(X, values if kind == "classes" else None, given)
    groups, names = _grouped(kind, values, tuple(classes), len(X))
    return MeasuredData(X, values, groups, names, kind, rows, given, first, can_train)


def kind_of(y: Any, target: Literal["classes", "numbers"] | None = None) -> TargetKind:
    """What labels are, where nobody says: none, whole numbers are classes, and many different others are numbers.

    >>> kind_of(None), kind_of([0, 1, 1]), kind_of([0.5 * i for i in range(40)])
    ('none', 'classes', 'numbers')
    """
    if target not in (None, "classes", "numbers"):
        raise NetgrainError(f"target expects 'classes', 'numbers' or None, found {target!r}.")
    if y is None:
        return "none"
    if target is not None:
        return target
    values = tensor_of(y, "y")
    if not values.is_floating_point():
        return "classes"
    return "numbers" if values.dim() == 2 or not may_be_classes(values) else "classes"


def family_of(given: nn.Module) -> tuple[Family, bool]:
    """Networks like a given one with fresh random weights, and whether its initialisation is known.

    Where it is not, the family is copies of the network as it is.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GrainWarning)  # trained weights are on another scale, as they should be
            return fresh(given), True
    except NetgrainError:
        model = unwrapped_model(given)
        return lambda: copy.deepcopy(model), False


def _as_classes(y: Any, target: str | None) -> Any:
    """Whole numbers in floating point are classes where the user says so."""
    values = tensor_of(y, "y")
    if target == "classes" and values.is_floating_point() and bool((values == values.round()).all()):
        return values.long()
    return y


def _numbers(y: Any, samples: int, outputs: int) -> Tensor:
    values = targets_of(y, samples, target="numbers").values
    columns = 1 if values.dim() == 1 else values.shape[1]
    if outputs < columns:
        raise NetgrainError(
            f"y holds {columns} number{'s' * (columns > 1)} for each sample, the network has {outputs} "
            f"output{'s' * (outputs > 1)}; give it an output for each number."
        )
    return values


def _grouped(
    kind: TargetKind, values: Tensor | None, classes: tuple[str, ...], count: int
) -> tuple[Tensor, tuple[str, ...]]:
    """A group for each sample, and what the groups are called."""
    if values is None:
        return torch.zeros(count, dtype=torch.int64), ("all samples",)
    if kind == "classes":
        return values, classes or tuple(map(str, range(int(values.max()) + 1)))
    one = values if values.dim() == 1 else values[:, 0]
    edges = torch.quantile(one, torch.linspace(0, 1, PARTS + 1, dtype=one.dtype))
    inner = edges[1:-1].unique()
    inner = inner[(inner > one.min()) & (inner <= one.max())]
    bounds = [f"{v:.3g}" for v in inner.tolist()]
    if not bounds:
        return torch.zeros(count, dtype=torch.int64), ("all samples",)
    names = (f"below {bounds[0]}", *(f"{a} to {b}" for a, b in itertools.pairwise(bounds)))
    return torch.bucketize(one, inner, right=True), (*names, f"{bounds[-1]} and above")
