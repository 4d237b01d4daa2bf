"""What the front doors check before they start: outputs, numbers that are none, gradients that are cut off, memory."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain.closed_form import rules
from netgrain.geometry.reduction import ROWS_MEMORY, Reduction, most_members
from netgrain.models import MLP, LeNet, ResNet18
from tests.end_to_end.mistakes_about_models import DATA, SHAPE, Broken, Silent, X, given, net, tiny

DOORS: dict[str, Callable[[Any, Any], object]] = {
    "auto": lambda make, output: ng.average_geometry(make, SHAPE, output=output),
    "closed form": lambda make, output: ng.average_geometry(make, SHAPE, output=output, method="closed-form"),
    "sampled": lambda make, output: ng.average_geometry(make, SHAPE, output=output, members=2),
    "side by side": lambda make, output: ng.average_geometry(make, SHAPE, output=output, members=2, vmapped=True),
    "check": lambda make, output: ng.check(make, SHAPE, output=output, members=64),
    "of one": lambda make, output: ng.geometry_of(make().eval(), DATA, output=output),
    "tracker": lambda make, output: ng.GeometryTracker(make(), DATA, output=output)(0),
    "evolution": lambda make, output: ng.average_evolution(make, X, torch.zeros(12, 3), output=output, members=2),
    "evolution of one": lambda make, output: ng.evolution_of(make().eval(), X, torch.zeros(12, 3), output=output),
}


@pytest.mark.parametrize("output", ["avg", "", 3, -1, ("diff", 0, 3), ("diff", 0, -1), ("diff", 1, 1), 0.0, None, True])
@pytest.mark.parametrize("door", DOORS)
def test_every_door_refuses_the_same_outputs_in_the_same_words(door: str, output: object) -> None:
    with pytest.raises(ng.NetgrainError) as first:
        DOORS["sampled"](tiny, output)
    with pytest.raises(ng.NetgrainError) as found:
        DOORS[door](tiny, output)
    # before the number of outputs is known, it cannot be named
    known = ", the model has 3 outputs (0 to 2)"
    assert str(found.value).replace(known, "") == str(first.value).replace(known, "")


@pytest.mark.parametrize(
    ("output", "share"), [(0, 1 / 3), (2, 1 / 3), ("mean", 1 / 9), (("diff", 0, 2), 2 / 3), (("diff", 2, 0), 2 / 3)]
)
def test_chosen_outputs_have_their_share_of_the_trace(output: Any, share: float) -> None:
    """Three outputs with independent, equally distributed gradients: E|Σ cᵢgᵢ|² = Σ cᵢ² E|g|²."""
    whole = ng.average_geometry(tiny, SHAPE).trace
    assert ng.average_geometry(tiny, SHAPE, output=output).trace / whole == pytest.approx(share, rel=1e-9)
    sampled = ng.average_geometry(tiny, SHAPE, output=output, members=400, first_layer="never").trace
    assert abs(sampled.value - share * whole) < 4 * sampled.stderr


@pytest.mark.parametrize("method", ["auto", "closed-form", "sampled"])
def test_arguments_are_looked_at_before_any_network_is_built(method: str) -> None:
    def make() -> nn.Module:
        raise AssertionError("built")

    for options in ({"output": "avg"}, {"probe": X}, {"seed": "a"}, {"tolerance": "a"}, {"device": "cuda:99"}):
        with pytest.raises(ng.NetgrainError, match=r"output|probe|seed|tolerance|device"):
            ng.average_geometry(make, SHAPE, method=method, **options)


# --- what is not finite ---------------------------------------------------------------------------------------------


def test_the_first_module_is_named_and_the_model_left_as_found() -> None:
    model = Broken().eval()
    hooks = [len(m._forward_hooks) for m in model.modules()]
    state = {name: t.clone() for name, t in model.state_dict().items()}
    for act in (lambda: ng.geometry_of(model, DATA), lambda: ng.geometric_complexity(model, X)):
        with pytest.raises(ng.NetgrainError, match=r"NaN or Inf, first in 'second' \(Softplus\)"):
            act()
    assert [len(m._forward_hooks) for m in model.modules()] == hooks
    assert all(torch.equal(t, state[name]) for name, t in model.state_dict().items())
    assert all(p.requires_grad and p.grad is None for p in model.parameters())


def test_infinity_on_the_way_is_named_where_the_outputs_are_finite() -> None:
    class Overflows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head, self.up, self.down = nn.Linear(16, 3), nn.Softplus(), nn.Sigmoid()
            self.up.register_forward_hook(lambda m, i, y: (200 + y).exp())

        def forward(self, x: Tensor) -> Tensor:
            return self.down(self.up(self.head(x.flatten(1))).reciprocal())

    with pytest.raises(ng.NetgrainError, match=r"gradient has NaN or Inf, first in 'up' \(Softplus\), although"):
        ng.geometry_of(Overflows().eval(), DATA)


def test_nan_away_from_the_origin_is_no_matter_at_the_origin() -> None:
    make = net(lambda f, x: f(x).tanh() + (1 - 100 * x.square().sum(1, keepdim=True)).sqrt())
    G = ng.average_geometry(make, SHAPE, probe=ng.Origin(), members=4)
    assert 0 < G.trace.value < float("inf")
    with pytest.raises(ng.NetgrainError, match="NaN or Inf"):
        ng.average_geometry(make, SHAPE, probe=ng.Gaussian(1.0), members=4)


def test_a_closed_form_beyond_floating_point_is_not_believed() -> None:
    make = net(lambda f, x: f(x) * 1e30 * 1e30)
    with pytest.raises(ng.NetgrainError, match="NaN or Inf"):
        ng.average_geometry(make, SHAPE)
    with pytest.raises(ng.NetgrainError, match="NaN or Inf"):
        ng.average_geometry(make, SHAPE, method="closed-form")


# --- gradients that are cut off -------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", [*DOORS, "complexity", "complexity in forward mode"])
@pytest.mark.parametrize("how", ["no_grad", "detach", "inference_mode"])
def test_cut_off_gradients_get_one_sentence_everywhere(door: str, how: str) -> None:
    class Inference(Silent):
        @torch.inference_mode()
        def forward(self, x: Tensor) -> Tensor:
            return self.head(x.flatten(1))

    make = {"no_grad": Silent, "detach": net(lambda f, x: f(x).detach()), "inference_mode": Inference}[how]
    doors = DOORS | {
        "complexity": lambda make, _: ng.geometric_complexity(make().eval(), X),
        "complexity in forward mode": lambda make, _: ng.geometric_complexity(make().eval(), X, estimator="forward"),
    }
    with pytest.raises(ng.NetgrainError) as found:
        doors[door](make, "all")
    assert str(found.value) == (
        "the outputs are cut off from the inputs (rounding, detach() or no_grad inside the model); "
        "expected outputs that can be differentiated with respect to the inputs."
    )


def test_zero_gradients_are_not_cut_off() -> None:
    """A zero-initialised head, and outputs that ignore x: both have G = 0, said in a warning."""

    def silent() -> nn.Module:
        model = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 3))
        nn.init.zeros_(model[3].weight)
        return model

    ignores = net(lambda f, x: f.bias.expand(len(x), -1))
    for make in (silent, ignores):
        with pytest.warns(ng.GrainWarning, match="exactly zero"):
            assert ng.average_geometry(make, SHAPE, members=3).trace.value == 0
        assert ng.geometry_of(make().eval(), DATA).trace.value == 0
        assert ng.geometric_complexity(make().eval(), X).value == 0


def test_a_part_under_no_grad_is_sampled() -> None:
    """A mask made without gradients is no mistake: what autograd says is what counts."""

    def masked(f: nn.Module, x: Tensor) -> Tensor:
        with torch.no_grad():
            mask = (x.sum(1, keepdim=True) > -1e9).float()
        return f(x) * mask

    plain = partial(ng.average_geometry, input_shape=SHAPE, probe=DATA, members=4, first_layer="never")
    assert torch.allclose(plain(net(masked)).matrix(), plain(net(lambda f, x: f(x))).matrix())
    assert "no_grad" in ng.average_geometry(net(masked), SHAPE, probe=DATA, tolerance=0.5).about.notes[-1]


# --- memory ---------------------------------------------------------------------------------------------------------

ERRORS = [
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9000000000 bytes."),
    MemoryError("Unable to allocate 9 GiB"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("method", ["auto", "closed-form"])
def test_memory_that_runs_out_in_a_rule_is_no_missing_rule(
    monkeypatch: pytest.MonkeyPatch, error: Exception, method: str
) -> None:
    def short(*_: object) -> None:
        raise error

    monkeypatch.setitem(rules.RULES, "linear", short)
    with pytest.raises(ng.NetgrainError, match=r"^memory ran out.*smaller input or network"):
        ng.average_geometry(tiny, SHAPE, method=method)


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("where", ["forward", "init"])
def test_memory_that_runs_out_in_the_model_is_said(error: Exception, where: str) -> None:
    def raises(*_: object) -> Tensor:
        raise error

    make = net(raises) if where == "forward" else raises
    for method in ("auto", "closed-form", "sampled"):
        with pytest.raises(ng.NetgrainError, match=r"^memory ran out"):
            ng.average_geometry(make, SHAPE, method=method)  # type: ignore[arg-type]


# --- checks without error bars --------------------------------------------------------------------------------------


def test_a_check_without_error_bars_is_refused_before_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("sampled")

    monkeypatch.setattr("netgrain.geometry.agreement.sampled", never)
    monkeypatch.setattr("netgrain.geometry.agreement.closed_form", never)
    lenet = partial(LeNet, channels=3, image_size=64)
    with pytest.raises(ng.NetgrainError, match=r"members=2000 of 1 × 10 gradients .*use at most 1092\.$"):
        ng.check(lenet, (3, 64, 64), members=2000)
    with pytest.raises(ng.NetgrainError, match=r"8 × 10 gradients .*use at most 136\.$"):
        ng.check(lenet, (3, 64, 64), members=2000, probe=ng.Gaussian(1.0))
    with pytest.raises(ng.NetgrainError, match="smaller input, fewer outputs or fewer probes"):
        ng.check(lenet, (3, 64, 64), members=2000, probe=ng.Gaussian(1.0), probes=64)
    with pytest.raises(AssertionError, match="sampled"):
        ng.check(lenet, (3, 64, 64), members=1092)


def test_the_prediction_is_what_the_reduction_does(monkeypatch: pytest.MonkeyPatch) -> None:
    condensed: list[int] = []
    monkeypatch.setattr(Reduction, "_condense", lambda self: condensed.append(self.members))
    size, rows = 8192, 512
    most = most_members(size, rows)
    assert most == ROWS_MEMORY // (4 * size * rows)
    reduction = Reduction(size, 1.0, lambda f: f)
    for _ in range(most + 1):
        reduction.add(torch.zeros(1, 1).expand(rows, size))  # takes no memory
    assert condensed == [most + 1]
    assert most_members(4096, 10**6) is None


def test_wrapped_models_count_as_what_is_inside() -> None:
    inside = given()
    G = ng.geometry_of(nn.DataParallel(inside), DATA)
    assert G.about.model == "Net"
    tracker = ng.GeometryTracker(nn.DataParallel(inside), DATA)
    assert tracker(0)["trace"].value == pytest.approx(G.trace.value)
    assert all(p.requires_grad for p in inside.parameters())


def test_layers_of_wrapped_models_keep_their_names() -> None:
    inside = given()
    found = ng.geometric_complexity(nn.DataParallel(inside), X, layer="head")
    assert found.value == pytest.approx(float(inside.head.weight.detach().square().sum()), rel=1e-5)


@pytest.mark.parametrize("door", [d for d in DOORS if "one" not in d and d != "tracker"])
def test_inference_mode_is_refused_in_one_sentence(door: str) -> None:
    with torch.inference_mode(), pytest.raises(ng.NetgrainError, match=r"^gradients .*call netgrain outside of it\.$"):
        DOORS[door](tiny, "all")


def test_families_that_are_wrapped_evolve_as_what_is_inside() -> None:
    def bare() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 1))

    both = [ng.average_evolution(make, X, members=3) for make in (bare, lambda: nn.DataParallel(bare()))]
    assert torch.equal(both[0].matrix(), both[1].matrix())


def test_statistics_and_training_of_a_family_that_cannot_be_built() -> None:
    from netgrain.training import Settings, train

    def raises() -> nn.Module:
        raise ValueError("no such thing")

    with pytest.raises(ng.NetgrainError, match="raises could not be built"):
        train(raises, X, torch.zeros(12).long(), Settings(steps=1), members=1)
    with pytest.raises(ng.NetgrainError, match="found one finished module"):
        ng.average_geometry(ng.data_statistics(MLP(channels=1, image_size=4), X), SHAPE, members=2)
    assert (
        ng.average_geometry(
            ng.data_statistics(partial(ResNet18, width=1 / 32, channels=1, norm="batch"), X), SHAPE, members=2
        ).members
        == 2
    )
