"""A geometry on disk: one packed file, its provenance in the header."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from netgrain.families.convolution import ConvStem
from netgrain.geometry.cells import Cells, Partition
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.forms import Dense, Factored, Form
from netgrain.geometry.lattice import Lattice, ResidueClasses
from netgrain.geometry.probed import Probed
from netgrain.geometry.provenance import Provenance
from netgrain.geometry.standardised_forms import Centred, Contrasts
from netgrain.geometry.structured_forms import Kronecker, Separated, Spread
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.packed import read_packed, write_packed

LAYOUT = 2  # of the file; a newer one is refused, not guessed at
READABLE = (1, 2)  # layout 1 held sentences in the place of facts
KINDS = {"dense", "factored", "spread", "separated", "kronecker", "lattice", "probed", "centred", "contrasts"}
KINDS |= {"cells", "same"}
INSIDE = ("source", "core", "whole", "spread", "contrast", "mean")  # names of forms inside forms


T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Contents:
    """What a file holds of a geometry."""

    form: Form
    input_shape: tuple[int, ...]
    about: Provenance
    scale_error: float
    full_trace: Estimate | None
    full_rank: Estimate | None = None


def save(contents: Contents, path: str | Path) -> Path:
    tensors: dict[str, Tensor] = {}
    header = {
        "layout": LAYOUT,
        "input_shape": list(contents.input_shape),
        "scale_error": contents.scale_error,
        "full_trace": _as_list(contents.full_trace),
        "full_rank": _as_list(contents.full_rank),
        "about": asdict(contents.about),
        "form": _describe(contents.form, tensors, "", {}),
    }
    return write_packed(path, "geometry", header, tensors)


def load(path: str | Path, build: Callable[[Contents], T]) -> T:
    """build: makes the value of what was read; whatever it raises is told as a damaged file."""
    header, tensors = read_packed(path, "geometry")
    check_layout(header, path, READABLE, "use a matching version")
    try:
        found = _contents(header, tensors, path)
        _check_whole(found)
        return build(found)
    except NetgrainError:
        raise
    except Exception as e:  # a right checksum over a wrong content: any entry may be missing or of another kind
        raise NetgrainError(
            f"{path} does not hold a whole geometry ({type(e).__name__}: {e}); compute and save it again."
        ) from e


def check_layout(header: Mapping[str, Any], path: str | Path, readable: Sequence[int], way_out: str) -> None:
    """Refuse a file of a layout that is not known, and so only guessed at."""
    if header.get("layout") not in readable:
        known = " to ".join(map(str, readable))
        raise NetgrainError(f"{path} has file layout {header.get('layout')}, this netgrain reads {known}; {way_out}.")


def _contents(header: dict[str, Any], tensors: dict[str, Tensor], path: str | Path) -> Contents:
    if unknown := _kinds(header["form"]) - KINDS:
        raise NetgrainError(
            f"{path} holds a matrix of kind '{min(unknown)}', which this netgrain does not know; use a newer version."
        )
    return Contents(
        _rebuild(header["form"], tensors, "", {}),
        tuple(header["input_shape"]),
        Provenance.from_dict(header["about"]),
        float(header["scale_error"]),
        _from_list(header["full_trace"]),
        _from_list(header.get("full_rank")),  # older files have none
    )


def _as_list(number: Estimate | None) -> list[float] | None:
    return None if number is None else [number.value, number.stderr, number.n]


def _from_list(stored: list[float] | None) -> Estimate | None:
    return None if stored is None else Estimate(float(stored[0]), float(stored[1]), int(stored[2]))


def _check_whole(found: Contents) -> None:
    """Whether the parts fit together: one product with the matrix goes through all of them."""
    d = math.prod(found.input_shape)
    product = found.form.matvec(torch.ones(1, d, dtype=torch.float64))
    if d < 1 or found.form.size != d or tuple(product.shape) != (1, d) or not bool(torch.isfinite(product).all()):
        raise ValueError(f"a matrix of size {found.form.size} over inputs of shape {found.input_shape}")


def _describe(form: Form, tensors: dict[str, Tensor], prefix: str, written: dict[int, str]) -> dict[str, Any]:
    """A form as JSON, its tensors put into `tensors` under dotted names; one that stands in two places, once."""

    def keep(name: str, tensor: Tensor) -> None:
        # one tensor may stand in several forms, which safetensors refuses
        shared = any(tensor.data_ptr() == other.data_ptr() for other in tensors.values())
        tensors[prefix + name] = tensor.clone() if shared else tensor

    def inside(name: str) -> dict[str, Any]:
        return _describe(getattr(form, name), tensors, f"{prefix}{name}.", written)

    if id(form) in written:
        return {"kind": "same", "as": written[id(form)]}
    written[id(form)] = prefix
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
            "source": inside("source"),
        }
    if isinstance(form, Centred):
        return {
            "kind": "centred",
            "stem": asdict(form.stem),
            "spread": inside("spread"),
            "source": inside("source"),
        }
    if isinstance(form, Contrasts):
        keep("order", form.order)
        blocks = {name: inside(name) for name in ("contrast", "mean") if getattr(form, name) is not None}
        return {"kind": "contrasts", "copies": form.copies, **blocks}
    if isinstance(form, Kronecker):
        keep("order", form.order)
        return {"kind": "kronecker", "copies": form.copies, "core": inside("core")}
    if isinstance(form, Separated):
        for k, factor in enumerate(form.factors):
            keep(f"axis{k}", factor)
        return {"kind": "separated", "axes": len(form.factors)}
    if isinstance(form, Lattice):
        keep("blocks", form.blocks)
        keep("per_part", form.per_part)
        if form.pieces is not None:
            keep("pieces", form.pieces)
        return {"kind": "lattice", "grid": list(form.classes.grid), "period": list(form.classes.period)}
    if isinstance(form, Cells):
        keep("sums", form.sums)
        keep("per_part", form.per_part)
        if form.pieces is not None:
            keep("pieces", form.pieces)
        return {"kind": "cells", **asdict(form.partition)}
    if isinstance(form, Probed):
        for name in ("products", "traces", "per_part"):
            keep(name, getattr(form, name))
        return {"kind": "probed", "whole": inside("whole")}
    raise TypeError(f"no file layout for {type(form).__name__}")


def _kinds(spec: dict[str, Any]) -> set[str]:
    """The kinds of a described form and of those inside it."""
    inside = [_kinds(spec[name]) for name in INSIDE if name in spec]
    return {spec["kind"]}.union(*inside)


def _rebuild(spec: dict[str, Any], tensors: dict[str, Tensor], prefix: str, built: dict[str, Form]) -> Form:
    if spec["kind"] == "same":
        return built[spec["as"]]
    inside = {name: _rebuild(spec[name], tensors, f"{prefix}{name}.", built) for name in INSIDE if name in spec}
    built[prefix] = _built(spec, tensors, prefix, inside)
    return built[prefix]


def _built(spec: dict[str, Any], tensors: dict[str, Tensor], prefix: str, inside: dict[str, Form]) -> Form:
    if spec["kind"] == "dense":
        return Dense(tensors[prefix + "matrix"], tensors.get(prefix + "pieces"), tensors[prefix + "per_part"])
    if spec["kind"] == "factored":
        rows, per_part = tensors[prefix + "rows"], tensors[prefix + "per_part"]
        if rows.dim() != 2:
            raise ValueError(f"rows of shape {tuple(rows.shape)}")
        return Factored(rows, spec["scale"], per_part, tuple(spec["rows_per_part"]))
    if spec["kind"] == "spread":
        return Spread(inside["source"], _stem(spec["stem"]))
    if spec["kind"] == "centred":
        return Centred(inside["spread"], inside["source"], _stem(spec["stem"]))
    if spec["kind"] == "contrasts":
        return Contrasts(inside["contrast"], inside.get("mean"), spec["copies"], tensors[prefix + "order"])
    if spec["kind"] == "separated":
        return Separated(tuple(tensors[f"{prefix}axis{k}"] for k in range(spec["axes"])))
    if spec["kind"] == "lattice":
        classes = ResidueClasses(tuple(spec["grid"]), tuple(spec["period"]))
        blocks, pieces = tensors[prefix + "blocks"], tensors.get(prefix + "pieces")
        return Lattice(classes, blocks, pieces, tensors[prefix + "per_part"])
    if spec["kind"] == "cells":
        partition = Partition(*(tuple(spec[name]) for name in ("grid", "cell", "phases", "shift")))
        return Cells(partition, tensors[prefix + "sums"], tensors.get(prefix + "pieces"), tensors[prefix + "per_part"])
    if spec["kind"] == "probed":
        products, traces, per_part = (tensors[prefix + name] for name in ("products", "traces", "per_part"))
        return Probed(inside["whole"], products, traces, per_part)
    return Kronecker(inside["core"], spec["copies"], tensors[prefix + "order"])


def _stem(sizes: dict[str, Any]) -> ConvStem:
    return ConvStem(
        spatial=tuple(sizes["spatial"]),
        kernel=tuple(sizes["kernel"]),
        stride=tuple(sizes["stride"]),
        padding=tuple((lo, hi) for lo, hi in sizes["padding"]),
        dilation=tuple(sizes["dilation"]),
    )
