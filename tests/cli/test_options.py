"""Options that commands share: groups become options, one rule for data, engines in use."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from safetensors.torch import save_file
from torch import nn

from netgrain.cli.app import COMMANDS, app
from netgrain.cli.options import EngineOptions
from netgrain.runtime.engine_in_use import current
from tests.cli.commands import Run, one_line

DATA = {"score": (), "prune": ("--out", "k.csv"), "complexity": ("--members", "1"), "audit": (), "compare": ("mlp",)}
QUICK = ("--members", "3", "--engine", "local")


@pytest.fixture
def table(run: Run) -> np.ndarray:
    """own.npz: 40 samples of four features, far from standardised."""
    X = np.random.default_rng(0).normal(3, [1, 10, 0.1, 2], (40, 4)).astype(np.float32)
    np.savez("own.npz", X=X, y=np.arange(40) % 2)
    return X


def note(run: Run, command: str, *words: str) -> str:
    models = ("models.py:Net",) * (2 if command == "compare" else 1)
    extra = {"prune": ("--out", "k.csv", *QUICK), "complexity": ("--members", "1")}.get(command, QUICK)
    code, out, err = run(command, *models, "--data", "own.npz", *extra, *words, "--json")
    assert code == 0, err
    report = json.loads(out)
    for way in (("note",), ("data", "note"), ("audits", 0, "data", "note")):
        found = report
        try:
            for key in way:
                found = found[key]
        except (KeyError, TypeError, IndexError):
            continue
        return str(found)
    return out


@pytest.mark.parametrize("command", ["score", "prune", "complexity", "audit", "compare"])
def test_every_command_standardises_and_says_so(run: Run, table: np.ndarray, command: str) -> None:
    assert "standardised per feature" in note(run, command)
    assert "standardised" not in note(run, command, "--as-is")


@pytest.fixture
def trained(run: Run, table: np.ndarray) -> nn.Module:
    """net.pt holds a network that knows the sign of the first feature of the raw data."""
    net = nn.Linear(4, 2)
    with torch.no_grad():
        net.weight.zero_()
        net.weight[1, 0], net.bias[0], net.bias[1] = 50.0, 0.0, -150.0
    np.savez("own.npz", X=table, y=(table[:, 0] > 3).astype(int))
    state = {f"module.layer.{name}": tensor for name, tensor in net.state_dict().items()}
    torch.save({"epoch": 1, "model_state_dict": state}, "net.pt")
    return net


@pytest.mark.parametrize("command", ["audit", "complexity"])
def test_a_checkpoint_gets_the_data_as_they_are(run: Run, trained: nn.Module, command: str) -> None:
    words = (command, "models.py:Net", "--data", "own.npz", "--weights", "net.pt", "--json")
    code, out, err = run(*words)
    assert (code, err) == (0, "")
    assert "standardised" not in out
    code, out, err = run(*words, "--standardise")
    assert code == 0
    assert "standardised per feature" in out


@pytest.mark.parametrize("command", ["audit", "complexity"])
def test_accuracy_near_chance_names_preprocessing(run: Run, trained: nn.Module, command: str) -> None:
    save_file({"layer.weight": trained.weight.detach(), "layer.bias": trained.bias.detach() * 40}, "far.safetensors")
    words = (command, "models.py:Net", "--data", "own.npz", "--weights", "far.safetensors", "--json")
    code, _, err = run(*words)
    assert code == 0
    assert "warning: the checkpoint is right on" in err
    assert "were the data preprocessed as in training? --standardise standardises them." in one_line(err)


def test_contradictions_are_refused(run: Run, trained: nn.Module) -> None:
    words = ("complexity", "models.py:Net", "--data", "own.npz", "--weights", "net.pt")
    code, _, err = run(*words, "--standardise", "--as-is")
    assert (code, err) == (2, "error: --standardise and --as-is cannot be combined; leave one of them out.\n")
    code, _, err = run(*words, "--members", "2")
    assert code == 2
    assert "--members and --weights cannot be combined" in err


def test_a_folder_by_class_is_data_for_every_command(run: Run) -> None:
    from PIL import Image

    for i in range(6):
        file = Path("photos") / "ab"[i % 2] / f"{i}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.random.default_rng(i).integers(0, 255, (4, 4), np.uint8)).save(file)
    code, out, err = run("score", "mlp:width=0.1", "--data", "photos/", *QUICK, "--json")
    assert code == 0, err
    assert json.loads(out)["note"].startswith("pixels divided by 255; standardised per channel")


def test_engine_options_hold_inside_and_end_outside() -> None:
    before = current()
    with EngineOptions(workers=2).used():
        engine = current()
        assert engine is not None
        assert (engine.name, engine.parallel) == ("processes", 2)
    assert current() is before


# who has none of an option that commands share, and why
WITHOUT = {
    "--data": {
        *("geometry", "visible", "card"),  # a model alone: --probe data:FILE takes G at samples
        *("list", "run", "reproduce", "claims", "theory", "group", "doctor"),  # bring their own data, or need none
    },
    "--out": {"list", "doctor", "claims"},  # print; claims names its folder as its argument
    "--seed": {
        *("list", "claims", "group", "doctor"),  # nothing is random
        *("run", "reproduce"),  # the seeds are part of what is reproduced
    },
    "--engine": {"list", "claims", "group", "doctor", "limit", "complexity"},  # one piece of work, here
    "--device": {"list", "claims", "group", "doctor", "limit"},  # no networks, or a flow in float64 on the CPU
    "--json": set[str](),
}


def options_of(name: str) -> set[str]:
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    return {written for parameter in command.params for written in parameter.opts}


@pytest.mark.parametrize("option", WITHOUT)
def test_every_command_has_the_shared_options_but_for_a_reason(option: str) -> None:
    assert {name for name in COMMANDS if option not in options_of(name)} == WITHOUT[option]


@pytest.mark.parametrize("name", COMMANDS)
def test_engines_and_plans_come_with_all_their_options(name: str) -> None:
    found, row = options_of(name), COMMANDS[name]
    for option in ("--engine", "--workers", "--address"):
        assert (option in found) == (row.where is EngineOptions), option
    assert ("--device" in found) == (row.where is not None)
    assert ("--dry-run" in found) == row.planned


@pytest.mark.parametrize("command", ["learnability", "complexity"])
def test_a_device_that_is_not_there_is_refused(run: Run, table: np.ndarray, command: str) -> None:
    code, out, err = run(command, "models.py:Net", "--data", "own.npz", "--device", "cuda:7")
    assert (code, out) == (2, "")
    assert "device 'cuda:7' is not available" in err


def test_complexity_moves_networks_to_the_device(run: Run, table: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[object] = []
    monkeypatch.setattr(nn.Module, "to", lambda self, device: moved.append(device) or self)
    monkeypatch.setattr("netgrain.runtime.devices.best_device", lambda: "the best")
    assert run("complexity", "models.py:Net", "--data", "own.npz", "--members", "2")[0] == 0
    assert moved.count("the best") == 2


def test_learnability_runs_on_the_engine_that_was_named(
    run: Run, table: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = []
    monkeypatch.setattr(
        "netgrain.learning.predictions.learnability", lambda *_, **__: used.append(current()) or pytest.skip("seen")
    )
    with pytest.raises(pytest.skip.Exception):
        run("learnability", "models.py:Net", "--data", "own.npz", "--workers", "2")
    assert [(engine.name, engine.parallel) for engine in used] == [("processes", 2)]
