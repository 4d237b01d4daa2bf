"""The geometry of given models, trained or not: the mean of J(x)ᵀJ(x) over models and points."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from netgrain.families.failures import ADVICE, SHAPE_ADVICE, unwrapped_model
from netgrain.families.gradients import check_deterministic, check_differentiable, gradients
from netgrain.families.members import check_weights, frozen, model_dtype, without_gradients
from netgrain.families.origin import Resolved, probe_used
from netgrain.families.outputs import Output, checked_output, describe_output
from netgrain.families.probes import Data, Origin, Probe, checked_probe
from netgrain.geometry.gradient_rows import check_rows
from netgrain.geometry.options import check_counts, points_per_member
from netgrain.geometry.provenance import Provenance
from netgrain.geometry.reduction import Reduction
from netgrain.geometry.value import Geometry
from netgrain.runtime.arguments import checked_shape, found, switch, whole
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.progress import Bar
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.threads import one_thread


@one_thread()
def geometry_of(
    models: nn.Module | Sequence[nn.Module],
    probe: Probe,
    *,
    input_shape: Sequence[int] | None = None,
    output: Output = "all",
    probes: int | None = None,
    seed: int = 0,
    keep: int = 64,
    progress: bool | None = None,
) -> Geometry:
    """G of given (trained) members: the mean of J(x)ᵀJ(x) over the models and the probe's points.

    With Data(X) all samples are used. The models are left as they are found; they must be in eval mode.

    >>> import torch
    >>> net = torch.nn.Linear(2, 1)
    >>> _ = net.weight.data.copy_(torch.tensor([[1.0, 2.0]]))
    >>> geometry_of(net, Data(torch.zeros(3, 2))).matrix().tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    """
    listed = listed_models(models)
    checked_probe(probe)
    if probe is None:
        raise NetgrainError("probe expects Origin(), Gaussian(σ) or Data(X), found None; pass one of them.")
    if input_shape is None:
        if not isinstance(probe, Data):
            raise NetgrainError("expected input_shape=, as in (3, 32, 32): only a Data probe knows its own.")
        input_shape = tuple(probe.X.shape[1:])
    shape = checked_shape(input_shape)
    checked_probe(probe, shape)
    seed = check_counts(None, None, probes, "never", seed)[1]
    output, keep = checked_output(output), whole("keep", keep, 1)
    switch("progress", progress)
    count = probes or (len(probe.X) if isinstance(probe, Data) else points_per_member(probe, None))
    reduction = Reduction(math.prod(shape), 1 / len(probe.points(shape, count, 0)), lambda f: f, keep=keep)
    zero = 0
    note = ""
    with Bar("geometry of models", len(listed), progress) as bar:
        for i, model in enumerate(listed):
            check_given_model(model, i)
            resolved = Resolved(probe, probe.describe())
            if isinstance(probe, Origin):
                resolved = probe_used(probe, frozen_copy(model), shape, output)
                note = note or resolved.note
            points = resolved.probe.points(shape, count, derived_seed(seed, "probe", i)).to(
                _place(model), model_dtype(model)
            )
            call = frozen(model)
            check_differentiable(call, points[:1], output, advice=ADVICE if isinstance(probe, Data) else SHAPE_ADVICE)
            if i == 0:
                check_deterministic(call, points[:3] if len(points) > 1 else points)
            nonzero = False
            reduction.start_member()
            # points in slices, so that a data set of any size passes through bounded memory
            for piece in points.split(256):
                rows = gradients(call, piece, output).flatten(1).float().cpu()
                check_rows(rows, f"model {i}")
                nonzero = nonzero or bool(rows.any())
                reduction.extend(rows)
            zero += not nonzero
            bar.advance()
    about = Provenance(
        "sampled",
        model=", ".join(sorted({type(unwrapped_model(m)).__name__ for m in listed})),
        probe=resolved.text,
        output=describe_output(output),
        seed=seed,
        members=len(listed),
        integration="given members",
        zero_share=zero / len(listed),
        notes=(note,) if note else (),
    )
    form, full_trace = reduction.finish()
    return Geometry(form, shape, about, 0.0, full_trace)


def listed_models(models: object) -> list[nn.Module]:
    """One or more given models as a list; else a sentence."""
    if isinstance(models, nn.Module):
        return [models]
    wanted = "models expects a torch.nn.Module or a list of them"
    if isinstance(models, type) or (callable(models) and not hasattr(models, "__iter__")):
        raise NetgrainError(
            f"{wanted}, found {found(models)}; call it to get a model, or use average_geometry for the whole family."
        )
    if isinstance(models, str | bytes | dict | Tensor) or not hasattr(models, "__iter__"):
        raise NetgrainError(f"{wanted}, found {found(models)}.")
    listed = list(models)
    if not listed:
        raise NetgrainError("expected at least one model, found none.")
    for i, model in enumerate(listed):
        if not isinstance(model, nn.Module):
            raise NetgrainError(f"expected torch.nn.Module members, found {type(model).__name__} at index {i}.")
    return listed


def check_given_model(model: nn.Module, i: int) -> None:
    check_weights(model, f"model {i}")
    batch = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
    for name, module in model.named_modules():
        if isinstance(module, batch) and module.training:
            raise NetgrainError(
                f"batch norm '{name}' of model {i} is in train mode, where samples see each other; "
                "call model.eval() first."
            )


def frozen_copy(model: nn.Module) -> nn.Module:
    import copy

    model = unwrapped_model(model)
    # a copy of a scripted module cannot be frozen; it is only looked at, so it may be the model itself
    return model if isinstance(model, torch.jit.ScriptModule) else without_gradients(copy.deepcopy(model))


def _place(model: nn.Module) -> torch.device:
    return next(model.parameters()).device
