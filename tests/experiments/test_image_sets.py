"""Which images a run uses: those that are found, and the same ones when it is resumed."""

from pathlib import Path
from typing import Any

import pytest

from netgrain.experiments import image_sets
from netgrain.experiments.image_sets import images_found
from netgrain.runtime.run_folder import RunFolder
from netgrain.runtime.runners import Runner


@pytest.fixture
def runner(tmp_path: Path) -> Any:
    with RunFolder.create(tmp_path / "run", experiment="x", scale="s", config={}, resume=False) as folder:
        yield Runner(folder)


@pytest.mark.quick
def test_digits_stand_in_where_cifar_is_missing_and_a_run_keeps_its_images(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NETGRAIN_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert images_found(runner, "auto") == "digits"
    monkeypatch.setattr(image_sets, "load_split", lambda *_, **__: None)  # now it would be found
    assert images_found(runner, "auto") == "digits"
    assert images_found(runner, "cifar10") == "cifar10"
