"""Δ and its evolution in numbers and on disk."""

import math
from functools import partial
from pathlib import Path

import pytest
import torch

from netgrain.geometry.covariance import data_covariance
from netgrain.geometry.forms import Dense
from netgrain.geometry.symmetric import corr
from netgrain.runtime.errors import NetgrainError
from netgrain.training.delta import Evolution
from netgrain.training.pairs import PairRows
from tests import naive
from tests.training.networks import X, _random, _result


@pytest.mark.quick
def test_result_in_numbers(result: Evolution, tmp_path: Path) -> None:
    assert "sse on 6 samples, 24 members of Sequential" in repr(result)
    assert "labels drop out" in repr(result)
    D = result.matrix()
    assert result.trace.value == pytest.approx(float(D.trace()))
    assert result.trace.stderr > 0
    torch.testing.assert_close(result.M + result.M.T, D)
    parts = torch.stack([result.form.part(i).dense() for i in range(24)])
    torch.testing.assert_close(result.errors(), parts.std(0) / math.sqrt(24))
    along = result.delta.inner(X.T @ X)
    each = (parts * (X.T @ X)).sum((1, 2))
    assert (along.value, along.stderr) == pytest.approx((float(each.mean()), float(each.std()) / math.sqrt(24)))
    v = _random(4, seed=3)
    torch.testing.assert_close(result.matvec(v), D @ v)
    torch.testing.assert_close(result.delta.eigenvalues, torch.linalg.eigvalsh(D).flip(0))
    last = result.delta.directions(1, bottom=True)[0]
    torch.testing.assert_close(D @ last, result.delta.eigenvalues[-1] * last)
    S = data_covariance(X)
    against = result.corr(S)
    assert against == corr(result.delta, S)
    assert against.plug_in == pytest.approx(naive.corr(D, X.T @ X))
    assert against.stderr > 0
    assert result.corr_identity().plug_in == pytest.approx(float(D.trace() / D.norm() / 2))
    assert result.corr_projected(S).plug_in == pytest.approx(naive.corr(D, result.G.project(S).matrix()))
    assert result.corr_projected(S).stderr > 0
    assert result.corr(result.G).value == pytest.approx(corr(result.delta, result.G, paired=True).value)
    refused = ("flip", "random_direction", "blocks", "save", "plot_spectrum", "plot_directions", "summary", "project")
    assert not any(hasattr(result.delta, name) for name in refused)
    again = Evolution.load(result.save(tmp_path / "delta.safetensors"))
    assert torch.equal(again.matrix(), D)
    assert torch.equal(again.G.matrix(), result.G.matrix())
    assert repr(again) == repr(result)
    assert again.corr(S) == against
    with pytest.raises(NetgrainError, match="not a evolution"):
        Evolution.load(result.G.save(tmp_path / "G.safetensors"))


def test_condensed_result_on_disk(result: Evolution, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netgrain.training.evolution.PairRows", partial(PairRows, memory=1000))
    condensed = _result()
    assert isinstance(condensed.form, Dense)
    torch.testing.assert_close(condensed.matrix(), result.matrix())
    again = Evolution.load(condensed.save(tmp_path / "delta.safetensors"))
    torch.testing.assert_close(again.matrix(), condensed.matrix())
    torch.testing.assert_close(again.M, result.M)
    assert again.corr_projected(data_covariance(X)).stderr > 0
