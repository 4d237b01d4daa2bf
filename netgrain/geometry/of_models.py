"""The geometry of given models, trained or not: the mean of J(x)ᵀJ(x) over models and points."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from netgrain.families.failures import ADVICE, SHAPE_ADVICE, unwrapped_model
from netgrain.families.gradients import check_deterministic, check_differentiable, gradients
from netgrain.families.members import check_weights, frozen, model_dtype, without_gradients
from netgrain.families.origin import Resolved, probe_used
from netgrain.families.outputs import Output
from netgrain.families.prepared import At, prepared_model
from netgrain.families.probes import Data, Origin, Probe, checked_probe
from netgrain.families.wrapped import Call, name_of
from netgrain.geometry.collecting import about_sample
from netgrain.geometry.gradient_rows import check_rows
from netgrain.geometry.options import Options, points_per_member
from netgrain.geometry.provenance import GIVEN_MODELS, Provenance
from netgrain.geometry.reduction import Reduction
from netgrain.geometry.value import Geometry
from netgrain.runtime.arguments import checked_shape, found
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
    call: Call | None = None,
    at: At | None = None,
    seed: int = 0,
    keep: int = 64,
    progress: bool | None = None,
) -> Geometry:
    """Input geometry of given networks, trained or not.

    The mean of J(x)ᵀ J(x), J = ∂f/∂x, over the models and the points of the probe.

    Parameters
    ----------
    models : Module or sequence of Module
        Networks in eval mode. They are not changed.
    probe : Probe
        Where x comes from: ``Origin()``, ``Gaussian(sigma)`` or ``Data(X)``. All samples of ``Data(X)``
        are used.
    input_shape : sequence of int, optional
        Shape of one input; only a Data probe knows its own.
    output : {"all", "mean"}, int, ("diff", int, int) or callable, default "all"
        Outputs whose gradients count; ``"all"`` sums over outputs.
    probes : int, optional
        Points per network; all samples of a data set, 8 points of a Gaussian.
    call : callable, optional
        How a model is called, as a function of the model and a batch x, for models with keywords or
        several inputs: ``lambda model, x: model(pixel_values=x).logits``.
    at : {"embeddings"}, optional
        For models of tokens: take the output of the token embedding as the input space, with
        `input_shape` ``(tokens, width)``.
    seed : int, default 0
        Of the points.

    Returns
    -------
    Geometry
        The mean over models; error bars are standard errors over models.

    Other Parameters
    ----------------
    keep : int, default 64
        Leading directions to keep when the input is too large for anything but a sketch.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.

    Raises
    ------
    NetgrainError
        If a model is in train mode, lets samples see each other, or gives NaN.

    See Also
    --------
    average_geometry : The geometry of a family at initialisation.
    geometric_complexity : The trace of this geometry over data.

    Examples
    --------
    A linear network f = wᵀx has G = wwᵀ everywhere.

    >>> import torch
    >>> net = torch.nn.Linear(2, 1)
    >>> _ = net.weight.data.copy_(torch.tensor([[1.0, 2.0]]))
    >>> geometry_of(net, Data(torch.zeros(3, 2))).matrix().tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    """
    listed = listed_models(models)
    shape = shape_for(probe, input_shape)
    asked = Options(shape, probe=probe, output=output, probes=probes, seed=seed, keep=keep, progress=progress)
    listed = [prepared_model(model, shape, call=call, at=at) for model in listed]
    given = GivenModels("geometry", listed, probe, asked)
    reduction = Reduction(math.prod(shape), 1 / given.points, keep=keep)
    for one in given:
        reduction.start_member()
        # points in slices, so that a data set of any size passes through bounded memory
        for piece in one.points.split(256):
            rows = gradients(one.call, piece, asked.output).flatten(1).float().cpu()
            check_rows(rows, one.name)
            one.reacts = one.reacts or bool(rows.any())
            reduction.extend(rows)
    form, full_trace = reduction.finish()
    return Geometry(form, shape, given.about(), 0.0, full_trace)


def shape_for(probe: Probe, input_shape: Sequence[int] | None) -> tuple[int, ...]:
    """Shape of one input, and whether the probe fits it."""
    checked_probe(probe)
    if probe is None:
        raise NetgrainError("probe expects Origin(), Gaussian(σ) or Data(X), found None; pass one of them.")
    if input_shape is None:
        if not isinstance(probe, Data):
            raise NetgrainError("expected input_shape=, as in (3, 32, 32): only a Data probe knows its own.")
        input_shape = tuple(probe.X.shape[1:])
    shape = checked_shape(input_shape)
    checked_probe(probe, shape)
    return shape


# --- given models, one after the other --------------------------------------------------------------------------------


@dataclass(eq=False)
class GivenModel:
    """One model that was found to be fit, and the points at which its gradients are taken."""

    name: str
    model: nn.Module
    call: Callable[[Tensor], Tensor]  # without gradients of parameters
    place: Resolved
    points: Tensor  # (points, *input_shape), where the model is and in its precision
    reacts: bool = False  # some gradient that was seen is not zero


class GivenModels:
    """Given models one after the other, each checked and at points that are functions of (seed, its number) alone."""

    def __init__(self, what: str, models: Sequence[nn.Module], probe: Probe, asked: Options) -> None:
        self.what, self.models, self.probe, self.asked = what, models, probe, asked
        # what was asked for, all samples of data, or a few of a Gaussian
        every = len(probe.X) if isinstance(probe, Data) else points_per_member(probe, None)
        self.count = asked.probes or every
        self.points = len(probe.points(asked.shape, self.count, 0))
        self.used = Resolved(probe, asked.probe)
        self.zero = 0

    def __iter__(self) -> Iterator[GivenModel]:
        with Bar(f"{self.what} of models", len(self.models), self.asked.progress) as bar:
            for i, model in enumerate(self.models):
                one = self._checked(i, model)
                self.used = one.place if self.used.why is None else self.used
                yield one
                self.zero += not one.reacts
                bar.advance()

    def _checked(self, i: int, model: nn.Module) -> GivenModel:
        probe, shape, output = self.probe, self.asked.shape, self.asked.output
        check_given_model(model, i)
        place = Resolved(probe, probe)
        if isinstance(probe, Origin):
            place = probe_used(probe, _frozen_copy(model), shape, output)
        points = place.probe.points(shape, self.count, derived_seed(self.asked.seed, "probe", i))
        points = points.to(next(model.parameters()).device, model_dtype(model))
        call = frozen(model)
        check_differentiable(call, points[:1], output, advice=ADVICE if isinstance(probe, Data) else SHAPE_ADVICE)
        check_deterministic(call, points[:3])
        return GivenModel(f"model {i}", model, call, place, points)

    def about(self) -> Provenance:
        """What is known of all of them."""
        names = ", ".join(sorted({name_of(unwrapped_model(m)) for m in self.models}))
        about = about_sample(names, self.asked, self.used, self.points)
        members = len(self.models)
        return replace(about, members=members, integration=GIVEN_MODELS, zero_share=self.zero / members)


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
    """Refuse lazy or broken weights, and batch norms through which samples see each other."""
    check_weights(model, f"model {i}")
    batch = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
    for name, module in model.named_modules():
        if isinstance(module, batch) and module.training:
            raise NetgrainError(
                f"batch norm '{name}' of model {i} is in train mode, where samples see each other; "
                "call model.eval() first."
            )


def _frozen_copy(model: nn.Module) -> nn.Module:
    model = unwrapped_model(model)
    # a copy of a scripted module cannot be frozen; it is only looked at, so it may be the model itself
    return model if isinstance(model, torch.jit.ScriptModule) else without_gradients(copy.deepcopy(model))
