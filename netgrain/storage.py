"""A geometry on disk: one packed file, its provenance in the header."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from netgrain.errors import NetgrainError
from netgrain.estimate import Estimate
from netgrain.forms import Dense, Factored, Form, Kronecker, Spread
from netgrain.geometry import Geometry
from netgrain.packed import read_packed, write_packed
from netgrain.provenance import Provenance
from netgrain.separated import Separated
from netgrain.stem import ConvStem

LAYOUT = 1  # of the file; a newer one is refused, not guessed at
KINDS = {"dense", "factored", "spread", "separated", "kronecker"}


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
    return write_packed(path, "geometry", header, tensors)


def load(path: str | Path) -> Geometry:
    header, tensors = read_packed(path, "geometry")
    if header.get("layout") != LAYOUT:
        raise NetgrainError(
            f"{path} has file layout {header.get('layout')}, this netgrain reads {LAYOUT}; use a matching version."
        )
    if unknown := _kinds(header["form"]) - KINDS:
        raise NetgrainError(
            f"{path} holds a matrix of kind '{min(unknown)}', which this netgrain does not know; use a newer version."
        )
    trace = header["full_trace"]
    return Geometry(
        _rebuild(header["form"], tensors, ""),
        tuple(header["input_shape"]),
        Provenance.from_dict(header["about"]),
        header["scale_error"],
        None if trace is None else Estimate(trace[0], trace[1], trace[2]),
    )


def _describe(form: Form, tensors: dict[str, Tensor], prefix: str) -> dict[str, Any]:
    """A form as JSON, its tensors put into `tensors` under dotted names."""

    def keep(name: str, tensor: Tensor) -> None:
        tensors[prefix + name] = tensor

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
    if isinstance(form, Separated):
        for k, factor in enumerate(form.factors):
            keep(f"axis{k}", factor.clone())  # equal axes may share one tensor, which safetensors refuses
        return {"kind": "separated", "axes": len(form.factors)}
    raise TypeError(f"no file layout for {type(form).__name__}")


def _kinds(spec: dict[str, Any]) -> set[str]:
    """The kinds of a described form and of those inside it."""
    inside = [_kinds(spec[name]) for name in ("source", "core") if name in spec]
    return {spec["kind"]}.union(*inside)


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
    if spec["kind"] == "separated":
        return Separated(tuple(tensors[f"{prefix}axis{k}"] for k in range(spec["axes"])))
    return Kronecker(_rebuild(spec["core"], tensors, prefix + "core."), spec["copies"], tensors[prefix + "order"])
