"""`netgrain complexity`: the table, the document, weights of one network, and one sentence for what can be wrong."""

import json
import math
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from typer.testing import CliRunner, Result

from netgrain.cli import app as cli
from netgrain.complexity import geometric_complexity
from netgrain.data import load
from netgrain.families.members import member

MODELS = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self, outputs=3):
            super().__init__()
            self.layer = nn.Linear(4, outputs)

        def forward(self, x):
            return torch.tanh(self.layer(x))

    class Odd(Net):
        def forward(self, x):
            return torch.fft.fft(super().forward(x)).real

    class Mixing(Net):
        def forward(self, x):
            return super().forward(x) - super().forward(x).mean(0)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "models.py").write_text(dedent(MODELS))
    generator = np.random.default_rng(0)
    np.savez(tmp_path / "data.npz", X=generator.normal(size=(30, 4)).astype(np.float32), y=np.arange(30) % 3)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, ["complexity", *arguments])


def document(*arguments: str) -> dict:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def net(outputs: int = 3) -> nn.Module:
    return nn.Sequential(nn.Linear(4, outputs), nn.Tanh())


def samples() -> torch.Tensor:
    return torch.from_numpy(np.load("data.npz")["X"])


def test_fresh_networks(folder: Path) -> None:
    report = document("models.py:Net", "--data", "data.npz", "--members", "4", "--seed", "2")
    make = lambda: nn.Sequential(nn.Linear(4, 3), nn.Tanh())  # noqa: E731
    each = [geometric_complexity(member(make, 2, i), load("data.npz").X).value for i in range(4)]
    logits = report["variants"]["logits"]
    assert logits["value"] == pytest.approx(np.mean(each), rel=1e-5)
    assert logits["stderr"] == pytest.approx(np.std(each, ddof=1) / 2, rel=1e-4)
    assert logits["n"] == report["networks"] == 4
    assert report["variants"]["softmax"]["value"] <= logits["value"] / 4
    assert list(report["per_class"]) == ["0", "1", "2"]
    assert np.mean([c["value"] for c in report["per_class"].values()]) == pytest.approx(logits["value"], rel=1e-5)
    assert report["inputs"].startswith("30 points 4 as given, mean ")
    bounds = {name: cell["value"] for name, cell in report["bounds"].items()}
    assert bounds["mean_op"] <= bounds["lower_max"] <= bounds["upper_product"] * (1 + 1e-6)
    assert document("models.py:Net", "--data", "data.npz", "--members", "4", "--seed", "2") == report
    assert document("models.py:Net", "--data", "data.npz")["networks"] == 5


def test_weights_of_one_network(folder: Path) -> None:
    torch.manual_seed(5)
    trained = net()
    names = {"layer.weight": trained[0].weight.detach(), "layer.bias": trained[0].bias.detach()}
    save_file(names, "w.safetensors")
    torch.save(names, "w.pt")
    torch.save({"epoch": 3, "state_dict": names}, "checkpoint.pt")
    expected = geometric_complexity(trained, samples()).value
    for file in ("w.safetensors", "w.pt", "checkpoint.pt"):
        report = document("models.py:Net", "--data", "data.npz", "--weights", file)
        assert report["variants"]["logits"]["value"] == pytest.approx(expected, rel=1e-5)
        assert report["networks"] == 1
        assert report["weights"] == file
    probed = document(
        "models.py:Net", "--data", "data.npz", "--weights", "w.pt", "--estimator", "vjp", "--rel-error", "0.01"
    )
    assert probed["estimator"] == "vjp"
    found = probed["variants"]["logits"]
    assert found["stderr"] > 0
    assert abs(found["value"] - expected) < 5 * found["stderr"]


def test_table(folder: Path) -> None:
    result = run("models.py:Net", "--data", "data.npz", "--members", "2", "--limit", "20")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "models.py:Net: mean ± standard error over 2 networks, fresh, seed 0"
    assert lines[1].startswith("data.npz: 20 points 4 as given, mean ")
    assert lines[1].endswith("; standardised per feature")
    for start, end in (
        ("logits", "mean squared slope of the outputs, GC = mean ‖∂f/∂x‖²"),
        ("per margin²", "networks"),
        ("Lipschitz, from above", "the layers' constants multiplied: the Lipschitz constant is not larger"),
        ("class 0", "GC on the points of a class"),
    ):
        (line,) = [line.rstrip() for line in lines if line.startswith(start)]
        assert line.endswith(end) or start == "per margin²"
    odd = run("models.py:Odd", "--data", "data.npz", "--members", "1")
    (line,) = [line for line in odd.stdout.splitlines() if line.startswith("Lipschitz, from above")]
    assert "none" in line
    assert "not known: " in line


def test_no_margin_is_said(folder: Path) -> None:
    save_file({"layer.weight": torch.zeros(3, 4), "layer.bias": torch.zeros(3)}, "w.safetensors")
    report = document("models.py:Net", "--data", "data.npz", "--weights", "w.safetensors")
    assert report["variants"]["logits"]["value"] == 0
    assert report["variants"]["per_margin"]["value"] is None
    assert report["variants"]["per_margin"]["note"].startswith("the 50% quantile of the margins is 0, not above zero")
    assert "per_variance" not in report["variants"]


NET = ("models.py:Net", "--data", "data.npz")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("models.py:Net", "--data", "none.npz"), "none.npz is not a file"),
        (("models.py:Net", "--data", "digitz"), "did you mean 'digits'"),
        (("models.py:Nett", "--data", "data.npz"), "Nett"),
        ((*NET, "--members", "0"), "--members must be at least 1, found 0."),
        ((*NET, "--limit", "0"), "limit"),
        ((*NET, "--estimator", "exakt"), "estimator 'exakt' is not known; did you mean 'exact'?"),
        ((*NET, "--rel-error", "0"), "expected a relative error above zero, found rel_error=0"),
        ((*NET, "--weights", "w.pt", "--members", "3"), "--members and --weights cannot be combined"),
        ((*NET, "--weights", "none.pt"), "none.pt is not a file; expected weights as .safetensors"),
        ((*NET, "--weights", "models.py"), "models.py cannot be read as weights ("),
        ((*NET, "--weights", "text.safetensors"), "text.safetensors cannot be read as weights ("),
        ((*NET, "--weights", "list.pt"), "list.pt holds list, not named tensors"),
        ((*NET, "--weights", "evil.pt"), "evil.pt cannot be read as weights ("),
        (
            (*NET, "--weights", "other.pt"),
            "the weights do not fit Net: they lack 'layer.bias' and have 'head' too many",
        ),
        ((*NET, "--weights", "sparse.pt"), "the weights cannot be copied into Net (Error(s) in loading"),
        ((*NET, "--weights", "complex.pt"), "the weights do not fit Net: 'layer.weight' has complex numbers"),
        ((*NET, "--weights", "cut.pt"), "cut.pt cannot be read as weights ("),
        ((*NET, "--weights", "w" * 300), "www is not a file"),
        (("models.py:Net", "--data", f"{'n' * 300}.npz"), "n.npz is not a file"),
        ((*NET, "--data-dir", "n" * 300, "--data", "mnist"), "File name too long; choose another file or folder."),
        ((*NET, "--weights", "wide.pt"), "the weights do not fit Net: 'layer.bias' has shape (5,), expected (3,)"),
        (("models.py:Net:outputs=2", "--data", "data.npz"), "labels run from 0 to 2, but the model has 2 outputs"),
        (("models.py:Mixing", "--data", "data.npz"), "mixes the samples of a batch"),
    ],
)
def test_one_sentence_and_exit_code_two(folder: Path, arguments: tuple[str, ...], text: str) -> None:
    w, b = torch.zeros(3, 4), torch.zeros(3)
    torch.save({"layer.weight": w, "layer.bias": b}, "w.pt")
    torch.save([w, b], "list.pt")
    torch.save(net(), "evil.pt")  # a whole module is code, which is not run
    torch.save({"layer.weight": w, "head": b}, "other.pt")
    torch.save({"layer.bias": torch.zeros(5), "layer.weight": w}, "wide.pt")
    torch.save({"layer.weight": w.to_sparse(), "layer.bias": b}, "sparse.pt")
    torch.save({"layer.weight": w.to(torch.complex64), "layer.bias": b}, "complex.pt")
    torch.save({"layer.weight": w}, "cut.pt", _use_new_zipfile_serialization=False)
    Path("cut.pt").write_bytes(Path("cut.pt").read_bytes()[:60])
    Path("text.safetensors").write_text("no tensors")
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert text in result.stderr


def test_any_whole_number_is_a_seed(folder: Path) -> None:
    report = document(*NET, "--members", "1", "--limit", "20", "--seed", "9" * 25)
    assert report["seed"] == int("9" * 25)


def test_numbers_of_a_built_in_network() -> None:
    report = document("mlp:width=0.05", "--data", "digits", "--members", "2", "--limit", "50")
    assert report["data"] == "digits train"
    assert math.isfinite(report["variants"]["logits"]["value"])
    assert len(report["per_class"]) == 10
