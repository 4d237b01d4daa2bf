"""Images as functions on a group, and claims about their curves."""

import pytest
import torch

import netgrain as ng
from netgrain.experiments.equivariance import images
from netgrain.groups import dihedral


def test_lifting_lists_the_turn_fastest_and_keeps_the_image_at_the_identity() -> None:
    x = torch.randn(3, 5, 5, dtype=torch.float64)
    f = images.lifted(x).reshape(3, 5, 5, 8)
    assert torch.equal(f[..., 0], x)
    assert torch.equal(f[..., 1], x.flip(-1))
    assert torch.equal(f[..., 2], torch.rot90(x, 1, (-2, -1)))
    assert torch.allclose(f.square().sum((1, 2, 3)), 8 * x.square().sum((1, 2)))


@pytest.mark.parametrize("kind", ["direct", "semidirect"])
def test_the_eight_turns_multiply_as_the_group_says(kind: str) -> None:
    """h·(k·x) = (hk)·x with the indices of D8, the last factor of both groups."""
    x = torch.arange(9.0).reshape(1, 3, 3)
    turned = images.lifted(x).reshape(3, 3, 8).unbind(-1)
    D8, whole = dihedral(order=8), images.image_groups(3)[kind]
    for h in range(8):
        for k in range(8):
            twice = images.lifted(turned[k][None]).reshape(3, 3, 8)[..., h]
            hk = int(D8.cayley[h, k])
            assert torch.equal(twice, turned[hk])
            assert int(whole.multiply(torch.tensor(h), torch.tensor(k))) == hk  # elements (0, 0, h)


def test_the_two_groups_differ_only_in_how_turns_move_translations() -> None:
    plain, true = images.image_groups(4).values()
    shift, turn = torch.tensor(8), torch.tensor(2)  # column + 1, and r
    assert int(plain.multiply(turn, shift)) == int(plain.multiply(shift, turn))
    assert int(true.multiply(turn, shift)) != int(true.multiply(shift, turn))


def test_digits_are_drawn_by_the_seed_and_split_into_two_labels() -> None:
    X, y = images.two_digits("digits", 8, 5, 0)
    again, _ = images.two_digits("digits", 8, 5, 0)
    other, _ = images.two_digits("digits", 8, 5, 1)
    assert X.shape == (10, 512)
    assert y.tolist() == [-1.0] * 5 + [1.0] * 5
    assert torch.equal(X, again)
    assert not torch.equal(X, other)
    assert images.two_digits("digits", 12, 2, 0)[0].shape == (4, 8 * 144)
    with pytest.raises(ng.NetgrainError, match="images of the digit 1"):
        images.two_digits("digits", 8, 10_000, 0)
