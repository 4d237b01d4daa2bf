"""The Fourier transform as a value: laws, gradients, types."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from netgrain.groups import Group, axioms, cyclic, parse
from tests.groups.known_groups import BUILT, TOLERANCE, every_group, refused, signals


@pytest.mark.quick
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


@every_group
def test_singular_values_without_irreps(G: Group) -> None:
    beta = signals(G)
    values = G.fourier(beta).singular_values()
    mine = torch.cat([v.repeat(r.dimension) for v, r in zip(values, G.irreps, strict=True)])
    torch.testing.assert_close(
        mine.sort(descending=True).values, torch.linalg.svdvals(G.regular(beta)), atol=TOLERANCE, rtol=0
    )


@pytest.mark.parametrize("name", ["D8", "A5", "C5xC5:Q8"])
def test_meshulam_is_sharp_on_subgroups(name: str) -> None:
    G = BUILT[name]
    rng = np.random.default_rng(0)
    for _ in range(10):
        chosen = rng.integers(0, G.order, 2).tolist()
        inside = torch.from_numpy(axioms.closure([0, *chosen], chosen, G.order, G.structure.multiply))
        rank = (G.fourier(inside.double()).ranks(tolerance=1e-9) * torch.tensor(G.dimensions)).sum()
        assert int(inside.sum()) * int(rank) == G.order


@pytest.mark.parametrize("name", ["D8", "S4", "D200", "C12", "C5xC5:Q8"])
def test_gradients(name: str) -> None:
    G = parse(name)
    some = torch.randperm(G.order, generator=torch.Generator().manual_seed(0))[:3]

    def spread(x: Tensor) -> Tensor:
        return torch.zeros(G.order, dtype=x.dtype).index_put((some,), x)

    def transform(x: Tensor) -> Tensor:
        return torch.cat([stack.flatten() for stack in G.fourier(spread(x)).stacks])

    x = signals(cyclic(3)).requires_grad_()
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


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cyclic(2).inverse_fourier([torch.zeros(1, 1)]), "expected 2 blocks"),
        (lambda: cyclic(1).inverse_fourier([torch.zeros(2, 2)]), "block 0 belongs to an irrep of dimension 1"),
        (lambda: cyclic(2).fourier(torch.ones(2)) @ cyclic(2).fourier(torch.ones(2)), "over one group object"),
    ],
)
def test_bad_input_of_fourier_is_one_clear_sentence(call: Callable[[], object], words: str) -> None:
    refused(call, words)
