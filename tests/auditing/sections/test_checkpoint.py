"""A checkpoint beside fresh networks: linear ones by hand, answers, weights that do not fit, nothing touched."""

import copy
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain import NetgrainError
from netgrain.auditing.audits import Audit, audit
from netgrain.auditing.sections.checkpoint import measure, trained_network


def linear() -> nn.Module:
    return nn.Linear(4, 2, bias=False)


X = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()
G = ng.Geometry.from_matrix(torch.eye(4))
DEVICE = torch.device("cpu")
RIGHT = torch.tensor([[-3.0, 0, 0, 0], [3.0, 0, 0, 0]])  # the second output is larger where the first entry is


@dataclass(frozen=True, eq=False)
class Subject:
    """What the section looks at, and no more."""

    y: Tensor | None = None
    weights: dict[str, Tensor] | None = None
    network: nn.Module | None = None
    make: Any = linear
    X: Tensor = X
    classes: tuple[str, ...] = ("below", "above")
    features: tuple[str, ...] = ("a", "b", "c", "d")
    G: ng.Geometry = G
    seed: int = 0
    device: torch.device = DEVICE
    expected: None = None
    test: tuple[Tensor, Tensor] | None = None
    given: int | None = None
    rows: Tensor | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.X.shape[1:])


def found(**chosen: Any) -> dict[str, Any]:
    report: dict[str, Any] = measure(Subject(**chosen))["checkpoint"]  # type: ignore[arg-type]
    return report


def test_a_linear_network_by_hand() -> None:
    """Its Jacobian is its weight matrix W, so the complexity is ‖W‖², and its geometry WᵀW."""
    report = audit(linear, X, Y, G=G, weights={"weight": RIGHT}, trial=False, progress=False).report
    assert report["complexity"]["trained"]["value"] == pytest.approx(18)
    assert report["complexity"]["moved"]["corr"]["value"] == pytest.approx(0.5)  # ⟨WᵀW, I⟩ / ‖WᵀW‖ ‖I‖
    c = report["checkpoint"]
    assert (c["accuracy"]["value"], c["answered"], c["mistakes"]) == (1.0, 64, [])
    assert c["parts"][0]["trained"]["value"] == pytest.approx(1)
    assert c["parts"][0]["fresh"]["value"] == pytest.approx(0.25, abs=4 * c["parts"][0]["fresh"]["stderr"])
    assert [s["value"] for s in c["steepest"]] == pytest.approx([1.0] * 6)
    none = audit(linear, X, Y, G=G, trial=False, progress=False).report
    assert none["complexity"]["trained"] is None
    assert none["checkpoint"] is None


def test_wrong_answers_are_counted_and_a_flipped_checkpoint_is_an_error() -> None:
    report = audit(
        linear, X, Y, G=G, weights={"weight": -RIGHT}, classes=["no", "yes"], trial=False, progress=False
    ).report
    c = report["checkpoint"]
    assert c["accuracy"]["value"] == 0
    assert {(m["true"], m["said"]) for m in c["mistakes"]} == {("no", "yes"), ("yes", "no")}
    assert sum(m["count"] for m in c["mistakes"]) == 64
    assert report["alerts"][0]["title"] == "The checkpoint is close to guessing"


def test_numbers_no_labels_and_outputs_that_are_no_classes() -> None:
    y = X[:, 0] + 0.1 * X[:, 1]
    one = found(make=lambda: nn.Linear(4, 1, bias=False), weights={"weight": torch.tensor([[1.0, 0, 0, 0]])}, y=y)
    assert one["measure"] == "R²"
    assert one["accuracy"]["value"] == pytest.approx(0.99, abs=0.01)
    unlabelled = found(weights={"weight": RIGHT})
    assert (unlabelled["accuracy"], unlabelled["measure"], unlabelled["answered"]) == (None, None, 0)
    assert unlabelled["complexity"]["trained"]["value"] == pytest.approx(18)
    several = found(weights={"weight": RIGHT}, y=torch.arange(64) % 3)
    assert several["accuracy"] is None


def test_a_given_network_is_left_as_it_is_and_has_no_fresh_ones_beside_it() -> None:
    net = linear().train()
    net.weight.data = RIGHT.clone()
    before, state = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    first, again = (found(network=net, y=Y, rows=torch.arange(64) + 100) for _ in range(2))
    assert first == again
    assert first["given"] == "network"
    assert first["members"] == 0
    assert first["complexity"]["fresh"] is first["moved"]["corr"] is None
    assert all(s["index"] == s["place"] + 100 for s in first["steepest"])  # places among what was given
    assert net.training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(t, before[n]) for n, t in net.state_dict().items())
    assert all(p.requires_grad and p.grad is None for p in net.parameters())
    assert trained_network(Subject()) is None  # type: ignore[arg-type]


def test_a_checkpoint_is_told(audited: Audit) -> None:
    c = audited.report["checkpoint"]
    assert c["complexity"]["trained"]["value"] > 5 * c["complexity"]["fresh"]["value"]
    assert c["moved"]["corr"]["value"] < 1
    assert c["moved"]["weights"]["value"] == pytest.approx((5 / 2) ** 0.5, rel=0.15)  # doubled: √((4 + 1) / (1 + 1))
    assert [row["share"] for row in c["leading"]] == [0.5, 0.9, 0.99]
    assert sum(p["trained"]["value"] for p in c["parts"]) == pytest.approx(1)
    assert {p["kind"] for p in c["pictures"]} == {"steep", "class"}
    assert all(p["overlay"].startswith("data:image/png;base64,") for p in c["pictures"])
    html = audited.html()
    assert "What it reacts to in single images" in html
    assert "Samples on which it is steepest" in html


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({}, "they lack 'weight'"),
        ({"weight": torch.zeros(3, 3)}, r"'weight' has shape \(3, 3\)"),
        ({"weight": torch.zeros(2, 4).to_sparse()}, "cannot be copied"),
        ({"weight": torch.zeros(2, 4) + 0j}, "complex numbers"),
        ({"weight": torch.zeros(2, 4), "more": torch.zeros(1)}, "they have 'more' too many"),
    ],
)
def test_weights_that_do_not_fit(weights: dict[str, Tensor], said: str) -> None:
    with pytest.raises(NetgrainError, match=said):
        audit(linear, X, Y, G=G, weights=weights, trial=False, progress=False)


def test_new_samples_are_what_it_is_judged_on() -> None:
    """Labels by the first entry; on the new ones by the second: half of them are right."""
    new = torch.randn(200, 4, generator=torch.Generator().manual_seed(1))
    c = found(weights={"weight": RIGHT}, y=Y, test=(new, (new[:, 1] > 0).long()))
    assert (c["accuracy"]["value"], c["answered"]) == (1.0, 64)
    assert c["test"]["value"] == pytest.approx(0.5, abs=4 * c["test"]["stderr"])
    assert (c["tested"], sum(m["count"] for m in c["mistakes"])) == (200, round(200 * (1 - c["test"]["value"])))


@pytest.mark.parametrize(
    ("test", "options", "said"),
    [
        ((X, Y), {"weights": None}, "judging a trained network, and there is none"),
        ((X[:, :3], Y), {}, r"the samples of test have shape \(3,\), those of X \(4,\)"),
        (X, {}, r"test expects a pair \(X, y\), found Tensor"),
        ((X, Y[:10]), {}, "one label for each sample"),
        ((X, Y), {"y": None}, "needs labels to judge by"),
    ],
)
def test_new_samples_that_do_not_fit(test: Any, options: dict[str, Any], said: str) -> None:
    chosen = {"y": Y, "weights": {"weight": RIGHT}, **options}
    with pytest.raises(NetgrainError, match=said):
        audit(linear, X, chosen["y"], G=G, weights=chosen["weights"], test=test, trial=False, progress=False)
