"""What the studies share: data, trainings as units, means over seeds."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from netgrain import Estimate, NetgrainError
from netgrain.equivariant import exponential_descent, limit, make_network, predictor
from netgrain.experiments.equivariance import eq_d8_columns
from netgrain.experiments.equivariance import studies as shared
from netgrain.groups import dihedral
from netgrain.runtime.units import Outcome
from tests.experiments.equivariance.made_up import COLUMNS, outcomes


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
    (unit,) = shared.trainings(shared.AUTHORS_D8, COLUMNS, [1], net=net, depth=depth, keep="curve")
    found = shared.train_one(unit)
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
    options = {"method": "sgd", "epochs": 2, "lr": 1e-9}
    (unit,) = shared.trainings(shared.AUTHORS_D8, COLUMNS, [0], net="group-cnn", depth=3, **options)
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
    (unit,) = shared.trainings(shared.AUTHORS_D8, COLUMNS, [1], net="group-cnn", depth=2, method="ngd", epochs=300)
    found = shared.train_one(unit)
    assert found.numbers["starts"] == 3
    assert begun == [1, 1 + shared.ANOTHER_START, 1 + 2 * shared.ANOTHER_START]
    assert shared.Seeds([*outcomes(1), found]).seeds_used() == [0, begun[-1]]
    begun.clear()
    with pytest.raises(NetgrainError, match="diverged"):  # the flow is not started again
        shared.train_one({**unit, "method": "flow"})


def test_a_narrow_network_is_shown_to_begin_as_a_wide_one() -> None:
    data = {"kind": "gaussian", "points": 3}
    (unit,) = shared.trainings("D12", data, [2], net="fully-connected", depth=3)
    assert unit["data"] == {**data, "seed": 0}
    narrow, wide = (shared.train_one({**unit, **options}) for options in (shared.narrow("fully-connected"), {}))
    start = predictor(make_network(dihedral(order=12), "fully-connected", 3, seed=2)).detach()
    assert torch.allclose(narrow.arrays["start"], start / start.norm())
    assert narrow.numbers["start_ratio"] == pytest.approx(wide.numbers["start_ratio"])
    assert narrow.arrays["beta"].numpy() == pytest.approx(wide.arrays["beta"].numpy(), abs=1e-4)


def test_means_are_taken_seed_by_seed() -> None:
    low, high = outcomes(ratio=1.0), outcomes(ratio=3.0)
    assert high.minus(low, "ratio").value == pytest.approx(2, rel=1e-5)
    assert high.minus(low, lambda n: 2 * n["ratio"]).value == pytest.approx(4, rel=1e-5)
    assert low.change("ratio").value == pytest.approx(-11, rel=1e-5)
    assert high.mean("ratio").n == 4
    assert high.stacked("beta").shape == (4, 8)
    assert shared.written(Estimate(5.0372, 0.238, 5)) == "5.04 ± 0.24"


def test_outcomes_come_back_in_their_cases() -> None:
    class Echo:
        def map(self, work: Any, units: list[dict[str, Any]], label: str) -> list[Outcome]:
            return [Outcome(unit) for unit in units]

    asked = {"a": shared.seeded(2, case="a"), "b": [], "c": shared.seeded(1, case="c")}
    found = shared.collected(Echo(), asked, "units")
    assert {case: [o.numbers for o in outcomes] for case, outcomes in found.items()} == asked
