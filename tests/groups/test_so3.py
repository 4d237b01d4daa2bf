"""Rotations: Wigner matrices against their laws and e3nn, band-limited transforms against sums over the grid."""

import math

import pytest
import torch
from torch import Tensor

from netgrain.groups.so3 import SO3, wigner
from netgrain.runtime.errors import NetgrainError


def rotation(alpha: Tensor, beta: Tensor, gamma: Tensor) -> Tensor:
    """R_z(α) R_y(β) R_z(γ) on (x, y, z), written out."""

    def about(axis: int, angle: Tensor) -> Tensor:
        R = torch.eye(3, dtype=torch.float64).repeat(*angle.shape, 1, 1)
        i, j = (axis + 1) % 3, (axis + 2) % 3
        R[..., i, i] = R[..., j, j] = angle.cos()
        R[..., j, i], R[..., i, j] = angle.sin(), -angle.sin()
        return R

    return about(2, alpha) @ about(1, beta) @ about(2, gamma)


def angles_of(R: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    beta = torch.atan2(torch.hypot(R[..., 0, 2], R[..., 1, 2]), R[..., 2, 2])
    return torch.atan2(R[..., 1, 2], R[..., 0, 2]), beta, torch.atan2(R[..., 2, 1], -R[..., 2, 0])


def some_angles(count: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    u = torch.rand(3, count, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return 2 * math.pi * u[0], torch.arccos(1 - 2 * u[1]), 2 * math.pi * u[2]


def some_blocks(G: SO3, *batch: int, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*batch, d, d, dtype=torch.float64, generator=generator) for d in G.dimensions]


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("l", [0, 1, 2, 5, 16])
def test_wigner_matrices_are_unitary_representations(l: int, real: bool) -> None:
    first, second = some_angles(20), some_angles(20, seed=1)
    product = angles_of(rotation(*first) @ rotation(*second))
    D, E = wigner(l, *first, real=real), wigner(l, *second, real=real)
    assert D.dtype == (torch.float64 if real else torch.complex128)
    torch.testing.assert_close(wigner(l, *product, real=real), D @ E, atol=1e-12, rtol=0)
    torch.testing.assert_close(D @ D.mH, torch.eye(2 * l + 1).to(D).expand_as(D), atol=1e-12, rtol=0)


def test_unitary_at_l_64() -> None:
    D = wigner(64, *some_angles(3))
    assert (D @ D.mH - torch.eye(129)).abs().max() < 1e-13


@pytest.mark.parametrize("l", [0, 1, 3, 7])
def test_the_trace_is_the_character_of_the_angle(l: int) -> None:
    R = rotation(*some_angles(20))
    omega = torch.arccos((R.diagonal(dim1=-2, dim2=-1).sum(-1) - 1) / 2)
    trace = wigner(l, *angles_of(R)).diagonal(dim1=-2, dim2=-1).sum(-1)
    torch.testing.assert_close(trace.real, ((2 * l + 1) * omega / 2).sin() / (omega / 2).sin(), atol=1e-10, rtol=0)
    assert trace.imag.abs().max() < 1e-12


@pytest.mark.quick
def test_the_real_matrix_of_l_one_is_the_rotation() -> None:
    angles = some_angles(10)
    order = [1, 2, 0]  # y, z, x
    torch.testing.assert_close(wigner(1, *angles, real=True), rotation(*angles)[:, order][:, :, order])


@pytest.mark.parametrize("B", [1, 2, 5, 8])
def test_transforms_are_inverse_and_plancherel_holds(B: int) -> None:
    G = SO3(B)
    assert G.coefficients == B * (2 * B - 1) * (2 * B + 1) // 3
    blocks = some_blocks(G, 2)
    f = G.inverse_fourier(blocks)
    assert f.shape == (2, *G.grid)
    assert f.dtype == torch.float64
    for mine, given in zip(G.fourier(f), blocks, strict=True):
        assert mine.dtype == torch.float64
        torch.testing.assert_close(mine, given, atol=1e-11, rtol=0)
    norm = sum(d * (b**2).sum((-2, -1)) for d, b in zip(G.dimensions, blocks, strict=True))
    torch.testing.assert_close((f**2 * G.weights).sum((-3, -2, -1)), norm)
    assert G.weights.sum().item() == pytest.approx(1)
    z = [block + 1j * other for block, other in zip(blocks, some_blocks(G, 2, seed=1), strict=True)]
    for mine, given in zip(G.fourier(G.inverse_fourier(z)), z, strict=True):
        torch.testing.assert_close(mine, given, atol=1e-11, rtol=0)


def test_the_transform_is_its_definition_on_the_grid() -> None:
    G = SO3(3)
    f = G.inverse_fourier(some_blocks(G))
    a, b, c = torch.meshgrid(*G.angles, indexing="ij")
    for l, block in enumerate(G.fourier(f)):
        expected = ((f * G.weights)[..., None, None] * wigner(l, a, b, c, real=True)).sum((0, 1, 2))
        torch.testing.assert_close(block, expected, atol=1e-12, rtol=0)
    values = G.evaluate(G.fourier(f), a.flatten(), b.flatten(), c.flatten())
    torch.testing.assert_close(values, f.flatten(), atol=1e-11, rtol=0)


def test_convolution_is_the_integral() -> None:
    G = SO3(3)
    f, h = some_blocks(G), some_blocks(G, seed=1)
    a, b, c = (x.flatten() for x in torch.meshgrid(*G.angles, indexing="ij"))
    at = some_angles(4, seed=2)
    Q = rotation(a, b, c)
    R = rotation(*at)
    values = torch.stack(
        [(G.evaluate(f, *angles_of(one @ Q.mT)) * G.evaluate(h, a, b, c) * G.weights.flatten()).sum() for one in R]
    )
    together = G.convolve(G.inverse_fourier(f), G.inverse_fourier(h))
    torch.testing.assert_close(G.evaluate(G.fourier(together), *at), values, atol=1e-10, rtol=0)


def test_gradients() -> None:
    G = SO3(2)
    blocks = [block.requires_grad_() for block in some_blocks(G)]
    assert torch.autograd.gradcheck(lambda *b: G.inverse_fourier(b), tuple(blocks))
    f = G.inverse_fourier(some_blocks(G)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: G.fourier(x), (f,))
    angles = tuple(x.requires_grad_() for x in some_angles(2))
    assert torch.autograd.gradcheck(lambda *x: wigner(2, *x, real=True), angles)


@pytest.mark.filterwarnings("ignore")  # e3nn compiles with a deprecated part of torch
@pytest.mark.parametrize("l", [0, 1, 2, 5, 9])
def test_e3nn_agrees(l: int) -> None:
    from e3nn import o3

    angles = some_angles(10)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        theirs = o3.wigner_D(l, *angles)
    finally:
        torch.set_default_dtype(before)
    torch.testing.assert_close(wigner(l, *angles, real=True), theirs, atol=1e-11, rtol=0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: SO3(0), "bandwidth expects a positive integer; found 0"),
        (lambda: wigner(-1, *some_angles(1)), "l is 0, 1, 2, …; found -1"),
        (lambda: SO3(2).fourier(torch.zeros(3, 3)), r"on the grid, \(..., 4, 2, 4\)"),
        (lambda: SO3(2).inverse_fourier([torch.zeros(1, 1)]), "expected 2 blocks of sizes 1, 3"),
    ],
)
def test_bad_input_is_one_clear_sentence(call: object, words: str) -> None:
    with pytest.raises(NetgrainError, match=words):
        call()  # type: ignore[operator]
