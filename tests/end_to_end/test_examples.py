"""The examples run from start to end at a small size."""

import importlib.util
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("audit_own_model", ("--samples", "200", "--out", "report.html"), "look at report.html"),
        (
            "choose_architecture",
            ("--samples", "200", "--width", "0.0625", "--out", "compare.html"),
            "look at compare.html",
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
    monkeypatch.syspath_prepend(EXAMPLES)  # as Python does for a script
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *words])
    module.main()
    assert said in capsys.readouterr().out
    for page in tmp_path.glob("*.html"):
        assert page.stat().st_size > 20_000
