"""A trained checkpoint beside its family: its complexity, how far its geometry moved and where to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from netgrain.complexity.estimators import geometric_complexity
from netgrain.families.members import Family, member
from netgrain.families.probes import Data
from netgrain.geometry.sampled import geometry_of
from netgrain.geometry.value import Geometry
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.files import is_file
from netgrain.runtime.randomness import derived_seed

POINTS = 200  # samples at which a trained network is looked at


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """A state dict from a safetensors file, or from one of torch.save with tensors only; nothing else is unpickled."""
    path = Path(path)
    if not is_file(path):
        raise NetgrainError(f"{path} is not a file; expected weights in .safetensors, or a state dict saved by torch.")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return dict(load_file(path))
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as e:  # torch and safetensors raise many kinds
        raise NetgrainError(
            f"{path} cannot be read as weights ({type(e).__name__}); expected a .safetensors file, or a state dict "
            "(tensors by name) saved with torch.save."
        ) from e
    inner = found.get("state_dict", found.get("model", found)) if isinstance(found, dict) else found
    if not isinstance(inner, dict) or not all(isinstance(v, Tensor) for v in inner.values()):
        raise NetgrainError(f"{path} holds {type(found).__name__}, expected a state dict: tensors by name.")
    return dict(inner)


def trained_model(make: Family, weights: Mapping[str, Tensor]) -> torch.nn.Module:
    """A member with these weights, frozen and in eval mode; the first key that does not fit is named."""
    model = member(make, 0, 0)
    there = model.state_dict()
    for key in there:
        if key not in weights:
            raise NetgrainError(
                f"the weights lack '{key}', which {type(model).__name__} has; give a checkpoint of this model."
            )
        if weights[key].shape != there[key].shape:
            raise NetgrainError(
                f"'{key}' has shape {tuple(weights[key].shape)} in the weights and {tuple(there[key].shape)} in "
                f"{type(model).__name__}; give a checkpoint of this model."
            )
        if weights[key].is_complex() and not there[key].is_complex():
            raise NetgrainError(f"'{key}' has complex numbers in the weights; give a checkpoint of this model.")
    extra = [key for key in weights if key not in there]
    if extra:
        raise NetgrainError(
            f"the weights have '{extra[0]}', which {type(model).__name__} does not; give a fitting one."
        )
    try:
        model.load_state_dict(dict(weights))
    except RuntimeError as e:  # of another layout: sparse, quantised
        raise NetgrainError(
            f"the weights cannot be copied into {type(model).__name__} ({' '.join(str(e).split())}); give dense ones."
        ) from e
    return model.eval()


def trained_report(
    make: Family, weights: Mapping[str, Tensor], X: Tensor, G: Geometry, *, seed: int, device: torch.device
) -> dict[str, Any]:
    """Complexity of the trained network on some samples, and its geometry there against that of the family."""
    model = trained_model(make, weights).to(device)
    rows = torch.randperm(len(X), generator=torch.Generator().manual_seed(derived_seed(seed, "audit trained")))[:POINTS]
    points = X[rows]
    after = geometry_of([model], Data(points), input_shape=tuple(X.shape[1:]), probes=len(points), progress=False)
    fresh = geometry_of(
        [member(make, seed, 0, device)],
        Data(points),
        input_shape=tuple(X.shape[1:]),
        probes=len(points),
        progress=False,
    )
    moved = after.corr(G)
    shares = []
    for share in (0.5, 0.9, 0.99):
        k = G.directions_for(share)
        if k is not None:
            V = G.directions(k).flatten(1)
            inside = [float((V * g.form.matvec(V)).sum()) / max(g.trace.value, 1e-300) for g in (fresh, after)]
            shares.append(
                [
                    f"of its geometry in the {k} directions that carry {share:.0%} of the family's",
                    f"{inside[0]:.0%} fresh, {inside[1]:.0%} trained",
                ]
            )
    complexity = geometric_complexity(model, points, seed=seed)
    found = moved.as_dict()
    return {
        "trained": {k: v for k, v in complexity.as_dict().items() if k in ("value", "stderr", "n")},
        "moved": {"corr": {k: found[k] for k in ("value", "stderr", "n")}, "rows": shares},
    }
