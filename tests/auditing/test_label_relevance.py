"""Where the label lies: known by hand, against slow loops, on planted data, and against another library."""

import math

import pytest
import torch

import netgrain as ng
from netgrain import NetgrainError
from netgrain.auditing.axes import Axes, axes_of
from netgrain.auditing.distance_correlations import distance_correlation
from netgrain.auditing.label_relevance import most_samples, relevance
from netgrain.data import isotropic
from tests import naive


@pytest.fixture(scope="module")
def grain(lenet_G: ng.Geometry) -> tuple[ng.Geometry, Axes]:
    return lenet_G, axes_of(lenet_G)


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


@pytest.mark.parametrize(("labels", "epsilon"), [("linear", 1.0), ("quadratic", 2.0)])
def test_planted_labels_are_found_where_they_were_put(
    grain: tuple[ng.Geometry, Axes], labels: str, epsilon: float
) -> None:
    G, axes = grain
    shares, reactions = [], []
    for index in (0, 20, -1):
        data = isotropic(G.directions()[index], 800, labels=labels, epsilon=epsilon)  # type: ignore[arg-type]
        found = relevance(axes, data.X, data.y)
        shares.append(found.dependence_leading.value)
        reactions.append(found.reaction.value)
        if index == 0:
            assert found.reaction.value == pytest.approx(float(axes.values[0] / axes.values.mean()), rel=0.12)
            assert 0 < found.reaction.stderr < 0.2 * found.reaction.value
    assert shares[0] > 0.9
    assert shares[-1] < 0.1
    assert reactions == sorted(reactions, reverse=True)
    assert reactions[0] > 100 * reactions[-1]


def test_means_and_the_linear_rule_on_a_case_known_by_hand() -> None:
    """Class means apart by 2 along the first and by 1 along the last axis: 4/5 of it is in the leading ones."""
    generator = torch.Generator().manual_seed(2)
    y = torch.arange(4000) % 2
    X = torch.randn(4000, 6, generator=generator)
    X[:, 0] += 2.0 * y
    X[:, 5] += 1.0 * y
    found = relevance(_axes([4, 3, 2, 1, 0.01, 0.001], 4), X, y, samples=4000)
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


def partial_axes(axes: Axes, k: int) -> Axes:
    """The first k of them, as of a large input."""
    return Axes(axes.values[:k], axes.vectors[:k], axes.blocks[:k], k, k, float(axes.values.sum()))


def test_a_few_directions_and_the_rest_say_what_all_say() -> None:
    """What is measured of a large input is what is measured with all directions, the first being the leading ones."""
    generator = torch.Generator().manual_seed(4)
    d, k = 40, 5
    y = torch.randint(3, (300,), generator=generator)
    X = torch.randn(300, d, generator=generator) + 2 * torch.randn(3, d, generator=generator)[y] / 5
    values = torch.linspace(3, 1, d).tolist()
    whole = _axes(values, k)
    all_of, some = (relevance(axes, X, y) for axes in (whole, partial_axes(whole, k)))
    torch.testing.assert_close(some.variance, all_of.variance[:k])
    torch.testing.assert_close(some.explained, all_of.explained[:k])
    torch.testing.assert_close(some.spectrum, all_of.spectrum[:k])
    assert some.total_variance == pytest.approx(all_of.total_variance)
    assert some.mean_variance == pytest.approx(float(all_of.variance.mean()), rel=1e-4)
    for what in ("variance_leading", "means_leading"):
        one, other = getattr(some, what), getattr(all_of, what)
        assert (one.value, one.stderr) == pytest.approx((other.value, other.stderr))
    assert some.linear == pytest.approx(all_of.linear)
    assert math.isnan(some.reaction)
    assert math.isnan(some.dependence_leading)
    assert not len(some.tested)


def test_a_stated_number_of_samples_is_looked_at() -> None:
    X = torch.randn(2500, 3, generator=torch.Generator().manual_seed(0))
    y = (X[:, 0] > 0).long()
    axes = _axes([3, 2, 1], 3)
    assert [relevance(axes, X, y, **asked).samples for asked in ({}, {"samples": 99})] == [2000, 99]
    assert most_samples(3 * 224 * 224) == 576
    assert (
        relevance(axes, X, y, seed=1, samples=99).variance.tolist()
        != relevance(axes, X, y, samples=99).variance.tolist()
    )


def test_numbers_as_labels_and_none() -> None:
    """y = 2 x₁ + noise of the same size: half of the variance along x₁ is explained, and no other."""
    generator = torch.Generator().manual_seed(6)
    X = torch.randn(2000, 4, generator=generator)
    y = X[:, 1] + torch.randn(2000, generator=generator)
    axes = _axes([4, 3, 2, 1], 2)
    found = relevance(axes, X, y)
    assert found.explained.tolist() == pytest.approx([0, 0.5, 0, 0], abs=0.05)
    assert abs(found.means_leading - 1) < 4 * found.means_leading.stderr + 0.01
    assert math.isnan(relevance(axes, X, torch.randn(2000, generator=generator)).means_leading)
    none = relevance(axes, X, None)
    assert none.explained.isnan().all()
    assert all(math.isnan(v) for v in (none.means_leading, none.reaction, none.chance, *none.linear.values()))
    assert none.variance_leading.value == found.variance_leading.value
