"""A geometry on disk: one safetensors file, its provenance as JSON in the header, a checksum over both."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor

from netgrain.errors import NetgrainError
from netgrain.estimate import Estimate
from netgrain.files import write_whole
from netgrain.forms import Dense, Factored, Form, Kronecker, Spread
from netgrain.geometry import Geometry
from netgrain.provenance import Provenance
from netgrain.stem import ConvStem

LAYOUT = 1  # of the file; a newer one is refused, not guessed at


def save(geometry: Geometry, path: str | Path) -> Path:
    tensors: dict[str, Tensor] = {}
    trace = geometry.full_trace
    header = {
        "layout": LAYOUT,
        "input_shape": list(geometry.input_shape),
        "scale_error": geometry.scale_error,
        "full_trace": None if trace is None else [trace.value, trace.stderr, trace.n],
        "about": asdict(geometry.about),
        "form": _describe(geometry.form, tensors, ""),
    }
    header["sha256"] = _checksum(header, tensors)
    # one entry only: the order of several would differ from run to run, and with it the bytes
    return write_whole(path, to_bytes(tensors, metadata={"netgrain": json.dumps(header, sort_keys=True)}))


def load(path: str | Path) -> Geometry:
    path = Path(path)
    if not path.is_file():
        raise NetgrainError(f"{path} is not a file; expected a geometry written by Geometry.save.")
    try:
        with safe_open(path, framework="pt") as f:
            metadata = f.metadata() or {}
            names = list(f.keys())
            tensors = {name: f.get_tensor(name) for name in names}
    except (SafetensorError, OSError, ValueError) as e:
        raise NetgrainError(f"{path} is not a geometry or is damaged ({e}); write it again with Geometry.save.") from e
    if "netgrain" not in metadata:
        raise NetgrainError(f"{path} is a safetensors file but not a geometry; expected one written by Geometry.save.")
    try:
        header = dict(json.loads(metadata["netgrain"]))
    except (ValueError, TypeError) as e:
        raise NetgrainError(f"{path} has a damaged header; compute it again.") from e
    if header.pop("sha256", None) != _checksum(header, tensors):
        raise NetgrainError(f"{path} was changed after it was written (its checksum differs); compute it again.")
    if header.get("layout") != LAYOUT:
        raise NetgrainError(
            f"{path} has file layout {header.get('layout')}, this netgrain reads {LAYOUT}; use a matching version."
        )
    trace = header["full_trace"]
    return Geometry(
        _rebuild(header["form"], tensors, ""),
        tuple(header["input_shape"]),
        Provenance.from_dict(header["about"]),
        header["scale_error"],
        None if trace is None else Estimate(trace[0], trace[1], trace[2]),
    )


def _checksum(header: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name}{tensor.dtype}{tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _describe(form: Form, tensors: dict[str, Tensor], prefix: str) -> dict[str, Any]:
    """A form as JSON, its tensors put into `tensors` under dotted names."""

    def keep(name: str, tensor: Tensor) -> None:
        tensors[prefix + name] = tensor.detach().cpu().contiguous()

    if isinstance(form, Dense):
        keep("matrix", form.matrix)
        keep("per_part", form.per_part)
        if form.pieces is not None:
            keep("pieces", form.pieces)
        return {"kind": "dense"}
    if isinstance(form, Factored):
        keep("rows", form.rows)
        keep("per_part", form.per_part)
        return {"kind": "factored", "scale": form.scale, "rows_per_part": list(form.rows_per_part)}
    if isinstance(form, Spread):
        return {
            "kind": "spread",
            "stem": asdict(form.stem),
            "source": _describe(form.source, tensors, prefix + "source."),
        }
    if isinstance(form, Kronecker):
        keep("order", form.order)
        return {"kind": "kronecker", "copies": form.copies, "core": _describe(form.core, tensors, prefix + "core.")}
    raise TypeError(f"no file layout for {type(form).__name__}")


def _rebuild(spec: dict[str, Any], tensors: dict[str, Tensor], prefix: str) -> Form:
    if spec["kind"] == "dense":
        return Dense(tensors[prefix + "matrix"], tensors.get(prefix + "pieces"), tensors[prefix + "per_part"])
    if spec["kind"] == "factored":
        rows, per_part = tensors[prefix + "rows"], tensors[prefix + "per_part"]
        return Factored(rows, spec["scale"], per_part, tuple(spec["rows_per_part"]))
    if spec["kind"] == "spread":
        sizes = spec["stem"]
        stem = ConvStem(
            spatial=tuple(sizes["spatial"]),
            kernel=tuple(sizes["kernel"]),
            stride=tuple(sizes["stride"]),
            padding=tuple((lo, hi) for lo, hi in sizes["padding"]),
            dilation=tuple(sizes["dilation"]),
        )
        return Spread(_rebuild(spec["source"], tensors, prefix + "source."), stem)
    return Kronecker(_rebuild(spec["core"], tensors, prefix + "core."), spec["copies"], tensors[prefix + "order"])
