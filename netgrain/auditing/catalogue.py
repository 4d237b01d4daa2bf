"""The catalogue: which changes of a network, of what stands before it, or of its family are worth a try.

Each kind of change is a function of what is known about the network, and gives candidates; a candidate that does not
run on the samples is left out and counted. Layers are edited where they stand as modules; options are changed where the
network is a built-in model; a change of size that a linear layer cannot take makes that layer anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.auditing import preprocessing
from netgrain.auditing.edits import Edited, fitted
from netgrain.auditing.known_network import Candidate, Change, Known, option_change
from netgrain.auditing.layer_changes import activations, gains, kernels, norms, paddings, pools, readouts, strides
from netgrain.auditing.model_options import with_options
from netgrain.data.scaling import channel_moments, channels
from netgrain.families.members import Family, forward, member, model_dtype
from netgrain.models.lenet import LeNet
from netgrain.models.mlp import MLP
from netgrain.models.resnet import ResNet18
from netgrain.models.vgg import VGG11
from netgrain.models.vit import ViT

OFF_STANDARD = 0.2  # means or deviations so far from 0 and 1 make data not standardised
SMALLEST_SIDE, LARGEST_SIDE = 8, 64  # of images that are made smaller or larger


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Changes that fit a network, and how many did not.

    Parameters
    ----------
    changes : tuple of Change
        In the order in which they are tried.
    unfit : int
        Candidates with which the network does not run.
    """

    changes: tuple[Change, ...]
    unfit: int


def before_the_input(known: Known) -> Iterator[Candidate]:
    """Scaling, whitening and filters, fitted on the samples without their labels."""
    X, image = known.X, len(known.shape) == 3
    table = math.prod(known.shape[1:]) == 1  # rows of a table, perhaps as images of one pixel

    def put(says: str, action: str, module: nn.Module) -> Candidate:
        family = fitted(Edited(known.make, {}, module), known.shape)
        where = "before the network; from netgrain.auditing.preprocessing"
        return None if family is None else Change(says, f"put {action} {where}", "preprocessing", family)

    view = channels(X)
    mean, std = channel_moments(X)
    if bool((mean.abs() > OFF_STANDARD * std.clamp(min=1e-9)).any()) or bool(((std - 1).abs() > OFF_STANDARD).any()):
        each = "feature" if table else "channel" if image and view.shape[1] > 1 else "entry alike"
        yield put(
            f"standardise each {each}" if each != "entry alike" else "standardise",
            "standardising(X_train)",
            preprocessing.standardising(X),
        )
    if 2 * X[0].numel() <= len(X):  # else the samples it is fitted to would look alike
        yield put("whitening", "whitening(X_train)", preprocessing.whitening(X))
    if not table:
        yield put("the same contrast for every sample", "EvenContrast()", preprocessing.EvenContrast())
        if not table and len(known.shape) in (2, 3) and min(known.shape[1:]) >= preprocessing.BOX:
            yield put("high-pass filter", "LocalMean()", preprocessing.LocalMean())
            yield put("low-pass filter", "LocalMean(high=False)", preprocessing.LocalMean(high=False))
        yield put(
            "standardise each pixel" if image else "standardise each entry",
            "standardising(X_train, each=True)",
            preprocessing.standardising(X, each=True),
        )


def resolutions(known: Known) -> Iterator[Candidate]:
    """Images at half and at twice their size."""
    if len(known.shape) == 3 and known.shape[1] == known.shape[2]:
        for size in (known.shape[1] // 2, 2 * known.shape[1]):
            if SMALLEST_SIDE <= size <= LARGEST_SIDE:
                yield resolution_change(known, size)


def resolution_change(known: Known, size: int) -> Candidate:
    """Images at another size, and the network made for it; None if it cannot be."""
    make, front = known.make, preprocessing.Resized(size)
    try:
        if "image_size" in known.options:
            make = with_options(make, image_size=size)
            family: Family | None = Edited(make, {}, front)
            with torch.no_grad():
                model = member(Edited(make, {}, front), 0, 0)
                shape = forward(model, torch.zeros(2, *known.shape, dtype=model_dtype(model))).shape
            family = family if shape[1] == known.outputs else None
        else:
            family = fitted(Edited(make, {}, front), known.shape)
    except Exception:  # the user's modules may raise anything
        return None
    says = f"images of {size} × {size}"
    return None if family is None else Change(says, f"resize the images (--size {size})", "resolution", family)


def sizes(known: Known) -> Iterator[Candidate]:
    """Width, depth, and patches of built-in models."""
    options = known.options
    if not options:
        return
    width = float(options["width"])
    yield option_change(known, "width", "twice the width", width=2 * width)
    if known.builtin is MLP:
        depth = int(options["depth"])
        for other in (depth + 1, depth - 1):
            if other >= 0:
                yield option_change(known, "depth", f"{other} hidden layers", depth=other)
    if known.builtin is ViT:
        patch, depth = int(options["patch"]), int(options["depth"])
        if patch >= 4:
            yield option_change(known, "kernel", f"patches of {patch // 2} × {patch // 2}", patch=patch // 2)
        if depth > 2:
            yield option_change(known, "depth", f"{depth // 2} blocks", depth=depth // 2)
        if not options["shifted_patches"]:
            yield option_change(known, "kernel", "patches with their shifts", shifted_patches=True)


def families(known: Known) -> Iterator[Candidate]:
    """Other built-in families for this input."""
    shape = known.shape
    square = len(shape) == 3 and shape[1] == shape[2]
    table = not square or shape[1] == 1
    sized: dict[str, Any] = {"channels": math.prod(shape), "image_size": 1, "outputs": known.outputs}
    if square:
        sized |= {"channels": shape[0], "image_size": shape[1]}
    offers: list[tuple[str, type[nn.Module], dict[str, Any]]] = [("mlp", MLP, {})]
    if not table:
        offers += [
            ("resnet18", ResNet18, {"width": 0.125, "norm": "batch"}),
            ("vgg11", VGG11, {"width": 0.125, "norm": "batch"}),
            ("lenet", LeNet, {}),
        ]
    for name, kind, options in offers:
        if known.builtin is kind or (kind is LeNet and shape[1] < 16):
            continue
        family = partial(kind, **sized, **options)
        text = name + (":" if options else "") + ",".join(f"{k}={v}" for k, v in options.items())
        yield Change(f"another family: {name}", f"use the model {text}", "family", family)


KINDS: tuple[Callable[[Known], Iterator[Candidate]], ...] = (
    *(pools, readouts, strides, before_the_input, families, norms, gains, activations),
    *(resolutions, kernels, paddings, sizes),
)


def catalogue(make: Family, X: Tensor) -> Catalogue:
    """Changes that may be tried on a family of networks.

    Parameters
    ----------
    make : callable
        Returns a fresh module on every call.
    X : Tensor of shape (samples, *input_shape)
        Samples, to which preprocessing is fitted.

    Returns
    -------
    Catalogue
        Those with which the network runs and has as many outputs, and the number of the others.

    See Also
    --------
    advise : Tries them.

    Examples
    --------
    >>> def make():
    ...     return nn.Sequential(nn.Conv1d(1, 4, 3), nn.ReLU(), nn.AvgPool1d(2), nn.Flatten(), nn.Linear(12, 2))
    >>> found = catalogue(make, torch.randn(30, 1, 8, generator=torch.Generator().manual_seed(0)))
    >>> found.changes[0].change, found.changes[0].action
    ('max pooling', "replace '2' by MaxPool1d((2,))")
    """
    known = Known(make, X)
    changes: list[Change] = []
    unfit = 0
    for kind in KINDS:
        for candidate in kind(known):
            if candidate is None:
                unfit += 1
            else:
                changes.append(candidate)
    return Catalogue(tuple(changes), unfit)
