"""What an audit and a comparison accept: data, labels and options are looked at before anything is computed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.families.logits import answering
from netgrain.families.members import Family, forward, member
from netgrain.families.prepared import prepared
from netgrain.geometry.value import Geometry
from netgrain.learning.targets import targets_of
from netgrain.runtime.arguments import whole
from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.runtime.samples import check_two_classes, checked_labels, checked_samples, scoring


def checked_data(
    make: Family, X: Any, y: Any, classes: Sequence[str] = (), *, seed: int = 0
) -> tuple[Tensor, Tensor, nn.Module]:
    """X in float32 and y in int64 on the CPU, and a member that takes the samples and has an output for each class."""
    X = checked_samples(X).cpu()
    y = checked_labels(y, len(X)).cpu()
    _check_names(classes, "classes", "label", int(y.max()) + 1, at_least=True)
    check_two_classes(y, classes)
    X, model, outputs = checked_inputs(make, X, seed=seed)
    checked_labels(y, len(X), outputs, logit=True)
    if classes and len(classes) > max(outputs, 2):
        raise NetgrainError(
            f"classes= has {len(classes)} names, the model has {outputs} outputs; expected no more names."
        )
    _check_gaps(y, classes)
    return X, y, model


def checked_inputs(make: Family, X: Any, *, seed: int = 0) -> tuple[Tensor, nn.Module, int]:
    """X in float32 on the CPU, a member that takes it, and its number of outputs."""
    X = checked_samples(X).cpu()
    shape = tuple(X.shape[1:])
    if bool((X[:1] == X).all()):
        raise NetgrainError(
            f"all {len(X)} samples of X are equal, so there is nothing to measure; pass samples that differ."
        )
    X = checked_samples(X.float())  # what is too large for single precision is Inf now
    model = member(prepared(make, shape), seed, 0)
    return X, model, _outputs(model, X)


def one_class_left(X: Tensor, y: Tensor | None, given: int) -> None:
    """Refuse samples drawn from many that happen to be all the same, or of one class."""
    if bool((X[:1] == X).all()) or (y is not None and bool((y == y[0]).all())):
        raise NetgrainError(
            f"the {len(X)} samples drawn from {given} are all the same or of one class; pass samples={given} to "
            "measure all, or other samples."
        )


def check_options(
    shape: tuple[int, ...],
    *,
    features: Sequence[str] | None,
    G: Geometry | None,
    probe: Any,
    weights: Mapping[str, Tensor] | None,
    keep: float,
    members: int | None,
) -> None:
    """Refuse options of an audit that do not fit the samples (of this shape) or cannot be meant."""
    if features is not None and len(features):
        _check_names(features, "features", "entry of a sample", math.prod(shape))
    if G is not None and not isinstance(G, Geometry):
        raise NetgrainError(f"G is {type(G).__name__}, expected a Geometry, as of ng.average_geometry(make, {shape}).")
    if G is not None and G.d != math.prod(shape):
        raise NetgrainError(f"G is {G.d}-dimensional, the samples have {math.prod(shape)} entries; use the same input.")
    if G is not None and probe is not None:
        raise NetgrainError("probe= belongs to making G, but you passed G as well; leave one out.")
    if weights is not None and not (
        isinstance(weights, Mapping) and all(isinstance(tensor, Tensor) for tensor in weights.values())
    ):
        raise NetgrainError(
            f"weights is {type(weights).__name__}, expected a state dict (tensors by name): pass model.state_dict(), "
            "or read a file with netgrain.models.read_weights(path)."
        )
    if isinstance(keep, bool) or not isinstance(keep, int | float) or not 0 < keep <= 1:
        raise NetgrainError(
            f"keep expects a share above 0 and at most 1, found {keep!r}; 0.7 drops 30 % of the samples."
        )
    if members is not None:
        whole("members", members, 1)


def checked_test(test: Any, X: Tensor, y: Tensor | None, *, known: bool) -> tuple[Tensor, Tensor] | None:
    """Samples that a checkpoint has not seen, with labels like those of the audit; None where there are none.

    known: whether there is a checkpoint.
    """
    if test is None:
        return None
    if not known:
        raise NetgrainError("test= is for judging a trained network, and there is none; pass weights= or the network.")
    if y is None:
        raise NetgrainError("test= needs labels to judge by, and y is missing; pass y, too.")
    if not isinstance(test, tuple | list) or len(test) != 2:
        raise NetgrainError(f"test expects a pair (X, y), found {type(test).__name__}.")
    samples = checked_samples(test[0]).cpu().float()
    if samples.shape[1:] != X.shape[1:]:
        raise NetgrainError(
            f"the samples of test have shape {tuple(samples.shape[1:])}, those of X {tuple(X.shape[1:])}; "
            "expected the same."
        )
    if y.is_floating_point():
        labels = targets_of(test[1], len(samples), target="numbers").values
        if labels.shape[1:] != y.shape[1:]:
            raise NetgrainError(
                f"the labels of test have shape {tuple(labels.shape)}, those of X {tuple(y.shape)}; "
                "expected as many numbers for each sample."
            )
        return samples, labels
    return samples, checked_labels(test[1], len(samples)).cpu()


def comparable(audits: Sequence[Any]) -> list[dict[str, Any]]:
    """The reports of two or more audits, if they are audits, and of the same data."""
    for i, found in enumerate(audits):
        if not isinstance(getattr(found, "report", None), dict):
            raise NetgrainError(
                f"compare expects audits, found {type(found).__name__} at index {i}; audit(make, X, y) makes one."
            )
    reports: list[dict[str, Any]] = [found.report for found in audits]
    if len(reports) < 2:
        raise NetgrainError(f"compare expects two or more audits, found {len(reports)}; audit(make, X, y) makes one.")
    first = reports[0]["data"]
    for i, report in enumerate(reports[1:], 1):
        for fact in ("samples", "input_shape", "per_class", "name", "note"):
            if report["data"][fact] != first[fact]:
                raise NetgrainError(
                    f"compare expects audits of the same data: {fact.replace('_', ' ')} is {first[fact]!r} in audit 0 "
                    f"and {report['data'][fact]!r} in audit {i}; audit every model with the same X and y."
                )
    return reports


# --- inside -------------------------------------------------------------------------------------------------------


def _outputs(model: nn.Module, X: Tensor) -> int:
    """How many scores the model gives a sample."""
    try:
        with torch.no_grad():
            return forward(scoring(answering(model)), X[:1]).shape[1]
    except NetgrainError as e:
        if e.__cause__ is None or "failed on inputs of shape" not in str(e):  # the shape of X is not what is wrong
            raise
        reason = (str(e.__cause__).strip() or type(e.__cause__).__name__).splitlines()[0].rstrip(".")
        raise NetgrainError(
            f"{type(model).__name__} cannot take samples of shape {tuple(X.shape[1:])} ({reason}); "
            f"{_way_in(model, tuple(X.shape[1:]))}."
        ) from e


def _way_in(model: nn.Module, shape: tuple[int, ...]) -> str:
    """How data and model can be brought together, as far as their shapes tell."""
    expected = next((m.in_channels for m in model.modules() if isinstance(m, nn.Conv1d | nn.Conv2d | nn.Conv3d)), None)
    if expected is not None and len(shape) == 2:
        return "images need a channel axis: pass X.unsqueeze(1)"
    if expected is not None and len(shape) == 3 and shape[0] != expected:
        if shape[2] == expected:
            return "the channels seem to be last: pass X.permute(0, 3, 1, 2)"
        repeat = f", or pass X.repeat(1, {expected}, 1, 1)" if shape[0] == 1 else ""
        repeat += f" (--channels {expected})" if expected in (1, 3) and shape[0] in (1, 3) else ""
        counted = f"{expected} channel{'s' * (expected > 1)}"
        return f"it takes {counted}, the data have {shape[0]}: make the model for these{repeat}"
    return "make the model for samples of this shape, or bring X into the shape it takes"


def _check_names(names: Any, what: str, thing: str, count: int, *, at_least: bool = False) -> None:
    """Refuse names that are no list of words, or not one for each thing (at_least: there may be more)."""
    if isinstance(names, str | bytes) or not isinstance(names, Sequence) or not all(isinstance(n, str) for n in names):
        raise NetgrainError(f"{what}= is {names!r:.60}, expected a list of words, one for each {thing}.")
    if names and (len(names) < count or (len(names) > count and not at_least)):
        several = f"{len(names)} name{'s' * (len(names) != 1)}"
        raise NetgrainError(f"{what}= has {several}, expected {count}: one for each {thing}.")


def _check_gaps(y: Tensor, classes: Sequence[str]) -> None:
    """Labels that start at 1 are refused where nothing names class 0; other classes without samples are named."""
    empty = [c for c, n in enumerate(torch.bincount(y).tolist()) if n == 0]
    if 0 in empty and not classes:
        raise NetgrainError(
            f"labels run from {int(y.min())} to {int(y.max())}, expected them to start at 0; pass y - {int(y.min())}, "
            "or name all classes with classes=."
        )
    if empty:
        listed = ", ".join(f"'{classes[c]}'" if classes else str(c) for c in empty[:5])
        warnings.warn(
            f"{len(empty)} class{'es have' if len(empty) > 1 else ' has'} no samples ({listed}); nothing is said about "
            "those.",
            GrainWarning,
            stacklevel=4,
        )
