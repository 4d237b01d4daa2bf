"""The families of timm, written `timm:NAME[:key=value,...]`: random initialisation, never downloaded weights.

Needs the extra [vision]. timm imports torchvision, and a torchvision that was built for another torch imports only
after the schemas of two operators are declared that its own library would have brought.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from netgrain.models.arguments import check_whole_number
from netgrain.runtime.errors import NetgrainError, did_you_mean, install

PREFIX = "timm"
MISSING = ("nms", "qnms")
_declared: list[torch.library.Library] = []  # a library that is collected takes its operators along


@dataclass(frozen=True)
class TimmFamily:
    """One architecture of timm; called, it returns a fresh module with the sizes that it takes filled in."""

    name: str

    def __call__(
        self, channels: int = 3, image_size: int | None = None, outputs: int = 10, **options: object
    ) -> nn.Module:
        """channels, outputs → timm's in_chans, num_classes; image_size → img_size where the architecture takes one."""
        owner = f"{PREFIX}:{self.name}"
        check_whole_number(owner, "channels", channels, "pass channels=3 for colour or channels=1 for grey images")
        check_whole_number(owner, "outputs", outputs, "pass the number of classes, such as 10")
        if "pretrained" in options or "checkpoint_path" in options:
            raise NetgrainError(
                f"{owner} is averaged over random initialisation, so it takes no pretrained weights; leave the option "
                "out, and use geometry_of(model, probe) for one trained model."
            )
        timm = import_timm(owner)
        sizes = {"in_chans": channels, "num_classes": outputs} | options
        asked = "img_size" in options
        if image_size is not None and not asked:
            try:
                return _built(timm, self.name, {"img_size": image_size} | sizes)
            except TypeError as e:  # the refusal of an unknown argument, before anything is built
                if "img_size" not in str(e):
                    raise _refusal(owner, e) from e
        try:
            return _built(timm, self.name, sizes)
        except TypeError as e:
            raise _refusal(owner, e) from e


def find_timm(spec: str) -> tuple[TimmFamily, str]:
    """The family that `timm:NAME[:options]` names, and the text of its options."""
    _, _, rest = spec.partition(":")
    name, _, text = rest.partition(":")
    name = name.strip()
    timm = import_timm(spec)
    known: list[str] = timm.list_models()
    if not name or not timm.is_model(name):
        guess = did_you_mean(name, known) if name else ""
        found = f"timm has no model called {name!r}" if name else f"{spec!r} names no model of timm"
        raise NetgrainError(f"{found}.{guess} It has {len(known)}: python -c 'import timm; print(timm.list_models())'.")
    return TimmFamily(name), text


def import_timm(spec: str) -> Any:
    """The module timm, or one sentence with the command that installs it."""
    try:
        _import_torchvision()
        return importlib.import_module("timm")
    except ImportError as e:
        if isinstance(e, ModuleNotFoundError) and e.name in ("timm", "torchvision"):
            raise NetgrainError(
                f"{spec!r} needs {e.name}, which is not installed; install it with: {install('vision')}."
            ) from e
        raise NetgrainError(f"{spec!r} needs timm, which cannot be imported here ({e}); install it anew.") from e


def _import_torchvision() -> None:
    before = set(sys.modules)
    try:
        importlib.import_module("torchvision")
        return
    except RuntimeError as e:
        if "torchvision::nms" not in str(e):
            raise ImportError(str(e)) from e
    for name in set(sys.modules) - before:  # the half that was imported
        if name.partition(".")[0] == "torchvision":
            del sys.modules[name]
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in MISSING:
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _declared.append(library)
    importlib.import_module("torchvision")


def _built(timm: Any, name: str, options: dict[str, object]) -> nn.Module:
    model: nn.Module = timm.create_model(name, pretrained=False, **options)
    return model


def _refusal(owner: str, error: TypeError) -> NetgrainError:
    return NetgrainError(f"{owner} could not be built ({error}); check its options.")
