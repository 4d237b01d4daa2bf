"""Where the label lies: known by hand, against slow loops, on planted data, and against another library."""

import math
from functools import partial

import pytest
import torch

import netgrain as ng
from netgrain import NetgrainError
from netgrain.auditing.axes import Axes, axes_of, known_of
from netgrain.auditing.label_relevance import distance_correlation, relevance
from netgrain.data import isotropic
from netgrain.geometry.forms import Factored
from netgrain.geometry.provenance import Provenance
from netgrain.models import MLP, LeNet
from tests import naive

SHAPE = (1, 16, 16)


@pytest.fixture(scope="module")
def grain() -> tuple[ng.Geometry, Axes]:
    G = ng.average_geometry(partial(LeNet, channels=1, image_size=16, outputs=2, activation="gelu"), SHAPE)
    return G, axes_of(G)


def _axes(values: list[float], leading: int) -> Axes:
    d = len(values)
    eye = torch.eye(d, dtype=torch.float64)
    return Axes(torch.tensor(values, dtype=torch.float64), eye, [(i, i + 1) for i in range(d)], leading, d)


def test_distance_correlation_is_that_of_all_pairs() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 5, generator=generator)
    x[:, 4] = x[:, 4].round()  # ties
    y = torch.randint(3, (40,), generator=generator)
    slow = [naive.distance_correlation(column.double(), y) for column in x.T]
    assert distance_correlation(x, y).tolist() == pytest.approx(slow, abs=1e-12)


def test_distance_correlation_of_independent_and_of_dependent_columns() -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(300, 400, generator=generator)
    free = distance_correlation(x, torch.randint(2, (300,), generator=generator))
    assert abs(float(free.mean())) < 4 * float(free.std()) / math.sqrt(400)  # no bias
    bent = distance_correlation(x[:, :1], (x[:, 0].abs() > 0.67).long())
    assert float(bent) > 10 * float(free.std())
    constant = distance_correlation(torch.ones(20, 1), torch.arange(20) % 2)
    assert float(constant) == 0
    with pytest.raises(NetgrainError, match="at least 4 samples"):
        distance_correlation(torch.zeros(3, 1), torch.zeros(3))


def test_leading_directions_carry_the_share_and_blocks_stay_whole(grain: tuple[ng.Geometry, Axes]) -> None:
    _, axes = grain
    share = float(axes.values[: axes.leading].sum() / axes.values.sum())
    assert share >= 0.99
    assert axes.leading in [b for _, b in axes.blocks]
    start = next(a for a, b in axes.blocks if b == axes.leading)
    assert float(axes.values[:start].sum() / axes.values.sum()) < 0.99
    mlp = axes_of(ng.average_geometry(partial(MLP, channels=1, image_size=4, outputs=2), (1, 4, 4)))
    assert mlp.leading == 16
    with pytest.raises(NetgrainError, match="exactly zero"):
        axes_of(ng.Geometry.from_matrix(torch.zeros(3, 3)))


@pytest.mark.parametrize(("labels", "epsilon"), [("linear", 1.0), ("quadratic", 2.0)])
def test_planted_labels_are_found_where_they_were_put(
    grain: tuple[ng.Geometry, Axes], labels: str, epsilon: float
) -> None:
    G, axes = grain
    shares, difficulties = [], []
    for index in (0, 20, -1):
        data = isotropic(G.directions()[index], 1500, labels=labels, epsilon=epsilon)  # type: ignore[arg-type]
        found = relevance(axes, data.X, data.y)
        shares.append(found.dependence_leading.value)
        difficulties.append(found.difficulty.value)
        truth = -math.log10(float(axes.values[index] / axes.values.mean())) if index >= 0 else math.inf
        if index == 0:
            assert found.difficulty.value == pytest.approx(truth, abs=0.05)
    assert shares[0] > 0.9
    assert shares[-1] < 0.1
    assert difficulties == sorted(difficulties)
    assert difficulties[-1] > difficulties[0] + 2


def test_means_and_the_linear_rule_on_a_case_known_by_hand() -> None:
    """Class means apart by 2 along the first and by 1 along the last axis: 4/5 of it is in the leading ones."""
    generator = torch.Generator().manual_seed(2)
    y = torch.arange(4000) % 2
    X = torch.randn(4000, 6, generator=generator)
    X[:, 0] += 2.0 * y
    X[:, 5] += 1.0 * y
    found = relevance(_axes([4, 3, 2, 1, 0.01, 0.001], 4), X, y)
    assert abs(found.means_leading - 0.8) < 4 * found.means_leading.stderr
    assert 0 < found.means_leading.stderr < 0.02
    normal = torch.distributions.Normal(0.0, 1.0)
    for name, apart in (("all", math.sqrt(5)), ("leading", 2.0), ("weak", 1.0)):
        best = float(normal.cdf(torch.tensor(apart / 2)))
        assert abs(found.linear[name] - best) < 4 * found.linear[name].stderr + 0.005, name
    assert found.chance == 0.5
    variance = torch.tensor([1 + 1.0, 1, 1, 1, 1, 1.25])
    assert torch.allclose(found.variance, variance.double(), atol=0.1)
    assert abs(found.variance_leading - 5 / 7.25) < 4 * found.variance_leading.stderr
    assert float(found.explained[0]) == pytest.approx(0.5, abs=0.05)
    assert float(found.explained[1]) == pytest.approx(0, abs=0.005)


def test_the_linear_rule_is_that_of_scikit_learn() -> None:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    generator = torch.Generator().manual_seed(3)
    y = torch.randint(3, (1000,), generator=generator)
    X = torch.randn(1000, 8, generator=generator) @ torch.randn(8, 8, generator=generator)
    X += torch.randn(3, 8, generator=generator)[y]
    ours = relevance(_axes([1.0] * 8, 8), X, y).linear["all"]
    theirs = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1).fit(X[:500], y[:500]).score(X[500:], y[500:])
    assert abs(ours - theirs) < 4 * math.sqrt(2) * ours.stderr


def test_bad_input() -> None:
    axes = _axes([1, 1, 1], 3)
    X, y = torch.randn(40, 3), torch.arange(40) % 2
    for X_bad, y_bad, said in (
        (X[:, :2], y, "have 2 entries a sample, the network takes 3"),
        (X, y[:9], r"y has shape \(9,\), expected \(40,\)"),
        (X, y * 0, "all 40 samples have the label 0; expected at least two classes"),
        (X[:9], y[:9], "9 samples are too few"),
    ):
        with pytest.raises(NetgrainError, match=said):
            relevance(axes, X_bad, y_bad)


def test_eigenvalues_below_the_noise_of_a_sample_are_not_known() -> None:
    """Gaussian rows with a known covariance: too few leave the tail unknown, many confirm it, zeros stay zeros."""
    truth = torch.cat([torch.logspace(0, -2, 48), torch.zeros(16)])
    generator = torch.Generator().manual_seed(7)

    def sampled(members: int, rows: int) -> ng.Geometry:
        drawn = torch.randn(members, rows, 64, generator=generator) * truth.sqrt()
        return ng.Geometry(Factored.of_members(drawn, 1 / rows), (64,), Provenance("sampled", members=members))

    few, many = sampled(8, 3), sampled(400, 10)
    assert len(few.eigenvalues) == 24
    assert 0 < known_of(few) <= 24
    assert known_of(many) == 64
    axes = axes_of(few)
    assert axes.known == known_of(few)
    assert torch.allclose(axes.vectors @ axes.vectors.T, torch.eye(64, dtype=torch.float64), atol=1e-6)
    assert known_of(sampled(1, 100)) == 0  # nothing to compare with


def test_all_directions_of_a_geometry_too_large_for_its_whole_spectrum(monkeypatch: pytest.MonkeyPatch) -> None:
    from netgrain.auditing import axes as room
    from netgrain.geometry import spectrum

    for module in (spectrum, room):
        monkeypatch.setattr(module, "FULL_LIMIT", 100)
    A = torch.randn(300, 200, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    axes = axes_of(ng.Geometry.from_matrix(A.T @ A))
    assert torch.allclose(axes.values, torch.linalg.eigvalsh(A.T @ A).flip(0))
    assert float(axes.values[-1]) > 0
