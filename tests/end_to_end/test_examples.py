"""The examples run from start to end at a small size."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def _script(path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(path.parent)  # as Python does for a script
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_gallery_has_twenty_four_real_models(monkeypatch: pytest.MonkeyPatch) -> None:
    gallery = _script(EXAMPLES / "gallery.py", monkeypatch)
    benchmark = _script(EXAMPLES.parent / "benchmarks" / "real_models.py", monkeypatch)
    assert len(set(gallery.REAL)) == 24
    assert gallery.SIXTEEN == benchmark.SIXTEEN
    assert len(set(benchmark.SIXTEEN)) == 16
    assert len({gallery.Entry(model, "", 224).name for model in gallery.REAL}) == 24


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("audit_own_model", ("--samples", "200", "--out", "report.html"), "look at report.html"),
        (
            "choose_architecture",
            ("--samples", "200", "--width", "0.0625", "--out", "compare.html"),
            "look at compare.html",
        ),
        (
            "gallery",
            ("--models", "mlp", "--size", "8", "--data", "none", "--out", "gallery", "--work", "kept"),
            "mlp, GELU at the origin",
        ),
        ("make_files", ("--out", "made"), "made files to play with in made"),
        ("prune_and_train", ("--samples", "200", "--steps", "5", "--seeds", "2"), "seed 1: kept by score"),
    ],
)
def test_example(
    name: str,
    words: tuple[str, ...],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    module = _script(EXAMPLES / f"{name}.py", monkeypatch)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *words])
    module.main()
    assert said in capsys.readouterr().out
    for page in tmp_path.glob("*.html"):
        assert page.stat().st_size > 20_000
