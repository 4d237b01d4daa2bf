"""Pages that scripts make from the experiments are up to date: `make pages` writes them."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["coverage", "settings"])
def test_page_is_up_to_date(name: str) -> None:
    stored = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert script(name).page() == stored, f"docs/{name}.md is out of date: make pages"


def test_a_place_that_does_not_exist_is_refused() -> None:
    coverage = script("coverage")
    assert coverage._existing("geometry.value.Geometry.flip") == "geometry.value.Geometry.flip"
    with pytest.raises(AttributeError):
        coverage._existing("geometry.value.Geometry.flop")
