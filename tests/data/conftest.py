"""No data of this machine for any test of data."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from netgrain.runtime.errors import GrainWarning


@pytest.fixture(autouse=True)
def nobody_s_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No data of this machine, no proxy, a cache of the test's own."""
    monkeypatch.delenv("NETGRAIN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr("netgrain.data.set_files.DEBIAN", tmp_path / "debian")


@pytest.fixture(autouse=True)
def constant_pixels_are_fine() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*features are constant.*", GrainWarning)
        yield
