"""Following networks in training: numbers over members against slow loops, and claims that come out as they must."""

import math
from dataclasses import replace

import pytest
import torch

from netgrain import Estimate
from netgrain.data import Dataset, Split
from netgrain.experiments.grain import fig2, fig3, fig12, fig13
from netgrain.experiments.grain import following as f
from netgrain.experiments.grain import grains as _grain
from netgrain.runtime.units import Outcome
from netgrain.training import Settings

SMALL = _grain.model("MLP", (1, 4, 4), activation="relu", width=0.1)


def _rows(members: int = 5, times: int = 3, d: int = 6, seed: int = 0) -> torch.Tensor:
    return torch.randn(members, times, 2, d, generator=torch.Generator().manual_seed(seed))


def _matrices(rows: torch.Tensor) -> torch.Tensor:
    return rows.double().mT @ rows.double() / rows.shape[2]  # (members, times, d, d)


def _spread_of(values: list[float]) -> float:
    centre = sum(values) / len(values)
    return math.sqrt((len(values) - 1) / len(values) * sum((v - centre) ** 2 for v in values))


# --- numbers over members ---------------------------------------------------------------------------------------------


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
    found = f.Products.of(rows, {"I": f.dense(torch.eye(3))}).estimate(0, "I")
    assert found.value == found.plug_in == pytest.approx(math.sqrt(2 / 3))
    assert found.stderr == pytest.approx(0, abs=1e-7)


def test_share_of_a_change_inside_a_subspace() -> None:
    rows = torch.zeros(4, 2, 1, 4)
    rows[:, 0, 0, 0] = rows[:, 1, 0, 1] = 1.0  # from e₀e₀ᵀ to e₁e₁ᵀ
    axes = torch.eye(4, dtype=torch.float64)
    assert f.change_inside(rows, [0, 1], axes[:, :2]).share.value == pytest.approx(1)
    assert f.change_inside(rows, [0, 1], axes[:, 2:]).share.value == pytest.approx(0)
    half = f.change_inside(rows, [0, 1], axes[:, :1])
    assert half.share.value == pytest.approx(0.5)
    assert half.excess.value == pytest.approx(0.5 - half.chance)
    assert half.chance == pytest.approx(f.random_share(1, 4, 0.0))  # the change has no trace
    every = f.change_inside(_rows(), [0, 1, 2], torch.eye(6, dtype=torch.float64))
    assert every.share.value == pytest.approx(1)
    assert every.chance == pytest.approx(1)
    assert every.excess.value == pytest.approx(0, abs=1e-9)


def test_share_against_matrices() -> None:
    rows = _rows()
    G = _matrices(rows)
    V = torch.linalg.qr(torch.randn(6, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)).Q
    changes = [G[:, t + 1] - G[:, t] for t in (0, 1)]

    def share(kept: list[int]) -> float:
        above = below = 0.0
        for D in changes:
            for i, j in ((i, j) for i in kept for j in kept if i != j):
                above += float(((V.T @ D[i] @ V) * (V.T @ D[j] @ V)).sum())
                below += float((D[i] * D[j]).sum())
        return above / below

    without = [share([k for k in range(5) if k != i]) for i in range(5)]
    whole = share(list(range(5)))
    assert f.change_inside(rows, [0, 1, 2], V).share.value == pytest.approx(5 * whole - 4 * sum(without) / 5)


def test_the_highest_point_is_chosen_by_others() -> None:
    """Of pure noise the maximum lies above the start; judged on other members it does not."""
    d = 5
    targets = {"first": f.dense(torch.diag(torch.tensor([1.0, 0, 0, 0, 0]))), "I": f.dense(torch.eye(d))}
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


# --- one member -------------------------------------------------------------------------------------------------------


def test_rows_are_gradients_of_the_difference_of_logits() -> None:
    X, y = torch.randn(8, 1, 4, 4, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 2
    settings = Settings(steps=2, batch=None, snapshots=(0, 2))
    found = f.followed(SMALL, X, y, settings, seed=3, i=1, probes=2, device="cpu", tests=(X, 1 - y))
    rows = found.arrays["rows"]
    assert rows.shape == (2, 2, 16)
    assert found.numbers["train"][0] == pytest.approx(100 - found.numbers["test"][0])
    make = _grain.make_of(SMALL)
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
    monkeypatch.setattr(f, "_twin", _grain.make_of)  # a member beside itself
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
    m = _grain.model("ViT", (2, 16, 16), activation="relu", width=1 / 12)
    G = f.geometry_at_start(m, method="auto", members=2)
    values = torch.linalg.eigvalsh(G.matrix())
    # 4 patches of 2 × 64 entries
    assert values[-128:].std() < 1e-9 * values[-1]
    assert values[:-128].std() < 1e-9 * values[-1]
    assert values[-1] > values[0]


def test_mlp_data_and_flipped_data_are_one_law() -> None:
    m = _grain.model("MLP", (1, 4, 4), activation="relu")
    G = f.geometry_at_start(m, method="auto", members=4)
    assert torch.allclose(G.matrix(), G.matrix()[0, 0] * torch.eye(16, dtype=torch.float64))
    assert torch.allclose(G.flip().matrix(), G.matrix())


# --- claims -----------------------------------------------------------------------------------------------------------


def _pair(gaps: list[float], plug_in: Estimate, left_out: int = 0) -> fig3.Pair:
    accuracy = {"G": [[50.0, 60.0 + g, 60.0 + g] for g in gaps], "flip(G)": [[50.0, 60.0, 60.0] for _ in gaps]}
    turned = {law: [Estimate(0.1, 0.01, 4, 0.2)] * 2 for law in fig3.LAWS}
    return fig3.Pair(list(range(len(gaps))), accuracy, turned, plug_in, plug_in, left_out)


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
    assert len({c.name for c in found}) == len(found) == 8
    for network, verdict in (("MLP", "holds"), ("LeNet", "holds"), ("ResNet18", "fails"), ("ViT", "undecided")):
        assert {v for n, v in _verdicts(found).items() if n.startswith(network)} == {verdict}
    assert all("no evidence" in c.note for c in found if c.name.startswith("MLP"))
    assert all("2 diverged" in c.note and "2.80 times the trace" in c.note for c in found if c.name.startswith("ViT"))
    nothing = fig3.Result(result.config, {**pairs, "LeNet": _pair([0.0, 0.0], zero)}, result.traces)
    assert _verdicts(fig3.claims(nothing))["LeNet: train accuracy"] == "fails"  # no difference is not a larger value


def test_fig12_and_fig13_claims() -> None:
    def result(small: list[float], large: list[float]) -> fig12.Result:
        none = Estimate(0.0, 0.0, 3)
        return fig12.Result(fig12.PRESETS["smoke"], {16: _pair(small, none), 32: _pair(large, none, left_out=1)})

    closes = result([30.0, 31.0, 32.0], [1.0, 0.0, 2.0])
    assert set(_verdicts(fig12.claims(closes)).values()) == {"holds"}
    assert fig12.closing(closes).value == pytest.approx(30)
    assert "1 diverged" in fig12.claims(closes)[0].note
    assert _verdicts(fig13.claims(closes))["ResNet18: gap with many samples"] == "undecided"
    stays = result([30.0, 31.0, 32.0], [40.0, 41.0, 43.0])
    assert _verdicts(fig12.claims(stays))["ResNet18: the gap closes"] == "fails"
    assert set(_verdicts(fig13.claims(stays)).values()) == {"holds"}
    apart = replace(stays, pairs={16: stays.pairs[16], 32: replace(stays.pairs[32], seeds=[1, 2, 5])})
    assert fig12.closing(apart).n == 2  # seeds 1 and 2 are paired with themselves, not by their place
    assert fig12.closing(apart).value == pytest.approx((31 - 40 + 32 - 41) / 2)


def test_diverged_seeds_leave_with_their_partners() -> None:
    settings = Settings(steps=2, batch=2, snapshots=(0, 1, 2))
    units = fig3.gaussian_units(SMALL, method="auto", members=2, samples=4, settings=settings, probes=2, seeds=5)
    assert len({(u["seed"], u["law"]) for u in units}) == 10
    outcomes = []
    for u in units:
        bad = u["seed"] == 3 and u["law"] == "G"
        shift = 10.0 * (u["law"] == "G") + u["seed"]
        rows = torch.zeros(0) if bad else _rows(members=1, seed=u["seed"])[0]
        outcomes.append(Outcome({"diverged": bad, "train": [] if bad else [50.0, 50.0 + shift, 60.0]}, {"rows": rows}))
    pair = fig3.pair_of(units, outcomes)
    assert pair.left_out == 1
    assert pair.seeds == [0, 1, 2, 4]
    assert "1 diverged" in pair.note
    assert pair.gaps(slice(1, None)) == [5.0] * 4
    assert pair.plug_in.value == pytest.approx(0)  # the same rows on both laws
    none = fig3.pair_of(units, [replace(o, numbers={**o.numbers, "diverged": True}) for o in outcomes])
    assert none.seeds == []
    assert math.isnan(none.velocity.value)


def _course(rise: Estimate, slope: Estimate, excess: Estimate, left_out: int = 0) -> fig2.Course:
    flat = [Estimate(0.3, 0.01, 8, 0.2)] * 3
    since = [Estimate(v, 0.01, 8) for v in (0.0, -0.1, 0.2)]
    return fig2.Course(
        [0, 1, 5], {"GSG": flat, "S": flat, "I": flat}, flat, flat, since, f.Rise(rise, rise, (2, 1)),
        f.Inside(excess, 0.1, excess), 3, slope, 8, left_out,
    )  # fmt: skip


def test_fig2_claims() -> None:
    yes, no, maybe = Estimate(0.2, 0.01, 8), Estimate(-0.2, 0.01, 8), Estimate(0.01, 0.1, 8)
    courses = {
        "MLP": _course(yes, no, yes),
        "LeNet": _course(no, yes, no),
        "ResNet18": _course(maybe, maybe, maybe, left_out=1),
        "ViT": _course(Estimate(math.nan, math.nan, 2), no, yes),
    }
    found = fig2.claims(fig2.Result(fig2.PRESETS["smoke"], courses, "digits"))
    verdicts = _verdicts(found)
    assert len(verdicts) == len(found) == 15
    assert "MLP: above S" not in verdicts
    assert {v for n, v in verdicts.items() if n.startswith("MLP")} == {"holds"}
    assert {v for n, v in verdicts.items() if n.startswith("LeNet")} == {"fails"}
    assert {v for n, v in verdicts.items() if n.startswith("ResNet18")} == {"undecided"}
    assert verdicts["ViT: rise"] == "undecided"
    notes = {c.name: c.note for c in found}
    assert "an identity" in notes["MLP: rise"]
    assert "1 diverged" in notes["ResNet18: rise"]
    assert "step (5 and 1)" in notes["LeNet: rise"]
    assert fig2.when(courses["MLP"]) == (
        "two standard errors below its start first at step 1, above its start first at step 5"
    )


def test_diverged_members_leave_a_course() -> None:
    bad = Outcome({"diverged": True, "train": [], "test": []}, {"rows": torch.zeros(0)})
    good = [
        Outcome({"diverged": False, "train": [50.0, 60.0], "test": [50.0, 40.0]}, {"rows": _rows(1, 2, seed=i)[0]})
        for i in range(6)
    ]
    eye = torch.eye(6, dtype=torch.float64)
    target = Outcome({"dimension": 1}, {"GSG": eye, "S": eye, "top": eye[:, :1]})
    slope = fig2._mean_slope([Outcome({"slopes": [1.0, None, 3.0]})])
    assert (slope.value, slope.n) == (2.0, 2)
    course = fig2._course([0, 5], [*good, bad], target, slope)
    assert (course.members, course.left_out) == (6, 1)
    assert [v.value for v in course.train] == [50.0, 60.0]
    assert course.corr["S"][1].value == pytest.approx(course.corr["I"][1].value)
    none = fig2.Result(fig2.PRESETS["smoke"], {"LeNet": fig2._course([0, 5], [bad, bad], target, slope)}, "digits")
    assert {c.verdict for c in fig2.claims(none) if "slope" not in c.name} == {"undecided"}
    assert "2 diverged" in fig2.claims(none)[0].note


def test_full_batch_has_half_of_either_class(monkeypatch: pytest.MonkeyPatch) -> None:
    def pictures(*, samples: int, tests: int, **_: object) -> Split:
        made = [torch.arange(n).float().reshape(-1, 1, 1, 1).expand(-1, 1, 2, 2) for n in (samples, tests)]
        return Split(*(Dataset(X, (torch.arange(len(X)) % 5 < 3).long(), "made up") for X in made))

    monkeypatch.setattr(_grain, "pictures", pictures)
    images = {"samples": 20, "tests": 10}
    X, y, tests, labels = fig2.data_of(images, "true")
    assert X.shape == (20, 1, 2, 2)
    assert int(y.sum()) == 10
    assert torch.equal((X[:, 0, 0, 0] % 5 < 3).long(), y)
    again, random, _, other = fig2.data_of(images, "random")
    assert torch.equal(again, X)
    assert not torch.equal(random, y)
    assert torch.equal(random, fig2.data_of(images, "random")[1])
    assert len(tests) == len(labels) == len(other) == 10
