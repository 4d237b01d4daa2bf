"""Figure 3: the same seeds on both laws, and the claims about them."""

import math
from dataclasses import replace

import pytest
import torch

from netgrain import Estimate, Geometry
from netgrain.experiments.grain import fig3
from netgrain.experiments.grain import following as f
from netgrain.experiments.grain.grains import model_config
from netgrain.experiments.grain.trials import Trials
from netgrain.runtime.units import Outcome
from tests.experiments.grain.made_up_courses import change

SMALL = model_config("MLP", (1, 4, 4), activation="relu", width=0.1)


def _rows(members: int = 5, times: int = 3, d: int = 6, seed: int = 0) -> torch.Tensor:
    return torch.randn(members, times, 2, d, generator=torch.Generator().manual_seed(seed))


def test_mlp_data_and_flipped_data_are_one_law() -> None:
    m = model_config("MLP", (1, 4, 4), activation="relu")
    G = f.geometry_at_start(m, method="auto", members=4)
    assert torch.allclose(G.matrix(), G.matrix()[0, 0] * torch.eye(16, dtype=torch.float64))
    assert torch.allclose(G.flip().matrix(), G.matrix())


def test_flipped_data_keep_the_eigenvalues_unless_blocks_move() -> None:
    G = Geometry.from_matrix(torch.diag(torch.tensor([5.0, 2.0, 2.0, 2.0])))
    assert fig3.flipped(G, "eigenvalues", 3).eigenvalues.tolist() == pytest.approx([5.0, 2.0, 2.0, 2.0])
    assert fig3.flipped(G, "blocks", 3).eigenvalues.tolist() == pytest.approx([5.0, 5.0, 5.0, 2.0])
    cell = fig3.Cell("MLP", samples=4, batch=2, epochs=1, lr=0.1)
    smoke = fig3.PRESETS["smoke"]
    own, shared = (
        [cell.units(SMALL, replace(smoke, own_data=own), seed)[0]["data"] for seed in (0, 1)] for own in (True, False)
    )
    assert (own, shared) == ([0, 1], [0, 0])


def _pair(gaps: list[float], plug_in: Estimate, left_out: int = 0) -> fig3.Pair:
    accuracy = {"G": [[50.0, 60.0 + g, 60.0 + g] for g in gaps], "flip(G)": [[50.0, 60.0, 60.0] for _ in gaps]}
    turned = {law: [Estimate(0.1, 0.01, 4, 0.2)] * 2 for law in fig3.LAWS}
    far = {law: [1.0] * len(gaps) for law in fig3.LAWS}
    order = Estimate(-5 * plug_in.value, 5 * plug_in.stderr, 6)
    kind = "one" if plug_in.value == 0 else "ordered"
    moved = {law: change(plug_in, order, kind) for law in fig3.LAWS}
    return fig3.Pair(list(range(len(gaps))), accuracy, turned, plug_in, plug_in, left_out, far, moved)


def _verdicts(claims: list) -> dict[str, str]:
    return {c.name: c.verdict for c in claims}


def test_fig3_claims() -> None:
    yes, no, maybe = Estimate(0.2, 0.01, 6), Estimate(-0.2, 0.01, 6), Estimate(0.01, 0.1, 6)
    zero = Estimate(0.0, 0.0, 6)
    pairs = {
        "MLP": _pair([0.0, 0.0, 0.0], zero),
        "LeNet": _pair([10.0, 11.0, 12.0], yes),
        "ResNet18": _pair([-10.0, -11.0, -12.0], no),
        "ViT": _pair([-10.0, 1.0, 12.0], maybe, left_out=2),
    }
    result = fig3.Result(fig3.PRESETS["smoke"], pairs, {"MLP": 1.0, "LeNet": 1.0, "ResNet18": 1.0, "ViT": 2.8})
    found = fig3.claims(result)
    assert len({c.name for c in found}) == len(found) == 21
    for network, verdict in (("MLP", "holds"), ("LeNet", "holds"), ("ResNet18", "fails"), ("ViT", "undecided")):
        assert {v for n, v in _verdicts(found).items() if n.startswith(network)} == {verdict}
    assert all("no evidence" in c.note and c.basis == "identity" for c in found if c.name.startswith("MLP: "))
    assert all("2 diverged" in c.note and "2.80 times the trace" in c.note for c in found if c.name.startswith("ViT: "))
    nothing = fig3.Result(result.config, {**pairs, "LeNet": _pair([0.0, 0.0], zero)}, result.traces)
    assert _verdicts(fig3.claims(nothing))["LeNet: train accuracy"] == "fails"  # no difference is not a larger value


def test_diverged_seeds_leave_with_their_partners() -> None:
    cell = fig3.Cell("MLP", samples=4, batch=2, epochs=1, lr=0.1)
    units = [cell.units(SMALL, fig3.PRESETS["smoke"], seed) for seed in range(5)]
    assert len({(u["seed"], u["law"]) for row in units for u in row}) == 10

    def outcome(u: dict) -> Outcome:
        bad = u["seed"] == 3 and u["law"] == "G"
        shift = 10.0 * (u["law"] == "G") + u["seed"]
        rows = torch.zeros(0) if bad else _rows(members=1, seed=u["seed"])[0]
        numbers = {"train": [50.0, 50.0 + shift, 60.0], "distance": [0.0, 1.0, 2.0 + shift]}
        return Outcome(
            {"diverged": bad, **{key: [] for key in numbers}} if bad else {"diverged": bad, **numbers}, {"rows": rows}
        )

    outcomes = [[outcome(u) for u in row] for row in units]
    pair = fig3.pair_of(Trials(outcomes))
    assert pair.left_out == 1
    assert pair.seeds == [0, 1, 2, 4]
    assert "1 diverged" in pair.note
    assert pair.gaps(slice(1, None)) == [5.0] * 4
    assert pair.plug_in.value == pytest.approx(0)  # the same rows on both laws
    assert pair.distance == {"G": [12.0, 13.0, 14.0, 16.0], "flip(G)": [2.0, 3.0, 4.0, 6.0]}
    assert pair.change == {}
    none = fig3.pair_of(
        Trials([[replace(o, numbers={**o.numbers, "diverged": True}) for o in row] for row in outcomes])
    )
    assert none.seeds == []
    assert math.isnan(none.velocity.value)
