"""Finite groups: laws of tables, irreps by every route, the Fourier transform. Nothing here depends on a basis."""

import copy
import itertools
import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import Result
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from typer.testing import CliRunner

from netgrain.cli import app as cli
from netgrain.groups import (
    Group,
    alternating,
    class_algebra,
    cyclic,
    dicyclic,
    dihedral,
    direct,
    from_cayley,
    from_matrices,
    from_permutations,
    irreps,
    linear_action,
    p4m,
    parse,
    planes_by_quaternions,
    quaternion,
    semidirect,
    symmetric,
)
from netgrain.groups import axioms as laws
from netgrain.groups import transform_choice as planning
from netgrain.groups.mackey import Mackey
from netgrain.groups.quilt import coset_order, quilt
from netgrain.groups.transforms import FFT, DenseTransform, Product
from netgrain.runtime.errors import NetgrainError

TOLERANCE = 1e-10
NAMES = ("C12", "D8", "Q8", "A5", "S5", "D60", "D64", "C3xC3xD8", "C5xC5:Q8", "C10xC10xC2")
DIMENSIONS = {
    "C12": {1: 12},
    "D8": {1: 4, 2: 1},
    "Q8": {1: 4, 2: 1},
    "A5": {1: 1, 3: 2, 4: 1, 5: 1},
    "S5": {1: 2, 4: 2, 5: 2, 6: 1},
    "D60": {1: 4, 2: 14},
    "D64": {1: 4, 2: 15},
    "C3xC3xD8": {1: 36, 2: 9},
    "C5xC5:Q8": {1: 4, 2: 1, 8: 3},
    "C10xC10xC2": {1: 200},
}
BUILT = {name: parse(name) for name in NAMES}
BARE = {name: from_cayley(group.cayley, name=name) for name, group in BUILT.items()}  # the structure forgotten
EVERY = [*BUILT.values(), *BARE.values()]
every_group = pytest.mark.parametrize(
    "G", EVERY, ids=[f"{G.name}-{kind}" for kind, some in (("built", BUILT), ("bare", BARE)) for G in some.values()]
)


def signals(G: Group, *batch: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*batch, G.order, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def convolution(G: Group, f: Tensor, h: Tensor) -> Tensor:
    """The definition, one sum at a time."""
    T, inverse, n = G.cayley, G.inverse, G.order
    return torch.stack([sum(f[T[u, inverse[v]]] * h[v] for v in range(n)) for u in range(n)])


def correlation(G: Group, x: Tensor, w: Tensor) -> Tensor:
    return torch.stack([sum(x[G.cayley[u, v]] * w[v] for v in range(G.order)) for u in range(G.order)])


# the group itself


@every_group
def test_index_zero_is_the_identity_and_inverses_invert(G: Group) -> None:
    every = torch.arange(G.order)
    assert torch.equal(G.cayley[0], every)
    assert torch.equal(G.cayley[:, 0], every)
    assert torch.equal(G.cayley[every, G.inverse], torch.zeros(G.order, dtype=torch.int64))
    assert torch.equal(G.multiply(every[:, None], every), G.cayley)


@every_group
def test_classes_are_the_orbits_of_conjugation(G: Group) -> None:
    T, inverse = G.cayley, G.inverse
    found = {frozenset(c.tolist()) for c in G.classes}
    assert found == {frozenset(T[T[:, x], inverse].tolist()) for x in range(G.order)}
    assert [int(c[0]) for c in G.classes] == sorted(int(c.min()) for c in G.classes)


@every_group
def test_names_are_different_and_generators_generate(G: Group) -> None:
    assert len(set(G.names)) == G.order
    assert laws.closure([0], G.generators, G.order, G.structure.multiply).all()


def test_dihedral_index() -> None:
    G = dihedral(order=8)
    assert G.names == ("e", "s", "r", "rs", "r^2", "r^2s", "r^3", "r^3s")
    r, s = 2, 1
    assert G.cayley[s, r] == 7  # sr = r³s


def test_quaternion_names_multiply_as_they_should() -> None:
    G = quaternion()
    at = {name: i for i, name in enumerate(G.names)}
    for a, b, c in (("i", "j", "k"), ("j", "k", "i"), ("k", "i", "j"), ("i", "i", "-1"), ("j", "i", "-k")):
        assert G.names[G.cayley[at[a], at[b]]] == c


def test_permutations_multiply_as_functions() -> None:
    G = symmetric(4)
    at = {name: i for i, name in enumerate(G.names)}
    assert G.names[G.cayley[at["(0 1)"], at["(1 2)"]]] == "(0 1 2)"  # 2 → 1 → 0
    assert G.class_orders == tuple(math.lcm(*map(len, _cycles(G.names[int(c[0])]))) for c in G.classes)


def _cycles(name: str) -> list[list[str]]:
    return [part.split() for part in name.replace("e", "(0)").strip("()").split(")(")]


@pytest.mark.parametrize(
    ("group", "order"),
    [
        (symmetric(1), 1),
        (symmetric(2), 2),
        (alternating(2), 1),
        (alternating(3), 3),
        (alternating(4), 12),
        (dihedral(order=2), 2),
        (dihedral(order=4), 4),
        (dicyclic(order=4), 4),
        (dicyclic(order=12), 12),
        (quaternion(order=16), 16),
        (cyclic(1), 1),
        (p4m(1), 8),
        (p4m(3), 72),
        (from_matrices([[[1, 1], [0, 1]], [[0, 1], [-1, 0]]], modulus=3), 24),  # SL(2, 3)
    ],
    ids=lambda value: value.name if isinstance(value, Group) else None,
)
def test_small_and_odd_groups(group: Group, order: int) -> None:
    assert group.order == order
    check_representation(group)
    check_representation(from_cayley(group.cayley))


def test_reordered_group_is_the_authors_d8() -> None:
    D8, order = dihedral(order=8), [0, 4, 2, 6, 1, 5, 7, 3]  # e, r², r, r³, s, sr² , sr, sr³
    G = D8.reorder(order)
    assert G.names[:4] == ("e", "r^2", "r", "r^3")
    f = signals(D8)
    mine = sorted(torch.cat(D8.fourier(f).singular_values()).tolist())
    theirs = sorted(torch.cat(G.fourier(f[order]).singular_values()).tolist())
    assert mine == pytest.approx(theirs, abs=TOLERANCE)


def test_a_group_travels_and_is_not_copied() -> None:
    for G in (BUILT["C5xC5:Q8"], BARE["D8"], BUILT["S5"]):
        there = pickle.loads(pickle.dumps(G))  # noqa: S301
        assert there.names == G.names
        assert torch.equal(there.cayley, G.cayley)
        assert torch.equal(there.character_table, G.character_table)
        assert copy.deepcopy(G) is G


# irreps


def check_representation(G: Group) -> None:
    """Every law of spec 2.6 that speaks of irreps."""
    n, T = G.order, G.cayley
    assert len(G.irreps) == len(G.classes)
    assert sum(irrep.dimension**2 for irrep in G.irreps) == n
    rows = []
    for d in sorted(set(G.dimensions)):
        same = [irrep for irrep in G.irreps if irrep.dimension == d]
        rho = torch.stack([irrep.matrices for irrep in same])  # (irreps, n, d, d)
        assert n % d == 0
        assert rho.dtype == torch.complex128
        assert rho.shape == (len(same), n, d, d)
        assert (rho @ rho.mH - torch.eye(d)).abs().max() < TOLERANCE
        for a in range(n):
            assert (rho[:, T[a]] - rho[:, a, None] @ rho).abs().max() < TOLERANCE
        characters = torch.stack([irrep.character for irrep in same])
        assert (characters - rho.diagonal(dim1=-2, dim2=-1).sum(-1)).abs().max() < TOLERANCE
        rows += [math.sqrt(d / n) * one.flatten(1).T for one in rho]
    F = torch.cat(rows)
    torch.testing.assert_close(F @ F.mH, torch.eye(n).to(F), atol=TOLERANCE, rtol=0)  # Schur, irreducibility
    table, sizes = G.character_table, torch.tensor([float(len(c)) for c in G.classes]).to(torch.complex128)
    first = [int(c[0]) for c in G.classes]
    torch.testing.assert_close(table, torch.stack([r.character[first] for r in G.irreps]), atol=TOLERANCE, rtol=0)
    identity = torch.eye(len(first)).to(table)
    torch.testing.assert_close(table * sizes @ table.mH / n, identity, atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(table.mH @ table * sizes / n, identity, atol=TOLERANCE, rtol=0)
    assert torch.allclose(table[0], torch.ones_like(table[0]))  # the trivial irrep is first
    assert [r.dimension for r in G.irreps] == sorted(r.dimension for r in G.irreps)
    involutions = int((T.diagonal() == 0).sum())
    assert sum(r.frobenius_schur * r.dimension for r in G.irreps) == involutions
    for irrep in G.irreps:
        mean = irrep.character[T.diagonal()].mean()
        assert abs(mean - irrep.frobenius_schur) < TOLERANCE


@every_group
def test_irreps(G: Group) -> None:
    found = {d: G.dimensions.count(d) for d in sorted(set(G.dimensions))}
    assert found == DIMENSIONS[G.name]
    check_representation(G)


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_irreps_is_that_of_the_table_not_of_the_route(name: str) -> None:
    torch.testing.assert_close(BUILT[name].character_table, BARE[name].character_table, atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", ["D8", "A5", "S5", "D60", "C5xC5:Q8"])
def test_algorithms_a_and_b_agree(name: str) -> None:
    G = BARE[name]
    found = class_algebra.split_isotypic(G.structure, G._labels)
    assert max(irreps.homomorphism_error(G.structure, rho) for rho in found) < TOLERANCE
    characters = np.stack([np.trace(rho, axis1=1, axis2=2) for rho in found])
    mine = np.stack([irrep.character.numpy() for irrep in G.irreps])
    overlap = np.abs(characters.conj() @ mine.T) / G.order
    assert np.allclose(np.sort(overlap, axis=1)[:, -1], 1, atol=TOLERANCE)
    assert np.allclose(overlap.sum(axis=0), 1, atol=1e-8)


def test_algorithm_b_serves_large_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "SPLIT_REGULAR", 10)
    check_representation(from_cayley(BUILT["S5"].cayley))


def test_a_bad_draw_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    cuts = irreps._cuts

    def first_merged(values: np.ndarray) -> np.ndarray:
        calls.append(1)
        return cuts(values)[1:] if len(calls) == 1 else cuts(values)

    monkeypatch.setattr(irreps, "_cuts", first_merged)
    G = dihedral(order=12)
    found = irreps.split_regular(from_cayley(G.cayley).structure, G._labels)
    assert len(calls) == 2
    assert sorted(rho.shape[-1] for rho in found) == [1, 1, 1, 1, 2, 2]


def test_known_character_tables() -> None:
    def rows(G: Group) -> list[tuple[float, ...]]:
        sizes = [(len(c), o) for c, o in zip(G.classes, G.class_orders, strict=True)]
        assert G.character_table.imag.abs().max() < TOLERANCE
        order = sorted(range(len(sizes)), key=lambda i: sizes[i])
        return sorted(tuple(round(v, 6) + 0.0 for v in row) for row in G.character_table.real[:, order].tolist())

    phi = (1 + math.sqrt(5)) / 2
    # A5: classes by size 1, 12, 12, 15, 20
    table = rows(alternating(5))
    expected = [
        (1, 1, 1, 1, 1),
        (3, phi, 1 - phi, -1, 0),
        (3, 1 - phi, phi, -1, 0),
        (4, -1, -1, 0, 1),
        (5, 0, 0, 1, -1),
    ]
    assert table == sorted(tuple(round(v, 6) + 0.0 for v in row) for row in expected)
    # S5: class sizes (orders) 1, 10 (2), 15 (2), 20 (3), 20 (6), 24 (5), 30 (4)
    expected = [
        (1, 1, 1, 1, 1, 1, 1),
        (1, -1, 1, 1, -1, 1, -1),
        (4, 2, 0, 1, -1, -1, 0),
        (4, -2, 0, 1, 1, -1, 0),
        (5, 1, 1, -1, 1, 0, -1),
        (5, -1, 1, -1, -1, 0, 1),
        (6, 0, -2, 0, 0, 1, 0),
    ]
    assert rows(symmetric(5)) == sorted(tuple(map(float, row)) for row in expected)


def test_d8_and_q8_share_their_table_but_not_their_types() -> None:
    D8, Q8 = BARE["D8"], BARE["Q8"]
    match = [
        order
        for order in itertools.permutations(range(5))
        if {tuple(row) for row in D8.character_table.real.round().long().tolist()}
        == {tuple(row) for row in Q8.character_table.real[:, list(order)].round().long().tolist()}
    ]
    assert match
    assert [r.frobenius_schur for r in D8.irreps] == [1, 1, 1, 1, 1]
    assert [r.frobenius_schur for r in Q8.irreps] == [1, 1, 1, 1, -1]
    assert "quaternionic" in repr(Q8.irreps[-1])


def test_groups_of_order_6272_without_a_table() -> None:
    G = p4m(28)
    assert {d: G.dimensions.count(d) for d in sorted(set(G.dimensions))} == {1: 8, 2: 6, 4: 78, 8: 78}
    H = direct(cyclic(28), cyclic(28), dihedral(order=8))
    assert {d: H.dimensions.count(d) for d in sorted(set(H.dimensions))} == {1: 3136, 2: 784}
    rng = np.random.default_rng(0)
    for K in (G, H):
        a, b = torch.from_numpy(rng.integers(0, K.order, (2, 500)))
        for i in (0, 1, len(K.irreps) // 2, len(K.irreps) - 1):
            irrep = K.irreps[i]
            torch.testing.assert_close(irrep.at(K.multiply(a, b)), irrep.at(a) @ irrep.at(b), atol=TOLERANCE, rtol=0)
        f, h = signals(K, 2), signals(K, seed=1)
        F = K.fourier(f)
        torch.testing.assert_close(F.inverse(), f, atol=TOLERANCE, rtol=0)
        torch.testing.assert_close(F.inner(K.fourier(h)), f @ h, atol=1e-9, rtol=0)
        u = rng.integers(0, K.order, 5)  # the convolution at a few elements, from its definition
        v = torch.arange(K.order)
        got = K.convolve(f, h)
        for place in u.tolist():
            quotient = K.multiply(torch.tensor(place), K.inverse[v])
            torch.testing.assert_close(got[:, place], f[:, quotient] @ h, atol=1e-9, rtol=0)
        assert "cayley" not in K.__dict__
        assert sum(r.frobenius_schur * r.dimension for r in K.irreps) == int((K.multiply(v, v) == 0).sum())


def test_plans_are_chosen_by_structure() -> None:
    assert isinstance(cyclic(300)._transform, FFT)
    assert isinstance(direct(cyclic(9), cyclic(9))._transform, FFT)
    assert isinstance(direct(cyclic(28), cyclic(28), dihedral(order=8))._transform, Product)
    assert isinstance(direct(symmetric(4), dihedral(order=20))._transform, Product)
    assert isinstance(p4m(8)._transform, Mackey)
    assert isinstance(dihedral(order=8)._transform, DenseTransform)
    assert isinstance(from_cayley(p4m(5).cayley)._transform, DenseTransform)


@pytest.mark.parametrize("name", ["C8xC8:D8", "C7xC7:Q8", "D400", "C20xD10", "S4xD20", "D10xS4xC3", "Q8xC5xA4"])
def test_structured_plans_against_their_matrices(name: str) -> None:
    G = parse(name)
    assert not isinstance(G._transform, DenseTransform)
    f = signals(G, 2) + 1j * signals(G, 2, seed=1)
    F = G.fourier(f)
    for block, irrep in zip(F.blocks, G.irreps, strict=True):
        expected = torch.tensordot(f, irrep.matrices, dims=1)
        torch.testing.assert_close(block, expected, atol=1e-9, rtol=0)
        a = torch.randint(G.order, (2, 50), generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(irrep.at(G.multiply(*a)), irrep.at(a[0]) @ irrep.at(a[1]), atol=1e-10, rtol=0)
    torch.testing.assert_close(F.inverse(), f, atol=TOLERANCE, rtol=0)
    sigma = torch.cat(
        [s.repeat_interleave(r.dimension, -1) for s, r in zip(F.singular_values(), G.irreps, strict=True)], -1
    )
    direct_way = torch.linalg.svdvals(G.regular(f[0]))
    torch.testing.assert_close(sigma[0].sort(descending=True).values, direct_way, atol=1e-9, rtol=0)


# the transform


@every_group
def test_inversion_plancherel_and_both_theorems(G: Group) -> None:
    f, h = signals(G, 3), signals(G, seed=1)
    F, H = G.fourier(f), G.fourier(h)
    torch.testing.assert_close(F.inverse(), f, atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(G.inverse_fourier(F.blocks, real=True), f, atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(F.inner(H), f @ h, atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(H.inner(F), f @ h, atol=TOLERANCE, rtol=0)
    for block, irrep in zip(F.blocks, G.irreps, strict=True):
        expected = torch.tensordot(f.to(torch.complex128), irrep.matrices, dims=1)
        torch.testing.assert_close(block, expected, atol=TOLERANCE, rtol=0)
    f_h = f[:, G.cayley[:, G.inverse]] @ h
    torch.testing.assert_close((F @ H).inverse(), f_h, atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(G.convolve(f, h), f_h, atol=TOLERANCE, rtol=0)
    x_w = f[:, G.cayley] @ h
    torch.testing.assert_close((F @ H.adjoint()).inverse(), x_w, atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(G.correlate(f, h), x_w, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", ["C12", "D8", "Q8"])
def test_convolution_and_correlation_are_their_definitions(name: str) -> None:
    for G in (BUILT[name], BARE[name]):
        f, h = signals(G), signals(G, seed=1)
        z = f + 1j * signals(G, seed=2)
        for a, b in ((f, h), (z, h), (h, z)):
            torch.testing.assert_close(G.convolve(a, b), convolution(G, a, b))
            torch.testing.assert_close(G.correlate(a, b), correlation(G, a, b))


@pytest.mark.parametrize("name", ["D8", "C5xC5:Q8", "C10xC10xC2"])
def test_batches_broadcast(name: str) -> None:
    G = BUILT[name]
    f, h = signals(G, 4, 1), signals(G, 3, seed=1)
    for method in (G.convolve, G.correlate):
        whole = method(f, h)
        assert whole.shape == (4, 3, G.order)
        for i, j in ((0, 0), (3, 2)):
            torch.testing.assert_close(whole[i, j], method(f[i, 0], h[j]))
        torch.testing.assert_close(method(f[0, 0], h), torch.stack([method(f[0, 0], one) for one in h]))


@every_group
def test_singular_values_without_irreps(G: Group) -> None:
    beta = signals(G)
    values = G.fourier(beta).singular_values()
    mine = torch.cat([v.repeat(r.dimension) for v, r in zip(values, G.irreps, strict=True)])
    torch.testing.assert_close(
        mine.sort(descending=True).values, torch.linalg.svdvals(G.regular(beta)), atol=TOLERANCE, rtol=0
    )


@pytest.mark.parametrize("n", [1, 2, 7, 12, 300])
def test_cyclic_is_the_fft(n: int) -> None:
    f = signals(cyclic(n), 2)
    order = [
        int((torch.angle(r.at([1 % n])[0, 0, 0].conj()) / (2 * math.pi) * n).round()) % n for r in cyclic(n).irreps
    ]
    mine = torch.stack(cyclic(n).fourier(f).blocks, dim=-1)[:, 0, 0]
    torch.testing.assert_close(mine, torch.fft.fft(f)[:, order])


def test_abelian_is_the_fftn() -> None:
    G = direct(cyclic(4), cyclic(3), cyclic(5))
    f = signals(G)
    mine = torch.stack(G.fourier(f).blocks).flatten()
    theirs = torch.fft.fftn(f.reshape(4, 3, 5)).flatten()
    key = lambda z: (round(z.real, 6), round(z.imag, 6))  # noqa: E731
    assert sorted(map(key, mine.tolist())) == sorted(map(key, theirs.tolist()))
    torch.testing.assert_close(mine[0], theirs[0])


@every_group
def test_correlation_is_equivariant(G: Group) -> None:
    x, w = signals(G), signals(G, seed=1)
    for g in (0, 1, G.order // 2, G.order - 1):
        torch.testing.assert_close(G.correlate(G.translate(g, x), w), G.translate(g, G.correlate(x, w)))


@pytest.mark.parametrize("name", ["D8", "A5", "C5xC5:Q8"])
def test_meshulam_is_sharp_on_subgroups(name: str) -> None:
    G = BUILT[name]
    rng = np.random.default_rng(0)
    for _ in range(10):
        chosen = rng.integers(0, G.order, 2).tolist()
        inside = torch.from_numpy(laws.closure([0, *chosen], chosen, G.order, G.structure.multiply))
        rank = (G.fourier(inside.double()).ranks(tolerance=1e-9) * torch.tensor(G.dimensions)).sum()
        assert int(inside.sum()) * int(rank) == G.order


@pytest.mark.parametrize("name", ["D8", "S4", "D200", "C12", "C5xC5:Q8"])
def test_gradients(name: str) -> None:
    G = parse(name)
    some = torch.randperm(G.order, generator=torch.Generator().manual_seed(0))[:6]

    def spread(x: Tensor) -> Tensor:
        return torch.zeros(G.order, dtype=x.dtype).index_put((some,), x)

    def transform(x: Tensor) -> Tensor:
        return torch.cat([stack.flatten() for stack in G.fourier(spread(x)).stacks])

    x = signals(cyclic(6)).requires_grad_()
    assert torch.autograd.gradcheck(transform, (x,))
    assert torch.autograd.gradgradcheck(lambda x: (transform(x).abs() ** 4).sum(), (x,))
    h = signals(G, seed=1)
    assert torch.autograd.gradcheck(lambda x: G.correlate(spread(x), h), (x,))
    assert torch.autograd.gradcheck(lambda x: (G.fourier(spread(x)) @ G.fourier(h)).inverse(), (x,))


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # torch's own, on the first use of jvp
@pytest.mark.parametrize("name", ["D8", "C5xC5:Q8"])
def test_functional_transforms(name: str) -> None:
    G = parse(name)
    f, h = signals(G, 3), signals(G, seed=1)

    def energy(x: Tensor) -> Tensor:
        return (G.fourier(x) @ G.fourier(h)).inverse().square().sum()

    batched = torch.func.vmap(torch.func.grad(energy))(f)
    for row, one in zip(batched, f, strict=True):
        x = one.clone().requires_grad_()
        torch.testing.assert_close(row, torch.autograd.grad(energy(x), x)[0])
    _, tangent = torch.func.jvp(energy, (f[0],), (h,))
    torch.testing.assert_close(tangent, batched[0] @ h)


@pytest.mark.parametrize("name", ["D8", "D200", "C3xC3xD8"])
def test_single_precision_stays_single(name: str) -> None:
    G = parse(name)
    f = signals(G, dtype=torch.float32)
    F = G.fourier(f)
    assert {stack.dtype for stack in F.stacks} == {torch.complex64}
    assert F.inverse().dtype == torch.float32
    torch.testing.assert_close(F.inverse(), f, atol=1e-5, rtol=0)
    assert G.fourier(torch.arange(G.order)).inverse().dtype == torch.float64


def test_a_transform_prints_as_blocks() -> None:
    G = BUILT["D8"]
    text = repr(G.fourier(signals(G)))
    assert text.splitlines()[0] == "Fourier over D8, blocks 4×1 + 1×2"
    assert len(text.splitlines()) == 6
    assert "batch 3" in repr(G.fourier(signals(G, 3)))
    assert "more" in repr(BUILT["D60"].fourier(signals(BUILT["D60"])))


# random groups


@st.composite
def permutation_groups(draw: st.DrawFn) -> Group:
    degree = draw(st.integers(1, 5))
    gens = draw(st.lists(st.permutations(range(degree)), min_size=1, max_size=3))
    return from_permutations(gens)


@given(permutation_groups(), st.integers(0, 2**16))
@settings(max_examples=40, deadline=None)
def test_random_permutation_groups(G: Group, seed: int) -> None:
    laws.check_table(G.cayley.numpy())
    assert sum(d * d for d in G.dimensions) == G.order
    assert len(G.irreps) == len(G.classes)
    for irrep in G.irreps:
        rho = irrep.matrices
        torch.testing.assert_close(rho[G.cayley], rho[:, None] @ rho[None], atol=TOLERANCE, rtol=0)
    f, h = signals(G, seed=seed), signals(G, seed=seed + 1)
    torch.testing.assert_close((G.fourier(f) @ G.fourier(h)).inverse(), f[G.cayley[:, G.inverse]] @ h)
    torch.testing.assert_close(G.fourier(f).inner(G.fourier(h)), f @ h)
    involutions = int((G.cayley.diagonal() == 0).sum())
    assert sum(r.frobenius_schur * r.dimension for r in G.irreps) == involutions


@given(st.integers(1, 9), st.integers(1, 6), st.integers(0, 100))
@settings(max_examples=40, deadline=None)
def test_random_metacyclic_groups(n: int, m: int, pick: int) -> None:
    units = [u for u in range(n) if pow(u, m, n) == 1 % n]
    u = units[pick % len(units)]
    G = semidirect(cyclic(n), cyclic(m), [[a * pow(u, h, n) % n for a in range(n)] for h in range(m)])
    laws.check_table(G.cayley.numpy())
    mine, bare = G._transform, from_cayley(G.cayley)
    assert mine.sizes == bare._transform.sizes
    torch.testing.assert_close(G.character_table, bare.character_table, atol=1e-9, rtol=0)
    for irrep in G.irreps:
        rho = irrep.matrices
        torch.testing.assert_close(rho[G.cayley], rho[:, None] @ rho[None], atol=TOLERANCE, rtol=0)


# what is refused


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([[0, 1, 2], [1, 2, 0]], "square array of shape"),
        ([[0.5]], "holds the integers"),
        ([[0, 1], [1, 7]], r"entry \(1, 1\) is 7, outside 0..1"),
        ([[0, 1, 2], [1, 1, 0], [2, 0, 1]], "row 1 holds 1 twice"),
        ([[0, 1, 2], [1, 2, 0], [1, 0, 2]], "column 0 holds 1 twice"),
        ([[1, 0], [0, 1]], "the identity is element 1; list it first"),
        ([[0, 2, 1], [2, 1, 0], [1, 0, 2]], "no element e has ex = xe = x"),
    ],
)
def test_a_table_that_is_no_group_says_why(table: object, words: str) -> None:
    with pytest.raises(NetgrainError, match=words):
        from_cayley(table)


LOOP = [[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]]  # a loop of order 5


@pytest.mark.parametrize("exhaustive", [200, 1])
def test_a_loop_is_not_associative(monkeypatch: pytest.MonkeyPatch, exhaustive: int) -> None:
    monkeypatch.setattr(laws, "EXHAUSTIVE", exhaustive)
    with pytest.raises(NetgrainError, match=r"not associative, \((\d)·(\d)\)·(\d) = (\d) but \1·\(\2·\3\) = (\d)") as e:
        from_cayley(LOOP)
    a, b, c, left, right = map(int, [ch for ch in str(e.value) if ch.isdigit()][:3] + _results(str(e.value)))
    assert LOOP[LOOP[a][b]][c] == left != right == LOOP[a][LOOP[b][c]]


def _results(text: str) -> list[str]:
    return [part.strip()[0] for part in text.split("=")[1:]]


def test_lights_test_accepts_and_refuses_large_tables() -> None:
    T = dihedral(order=400).cayley.clone()
    laws.check_table(T.numpy())
    z, i, c = 200, 300, 7  # z = r¹⁰⁰, an involution: rows i, iz and columns c, zc hold two elements crosswise
    j, d = int(T[i, z]), int(T[z, c])
    assert T[i, c] == T[j, d] != T[i, d] == T[j, c]
    T[[i, i, j, j], [c, d, c, d]] = T[[i, i, j, j], [d, c, d, c]]  # still a latin square, no longer a group
    with pytest.raises(NetgrainError, match="not associative"):
        from_cayley(T)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cyclic(0), "expects a positive integer as n; found 0"),
        (lambda: dihedral(order=7), "positive multiple of 2 as order; found 7"),
        (lambda: dicyclic(order=6), "positive multiple of 4"),
        (lambda: quaternion(order=12), "power of two"),
        (lambda: from_permutations([]), "at least one permutation"),
        (lambda: from_permutations([[0, 0, 1]]), "generator 0 is not a permutation"),
        (lambda: from_matrices([[[2, 0], [0, 1]]], modulus=4), "generator 0 has no inverse modulo 4"),
        (lambda: from_matrices([[[1]]], modulus=1), "modulus of at least 2"),
        (lambda: from_cayley([[0]], names=["a", "b"]), "one for each of the 1 elements; found 2"),
        (lambda: symmetric(9), r"S9 is too large: 981.1 GiB for its Cayley table"),
        (lambda: direct(cyclic(200), cyclic(200)).cayley, r"C200xC200 is too large: 11.9 GiB"),
        (lambda: direct(), "at least one group"),
        (lambda: semidirect(cyclic(3), cyclic(2), [[0, 1, 2]]), r"shape \(\|H\|, \|N\|\) = \(2, 3\); found \(1, 3\)"),
        (lambda: semidirect(cyclic(3), cyclic(2), [[0, 1, 2], [0, 0, 2]]), "element 1 is not a permutation"),
        (lambda: semidirect(cyclic(4), cyclic(2), [[0, 1, 2, 3], [0, 2, 1, 3]]), "not act by an automorphism"),
        (lambda: semidirect(cyclic(3), cyclic(3), [[0, 1, 2], [0, 2, 1], [0, 1, 2]]), "not a homomorphism"),
        (lambda: linear_action(symmetric(3), [[[1]]]), "S3 was not built as one"),
        (lambda: linear_action(cyclic(3), [[1]]), "expected matrices of shape"),
        (lambda: planes_by_quaternions(9), "odd prime p; found 9"),
        (lambda: cyclic(3).fourier(torch.zeros(4)), r"one value for each of the 3 elements; found shape \(4,\)"),
        (lambda: cyclic(2).inverse_fourier([torch.zeros(1, 1)]), "expected 2 blocks"),
        (lambda: cyclic(1).inverse_fourier([torch.zeros(2, 2)]), "block 0 belongs to an irrep of dimension 1"),
        (lambda: cyclic(2).fourier(torch.ones(2)) @ cyclic(2).fourier(torch.ones(2)), "over one group object"),
        (lambda: dihedral(order=8).reorder([1, 0, 2, 3, 4, 5, 6, 7]), "the identity 0 first"),
        (lambda: parse("D61"), "'D61': dihedral"),
        (lambda: parse("E8"), "'E8' is not a group known by name. Did you mean"),
        (lambda: parse("C8xC8xE8"), "Did you mean 'C8xC8xD8'"),
        (lambda: parse(""), "not a group known by name"),
        (lambda: parse("C7:C3"), "does not say how C3 acts on C7"),
        (lambda: parse("C6xC6:Q8"), "'C6xC6:Q8': Q8 acts on"),
        (lambda: parse("C99999999999"), "too large a number"),
        (lambda: parse("C999999999"), "'C999999999' has 999999999 elements or more; expected at most 1000000"),
        (lambda: parse("C9999xC9999"), "99980001 elements or more"),
        (lambda: parse("C999999998:C2"), "999999998 elements or more"),
        (lambda: parse("C9999xC9999:D8"), "799840008 elements or more"),
        (lambda: parse("p4m9999"), "799840008 elements or more"),
        (lambda: parse("S1000"), "elements or more"),
        (lambda: parse("A1000"), "elements or more"),
    ],
)
def test_bad_input_is_one_clear_sentence(call: object, words: str) -> None:
    with pytest.raises(NetgrainError, match=words) as e:
        call()  # type: ignore[operator]
    assert "\n" not in str(e.value)


def test_dense_irreps_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "MOST_BYTES", 2**20)
    with pytest.raises(NetgrainError, match=r"G is too large: 0.0 GiB for its irreps, of at most 0 GiB; direct\(\)"):
        from_cayley(dihedral(order=300).cayley).irreps  # noqa: B018


@pytest.mark.parametrize(
    ("text", "name", "order"),
    [
        ("C12", "C12", 12),
        ("d60", "D60", 60),
        ("Z6", "C6", 6),
        ("(C5xC5):Q8", "C5xC5:Q8", 200),
        ("C5×C5⋊Q8", "C5xC5:Q8", 200),
        ("p4m8", "C8xC8:D8", 512),
        ("C8xC8:D8", "C8xC8:D8", 512),
        ("Dic12", "Dic12", 12),
        ("C30:C2", "D60", 60),
        ("S4xp4m2", "S4x(C2xC2:D8)", 768),
    ],
)
def test_names(text: str, name: str, order: int) -> None:
    assert (parse(text).name, parse(text).order) == (name, order)


# the command


def command(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, ["group", *arguments])


def test_the_command_prints_classes_characters_and_types() -> None:
    result = command("A5")
    assert result.exit_code == 0, result.output
    words = result.output.replace("\n", " ").split()
    assert " ".join(words[:6]) == "group A5, order 60, not abelian"
    assert "1×1 + 2×3 + 1×4 + 1×5" in result.output
    assert "φ = (1 + √5)/2" in result.output
    line = next(line for line in result.output.splitlines() if line.startswith("ρ1"))
    assert line.split() == ["ρ1", "real", "3", "0", "-1", "φ", "-1/φ"]
    assert "15  (elements of order 2" in result.output


def test_the_command_shows_a_part_of_a_large_group() -> None:
    result = command("C28xC28xD8")
    assert result.exit_code == 0, result.output
    assert "3136×1 + 784×2" in result.output
    assert "of 3920 irreps" in result.output
    assert len(result.output.splitlines()) < 60


def test_the_command_gives_json() -> None:
    report = json.loads(command("Q8", "--json").stdout)
    assert report["order"] == 8
    assert [c["size"] for c in report["classes"]] == [1, 2, 2, 2, 1]
    assert [c["element_order"] for c in report["classes"]] == [1, 4, 4, 4, 2]
    assert report["irreps"][-1] == {"dimension": 2, "type": "quaternionic"}
    table = torch.view_as_complex(torch.tensor(report["character_table"], dtype=torch.float64))
    torch.testing.assert_close(table, quaternion().character_table)
    large = json.loads(command("C28xC28xD8", "--json").stdout)
    assert large["character_table"] is None
    assert "left out" in large["note"]


def test_the_command_writes_the_quilt(tmp_path: Path) -> None:
    result = command("C5xC5:Q8", "--out", str(tmp_path / "new"))
    assert result.exit_code == 0, result.output
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["cayley.png", "group.json"]
    assert (tmp_path / "new/cayley.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "new/group.json").read_text())["order"] == 200


def test_the_quilt_shows_products_coset_by_coset() -> None:
    G = planes_by_quaternions(3)
    order, tile = coset_order(G)
    assert tile == 9
    image = quilt(G).images[0].get_array()
    assert image is not None
    for a, b in ((0, 0), (5, 40), (70, 13)):
        assert order[int(image[a, b])] == G.cayley[order[a], order[b]]
    tiles = np.asarray(image).reshape(8, 9, 8, 9) // 9  # the quotient: one coset in every tile
    assert (tiles == tiles[:, :1, :, :1]).all()
    large = quilt(direct(cyclic(40), dihedral(order=60)))
    assert large.images[0].get_array().shape[0] <= 1024  # type: ignore[union-attr]
    assert "one element in 3 drawn" in large.get_title()


def test_bad_names_end_the_command_with_one_sentence(tmp_path: Path) -> None:
    for arguments, words in (
        (["D61"], "positive multiple of 2"),
        (["nothing"], "not a group known by name"),
        (["S9"], "too large: 981.1 GiB"),
    ):
        result = command(*arguments)
        assert result.exit_code == 2
        assert words in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1
    (tmp_path / "file").write_text("")
    assert command("D8", "--out", str(tmp_path / "file")).exit_code == 2
