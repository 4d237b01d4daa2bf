"""GeometryTracker in a hand-written training loop: right numbers, nothing disturbed, resumable, bounded."""

import json
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from netgrain.families.members import member
from netgrain.families.probes import Data, Gaussian
from netgrain.geometry.covariance import data_covariance
from netgrain.geometry.of_models import geometry_of
from netgrain.geometry.plots import png
from netgrain.geometry.symmetric import corr
from netgrain.geometry.value import Geometry
from netgrain.runtime.errors import NetgrainError
from netgrain.training.evolution import velocity
from netgrain.training.geometry_tracker import GeometryTracker
from tests import naive

X = torch.randn(40, 6, generator=torch.Generator().manual_seed(1)) * torch.tensor([3.0, 2.0, 1.0, 1.0, 0.5, 0.1])
Y = (X[:, 0] + X[:, 2] > 0).long()
S = data_covariance(X)
POINTS = Data(X[:5])


def make() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 2))


def fresh(count: int = 16) -> list[nn.Module]:
    return [member(make, 0, i).requires_grad_(True).train() for i in range(count)]


def train(models: list[nn.Module], tracker: GeometryTracker | None, steps: range) -> None:
    """Plain gradient descent with dropout drawn from the global generator."""
    for step in steps:
        if tracker is not None:
            tracker(step)
        for i, model in enumerate(models):
            torch.manual_seed(1000 * step + i)
            model.zero_grad()
            F.cross_entropy(model(X), Y).backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.1 * p.grad


@pytest.fixture(scope="module")
def tracked() -> GeometryTracker:
    models = fresh()
    tracker = GeometryTracker(models, POINTS, every=5, S=S)
    train(models, tracker, range(31))
    return tracker


def test_history_of_a_hand_written_loop(tracked: GeometryTracker) -> None:
    assert tracked.steps == [0, 5, 10, 15, 20, 25, 30]
    history = tracked.history
    assert set(history) == {"trace", "effective_rank", "velocity", "corr_G0", "corr_S", "corr_GSG"}
    models = fresh()
    first = geometry_of([m.eval() for m in models], POINTS)
    models = [m.train() for m in models]
    train(models, None, range(5))
    now = geometry_of([m.eval() for m in models], POINTS)
    assert history["trace"][1] == now.trace
    assert history["effective_rank"][1] == now.effective_rank
    assert history["velocity"][1] == velocity(now, first)
    assert math.isnan(history["velocity"][0])
    assert history["velocity"][3] == velocity(tracked.geometries[15], tracked.geometries[10])
    assert history["corr_G0"][1] == corr(now, first, paired=True)
    assert history["corr_G0"][0].value == pytest.approx(1)
    assert history["corr_S"][1].value == pytest.approx(corr(now, S).value)
    GSG = first.matrix() @ S.matrix() @ first.matrix()
    assert history["corr_GSG"][1].plug_in == pytest.approx(naive.corr(now.matrix(), GSG))
    assert history["corr_GSG"][1].stderr > 0
    assert history["corr_GSG"][1].value != pytest.approx(history["corr_GSG"][1].plug_in, abs=1e-4)
    assert "16 models, d=6, 5 points each, every 5 steps, 7 measured up to step 30" in repr(tracked)


def test_as_plain_values(tracked: GeometryTracker) -> None:
    table = json.loads(json.dumps(tracked.as_dict()))
    assert table["step"] == tracked.steps
    assert table["trace"][3]["value"] == tracked.history["trace"][3].value
    assert table["velocity"][0]["value"] is None


def test_a_better_known_geometry_takes_the_place_of_the_first(tracked: GeometryTracker) -> None:
    models = fresh()
    G0 = Geometry.from_matrix(torch.diag(torch.arange(6.0, 0, -1)))
    tracker = GeometryTracker(models, POINTS, S=S, G0=G0)
    found = tracker(0)
    assert found is not None
    now = tracker.geometries[0]
    assert found["corr_G0"] == corr(now, G0)
    assert found["corr_GSG"].value == pytest.approx(corr(now, G0.project(S)).value)


def test_resumed_is_the_same_as_uninterrupted(tracked: GeometryTracker, tmp_path: Path) -> None:
    models = fresh()
    tracker = GeometryTracker(models, POINTS, every=5, S=S)
    train(models, tracker, range(18))
    path = tracker.save(tmp_path / "tracker.safetensors")
    again = GeometryTracker.load(path, models, POINTS)
    assert again(15) == tracker(15)  # measured before the stop: not measured again
    train(models, again, range(18, 31))
    assert again.steps == tracked.steps
    for name, values in tracked.history.items():
        for ours, theirs in zip(again.history[name], values, strict=True):
            assert repr(ours) == repr(theirs)
            assert (ours.value == theirs.value) or math.isnan(theirs)
    assert list(again.geometries) == list(tracked.geometries)


def test_a_file_of_another_tracker_is_refused(tracked: GeometryTracker, tmp_path: Path) -> None:
    path = tracked.save(tmp_path / "tracker.safetensors")
    for models, probe, message in (
        (fresh(3), POINTS, "expected models 3, found 16"),
        (fresh(), Data(X[5:10]), "expected probe"),
        ([nn.Linear(6, 2) for _ in range(16)], POINTS, "expected architecture"),
    ):
        with pytest.raises(NetgrainError, match=message):
            GeometryTracker.load(path, models, probe)
    with pytest.raises(NetgrainError, match="expected output 1, found all"):
        GeometryTracker.load(path, fresh(), POINTS, output=1)
    with pytest.raises(NetgrainError, match="is not a tracker"):
        GeometryTracker.load(S.save(tmp_path / "S.safetensors"), fresh(), POINTS)


class Noisy(nn.Sequential):
    """Draws random numbers that change nothing."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 0 * torch.rand(1)


def test_nothing_is_disturbed() -> None:
    models = [Noisy(*model) for model in fresh(2)]
    models[0][3].eval()  # a mode of its own
    models[1].eval()
    for model in models:
        model(X).sum().backward()

    def state() -> list[Tensor]:
        found = [t.clone() for m in models for t in m.state_dict().values()]
        return found + [p.grad.clone() for m in models for p in m.parameters()] + [torch.get_rng_state()]

    modes = [module.training for m in models for module in m.modules()]
    before = state()
    tracker = GeometryTracker(models, Gaussian(1.0), input_shape=(6,))
    with torch.no_grad():
        assert tracker(0) is not None
    assert all(torch.equal(a, b) for a, b in zip(before, state(), strict=True))
    assert modes == [module.training for m in models for module in m.modules()]
    assert all(p.requires_grad for m in models for p in m.parameters())


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    models = fresh(3)
    tracker = GeometryTracker(models, POINTS, every=1, keep=3)
    for step in range(60):
        tracker(step)
    kept = list(tracker.geometries)
    assert len(kept) <= 5
    assert (kept[0], kept[-1]) == (0, 59)
    assert len(tracker.history["trace"]) == 60
    assert all(G.form.rows.dtype == torch.float32 for G in tracker.geometries.values())
    monkeypatch.setattr("netgrain.training.geometry_tracker.ROWS", 3 * 2 * 6 * 4 * 4)  # four points of three models
    thinned = GeometryTracker(models, Data(X))
    thinned(0)
    assert thinned.points == 4
    assert thinned.geometries[0].form.rows.numel() * 4 <= 3 * 2 * 6 * 4 * 4


def test_one_model_has_no_error_bars() -> None:
    found = GeometryTracker(fresh(1), POINTS, S=S)(0)
    assert found is not None
    assert found["corr_S"].value == found["corr_S"].plug_in
    assert math.isnan(found["corr_S"].stderr)
    assert math.isnan(found["corr_GSG"].stderr)


@pytest.mark.quick
def test_when_it_measures() -> None:
    tracker = GeometryTracker(fresh(1), POINTS, every=10)
    assert tracker(3) is not None  # the first call gives G₀
    assert tracker(4) is None
    assert tracker(10) is not None
    assert tracker(11, force=True) is not None
    assert tracker.steps == [3, 10, 11]
    with pytest.raises(NetgrainError, match="step 0 comes after step 11 was measured"):
        tracker(0)


def test_picture(tracked: GeometryTracker) -> None:
    figure = tracked.plot()
    titles = [ax.get_title() for ax in figure.axes]
    assert titles[0] == "Correlation of the geometry"
    labels = [line.get_label() for line in figure.axes[0].lines]
    assert {"Corr with G₀SG₀", "Corr with S", "Corr with G₀"} <= set(labels)
    drawn = next(line for line in figure.axes[0].lines if line.get_label() == "Corr with S")
    assert list(drawn.get_ydata()) == [v.value for v in tracked.history["corr_S"]]
    assert png(figure).startswith(b"\x89PNG")
    png(tracked.plot(log_steps=True))
    png(GeometryTracker(fresh(1), POINTS).plot())


def test_what_cannot_work_is_said() -> None:
    models = fresh(2)
    with pytest.raises(NetgrainError, match="at least one model"):
        GeometryTracker([], POINTS)
    with pytest.raises(NetgrainError, match="the same model was given twice"):
        GeometryTracker([models[0], models[0]], POINTS)
    with pytest.raises(NetgrainError, match="found int at index 1"):
        GeometryTracker([models[0], 3], POINTS)
    with pytest.raises(NetgrainError, match=r"model 0 \(Tanh\) has no parameters"):
        GeometryTracker(nn.Tanh(), POINTS)
    with pytest.raises(NetgrainError, match="expected input_shape="):
        GeometryTracker(models, Gaussian(1.0))
    with pytest.raises(NetgrainError, match="S is 4-dimensional, the models' inputs are 6-dimensional"):
        GeometryTracker(models, POINTS, S=torch.eye(4))
    with pytest.raises(NetgrainError, match="every expects a whole number from 1 upwards, found 0"):
        GeometryTracker(models, POINTS, every=0)
    with pytest.raises(NetgrainError, match=r"the model failed on inputs of shape \(5,\)"):
        GeometryTracker(models, Data(X[:, :5]))
    tracker = GeometryTracker(models, POINTS)
    with torch.inference_mode(), pytest.raises(NetgrainError, match="outside of it"):
        tracker(0)
    with torch.no_grad():
        models[1][0].weight[0, 0] = math.nan
    with pytest.raises(NetgrainError, match=r"model 1 has NaN or Inf in parameter '0\.weight'"):
        tracker(0)
