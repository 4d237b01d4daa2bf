"""Following networks in training: numbers over members against slow loops."""

import math

import pytest
import torch

from netgrain.experiments.grain import following as f
from netgrain.experiments.grain.grains import make_of, model_config
from netgrain.geometry.forms import Dense
from netgrain.training import Settings

SMALL = model_config("MLP", (1, 4, 4), activation="relu", width=0.1)


def _rows(members: int = 5, times: int = 3, d: int = 6, seed: int = 0) -> torch.Tensor:
    return torch.randn(members, times, 2, d, generator=torch.Generator().manual_seed(seed))


def _matrices(rows: torch.Tensor) -> torch.Tensor:
    return rows.double().mT @ rows.double() / rows.shape[2]  # (members, times, d, d)


def _spread_of(values: list[float]) -> float:
    centre = sum(values) / len(values)
    return math.sqrt((len(values) - 1) / len(values) * sum((v - centre) ** 2 for v in values))


def test_plug_in_and_distinct_products_against_loops() -> None:
    G = _matrices(_rows())
    found, plain = (f.velocity_of(_rows(), own=own)[0] for own in (False, True))
    n = len(G)

    def between(a: int, b: int, kept: list[int], own: bool) -> float:
        pairs = [(i, j) for i in kept for j in kept if own or i != j]
        return sum(float((G[i, a] * G[j, b]).sum()) for i, j in pairs) / len(pairs)

    def speed(kept: list[int], own: bool) -> float:
        sizes = between(1, 1, kept, own) * between(0, 0, kept, own)
        return 1 - between(1, 0, kept, own) / math.sqrt(sizes)

    for statistic, own in ((found, False), (plain, True)):
        assert float(statistic.whole) == pytest.approx(speed(list(range(n)), own))
        for i in range(n):
            left = [k for k in range(n) if k != i]
            assert float(statistic.one[i]) == pytest.approx(speed(left, own))
            fewer = [k for k in left if k != (i + 2) % n]
            assert float(statistic.two[i, (i + 2) % n]) == pytest.approx(speed(fewer, own))
    told = f.as_it_stands(plain)
    assert told.value == pytest.approx(speed(list(range(n)), True))
    assert told.stderr == pytest.approx(_spread_of([speed([k for k in range(n) if k != i], True) for i in range(n)]))


def test_a_geometry_that_stays_has_no_velocity() -> None:
    still = _rows(times=1).expand(-1, 3, -1, -1)
    assert all(float(v.whole) == pytest.approx(0) for v in f.velocity_of(still, own=True))
    one = f.velocity_of(_rows(), own=True)
    assert float(f.average(one).whole) == pytest.approx(sum(float(v.whole) for v in one) / len(one))


def test_corr_of_members_that_are_alike() -> None:
    rows = torch.zeros(4, 1, 2, 3)
    rows[:, :, 0, 0], rows[:, :, 1, 1] = 1.0, 1.0  # every member: diag(1, 1, 0)/2
    found = f.Products.of(rows, {"I": Dense(torch.eye(3).double())}).estimate(0, "I")
    assert found.value == found.plug_in == pytest.approx(math.sqrt(2 / 3))
    assert found.stderr == pytest.approx(0, abs=1e-7)


def test_the_highest_point_is_chosen_by_others() -> None:
    """Of pure noise the maximum lies above the start; judged on other members it does not."""
    d = 5
    targets = {"first": Dense(torch.diag(torch.tensor([1.0, 0, 0, 0, 0])).double()), "I": Dense(torch.eye(d).double())}
    naive, judged = [], []
    for seed in range(20):
        products = f.Products.of(_rows(members=12, times=9, d=d, seed=seed), targets)
        naive.append(max(products.since(t, "first").value for t in range(1, 9)))
        judged.append(f.highest(products, range(1, 9), "first", "I").rise.value)
    centre = sum(judged) / 20
    error = math.sqrt(sum((v - centre) ** 2 for v in judged) / 19 / 20)
    assert abs(centre) < 3 * error
    assert sum(naive) / 20 > 5 * error
    rows = torch.zeros(8, 3, 1, d)
    rows[:, 0, 0, 1] = rows[:, 1, 0, 2] = rows[:, 2, 0, 0] = 1.0  # the last snapshot is the target itself
    found = f.highest(f.Products.of(rows, targets), [1, 2], "first", "I")
    assert found.chosen == (2, 2)
    assert found.rise.value == pytest.approx(1)
    assert found.above.value == pytest.approx(1 - 1 / math.sqrt(d))


def test_rows_are_gradients_of_the_difference_of_logits() -> None:
    X, y = torch.randn(8, 1, 4, 4, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 2
    settings = Settings(steps=2, batch=None, snapshots=(0, 2))
    found = f.followed(SMALL, X, y, settings, seed=3, i=1, probes=2, device="cpu", tests=(X, 1 - y))
    rows = found.arrays["rows"]
    assert rows.shape == (2, 2, 16)
    assert found.numbers["train"][0] == pytest.approx(100 - found.numbers["test"][0])
    make = make_of(SMALL)
    model = f.member(make, 3, 1)
    x = f._points(SMALL, 2, 3, 1)
    for k in range(2):
        for pixel in (0, 7):
            step = torch.zeros_like(x[k : k + 1])
            step.view(-1)[pixel] = 1e-2
            up, down = (model(x[k : k + 1] + s * step)[0] for s in (1, -1))
            slope = float((up[0] - up[1]) - (down[0] - down[1])) / 2e-2
            assert float(rows[0, k, pixel]) == pytest.approx(slope, abs=2e-3)
    wild = Settings(steps=20, batch=None, snapshots=(0, 20), lr=1e12)
    assert f.followed(SMALL, 1e6 * X, y, wild, seed=3, i=1, probes=2, device="cpu").numbers["diverged"]


def test_slopes_of_twins_do_not_feel_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """At first order labels drop out of a pair of twins; of a single member they do not."""
    X = 0.1 * torch.randn(6, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    G = torch.eye(16, dtype=torch.float64)
    P = torch.diag(torch.arange(1.0, 17.0, dtype=torch.float64))
    settings = Settings(steps=1, batch=None, lr=1e-3, momentum=0.0, loss="sse", snapshots=(0, 1))

    def both() -> list[list[float]]:
        return [
            f.slopes(SMALL, X, y, settings, G=G, P=P, seed=0, members=range(2), probes=4, device="cpu")
            for y in (torch.arange(6) % 2, torch.zeros(6, dtype=torch.long))
        ]

    one, other = both()
    size = max(abs(a) for a in one)
    assert size > 0
    apart = max(abs(a - b) for a, b in zip(one, other, strict=True))
    monkeypatch.setattr(f, "_twin", make_of)  # a member beside itself
    alone, changed = both()
    assert max(abs(a - b) for a, b in zip(alone, changed, strict=True)) > 5 * apart


def test_no_slope_where_the_correlation_is_stationary() -> None:
    X = 0.1 * torch.randn(6, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    y = torch.arange(6) % 2
    settings = Settings(steps=1, batch=None, lr=1e-2, momentum=0.0, snapshots=(0, 1))
    I = torch.eye(16, dtype=torch.float64)
    for P in (I, 3 * I):  # Corr(G, G) is 1, the largest there is: no change counts at first order
        found = f.slopes(SMALL, X, y, settings, G=I, P=P, seed=0, members=range(2), probes=2, device="cpu")
        assert found == pytest.approx([0.0, 0.0], abs=1e-9)


def test_vit_is_two_numbers_at_the_start() -> None:
    m = model_config("ViT", (2, 16, 16), activation="relu", width=1 / 12)
    G = f.geometry_at_start(m, method="auto", members=2)
    values = torch.linalg.eigvalsh(G.matrix())
    # 4 patches of 2 × 64 entries
    assert values[-128:].std() < 1e-9 * values[-1]
    assert values[:-128].std() < 1e-9 * values[-1]
    assert values[-1] > values[0]
