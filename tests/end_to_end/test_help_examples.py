"""Examples of --help about a model and data run as they are printed, with small data in place of downloaded ones."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from netgrain.cli import audit, data, what_if
from netgrain.cli.app import app

NETS = """
from collections import OrderedDict
from torch import nn

def Net():
    return nn.Sequential(OrderedDict(
        conv1=nn.Conv2d(1, 4, 3, padding=1), relu=nn.ReLU(), pool1=nn.MaxPool2d(2),
        pool2=nn.AdaptiveAvgPool2d(4), flatten=nn.Flatten(), head=nn.Linear(64, 2)))
"""
TEXTS = (audit.AUDIT_EXAMPLES, audit.COMPARE_EXAMPLES, audit.VISIBLE_EXAMPLES, audit.CARD_EXAMPLES)
LINES = [
    line for text in (*TEXTS, data.SCORE_EXAMPLES, data.PRUNE_EXAMPLES, what_if.EXAMPLES) for line in text.splitlines()
]
# what is downloaded, large or in colour is replaced by what is here
SMALLER = (
    (r"--data (?:mnist|cifar10|digits|my\.npz)", "--data my.npz --limit 64"),
    (r" --data-dir data", ""),
    (r"width=0\.25", "width=0.125"),
    (r"\bresnet18 ", "resnet18:width=0.125 "),
    (r"--input \S+", "--input 1x16x16"),
    (r"^(netgrain (?:audit|compare)(?!.*--quick) .*)", r"\1 --quick"),
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with every file that the examples name."""
    (tmp_path / "my_model.py").write_text(NETS)
    X = np.random.default_rng(0).standard_normal((80, 1, 16, 16)).astype(np.float32)
    np.savez(tmp_path / "my.npz", X=X, y=(X[:, 0, 2:6, 2:6].mean((1, 2)) > 0).astype(int))
    for name in ("defect", "pattern"):
        np.save(tmp_path / f"{name}.npy", X[0])
    np.save(tmp_path / "images.npy", X)
    names: dict[str, object] = {}
    exec(NETS, names)
    torch.manual_seed(0)
    save_file(names["Net"]().state_dict(), tmp_path / "trained.safetensors")  # type: ignore[operator]
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_nothing_is_left_out() -> None:
    assert {line.split()[1] for line in LINES} == {"audit", "compare", "visible", "card", "score", "prune", "what-if"}


@pytest.mark.parametrize("line", [line for line in LINES if "timm:" not in line])
def test_every_example_runs(here: Path, line: str) -> None:
    for pattern, better in SMALLER:
        line = re.sub(pattern, better, line.strip())
    done = CliRunner().invoke(app, shlex.split(line)[1:])
    assert done.exit_code == (1 if "condition holds" in done.stdout else 0), done.output
    if "--out" in line:
        assert (here / line.partition("--out ")[2].split()[0]).exists()
