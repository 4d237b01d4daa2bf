"""A card says what the geometry says."""

from pathlib import Path

import pytest
import torch

import netgrain as ng
from netgrain import NetgrainError
from netgrain.auditing.cards import card
from tests.families.residual_networks import OFF


def test_a_card_says_what_the_geometry_says(G: ng.Geometry, tmp_path: Path) -> None:
    found = card("my *LeNet* <b>", G)
    text = found.markdown()
    assert f"90% in {G.directions_for(0.9)}" in text
    assert "of the 64 directions of its 1 × 8 × 8 input" in text.lower()
    assert "my \\*LeNet\\* \\<b\\>" in text
    written = found.save(tmp_path / "new")
    assert written.read_text() == text
    assert (tmp_path / "new" / "grain.png").read_bytes().startswith(b"\x89PNG")
    small = card("small", ng.Geometry.from_matrix(torch.diag(torch.tensor([2.0, 1.0, 0.0]))))
    assert "1 of them have zero gain there" in small.markdown()
    small.figure()
    with pytest.raises(NetgrainError, match="exactly zero at initialisation"):
        card("dead", ng.Geometry.from_matrix(torch.zeros(3, 3)))


def test_a_card_of_a_flat_geometry_has_no_pictures_of_noise() -> None:
    found = card("flat", ng.Geometry.from_matrix(torch.eye(16), (1, 4, 4)))
    assert "No direction leads: a block of about 16 of 16 directions" in found.markdown()
    assert "![the spectrum]" in found.markdown()
    drawn = found.figure()
    assert not any(ax.get_images() for ax in drawn.axes)
    assert any("no direction leads" in " ".join(t.get_text().split()) for ax in drawn.axes for t in ax.texts)


def test_a_card_says_first_what_is_off() -> None:
    make = OFF["norm"][0]
    G = ng.average_geometry(make, (5,))
    text = card("mine", G).markdown().splitlines()[4]
    assert text.startswith("Off at initialisation: all 1 norms start with weight zero")
    on = card("mine", ng.average_geometry(make, (5,), switched_on=True)).markdown()
    assert "\n\nSwitched on: without that" in on
