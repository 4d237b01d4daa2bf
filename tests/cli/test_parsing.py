"""From words to objects: one sentence for everything that can be wrong."""

import re
from pathlib import Path

import numpy as np
import pytest

from tests.cli.commands import NET, Run


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("resnet81", "--input", "1x32x32"), r"no built-in model called 'resnet81'\. Did you mean 'resnet18'\?"),
        (("mlp:widht=2", "--input", "1x8x8"), r"no option 'widht'\. Did you mean 'width'\?"),
        (("mlp:width=-1", "--input", "1x8x8"), "expects width to be a positive finite number, found -1"),
        (("mlp", "--input", "32x32"), r"'mlp' expects square images, as in --input 1x32x32; found 32x32"),
        (("mlp", "--input", "1x32x16"), r"'mlp' expects square images, as in --input 1x32x32; found 1x32x16"),
        (
            ("vit", "--input", "20"),
            r"'vit' expects square images.*; found a table of 20 features\. For tables take mlp",
        ),
        (("models.py:Net", "--input", "4,4"), "--input expects positive sizes joined by x, .* found '4,4'"),
        (("models.py:Net", "--input", "1x0"), "--input expects positive sizes joined by x, .* found '1x0'"),
        (("models.py:Net", "--input", ""), "--input expects positive sizes joined by x, .* found ''"),
        (
            ("models.py:Net", "--input", "9" * 5000),
            "--input expects positive sizes joined by x, .* at most nine digits",
        ),
        (
            ("models.py:Net", "--input", "9999999x9999"),
            r"--input 9999999x9999 has 1e\+11 values; expected at most 1e\+08",
        ),
        (("models.py:Net", "--input", "5"), r"failed on inputs of shape \(5,\)"),
        ((*NET, "--members", "0"), "expected at least one member, found 0"),
        ((*NET, "--members", "5", "--tolerance", "0.1"), "expected members= or tolerance=, found both"),
        ((*NET, "--tolerance", "1.5"), "expected a tolerance between 0 and 1"),
        ((*NET, "--workers", "0"), "expected at least one worker"),
        ((*NET, "--method", "guess"), "method expects 'auto', 'closed-form' or 'sampled', found 'guess'"),
        ((*NET, "--first-layer", "maybe"), "first_layer expects 'auto', 'never' or 'always', found 'maybe'"),
        ((*NET, "--output", "some"), "--output expects all, mean, an index as in 3, or diff:0,1; found 'some'"),
        ((*NET, "--output", "7"), "output 7 was asked for, the model has 2 outputs"),
        ((*NET, "--output", "diff:0,9"), r"output \('diff', 0, 9\) was asked for, the model has 2 outputs"),
        ((*NET, "--probe", "nowhere"), "probe 'nowhere' is not known; expected auto, origin"),
        ((*NET, "--probe", "gaussian:wide"), "probe 'gaussian:wide' expects a number after the colon"),
        ((*NET, "--probe", "gaussian:-1"), "expects a positive sigma, found -1"),
        ((*NET, "--probe", "data:nothing.npy"), r"nothing\.npy is not a file"),
        ((*NET, "--probe", "data:models.py"), r"models\.py cannot be read as arrays"),
        ((*NET, "--probe", "data:three.npy"), r"the data has samples of shape \(3,\), input_shape is \(4,\)"),
        ((*NET, "--out", "models.py"), r"--out expects a folder, models\.py is a file"),
        ((*NET, "--out", "models.py/deeper"), r"--out expects a folder, but .*models\.py is a file"),
        (
            ("models.py:Raises", "--input", "4"),
            r"'models\.py:Raises' could not be built \(RuntimeError: no such thing\)",
        ),
        (("models.py:Nothing", "--input", "4"), r"'models\.py' has nothing called 'Nothing'"),
        (("models.py:Empty", "--input", "4"), r"\(Empty\) has no parameters"),
        (("models.py:Broken", "--input", "4"), r"has NaN or Inf in parameter 'layer\.weight'"),
        (("models.py:Noisy", "--input", "4"), "the model is stochastic in eval mode"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(run: Run, words: tuple[str, ...], message: str) -> None:
    np.save("three.npy", np.zeros((5, 3), dtype=np.float32))
    before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    out = () if "--out" in words else ("--out", "never")
    quick = () if "--members" in words or "--tolerance" in words else ("--members", "3")
    code, stdout, stderr = run("geometry", *words, *quick, *out)
    assert (code, stdout) == (2, "")
    assert re.fullmatch(r"error: [^\n]+\n", stderr)
    assert re.search(message, stderr)
    assert {path: path.read_bytes() for path in Path().iterdir() if path.is_file()} == before
    assert not Path("never").exists()


def test_folder_without_permission_is_refused_before_the_work(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("locked").mkdir()
    monkeypatch.setattr("netgrain.geometry.average.average_geometry", lambda *_, **__: pytest.fail("it worked first"))
    monkeypatch.setattr("os.access", lambda path, mode: Path(path).name != "locked")
    code, _, stderr = run("geometry", *NET, "--out", "locked/out")
    assert code == 2
    assert re.search("locked cannot be written to; choose another folder", stderr)
