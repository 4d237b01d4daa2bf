"""Geometries on disk: they come back whole, and what is not whole is refused."""

import struct
from pathlib import Path

import pytest
import torch

import netgrain as ng
from netgrain.families.convolution import ConvStem
from netgrain.geometry.cells import Cells, Partition
from netgrain.geometry.forms import Form
from netgrain.geometry.standardised_forms import Contrasts
from netgrain.geometry.streamed import StreamedReduction
from netgrain.geometry.structured_forms import Kronecker, Separated
from netgrain.runtime.packed import read_packed, write_packed
from tests.geometry.networks import _closed_form, _factors, _geometry, _separated, geometries


@pytest.mark.quick
def test_a_file_brings_everything_back(G: ng.Geometry, tmp_path: Path) -> None:
    path = G.save(tmp_path / "deep" / "G.safetensors")
    back = ng.Geometry.load(path)
    assert torch.equal(back.matrix(), G.matrix())
    assert (back.input_shape, back.about, back.trace.stderr) == (G.input_shape, G.about, G.trace.stderr)
    assert repr(back) == repr(G)
    assert [p.name for p in path.parent.iterdir()] == ["G.safetensors"]
    assert G.save(tmp_path / "again").read_bytes() == path.read_bytes()


def test_tampered_truncated_and_foreign_files_are_refused(tmp_path: Path) -> None:
    path = geometries()["dense"].save(tmp_path / "G.safetensors")
    content = path.read_bytes()
    cases = {
        "changed after it was written": content[:-3] + bytes([content[-3] ^ 1]) + content[-2:],
        "is damaged": content[: len(content) // 2],
        "not a geometry or is damaged": b"hello",
        "not a geometry or": b"",
    }
    for message, bad in cases.items():
        path.write_bytes(bad)
        with pytest.raises(ng.NetgrainError, match=message):
            ng.Geometry.load(path)
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(2)}, path)
    with pytest.raises(ng.NetgrainError, match="but not a geometry"):
        ng.Geometry.load(path)
    with pytest.raises(ng.NetgrainError, match="is not a file"):
        ng.Geometry.load(tmp_path / "nothing")


def test_a_changed_header_is_noticed(tmp_path: Path) -> None:
    path = geometries()["dense"].save(tmp_path / "G.safetensors")
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header = content[8 : 8 + size].replace(b'\\"members\\": 0', b'\\"members\\": 9')
    assert len(header) == size
    assert header != content[8 : 8 + size]
    path.write_bytes(content[:8] + header + content[8 + size :])
    with pytest.raises(ng.NetgrainError, match="checksum differs"):
        ng.Geometry.load(path)


@pytest.mark.parametrize("kind", ["dense", "factored"])
def test_a_right_checksum_over_a_wrong_content_is_refused(kind: str, tmp_path: Path) -> None:
    from netgrain.runtime.packed import read_packed, write_packed

    header, tensors = read_packed(geometries()[kind].save(tmp_path / "G.safetensors"), "geometry")
    name = next(n for n, t in tensors.items() if t.dim() == 2)
    spoiled = [
        *(({k: v for k, v in header.items() if k != key}, tensors) for key in ("form", "about", "input_shape")),
        (header | {"form": {"kind": []}}, tensors),
        (header | {"form": []}, tensors),
        (header | {"about": "x"}, tensors),
        (header | {"input_shape": [3, 2**40]}, tensors),
        (header | {"input_shape": ["x"]}, tensors),
        (header | {"full_trace": "x"}, tensors),
        (header | {"scale_error": None}, tensors),
        (header, {k: v for k, v in tensors.items() if k != name}),
        (header, tensors | {name: tensors[name].flatten()}),
        (header, tensors | {name: tensors[name][None]}),
        (header, tensors | {name: tensors[name][:, :-1].clone()}),
        (header, tensors | {name: tensors[name] * torch.nan}),
    ]
    for changed, parts in spoiled:
        path = write_packed(tmp_path / "other", "geometry", changed, parts)
        with pytest.raises(ng.NetgrainError, match="does not hold a whole geometry"):
            ng.Geometry.load(path)


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import os

    def full(_fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    G = geometries()["dense"]
    target = G.save(tmp_path / "G.safetensors")
    before = target.read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ng.NetgrainError, match="the disk is full"):
        G.flip().save(target)
    assert [p.name for p in tmp_path.iterdir()] == ["G.safetensors"]
    assert target.read_bytes() == before


SQUARE = _factors((4,), 2)[0]  # one tensor for both axes


@pytest.mark.parametrize(
    "form",
    [_separated((3, 4, 2)), Kronecker(_separated((4, 2)), 3, torch.arange(24)), Separated((SQUARE, SQUARE))],
)
def test_a_file_brings_it_back(form: Form, tmp_path: Path) -> None:
    G = _closed_form(form, (form.size,))
    back = ng.Geometry.load(G.save(tmp_path / "G.safetensors"))
    assert torch.equal(back.matrix(), G.matrix())
    assert type(back.form) is type(form)
    assert (repr(back), back.about) == (repr(G), G.about)


def test_a_form_that_stands_in_two_places_is_written_once(tmp_path: Path) -> None:
    G = geometries()["standardised"]
    path = G.save(tmp_path / "G.safetensors")
    _, tensors = read_packed(path, "geometry")
    assert [name for name in tensors if name.endswith("rows")] == ["contrast.source.rows"]
    assert torch.equal(ng.Geometry.load(path).matrix(), G.matrix())


def test_cells_behind_standardised_weights(tmp_path: Path) -> None:
    stem = ConvStem((8, 8), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))
    partition = Partition((8, 8), (4, 4), (2, 2), (1, 1))
    reduction = StreamedReduction(
        64, 1.0, stem=stem, grid=(8, 8), partitions=(partition,), standardised=(2, torch.arange(128)), goal=0.9999
    )
    torch.manual_seed(0)
    for _ in range(8):
        reduction.add(torch.randn(20, 64))
    form = reduction.finish()[0]
    assert isinstance(form, Contrasts)
    assert isinstance(form.contrast.whole.source, Cells)
    G = _geometry(form, (2, 8, 8))
    back = ng.Geometry.load(G.save(tmp_path / "G.safetensors"))
    assert torch.equal(back.matrix(), G.matrix())
    assert (repr(back), back.effective_rank) == (repr(G), G.effective_rank)
    assert back.form.mean.whole.spread is back.form.contrast.whole


def test_a_file_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    header = {
        "layout": 1,
        "input_shape": [2],
        "scale_error": 0.0,
        "full_trace": None,
        "about": {"method": "closed-form"},
        "form": {"kind": "kronecker", "copies": 2, "core": {"kind": "circulant"}},
    }
    path = write_packed(tmp_path / "G.safetensors", "geometry", header, {"order": torch.arange(2)})
    with pytest.raises(ng.NetgrainError, match=r"G\.safetensors holds a matrix of kind 'circulant'.*newer version"):
        ng.Geometry.load(path)
