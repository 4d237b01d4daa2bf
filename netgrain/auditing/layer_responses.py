"""What each layer makes of the differences between samples, beside white noise of the same size.

    response_l = E‖h_l(x') − h_l(x)‖² / E‖x' − x‖²                       x, x' two samples, h_l the output of layer l
    gain_l     = E‖h_l(x') − h_l(x)‖² / E‖h_l(x + r) − h_l(x)‖²          r white noise with ‖r‖² = E‖x' − x‖²

Before the first layer both are 1. For a linear layer h = Ax the gain is tr(AΣAᵀ)/tr Σ over tr(AAᵀ)/d, Σ the covariance
of the data: 1 where a layer treats your data as it treats noise, and less than the layer before where it loses what
differs between your samples. Steps are of finite size, so kinks and saturation count as they do in use; only forward
passes are made, and any module will do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from netgrain.auditing.layer_watching import BETWEEN, INPUT, Step, labels_of, watched
from netgrain.auditing.ratios import ratio_of_means
from netgrain.families.calls import ModuleCall
from netgrain.families.members import model_dtype
from netgrain.geometry.estimate import Estimate
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import generator_for
from netgrain.runtime.threads import one_thread

TOGETHER = 8  # samples that pass together, each with its noisy copy; means are taken among them
LAST = ("Linear", "LayerNorm", "RMSNorm")  # layers whose units are the last axis of their output
SILENT = 1e-6  # of the largest output of a layer: a unit that moves by less says the same of every sample
SAME = 1e-4  # a step outside the layers that changes no gain by more than this is not listed
Looked = tuple[Tensor, Tensor, Tensor]  # (3, samples) energies; lowest and highest output of each unit


@dataclass(frozen=True)
class LayerResponse:
    """One layer: its place, and what it makes of differences between samples.

    Attributes
    ----------
    name, kind : str
        Dotted name of the module, and its class; "" for work outside modules.
    shape : tuple of int
        Of the output for one sample.
    gain : Estimate
        Response to the difference of two samples over that to noise of the same size; NaN where it responds to neither.
    factor : Estimate
        Gain divided by the gain of what entered the layer.
    response : Estimate
        Squared difference of two outputs over the squared difference of the two samples.
    differs : Estimate
        Share of the output's energy E‖h‖² that differs between samples; the rest is the same for all.
    silent : float
        Share of units (channels, features) whose output is the same for all samples and positions.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    gain: Estimate
    factor: Estimate
    response: Estimate
    differs: Estimate
    silent: float


@one_thread()
def layer_responses(
    models: Sequence[nn.Module], calls: Sequence[ModuleCall], X: Tensor, *, seed: int = 0, over: str = "members"
) -> list[LayerResponse]:
    """The layers of some networks of one family in forward order, averaged over the networks.

    calls: of the layers, as `read(make, shape).calls()` lists them. over: what errors are errors over, "members" (the
    networks) or "samples".
    """
    X, noise = _with_noise(X, seed)
    labels, kinds = labels_of(calls), dict(zip(labels_of(calls).values(), (c.kind for c in calls), strict=True))
    found = [[_looked_at(model, labels, kinds, batch) for batch in _batches(model, X, noise)] for model in models]
    steps = found[0][0]
    if any([s.name for s in other] != [s.name for s in steps] for chunks in found for other in chunks):
        raise NetgrainError("the networks do not all call the same layers; expected one order for all of them.")
    # (networks, steps, 3, samples): energy of differences, of noise, of the output itself
    energies = torch.stack([torch.stack([torch.cat(s, 1) for s in _each(chunks, 0)]) for chunks in found])
    parts = energies.mean(3) if over == "members" else energies.mean(0).movedim(2, 0)
    silent = [[_silent(s) for s in zip(_each(chunks, 1), _each(chunks, 2), strict=True)] for chunks in found]
    share = torch.tensor(silent, dtype=torch.float64).mean(0)
    return _rows(steps, kinds, parts, share, float(noise[0].double().square().sum()))


def loser(rows: Sequence[LayerResponse]) -> LayerResponse | None:
    """The layer that loses most of what differs between samples: the smallest factor, two errors below 1."""
    losing = [r for r in rows if math.isfinite(r.factor) and r.factor + 2 * _known(r.factor.stderr) < 1]
    return min(losing, key=lambda r: float(r.factor), default=None)


def _known(error: float) -> float:
    return 0.0 if math.isnan(error) else error


def _with_noise(X: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """The samples in whole batches, and white noise for each, as long as the mean distance of two of a batch."""
    count = len(X) // TOGETHER * TOGETHER or len(X)
    if count < 2:
        raise NetgrainError(f"the response to differences needs two samples, found {len(X)}.")
    X = X[:count]
    spread = torch.stack([part.double().var(0).sum() for part in X.split(TOGETHER)]).mean()
    noise = torch.randn(X.shape, generator=generator_for(seed, "layer noise"))
    size = torch.linalg.vector_norm(noise.flatten(1), dim=1, dtype=torch.float64).reshape(-1, *[1] * (X.dim() - 1))
    return X, (noise * ((2 * spread).sqrt() / size)).float()


def _batches(model: nn.Module, X: Tensor, noise: Tensor) -> Iterable[Tensor]:
    where = next(model.parameters()).device
    for x, r in zip(X.split(TOGETHER), noise.split(TOGETHER), strict=True):
        yield torch.cat([x, x + r]).to(where, model_dtype(model))


def _looked_at(
    model: nn.Module, labels: dict[tuple[str, int], str], kinds: dict[str, str], batch: Tensor
) -> list[Step[Looked]]:
    count = len(batch) // 2

    def look(name: str, t: Tensor) -> Looked:
        clean, noisy = t.reshape(2, count, -1)
        apart = _squares(clean - clean.mean(0)) * (2 * count / (count - 1))  # E‖h(x') − h(x)‖² is twice the variance
        units = t[: len(t) // 2].movedim(_axis(kinds.get(name, ""), t), 0).flatten(1)
        return torch.stack([apart, _squares(noisy - clean), _squares(clean)]), units.amin(1).cpu(), units.amax(1).cpu()

    return watched(model, labels, batch, look)


def _squares(rows: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)
    return norms.square().cpu()


def _axis(kind: str, t: Tensor) -> int:
    """Where a layer's units are: channels come second in images, last in tokens."""
    return -1 if kind in LAST or (t.dim() == 3 and "Conv" not in kind and "Batch" not in kind) else min(1, t.dim() - 1)


def _each(chunks: list[list[Step[Looked]]], part: int) -> Iterable[tuple[Tensor, ...]]:
    """One part of what was found at each step, over the batches."""
    return zip(*([step.found[part] for step in steps] for steps in chunks), strict=True)


def _silent(bounds: tuple[tuple[Tensor, ...], tuple[Tensor, ...]]) -> float:
    low, high = torch.stack(bounds[0]).amin(0), torch.stack(bounds[1]).amax(0)
    return float((high - low <= SILENT * torch.maximum(high.abs(), low.abs()).max()).double().mean())


def _rows(
    steps: list[Step[Looked]], kinds: dict[str, str], parts: Tensor, silent: Tensor, size: float
) -> list[LayerResponse]:
    """Ratios of means over the parts, with linearised errors; parts (parts, steps, 3)."""
    apart, noise, whole = parts.double().unbind(2)
    constant = torch.full_like(apart[:, 0], size)
    sources = [step.source for step in steps]
    gains = (apart.mean(0) / noise.mean(0)).tolist()
    rows = []
    for i, step in enumerate(steps):
        source, outside = sources[i], step.name not in kinds
        before = 1.0 if source == INPUT else gains[source]
        if step.name.startswith(BETWEEN) and outside and math.isclose(gains[i], before, rel_tol=SAME):
            sources = [source if s == i else s for s in sources]  # a change of shape, and no more
            continue
        above = [] if source == INPUT else [noise[:, source]]
        below = [] if source == INPUT else [apart[:, source]]
        rows.append(
            LayerResponse(
                step.name,
                kinds.get(step.name, ""),
                step.shape[1:],
                ratio_of_means([apart[:, i]], [noise[:, i]]),
                ratio_of_means([apart[:, i], *above], [noise[:, i], *below]),
                ratio_of_means([apart[:, i]], [constant]),
                ratio_of_means([apart[:, i] / 2], [whole[:, i]]),
                float(silent[i]),
            )
        )
    return rows
