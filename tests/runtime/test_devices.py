"""Devices by name: those that are there, and a sentence about those that are not."""

import pytest
import torch

from netgrain import NetgrainError
from netgrain.runtime import devices
from netgrain.runtime.devices import best_device, checked_device, in_double, widest


@pytest.mark.quick
def test_the_best_device_is_a_gpu_or_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NETGRAIN_DEVICE", raising=False)
    for there, name in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert best_device() == torch.device(name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("NETGRAIN_DEVICE", "cpu")
    assert best_device() == torch.device("cpu")
    monkeypatch.setenv("NETGRAIN_DEVICE", "gpu")
    with pytest.raises(NetgrainError, match="'gpu' is not a device; expected cpu, cuda, cuda:1 or mps"):
        best_device()


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "is_there", lambda kind: kind == "cpu")
    assert checked_device("cpu") == torch.device("cpu")
    with pytest.raises(NetgrainError, match=r"device 'cuda:1' is not available to this PyTorch .*; use cpu"):
        checked_device("cuda:1")


def test_the_widest_numbers() -> None:
    assert [widest(torch.device(kind)) for kind in ("cpu", "cuda", "mps")] == [
        torch.float64,
        torch.float64,
        torch.float32,
    ]
    assert in_double(torch.tensor([0.5])).dtype == torch.float64
