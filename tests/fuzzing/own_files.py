"""Files that netgrain itself writes (geometries, golden files, run folders), and weights that torch does."""

from __future__ import annotations

import io
import json
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.fuzzing.rules import Failure, Random, Target, check_sentence, each, untouched
from tests.fuzzing.spoiling import mutated, spoiled_json

Packed = tuple[str, Any, dict[str, torch.Tensor]]  # kind, header, tensors


@cache
def _geometries() -> tuple[Packed, ...]:
    """Headers and tensors of one geometry of each form."""
    from functools import partial

    import netgrain as ng
    from netgrain.models import LeNet
    from netgrain.runtime.packed import read_packed

    conv = partial(LeNet, channels=1, image_size=16, width=0.5)
    made = [
        ng.Geometry.from_matrix(torch.diag(torch.tensor([3.0, 1.0, 0.0]))),
        ng.average_geometry(lambda: nn.Sequential(nn.Linear(4, 2), nn.Tanh()), (4,), members=4, progress=False),
        ng.average_geometry(
            lambda: nn.Sequential(nn.Linear(4, 2)), (4,), members=4, first_layer="never", progress=False
        ),
        ng.average_geometry(conv, (1, 16, 16), members=2, progress=False),
        ng.average_geometry(conv, (1, 16, 16), progress=False),
    ]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for G in made:
            header, tensors = read_packed(G.save(Path(folder) / "g"), "geometry")
            found.append(("geometry", header, tensors))
    return tuple(found)


@cache
def _golden() -> Packed:
    from netgrain.geometry.golden import write_golden
    from netgrain.runtime.packed import read_packed

    with tempfile.TemporaryDirectory() as folder:
        return "golden geometry", *read_packed(
            write_golden(small_net, Path(folder) / "g", input_shape=(4,)), "golden geometry"
        )


def small_net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 2))


UNIT = {"a": 1, "of": "fuzz"}


def _unit() -> Packed:
    return "unit", {"config": UNIT, "numbers": {"x": 1.0}}, {"t": torch.arange(3.0)}


def draw_packed(rng: Random, packed: Packed, sealed: bool = True) -> bytes:
    """A file with a right checksum over spoiled content, or (always with sealed=False) a spoiled file."""
    from netgrain.runtime.packed import write_packed

    kind, header, tensors = packed
    if sealed and rng.random() < 0.6:
        if rng.random() < 0.7:
            header = spoiled_json(header, rng)
            header = header if isinstance(header, dict) else {}
        if rng.random() < 0.5:
            tensors = _spoiled_tensors(tensors, rng)
    with tempfile.TemporaryDirectory() as folder:
        content = write_packed(Path(folder) / "f", kind, header, tensors).read_bytes()
    return mutated(content, rng) if rng.random() < 0.4 else content


def _spoiled_tensors(tensors: dict[str, torch.Tensor], rng: Random) -> dict[str, torch.Tensor]:
    if not tensors:
        return {"x": torch.zeros(1)}
    name = rng.choice(sorted(tensors))
    t = tensors[name]
    changes: list[Callable[[], torch.Tensor]] = [
        lambda: t.to(rng.choice((torch.float16, torch.int8, torch.bool, torch.bfloat16))),
        lambda: t.flatten(),
        lambda: t[:0],
        lambda: t.new_zeros(()),
        lambda: t[None],
        lambda: torch.full_like(t.double(), rng.choice((float("nan"), float("inf"), -1.0, 1e300))),
        lambda: t.flatten()[:-1],
    ]
    if rng.random() < 0.15:
        return {k: v for k, v in tensors.items() if k != name}
    return tensors | {name: rng.choice(changes)().clone() if t.dim() else torch.zeros(3)}


def run_geometry(content: bytes, folder: Path) -> bool:
    import netgrain as ng

    file = folder / "geometry.safetensors"
    file.write_bytes(content)
    with untouched(folder):
        G = ng.Geometry.load(file)
        repr(G)
        G.matvec(torch.ones(G.d))
        len(G.eigenvalues)
    return True


def run_golden(content: bytes, folder: Path) -> bool:
    from netgrain.geometry.golden import assert_same_grain

    file = folder / "golden.safetensors"
    file.write_bytes(content)
    with untouched(folder):
        try:
            assert_same_grain(small_net, file)
        except AssertionError as e:  # the documented answer: another geometry
            check_sentence(str(e))
    return True


def draw_run(rng: Random, sealed: bool = False) -> tuple[bytes, bytes]:
    """run.json and one unit, one of them spoiled; sealed: the unit has a right checksum over a spoiled content."""
    from netgrain.runtime.versions import versions

    about = {
        "experiment": "fuzz",
        "scale": "smoke",
        "config": {"a": 1},
        "layout": 1,
        "versions": versions(),
        "hardware": {},
    }
    text = json.dumps(about).encode()
    if rng.random() < 0.5:
        spoil = sealed and rng.random() < 0.5
        text = json.dumps(spoiled_json(about, rng)).encode() if spoil else mutated(text, rng)
    return text, draw_packed(rng, _unit(), sealed)


def run_run(value: tuple[bytes, bytes], folder: Path, sealed: bool = False) -> bool:
    from netgrain.experiments.registry import conclude_again
    from netgrain.runtime.local import Local
    from netgrain.runtime.run_folder import RunFolder
    from netgrain.runtime.runners import Runner
    from netgrain.runtime.units import Outcome, Unit

    path = folder / "run"
    unit = path / "units" / f"{Unit(UNIT).id}.safetensors"
    unit.parent.mkdir(parents=True)
    (path / "run.json").write_bytes(value[0])
    unit.write_bytes(value[1])

    def use(opened: RunFolder) -> None:
        with opened:
            found = Runner(opened, Local(), progress=False).map(lambda config: Outcome({"x": 2.0}), [UNIT])
            if found[0].numbers not in ({"x": 1.0}, {"x": 2.0}) and not isinstance(found[0].numbers, dict):
                raise Failure(f"a unit with numbers {found[0].numbers!r} was believed")
            opened.core_seconds()

    with untouched(folder):
        first = each(lambda: use(RunFolder.open(path)))
        if sealed:
            first |= each(lambda: conclude_again(path))
    asked: dict[str, Any] = {"experiment": "fuzz", "scale": "smoke", "config": {"a": 1}}
    again = each(lambda: use(RunFolder.create(path, **asked, resume=True)))
    if left := [p for p in path.rglob("*") if p.suffix in (".tmp", ".part")]:
        raise Failure(f"left behind: {left}")
    return first or again


def draw_weights(rng: Random) -> tuple[bytes, str]:
    from safetensors.torch import save

    state: Any = {k: v.clone() for k, v in small_net().state_dict().items()}
    if rng.random() < 0.5:
        state = _spoiled_tensors(state, rng)
    if rng.random() < 0.4:
        content = save(state)
        return (mutated(content, rng) if rng.random() < 0.6 else content), "w.safetensors"
    shapes: list[Any] = [state, {"state_dict": state}, {"model": state}, {"state_dict": 3}, [state], 7, "x", None]
    shapes += [{"a": "b"}, {1: torch.zeros(2)}, {"state_dict": {"state_dict": state}}, {**state, "epoch": 3}, {}]
    shapes += [
        {"0.weight": torch.zeros(2, 4).to_sparse(), "0.bias": torch.zeros(2)},
        {"0.weight": torch.zeros(2, 4, dtype=torch.complex64)},
    ]
    buffer = io.BytesIO()
    torch.save(
        state if rng.random() < 0.4 else rng.choice(shapes), buffer, _use_new_zipfile_serialization=rng.random() < 0.6
    )
    content = buffer.getvalue()
    return (mutated(content, rng) if rng.random() < 0.6 else content), rng.choice(("w.pt", "w.pth", "w"))


def run_weights(value: tuple[bytes, str], folder: Path) -> bool:
    from netgrain.families.members import trained_model
    from netgrain.models.checkpoints import read_weights

    content, name = value
    file = folder / name
    file.write_bytes(content)
    with untouched(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about its own old formats
        return each(lambda: trained_model(small_net, read_weights(file)))


def _draw_geometry(rng: Random) -> bytes:
    return draw_packed(rng, rng.choice(_geometries()))


TARGETS = (
    Target("geometry", _draw_geometry, run_geometry),
    Target("golden", lambda rng: draw_packed(rng, _golden()), run_golden),
    Target("run folder", draw_run, run_run),
    Target("sealed run", lambda rng: draw_run(rng, sealed=True), lambda v, f: run_run(v, f, sealed=True)),
    Target("weights", draw_weights, run_weights),
)
