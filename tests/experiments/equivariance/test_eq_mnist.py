"""MNIST: epoch 0 and the stand-in."""

import sys
from pathlib import Path

import pytest
import torch

from netgrain.experiments.equivariance import eq_mnist, images
from tests.experiments.equivariance.made_up_curves import curves_that_fall, verdicts


def test_epoch_0_claims_and_the_stand_in_are_told() -> None:
    expected = {"G-CNN, direct": 288_000.0, "G-CNN, semidirect": 248_000.0, "FC": 409_500.0}

    def judged(factor: float, source: str) -> list:
        spread = torch.tensor([0.999, 1.0, 1.001], dtype=torch.float64)
        start = {n: factor * v * spread for n, v in expected.items()}
        trainings = {eq_mnist.SUM: curves_that_fall(0.1), "normalised": curves_that_fall(0.1)}
        return eq_mnist.claims(eq_mnist.Result(eq_mnist.PRESETS["laptop"], source, start, expected, trainings))

    right, wrong = verdicts(judged(1.0, "mnist")), verdicts(judged(1.1, "mnist"))
    assert right["epoch 0 of FC is as predicted"] == right["the direct product is the authors' group"] == "holds"
    assert wrong["epoch 0 of FC is as predicted"] == wrong["the direct product is the authors' group"] == "fails"
    assert right["G-CNN, direct changes as in the authors' plot (authors' rates, summed loss)"] == "fails"  # by −2.3
    assert any("stand in" in c.note for c in judged(1.0, "digits"))
    assert not any("stand in" in c.note for c in judged(1.0, "mnist"))
    assert any("FC of width 256" in c.note for c in judged(1.0, "mnist"))


def test_the_stand_in_needs_no_other_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The digits are in the package; an import of scikit-learn would fail here."""
    monkeypatch.setitem(sys.modules, "sklearn", None)
    X, y = images.two_digits("digits", 8, 2, 0)
    assert X.shape == (4, 512)
    assert y.tolist() == [-1, -1, 1, 1]


def test_mnist_is_looked_for_only_when_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refused() -> bool:
        raise AssertionError("looked for MNIST")

    monkeypatch.setattr(eq_mnist, "mnist_is_here", refused)
    assert eq_mnist._source({"look_for_mnist": False}).numbers == {"source": "digits"}
    monkeypatch.setattr(eq_mnist, "mnist_is_here", lambda: True)
    assert eq_mnist._source({"look_for_mnist": True}).numbers == {"source": "mnist"}
    monkeypatch.setenv("NETGRAIN_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert not images.mnist_is_here()
