"""What is known of an engine before one is made is true of it."""

import dataclasses
import inspect
import tomllib
from pathlib import Path

import pytest

from netgrain.runtime.engine_kinds import EngineKind
from netgrain.runtime.engines import ENGINES, engine


@pytest.mark.parametrize("kind", ENGINES.values(), ids=list(ENGINES))
def test_every_row_describes_its_engine(kind: EngineKind) -> None:
    """The options of a row are arguments of the engine, its extra exists, and a fresh engine knows its name."""
    made = kind.make()
    own = {f.name for f in dataclasses.fields(made)} - {"name", "parallel", "workers"}  # type: ignore[arg-type]
    assert set(kind.options) == own
    assert made.name == kind.name
    assert kind.start_up >= 0
    assert (kind.extra is None) == (kind.package is None)
    extras = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    if kind.extra is not None:
        assert str(kind.package) in " ".join(extras["optional-dependencies"][kind.extra])
    if "workers" in inspect.signature(kind.make).parameters:
        assert engine(kind.name, workers=3).parallel == 3
    else:
        assert kind.one_worker
        assert engine(kind.name).parallel == 1
