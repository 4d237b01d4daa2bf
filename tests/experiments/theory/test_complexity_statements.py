"""Statements of geometric complexity: all hold, a wrong prediction is rejected, and the command shows them."""

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from netgrain.cli import app as cli
from netgrain.experiments.theory import complexity_statements
from netgrain.experiments.theory.complexity_statements import COVERS, STATEMENTS
from netgrain.experiments.theory.measuring import measure_statements
from netgrain.experiments.theory.statements import Job
from netgrain.runtime.errors import NetgrainError


@pytest.mark.parametrize("name", STATEMENTS)
def test_what_is_predicted_holds(name: str) -> None:
    found = measure_statements(name, work="complexity", progress=False)
    assert found
    for s in found:
        assert s.name == name
        assert s.corrected == "holds", s
        assert s.claim
        assert s.assumptions
        json.dumps(s.as_dict(), allow_nan=False)
    assert COVERS[name]


def test_the_rise_under_noise_is_that_of_a_taylor_series() -> None:
    """Half the Laplacian of the loss in x, by autograd, is GC + Σ r Δf."""
    net = complexity_statements._tanh_network(Job())
    theta = net.start(1.5, torch.Generator().manual_seed(3))
    W, b, V, c = net.parts(theta)

    def loss(x: torch.Tensor) -> torch.Tensor:
        f = torch.tanh(x @ W.T + b) @ V.T + c
        return (f - net.Y[0]).square().sum() / 2

    single = type(net)(net.X[:1], net.Y[:1], net.hidden)
    t0 = torch.tanh(net.X[0] @ W.T + b)
    curved = float((((t0 @ V.T + c) - net.Y[0]) * ((-2 * t0 * (1 - t0.square()) * W.square().sum(1)) @ V.T)).sum())
    H = torch.autograd.functional.hessian(loss, net.X[0])
    assert float(H.trace()) == pytest.approx(single.complexity(theta) + curved, rel=1e-9)


def test_the_command_shows_bounds_and_says_what_is_wrong(tmp_path: Path) -> None:
    run = CliRunner().invoke
    shown = run(cli.app, ["theory", "arc-length", "--work", "complexity"])
    assert shown.exit_code == 0
    assert "docs/complexity.md" in shown.stdout
    found = run(cli.app, ["theory", "arc-length", "--work", "complexity", "--json", "--out", str(tmp_path)])
    assert [s["verdict"] for s in json.loads(found.stdout)] == ["holds", "holds"]
    assert [p.name for p in tmp_path.iterdir()] == ["theory.json"]
    assert run(cli.app, ["theory", "arc-length"]).exit_code == 2
    with pytest.raises(NetgrainError, match="work 'x' is not known; expected one of geometry, complexity"):
        measure_statements(work="x")
