"""Experiments on linear equivariant networks: numbers known by hand, and claims that can come out either way."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from netgrain import Estimate, NetgrainError
from netgrain.equivariant import exponential_descent, limit, make_network, predictor
from netgrain.experiments.claims import Claim
from netgrain.experiments.equivariance import (
    eq_ccq200,
    eq_d8_columns,
    eq_d8_gaussians,
    eq_depth,
    eq_ordering,
    eq_strips,
    eq_uncertainty,
)
from netgrain.experiments.equivariance import studies as shared
from netgrain.groups import alternating, dihedral
from netgrain.runtime.units import Outcome

COLUMNS = {"kind": "columns"}
NUMBERS = {
    "ratio": 6.0, "start_ratio": 12.0, "real": 5.0, "start_real": 6.0, "ratio3": 6.0, "start_ratio3": 12.0,
    "objective": 5.0, "own_objective": 5.0, "lower": 4.0, "gap": 1e-6, "kkt": 1e-10, "balancedness": 1.0, "rank": 5,
    "stable_rank": 2.0, "start_stable_rank": 4.0, "reached": 10.0, "starts": 1,
}  # fmt: skip


def outcomes(count: int = 4, **changes: float) -> list[Outcome]:
    """Made-up trainings that differ a little from each other."""
    beta = torch.tensor(eq_d8_gaussians.PRINTED, dtype=torch.float64)
    return [
        Outcome({**NUMBERS, **{k: v * (1 + 1e-6 * i) for k, v in changes.items()}}, {"beta": beta, "start": beta})
        for i in range(count)
    ]


def verdict(claims: list[Claim], part: str) -> str:
    found = [c.verdict for c in claims if part in c.name]
    assert found, f"no claim is called {part}"
    assert len(set(found)) == 1, found
    return found[0]


# --- what is shared ---------------------------------------------------------------------------------------------------


def test_columns_are_characters_in_the_authors_order() -> None:
    X, y = shared.points_of(COLUMNS, 8)
    blocks = shared.group_named(shared.AUTHORS_D8).fourier(X).blocks
    sizes = torch.stack([b.abs().sum((-1, -2)) for b in blocks], 1)  # (points, irreps)
    assert (sizes > 1e-9).sum(1).tolist() == [1, 1]
    assert sizes.max(1).values.tolist() == pytest.approx([8.0, 8.0])
    assert y.tolist() == [-1, 1]
    assert sizes[:, 4].abs().max() < 1e-9  # one-dimensional; in the order 2a + b of r^a s^b the second is not
    assert dihedral(order=8).fourier(X).blocks[4][1].abs().max() > 1


def test_seed_two_is_what_the_authors_draw() -> None:
    state = torch.get_rng_state()
    X, _ = shared.points_of({"kind": "seed-2"}, 8)
    assert torch.equal(state, torch.get_rng_state())
    with torch.random.fork_rng():
        torch.manual_seed(2)
        assert torch.equal(X, torch.randn(2, 8).double())


def test_gaussian_points_depend_on_their_seed_alone() -> None:
    data = {"kind": "gaussian", "points": 5, "seed": 3}
    X, y = shared.points_of(data, 8)
    assert torch.equal(X, shared.points_of(data, 8)[0])
    assert not torch.equal(X, shared.points_of({**data, "seed": 4}, 8)[0])
    assert y.tolist() == [-1, 1, -1, 1, -1]
    moved, _ = shared.points_of({**data, "offset": 0.5}, 8)
    assert torch.allclose(moved - X, 0.5 * y[:, None].expand(5, 8))


@pytest.mark.parametrize(("net", "depth"), [("group-cnn", 3), ("group-cnn", 2), ("fully-connected", 3)])
def test_limit_on_the_columns_is_known_by_hand(net: str, depth: int) -> None:
    found = shared.train_one(shared.ask(shared.AUTHORS_D8, COLUMNS, net=net, depth=depth, seed=1, keep="curve"))
    X, _ = shared.points_of(COLUMNS, 8)
    assert found.arrays["beta"].numpy() == pytest.approx(((X[1] - X[0]) / 8).numpy(), abs=1e-4)
    assert found.numbers["ratio"] == pytest.approx(eq_d8_columns.LIMITS[depth], rel=1e-6)
    assert found.numbers["ratio3"] == pytest.approx(4 * math.sqrt(2), rel=1e-6)
    assert found.numbers["objective"] == pytest.approx({3: 2 * math.sqrt(2), 2: 2.0}[depth], rel=1e-4)
    assert found.numbers["rank"] == 2
    curve = found.arrays["curve"]
    assert curve[0, 0] == 0
    assert float(curve[1, 0]) == pytest.approx(found.numbers["start_ratio"])
    assert float(curve[1, -1]) == pytest.approx(found.numbers["ratio"], rel=1e-6)


def test_final_margin_is_that_of_the_trained_network() -> None:
    group = shared.group_named(shared.AUTHORS_D8)
    X, y = shared.points_of(COLUMNS, 8)
    for net in ("group-cnn", "circular", "fully-connected"):
        module = make_network(group, net, 3, seed=5)
        trained = exponential_descent(module, X, y, group=group, epochs=200, lr=0.1)
        found = limit(group, X, y, depth=3, net=net, method="sgd", epochs=200, lr=0.1, seed=5)
        assert shared.final_margin(found, 8) == pytest.approx(float(trained.margins[-1]), rel=1e-6)
    assert shared.final_margin(limit(group, X, y, depth=3), 8) == math.inf


def test_descent_that_does_not_learn_is_told() -> None:
    unit = shared.ask(shared.AUTHORS_D8, COLUMNS, net="group-cnn", depth=3, seed=0, method="sgd", epochs=2, lr=1e-9)
    with pytest.raises(NetgrainError, match="did not learn the data from 8 starts"):
        shared.train_one(unit)


def test_descent_that_diverges_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []

    def diverges_twice(*arguments: Any, **options: Any) -> Any:
        begun.append(options["seed"])
        if len(begun) < 3:
            assert np.isinf(np.array([1e300]) * 1e300)  # a warning would be an error here
            raise NetgrainError("diverged")
        return limit(*arguments, **options)

    monkeypatch.setattr(shared, "limit", diverges_twice)
    unit = shared.ask(shared.AUTHORS_D8, COLUMNS, net="group-cnn", depth=2, seed=1, method="ngd", epochs=300)
    found = shared.train_one(unit)
    assert found.numbers["starts"] == 3
    assert begun == [1, 1 + shared.ANOTHER_START, 1 + 2 * shared.ANOTHER_START]
    assert shared.seeds_used([*outcomes(1), found]) == [0, begun[-1]]
    begun.clear()
    with pytest.raises(NetgrainError, match="diverged"):  # the flow is not started again
        shared.train_one({**unit, "method": "flow"})


def test_a_narrow_network_is_shown_to_begin_as_a_wide_one() -> None:
    data = {"kind": "gaussian", "points": 3, "seed": 0}
    unit = shared.ask("D12", data, net="fully-connected", depth=3, seed=2)
    narrow, wide = (shared.train_one({**unit, **options}) for options in (shared.narrow("fully-connected"), {}))
    start = predictor(make_network(dihedral(order=12), "fully-connected", 3, seed=2)).detach()
    assert torch.allclose(narrow.arrays["start"], start / start.norm())
    assert narrow.numbers["start_ratio"] == pytest.approx(wide.numbers["start_ratio"])
    assert narrow.arrays["beta"].numpy() == pytest.approx(wide.arrays["beta"].numpy(), abs=1e-4)


def test_means_are_taken_seed_by_seed() -> None:
    low, high = outcomes(ratio=1.0), outcomes(ratio=3.0)
    assert shared.apart(low, high, "ratio").value == pytest.approx(2, rel=1e-5)
    assert shared.apart(low, high, lambda n: 2 * n["ratio"]).value == pytest.approx(4, rel=1e-5)
    assert shared.apart_in(low, "start_ratio", "ratio").value == pytest.approx(-11, rel=1e-5)
    assert shared.over(high, "ratio").n == 4
    assert shared.rate([True, False, False, True]) == 0.5
    assert shared.written(Estimate(5.0372, 0.238, 5)) == "5.04 ± 0.24"


# --- claims -----------------------------------------------------------------------------------------------------------


def columns(**changes: Any) -> list[Claim]:
    trained = {
        (depth, method, net): outcomes(ratio=changes.get(f"{net} {method} {depth}", eq_d8_columns.LIMITS[depth]))
        for depth in eq_d8_columns.DEPTHS
        for method in eq_d8_columns.METHODS
        for net in shared.NETS
    }
    return eq_d8_columns.claims(eq_d8_columns.Result(eq_d8_columns.PRESETS["smoke"], trained))


def test_columns_can_fail() -> None:
    good = columns(**{"fully-connected sgd 3": 11.0, "circular sgd 3": 10.0, "circular flow 3": 9.4})
    assert verdict(good, "G-CNN of depth 3 ends") == "holds"
    assert verdict(good, "below the CNN") == "holds"
    assert verdict(good, "not there yet") == "fails"  # here it is
    assert verdict(good, "CNN ends elsewhere") == "holds"
    bad = columns(**{"group-cnn flow 3": 5.8, "group-cnn sgd 3": 13.0})
    assert verdict(bad, "G-CNN of depth 3 ends") == "fails"
    assert verdict(bad, "below the FC") == "fails"
    assert verdict(bad, "training lowers the ratio of the G-CNN more") == "fails"
    assert verdict(bad, "not there yet") == "holds"
    assert verdict(bad, "CNN ends elsewhere") == "fails"


def gaussians(beta_shift: float = 0.0, **values: Any) -> list[Claim]:
    trained = {
        (m, d, net): outcomes(**values.get(f"{m} {d} {net}", {}))
        for m, d in eq_d8_gaussians.RUNS
        for net in shared.NETS
    }
    for outcome in trained["flow", 2, "group-cnn"]:
        outcome.arrays["beta"] = outcome.arrays["beta"] + beta_shift
    return eq_d8_gaussians.claims(eq_d8_gaussians.Result(eq_d8_gaussians.PRESETS["smoke"], trained, 5.0))


def test_gaussians_can_fail() -> None:
    good = gaussians(**{"sgd 3 group-cnn": {"objective": 6.0}, "flow 2 group-cnn": {"ratio3": 5.6569}})
    for part in ("printed optimum", "printed ratio", "below the authors' line", "every start", "not at its limit"):
        assert verdict(good, part) == "holds"
    bad = gaussians(
        0.01, **{"flow 3 group-cnn": {"objective": 7.0, "kkt": 0.1}, "flow 2 group-cnn": {"ratio3": 5.7, "gap": 0.1}}
    )
    for part in (
        "printed optimum",
        "printed ratio",
        "every start",
        "below the authors",
        "not at its limit",
        "certified",
        "stationary",
    ):
        assert verdict(bad, part) == "fails"


def test_the_printed_optimum_is_reached() -> None:
    found = shared.train_one(shared.ask(shared.AUTHORS_D8, eq_d8_gaussians.DATA, net="group-cnn", depth=2, seed=3))
    beta = found.arrays["beta"]
    assert (beta / beta.norm()).tolist() == pytest.approx(eq_d8_gaussians.PRINTED, abs=6e-5)  # half a printed digit
    assert found.numbers["objective"] == pytest.approx(3.647701, rel=1e-5)
    assert found.numbers["ratio3"] == pytest.approx(5.65687, abs=1e-4)


def ordering(gcnn: float, others: float) -> list[Claim]:
    trained = {
        ("D8", 2, net): outcomes(ratio=v, objective=v, real=-v)
        for net, v in (("group-cnn", gcnn), ("circular", others), ("fully-connected", others))
    }
    return eq_ordering.claims(eq_ordering.Result(eq_ordering.Config(problems=(("D8", 2, 4),)), trained))


def test_ordering_can_be_reversed_and_rates_are_told() -> None:
    good, bad = ordering(5, 7), ordering(7, 5)
    for part in ("Fourier ratio", "objective", "real ratio"):
        assert verdict(good, part) == "holds"
        assert verdict(bad, part) == "fails"
    assert all("in 1.00 of the draws" in c.note for c in good if "ratio" in c.name)
    assert all("in 0.00 of the draws" in c.note for c in bad if "ratio" in c.name)
    assert verdict(good, "stationary") == "holds"


def test_a_tie_is_not_a_defeat() -> None:
    nets = {"group-cnn": outcomes(ratio=5.0), "circular": outcomes(ratio=5.0 - 1e-9), "fully-connected": outcomes()}
    assert eq_ordering._best(nets, "ratio", 1) == [True] * 4
    nets["circular"] = outcomes(ratio=4.9)
    assert eq_ordering._best(nets, "ratio", 1) == [False] * 4


def test_strips_can_fail() -> None:
    def judged(gcnn: float, fc: float) -> list[Claim]:
        trained = {
            ("D60", net, stage): outcomes(rank=value, stable_rank=value / 10, real=60 - value)
            for net, value in (("group-cnn", gcnn), ("circular", 20.0), ("fully-connected", fc))
            for stage in ("descent", "limit")
        }
        config = eq_strips.Config(groups=("D60",), points=10, seeds=4, epochs=1500, lr=0.1)
        return eq_strips.claims(eq_strips.Result(config, trained, {}))

    good, bad = judged(6, 60), judged(55, 50)
    for part in ("low rank", "FC network is not", "wider in real", "stable rank", "already"):
        assert verdict(good, part) == "holds"
        assert verdict(bad, part) == "fails"


def test_strips_are_shares_of_the_largest() -> None:
    assert eq_strips._shares(torch.tensor([[1.0, 4.0], [2.0, 0.0]])).tolist() == [[0.25, 1], [1, 0]]


def test_depth_can_fail_and_its_scale_ends_where_it_should() -> None:
    def judged(ranks: dict[int, float], kkt: float, gap: float) -> list[Claim]:
        trained = {("D8", 5, d): outcomes(rank=r, kkt=kkt, gap=gap) for d, r in ranks.items()}
        config = eq_depth.Config(depths=tuple(ranks), problems=(("D8", 5, 4),))
        return eq_depth.claims(eq_depth.Result(config, trained))

    good, bad = judged({2: 6, 3: 4, 5: 2}, 1e-9, 1e-6), judged({2: 3, 3: 4, 5: 5}, 1e-2, 0.1)
    for part in ("rank falls", "certified", "stationary"):
        assert verdict(good, part) == "holds"
        assert verdict(bad, part) == "fails"
    assert eq_depth.share_of_range(math.sqrt(8), 8, 3) == pytest.approx(0)
    assert eq_depth.share_of_range(8**1.5, 8, 3) == pytest.approx(1)
    assert math.isnan(eq_depth.share_of_range(2.0, 8, 1))


def test_irreps_of_the_bare_table_can_fail() -> None:
    name = f"{shared.BARE}C3xC3:Q8"
    law = eq_ccq200._irreps({"group": name, "pairs": 200})
    assert law.numbers["dimensions"] == [1, 1, 1, 1, 2, 8]
    assert max(law.numbers[k] for k in ("homomorphism", "unitary", "characters")) < 1e-10

    def judged(law: Outcome, rank: float) -> list[Claim]:
        group = shared.group_named(name)
        trained = {case: outcomes(rank=20.0) for case in eq_ccq200.CASES}
        trained[3, "group-cnn"] = outcomes(rank=rank, ratio=6.0)
        trained[3, "fully-connected"] = outcomes(ratio=100 / rank)
        for found in trained.values():
            for outcome in found:
                outcome.arrays["start"] = torch.eye(72, dtype=torch.float64)[0]
        config = eq_ccq200.PRESETS["smoke"]
        return eq_ccq200.claims(eq_ccq200.Result(config, group, law, trained, [], {}))

    good = judged(law, 2)
    bad = judged(Outcome({**law.numbers, "dimensions": [1] * 72}), 30)
    for part in ("all irreps", "lower rank", "far below"):
        assert verdict(good, part) == "holds"
        assert verdict(bad, part) == "fails"


# --- uncertainty ------------------------------------------------------------------------------------------------------


def test_subgroups_and_cosets_are_known_by_hand() -> None:
    D8, A5 = dihedral(order=8), alternating(5)
    assert eq_uncertainty.subgroup(D8, [2]).tolist() == [0, 2, 4, 6]
    assert eq_uncertainty.subgroup(D8, [0]).tolist() == [0]
    assert len(eq_uncertainty.subgroup(D8, [1, 2])) == 8
    H = eq_uncertainty.subgroup(D8, [1])  # {e, s} is not normal: rH = {r, rs}, Hr = {r, r³s}
    assert eq_uncertainty.coset(D8, H, 2, True).nonzero().flatten().tolist() == [2, 3]
    assert eq_uncertainty.coset(D8, H, 2, False).nonzero().flatten().tolist() == [2, 7]
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert 60 % len(eq_uncertainty.subgroup(A5, rng.integers(0, 60, 2).tolist())) == 0


@pytest.mark.parametrize("name", ["D8", "A5", f"{shared.BARE}C5xC5:Q8"])
def test_subgroups_reach_the_bound_exactly(name: str) -> None:
    found = eq_uncertainty._one({"uncertainty": name, "functions": 20, "seed": 7})
    products = (found.arrays["supports"] * found.arrays["ranks"]).double() / shared.group_named(name).order
    row = list(eq_uncertainty.KINDS).index("subgroup")
    assert products[row].tolist() == [1.0] * 20
    assert products.min() >= 1
    assert products[0].max() > 1


def test_uncertainty_can_fail() -> None:
    def judged(supports: list[list[int]], ranks: list[list[int]]) -> list[Claim]:
        # two alike of each: one result alone is no evidence
        outcome = Outcome(
            {}, {"supports": torch.tensor(supports).repeat(1, 2), "ranks": torch.tensor(ranks).repeat(1, 2)}
        )
        config = eq_uncertainty.Config(groups=("D8",), functions=2, seeds=1)
        return eq_uncertainty.claims(eq_uncertainty.Result(config, {"D8": [outcome]}))

    good, bad = judged([[3], [4], [2]], [[8], [4], [4]]), judged([[3], [2], [2]], [[8], [3], [5]])
    for part in ("bound holds", "subgroups reach"):
        assert verdict(good, part) == "holds"
        assert verdict(bad, part) == "fails"
