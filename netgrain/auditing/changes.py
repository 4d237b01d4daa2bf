"""Changes to try, as they are written on the command line, and what they do to an audit."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from netgrain.auditing.audits import Audit
from netgrain.auditing.label_relevance import axes_of, relevance
from netgrain.auditing.swaps import what_if
from netgrain.data.dataset import Dataset
from netgrain.families.members import Family
from netgrain.runtime.errors import NetgrainError, did_you_mean


def parsed_swaps(changes: Sequence[str]) -> dict[str, nn.Module]:
    """NAME=LAYER(arguments) → a module of torch.nn; arguments are plain values, nothing else is evaluated.

    >>> parsed_swaps(["pool1=AvgPool2d(2, stride=1)"])
    {'pool1': AvgPool2d(kernel_size=2, stride=1, padding=0)}
    """
    found: dict[str, nn.Module] = {}
    for change in changes:
        name, equals, text = change.partition("=")
        if not equals or not name.strip() or not text.strip():
            raise NetgrainError(f"--what-if expects NAME=LAYER as in \"pool1=AvgPool2d(2)\", found '{change}'.")
        found[name.strip()] = _layer(text.strip())
    return found


def _layer(text: str) -> nn.Module:
    try:
        call = ast.parse(text if "(" in text else text + "()", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise ValueError
        args = [ast.literal_eval(a) for a in call.args]
        kwargs = {k.arg: ast.literal_eval(k.value) for k in call.keywords if k.arg is not None}
    except (SyntaxError, ValueError) as e:
        raise NetgrainError(f"'{text}' is not a layer with plain arguments; write it as AvgPool2d(2) or GELU().") from e
    layers = [n for n in dir(nn) if isinstance(getattr(nn, n), type) and issubclass(getattr(nn, n), nn.Module)]
    if call.func.id not in layers:
        hint = did_you_mean(call.func.id, layers) or " Expected a class of torch.nn."
        raise NetgrainError(f"torch.nn has no layer {call.func.id!r}.{hint}")
    try:
        made = getattr(nn, call.func.id)(*args, **kwargs)
    except (TypeError, ValueError, RuntimeError) as e:
        raise NetgrainError(f"'{text}' could not be made ({e}); check its arguments.") from e
    assert isinstance(made, nn.Module)
    return made


def with_swaps(found: Audit, make: Family, swap: Mapping[str, nn.Module], samples: Dataset, *, seed: int = 0) -> Audit:
    """The audit with each change tried alone, at its probe: leading directions, and the share of the label in them."""
    rows = [_one(found, make, name, layer, samples, seed) for name, layer in swap.items()]
    return replace(found, report={**found.report, "what_if": [*found.report["what_if"], *rows]})


def _one(found: Audit, make: Family, name: str, layer: nn.Module, samples: Dataset, seed: int) -> dict[str, Any]:
    changed = what_if(make, swap={name: layer}, input_shape=samples.shape, seed=seed, progress=False, **found.options)
    axes = axes_of(changed.after)
    labels = relevance(axes, samples.X, samples.y, seed=seed)
    before = found.report["labels"]["nonlinear"]["value"]
    after = labels.dependence_leading.value
    counts = found.report["leading"]["count"], axes.leading
    index = torch.tensor(found.report["spectrum"]["index"])
    share = "" if before is None or after != after else f"; label in them {before:.0%} → {after:.0%}"
    change = f"{name} → {layer}"
    return {
        "change": change,
        "sentence": f"{change}: leading directions {counts[0]} → {counts[1]} of {changed.after.d}{share}.",
        "leading": {"before": counts[0], "after": counts[1]},
        "labels": {"before": before, "after": None if after != after else after},
        "spectrum": [float(f"{v:.6g}") for v in (axes.values[index] / axes.values.mean()).tolist()],
    }
