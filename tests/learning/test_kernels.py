"""The front door to kernels: laws, what it leaves alone, and what it refuses."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain.families.members import member
from netgrain.runtime.randomness import derived_seed
from tests import naive


def small() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(16, 6), nn.Tanh(), nn.Linear(6, 3))


def normed() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))


X = torch.randn(6, 1, 6, 6, generator=torch.Generator().manual_seed(2))
KINDS = ("layers", "last", "tangent")


def relu_net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 7), nn.ReLU(), nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, 3)).double()


@pytest.mark.quick
def test_geometry_is_the_mixed_derivative_of_the_last_layers_kernel() -> None:
    """G(x) = k σ² ∂ₓ∂_z K for the same members with the head integrated; differences are exact between kinks."""
    x, h, members = torch.tensor([0.3, -0.7, 0.2, 0.9], dtype=torch.float64), 1e-4, 3
    near = x + torch.cat([torch.eye(4, dtype=torch.float64), -torch.eye(4, dtype=torch.float64)]) * h
    K = ng.kernel(relu_net, near, kind="last", members=members, normalise=False, engine="local").matrix
    mixed = (K[:4, :4] - K[:4, 4:] - K[4:, :4] + K[4:, 4:]) / (4 * h * h)
    outputs, variance = 3, 1 / (3 * 5)
    below = [member(relu_net, 0, i)[:4] for i in range(members)]
    G = outputs * variance * naive.geometry(below, x[None])
    torch.testing.assert_close(outputs * variance * mixed, G, rtol=0, atol=1e-7 * float(G.norm()))


def test_the_same_with_wide_differences_where_all_units_are_on() -> None:
    """Biases keep every unit on, so that K is bilinear and large differences lose no digits: 1e-10."""

    def on() -> nn.Module:
        net = relu_net()
        net[0].bias.data += 100
        net[2].bias.data += 1000
        return net

    x, h = torch.tensor([0.3, -0.7, 0.2, 0.9], dtype=torch.float64), 10.0
    near = x + torch.cat([torch.eye(4, dtype=torch.float64), -torch.eye(4, dtype=torch.float64)]) * h
    K = ng.kernel(on, near, kind="last", members=2, normalise=False, engine="local").matrix
    mixed = (K[:4, :4] - K[:4, 4:] - K[4:, :4] + K[4:, 4:]) / (4 * h * h)
    G = naive.geometry([member(on, 0, i)[:4] for i in range(2)], x[None])
    torch.testing.assert_close(mixed, G, rtol=0, atol=1e-10 * float(G.norm()))


def test_members_by_hand() -> None:
    models = [member(small, 5, i) for i in range(2)]
    last = [m[:5](X).double() for m in models]
    K = ng.kernel(small, X, kind="last", members=2, normalise=False, seed=5)
    torch.testing.assert_close(K.parts, torch.stack([f @ f.T for f in last]))
    scaled = ng.kernel(small, X, kind="last", members=2, seed=5)
    torch.testing.assert_close(scaled.parts, torch.stack([f @ f.T / (f @ f.T).diagonal().mean() for f in last]))
    torch.testing.assert_close(K.matrix, K.parts.mean(0))
    sets = []
    for m in models:
        maps = m[:2](X)
        grid = maps.flatten(1)  # 2 × 2 cells are all of it
        sets.append([maps.mean((2, 3)), grid, m[:5](X)])
    layers = ng.kernel(small, X, members=2, seed=5)
    torch.testing.assert_close(layers.parts, torch.stack([naive.centred_gram(s) / 3 for s in sets]))
    assert layers.about.features == ("relu in 1 (mean)", "relu in 1 (grid)", "tanh in 4")
    tangent = ng.kernel(small, X, kind="tangent", members=2, normalise=False, seed=5)
    seed = derived_seed(derived_seed(5, "tangent", 1), "outputs")
    r = torch.randn(3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    rows = naive.tangent_rows(models[1].double(), X.double(), r)
    torch.testing.assert_close(tangent.parts[1], rows @ rows.T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_same_bits_for_any_engine_and_chunk_and_any_order_of_samples(kind: str) -> None:
    K = ng.kernel(small, X, kind=kind, members=4, engine="local")
    for other in ({"chunk": 3}, {"engine": "processes", "workers": 2, "chunk": 2}):
        assert torch.equal(ng.kernel(small, X, kind=kind, members=4, **{"engine": "local", **other}).parts, K.parts)
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    turned = ng.kernel(small, X[order], kind=kind, members=4, engine="local").matrix
    torch.testing.assert_close(turned, K.matrix[order][:, order], rtol=1e-5, atol=1e-6)
    cut = ng.kernel(small, X, X[2:4], kind=kind, members=4, engine="local").matrix
    torch.testing.assert_close(cut, K.matrix[:, 2:4], rtol=1e-5, atol=1e-6)
    assert not torch.equal(ng.kernel(small, X, kind=kind, members=4, engine="local", seed=1).matrix, K.matrix)


@pytest.mark.parametrize("kind", KINDS)
def test_scale_of_the_kernel(kind: str) -> None:
    K = ng.kernel(small, X, kind=kind, members=2)
    torch.testing.assert_close(K.parts.diagonal(dim1=1, dim2=2).mean(1), torch.ones(2, dtype=torch.float64))


def test_batch_norms_are_calibrated_on_the_samples() -> None:
    K = ng.kernel(normed, X, kind="last", members=2, normalise=False)
    assert K.about.calibrated == 6
    model = member(ng.data_statistics(normed, X), 0, 1)
    features = model[:4](X).double()
    torch.testing.assert_close(K.parts[1], features @ features.T, rtol=1e-5, atol=1e-5)
    own = ng.kernel(ng.data_statistics(normed, X + 1), X, kind="last", members=2, normalise=False)
    assert own.about.calibrated == 0
    assert not torch.allclose(own.matrix, K.matrix)


@pytest.mark.parametrize("kind", KINDS)
def test_a_given_module_is_a_family_of_one_and_left_as_found(kind: str) -> None:
    model = normed().eval()
    model[1].running_mean += 0.3
    before, random = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    torch.set_grad_enabled(True)
    K = ng.kernel(model, X, kind=kind)
    assert K.method == "given"
    assert K.members == 1
    assert K.relative_error == 0
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())
    assert all(p.requires_grad and p.grad is None for p in model.parameters())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert torch.equal(torch.get_rng_state(), random)
    assert not X.requires_grad
    if kind == "last":
        features = model[:4](X).detach().double()
        gram = features @ features.T
        torch.testing.assert_close(K.matrix, gram / gram.diagonal().mean(), rtol=1e-5, atol=1e-6)


def test_sampling_leaves_random_states_alone() -> None:
    random = torch.get_rng_state()
    ng.kernel(small, X, members=2)
    assert torch.equal(torch.get_rng_state(), random)


def test_models_called_in_another_way_and_at_their_embeddings() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.head = nn.Embedding(10, 4), nn.Linear(4, 2)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.head(torch.tanh(self.table(tokens)).mean(1))

    embedded = torch.randn(5, 3, 4, generator=torch.Generator().manual_seed(0))
    K = ng.kernel(Words, embedded, at="embeddings", kind="last", members=2, normalise=False)
    features = embedded.tanh().mean(1).double()
    torch.testing.assert_close(K.matrix, features @ features.T, rtol=1e-5, atol=1e-6)
    twice = ng.kernel(small, X, call=lambda model, x: model(2 * x), kind="last", members=2)
    torch.testing.assert_close(twice.matrix, ng.kernel(small, 2 * X, kind="last", members=2).matrix)


def test_features_that_do_not_differ_are_a_warning() -> None:
    with pytest.warns(ng.GrainWarning, match="no feature differs between samples"):
        ng.kernel(small, X[:1].expand(4, 1, 6, 6), members=2)


REFUSED = {
    "NaN": (lambda: ng.kernel(small, X / 0), "numbers that are not finite"),
    "no samples": (lambda: ng.kernel(small, X[:0]), "expected at least one sample"),
    "another shape": (lambda: ng.kernel(small, X[..., :4]), "the model failed on inputs of shape"),
    "Z of another shape": (lambda: ng.kernel(small, X, X[..., :4]), r"expected \(1, 6, 6\) as in X"),
    "tokens": (lambda: ng.kernel(small, torch.zeros(3, 4).long()), "pass embeddings instead of token numbers"),
    "memory": (lambda: ng.kernel(small, X, members=10**5, memory="1 MB"), "pass memory='32 MB' or more"),
    "kind": (lambda: ng.kernel(small, X, kind="first"), "kind expects 'layers', 'last' or 'tangent', found 'first'"),
    "method": (lambda: ng.kernel(small, X, method="exact"), "method expects"),
    "members": (lambda: ng.kernel(small, X, members=0), "at least one member"),
    "given members": (lambda: ng.kernel(small(), X, members=3), "members= belongs to families"),
    "train mode": (lambda: ng.kernel(normed(), X), "is in train mode"),
    "words": (lambda: ng.kernel("lenet", X), "found the text 'lenet'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_one_sentence(name: str) -> None:
    act, says = REFUSED[name]
    with warnings.catch_warnings(), pytest.raises(ng.NetgrainError, match=says) as caught:
        act()
    assert str(caught.value).count("\n") == 0
