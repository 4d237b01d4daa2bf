"""A pretrained network: its two tasks, its frozen features, its new head, and what is claimed."""

import pytest
import torch
from torch import nn

from netgrain.experiments.learnability import pretrained
from netgrain.experiments.learnability.networks import family
from netgrain.experiments.learnability.pretrained import (
    HEAD,
    PRESETS,
    SCRATCH,
    SPLITS,
    TUNED,
    Config,
    Result,
    claims,
    read_out,
    tasks_of,
    with_new_head,
)
from netgrain.experiments.learnability.tasks import TaskData, task_data
from netgrain.families.members import member
from netgrain.runtime.run_folder import RunFolder
from netgrain.runtime.runners import Runner
from tests.experiments.conftest import SmokeRun


def test_the_classes_of_a_split_are_apart() -> None:
    assert len(SPLITS) >= 3
    for config in PRESETS.values():
        for split in config.splits:
            before, task = tasks_of(config, split)
            assert before.part == task.part == "tuning"
            assert sorted(c for t in (before, task) for (c,) in t.classes) == list(range(10))
            assert len(before.classes) == len(task.classes) == 5
    first, _ = (task_data(task) for task in tasks_of(PRESETS["smoke"], "even"))
    assert first.outputs == 5
    with pytest.raises(Exception, match="did you mean 'even'"):
        tasks_of(PRESETS["smoke"], "evem")


def small() -> TaskData:
    X = torch.randn(120, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    y = torch.arange(120) % 5
    train, validation, test = zip(X.split(40), y.split(40), strict=True)
    return TaskData(train, validation, test, torch.zeros(1, 16, 16))


def test_features_are_those_below_the_head() -> None:
    """The head applied to features that are scaled back gives the network's own outputs."""
    data, model = small(), member(family("LeNet", (1, 16, 16), 5), 0, 0).train()
    below: list[torch.Tensor] = []
    head = [m for m in model.modules() if isinstance(m, nn.Linear)][-1]
    hook = head.register_forward_pre_hook(lambda _, inputs: below.append(inputs[0]))
    for X, _ in (data.train, data.test):
        model(X)
    hook.remove()
    found = read_out(model, data)
    assert model.training
    assert torch.allclose(found.train[0].mean(0), torch.zeros(found.shape[0]), atol=1e-5)
    centre, scale = below[0].mean(0), below[0].std(0).clamp(min=1e-6 * float(below[0].std()))
    assert torch.allclose(found.train[0] * scale + centre, below[0], atol=1e-5)
    assert torch.allclose(found.test[0] * scale + centre, below[1], atol=1e-5)
    assert torch.equal(found.test[1], data.test[1])


def test_a_new_head_leaves_the_rest() -> None:
    model = member(family("ResNet", (1, 16, 16), 5), 0, 0)
    torch.manual_seed(3)
    found = with_new_head(model)
    old, new = model.state_dict(), found.state_dict()
    assert {name for name in old if not torch.equal(old[name], new[name])} == {"head.weight", "head.bias"}
    assert all(p.requires_grad for p in found.parameters())
    assert not any(p.requires_grad for p in model.parameters())


def made_up(*, given: float, fresh: float, head: float, tuned: float, scratch: float) -> Result:
    config = Config("digits", ("LeNet",), ("first", "even", "animals"), 1, 600, 1, 1000, 2, 1, 1)
    told, reached = {}, {}
    for i, split in enumerate(config.splits):
        shift = 0.001 * i
        for flag, score in ((True, given), (False, fresh)):
            told[split, "LeNet", flag] = {"score": score + shift, "error": 0.03, "last": score}
        for way, test in ((HEAD, head), (TUNED, tuned), (SCRATCH, scratch)):
            reached[split, "LeNet", way] = [{"test": test}, {"test": test}]
    return Result(config, told, reached, {})


def test_claims_of_known_numbers() -> None:
    result = made_up(given=0.60, fresh=0.50, head=0.59, tuned=0.605, scratch=0.505)
    assert result.errors(TUNED) == pytest.approx([-0.5, -0.4, -0.3])
    assert result.errors(SCRATCH, given=False) == pytest.approx([-0.5, -0.4, -0.3])
    found = {c.name: c for c in claims(result)}
    error = "against fine-tuned: error of the prediction for a pretrained network, in points"
    assert found[error].value == pytest.approx(0.4)
    assert found[error].verdict == "holds"
    assert "-0.5, -0.4, -0.3" in found[error].note
    assert found["predicted minus reached gain by pretraining, in points"].value == pytest.approx(0, abs=1e-9)
    nearer = found["nearer to the fine-tuned network than the prediction for fresh ones, in points"]
    assert nearer.value == pytest.approx(10.0)
    assert nearer.verdict == "holds"
    assert float(result.covered(TUNED)) == 1.0
    assert result.covered(TUNED).stderr > 0
    off = made_up(given=0.80, fresh=0.50, head=0.5, tuned=0.6, scratch=0.5)
    judged = {c.name: c for c in claims(off)}
    assert judged[error].verdict == "fails"
    assert judged["against fine-tuned: bias of the prediction for a pretrained network, in points"].value > 19
    assert float(off.covered(TUNED)) == 0.0
    assert "| first, LeNet | 80.0 ± 3.0 | 80.0 | 50.0 ± 1.6 |" in off.table()


def test_units_of_a_run(smoke_run: SmokeRun) -> None:
    """Two cases: a pretraining, two predictions and three ways of two seeds each; the weights are kept."""
    folder = RunFolder.open(smoke_run("pretrained"))
    assert len(list((folder.path / "units").iterdir())) == 2 * (1 + 2 + 3 * 2)
    result = pretrained.run(PRESETS["smoke"], Runner(folder))
    assert len(result.cases) == 2
    for case in result.cases:
        assert result.told[*case, True] != result.told[*case, False]
        tests = [run["test"] for run in result.reached[*case, HEAD]]
        assert float(result.accuracy(case, HEAD)) == pytest.approx(100 * sum(tests) / 2)
    before, task = tasks_of(PRESETS["smoke"], "even")
    unit = {"before": before.as_dict(), "task": task.as_dict(), "network": "LeNet", "pretraining": 1, "cooling": 1}
    weights = pretrained._pretrained(unit).arrays
    model = pretrained._given({"even/LeNet": weights}, {**unit, "split": "even"}, small())
    assert all(torch.equal(t, weights[name]) for name, t in model.state_dict().items())
