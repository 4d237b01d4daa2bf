"""Kernels by products with landmarks: all samples as landmarks give the kernel, fewer a projection of it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from netgrain.learning import landmarks
from netgrain.learning.kernel_value import KernelKind
from netgrain.learning.kernels import kernel
from netgrain.learning.landmarks import landmark_kernel, landmarks_for
from netgrain.learning.leave_one_out import leave_one_out
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.memory import within

X = torch.randn(60, 2, 4, 4, generator=torch.Generator().manual_seed(0))


def make() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(96, 3))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landmarks, "MOST_AT_ONCE", 25)  # the last block is shorter
    monkeypatch.setattr(landmarks, "FEWEST_LANDMARKS", 10)


@pytest.mark.quick
@pytest.mark.parametrize("kind", ["layers", "last", "tangent"])
def test_with_all_samples_as_landmarks_it_is_the_kernel(kind: KernelKind) -> None:
    exact = kernel(make, X, kind=kind, members=3)
    found = landmark_kernel(make, X, kind, 3)
    assert found.members == 3
    assert float((found.matrix.dense() - exact.matrix).abs().max()) < 1e-9
    assert found.parts is not None
    assert exact.parts is not None
    k = found.parts.shape[1]
    assert float((found.parts - exact.parts[:, :k, :k]).abs().max()) < 1e-9
    y = X[:, :1, 0, 0].double()
    assert (
        float((leave_one_out(found.matrix, y).predictions - leave_one_out(exact.matrix, y).predictions).abs().max())
        < 1e-8
    )


def test_fewer_landmarks_project_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact between landmarks and all samples, and too small by a positive semidefinite matrix elsewhere."""
    monkeypatch.setattr(landmarks, "LANDMARKS", 20)
    found = landmark_kernel(make, X, "last", 2)
    assert found.landmarks == 20
    exact = kernel(make, X[:20], X, kind="last", members=2).matrix
    assert float((found.matrix.dense()[:20] - exact).abs().max()) < 1e-9
    one = nn.Sequential(nn.Flatten(), nn.Linear(32, 40), nn.ReLU(), nn.Linear(40, 2))
    whole = kernel(one, X, kind="last", normalise=False).matrix
    thin = landmark_kernel(one, X, "last").matrix.dense()
    scale = whole[:20, :20].diagonal().mean()
    missing = torch.linalg.eigvalsh(whole / scale - thin)
    assert float(missing[0]) > -1e-9
    assert float(missing[-1]) > 0.01


def test_the_budget_decides_how_many() -> None:
    assert landmarks_for(10_000, 100, 8) == (2000, 25)
    with within("1 GB"):
        m, block = landmarks_for(50_000, 10_000, 8)
        assert m == 10**9 // (8 * 8 * 50_000)
        assert 12 * 10_000 * (m + block) <= 10**9
    with (
        within("20 MB"),
        pytest.raises(NetgrainError, match="leave room for 3 landmarks in 20 MB of memory, expected at"),
    ):
        landmarks_for(100_000, 100, 8)


def test_a_given_network_has_one_member_and_stays_as_it_is() -> None:
    net = make().eval()
    before: list[Tensor] = [t.clone() for t in net.state_dict().values()]
    found = landmark_kernel(net, X, "layers")
    assert found.members == 1
    assert not net.training
    assert all(torch.equal(a, b) for a, b in zip(before, net.state_dict().values(), strict=True))
