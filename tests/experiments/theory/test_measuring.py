"""Statements of the paper: the corrected ones hold, the printed ones that are wrong are rejected by the same test."""

import itertools
import json
import math
from functools import cache, partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

from netgrain.cli import app as cli
from netgrain.experiments.theory import conjectures, expectations, figures, pooled, relu, theorems
from netgrain.experiments.theory.material import Images, images, smooth
from netgrain.experiments.theory.measuring import STATEMENTS, measure_statements
from netgrain.experiments.theory.statements import (
    Job,
    Statement,
    corrected,
    cosine,
    difference,
    misfit,
    ratio,
    same,
    slope,
)
from netgrain.families.probes import Data, Gaussian
from netgrain.geometry.covariance import data_covariance
from netgrain.geometry.estimate import Estimate
from netgrain.runtime.errors import NetgrainError
from netgrain.training.evolution import average_evolution, evolution_of
from tests import naive

JOB = Job(laptop=False, seed=0)
CHEAP = [n for n in STATEMENTS if not n.startswith(("conjecture", "theorem-3.1", "proposition"))]


def _random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@cache
def rows(name: str) -> list[Statement]:
    return measure_statements(name, progress=False)


# --- verdicts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*CHEAP, "theorem-3.1"])
def test_what_is_predicted_holds(name: str) -> None:
    for s in rows(name):
        assert s.corrected in ("holds", ""), s


PRINTED_WRONG = {
    "linear-regression": "⟨Δ, S⟩",
    "theorem-a2": "zero padding",
    "theorem-a3": "off the diagonal",
    "corollary-a4": "least eigenvalue",
    "example-a10": "G₁₁",
    "lemma-a5": "aᵀ",
    "lemma-a6": "mean of q",
    "moments": "E ω⁴",
}


@pytest.mark.parametrize("name", PRINTED_WRONG)
def test_what_is_printed_wrong_is_rejected(name: str) -> None:
    chosen = [s for s in rows(name) if PRINTED_WRONG[name] in s.quantity]
    assert chosen
    assert all(s.paper == "fails" and s.corrected == "holds" for s in chosen)


def test_what_is_printed_right_is_not_rejected() -> None:
    for name in ("lemma-a7", "linear-regression", "theorem-a2", "example-a10"):
        assert any(s.paper == "holds" for s in rows(name))


def test_verdicts_can_fail() -> None:
    assert same(Estimate(1.0, 0.01, 50), 1.05) == "fails"
    assert same(Estimate(1.0, 0.01, 50), 1.03) == "holds"
    assert same(Estimate(math.nan, math.nan, 2), 1.0) == "undecided"
    assert same(Estimate(0.1, 0.2, 9), 0.3) == "undecided"


# --- Theorem 3.1 ------------------------------------------------------------------------------------------------------


def test_one_member_is_that_of_average_evolution() -> None:
    """All heads ±w averaged by brute force, at x and at −x, through the general code."""
    D, n, w = 4, 3, 0.7
    X, W, x = _random(5, D, seed=1), _random(n, D, seed=2), _random(D, seed=3)
    A, B = relu.member_terms(X, W, x, kurtosis=1.0)  # two signs: E ω⁴ = w⁴
    total = torch.zeros(D, D, dtype=torch.float64)
    for signs in itertools.product((w, -w), repeat=n):
        net = nn.Sequential(nn.Linear(D, n, bias=False), nn.ReLU(), nn.Linear(n, 1, bias=False)).double()
        net[0].weight.data, net[2].weight.data = W.clone(), torch.tensor([signs], dtype=torch.float64)
        M = naive.evolution([net], torch.stack([x, -x]), lambda m: m(X).square().sum() / 2)
        total += (M + M.T) / 2**n
    torch.testing.assert_close(-2 * (w**2 * A + w**4 * B), total)


def test_the_exact_expression_is_that_of_average_evolution() -> None:
    """α S + β tr(S) I against sampled networks, entry by entry along the axes of S."""
    D, n, w, p = 3, 4, 0.8, 0.6

    def make() -> nn.Module:
        net = nn.Sequential(nn.Linear(D, n, bias=False), nn.ReLU(), nn.Linear(n, 1, bias=False)).double()
        nn.init.normal_(net[0].weight, std=p)
        nn.init.normal_(net[2].weight, std=w)
        return net

    X = _random(5, D, seed=1) * torch.tensor([3.0, 2.0, 1.0])
    S = X.T @ X
    found = average_evolution(make, X, members=400, probe=Gaussian(), probes=16, workers=1, progress=False)
    alpha, beta = relu.coefficients(n, D, w**2 / p**2)
    I = torch.eye(D, dtype=torch.float64)
    expected = -2 * w**2 * p**4 * (alpha * S + beta * S.trace() * I)
    for H in (S, I):
        measured = found.delta.inner(H)
        assert abs(measured - float((H * expected).sum())) < 4 * measured.stderr
        assert abs(measured - float((H * expected).sum()) / 2) > 4 * measured.stderr  # the factor of M + Mᵀ


@pytest.mark.parametrize("rho", [0.3, 1.0, 5.0])
def test_leading_order_is_the_limit(rho: float) -> None:
    alpha, beta = relu.coefficients(10**5, 10**5, rho)
    assert beta / alpha == pytest.approx(relu.leading_kappa(10**5, 10**5, rho), rel=1e-3)


def test_corr_of_a_shifted_covariance() -> None:
    S = torch.diag(torch.tensor([5.0, 2.0, 1.0, 0.5]).double())
    shifted = S + 0.3 * S.trace() * torch.eye(4)
    rank = float(S.trace() ** 2 / S.square().sum())
    assert relu.corr_with_S(0.3, 4, rank) == pytest.approx(naive.corr(shifted, S))


def test_rates_of_theorem_31_contradict_the_printed_ones() -> None:
    by_quantity = {s.quantity.partition(":")[0]: s for s in rows("theorem-3.1") if s.claimed_rate is not None}
    assert by_quantity["rate in D"].rate > 0 > by_quantity["rate in D"].claimed_rate
    assert by_quantity["rate in D"].paper == "fails"
    assert {s.corrected for s in by_quantity.values()} == {"holds"}
    floor = relu._floor(3072, 9.6)
    assert floor.paper == "fails"
    assert floor.corrected == "holds"


# --- Theorem 3.2 ------------------------------------------------------------------------------------------------------


class PooledNet(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, n, 3, bias=False), nn.Linear(n, 1, bias=False)
        for layer in (self.conv, self.head):
            nn.init.normal_(layer.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.conv(x).mean((2, 3)))


def test_one_pooled_member_is_that_of_the_general_code(monkeypatch: pytest.MonkeyPatch) -> None:
    X, n = smooth(6, 1, 5, torch.Generator().manual_seed(0)).double(), 2
    net, M = pooled.pooled(Images(X, torch.zeros(6).long(), "")), pooled.maps(1, 5)
    Phi, omega = _random(1, n, 9, seed=1), _random(1, n, seed=2)
    draws = iter([Phi, omega])
    monkeypatch.setattr(torch, "randn", lambda *_, **__: next(draws))
    found = M @ pooled.sampled_delta(net, n, 1, torch.Generator())[0] @ M.T
    monkeypatch.undo()
    model = PooledNet(n).double()
    model.conv.weight.data, model.head.weight.data = Phi.reshape(n, 1, 3, 3).clone(), omega.clone()
    delta = evolution_of(model.eval(), X, torch.zeros(6, 1), Data(X[:1]), progress=False)
    torch.testing.assert_close(found, delta.matrix())


def test_coordinates_of_a_patch_keep_products() -> None:
    X = smooth(6, 1, 5, torch.Generator().manual_seed(0)).double()
    net, M = pooled.pooled(Images(X, torch.zeros(6).long(), "")), pooled.maps(1, 5)
    S, G = data_covariance(X).matrix(), M @ M.T
    torch.testing.assert_close(M @ net.C @ M.T, G @ S @ G)
    assert net.corr(2) == pytest.approx(naive.corr(M @ net.inner_delta(2) @ M.T, G @ S @ G))


def test_sampled_members_of_the_pooled_network_have_that_mean() -> None:
    net = pooled.pooled(images(JOB, 20, channels=1, size=6))
    drawn = pooled.sampled_delta(net, 3, 20_000, JOB.generator("test"))
    along = torch.einsum("bpq,pq->b", drawn, net.C)
    error = float(along.std()) / math.sqrt(len(along))
    right = float((net.inner_delta(3) * net.C).sum())
    without_trace = net.inner_delta(3) + 2 * 3 * net.C.trace() * torch.eye(9)
    assert abs(float(along.mean()) - right) < 4 * error
    assert abs(float(along.mean()) - float((without_trace * net.C).sum())) > 4 * error


def test_rates_of_theorem_32() -> None:
    found = {s.quantity: s for s in rows("theorem-3.2")}
    slopes = [s.rate for s in found.values() if s.rate is not None]
    assert slopes == [pytest.approx(-1, abs=0.05), pytest.approx(-2, abs=0.1)]
    net = pooled.pooled(images(JOB, 60, channels=1, size=10))
    assert net.corr(256) < -0.999  # with its sign


def test_correlation_with_GSG_falls_at_first() -> None:
    start = rows("conjecture-1-sign")[0]
    assert start.paper == "fails"
    assert start.corrected == "holds"
    assert start.measured < -4 * start.measured.stderr


def test_derivative_of_corr_is_that_of_the_expression() -> None:
    net = pooled.pooled(images(JOB, 20, channels=1, size=6))
    n, t = 4, 1e-6
    P = net.seen(net.C)
    I = torch.eye(9, dtype=torch.float64)
    G = net.seen(n * 0.2 * 0.5 * I)
    moved = G + t * net.seen(net.inner_delta(n, 0.2, 0.5))
    numeric = (naive.corr(moved, P) - naive.corr(G, P)) / t
    assert pooled.slope_at_start(net, n, 0.2, 0.5) == pytest.approx(numeric, rel=1e-3)


# --- the others -------------------------------------------------------------------------------------------------------


def test_labels_drop_out_for_opposite_heads_only() -> None:
    zero, shifted = theorems.label_part(0.0, 1, 3), theorems.label_part(0.3, 1, 3)
    assert zero < 1e-12
    assert shifted > 1e-3


def test_normalised_moment_by_integral_is_that_of_samples() -> None:
    values = torch.tensor([0.2, 1.0, 4.0], dtype=torch.float64)
    theta = _random(40_000, 3)
    sampled = theta.square() / (theta.square() @ values)[:, None]
    error = sampled.std(0) / 200
    exact = expectations.normalised_second_moment(values)
    assert bool(((sampled.mean(0) - exact).abs() < 4 * error).all())
    low, high = expectations.bounds(values, values)
    assert low / 3 <= float(exact.min())
    assert float(exact.max()) <= high / 3
    assert float(exact.min()) < low  # the printed bound


@pytest.mark.parametrize("cos", [-0.6, 0.0, 0.8])
def test_lemma_a5_at_any_angle(cos: float) -> None:
    delta = _random(100_000, 2, seed=4)
    a, b = torch.tensor([1.0, 0.0]).double(), torch.tensor([cos, math.sqrt(1 - cos**2)]).double()
    on = ((delta @ a > 0) & (delta @ b > 0)).double()
    product = on * (delta @ a) * (delta @ b)
    across, q = expectations.both_on(cos)
    assert abs(float(product.mean()) - across) < 4 * float(product.std()) / math.sqrt(len(delta))
    assert abs(float(on.mean()) - q) < 4 * float(on.std()) / math.sqrt(len(delta))


def test_lemma_a6_in_large_dimension() -> None:
    assert expectations.second_moment(3072) == pytest.approx(1 / 16 + 1 / (4 * math.pi**2 * 3072), rel=1e-6)
    assert relu.over_angles(lambda t: t, 5) == pytest.approx(math.pi / 2)


@pytest.mark.parametrize("k", [1, 4, 9])
def test_share_of_random_subspaces(k: int) -> None:
    D = torch.diag(torch.linspace(-1, 3, 10, dtype=torch.float64))
    shares = []
    for i in range(2000):
        V = torch.linalg.qr(_random(10, k, seed=i)).Q
        shares.append(float((V.T @ D @ V).square().sum() / D.square().sum()))
    found = torch.tensor(shares)
    expected = conjectures.random_share(k, 10, float(D.trace() ** 2 / D.square().sum()))
    assert abs(float(found.mean()) - expected) < 4 * float(found.std()) / math.sqrt(2000)
    assert abs(float(found.mean()) - (k / 10) ** 2) > 4 * float(found.std()) / math.sqrt(2000)  # not (k/D)² here


def test_share_inside_is_one_inside_and_none_outside() -> None:
    V = torch.eye(6, dtype=torch.float64)[:, :2]
    within = torch.zeros(5, 6, 6, dtype=torch.float64)
    within[:, 0, 0] = torch.arange(1.0, 6.0)
    changes = [(torch.zeros_like(within), within)]
    above, below, _ = conjectures.inside(changes, V)
    assert ratio(above, below).value == pytest.approx(1)
    above, below, _ = conjectures.inside(changes, torch.eye(6, dtype=torch.float64)[:, 2:4])
    assert ratio(above, below).value == 0


def test_exchangeable_tokens() -> None:
    a, b = 2.0, 0.5
    tokens = a * torch.eye(4).double() + b
    G = torch.zeros(16, 16, dtype=torch.float64)  # 4 × 4 image, patches of 2
    place = [(r // 2 * 2 + c // 2, r % 2 * 2 + c % 2) for r in range(4) for c in range(4)]
    for i, (t, p) in enumerate(place):
        for j, (u, q) in enumerate(place):
            G[i, j] = tokens[t, u] * (p == q)
    noise = _random(16, 16)
    torch.testing.assert_close(conjectures.exchangeable(G, 2), G)
    assert not torch.allclose(conjectures.exchangeable(G + noise, 2), G + noise)


def test_members_in_pairs_do_not_see_the_labels_at_first_order() -> None:
    made = partial(nn.Sequential, nn.Flatten(), nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    one, other = conjectures._pair(lambda: made(), 0, 0)
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(one(x), -other(x))


# --- statistics -------------------------------------------------------------------------------------------------------


def test_cosine_is_the_jackknifed_one() -> None:
    members, B = [_random(3, 3, seed=i) + torch.eye(3) for i in range(6)], torch.eye(3, dtype=torch.float64)
    flat = torch.stack(members).flatten(1)
    found = corrected(cosine(flat @ flat.T, flat @ B.flatten(), 3.0))

    def plain(items: list[Tensor]) -> float:
        pairs = [float((x * y).sum()) for x, y in itertools.permutations(items, 2)]
        along = sum(float(x.trace()) for x in items) / len(items)
        return along / math.sqrt(sum(pairs) / len(pairs) * 3)

    left = [plain(naive.without(members, i)) for i in range(6)]
    assert found.value == pytest.approx(6 * plain(members) - 5 * sum(left) / 6)
    assert (
        difference(cosine(flat @ flat.T, flat @ B.flatten(), 3.0), cosine(flat @ flat.T, flat @ B.flatten(), 3.0)) == 0
    )


def test_slope_weighs_by_errors() -> None:
    y = [Estimate(1.0, 0.001, 9), Estimate(0.1, 0.0001, 9), Estimate(5.0, 5.0, 9)]
    assert slope([1, 10, 100], y) == pytest.approx(-1, abs=0.01)
    assert math.isnan(slope([1, 2], [Estimate(-1.0), Estimate(1.0)]))
    assert math.isnan(misfit(Estimate(1.01, 0.1, 5)))
    found, near = misfit(Estimate(0.6, 1e-6, 5)), misfit(Estimate(0.6 + 1e-6))
    assert found.value == pytest.approx(math.tan(math.acos(0.6)))
    assert found.stderr == pytest.approx(found.value - near.value, rel=1e-4)


# --- figures and the command ------------------------------------------------------------------------------------------


def test_figures_show_what_was_measured() -> None:
    found = figures.curves(JOB)
    assert [c.panel for c in found] == ["a", "b"]
    for curve in found:
        for value, exact in zip(curve.measured, curve.exact, strict=True):
            assert abs(abs(value.value) - exact) < 4 * value.stderr
    drawn = figures.figure_7(found)
    assert len(drawn.axes) == 2
    arrows = figures.figure_15(theorems.example_geometry()).axes[0]
    assert sorted(t.get_text().split("\n")[0] for t in arrows.texts) == ["(1, 2, 1)", "(1, −1, 1)", "(−1, 0, 1)"]


def run(*args: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli.app, ["theory", *args])
    return result.exit_code, result.stdout, result.stderr


def test_command_prints_a_table_and_json(tmp_path: Path) -> None:
    code, text, _ = run("moments")
    assert code == 0
    assert "fails" in text
    assert "holds" in text
    assert "docs/theory.md" in text
    code, text, _ = run("moments", "--json", "--out", str(tmp_path))
    found = json.loads(text)
    assert code == 0
    assert {"name", "measured", "predicted", "stderr", "verdict"} <= set(found[0])
    assert [s["verdict"] for s in found] == ["fails", "holds", "fails"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fig15.png", "fig7.png", "theory.json"]


def test_command_says_what_is_wrong() -> None:
    assert run("theorem-3-1")[0] == 2
    assert "did you mean 'theorem-3.1'?" in run("theorem-3-1")[2]
    assert "expected one of linear-regression" in run("xyzzy")[2]
    assert "scale 'paper' is not known" in run("moments", "--scale", "paper")[2]
    assert "netgrain theory theorem-3.1" in run("--help")[1]
    with pytest.raises(NetgrainError, match="statement 'lemma' is not known; did you mean"):
        measure_statements("lemma")


def test_the_same_seed_gives_the_same_numbers() -> None:
    first, again, other = (
        rows("lemma-a5"),
        measure_statements("lemma-a5", progress=False),
        measure_statements("lemma-a5", seed=1, progress=False),
    )
    assert [s.measured.value for s in first] == [s.measured.value for s in again]
    assert first[0].measured.value != other[0].measured.value


def test_every_statement_runs_and_says_what_it_assumes() -> None:
    found = [s for name in ("conjecture-1", "conjecture-1-sign", "conjecture-2", "proposition-a1") for s in rows(name)]
    assert {s.name for s in found} == {"conjecture-1", "conjecture-1-sign", "conjecture-2", "proposition-a1"}
    for s in found:
        assert s.assumptions
        assert s.claim
        assert s.seconds > 0
        assert s.paper in ("holds", "fails", "undecided", "")
        json.dumps(s.as_dict(), allow_nan=False)
