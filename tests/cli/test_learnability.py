"""`netgrain learnability`: one model, several, the document, the picture, and one sentence for what can be wrong."""

import json
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from tests.cli.commands import Run

MODELS = """
    from torch import nn

    class Net(nn.Sequential):
        def __init__(self, outputs=2, width=8):
            super().__init__(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, outputs))

    class Narrow(Net):
        def __init__(self, outputs=2):
            super().__init__(outputs, 1)
"""


@pytest.fixture(autouse=True)
def files(run: Run, tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(dedent(MODELS))
    X = np.random.default_rng(0).normal(size=(80, 4)).astype(np.float32)
    np.savez(tmp_path / "data.npz", X=X, y=(X[:, 0] > 0).astype(int))


DATA = ("--data", "data.npz")


def test_one_model_gives_its_score_and_what_limits_it(run: Run) -> None:
    code, out, _ = run("learnability", "nets.py:Net", *DATA, "--no-trial", "--members", "2", "--samples", "60")
    assert code == 0
    assert "expected accuracy" in out
    assert "60 of 80 samples were used" in out
    assert "no trial training: not asked for" in out


def test_the_document_has_all_numbers_and_the_picture_is_written(run: Run, tmp_path: Path) -> None:
    words = ("learnability", "nets.py:Net", *DATA, "--trial", "--members", "2", "--json", "--out", "one.png")
    code, out, _ = run(*words)
    assert code == 0
    document = json.loads(out)
    found = document["models"]["nets.py:Net"]
    assert found["measure"] == "accuracy"
    assert found["trial"]["steps"] > 0
    assert document["ranking"][0]["like_best"] is True
    assert (tmp_path / "one.png").read_bytes()[:4] == b"\x89PNG"


def test_several_models_are_ranked(run: Run, tmp_path: Path) -> None:
    words = ("learnability", "nets.py:Narrow", "nets.py:Net", *DATA, "--no-trial", "--members", "2", "--out", "all.png")
    code, out, _ = run(*words)
    assert code == 0
    lines = out.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("model"))
    assert lines[first + 1].startswith("nets.py:Net ")
    assert "best" in lines[first + 1]
    assert "lower" in lines[first + 2] or "cannot tell apart" in lines[first + 2]
    assert (tmp_path / "all.png").exists()


def test_trained_weights_are_read_out(run: Run, tmp_path: Path) -> None:
    torch.manual_seed(0)
    save_file(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).state_dict(), tmp_path / "w.safetensors")
    words = ("learnability", "nets.py:Net", *DATA, "--weights", "w.safetensors", "--json")
    code, out, _ = run(*words)
    assert code == 0
    assert json.loads(out)["models"]["nets.py:Net"]["error"]["members"] is None
    code, _, err = run(*words, "--members", "2")
    assert code == 2
    assert "--weights names one network" in err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--samples", "7"), "samples"),
        (("--out", "one.jpg"), ".png"),
        (("--members", "0"), "members"),
    ],
)
def test_bad_options_get_one_sentence(run: Run, more: tuple[str, ...], said: str) -> None:
    code, out, err = run("learnability", "nets.py:Net", *DATA, "--no-trial", *more)
    assert code == 2
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert not out
