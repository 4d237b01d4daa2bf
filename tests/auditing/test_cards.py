"""Cards and signals, from Python and from the shell."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import netgrain as ng
from netgrain import NetgrainError
from netgrain.auditing.cards import card
from netgrain.cli.app import app
from netgrain.models import LeNet


def _invoke(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_a_card_says_what_the_geometry_says(tmp_path: Path) -> None:
    G = ng.average_geometry(partial(LeNet, channels=1, image_size=16, outputs=1, activation="gelu"), (1, 16, 16))
    found = card("my *LeNet* <b>", G)
    text = found.markdown()
    assert f"90% in {G.directions_for(0.9)}" in text
    assert "of the 256 directions of its 1 × 16 × 16 input" in text.lower()
    assert "my \\*LeNet\\* \\<b\\>" in text
    written = found.save(tmp_path / "new")
    assert written.read_text() == text
    assert (tmp_path / "new" / "grain.png").read_bytes().startswith(b"\x89PNG")
    small = card("small", ng.Geometry.from_matrix(torch.diag(torch.tensor([2.0, 1.0, 0.0]))))
    assert "1 of them have zero gain there" in small.markdown()
    small.figure()
    with pytest.raises(NetgrainError, match="exactly zero at initialisation"):
        card("dead", ng.Geometry.from_matrix(torch.zeros(3, 3)))


def test_cards_and_signals_from_the_shell(tmp_path: Path) -> None:
    code, text, error = _invoke("card", "lenet", "--input", "1x16x16", "--out", str(tmp_path / "card"))
    assert code == 0, error
    assert "The grain of lenet" in text
    stripes = np.ones((1, 16, 16), dtype=np.float32)
    stripes[..., ::2] = -1
    np.save(tmp_path / "stripes.npy", stripes)
    np.save(tmp_path / "flat.npy", np.ones((1, 16, 16), dtype=np.float32))
    found = {}
    for name in ("stripes", "flat"):
        code, text, error = _invoke(
            "visible", "lenet:activation=gelu", "--signal", str(tmp_path / f"{name}.npy"), "--json"
        )
        assert code == 0, error
        found[name] = json.loads(text)
    assert found["flat"]["word"] == "strong"
    assert found["stripes"]["word"] in ("very weak", "zero")
    assert found["stripes"]["difficulty"] > found["flat"]["difficulty"] + 2
    code, _, error = _invoke("visible", "lenet", "--signal", str(tmp_path / "none.npy"))
    assert (code, len(error.strip().splitlines())) == (2, 1)
    assert "is not a file" in error
