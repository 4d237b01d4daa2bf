"""Geometry: spectrum, blocks, directions, flip, project, score, files."""

import itertools
import json
import math
import struct
from pathlib import Path

import pytest
import torch

import netgrain as ng
from netgrain.families.convolution import ConvStem
from netgrain.geometry.forms import Dense, Factored, Form
from netgrain.geometry.provenance import ProbeUsed, Provenance
from netgrain.geometry.structured_forms import Kronecker, Spread


def _psd(d: int, seed: int = 0) -> torch.Tensor:
    A = torch.randn(d, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return A @ A.T / d


def _rows(n: int, r: int, s: int) -> torch.Tensor:
    return torch.randn(n, r, s, generator=torch.Generator().manual_seed(s))


def _geometry(form: Form, shape: tuple[int, ...]) -> ng.Geometry:
    return ng.Geometry(
        form, shape, Provenance("sampled", model="test", members=form.parts, probe=ProbeUsed(used="origin"), seed=0)
    )


def geometries() -> dict[str, ng.Geometry]:
    stem = ConvStem((4, 4), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))
    order = torch.randperm(24, generator=torch.Generator().manual_seed(1))
    return {
        "dense": ng.Geometry.from_matrix(_psd(24), (2, 3, 4)),
        "factored": _geometry(Factored.of_members(_rows(9, 4, 24)), (2, 3, 4)),
        "low rank": _geometry(Factored.of_members(_rows(7, 1, 24)), (24,)),
        "kronecker": _geometry(Kronecker(Factored.of_members(_rows(9, 2, 8)), 3, order), (24,)),
        "spread": _geometry(
            Kronecker(Spread(Factored.of_members(_rows(8, 2, 16)), stem), 2, torch.arange(32)), (2, 4, 4)
        ),
        "batches": _geometry(
            Dense.from_pieces(torch.stack([_psd(24, i) for i in range(8)]), torch.arange(1, 9)), (24,)
        ),
    }


@pytest.fixture(params=list(geometries()))
def G(request: pytest.FixtureRequest) -> ng.Geometry:
    return geometries()[request.param]


@pytest.mark.quick
def test_eigenvalues_and_directions_diagonalise_the_matrix(G: ng.Geometry) -> None:
    M = G.matrix()
    expected = torch.linalg.eigvalsh(M).flip(0)
    known = len(G.eigenvalues)
    torch.testing.assert_close(G.eigenvalues, expected[:known], rtol=1e-6, atol=1e-8)
    assert float(expected[known:].abs().sum()) < 1e-8
    V = G.directions().flatten(1)
    torch.testing.assert_close(V @ V.T, torch.eye(G.d, dtype=torch.float64), rtol=1e-8, atol=1e-8)
    torch.testing.assert_close((V @ M @ V.T).diagonal(), expected, rtol=1e-6, atol=1e-8)
    assert G.directions(5).shape == (5, *G.input_shape)
    top, bottom = G.directions(4).flatten(1), G.directions(4, bottom=True).flatten(1)
    torch.testing.assert_close(top, V[:4], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close((bottom @ M @ bottom.T).diagonal(), expected[-4:], rtol=1e-6, atol=1e-8)


def test_blocks_cover_everything_once(G: ng.Geometry) -> None:
    blocks = G.blocks()
    assert blocks[0].start == 0
    assert all(a.stop == b.start for a, b in itertools.pairwise(blocks))
    assert blocks[-1].stop == G.d
    u = G.random_direction(blocks[0], seed=3)
    assert u.shape == G.input_shape
    Gu = G.matvec(u)
    torch.testing.assert_close(Gu, blocks[0].value * u, rtol=1e-6, atol=1e-8)
    assert not torch.equal(u, G.random_direction(blocks[0], seed=4)) or blocks[0].size == 1


def test_flip_reverses_the_order_and_undoes_itself(G: ng.Geometry) -> None:
    flipped = G.flip()
    back = flipped.flip().matrix()
    torch.testing.assert_close(back, G.matrix(), rtol=1e-6, atol=1e-8)
    top = G.directions(1)
    quadratic = float((top * flipped.matvec(top)).sum())
    assert quadratic == pytest.approx(float(torch.linalg.eigvalsh(G.matrix())[0].clamp(min=0)), abs=1e-8)


def test_flip_moves_blocks_as_wholes() -> None:
    flipped = ng.Geometry.from_matrix(torch.diag(torch.tensor([5.0, 2.0, 2.0, 2.0]))).flip()
    torch.testing.assert_close(flipped.matrix().diagonal(), torch.tensor([2.0, 5.0, 5.0, 5.0], dtype=torch.float64))


def test_project_score_and_covariance(G: ng.Geometry) -> None:
    X = torch.randn(6, *G.input_shape, generator=torch.Generator().manual_seed(9))
    S = ng.data_covariance(X)
    flat = X.flatten(1).double()
    M = G.matrix()
    torch.testing.assert_close(S.matrix(), flat.T @ flat)
    torch.testing.assert_close(G.project(S).matrix(), M @ S.matrix() @ M, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(G.project(S.matrix()).matrix(), M @ S.matrix() @ M, rtol=1e-6, atol=1e-8)
    expected = torch.stack([x @ M @ x / (x @ x) for x in flat])
    torch.testing.assert_close(G.score(X), expected, rtol=1e-6, atol=1e-9)
    centred = ng.data_covariance(X, centred=True, normalised=True).matrix()
    torch.testing.assert_close(centred, torch.cov(flat.T, correction=0), rtol=1e-5, atol=1e-6)


def test_numbers(G: ng.Geometry) -> None:
    M = G.matrix()
    assert G.trace.value == pytest.approx(float(M.trace()))
    rank = G.effective_rank
    naive_rank = float(M.trace() ** 2 / M.square().sum())
    assert rank.plug_in == pytest.approx(naive_rank)
    values = torch.linalg.eigvalsh(M).flip(0)
    assert G.directions_for(0.9) == int((values.cumsum(0) < 0.9 * values.sum()).sum()) + 1
    summary = json.loads(json.dumps(G.summary()))
    assert summary["d"] == G.d
    assert f"d={G.d}" in repr(G)


def test_eigenvalue_errors_are_those_of_the_parts(G: ng.Geometry) -> None:
    errors = G.eigenvalue_errors(5)
    if G.form.parts == 0:
        assert torch.equal(errors, torch.zeros(5, dtype=torch.float64))
        return
    V = G.directions(5).flatten(1)
    n = G.form.counts.double()
    along = torch.stack([(V @ G.form.part(i).dense() * V).sum(1) for i in range(G.form.parts)])
    mean = (n[:, None] * along).sum(0) / n.sum()
    expected = ((n[:, None] * (along - mean).square()).sum(0) / n.sum() / (len(n) - 1)).sqrt()
    torch.testing.assert_close(errors, expected, rtol=1e-6, atol=1e-10)


def test_condition() -> None:
    assert ng.Geometry.from_matrix(torch.diag(torch.tensor([8.0, 2.0]))).condition == pytest.approx(4)
    assert math.isinf(ng.Geometry.from_matrix(torch.diag(torch.tensor([8.0, 0.0]))).condition)


def test_the_basis_of_a_block_depends_on_its_space_alone() -> None:
    values = torch.tensor([3.0, 3.0, 3.0, 1.0, 1.0, 0.5], dtype=torch.float64)
    q = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))[0]
    turn = torch.eye(6, dtype=torch.float64)
    turn[:3, :3] = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))[
        0
    ]
    other = turn @ q.T
    A = ng.Geometry.from_matrix((q * values) @ q.T)
    B = ng.Geometry.from_matrix((other.T * values) @ other)
    torch.testing.assert_close(A.directions(), B.directions(), rtol=1e-6, atol=1e-6)


def test_lanczos_finds_the_same_leading_directions() -> None:
    d = 2000
    values = 2.0 ** -torch.arange(d, dtype=torch.float64).clamp(max=40)
    rows = torch.zeros(3000, d)
    rows[:d] = torch.diag(values.sqrt())
    G = _geometry(Factored(rows), (d,))
    V = G.directions(6)
    torch.testing.assert_close(V.abs(), torch.eye(d, dtype=torch.float64)[:6], rtol=1e-5, atol=1e-5)


# --- files ------------------------------------------------------------------------------------------------------------


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


def test_bad_arguments() -> None:
    G = geometries()["dense"]
    for call, message in {
        lambda: G.directions(0): "between 1 and 24",
        lambda: G.directions(25): "between 1 and 24",
        lambda: G.matvec(torch.zeros(7)): "expected vectors of shape",
        lambda: G.project(torch.eye(3)): "24-dimensional, S is 3-dimensional",
        lambda: ng.Geometry.from_matrix(torch.tensor([[1.0, 2.0], [0.0, 1.0]])): "symmetric",
        lambda: ng.Geometry.from_matrix(torch.zeros(2, 3)): "square",
        lambda: ng.Geometry.from_matrix(torch.eye(4), (3,)): "does not fit",
        lambda: ng.data_covariance(torch.zeros(3, 2, dtype=torch.int64)): "floating-point",
    }.items():
        with pytest.raises(ng.NetgrainError, match=message):
            call()
