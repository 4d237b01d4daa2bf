"""A card says what the geometry says."""

from pathlib import Path

import pytest
import torch

import netgrain as ng
from netgrain import NetgrainError
from netgrain.auditing.cards import card


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
