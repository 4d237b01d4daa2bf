"""The audit says what was planted, takes any module and any data, and leaves nothing half-written."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

import netgrain as ng
from netgrain import NetgrainError
from netgrain.auditing.alignment import align, label_directions
from netgrain.auditing.audits import audit
from netgrain.auditing.comparisons import compare
from netgrain.auditing.swaps import parsed_swaps
from netgrain.cli.app import app
from netgrain.data import isotropic
from netgrain.geometry.provenance import Provenance
from netgrain.models import MLP, LeNet
from netgrain.models.checkpoints import read_weights
from netgrain.training import Settings, accuracy, train_member

SHAPE = (1, 16, 16)
lenet = partial(LeNet, channels=1, image_size=16, outputs=2, activation="gelu")


@pytest.fixture(scope="module")
def G() -> ng.Geometry:
    return ng.average_geometry(lenet, SHAPE)


def _planted(G: ng.Geometry, index: int, n: int = 800, seed: int = 0) -> tuple[Tensor, Tensor]:
    data = isotropic(G.directions()[index], n, epsilon=1.0, seed=seed)
    return data.X, data.y


def test_labels_planted_at_the_top_and_at_the_bottom(G: ng.Geometry) -> None:
    top, bottom = (audit(lenet, *_planted(G, i), G=G, progress=False).report for i in (0, -1))
    assert top["labels"]["words"] == "strong"
    assert bottom["labels"]["words"] in ("weak", "very weak")
    assert top["labels"]["nonlinear"]["value"] > 0.9 > 0.1 > bottom["labels"]["nonlinear"]["value"]
    assert top["labels"]["mean_difference"]["value"] > 0.8 > 0.2 > bottom["labels"]["mean_difference"]["value"]
    assert top["labels"]["linear"]["leading"]["value"] > 0.75
    assert bottom["labels"]["linear"]["leading"]["value"] < 0.6 < 0.75 < bottom["labels"]["linear"]["weak"]["value"]
    assert {s["level"] for s in bottom["sentences"]} == {"note"}  # nothing was trained, so nothing is good or bad
    json.dumps(top, allow_nan=False)


class Tabular(nn.Module):
    """One-dimensional input, an initialiser of its own, three outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 16), nn.Linear(16, 3)
        nn.init.orthogonal_(self.first.weight, gain=2)
        with torch.no_grad():
            self.first.weight[:, 5] *= 1e-3  # nearly blind to the last feature

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.first(x)))


class Attending(nn.Module):
    """Maxima and attention: only sampling can handle it. Ten outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.pool = nn.Conv2d(1, 8, 3, padding=1), nn.MaxPool2d(4)
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
        self.last = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.pool(self.conv(x)).flatten(2).transpose(1, 2)
        return self.last(self.attend(tokens, tokens, tokens, need_weights=False)[0].mean(1))


def test_a_table_with_named_features() -> None:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(300, 6, generator=generator)
    names = ["age", "height", "<b>weight</b>", "d", "e", "unseen"]
    found = audit(Tabular, X, (X[:, 0] > 0).long() + (X[:, 1] > 1).long(), features=names, progress=False)
    named = found.report["features"]["named"]
    assert {f["name"] for f in named} == set(names)
    assert named[-1]["name"] == "unseen"
    assert named[-1]["share"] < 1e-4
    assert found.report["directions"][0]["bars"] is not None
    assert "<b>weight" not in found.html()


def test_a_network_that_only_sampling_can_handle() -> None:
    X = torch.randn(200, *SHAPE, generator=torch.Generator().manual_seed(0))
    found = audit(Attending, X, torch.arange(200) % 10, members=8, progress=False).report
    assert found["geometry"]["method"] == "sampled"
    assert found["geometry"]["members"] == 8
    assert len(found["samples"]["classes"]) == 10


def test_a_zero_head_is_told_with_the_way_out() -> None:
    def zero() -> nn.Module:
        net = nn.Sequential(nn.Flatten(), nn.Linear(4, 4), nn.Linear(4, 2))
        nn.init.zeros_(net[2].weight)
        return net

    with (
        pytest.warns(ng.GrainWarning, match="exactly zero"),
        pytest.raises(NetgrainError, match=r"exactly zero.*probe the features.*trained checkpoint"),
    ):
        audit(zero, torch.randn(50, 4), torch.arange(50) % 2, progress=False)


def test_trained_weights_are_compared_with_fresh_ones(G: ng.Geometry, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    X, y = _planted(G, 0, 300)
    trained = train_member(lenet, X, y, Settings(steps=60, batch=100), seed=0, i=0)
    save_file(trained.state, tmp_path / "w.safetensors")
    torch.save({"state_dict": trained.state}, tmp_path / "w.pt")
    for file in ("w.safetensors", "w.pt"):
        weights = read_weights(tmp_path / file)
        assert set(weights) == set(trained.state)
    complexity = audit(lenet, X, y, G=G, weights=weights, progress=False).report["complexity"]
    assert complexity["trained"]["value"] > 10 * complexity["initial"]["value"]
    assert complexity["moved"]["corr"]["value"] < 1
    assert len(complexity["moved"]["rows"]) == 3
    (tmp_path / "bad.pt").write_bytes(b"not weights")
    with pytest.raises(NetgrainError, match="cannot be read as weights"):
        read_weights(tmp_path / "bad.pt")
    some = dict(list(trained.state.items())[1:])
    key = next(iter(trained.state))
    with pytest.raises(NetgrainError, match=f"they lack '{key}'"):
        audit(lenet, X, y, G=G, weights=some, progress=False)
    for change, said in ((torch.Tensor.to_sparse, "cannot be copied"), (lambda t: t + 0j, "complex numbers")):
        other = {**trained.state, key: change(trained.state[key])}
        with pytest.raises(NetgrainError, match=said):
            audit(lenet, X, y, G=G, weights=other, progress=False)
    with pytest.raises(NetgrainError, match="they have 'more' too many"):
        audit(lenet, X, y, G=G, weights={**trained.state, "more": torch.zeros(1)}, progress=False)


def test_bad_input(G: ng.Geometry) -> None:
    X, y = _planted(G, 0, 64)
    for make, X_bad, y_bad, said in (
        (lenet, X[:, :, :9, :9], y, r"LeNet cannot take samples of shape \(1, 9, 9\)"),
        (lenet, X, y * 0, "expected at least two classes"),
        (lenet, X, y + 2, "labels run from 2 to 3, but the model has 2 outputs; expected labels 0 to 1"),
        (lenet, X, y[:5], r"y has shape \(5,\), expected \(64,\)"),
        (MLP, torch.zeros(40, 3, 64, 64), torch.arange(40) % 2, "average the images down"),
    ):
        with pytest.raises(NetgrainError, match=said):
            audit(make, X_bad, y_bad, progress=False)  # type: ignore[arg-type]


def test_two_networks_side_by_side(G: ng.Geometry) -> None:
    X, y = _planted(G, 0, 400)
    mlp = partial(MLP, channels=1, image_size=16, outputs=2)
    report = compare(
        [audit(lenet, X, y, G=G, name="lenet", progress=False), audit(mlp, X, y, name="mlp", progress=False)]
    )
    (verdict,) = report.verdicts
    assert verdict["text"].startswith("lenet has these labels more in its grain than mlp")
    same = compare([audit(mlp, X, y, name=n, progress=False) for n in ("a", "b")]).verdicts[0]
    assert "cannot be told apart" in same["text"]


# --- alignment ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("labels", "epsilon", "steps"), [("linear", 1.0, 300), ("quadratic", 2.5, 500)])
def test_alignment_turns_chance_into_more_than_ninety_per_cent(
    G: ng.Geometry, labels: str, epsilon: float, steps: int
) -> None:
    u = G.directions()[-1]
    train, test = (isotropic(u, n, labels=labels, epsilon=epsilon, seed=s) for n, s in ((2000, 0), (1000, 1)))  # type: ignore[arg-type]
    turn = align(G, train.X, train.y)
    settings = Settings(lr=0.1, steps=steps, batch=100, decay="linear")
    found = []
    for change in (lambda x: x, turn):
        trained = train_member(lenet, change(train.X), train.y, settings, seed=0, i=0)
        found.append(accuracy(trained.model(lenet), change(test.X), test.y))
    assert found[0] < 0.6
    assert found[1] > 0.9


def test_the_transform_is_orthogonal_and_can_be_undone(G: ng.Geometry) -> None:
    X, y = _planted(G, 100, 1000)
    turn = align(G, X, y)
    Q = turn.matrix().double()
    assert torch.allclose(Q @ Q.T, torch.eye(256, dtype=torch.float64), atol=1e-5)
    assert torch.allclose(turn.inverse(turn(X)), X, atol=1e-5)
    u = label_directions(X, y)[0]
    assert abs(float(Q @ u @ G.directions()[0].flatten())) == pytest.approx(1, abs=1e-5)
    assert not list(turn.parameters())
    again = type(turn)(torch.zeros_like(turn.reflections), SHAPE)
    again.load_state_dict(turn.state_dict())
    assert torch.equal(again(X), turn(X))
    with pytest.raises(NetgrainError, match="expected inputs of shape"):
        turn(X[:, :, :8])


def test_nothing_to_turn(G: ng.Geometry) -> None:
    generator = torch.Generator().manual_seed(0)
    X, y = torch.randn(600, *SHAPE, generator=generator), torch.randint(2, (600,), generator=generator)
    with pytest.raises(NetgrainError, match="no direction along which the label shows"):
        align(G, X, y)
    with pytest.raises(NetgrainError, match="at least two classes"):
        align(G, X, y * 0)


# --- commands -------------------------------------------------------------------------------------------------------


def _invoke(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def npz(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((120, 1, 16, 16)).astype(np.float32)
    np.savez(tmp_path / "my.npz", X=X, y=np.where(X[:, 0, 3:7, 3:7].mean((1, 2)) > 0, "<script>x</script>", "no"))
    return tmp_path / "my.npz"


def test_audit_compare_and_what_if_from_the_shell(npz: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    code, text, error = _invoke(
        "audit", "lenet", "--data", str(npz), "--out", str(out), "--what-if", "layers.2=MaxPool2d(2)"
    )
    assert code == 0, error
    assert "directions carry 90 % of G" in " ".join(text.split())
    page = out.read_text()
    assert "<script>x" not in page
    assert "MaxPool2d" in page
    code, text, _ = _invoke("compare", "lenet", "mlp", "--data", str(npz), "--json", "--out", str(tmp_path / "c.html"))
    assert code == 0
    assert len(json.loads(text)["audits"]) == 2
    assert (tmp_path / "c.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--out", "no/such/folder/x.html"), "there is no folder"),
        (("--out", "."), "is a folder"),
        (("--keep", "0"), "--keep expects a share"),
        (("--weights", "none.pt"), "is not a file"),
        (("--what-if", "pool1"), "expects NAME=LAYER"),
        (("--what-if", "pool1=AvgPol2d(2)"), "Did you mean 'AvgPool2d'"),
        (("--what-if", "pool1=AvgPool2d(open('x'))"), "plain arguments"),
    ],
)
def test_bad_arguments_are_told_and_nothing_is_written(
    npz: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(p.name for p in tmp_path.iterdir())
    code, _, error = _invoke("audit", "lenet", "--data", str(npz), *arguments)
    assert (code, said in error, len(error.strip().splitlines())) == (2, True, 1), error
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_layers_as_they_are_written() -> None:
    found = parsed_swaps(["a.b=AvgPool2d(2, stride=1)", "c=GELU"])
    assert isinstance(found["a.b"], nn.AvgPool2d)
    assert isinstance(found["c"], nn.GELU)


def test_make_is_any_callable() -> None:
    made: list[Callable[..., nn.Module]] = [Tabular, lambda: Tabular()]
    X = torch.randn(64, 6, generator=torch.Generator().manual_seed(0))
    y = (X[:, 0] > 0).long()
    values = [audit(m, X, y, progress=False).report["geometry"]["trace"]["value"] for m in made]
    assert values[0] == pytest.approx(values[1])


def test_nothing_is_said_about_networks_and_data_that_were_not_measured(G: ng.Geometry) -> None:
    found = audit(lenet, *_planted(G, 0), G=G, progress=False)
    assert "validity" not in found.report["labels"]
    assert not re.search("rho|ρ", found.html().partition("<script")[0])


# --- where G is taken, and what may be said -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def samples() -> tuple[Tensor, Tensor]:
    """Images with a common background, so that the data are away from the origin."""
    generator = torch.Generator().manual_seed(5)
    X = 1.5 + torch.randn(600, *SHAPE, generator=generator)
    return X, (X[:, 0, 4:8, 4:8].mean((1, 2)) > 1.5).long()


def test_g_is_taken_at_the_data_unless_another_place_is_asked_for(samples: tuple[Tensor, Tensor]) -> None:
    at_data, at_origin = (audit(lenet, *samples, probe=p, progress=False) for p in (None, "origin"))
    assert at_data.report["geometry"]["where"] == "at 512 of the 600 samples"
    assert at_origin.report["geometry"]["where"] == "at the origin x = 0"
    counts = [found.report["geometry"]["directions_99"] for found in (at_origin, at_data)]
    assert counts[1] > 1.5 * counts[0]  # a smooth network is linear at the origin, and not at the data
    for found in (at_data, at_origin):
        place = found.report["geometry"]["where"]
        assert found.report["sentences"][0]["text"].startswith(f"G {place}:")
        assert f"G {place}" in found.html().partition("</header>")[0]
    again = audit(lenet, *samples, probe="data", progress=False)
    assert torch.equal(again.G.matrix(), at_data.G.matrix())
    few = audit(lenet, samples[0][:100], samples[1][:100], progress=False)
    assert few.report["geometry"]["where"] == "at the 100 samples"
    noise = audit(lenet, *samples, probe=ng.Gaussian(2.0), progress=False)
    assert noise.report["geometry"]["where"] == "at the probe gaussian:2"
    with pytest.raises(NetgrainError, match="probe 'far' is not known; expected auto, origin, gaussian:SIGMA or data"):
        audit(lenet, *samples, probe="far", progress=False)
    with pytest.raises(NetgrainError, match="found Tensor"):
        audit(lenet, *samples, probe=samples[0], progress=False)  # type: ignore[arg-type]
    with pytest.raises(NetgrainError, match="probe= belongs to making G"):
        audit(lenet, *samples, G=noise.G, probe="origin", progress=False)


def test_the_page_speaks_of_reactions_and_not_of_learning(samples: tuple[Tensor, Tensor]) -> None:
    found = audit(lenet, *samples, probe="origin", progress=False)
    zeros = found.report["zero"]
    assert (zeros["at_probe"], zeros["invisible"]) == (
        int((found.G.eigenvalues <= 1e-10 * found.G.eigenvalues[0]).sum()),
        0,
    )
    assert zeros["at_probe"] > 0
    said = " ".join(s["text"] for s in found.report["sentences"])
    assert f"{zeros['at_probe']} of 256 directions have zero gain at the origin x = 0." in said
    assert "invisible" not in said
    assert not re.search(r"learnable|can learn|hardly learn|blind|easy|hard\b|Accuracy left", found.html())


def test_invisible_directions_of_a_strided_network_are_counted(samples: tuple[Tensor, Tensor]) -> None:
    def strided() -> nn.Module:
        return nn.Sequential(nn.Conv2d(1, 4, 1, stride=2), nn.GELU(), nn.Flatten(), nn.Linear(256, 2))

    found = audit(strided, *samples, progress=False).report
    assert found["zero"] == {"at_probe": 192, "invisible": 192}
    assert any(s["text"].startswith("192 of 256 directions are invisible") for s in found["sentences"])


def test_no_grain_is_judged_by_the_spectrum(samples: tuple[Tensor, Tensor]) -> None:
    """One direction 14 times as strong as the average, all others alike: 99 % of G needs nearly all of them."""
    values = torch.ones(256)
    values[0] = 14 * 255 / 242
    grain, none = (ng.Geometry.from_matrix(torch.diag(v), SHAPE) for v in (values, torch.ones(256)))
    texts = [audit(lenet, *samples, G=g, progress=False).report["sentences"][0]["text"] for g in (grain, none)]
    assert "no grain" not in texts[0]
    assert "is 14 times an average one" in texts[0]
    assert "no grain" in texts[1]


def test_a_sample_with_fewer_gradients_than_directions_is_not_taken_for_zeros(samples: tuple[Tensor, Tensor]) -> None:
    report = audit(lenet, *samples, members=60, progress=False).report
    few = ng.average_geometry(lenet, SHAPE, probe=ng.Data(samples[0]), members=4, probes=8)  # 64 gradients
    found = audit(lenet, *samples, G=few, progress=False)
    known = found.report["geometry"]["known"]
    assert 0 < known < 64 < 256
    assert found.report["zero"] == {"at_probe": None, "invisible": None}
    assert all(
        v is None
        for i, v in zip(found.report["spectrum"]["index"], found.report["spectrum"]["network"], strict=True)
        if i >= known
    )
    assert [d["eigenvalue"] for d in found.report["directions"] if d["group"] == "weakest"] == [None] * 16
    assert any(f"the first {known} are known" in s["text"] for s in found.report["sentences"])
    assert known < report["geometry"]["known"]
    assert "zero gain" not in repr(found)


def test_what_was_done_is_said() -> None:
    """A closed form that averages over forward passes names them; it is not called a closed form and a sample."""
    from netgrain.auditing.places import how

    relu = partial(LeNet, channels=1, image_size=16, outputs=2)
    assert how(ng.average_geometry(lenet, SHAPE)) == "closed form, wide limit, no network sampled"
    assert how(ng.average_geometry(relu, SHAPE, members=3)) == "sampled from 3 random networks"
    passes = ng.Geometry(
        ng.average_geometry(lenet, SHAPE).form, SHAPE, Provenance("closed-form", members=16, exact=False)
    )
    assert how(passes) == "closed form, wide limit, over the forward passes of 16 random networks"


def test_samples_are_scored_about_their_mean(samples: tuple[Tensor, Tensor], G: ng.Geometry) -> None:
    X, y = samples
    found = audit(lenet, X, y, G=G, keep=0.5, progress=False)
    assert torch.equal(found.kept, ng.prune(G, X, y, keep=0.5, centre=True))
    assert not torch.equal(found.kept, ng.prune(G, X, y, keep=0.5))
    assert "minus the mean of all samples" in found.html()


def test_the_probe_from_the_shell(npz: Path, tmp_path: Path) -> None:
    out = ("--out", str(tmp_path / "r.html"))
    places = {
        "data": "at the 120 samples",
        "origin": "at the origin x = 0",
        "gaussian:0.5": "at the probe gaussian:0.5",
    }
    for probe, place in places.items():
        code, text, error = _invoke("audit", "lenet:activation=gelu", "--data", str(npz), "--probe", probe, *out)
        assert code == 0, error
        assert " ".join(text.split()).startswith(f"· G {place}:")
    code, _, error = _invoke("audit", "lenet", "--data", str(npz), "--probe", "far", *out)
    assert (code, "probe 'far' is not known" in error, len(error.strip().splitlines())) == (2, True, 1)
    code, text, _ = _invoke("compare", "lenet", "mlp", "--data", str(npz), "--probe", "origin", *out)
    assert code == 0
    assert "at the origin x = 0" in " ".join(text.split())
    assert "at the origin x = 0" in (tmp_path / "r.html").read_text().partition("</header>")[0]
