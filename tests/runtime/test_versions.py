"""Versions that results carry are those of what is installed."""

import platform
from importlib.metadata import version

from netgrain.runtime.versions import __version__, versions


def test_versions_are_those_of_the_installed_packages() -> None:
    assert __version__ == version("netgrain")
    found = versions()
    assert found == {"netgrain": __version__, "torch": version("torch"), "python": platform.python_version()}
