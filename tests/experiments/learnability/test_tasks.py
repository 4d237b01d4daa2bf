"""The list of tasks keeps what it promises, and their samples are functions of their rows."""

import pytest
import torch

from netgrain import NetgrainError
from netgrain.experiments.learnability.made_up_tasks import RULES
from netgrain.experiments.learnability.tasks import (
    IMAGES,
    TABLES,
    Task,
    _half,
    listed,
    named,
    of_part,
    problem_with,
    task_data,
)
from netgrain.experiments.learnability.transformations import TRANSFORMATIONS

READY = [task for task in listed().values() if task.source == "digits" or task.rule]


def test_verdict_tasks_are_many_and_new() -> None:
    tuning, verdict = of_part("tuning"), of_part("verdict")
    assert len(tuning) == 16
    tuned = {task.source for task in tuning}
    for kept in (verdict, [t for t in verdict if t.source != "fashion-mnist"]):  # Fashion-MNIST may be missing
        new = [task for task in kept if task.source not in tuned]
        assert len(kept) >= 16
        assert 3 * len(new) >= len(kept)
    rules = {(t.source, t.classes, t.rule, t.transform) for t in tuning}
    assert not rules & {(t.source, t.classes, t.rule, t.transform) for t in verdict}
    seeds = [t.seed for t in verdict]
    assert len(set(seeds)) == len(seeds)
    assert not set(seeds) & {t.seed for t in tuning}
    assert all(t.tests >= 2000 for t in verdict if t.source not in (*TABLES, "digits"))


def test_every_row_names_what_exists() -> None:
    for task in listed().values():
        assert task.rule in RULES if task.rule else task.source in (*IMAGES, *TABLES)
        assert all(how.split()[0] in TRANSFORMATIONS for how in task.transform)
        assert Task(**task.as_dict()) == task
    with pytest.raises(NetgrainError, match="did you mean 'digits'"):
        named("digit")


@pytest.mark.parametrize("task", READY, ids=lambda task: task.name)
def test_samples_are_a_function_of_the_row(task: Task) -> None:
    data = task_data(task)
    again = task_data(Task(**task.as_dict()))
    for (X, y), (X2, y2), n in zip(
        (data.train, data.validation, data.test),
        (again.train, again.validation, again.test),
        (task.samples, task.validation, task.tests),
        strict=True,
    ):
        assert torch.equal(X, X2)
        assert torch.equal(y, y2)
        assert len(X) == len(y) == n
    X, y = data.train
    assert X.isfinite().all()
    assert X.shape[2:] == ((1, 1) if task.table else (16, 16))
    assert float(X.mean()) == pytest.approx(0.0, abs=1e-4)
    shares = y.bincount(minlength=data.outputs) / len(y)
    assert float(shares.min()) > 0.5 / data.outputs  # no class is rare


def test_halves_share_no_image() -> None:
    (a, _), (b, _) = _half("digits", "tuning"), _half("digits", "verdict")
    assert len(a) + len(b) == 1797
    rows = {x.numpy().tobytes() for x in a}
    assert not any(x.numpy().tobytes() in rows for x in b)


def test_smaller_tasks_and_too_large_ones() -> None:
    small = named("digits").smaller(60, 50)
    assert (small.samples, small.validation, small.tests) == (60, 30, 50)
    with pytest.raises(NetgrainError, match=r"asks for .* samples, and its source digits has 898"):
        task_data(Task(name="x", source="digits", part="tuning", samples=2000, validation=1, tests=1, seed=0))


def test_what_is_missing_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("NETGRAIN_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert problem_with("digits") == ""
    assert problem_with("friedman") == ""
    monkeypatch.setattr("netgrain.data.set_files.DEBIAN", tmp_path)
    assert "was not found" in problem_with("fashion-mnist")
