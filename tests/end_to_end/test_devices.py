"""Everything works where the model lives: on the devices of this machine, and on two that are only pretended."""

import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import netgrain as ng
from netgrain import complexity, equivariant, groups
from netgrain.auditing.alignment import align
from netgrain.auditing.audits import audit
from netgrain.auditing.axes import axes_of
from netgrain.auditing.label_relevance import relevance
from netgrain.auditing.layer_gains import layer_profile
from netgrain.auditing.signals import visible
from netgrain.auditing.swaps import what_if
from netgrain.data.dataset import Dataset
from netgrain.data.synthetic import planted
from netgrain.families.members import member
from netgrain.families.reading import read
from netgrain.families.side_by_side import rows_of_members, why_not_side_by_side
from netgrain.geometry import scores
from netgrain.geometry.first_layer import first_layer_of
from netgrain.training import Settings, regularizers, train, train_member
from tests.end_to_end.elsewhere import elsewhere

REAL = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}


def net() -> nn.Module:
    """Small, and with a layer of every kind that holds something: weights, buffers, positions."""
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1),
        nn.BatchNorm2d(3),
        nn.GELU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(12, 3),
    )


def flat() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6, bias=False), nn.ReLU(), nn.Linear(6, 3, bias=False))


def samples() -> tuple[Tensor, Tensor]:
    X = torch.randn(12, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    return X, torch.arange(12) % 3


class Place:
    """Models and data on one device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.X, self.y = (t.to(device) for t in samples())
        self.rows = self.X[:, 0, :, 0].contiguous()

    def net(self, i: int = 0) -> nn.Module:
        return member(net, 0, i, self.device).requires_grad_(True)

    def flat(self, i: int = 0) -> nn.Module:
        return member(flat, 0, i, self.device).requires_grad_(True)


Case = Callable[[Place], Any]
CASES: dict[str, Case] = {}


def case(f: Case) -> Case:
    CASES[f.__name__] = f
    return f


# Geometry


@case
def sampled(at: Place) -> Any:
    return [
        ng.average_geometry(net, (1, 4, 4), members=3, device=at.device, workers=1, first_layer=how).matrix()
        for how in ("auto", "never")
    ]


@case
def sampled_on_data(at: Place) -> Any:
    return ng.average_geometry(net, (1, 4, 4), members=3, probe=ng.Data(at.X), device=at.device, workers=1).matrix()


@case
def geometry_of(at: Place) -> Any:
    models = [at.net(0), at.net(1)]
    probes = (ng.Data(at.X), ng.Gaussian(1.0), ng.Origin())
    return [ng.geometry_of(models, probe, input_shape=(1, 4, 4), probes=5).matrix() for probe in probes]


@case
def geometry_of_a_network_with_norms(at: Place) -> Any:
    model = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Linear(3, 2))
    for i, p in enumerate(model.parameters()):
        p.data = torch.arange(p.numel()).reshape(p.shape).add(i).float().cos()
    return ng.geometry_of(model.to(at.device), ng.Origin(), input_shape=(4,)).matrix()


@case
def geometry_of_a_kinked_network(at: Place) -> Any:
    return ng.geometry_of(at.flat(), ng.Origin(), input_shape=(4,), probes=5).matrix()


@case
def covariance(at: Place) -> Any:
    S = ng.data_covariance(at.X)
    G = ng.geometry_of(at.net(), ng.Data(at.X))
    return S.matrix(), ng.corr(G, S).value, G.project(S).matrix(), G.matvec(at.X[0].flatten()), G.flip().matrix()


@case
def from_matrix(at: Place) -> Any:
    S = at.rows.T @ at.rows
    G = ng.Geometry.from_matrix(S)
    return G.trace, ng.corr(S, S), G.project(S).matrix()


@case
def members_side_by_side(at: Place) -> Any:
    models, points = [at.net(0), at.net(1)], torch.stack([at.X[:2], at.X[2:4]])
    assert why_not_side_by_side(models, points) is None
    plan = first_layer_of(read(net, (1, 4, 4)))
    return fetched([rows_of_members(models, points), plan.rows_of_members(models, points, "all")])


@case
def batch_norms_on_data(at: Place) -> Any:
    calibrated = ng.data_statistics(net, at.X)
    return ng.average_geometry(calibrated, (1, 4, 4), members=3, device=at.device, workers=1).matrix()


# Change


@case
def average_evolution(at: Place) -> Any:
    options = {"members": 4, "workers": 1, "device": at.device}
    return [
        ng.average_evolution(flat, at.rows, at.y, **options).matrix(),
        ng.average_evolution(flat, at.rows, at.y, integrate=False, loss="cross-entropy", **options).matrix(),
    ]


@case
def evolution_of(at: Place) -> Any:
    return [
        ng.evolution_of([at.net(0), at.net(1)], at.X, at.y, loss=loss).matrix() for loss in ("sse", "cross-entropy")
    ]


@case
def tracker(at: Place) -> Any:
    models = [at.net(i).train() for i in range(3)]
    follow = ng.GeometryTracker(models, ng.Data(at.X), every=1, S=ng.data_covariance(at.X))
    for step in range(2):
        follow(step)
        with torch.no_grad():
            for p in (p for m in models for p in m.parameters()):
                p.mul_(1.5)
    return [[e.value for e in values if isinstance(e, ng.Estimate)] for values in follow.history.values()]


@case
def loss_curvature(at: Place) -> Any:
    found = ng.loss_curvature([at.net(0), at.net(1)], at.X, at.y, vectors=4)
    return found.matvec(at.X[0].flatten()), found.gap.value, found.slope, found.rate_gap.value


# Complexity


@case
def geometric_complexity(at: Place) -> Any:
    return [
        ng.geometric_complexity(at.net(), at.X, estimator=e, of=of, progress=False).value
        for e in ("exact", "auto", *sorted(set(complexity.estimators.ESTIMATORS) - {"exact", "auto"}))
        for of in ("logits", "fisher")
    ]


@case
def complexities(at: Place) -> Any:
    model = at.net()
    return [
        [p.value for p in vars(complexity.complexities(model, at.X)).values() if isinstance(p, ng.Estimate)],
        complexity.margin_complexity(model, at.X, at.y).value,
        complexity.normalised_complexity(model, at.X).value,
        [p.value for p in complexity.per_class_complexity(model, at.X, at.y).parts.values()],
        [p.value for p in complexity.per_layer_complexity(model, at.X).parts.values()],
        complexity.agop(model, at.X).matrix(),
    ]


@case
def bounds(at: Place) -> Any:
    model = at.flat()
    profile = [complexity.lipschitz_profile(model, at.rows, method=m) for m in ("exact", "power")]
    return [
        *(p.norms for p in profile),
        *(p.upper_product for p in profile),
        vars(complexity.norm_bounds(model, at.rows)),
        vars(complexity.transfer_inequality(model, at.rows)),
        complexity.lipschitz_profile(at.net(), at.X).upper_product,
        [c.bound for c in complexity.gc_error_bound(model, at.rows, at.y).classes],
        complexity.neural_collapse(model, at.rows, at.y, "1").cdnv,
    ]


@case
def paths(at: Place) -> Any:
    line = nn.Sequential(nn.Linear(1, 3), nn.Tanh(), nn.Linear(3, 1))
    for i, p in enumerate(line.parameters()):
        nn.init.constant_(p, 0.3 + i)
    arc = complexity.arc_length(line.to(at.device), -1.0, 1.0, points=11)
    return (
        complexity.path_total_variation(at.net(), at.X, paths=3).value,
        arc.length,
        complexity.interpolation_minimum(at.rows[:, 0], at.rows[:, 1]),
    )


@case
def learning_coefficient(at: Place) -> Any:
    options = {"step": 1e-6, "draws": 20, "burn_in": 2, "chains": 2, "batch": 4, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few draws of an untrained network mean nothing, and it says so
        return complexity.local_learning_coefficient(at.net(), at.X, at.y, **options).traces


@case
def complexity_tracker(at: Place) -> Any:
    follow = ng.ComplexityTracker(at.net(), at.X, at.y, X_test=at.X + 1, points=7)
    follow(0)
    return [[e.value for e in values] for values in follow.history.values()]


@case
def complexity_profile(at: Place) -> Any:
    options = {"activations": ["tanh"], "depths": [1], "scales": [1.0], "networks": 2, "width": 4, "grid": 6}
    found = complexity.complexity_profile(device=at.device, **options)
    own = complexity.complexity_profile(lambda activation, depth: nn.Linear(2, 1), device=at.device, **options)
    return [f.curve(m, "tanh", 1) for f in (found, own) for m in ("rayleigh", "path_tv")]


# Samples and features


@case
def sample_scores(at: Place) -> Any:
    G, S = ng.geometry_of(at.net(), ng.Data(at.X)), ng.data_covariance(at.X)
    basis = scores.feature_basis(G, S)
    X, y = at.X.repeat(8, 1, 1, 1), at.y.repeat(8)  # errors are over parts of the samples
    return [
        ng.score(G, at.X),
        ng.prune(G, at.X, at.y, keep=0.5),
        fetched(scores.eliminate(at.X, basis.float().to(at.device), 2)),
        fetched(scores.eliminate_variance(at.X, basis, S, 0.5)),
        scores.explained_variance(S, basis.float().to(at.device), 2),
        relevance(axes_of(G), X, y).dependence,
    ]


@case
def data_sets(at: Place) -> Any:
    data = Dataset(at.X, at.y)
    return data.X, data.subset([0, 3]).y, data.subset(data.y == 1).X, data.counts


# Training


@case
def members_trained(at: Place) -> Any:
    found = []
    for make, X in ((net, at.X), (flat, at.rows)):
        for vmapped in (False, None):
            settings = Settings(steps=3, batch=4, lr=0.1, clip=1.0, snapshots=(1,))
            done = train(make, X, at.y, settings, members=2, device=at.device, vmapped=vmapped, workers=1)
            found += [[t.state, t.losses, t.train_accuracy] for t in done]
    return found


@case
def resumed_training(at: Place) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "checkpoint.safetensors"
        settings = Settings(steps=4, batch=4, lr=0.1, optimizer="adam")
        for _ in range(2):
            penalty = regularizers.SpectralNorm(0.1)
            done = train_member(
                net, at.X, at.y, settings, seed=0, i=0, regularizer=penalty, device=at.device, checkpoint=file
            )
    return done.state, done.losses


@case
def swept(at: Place) -> Any:
    settings = Settings(steps=3, batch=None, lr=0.1)
    return ng.sweep(flat, at.rows, at.y, [0.0, 0.1], settings, regularizer=regularizers.L2, seeds=1, workers=1).numbers


@case
def trained_with_penalties(at: Place) -> Any:
    penalty = regularizers.L2(0.01) + regularizers.GeometricComplexity(0.1) + regularizers.SAM(0.05)
    settings = Settings(steps=3, batch=4, lr=0.1, optimizer="adam")
    done = train_member(net, at.X, at.y, settings, seed=0, i=0, regularizer=penalty, device=at.device)
    return done.state, done.losses


@case
def penalties(at: Place) -> Any:
    found = []
    for kind in (getattr(regularizers, name) for name in regularizers.__all__):
        if not (isinstance(kind, type) and issubclass(kind, regularizers.Regularizer)):
            continue
        if kind in (regularizers.Regularizer, getattr(regularizers, "Sum", None)):
            continue
        model, r = at.net(), kind(0.1)
        for _ in range(2):
            found.append(fetched(r.backward(F.cross_entropy, model, at.X, at.y)))
        found += [fetched(p.grad) for p in model.parameters() if p.grad is not None]
        again = kind(0.1)
        again.load_state_dict({name: t.cpu() for name, t in r.state_dict().items()})
        found.append(fetched(again.backward(F.cross_entropy, model, at.X, at.y)))
    return found


# Groups


@case
def fourier(at: Place) -> Any:
    found = []
    for G in (groups.cyclic(4), groups.symmetric(3), groups.dihedral(order=8), groups.quaternion()):
        f = torch.randn(2, G.order, generator=torch.Generator().manual_seed(0)).to(at.device)
        transformed = G.fourier(f)
        found.append(G.multiply(torch.arange(3).to(at.device), torch.tensor(1).to(at.device)))
        found += fetched([transformed.blocks, transformed.inverse(), G.convolve(f, f)])
    return found


@case
def group_networks(at: Place) -> Any:
    G = groups.dihedral(order=8)
    x = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([1.0, -1, 1, -1, 1, -1])
    found = []
    for relu in (False, True):
        made = member(lambda relu=relu: equivariant.GroupCNN(G, depth=2, relu=relu).float(), 0, 0, at.device)
        made.requires_grad_(True)
        done = equivariant.exponential_descent(made, x.to(at.device), y.to(at.device), group=G, epochs=5)
        found += [done.losses, done.fourier_ratios, done.outputs, fetched(made(x.to(at.device)))]
    return found


@case
def limits(at: Place) -> Any:
    G = groups.dihedral(order=6)
    x = torch.randn(3, 6, generator=torch.Generator().manual_seed(0)).to(at.device)
    y = torch.tensor([1.0, -1, 1]).to(at.device)
    found = equivariant.limit(G, x, y, depth=2)
    relu = equivariant.GroupCNN(G, depth=2, relu=True).float().to(at.device)
    return [
        found.beta,
        equivariant.support_vector(x, y),
        equivariant.schatten_ratio(G, x, 3),
        equivariant.schatten_objective(G, found.beta.float().to(at.device), x, y, 2),
        equivariant.real_ratio(x, 3),
        equivariant.stable_rank(G, x),
        fetched(equivariant.linearisation(relu, x).gradients),
    ]


@case
def rotations(at: Place) -> Any:
    made = equivariant.SphericalNetwork(2, depth=2, relu=True, dtype=torch.float32).to(at.device)
    return fetched(made(torch.randn(2, made.n, generator=torch.Generator().manual_seed(0)).to(at.device)))


# The audit


@case
def audited(at: Place) -> Any:
    X, y = at.X.repeat(8, 1, 1, 1), at.y.repeat(8)
    weights = member(net, 3, 0).state_dict()
    report = audit(net, X, y, weights=weights, members=4, device=at.device, trial=False, progress=False).report
    return [report["labels"]["reaction"], report["complexity"]]


@case
def signals(at: Place) -> Any:
    found = visible(net, at.X[0], members=2, layers=False, device=at.device)
    return found.gain.value


@case
def aligned(at: Place) -> Any:
    G = ng.geometry_of(at.net(), ng.Data(at.X))
    X, y = at.X.repeat(8, 1, 1, 1), at.y.repeat(8)
    Q = align(G, X, y).to(at.device)
    return fetched([Q(at.X), Q.matrix()])


@case
def swapped(at: Place) -> Any:
    found = what_if(net, {"2": nn.ReLU()}, (1, 4, 4), members=2, device=at.device)
    return found.before.matrix(), found.after.matrix(), layer_profile(net, at.X[:2], members=2).gains


@case
def checked(at: Place) -> Any:
    make = partial(nn.Linear, 4, 2)
    return ng.check(make, (4,), members=64, device=at.device, progress=False).sampled.matrix()


@case
def closed_form(at: Place) -> Any:
    G = ng.average_geometry(flat, (4,), method="closed-form", probe=ng.Data(at.rows), device=at.device)
    return G.matrix()


@case
def planted_labels(at: Place) -> Any:
    data = planted(at.X, at.X[0] / at.X[0].norm(), reference=at.X)
    return data.X, data.y


def fetched(value: Any) -> Any:
    """What stays where it was computed, for good reason: a tensor in, a tensor out."""
    if isinstance(value, Tensor):
        return value.detach().cpu()
    return [fetched(v) for v in value]


def numbers(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    """Every number in a result, which lives on the CPU."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, Tensor):
        yield value.detach().resolve_conj().numpy()
    elif isinstance(value, int | float):
        yield np.array(value)
    elif isinstance(value, ng.Estimate):
        yield np.array(value.value)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from numbers(part)


@cache
def on_cpu(name: str) -> list[np.ndarray[Any, Any]]:
    return list(numbers(CASES[name](Place(torch.device("cpu")))))


def compare(name: str, found: list[np.ndarray[Any, Any]], tolerance: float) -> None:
    expected = on_cpu(name)
    assert len(found) == len(expected) > 0
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype, name
        size = float(np.abs(b).max(initial=0.0, where=np.isfinite(b)))
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * size, err_msg=name)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", REAL)
def test_a_pretended_device_gives_the_numbers_of_the_cpu(name: str, kind: str) -> None:
    on_cpu(name)
    with elsewhere(kind) as device:
        found = list(numbers(CASES[name](Place(device))))
    compare(name, found, 1e-6)  # the same arithmetic, but members may run side by side


@pytest.mark.parametrize("kind", REAL)
def test_a_real_device_gives_them_up_to_its_rounding(kind: str) -> None:
    if not REAL[kind]:
        pytest.skip(f"there is no {kind} device here")
    for name, run in CASES.items():
        compare(name, list(numbers(run(Place(torch.device(kind))))), 1e-3)


SEEN: list[str] = []


class Witness(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        SEEN.append(x.device.type)
        return super().forward(x).relu()


def witness(inputs: int = 4, **_: Any) -> nn.Module:
    return nn.Sequential(nn.Flatten(), Witness(inputs, 3), nn.Linear(3, 1 if inputs == 2 else 3))


ASKED: dict[str, Callable[[torch.device], Any]] = {
    "average_geometry": lambda d: ng.average_geometry(witness, (4,), members=2, workers=1, device=d),
    "average_evolution": lambda d: ng.average_evolution(
        witness, torch.ones(3, 4), torch.arange(3), members=2, workers=1, device=d
    ),
    "train": lambda d: train(
        witness, torch.ones(3, 4), torch.arange(3), Settings(steps=1), members=1, workers=1, device=d
    ),
    "train_member": lambda d: train_member(
        witness, torch.ones(3, 4), torch.arange(3), Settings(steps=1), seed=0, i=0, device=d
    ),
    "check": lambda d: ng.check(witness, (4,), members=64, workers=1, device=d),
    "complexity_profile": lambda d: complexity.complexity_profile(
        partial(witness, 2), activations=["relu"], depths=[1], scales=[1.0], networks=2, grid=4, device=d
    ),
    "audit": lambda d: audit(witness, samples()[0].flatten(1)[:, :4].repeat(8, 1), samples()[1].repeat(8), device=d),
}


@pytest.mark.parametrize("name", ASKED)
def test_networks_run_where_they_are_asked_to(name: str) -> None:
    SEEN.clear()
    ASKED[name](torch.device("cpu"))
    assert set(SEEN) == {"cpu"}
    with elsewhere("cuda") as device:
        ASKED[name](device)
    assert "cuda" in SEEN


def test_an_audit_hands_its_device_on(monkeypatch: pytest.MonkeyPatch) -> None:
    class Asked(Exception):
        pass

    def asked(*_: Any, **options: Any) -> None:
        raise Asked(str(options["device"]))

    monkeypatch.setattr("netgrain.auditing.places.average_geometry", asked)
    monkeypatch.setattr("netgrain.runtime.devices.is_there", lambda _: True)
    with pytest.raises(Asked, match="cuda"):
        audit(net, *(torch.cat([t, t + 1]) if t.is_floating_point() else t.repeat(2) for t in samples()), device="cuda")


def test_a_wrong_number_is_noticed() -> None:
    wrong = [a.copy() for a in on_cpu("sampled")]
    wrong[0][0, 0] += 1e-4 * np.abs(wrong[0]).max()
    with pytest.raises(AssertionError, match="sampled"):
        compare("sampled", wrong, 1e-6)
