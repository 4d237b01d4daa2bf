"""Forms behind standardised weights equal the matrices they stand for, and hide constant images."""

import pytest
import torch
from torch import Tensor

from netgrain.families.convolution import ConvStem
from netgrain.geometry.correlation import correlation
from netgrain.geometry.forms import Dense, Factored
from netgrain.geometry.probed import Probed, test_vectors
from netgrain.geometry.standardised_forms import Centred, Contrasts, behind_standardised, channel_basis, weighted_sum
from netgrain.geometry.structured_forms import Kronecker, Spread

STEM = ConvStem((5, 4), (3, 2), (2, 1), ((1, 0), (0, 1)), (1, 1))
INSIDE = ConvStem((6, 6), (3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1))  # no padding: every window lies inside
ORDER = torch.randperm(3 * STEM.size, generator=torch.Generator().manual_seed(5))


def rows(stem: ConvStem, members: int = 5, seed: int = 0) -> Tensor:
    return torch.randn(members, 2, stem.out_size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_weights(g: Tensor, stem: ConvStem, copies: int, order: Tensor) -> Tensor:
    """Σ over weights of their covariance I − 11ᵀ/N, one pair of weights after the other; g: (rows, out)."""
    entries = stem.kernel[0] * stem.kernel[1]
    n = copies * entries
    unit = torch.eye(stem.size, dtype=torch.float64)
    maps = stem.gather(unit).permute(1, 0, 2)  # (entries, input, out)
    through = torch.zeros(n, len(g), copies * stem.size, dtype=torch.float64)  # the gradient through each weight
    for c in range(copies):
        for e in range(entries):
            places = order.reshape(copies, -1)[c]
            through[c * entries + e][:, places] = g @ maps[e].T
    total = torch.zeros(copies * stem.size, copies * stem.size, dtype=torch.float64)
    for i in range(n):
        for j in range(n):
            total += ((i == j) - 1 / n) * through[i].T @ through[j]
    return total


@pytest.mark.quick
def test_it_is_the_sum_over_correlated_weights() -> None:
    g = rows(STEM)
    form = behind_standardised(Factored.of_members(g), STEM, 3, ORDER)
    want = by_weights(g.flatten(0, 1), STEM, 3, ORDER) / len(g)
    assert torch.allclose(form.dense(), want)
    V = torch.randn(4, form.size, dtype=torch.float64)
    assert torch.allclose(form.matvec(V), V @ want)
    assert form.trace() == pytest.approx(float(want.trace()))
    assert torch.allclose(form.part(2).dense(), by_weights(g[2], STEM, 3, ORDER))
    dense = behind_standardised(Dense(g.flatten(0, 1).T @ g.flatten(0, 1) / len(g)), STEM, 3, ORDER)
    assert torch.allclose(dense.dense(), want)
    assert dense.trace() == pytest.approx(float(want.trace()))


@pytest.mark.parametrize("channels", [1, 2])
def test_constant_images_are_hidden_where_no_window_leaves_the_image(channels: int) -> None:
    order = torch.arange(channels * INSIDE.size)
    form = behind_standardised(Factored.of_members(rows(INSIDE)), INSIDE, channels, order)
    ones = torch.ones(1, form.size, dtype=torch.float64)
    assert float(form.matvec(ones).abs().max()) < 1e-12 * form.trace()
    assert float(torch.linalg.eigvalsh(form.dense())[0]) > -1e-10 * form.trace()
    independent = Kronecker(Spread(Factored.of_members(rows(INSIDE)), INSIDE), channels, order)
    assert float((ones * independent.matvec(ones)).sum()) > 0.1 * independent.trace()


def test_patches_see_no_constant() -> None:
    order = torch.arange(12)
    g = rows(STEM)[:, :, :4]
    form = behind_standardised(Factored.of_members(g), None, 3, order)
    core = Factored.of_members(g).dense()
    centring = torch.eye(3, dtype=torch.float64) - 1 / 3
    assert torch.allclose(form.dense(), torch.kron(centring, core))
    assert form.trace() == pytest.approx(2 * float(core.trace()))


@pytest.mark.quick
def test_products_of_two_matrices() -> None:
    a, b = (behind_standardised(Factored.of_members(rows(STEM, 5, s)), STEM, 3, ORDER) for s in (1, 2))
    plain = Kronecker(Spread(Factored.of_members(rows(STEM, 5, 3)), STEM), 3, ORDER)
    elsewhere = Kronecker(plain.core, 3, ORDER.flip(0))
    loose = Factored.of_members(torch.randn(4, 2, a.size, dtype=torch.float64))
    for other in (b, plain, elsewhere, loose):
        want = float((a.dense() * other.dense()).sum())
        assert a.inner(other) == pytest.approx(want)
        assert other.inner(a) == pytest.approx(want)
        pairs = [
            [float((a.part(i).dense() * other.part(j).dense()).sum()) for j in range(other.parts)] for i in range(5)
        ]
        assert torch.allclose(a.pairwise(other), torch.tensor(pairs, dtype=torch.float64))
        assert torch.allclose(other.pairwise(a), torch.tensor(pairs, dtype=torch.float64).T)
        each = [float((a.part(i).dense() * other.dense()).sum()) for i in range(5)]
        assert torch.allclose(a.part_inner(other), torch.tensor(each, dtype=torch.float64))
    assert a.norm2() == pytest.approx(float(a.dense().square().sum()))
    assert correlation(a, a.scaled(3.0)).plug_in == pytest.approx(1)


def test_channels_are_turned_and_turned_back() -> None:
    basis = channel_basis(5)
    assert torch.allclose(basis @ basis.T, torch.eye(5, dtype=torch.float64))
    form = Contrasts(Dense(torch.eye(4, dtype=torch.float64)), None, 3, torch.randperm(12))
    V = torch.randn(2, 12, dtype=torch.float64)
    assert torch.allclose(form.from_channels(form.into_channels(V)), V)


def test_sums_of_forms_that_are_known_by_products() -> None:
    size = 9000
    one, two = (Factored(torch.randn(3, size, generator=torch.Generator().manual_seed(s))) for s in (1, 2))
    z = test_vectors(size)

    def probed(form: Factored) -> Probed:
        return Probed(form, form.matvec(z)[None], torch.tensor([form.trace()]), torch.tensor([4]))

    found = weighted_sum([(2.0, probed(one)), (1.0, probed(two))])
    assert torch.allclose(found.matvec(z), 2 * one.matvec(z) + two.matvec(z))
    assert found.trace() == pytest.approx(2 * one.trace() + two.trace())
    assert found.norm2() == pytest.approx(float(found.matvec(z).square().sum()) / len(z))


def test_a_centred_matrix_is_scaled_with_its_source() -> None:
    form = Centred.of(Factored.of_members(rows(STEM)), STEM)
    assert torch.allclose(form.scaled(2.0).dense(), 2 * form.dense())
    assert torch.allclose(form.subset([0, 2]).dense(), (form.part(0).dense() + form.part(2).dense()) / 2)
