"""Learnability of small families on labels with a known answer, its order and scale, and one sentence for bad input."""

import json
import math
from html import escape
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain.learning import kernel_costs, landmarks, predictions
from netgrain.learning.outcome import Learnability
from netgrain.learning.predictions import learnability
from netgrain.runtime.errors import NetgrainError

N = 120


def mlp(outputs: int = 2) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, outputs))


def samples(n: int = N) -> Tensor:
    return torch.randn(n, 6, generator=torch.Generator().manual_seed(0))


def quick(X: Tensor, y: Any, **options: Any) -> Learnability:
    return learnability(options.pop("make", mlp), X, y, **{"trial": False, "members": 2, "grain": False, **options})


def test_a_linear_label_is_learnable_and_a_shuffled_one_is_at_chance() -> None:
    X = samples(300)
    y = (X[:, 0] > 0).long()
    easy = quick(X, y, grain=True)
    assert easy.score > 0.9
    assert easy.shares.now > 0.5
    assert easy.grain is not None
    assert easy.grain.plain > 0.5
    assert easy.error.model > easy.error.samples
    assert easy.score.stderr == easy.error.total
    inside = 0
    for seed in range(10):
        shuffled = y[torch.randperm(300, generator=torch.Generator().manual_seed(seed))]
        score = quick(X, shuffled, kinds=("last",), members=1).score
        inside += abs(score - 0.5) < 2 * score.stderr
    assert inside >= 9


def test_numbers_and_many_classes() -> None:
    X = samples(200)
    found = quick(X, X[:, 0] + 0.1 * X[:, 1])
    assert found.measure == "R²"
    assert found.score > 0.9
    assert found.balanced is None
    many = quick(X, torch.arange(200) % 60, kinds=("layers",))
    assert len(many.per_class) == 60
    assert any("fewer than 5 samples" in remark for remark in many.remarks)
    assert many.score < 0.1


def test_the_smaller_squared_error_decides() -> None:
    X = samples()
    found = quick(X, (X[:, 0] > 0).long(), kinds=("last", "layers"))
    best = max(found.kernels.values(), key=lambda k: float(k.explained))
    assert found.kernels[found.kernel] is best
    assert float(found.score) == float(best.score)


@pytest.mark.parametrize("kinds", [("layers",), ("tangent",)])
def test_many_samples_by_features_give_the_same(kinds: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X = samples(300)
    y = (X[:, 0] * X[:, 1] > 0).long()
    X[40:44] = X[:4]
    y[40:44] = y[:4]
    dense = quick(X, y, kinds=kinds, grain=True, samples=300)
    monkeypatch.setattr(predictions, "MOST_DENSE", 299)
    thin = quick(X, y, kinds=kinds, grain=True, samples=300)
    assert thin.about.notes == ("kernels over 300 samples are held by products with 300 of them",)
    assert not dense.about.notes
    assert thin.about.ridge == dense.about.ridge
    assert float(thin.score) == float(dense.score)
    assert float(thin.kernels[kinds[0]].explained) == pytest.approx(float(dense.kernels[kinds[0]].explained), abs=1e-8)
    assert [float(s) for s in thin.curve.scores] == [float(s) for s in dense.curve.scores]
    assert float(thin.shares.now) == pytest.approx(float(dense.shares.now), abs=1e-8)
    assert thin.shares.kappa == pytest.approx(dense.shares.kappa, rel=1e-6)
    assert thin.error.members == pytest.approx(dense.error.members, abs=1e-8)
    assert thin.grain is not None
    assert dense.grain is not None
    assert float(thin.grain.grain) == pytest.approx(float(dense.grain.grain), abs=1e-8)


def test_fewer_landmarks_than_samples_agree_within_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    X = samples(300)
    y = (X[:, 0] + X[:, 1] ** 2 > 0.5).long()
    dense = quick(X, y, kinds=("layers",))
    monkeypatch.setattr(predictions, "MOST_DENSE", 299)
    monkeypatch.setattr(landmarks, "LANDMARKS", 100)
    monkeypatch.setattr(landmarks, "FEWEST_LANDMARKS", 50)
    thin = quick(X, y, kinds=("layers",))
    assert "300 samples are held by products with 100" in thin.remarks[0]
    assert float(thin.score) != 1.0
    assert abs(thin.score - dense.score) < 2 * dense.error.samples


def test_a_tangent_kernel_that_takes_long_is_left_out_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    X = samples(60)
    y = (X[:, 0] > 0).long()
    assert set(quick(X, y).kernels) == {"layers", "tangent"}
    monkeypatch.setattr(kernel_costs, "MOST_WORK", 60.0)
    found = quick(X, y)
    assert set(found.kernels) == {"layers"}
    assert any("tangent kernel is left out" in remark for remark in found.remarks)
    assert set(quick(X, y, make=mlp(), members=None).kernels) == {"layers"}
    assert set(quick(X, y, kinds=("tangent",)).kernels) == {"tangent"}


def test_one_kernel_alone_reads_out_the_same() -> None:
    X = samples(60)
    y = (X[:, 0] > 0).long()
    assert predictions.kernel_score(mlp, X, y, "last", members=2) == quick(X, y, kinds=("last",)).kernels["last"]


def test_order_and_number_of_samples() -> None:
    X = samples()
    y = (X[:, 0] + X[:, 1] > 0).long()
    order = torch.randperm(N, generator=torch.Generator().manual_seed(5))
    first, moved = quick(X, y, samples=80), quick(X[order], y[order], samples=80)
    assert first.as_dict() == moved.as_dict()
    assert (first.about.samples, first.about.given) == (80, N)
    assert first.remarks[0] == "80 of 120 samples were used; the curve extrapolates"
    assert quick(X, y, samples=80, seed=1).curve.scores != first.curve.scores


def test_names_of_classes_do_not_matter() -> None:
    X = samples()
    y = (X[:, 0] > 0).long()
    one, other = quick(X, y), quick(X, 7 - 3 * y)
    assert float(one.score) == float(other.score)
    assert set(other.per_class) == {"4", "7"}
    assert set(quick(X, 2 * y, classes=("cat", "none", "dog")).per_class) == {"cat", "dog"}
    with pytest.raises(NetgrainError, match="classes holds 2 names, but labels run from 0 to 2"):
        quick(X, 2 * y, classes=("cat", "dog"))


def test_equal_rows_are_counted_and_left_out_together() -> None:
    X = samples(60).repeat(2, 1)
    y = (torch.arange(60) % 2).repeat(2)
    found = quick(X, y, kinds=("last",))
    assert found.about.equal == 60
    assert found.score < 0.75
    assert any("60 samples equal another one" in remark for remark in found.remarks)


def test_a_trial_stands_beside_the_kernel_and_warns_where_features_are_learnt() -> None:
    """One quiet feature among loud ones that say nothing: a random sum hides it, and training finds it."""

    class OneSum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mask = nn.Parameter(torch.randn(10) * 0.01)
            self.head = nn.Linear(1, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head((x * self.mask).sum(1, keepdim=True) * 10)

    g = torch.Generator().manual_seed(0)
    X = torch.randn(400, 10, generator=g)
    X[:, 3:] *= 30
    found = learnability(OneSum, X, (X[:, 0] > 0).long(), kinds=("last",), members=1, trial=True, grain=False)
    assert found.score < 0.7
    assert found.trial is not None
    assert found.combined is not None
    assert found.untried == ""
    assert found.trial.score > 0.9
    assert found.features_learnt
    assert found.warning is not None
    assert "features must be learnt here" in found.warning
    assert "features must be learnt here" in repr(found)


def test_no_trial_says_why() -> None:
    X = samples()
    y = (X[:, 0] > 0).long()
    assert quick(X, y).untried == "not asked for"

    def large() -> nn.Module:
        return nn.Sequential(nn.Linear(6, 3000), nn.ReLU(), nn.Linear(3000, 3000), nn.Linear(3000, 2))

    found = quick(X, y, make=large, trial=None, kinds=("last",), members=1)
    assert "its cost allows" in found.untried
    assert any(remark.startswith("no trial training: its cost") for remark in found.remarks)


def test_a_given_network_is_read_out_without_a_member_error() -> None:
    X = samples()
    torch.manual_seed(0)
    model = mlp().eval()
    found = quick(X, (X[:, 0] > 0).long(), make=model, kinds=("layers",), members=None, trial=None, grain=True)
    assert found.error.members is None
    assert found.untried == "a given network is read out as it is"
    assert found.grain is not None
    with pytest.raises(NetgrainError, match="trial=True needs a family"):
        quick(X, (X[:, 0] > 0).long(), make=model, kinds=("layers",), members=None, trial=True)


def test_it_is_plain_json_and_reads_well() -> None:
    X = samples()
    found = quick(X, (X[:, 0] > 0).long(), kinds=("tangent",), trial=True, grain=True)
    document = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert document["score"]["value"] == float(found.score)
    assert document["trial"]["score"]["value"] == float(found.trial.score)  # type: ignore[union-attr]
    assert document["settings"]["recipe"].startswith("no augmentation")
    names = [name for name, _ in found.rows()]
    assert names[0] == "expected accuracy"
    assert {"trial training", "both combined", "more samples", "learnable", "grain", "label noise"} <= set(names)
    assert "at most" in dict(found.rows())["label noise"]
    assert repr(found).startswith("Learnability(Sequential, accuracy 0.")
    assert all(f">{escape(text)}<" in found._repr_html_() for _, text in found.rows())


def test_the_grain_may_be_given() -> None:
    X = samples()
    G = ng.average_geometry(mlp, (6,))
    by_features = quick(X, (X[:, 0] > 0).long(), grain=G).grain
    wide = torch.cat([X, torch.zeros(N, 94)], 1)  # more entries than half the samples: by the kernel

    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(100, 24), nn.ReLU(), nn.Linear(24, 2))

    by_kernel = quick(wide, (X[:, 0] > 0).long(), make=make, grain=ng.average_geometry(make, (100,))).grain
    assert by_features is not None
    assert by_kernel is not None
    # of both networks G is a multiple of the identity in its wide limit
    assert float(by_features.grain) == pytest.approx(float(by_features.plain), abs=1e-6)
    assert float(by_kernel.grain) == pytest.approx(float(by_features.grain), abs=1e-3)


@pytest.mark.parametrize(
    ("X", "y", "options", "said"),
    [
        (samples(), torch.zeros(N).long(), {}, "all 120 samples have the label 0"),
        (samples(19), torch.arange(19) % 2, {}, "at least 20 samples, found 19"),
        (torch.ones(N, 6), torch.arange(N) % 2, {}, "all 120 samples of X are the same"),
        (samples(), (torch.arange(N) % 2).float(), {}, "may be classes or numbers"),
        (samples(), torch.full((N,), math.nan), {}, "NaN"),
        (torch.full((N, 6), math.nan), torch.arange(N) % 2, {}, "not finite"),
        (samples(), torch.arange(N) % 2, {"samples": 5}, "samples"),
        (samples(), torch.arange(N) % 2, {"kinds": ()}, "kinds expects"),
        (samples(), torch.arange(N) % 2, {"kinds": ("first",)}, "kinds expects"),
        (samples(), torch.arange(N - 1) % 2, {}, r"y has shape \(119,\)"),
    ],
)
def test_bad_input_gets_one_sentence(X: Tensor, y: Tensor, options: dict[str, Any], said: str) -> None:
    with pytest.raises(NetgrainError, match=said) as found:
        quick(X, y, **options)
    assert "\n" not in str(found.value)


def test_features_that_do_not_depend_on_the_samples_get_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from netgrain.learning.kernel_value import Kernel, KernelAbout

    def flat(make: Any, X: Tensor, **_: Any) -> Kernel:
        return Kernel("last", torch.ones(len(X), len(X)), None, KernelAbout("sampled"))

    monkeypatch.setattr(predictions, "kernel", flat)
    with pytest.raises(NetgrainError, match="the same for all samples"):
        quick(samples(), torch.arange(N) % 2, kinds=("last",))
