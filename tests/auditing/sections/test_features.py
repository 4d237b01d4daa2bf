"""Features: what dropping weak directions costs, and how much each column of a table moves the network."""

import torch
from torch import nn

from netgrain.auditing.audits import Audit, audit


def unseeing() -> nn.Module:
    net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
    nn.init.orthogonal_(net[0].weight, gain=2)
    with torch.no_grad():
        net[0].weight[:, 5] *= 1e-3  # nearly blind to the last feature
    return net


def test_a_table_with_named_features() -> None:
    X = torch.randn(200, 6, generator=torch.Generator().manual_seed(0))
    names = ["age", "height", "<b>weight</b>", "d", "e", "unseen"]
    found = audit(
        unseeing,
        X,
        (X[:, 0] > 0).long() + (X[:, 1] > 1).long(),
        features=names,
        members=16,
        trial=False,
        progress=False,
    )
    named = found.report["features"]["named"]
    assert {f["name"] for f in named} == set(names)
    assert named[-1]["name"] == "unseen"
    assert named[-1]["share"] < 1e-4
    assert sum(f["share"] for f in named) > 0.999
    assert found.report["directions"][0]["bars"] is not None
    assert found.report["data"]["features"] == names
    assert "<b>weight" not in found.html()


def test_directions_that_are_dropped(audited: Audit) -> None:
    rows = audited.report["features"]["dropped"]
    dropped, lost = [r["directions"] for r in rows], [r["variance"] for r in rows]
    assert dropped == sorted(dropped)
    assert lost == sorted(lost)
    assert 64 - audited.report["leading"]["count"] in dropped
    assert audited.report["features"]["named"] is None  # images have no named features
