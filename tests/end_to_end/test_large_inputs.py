"""Inputs of more than 4,096 entries, for which nothing d × d is made: every command about a model and data runs."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import netgrain as ng
from netgrain import NetgrainError
from netgrain.auditing.sections.samples import scored
from netgrain.cli.app import app
from netgrain.geometry.forms import Factored
from netgrain.geometry.provenance import Provenance
from netgrain.geometry.spectrum import FULL_LIMIT
from netgrain.runtime.memory import within

SHAPE = (3, 40, 40)
NETS = """
from torch import nn

def small():
    return nn.Sequential(nn.Conv2d(3, 4, 5, stride=5), nn.ReLU(), nn.Flatten(), nn.Linear(256, 2))

def smaller():
    return nn.Sequential(nn.Conv2d(3, 2, 8, stride=8), nn.ReLU(), nn.Flatten(), nn.Linear(50, 2))
"""
COMMANDS = {
    "audit": "audit nets.py:small --data my.npz --quick --out page.html",
    "compare": "compare nets.py:small nets.py:smaller --data my.npz --quick --out page.html",
    "visible": "visible nets.py:small --signal pattern.npy",
    "score": "score nets.py:small --data my.npz --out scores.csv",
    "prune": "prune nets.py:small --data my.npz --out kept.csv",
    "card": "card nets.py:small --input 3x40x40 --out card",
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "nets.py").write_text(NETS)
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((40, *SHAPE)).astype(np.float32), np.arange(40) % 2
    X[y == 1, :, :20] += 1
    np.savez(tmp_path / "my.npz", X=X, y=y)
    np.save(tmp_path / "pattern.npy", X[0])
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_command(command: str, here: Path) -> None:
    assert np.prod(SHAPE) > FULL_LIMIT
    result = CliRunner().invoke(app, [*COMMANDS[command].split(), "--json"])
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    if command == "audit":
        assert found["geometry"]["complete"] is False
        assert found["geometry"]["d"] == 4800
        assert found["samples"]["scored"] == 40
        assert found["samples"]["directions"] is None
        assert "quarters of the random networks" in found["leading"]["definition"]
        page = (here / "page.html").read_text()
        assert "three quarters of the random networks" in page
    if command == "compare":
        assert len(found["audits"]) == 2
    if command == "visible":
        assert found["gain"]["value"] > 0
        assert 0 <= found["among_random"] <= 1
    if command == "score":
        values = np.loadtxt(here / "scores.csv", delimiter=",", skiprows=1)[:, 2]
        assert values.shape == (40,)
        assert values.min() > 0
    if command == "prune":
        assert len((here / "kept.csv").read_text().split()) == 1 + 28
    if command == "card":
        assert (here / "card" / "grain.png").exists()


def test_gradients_that_do_not_fit_give_no_scores_in_silence() -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(4800, 2))

    X = torch.randn(40, *SHAPE, generator=torch.Generator().manual_seed(0))
    with within("1 MB"):
        G = ng.average_geometry(make, SHAPE, members=20, first_layer="never", probe=ng.Data(X[:4]))
    with within("2 MB"), pytest.warns(ng.GrainWarning, match="not reached with 17 members"):
        chosen = ng.average_geometry(make, SHAPE, tolerance=0.5, first_layer="never", method="sampled")
    assert G.truncated
    with pytest.raises(NetgrainError, match="fewer members"):
        ng.score(G, X)
    assert not chosen.truncated  # as many members as fit, where their number was not asked for
    assert ng.score(chosen, X).shape == (40,)


def test_how_many_samples_are_scored_depends_on_what_a_score_takes() -> None:
    X, about = torch.zeros(1, 4800).expand(300, 4800), Provenance("sampled", members=2)
    cheap = ng.Geometry(Factored(torch.ones(4, 4800)), (4800,), about)
    costly = ng.Geometry(Factored(torch.ones(1, 4800).expand(500_000, 4800)), (4800,), about)
    assert scored(X, cheap) == 300
    assert scored(X, costly) == 25 * 10**10 // (500_000 * 4800)
