"""ComplexityTracker in hand-written training loops: right numbers, nothing disturbed, resumable, never in the way."""

import json
import math
import warnings
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor, nn

from netgrain.complexity.estimators import geometric_complexity
from netgrain.complexity.tracker import ComplexityTracker, to_tensorboard
from netgrain.complexity.variants import margin_complexity, normalised_complexity
from netgrain.geometry.plots import png
from netgrain.runtime.errors import GrainWarning, NetgrainError

X = torch.randn(60, 6, generator=torch.Generator().manual_seed(1))
Y = (X[:, 0] + X[:, 2] > 0).long()
NEW = torch.randn(40, 6, generator=torch.Generator().manual_seed(2))


def fresh(outputs: int = 3) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, outputs))


def train(model: nn.Module, tracker: ComplexityTracker | None, steps: range) -> None:
    """Plain gradient descent with dropout drawn from the global generator."""
    for step in steps:
        loss = F.cross_entropy(model(X), Y)
        if tracker is not None:
            tracker(step, loss=loss)
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.5 * p.grad


@pytest.fixture(scope="module")
def tracked() -> ComplexityTracker:
    model = fresh()
    tracker = ComplexityTracker(model, X, Y, X_test=NEW, every=5, points=20)
    torch.manual_seed(3)
    train(model, tracker, range(21))
    return tracker


def test_values_are_those_of_the_same_points_by_hand(tracked: ComplexityTracker) -> None:
    assert tracked.steps == [0, 5, 10, 15, 20]
    names = ["gc", "gc_per_variance", "gc_per_margin", "margin", "accuracy", "gc_test", "gap", "loss"]
    assert list(tracked.history) == names
    model = fresh()
    torch.manual_seed(3)
    train(model, None, range(10))  # the tracker is called at step 10 before that step is taken, after its forward pass
    F.cross_entropy(model(X), Y)
    model.eval()
    row = {name: values[2] for name, values in tracked.history.items()}
    chosen, y = tracked.X, tracked.y
    assert len(chosen) == 20
    places = [int((x == X).all(1).nonzero()) for x in chosen]
    assert len(set(places)) == 20
    assert torch.equal(Y[places], y)
    gc = geometric_complexity(model, chosen)
    assert row["gc"] == gc.value
    loop = sum(float(torch.autograd.functional.jacobian(model, x[None]).square().sum()) for x in chosen) / 20
    assert row["gc"].value == pytest.approx(loop, rel=1e-5)
    with torch.no_grad():
        f = model(chosen)
    assert row["gc_per_variance"].value == pytest.approx(loop / float(f.var(0, unbiased=False).sum()), rel=1e-4)
    others = torch.stack([torch.cat([z[:c], z[c + 1 :]]).max() for z, c in zip(f, y, strict=True)])
    margins = f[range(20), y] - others
    assert row["margin"].value == pytest.approx(float(margins.quantile(0.5)), rel=1e-5)
    assert row["gc_per_margin"].value == pytest.approx(loop / float(margins.quantile(0.5)) ** 2, rel=1e-4)
    assert row["accuracy"].value == float((f.argmax(1) == y).double().mean())
    test = geometric_complexity(model, tracked.X_test)
    assert row["gc_test"] == test.value
    assert row["gap"].value == test.value - gc.value
    assert not any(bool((x == X).all(1).any()) for x in tracked.X_test)


def test_complexity_rises_while_it_learns(tracked: ComplexityTracker) -> None:
    gc, accuracy, loss = (tracked.history[name] for name in ("gc", "accuracy", "loss"))
    assert gc[-1] > 1.5 * gc[0]
    assert accuracy[-1] > accuracy[0]
    assert loss[-1] < loss[0]


def test_sampled_complexities_have_errors_and_cover_the_exact_one() -> None:
    model = fresh(40)
    found = ComplexityTracker(model, X, estimator="vjp", rel_error=0.1)(0)
    exact = ComplexityTracker(model, X, estimator="exact")(0)
    assert found is not None
    assert exact is not None
    assert exact["gc"].stderr == 0
    assert 0 < found["gc"].stderr < 0.1 * found["gc"].value
    assert abs(found["gc"].value - exact["gc"].value) < 4 * found["gc"].stderr
    share = found["gc_per_variance"].value / found["gc"].value
    assert found["gc_per_variance"].stderr == pytest.approx(share * found["gc"].stderr)


def test_the_points_are_chosen_by_the_seed_alone() -> None:
    model = fresh()
    torch.manual_seed(5)
    one = ComplexityTracker(model, X, points=10).X
    torch.manual_seed(6)
    assert torch.equal(one, ComplexityTracker(model, X, points=10).X)
    assert not torch.equal(one, ComplexityTracker(model, X, points=10, seed=1).X)
    whole = ComplexityTracker(model, X, points=None).X
    assert torch.equal(X, whole)
    assert X.data_ptr() != whole.data_ptr(), "a copy: the loop may write into its own"


class Noisy(nn.Sequential):
    """Draws random numbers that change nothing."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 0 * torch.rand(1)


def test_nothing_is_disturbed() -> None:
    model = Noisy(*fresh())
    model[3].eval()  # a mode of its own
    model(X).sum().backward()

    def state() -> list[Tensor]:
        found = [t.clone() for t in model.state_dict().values()]
        return found + [p.grad.clone() for p in model.parameters()] + [torch.get_rng_state()]

    modes = [module.training for module in model.modules()]
    before = state()
    with torch.no_grad():
        assert ComplexityTracker(model, X, Y)(0) is not None
        assert not torch.is_grad_enabled()
    assert all(torch.equal(a, b) for a, b in zip(before, state(), strict=True))
    assert modes == [module.training for module in model.modules()]
    assert all(p.requires_grad for p in model.parameters())


def test_training_is_the_same_bit_for_bit() -> None:
    watched, alone = fresh(), fresh()
    tracker = ComplexityTracker(watched, X, Y, X_test=NEW, every=3)
    torch.manual_seed(7)
    train(watched, tracker, range(10))
    torch.manual_seed(7)
    train(alone, None, range(10))
    assert len(tracker.steps) == 4
    for ours, theirs in zip(watched.state_dict().values(), alone.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs)


def test_no_grad_autocast_and_inference_tensors_do_not_change_the_value() -> None:
    model = fresh()
    with torch.inference_mode():
        made = X * 1.0
        inside = ComplexityTracker(model, made, Y)
    tracker = ComplexityTracker(model, made, Y)
    plain = ComplexityTracker(model, X, Y).measure()
    assert tracker.measure() == inside.measure() == plain
    with torch.no_grad():
        assert tracker.measure() == plain
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert tracker.measure() == plain
    with torch.inference_mode(), pytest.raises(NetgrainError, match="call the tracker outside of it"):
        tracker(0)


def test_when_it_measures() -> None:
    tracker = ComplexityTracker(fresh(), X, every=10)
    assert tracker(3) is not None  # the first call in any case
    assert tracker(4) is None
    assert tracker(10) is not None
    assert tracker(11, force=True) is not None
    assert tracker(12) is None
    assert tracker(23) is not None  # 20 was jumped over
    assert tracker.steps == [3, 10, 11, 23]
    assert tracker(10) == {name: values[1] for name, values in tracker.history.items()}
    with pytest.raises(NetgrainError, match="step 0 comes after step 23 was measured"):
        tracker(0)


def test_as_plain_values(tracked: ComplexityTracker) -> None:
    table = json.loads(json.dumps(tracked.as_dict(), allow_nan=False))
    assert table["step"] == tracked.steps
    assert table["gc"][3]["value"] == tracked.history["gc"][3].value
    assert "20 points, every 5 steps, 5 measured up to step 20, geometric complexity" in repr(tracked)


def test_resumed_is_the_same_as_uninterrupted(tracked: ComplexityTracker, tmp_path: Path) -> None:
    model = fresh()
    options = {"X_test": NEW, "points": 20}
    tracker = ComplexityTracker(model, X, Y, every=5, **options)
    torch.manual_seed(3)
    train(model, tracker, range(13))
    path = tracker.save(tmp_path / "tracker.safetensors")
    again = ComplexityTracker.load(path, model, X, Y, **options)
    assert again(10) == tracker(10)  # measured before the stop: not measured again
    train(model, again, range(13, 21))
    assert again.every == 5
    assert repr(again.state_dict()) == repr(tracked.state_dict())


def test_a_file_of_another_tracker_is_refused(tracked: ComplexityTracker, tmp_path: Path) -> None:
    path = tracked.save(tmp_path / "tracker.safetensors")
    same = {"X_test": NEW, "points": 20}
    for model, data, y, options, message in (
        (fresh(4), X, Y, same, "expected architecture"),
        (fresh(), X + 1, Y, same, "expected X "),
        (fresh(), X, 1 - Y, same, "expected y "),
        (fresh(), X, None, same, "expected y None"),
        (fresh(), X, Y, {"points": 20}, "expected X_test None"),
        (fresh(), X, Y, same | {"of": "softmax"}, "expected of softmax, found logits"),
        (fresh(), X, Y, same | {"estimator": "vjp"}, "expected estimator vjp, found auto"),
    ):
        with pytest.raises(NetgrainError, match=message):
            ComplexityTracker.load(path, model, data, y, **options)


def test_a_diverged_training_goes_on_with_nan_and_one_warning() -> None:
    model = fresh()
    logged: list[dict[str, float]] = []
    tracker = ComplexityTracker(model, X, Y, X_test=NEW, every=1, log=lambda row, step: logged.append(row))
    first = tracker(0)
    with torch.no_grad():
        model[0].weight[0, 0] = math.nan
    with pytest.warns(GrainWarning, match="the geometric complexity at step 1 is not finite") as caught:
        row = tracker(1)
    assert len(caught) == 1
    assert row is not None
    assert all(math.isnan(value) for value in row.values())
    assert math.isnan(logged[1]["complexity/gc"])
    tracker(2)  # a second warning would be an error here
    assert tracker.as_dict()["gc"][1]["value"] is None
    with torch.no_grad():
        model[0].weight[0, 0] = 0.0
        model[0].bias[0] = math.inf
    tracker(3)
    model.load_state_dict(fresh().state_dict())
    assert repr(tracker(4)) == repr(first)
    assert math.isnan(tracker.history["gc"][3])


def test_overflowing_outputs_count_as_diverged() -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 3))
    tracker = ComplexityTracker(model, X, every=1)
    with torch.no_grad():
        for layer in model:
            layer.weight.fill_(1e30)
    with pytest.warns(GrainWarning, match="diverged"):
        row = tracker(0)
    assert row is not None
    assert math.isnan(row["gc"])


def test_a_loss_that_is_nan_is_said_once() -> None:
    tracker = ComplexityTracker(fresh(), X, every=1)
    tracker(0)
    with pytest.warns(GrainWarning, match="the loss at step 1 is not finite"):
        tracker(1, loss=torch.tensor(math.nan))
    row = tracker(2, loss=0.5)
    assert row is not None
    assert row["loss"].value == 0.5
    assert [math.isnan(v) for v in tracker.history["loss"]] == [True, True, False]


def test_normalised_versions_are_those_of_the_library() -> None:
    for outputs in (1, 3):
        model = fresh(outputs)
        train(model, None, range(20)) if outputs > 1 else None
        row = ComplexityTracker(model, X, Y).measure()
        model.eval()
        library = margin_complexity(model, X, Y)
        assert row["gc_per_variance"].value == pytest.approx(normalised_complexity(model, X).value)
        assert row["margin"].value == pytest.approx(library.gamma)
        assert row["accuracy"].value == pytest.approx(1 - library.wrong)
        if outputs > 1:
            assert row["gc_per_margin"].value == pytest.approx(library.value.value)


def test_margin_that_is_not_positive_has_no_normalisation() -> None:
    model = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.eye(2))
    row = ComplexityTracker(model, torch.eye(2), torch.tensor([1, 0])).measure()
    assert row["margin"].value == -1
    assert math.isnan(row["gc_per_margin"])
    assert row["accuracy"].value == 0


@pytest.mark.parametrize("of", ["softmax", "centred", "fisher", torch.sigmoid])
def test_other_complexities(of: object) -> None:
    model = fresh()
    row = ComplexityTracker(model, X, Y, of=of).measure()
    model.eval()
    assert row["gc"] == geometric_complexity(model, X, of=of).value
    assert ("gc_per_variance" in row) == (of != "fisher")
    plain = ComplexityTracker(model, X, Y).measure()
    assert row["margin"] == plain["margin"]  # of the logits, whatever is differentiated


def test_layer() -> None:
    model = fresh()
    row = ComplexityTracker(model, X, Y, layer="2").measure()
    model.eval()
    assert row["gc"] == geometric_complexity(model[:3], X).value
    with torch.no_grad():
        variance = float(model[:3](X).var(0, unbiased=False).sum())
    assert row["gc_per_variance"].value == pytest.approx(row["gc"].value / variance, rel=1e-5)


def test_tensorboard(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tensorboard itself
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(str(tmp_path))
    tracker = ComplexityTracker(fresh(), X, Y, every=2, log=to_tensorboard(writer))
    for step in range(5):
        tracker(step)
    writer.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    found = events.Scalars("complexity/gc")
    assert [event.step for event in found] == [0, 2, 4]
    assert [event.value for event in found] == pytest.approx([v.value for v in tracker.history["gc"]])
    names = {f"complexity/{name}" for name in [*tracker.history, "gc_stderr"]}
    assert set(events.Tags()["scalars"]) == names


def test_picture(tracked: ComplexityTracker) -> None:
    figure = tracked.plot()
    titles = [ax.get_title() for ax in figure.axes]
    assert titles[:3] == ["Geometric complexity", "Relative to the first value", "Labels met, and loss"]
    drawn = {line.get_label(): list(line.get_ydata()) for line in figure.axes[0].lines}
    assert drawn["measured on X"] == [v.value for v in tracked.history["gc"]]
    assert drawn["held out"] == [v.value for v in tracked.history["gc_test"]]
    relative = {line.get_label(): line.get_ydata()[0] for line in figure.axes[1].lines}
    assert relative["geometric complexity"] == 1
    assert png(figure).startswith(b"\x89PNG")
    png(tracked.plot(log_steps=True))
    png(ComplexityTracker(fresh(), X).plot())  # nothing measured yet
    noisy = ComplexityTracker(fresh(40), X, estimator="vjp", rel_error=0.2)
    noisy(0)
    noisy(10)
    assert noisy.plot().axes[0].collections, "the error band"


def test_what_cannot_work_is_said() -> None:
    model = fresh()
    for message, arguments, options in (
        ("expected a torch.nn.Module, found 3", (3, X), {}),
        ("expected floating-point samples", (model, X.long()), {}),
        ("expected at least one sample", (model, X[:0]), {}),
        (r"y has shape \(3,\), expected \(60,\)", (model, X, Y[:3]), {}),
        ("expected whole-number labels", (model, X, Y.float()), {}),
        ("labels run from 5 to 6, but the model has 3 outputs", (model, X, Y + 5), {}),
        ("every expects a whole number from 1 upwards, found 0", (model, X), {"every": 0}),
        ("points expects a whole number from 1 upwards, found 0", (model, X), {"points": 0}),
        ("estimator 'exakt' is not known; did you mean 'exact'", (model, X), {"estimator": "exakt"}),
        ("relative error above zero", (model, X), {"rel_error": 0.0}),
        ("of 'logit' is not known", (model, X), {"of": "logit"}),
        ("layer '9' is not known", (model, X), {"layer": "9"}),
        ("the model failed on inputs of shape", (model, X[:, :5]), {}),
        ("X_test has inputs of shape", (model, X), {"X_test": X[:, :5]}),
        ("labels run from 1 to 2, but the model has 1 output; expected labels 0 to 1", (fresh(1), X, Y + 1), {}),
        ("pass log=to_tensorboard", (model, X), {"log": "runs"}),
    ):
        with pytest.raises(NetgrainError, match=message):
            ComplexityTracker(*arguments, **options)
    with pytest.raises(NetgrainError, match="expected a SummaryWriter"):
        to_tensorboard(print)
