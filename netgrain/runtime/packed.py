"""Tensors and a JSON header in one safetensors file, with a checksum over both; written whole or not at all."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from netgrain.runtime.arguments import found
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.files import is_file, write_whole


def write_packed(path: str | Path, kind: str, header: dict[str, Any], tensors: dict[str, Tensor]) -> Path:
    """kind names what the file is ("geometry", "unit"); the same content gives the same bytes."""
    tensors = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    whole = {**header, "kind": kind}
    whole["sha256"] = _checksum(whole, tensors)
    # one entry only: the order of several would differ from run to run, and with it the bytes
    return write_whole(path, to_bytes(tensors, metadata={"netgrain": json.dumps(whole, sort_keys=True)}))


def read_packed(path: str | Path, kind: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors of a file of this kind; anything else is refused with a sentence."""
    if not isinstance(path, str | Path):
        raise NetgrainError(f"expected the path of a file, found {found(path)}.")
    path = Path(path)
    if not is_file(path):
        raise NetgrainError(f"{path} is not a file; expected a {kind} written by netgrain.")
    try:
        with safe_open(path, framework="pt") as f:
            metadata = f.metadata() or {}
            names = list(f.keys())
            tensors = {name: f.get_tensor(name) for name in names}
    except (SafetensorError, OSError, ValueError) as e:
        raise NetgrainError(f"{path} is not a {kind} or is damaged ({e}); write it again.") from e
    if "netgrain" not in metadata:
        raise NetgrainError(f"{path} is a safetensors file but not a {kind}; expected one written by netgrain.")
    try:
        header = dict(json.loads(metadata["netgrain"]))
    except (ValueError, TypeError) as e:
        raise NetgrainError(f"{path} has a damaged header; compute it again.") from e
    if header.pop("sha256", None) != _checksum(header, tensors):
        raise NetgrainError(f"{path} was changed after it was written (its checksum differs); compute it again.")
    if header.pop("kind", None) != kind:
        raise NetgrainError(f"{path} was written by netgrain but is not a {kind}.")
    return header, tensors


def _checksum(header: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name}{tensor.dtype}{tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
