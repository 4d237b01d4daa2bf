"""Pairs of the list: samples of the right shape, networks that take them, and verdict pairs of their own."""

import pytest
import torch

from netgrain import NetgrainError
from netgrain.experiments.learnability import tasks
from netgrain.experiments.learnability.advice_networks import (
    DAMAGES,
    NETWORKS,
    OWN_RULES,
    blots,
    checks,
    family,
    folds,
    listed,
    named,
    saws,
)
from netgrain.families.members import member


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_enough_pairs_and_none_of_them_is_a_task_of_validity() -> None:
    verdict = [p for p in listed().values() if p.part == "verdict"]
    assert len(verdict) >= 10
    assert sum(not p.image for p in verdict) >= 2
    others = {(t.source, t.classes, t.rule, t.transform) for t in tasks.listed().values()}
    for pair in verdict:
        row = tasks.Task(name=pair.name, part="tuning", **pair.task)
        assert (row.source, row.classes, row.rule, row.transform) not in others or pair.damage or row.source == "digits"
        assert row.seed >= 300
        assert pair.network in NETWORKS
        assert pair.damage in ("", *DAMAGES)
    assert len({p.task["seed"] for p in verdict}) == len(verdict)


@pytest.mark.parametrize("name", [p.name for p in listed().values() if p.task["source"] not in ("mnist", "cifar10")])
def test_networks_take_the_samples(name: str) -> None:
    pair = named(name)
    data = pair.data(60, 40)
    X, y = data.train
    assert (len(X), len(data.test[0])) == (60, 40)
    assert int(y.max()) < data.outputs
    assert member(family(pair.network, data.shape, data.outputs), 0, 0)(X[:2]).shape == (2, data.outputs)
    again = pair.data(60, 40)
    assert torch.equal(again.train[0], X)


@pytest.mark.parametrize("network", NETWORKS)
def test_every_network_is_built(network: str) -> None:
    shape = (1, 128) if "signals" in network else (3, 16, 16)
    assert member(family(network, shape, 3), 0, 0)(torch.zeros(2, *shape)).shape == (2, 3)


def test_labels_by_hand() -> None:
    """What tells the classes apart, found again from the samples."""
    X, y = saws(400, generator())
    rise = torch.linspace(-1, 1, 16)
    found = torch.nn.functional.conv1d(X, torch.stack([rise, rise.flip(0)])[:, None]).amax(2).argmax(1)
    assert float((found == y).double().mean()) > 0.8
    X, y = checks(400, generator())
    sign = (-1.0) ** torch.arange(16)
    patterns = torch.stack([sign[:, None] * sign, sign[:, None].expand(16, 16), sign.expand(16, 16)])
    assert float(((X[:, 0] * patterns[:, None]).sum((2, 3)).abs().argmax(0) == y).double().mean()) > 0.9
    X, y = folds(400, generator())
    assert float(((X[:, 0] * X[:, 1] + X[:, 2] / 2 > 0) == y.bool()).double().mean()) > 0.9
    X, y = blots(10, generator())
    assert X.shape == (10, 1, 16, 16)
    assert all(len(rule(9, generator())[1]) == 9 for rule in OWN_RULES.values())


def test_damage() -> None:
    X = torch.ones(2, 5)
    assert DAMAGES["scales"](X, generator())[0].tolist() == pytest.approx([0.01, 100, 0.1, 10**0.5, 0.01])
    X = torch.zeros(50, 1, 16, 16)
    lit = DAMAGES["lamps"](X, generator())
    assert lit.mean((1, 2, 3)).abs().max() < 1e-5  # a ramp from −1 to 1
    assert lit.flatten(1).std(1).max() > 10 * lit.flatten(1).std(1).min()
    assert float(DAMAGES["bright"](X, generator()).mean()) == 120
    with pytest.raises(NetgrainError, match="pair"):
        named("no such pair")
