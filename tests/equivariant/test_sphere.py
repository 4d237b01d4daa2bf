"""Networks on the sphere: integrals over grids, rotations, a convex program, and bad input."""

import numpy as np
import pytest
import torch
from torch import Tensor

from netgrain.equivariant import (
    InvariantRotationCNN,
    SphereNetwork,
    predictor,
    rotation_features,
    sphere_limit,
    sphere_transform,
    spherical_transform,
)
from netgrain.equivariant.sphere import RotationTransform
from netgrain.groups.so3 import SO3
from netgrain.groups.sphere import Sphere
from netgrain.runtime.errors import NetgrainError
from tests.equivariant.known_limits import signed, teacher
from tests.groups.test_sphere import some


def rotated(x: Tensor, seed: int = 0) -> Tensor:
    B = round(x.shape[-1] ** 0.5)
    return Sphere(B).rotate(x, *torch.rand(3, generator=torch.Generator().manual_seed(seed)).mul(3))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_predictor_is_that_of_the_layers(depth: int) -> None:
    net, x = SphereNetwork(4, depth, seed=1), some(4, 5)
    assert net(x).detach().numpy() == pytest.approx((x @ predictor(net)).detach().numpy())
    weights = net.flat_weights()
    assert net.parametrisation().beta(weights) == pytest.approx(predictor(net).detach().numpy())


def test_the_network_is_an_integral_over_sphere_and_rotations() -> None:
    """Depth 2: ∫∫ x(Rω) w_1(ω) w_2(R) dω dR, on grids."""
    net, x = SphereNetwork(3, 2, seed=2), some(3)
    first, second = (w.detach() for w in net.weights)
    hidden = SO3(3).inverse_fourier(Sphere(3).correlate(x, first), real=True)
    readout = SO3(3).inverse_fourier(net.blocks(second), real=True)
    assert float(net(x[None]).detach()) == pytest.approx(float((hidden * readout * SO3(3).weights).sum()))


def test_a_function_on_the_sphere_is_one_of_rotations() -> None:
    """R ↦ x(R e_z) has the same Schatten norms over SO(3)."""
    x = some(4)
    grid = SO3(4)
    theta, phi = torch.broadcast_tensors(grid.angles[1][None, :], grid.angles[0][:, None])
    values = Sphere(4).evaluate(x, theta.flatten(), phi.flatten()).reshape(8, 4, 1).expand(grid.grid)
    lifted = torch.cat([d**0.5 * b.flatten() for d, b in zip(grid.dimensions, grid.fourier(values), strict=True)])
    for p in (2, 1, 2 / 3):
        ours, theirs = sphere_transform(4).norm(x, p), spherical_transform(4).norm(lifted, p)
        assert float(ours) == pytest.approx(float(theirs), rel=1e-4)  # σ^p of rounding errors


@pytest.mark.parametrize("seed", [0, 1])
def test_depth_two_is_the_group_lasso(seed: int) -> None:
    cp = pytest.importorskip("cvxpy", reason="the convex oracles need the extra [oracle]")
    X, y = teacher(25, 8, seed)
    b = cp.Variable(25)
    parts = [(2 * l + 1) ** 0.5 * cp.norm(b[l * l : (l + 1) ** 2]) for l in range(5)]
    program = cp.Problem(cp.Minimize(sum(parts)), [signed(X, y) @ b >= 1])
    program.solve(solver="CLARABEL")
    found = sphere_limit(5, X, y, depth=2, seed=seed)
    assert found.objective == pytest.approx(program.value, rel=2e-5)
    assert found.beta.numpy() == pytest.approx(b.value, abs=1e-3)
    assert found.dual_gap is not None
    assert found.dual_gap < 1e-4


def test_depth_three_is_stationary_with_no_more_degrees() -> None:
    X, y = teacher(25, 8, 0)
    flat, deep = (sphere_limit(5, X, y, depth=depth) for depth in (2, 3))
    assert deep.kkt_residual < 1e-6
    assert sum(deep.ranks) <= sum(flat.ranks) < 5 + 1
    assert deep.balancedness == pytest.approx(1, abs=1e-6)


def test_rotations_as_matrices() -> None:
    turn, f = (
        RotationTransform(3, 4),
        torch.randn(2, 35, dtype=torch.float64, generator=torch.Generator().manual_seed(0)),
    )
    assert turn.back(turn(f)).numpy() == pytest.approx(f.numpy())
    assert (turn(f).square() * turn.weights).sum(-1).numpy() == pytest.approx(f.square().sum(-1).numpy())
    with pytest.raises(NetgrainError, match="finer expects a bandwidth of at least 3, found 2"):
        RotationTransform(3, 2)


def test_the_invariant_network_is_invariant_and_a_finer_grid_helps() -> None:
    x, filters = some(4, 20), some(4, 2, seed=1)
    changes = []
    for finer in (4, 12):
        net = InvariantRotationCNN(4, 2, 3, finer=finer, seed=0)
        outputs = [net(rotation_features(v, filters, finer=finer).flatten(1)).detach() for v in (x, rotated(x))]
        changes.append(float((outputs[0] - outputs[1]).norm() / (outputs[0] - outputs[0].mean()).norm()))
    assert changes[1] < 0.3 * changes[0]
    assert changes[1] < 0.02


def test_the_correlation_over_rotations_is_the_known_one() -> None:
    """Channel by channel x̂ ŵᵀ; the filters are √(2l+1) ŵ(l) up to √(2l+1) of the initial scale."""
    net = InvariantRotationCNN(3, 1, 1, seed=3)
    f = torch.randn(2, 35, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    single = SphereNetwork(3, 2)
    expected = single.flat([x @ w[0, 0].T for x, w in zip(single.blocks(f), net.filters, strict=True)])
    assert net.correlated(f)[:, 0].detach().numpy() == pytest.approx(expected.detach().numpy())


def test_an_inner_bandwidth_hides_degrees() -> None:
    net = InvariantRotationCNN(4, 1, 3, inner=2, seed=0)
    f = torch.randn(2, 84, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    (gradient,) = torch.autograd.grad(net(f).sum(), f)
    assert gradient[:, 10:].abs().max() == 0
    assert gradient[:, :10].abs().max() > 0


def test_bad_input_is_told() -> None:
    with pytest.raises(NetgrainError, match="inner expects a bandwidth of 1 to 3, found 4"):
        InvariantRotationCNN(3, 1, 1, inner=4)
    with pytest.raises(NetgrainError, match=r"inputs of shape \(batch, 70\), found \(2, 35\)"):
        InvariantRotationCNN(3, 2, 1)(torch.zeros(2, 35))
    with pytest.raises(NetgrainError, match="bandwidth expects a positive integer; found 0"):
        sphere_limit(0, *teacher(8, 10, 0))
    with pytest.raises(NetgrainError, match=r"X expects shape \(points, 9\) for the sphere with l < 3"):
        sphere_limit(3, *teacher(8, 10, 0))
    assert np.isfinite(sphere_limit(1, torch.tensor([[2.0]]), torch.tensor([1.0])).objective)
