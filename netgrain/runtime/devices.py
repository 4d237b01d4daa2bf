"""Devices: the best one, one by name, and the widest number type it has."""

from __future__ import annotations

import os

import torch
from torch import Tensor

from netgrain.runtime.errors import NetgrainError


def best_device() -> torch.device:
    """A CUDA GPU where there is one; MPS, which lacks float64 and some operations, only where it is asked for.

    The environment variable NETGRAIN_DEVICE names another.
    """
    if asked := os.environ.get("NETGRAIN_DEVICE"):
        return checked_device(asked)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def checked_device(asked: torch.device | str) -> torch.device:
    """The device that a text names, if it is there."""
    try:
        device = torch.device(asked)
    except (RuntimeError, TypeError) as e:
        raise NetgrainError(f"'{asked}' is not a device; expected cpu, cuda, cuda:1 or mps.") from e
    if not is_there(device.type):
        raise NetgrainError(f"device '{asked}' is not available to this PyTorch ({torch.__version__}); use cpu.")
    return device


def is_there(kind: str) -> bool:
    """Whether this machine has such a device."""
    here = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    return here.get(kind, False)


def in_double(t: Tensor) -> Tensor:
    """t in float64 where it lives; on the CPU for MPS, which has no float64."""
    return (t.cpu() if t.device.type == "mps" else t).double()


def widest(device: torch.device) -> torch.dtype:
    """float64, or what a device that has none offers."""
    return torch.float32 if device.type == "mps" else torch.float64
