"""`netgrain geometry`: what it prints, writes, checks and keeps when it is stopped."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import netgrain
from netgrain import Geometry
from netgrain.cli import parsing
from tests.cli.commands import NET, Run, one_line


def test_table_says_what_was_computed(run: Run) -> None:
    code, stdout, stderr = run("geometry", "models.py:Net", "--input", "4", "--members", "30", "--seed", "3")
    G = netgrain.average_geometry(netgrain.models.load_model("models.py:Net"), (4,), members=30, seed=3)
    text = one_line(stdout)
    assert (code, stderr) == (0, "")
    for words in (
        "model models.py:Net",
        "input 4, d = 4",
        "method sampled",
        "members 30 (seed 3)",
        "probe origin",
        "first layer integrated exactly ('layer', uniform in ±0.5)",
        f"trace {str(G.trace).partition(' (')[0]}",
        "effective rank 4",
        "directions 2, 4, 4 carry 50%, 90%, 99% of the trace",
        "blocks 1, of 4 equal eigenvalues",
        f"Corr with the truth about {G.fidelity:.4f}",
    ):
        assert words in text
    assert "written" not in text


def test_table_of_plain_sampling_has_errors_and_notes(run: Run) -> None:
    words = (
        "geometry",
        "mlp:width=0.1,activation=relu",
        "--input",
        "1x2x2",
        "--members",
        "20",
        "--probe",
        "gaussian:1",
    )
    code, stdout, _ = run(*words)
    assert code == 0
    text = one_line(stdout)
    assert "first layer plain sampling: away from the origin" in text
    assert re.search(r"effective rank [\d.]+ ± [\d.]+ ", text)
    assert "blocks 4, no two eigenvalues are equal" in text


def test_json_is_one_document_even_if_the_model_talks(run: Run) -> None:
    code, stdout, stderr = run("geometry", "models.py:Loud", "--input", "4", "--members", "8", "--json")
    report = json.loads(stdout)
    assert code == 0
    assert (report["d"], report["members"], report["files"]) == (4, 8, {})
    assert report["trace"]["value"] > 0
    assert "hello from the model" in stderr


def test_out_writes_four_files_that_agree(run: Run) -> None:
    words = ("geometry", "models.py:Net", "--input", "1x2x2", "--members", "8", "--first-layer", "never")
    code, stdout, _ = run(*words, "--output", "diff:0,1", "--out", "a/b", "--json")
    report = json.loads(stdout)
    assert code == 0
    assert {path.name for path in Path("a/b").iterdir()} == {
        "geometry.safetensors",
        "geometry.png",
        "directions.png",
        "summary.json",
    }
    assert json.loads(Path(report["files"]["summary"]).read_text(encoding="utf-8")) == report
    G = Geometry.load(report["files"]["geometry"])
    assert G.trace.as_dict() == report["trace"]
    assert (G.about.output, G.about.averaged) == ("('diff', 0, 1)", "plain sampling (asked for)")
    for picture in ("picture", "directions"):
        assert Path(report["files"][picture]).read_bytes().startswith(b"\x89PNG")
    before = {path.name: path.read_bytes() for path in Path("a/b").iterdir() if path.suffix != ".safetensors"}
    code, stdout, _ = run(*words, "--output", "diff:0,1", "--out", "a/b")
    assert code == 0
    assert "written: a/b/geometry.safetensors a/b/geometry.png a/b/directions.png a/b/summary.json" in one_line(stdout)
    assert before == {name: (Path("a/b") / name).read_bytes() for name in before}
    assert torch.equal(Geometry.load(report["files"]["geometry"]).matrix(), G.matrix())


@pytest.mark.parametrize(
    ("spec", "shape", "options"),
    [
        ("mlp", "2x8x8", {"channels": 2, "image_size": 8}),
        ("mlp:channels=1", "2x8x8", {"channels": 1, "image_size": 8}),
        ("models.py:Net", "3x2x5", {"channels": 3}),
        ("models.py:Net", "3x5", {}),
    ],
)
def test_sizes_of_the_input_reach_the_model(run: Run, spec: str, shape: str, options: dict[str, int]) -> None:
    family = parsing.family_from_text(spec, parsing.parse_input(shape))
    assert isinstance(family, netgrain.models.specs.ModelSpec)
    assert dict(family.options) == options


def test_probe_from_data(run: Run) -> None:
    X = torch.randn(7, 4, generator=torch.Generator().manual_seed(0))
    np.save("x.npy", X.numpy())
    code, stdout, _ = run("geometry", "models.py:Net", "--input", "4", "--members", "5", "--probe", "data:x.npy")
    assert code == 0
    assert "probe x.npy (7 samples)" in one_line(stdout)


def test_tolerance_decides_the_members(run: Run) -> None:
    words = ("geometry", *NET, "--first-layer", "never", "--json", "--tolerance")
    reports = [json.loads(run(*words, tolerance)[1]) for tolerance in ("0.3", "0.005")]
    assert reports[0]["members"] < reports[1]["members"]
    assert reports[1]["fidelity"] >= 0.995


def test_warning_is_one_line_and_the_zero_share_is_told(run: Run) -> None:
    code, stdout, stderr = run("geometry", "models.py:Deaf", "--input", "4", "--members", "3", "--out", "deaf")
    assert code == 0
    assert re.fullmatch(r"warning: models\.py:Deaf: the input gradient is exactly zero[^\n]*\n", stderr)
    assert "zero gradient 100.0% of the members" in one_line(stdout)
    assert sorted(p.name for p in Path("deaf").iterdir()) == ["geometry.safetensors", "summary.json"]  # no pictures


def test_what_is_off_is_the_first_row_and_can_be_switched_on(run: Run) -> None:
    code, stdout, stderr = run("geometry", "models.py:Deaf", "--input", "4")
    assert code == 0
    assert one_line(stdout).startswith("off at initialisation the last layer starts at zero")
    assert "--switched-on switches everything on" in one_line(stdout)
    assert "effective rank" not in stdout
    assert re.fullmatch(r"warning: models\.py:Deaf: the input gradient is exactly zero[^\n]*\n", stderr)
    code, stdout, stderr = run("geometry", "models.py:Deaf", "--input", "4", "--switched-on", "--json")
    report = json.loads(stdout)
    assert (code, stderr, report["switched_on"]) == (0, "", True)
    assert report["trace"]["value"] > 0
    assert report["off"]["parts"][0]["kind"] == "head"
    assert run("geometry", "models.py:Deaf", "--input", "4", "--switched-on", "--check", "20")[0] == 2
    code, stdout, _ = run("card", "models.py:Deaf", "--input", "4", "--switched-on")
    assert code == 0
    assert "Switched on" in stdout


def test_sketched_geometry_prints_and_writes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only leading directions are kept: no error bars, no null space, no blocks of the rest."""
    found = netgrain.average_geometry

    def with_few(*args: object, **options: object) -> Geometry:
        G = found(*args, **options)
        from netgrain.geometry.forms import Factored

        form = Factored(G.directions(2).reshape(2, -1))
        return Geometry(form, G.input_shape, G.about, full_trace=netgrain.Estimate(5.0, 0.1, 8))

    monkeypatch.setattr("netgrain.geometry.average.average_geometry", with_few)
    code, stdout, _ = run("geometry", "models.py:Net", "--input", "1x2x2", "--members", "8", "--out", "o")
    assert code == 0
    assert "(no error bar)" in stdout
    assert "directions ?, ?, ? carry" in one_line(stdout)
    assert "among the 2 leading directions" in one_line(stdout)
    assert "Corr with the truth unknown" in one_line(stdout)
    assert len(list(Path("o").iterdir())) == 4


def test_interrupt_while_writing_tells_how_far_it_got(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    import netgrain.runtime.run_folder  # has its own name for the function by now

    assert netgrain.runtime.run_folder.write_whole
    monkeypatch.setattr("netgrain.runtime.files.write_whole", interrupted)
    code, _, stderr = run("geometry", *NET, "--members", "3", "--out", "o")
    assert code == 130
    assert stderr == "interrupted; of 4 files in o, 1 was written (whole); resume with --resume\n"
    assert sorted(path.name for path in Path("o").iterdir()) == ["geometry.safetensors", "members"]


def test_real_process_interrupted_by_the_keyboard(run: Run) -> None:
    script = "from netgrain.cli.app import main; main()"
    words = ["geometry", "models.py:Slow", "--input", "4", "--members", "5000", "--out", "never"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", script, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell ignores it for what runs behind it
    ) as process:
        try:
            while process.poll() is None and not list(Path("never").glob("members/units/*.safetensors")):
                pass_the_time()
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the workers hear it too
            stdout, stderr = process.communicate(timeout=30)
        finally:
            process.kill()
    told = "interrupted; finished members are in never/members; resume with --resume\n"
    assert (process.returncode, stdout, stderr) == (130, "", told)
    assert [path.name for path in Path("never").iterdir()] == ["members"]
    assert list(Path("never/members/units").iterdir())


def pass_the_time() -> None:
    import time

    time.sleep(0.02)


def test_check_compares_the_closed_form_with_sampled_networks(run: Run) -> None:
    words = ("geometry", "mlp:activation=gelu", "--input", "1x4x4", "--check", "64")
    code, stdout, _ = run(*words)
    assert code == 0
    assert "closed form, wide limit" in one_line(stdout)
    assert "closed form against 64 sampled networks" in stdout
    assert "agrees: one band of the spectrum and leading directions of the sample" in stdout
    code, stdout, _ = run(*words, "--json")
    assert json.loads(stdout)["check"]["agrees"] is True


def test_check_that_fails_has_exit_code_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from netgrain.geometry import agreement

    monkeypatch.setattr(agreement, "STANDARD_ERRORS", 0.0)
    code, stdout, _ = run("geometry", "mlp:activation=gelu", "--input", "1x4x4", "--check", "64")
    assert code == 1
    assert "differs: " in stdout


def test_steps_are_counted_by_how_well_they_are_followed(run: Run) -> None:
    code, stdout, _ = run("geometry", "lenet", "--input", "1x16x16")
    assert code == 0
    assert "steps 9 exact steps 3 wide limit: 'layers.4' (ReLU)" in one_line(stdout)
