"""`netgrain what-if`: layers, options and sizes, the document, and one sentence for what is wrong."""

import json
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from tests.cli.commands import Run

MODEL = """
    from torch import nn

    class Net(nn.Sequential):
        def __init__(self, outputs=2, width=4):
            super().__init__(
                nn.Conv1d(1, width, 1), nn.ReLU(), nn.AvgPool1d(2), nn.Flatten(), nn.Linear(4 * width, outputs)
            )
"""


@pytest.fixture(autouse=True)
def files(run: Run, tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(dedent(MODEL))
    X = np.random.default_rng(0).normal(size=(90, 1, 8)).astype(np.float32)
    np.savez(tmp_path / "data.npz", X=X, y=(X[:, 0, 0] > X[:, 0, 1]).astype(int))


WORDS = ("what-if", "nets.py:Net", "--data", "data.npz")


def test_layers_and_options_together(run: Run) -> None:
    code, out, _ = run(*WORDS, "--swap", "2=MaxPool1d(2)", "--set", "width=8", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["change"].startswith("width=8, 2 → MaxPool1d(kernel_size=2")
    assert set(found["gain"]["parts"]) == {"samples", "members", "model"}
    assert found["after"]["value"] == pytest.approx(min(1, found["before"]["value"] + found["gain"]["value"]))
    assert found["cost_ratio"] == 2.0
    assert found["directions"] == {"for 99 %": [4, 8], "of": [8, 8]}  # a mean over two neighbours hides half of them


def test_directions_where_they_are_cheap(run: Run) -> None:
    code, out, _ = run(*WORDS, "--set", "width=2", "--samples", "40", "--json")
    assert code == 0
    found = json.loads(out)["directions"]
    assert found["of"] == [8, 8]
    assert found["for 99 %"][0] == found["for 99 %"][1] == 4  # of an average over two neighbours, whatever the width


def test_what_people_read(run: Run) -> None:
    code, out, _ = run(*WORDS, "--swap", "1=GELU()", "--samples", "60")
    assert code == 0
    assert "points, paired over 30 samples" in out
    assert "no clear gain: the interval holds 0" in out
    assert "the operations of a prediction" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "what-if expects a change, found none; give --swap, --set or --resize."),
        (("--set", "width"), "--set expects OPTION=VALUE, as in width=0.5; found 'width'."),
        (("--set", "depth=2"), "has no option 'depth'"),
        (("--swap", "pool"), "a change is written NAME=LAYER"),
        (("--swap", "7=GELU()"), "has no submodule '7'"),
        (("--resize", "4"), "the network does not take images of 4 × 4"),
    ],
)
def test_bad_input_is_one_sentence(run: Run, words: tuple[str, ...], said: str) -> None:
    code, _, err = run(*WORDS, *words)
    assert code == 2
    assert said in " ".join(err.split())
