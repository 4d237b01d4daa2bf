"""Networks over groups, their predictors, Schatten norms, training: laws, references, messages."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from netgrain.equivariant import (
    CircularCNN,
    Diagonal,
    FullyConnected,
    GroupCNN,
    LinearNetwork,
    exponential_descent,
    linearisation,
    predictor,
    ranks,
    real_ratio,
    schatten,
    schatten_objective,
    schatten_ratio,
    stable_rank,
    support_vector,
    weighted_rank,
)
from netgrain.equivariant.parametrisation import Array, EqualChains, MatrixChains, Parametrisation
from netgrain.equivariant.penalties import diagonal_transform, euclidean_transform, group_transform, matrix_transform
from netgrain.equivariant.separable import check_separable
from netgrain.groups import Group, alternating, cyclic, dihedral, parse, quaternion
from netgrain.runtime.errors import NetgrainError

D8 = dihedral(order=8)
GROUPS = [cyclic(6), D8, quaternion(order=8), alternating(4), dihedral(order=12)]
DEPTHS = [1, 2, 3, 4]


def networks(depth: int, relu: bool = False) -> list[LinearNetwork]:
    return [
        FullyConnected(8, depth, relu=relu, seed=1),
        FullyConnected(8, depth, width=3, relu=relu, seed=1),
        Diagonal(8, depth, relu=relu, seed=1),
        CircularCNN(8, depth, relu=relu, seed=1),
        GroupCNN(D8, depth, relu=relu, seed=1),
        GroupCNN(D8, depth, channels=3, relu=relu, seed=1),
    ]


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def close(a: Tensor | Array, b: Tensor | Array, tolerance: float = 1e-12) -> bool:
    return bool(np.abs(np.asarray(a) - np.asarray(b)).max() <= tolerance * (1 + np.abs(np.asarray(b)).max()))


# --- networks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("i", range(6))
def test_predictor_is_the_network_on_unit_vectors(depth: int, i: int) -> None:
    net = networks(depth)[i]
    with torch.no_grad():
        assert close(predictor(net), net(torch.eye(8, dtype=torch.float64)))
        assert close(net.parametrisation().beta(net.flat_weights()), predictor(net))


def test_group_layer_is_the_double_sum() -> None:
    net, x = GroupCNN(D8, 2, seed=3), gaussian(8)
    w, T = net.weights[0][0, 0].detach(), D8.cayley
    loop = torch.tensor([sum(float(x[T[u, v]] * w[v]) for v in range(8)) for u in range(8)])
    assert close(net.layer(x[None, None], 0)[0, 0].detach(), loop, 1e-6)


@pytest.mark.parametrize("relu", [False, True])
def test_hidden_layer_is_equivariant(relu: bool) -> None:
    net, x = GroupCNN(D8, 3, channels=2, relu=relu, seed=3), gaussian(2, 8)
    for g in range(8):
        moved = x[:, D8.cayley[D8.inverse[g]]]  # (L_g x)(u) = x(g⁻¹u)
        first, second = net.layer(net.enter(x), 0), net.layer(net.enter(moved), 0)
        assert close(second.detach(), first[..., D8.cayley[D8.inverse[g]]].detach())
    assert not close(
        net(x).detach(), net(x[:, D8.cayley[D8.inverse[1]]]).detach(), 1e-3
    )  # the read-out is not invariant


def test_unfolded_and_transformed_layers_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    x = gaussian(3, 8)
    unfolded = GroupCNN(D8, 3, channels=2, seed=0)
    monkeypatch.setattr("netgrain.equivariant.networks.UNFOLDED", 0)
    through_the_group = GroupCNN(D8, 3, channels=2, seed=0)
    assert unfolded._unfold is not None
    assert through_the_group._unfold is None
    assert close(through_the_group(x).detach(), unfolded(x).detach())


def test_weights_depend_on_the_seed_alone() -> None:
    state = torch.get_rng_state()
    a, b, c = (GroupCNN(D8, 3, seed=s).flat_weights() for s in (0, 0, 1))
    assert (a == b).all()
    assert np.abs(a - c).max() > 0.01
    assert torch.equal(torch.get_rng_state(), state)
    assert np.abs(a[:16]).max() <= math.sqrt(3 / 8)
    assert np.abs(a[16:]).max() <= 1 / math.sqrt(8)


@pytest.mark.parametrize("i", range(6))
def test_relu_networks_are_homogeneous_and_linearise(i: int) -> None:
    net, X = networks(3, relu=True)[i], gaussian(20, 8)
    found = linearisation(net, X)
    with torch.no_grad():
        outputs = net(X)
    assert found.dead + len(found.gradients) == 20
    assert close((found.gradients * X[found.kept]).sum(1), outputs[found.kept])
    assert not close(net(-X).detach(), -outputs, 1e-3)  # it is not linear
    with pytest.raises(NetgrainError, match="linearisation"):
        predictor(net)


def test_dead_samples_are_dropped_and_counted() -> None:
    net = Diagonal(2, 2, relu=True)
    with torch.no_grad():
        for w in net.weights:
            w.fill_(1.0)
    found = linearisation(net, torch.tensor([[1.0, 2.0], [-1.0, -2.0], [1.0, -1.0]], dtype=torch.float64))
    assert found.dead == 1
    assert found.kept.tolist() == [0, 2]
    assert found.gradients.tolist() == [[1.0, 1.0], [1.0, 0.0]]
    assert "1 dead" in repr(found)


# --- derivatives ------------------------------------------------------------------------------------------------------


def chains(depth: int) -> list[Parametrisation]:
    pairs = MatrixChains((EqualChains(2, (1,) * (depth + 1), 2.0), EqualChains(2, (2,) * (depth + 1), 0.5)))
    return [*(net.parametrisation() for net in networks(depth)), pairs]


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("i", range(7))
def test_derivatives_are_those_of_differences(depth: int, i: int) -> None:
    network = chains(depth)[i]
    rng = np.random.default_rng(0)
    w = rng.standard_normal(network.size)
    Z = rng.standard_normal((3, len(network.beta(w))))
    h = 1e-5 * np.eye(network.size)
    slopes = np.array([Z @ (network.beta(w + e) - network.beta(w - e)) / 2e-5 for e in h]).T
    curvature = np.array([(network.gradients(w + e, Z[:1]) - network.gradients(w - e, Z[:1]))[0] / 2e-5 for e in h])
    assert close(network.gradients(w, Z), slopes, 1e-7)
    assert close(network.hessian(w, Z[0]), curvature, 1e-7)
    assert close(network.gradients(w, Z) @ w, depth * Z @ network.beta(w))  # Euler: homogeneous of degree L


# --- Schatten norms ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.name)
@pytest.mark.parametrize("p", [0.5, 2 / 3, 1.0, 2.0])
def test_schatten_norm_without_irreps(group: Group, p: float) -> None:
    beta = gaussian(4, group.order)
    values = torch.linalg.svdvals(group.regular(beta))
    assert close(schatten(group, beta, p), (values**p).sum(-1) ** (1 / p), 1e-10)
    assert close(stable_rank(group, beta), (values**2).sum(-1) / values[:, 0] ** 2, 1e-10)


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.name)
def test_extremes_of_the_schatten_ratio(group: Group) -> None:
    n = group.order
    delta, constant = torch.eye(n)[0], torch.ones(n)
    for depth in DEPTHS:
        assert schatten_ratio(group, delta, depth).item() == pytest.approx(n ** (depth / 2))
        assert schatten_ratio(group, constant, depth).item() == pytest.approx(math.sqrt(n))
        assert real_ratio(delta, depth).item() == pytest.approx(1)
        assert real_ratio(constant, depth).item() == pytest.approx(n ** ((depth - 1) / 2))
    assert weighted_rank(group, delta) == n
    assert weighted_rank(group, constant) == 1
    assert sum(ranks(group, constant)) == 1
    assert schatten(group, gaussian(n), 2.0).item() == pytest.approx(math.sqrt(n) * gaussian(n).norm().item())


def test_penalties_of_the_other_networks() -> None:
    beta, p = gaussian(6), 2 / 3
    dft = torch.fft.fft(beta).abs()
    assert group_transform(cyclic(6)).norm(beta, p).item() == pytest.approx((dft**p).sum().item() ** 1.5)
    assert diagonal_transform(6).norm(beta, p).item() == pytest.approx((beta.abs() ** p).sum().item() ** 1.5)
    assert euclidean_transform(6).norm(beta, p).item() == pytest.approx(beta.norm().item())
    assert matrix_transform([1, 2], [1, 4]).norm(torch.tensor([1.0, 2, 0, 0, 2]), 1.0).item() == pytest.approx(
        1 + 4 * 2
    )


def test_the_variational_identity_bounds_random_weights() -> None:
    """½ Σ |w_l|² ≥ (L/2n) R_{2/L}(β) for any weights; equality at depth 1."""
    for net in networks(1) + networks(2) + networks(3):
        transform = net.transform()
        R = transform.power_sum(predictor(net).detach(), 2 / net.depth)
        bound = net.depth / transform.scale * R.item()
        squares = float((net.flat_weights() ** 2).sum())
        assert squares >= bound * (1 - 1e-12)
        if net.depth == 1:
            assert squares == pytest.approx(bound)
        else:
            assert squares > 1.001 * bound


def test_objective_is_at_margin_one_and_infinite_without_separation() -> None:
    X, y = gaussian(3, 8), torch.tensor([1.0, -1.0, 1.0])
    b = support_vector(X, y)
    both = schatten_objective(D8, torch.stack([5 * b, -b]), X, y, 3)
    assert both[0].item() == pytest.approx(schatten(D8, b, 2 / 3).item())
    assert both[1].item() == math.inf


def test_schatten_is_differentiable() -> None:
    beta = gaussian(8).requires_grad_(True)
    (slope,) = torch.autograd.grad(schatten(D8, beta, 1.0), beta)
    assert float(slope @ beta.detach()) == pytest.approx(schatten(D8, beta, 1.0).item())  # Euler: degree one


def test_authors_optimum_on_two_columns_of_the_dft() -> None:
    """β = (χ₃ − χ₂)/8 has the ratio 4√2 in the authors' norm (spec 3.1)."""
    chi_2, chi_3 = torch.tensor([[1.0, 1, -1, -1, 1, 1, -1, -1], [1, 1, -1, -1, -1, -1, 1, 1]])
    gap_order = D8.reorder([0, 4, 2, 6, 1, 5, 7, 3])  # e, r², r, r³, s, s r², s r, s r³
    assert schatten_ratio(gap_order, (chi_3 - chi_2) / 8, 3).item() == pytest.approx(4 * math.sqrt(2), abs=1e-6)


def test_published_level_at_initialisation_of_order_6272() -> None:
    """289k in the authors' MNIST figure is the direct product; the semidirect one would start at 249k (spec 1.6)."""
    for name, level in (("C28xC28xD8", 289e3), ("C28xC28:D8", 249e3)):
        group = parse(name)
        ratios = [schatten_ratio(group, predictor(GroupCNN(group, 3, seed=s)).detach(), 3).item() for s in range(20)]
        assert abs(np.mean(ratios) - level) < 4 * np.std(ratios) / math.sqrt(20)


# --- separability -----------------------------------------------------------------------------------------------------


def test_support_vector_satisfies_its_own_conditions() -> None:
    X = gaussian(12, 8, seed=2)
    y = (X @ gaussian(8, seed=3)).sign()
    b = support_vector(X, y)
    margins = y * (X @ b)
    assert margins.min().item() == pytest.approx(1, abs=1e-9)
    active = margins < 1 + 1e-7
    alpha = torch.linalg.lstsq((y[:, None] * X)[active].T, b[:, None]).solution[:, 0]
    assert close((y[:, None] * X)[active].T @ alpha, b, 1e-9)
    assert (alpha > 0).all()


def test_points_that_no_direction_separates_are_named() -> None:
    Z = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    with pytest.raises(NetgrainError, match=r"not separable.*points 0, 1, 2\) is zero"):
        check_separable(Z)
    with pytest.raises(NetgrainError, match="point 1 is zero"):
        check_separable(np.array([[1.0, 0.0], [0.0, 0.0]]))
    assert check_separable(Z[:2]) > 0


# --- training ---------------------------------------------------------------------------------------------------------


def test_plain_descent_is_that_of_torch() -> None:
    """Three epochs of ours against autograd on mean exp(−y NN(x))."""
    X, y = gaussian(5, 8), torch.tensor([1.0, -1, 1, -1, 1], dtype=torch.float64)
    ours, theirs = GroupCNN(D8, 3, relu=True, seed=0), GroupCNN(D8, 3, relu=True, seed=0)
    exponential_descent(ours, X, y, group=D8, epochs=3, lr=0.1)
    parameters = list(theirs.parameters())
    for _ in range(3):
        slopes = torch.autograd.grad(torch.exp(-y * theirs(X)).mean(), parameters)
        with torch.no_grad():
            for p, slope in zip(parameters, slopes, strict=True):
                p -= 0.1 * slope
    assert close(ours.flat_weights(), theirs.flat_weights())


def test_learning_rate_grows_every_hundred_epochs() -> None:
    X, y = torch.ones(1, 1, dtype=torch.float64), torch.ones(1)
    net = Diagonal(1, 1, seed=0)
    w = net.flat_weights()[0]
    for epoch in range(201):
        w += 0.01 * 1.1 ** (epoch // 100) * math.exp(-w)
    exponential_descent(net, X, y, group=cyclic(1), epochs=201, lr=0.01)
    assert net.flat_weights()[0] == pytest.approx(w)


def test_normalised_descent_goes_where_exponentials_underflow() -> None:
    X, y = gaussian(4, 8), torch.tensor([1.0, -1, 1, -1])
    net = GroupCNN(D8, 3, seed=0)
    found = exponential_descent(net, X, y, group=D8, method="ngd", epochs=4000, margin=760)
    assert found.margins[-1] >= 760  # exp(−760) is zero in float64
    assert found.losses[-1] == 0
    assert found.fourier_ratios[-1] < 0.8 * found.fourier_ratios[0]
    assert "dead" in repr(found)


def test_divergence_is_said() -> None:
    X, y = gaussian(3, 8), torch.tensor([1.0, -1, 1])
    with pytest.raises(NetgrainError, match="diverged at epoch"):
        exponential_descent(GroupCNN(D8, 3, seed=0), 10 * X, y, group=D8, epochs=2000, lr=1e6)


# --- messages ---------------------------------------------------------------------------------------------------------


def test_bad_networks_are_refused() -> None:
    with pytest.raises(NetgrainError, match=r"depth expects .* found 0"):
        GroupCNN(D8, 0)
    with pytest.raises(NetgrainError, match="channels expects at least 1"):
        GroupCNN(D8, 2, channels=0)
    with pytest.raises(NetgrainError, match="width expects at least 1"):
        FullyConnected(8, 2, width=0)
    with pytest.raises(NetgrainError, match=r"shape \(batch, 8\), found \(2, 7\)"):
        GroupCNN(D8, 2)(gaussian(2, 7))
    with pytest.raises(NetgrainError, match="p > 0"):
        schatten(D8, torch.ones(8), 0.0)
    with pytest.raises(NetgrainError, match="length 8, found 7"):
        schatten(D8, torch.ones(7), 1.0)
    with pytest.raises(NetgrainError, match="'sgd' or 'ngd', found 'adam'"):
        exponential_descent(Diagonal(8), gaussian(2, 8), torch.ones(2), group=D8, method="adam")
