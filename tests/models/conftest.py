"""Files of a user's own models."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

NET = """
    from torch import nn

    class Net(nn.Module):
        def __init__(self, channels=3, hidden=4, **rest):
            super().__init__()
            self.rest = rest
            self.layers = nn.Sequential(nn.Flatten(), nn.Linear(5, hidden), nn.Linear(hidden, channels))

        def forward(self, x):
            return self.layers(x)

    def build(*, hidden, word="a"):
        net = Net(hidden=hidden)
        net.word = word
        return net

    def linear():
        return nn.Linear(2, 2)

    def wrong():
        return {"not": "a module"}

    def positional(size, /):
        return nn.Linear(size, size)

    finished = Net()
    number = 3
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Writes a file below an empty current folder; modules that a test imports are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    before, path = set(sys.modules), list(sys.path)

    def write_file(name: str, text: str = NET) -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text), encoding="utf-8")
        return file

    yield write_file
    assert sys.path == path, "the import path was left changed"
    for name in sys.modules.keys() - before:
        if not name.startswith(("torch", "netgrain.")):
            del sys.modules[name]
