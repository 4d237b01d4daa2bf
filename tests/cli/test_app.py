"""The commands: what they print, what they write, and one sentence for everything that can be wrong."""

import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import netgrain
from netgrain import Geometry
from netgrain.cli import app as cli
from netgrain.cli import doctor
from netgrain.cli import parsing as shell

MODELS = """
    import time
    from pathlib import Path
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self, channels=1):
            super().__init__()
            self.channels = channels
            self.layer = nn.Linear(4, 2)

        def forward(self, x):
            return torch.tanh(self.layer(x.flatten(1)))

    class Raises(nn.Module):
        def __init__(self):
            raise RuntimeError("no such\\nthing")

    class Empty(nn.Module):
        def forward(self, x):
            return x.flatten(1)

    class Broken(Net):
        def __init__(self):
            super().__init__()
            self.layer.weight.data[0, 0] = float("nan")

    class Noisy(Net):
        def forward(self, x):
            return super().forward(x) + torch.rand(len(x), 1)

    class Deaf(Net):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(2, 1)
            nn.init.zeros_(self.last.weight)

        def forward(self, x):
            return self.last(super().forward(x))

    class Loud(Net):
        def __init__(self):
            super().__init__()
            print("hello from the model")

    class Slow(Net):
        def __init__(self):
            super().__init__()
            with Path("made").open("a") as f:
                f.write("x")
            time.sleep(0.02)

    class Buggy(Net):
        def forward(self, x):
            return self.no_such_thing
"""

NET = ("models.py:Net", "--input", "4")
runner = CliRunner()
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line in an empty folder with a file of models."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models.py").write_text(dedent(MODELS), encoding="utf-8")

    def command(*words: str) -> tuple[int, str, str]:
        result = runner.invoke(cli.app, list(words))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout, result.stderr

    return command


def one_line(text: str) -> str:
    return " ".join(text.split())


# What is printed and written


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
    family = shell.family_from_text(spec, shell.parse_input(shape))
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
    assert (Path("deaf") / "geometry.png").is_file()


def test_other_warnings_are_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(RuntimeWarning, match="not ours"), shell.one_sentence_errors():
        warnings.warn("not ours", RuntimeWarning, stacklevel=1)
    assert capsys.readouterr().err == ""


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


@pytest.mark.parametrize("words", [("--help",), ("geometry", "--help"), ("doctor", "--help")])
def test_help_has_examples_line_by_line(run: Run, words: tuple[str, ...]) -> None:
    code, stdout, _ = run(*words)
    assert code == 0
    examples = [line.strip() for line in stdout.splitlines() if line.strip().startswith("netgrain ")]
    assert len(examples) >= 2
    assert "Examples:" in stdout


def test_every_option_is_explained(run: Run) -> None:
    _, stdout, _ = run("geometry", "--help")
    options = (
        "input",
        "probe",
        "method",
        "check",
        "members",
        "tolerance",
        "seed",
        "output",
        "first-layer",
        "workers",
        "out",
    )
    for option in (*options, "json"):
        assert re.search(rf"^  --{option}( [A-Z]+)? +\w", stdout, re.MULTILINE), option


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"netgrain {netgrain.__version__}\n", "")


# What can be wrong


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("resnet81", "--input", "1x32x32"), r"no built-in model called 'resnet81'\. Did you mean 'resnet18'\?"),
        (("mlp:widht=2", "--input", "1x8x8"), r"no option 'widht'\. Did you mean 'width'\?"),
        (("mlp:width=-1", "--input", "1x8x8"), "expects width to be a positive finite number, found -1"),
        (("mlp", "--input", "32x32"), r"'mlp' expects square images, as in --input 1x32x32; found 32x32"),
        (("mlp", "--input", "1x32x16"), r"'mlp' expects square images, as in --input 1x32x32; found 1x32x16"),
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
        ((*NET, "--probe", "data:models.py"), r"models\.py cannot be read as numbers"),
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


@pytest.mark.parametrize(
    "words", [("geometry",), ("geometry", "mlp"), ("geometry", *NET, "--members", "many"), ("geometri",), ("--nope",)]
)
def test_usage_errors_exit_with_two(run: Run, words: tuple[str, ...]) -> None:
    assert run(*words)[0] == 2


def test_bugs_keep_their_traceback(run: Run) -> None:
    with pytest.raises(AttributeError, match="no_such_thing"):
        run("geometry", "models.py:Buggy", "--input", "4", "--members", "3")


def test_interrupt_while_writing_tells_how_far_it_got(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    import netgrain.runtime.run_folder  # has its own name for the function by now

    assert netgrain.runtime.run_folder.write_whole
    monkeypatch.setattr("netgrain.runtime.files.write_whole", interrupted)
    code, _, stderr = run("geometry", *NET, "--members", "3", "--out", "o")
    assert code == 130
    assert stderr == "interrupted; of 4 files in o, 1 was written (whole); go on with --resume\n"
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
    ) as process:
        try:
            while process.poll() is None and not list(Path("never").glob("members/units/*.safetensors")):
                pass_the_time()
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the workers hear it too
            stdout, stderr = process.communicate(timeout=30)
        finally:
            process.kill()
    told = "interrupted; finished members are in never/members; go on with --resume\n"
    assert (process.returncode, stdout, stderr) == (130, "", told)
    assert [path.name for path in Path("never").iterdir()] == ["members"]
    assert list(Path("never/members/units").iterdir())


def pass_the_time() -> None:
    import time

    time.sleep(0.02)


# Before torch is loaded


@pytest.mark.parametrize(
    "words",
    [
        ("audit", "mlp", "--data", "digitz"),
        ("audit", "mlp", "--data", "nowhere.npz"),
        ("audit", "mlp", "--data", "nowhere/"),
        ("compare", "mlp", "vit", "--data", "digitz"),
        ("score", "mlp", "--data", "digitz"),
        ("prune", "mlp", "--data", "table.csv", "--out", "k.csv"),
        ("complexity", "mlp", "--data", "digitz"),
    ],
)
def test_data_that_cannot_be_are_refused_before_torch_is_loaded(words: tuple[str, ...], tmp_path: Path) -> None:
    code = (
        "import sys\nfrom netgrain.cli.app import app\n"
        f"try:\n    app({list(words)})\nexcept SystemExit as e:\n    print(e.code, 'torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert found.stdout.strip() == "2 False"
    assert found.stderr.startswith("error: ")
    assert len(found.stderr.splitlines()) == 1


# The doctor


def test_doctor_finds_a_sound_installation(run: Run) -> None:
    code, stdout, stderr = run("doctor", "--json")
    report = json.loads(stdout)
    checks = {check["name"]: check for check in report["checks"]}
    assert (code, stderr, report["ok"]) == (0, "", True)
    assert checks["netgrain"]["found"] == netgrain.__version__
    assert checks["torch"]["found"] == torch.__version__
    for name in ("self-check, exact", "self-check, sampled", "current folder"):
        assert checks[name]["status"] == "ok"
    assert "one thread" in checks["speed"]["found"]


def test_doctor_names_what_is_missing_and_the_command_that_brings_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(package: str) -> str:
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setenv("NETGRAIN_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(doctor, "LOOKS", {})
    monkeypatch.setattr(doctor, "PACKAGES", ())
    monkeypatch.setattr("netgrain.cli.doctor.importlib.metadata.version", nothing)
    code, stdout, _ = run("doctor")
    text = one_line(stdout)
    assert code == 0
    assert "Everything works" not in text
    for extra in doctor.EXTRAS:
        assert f"pip install -e '.[{extra}]'" in text
    assert "load('cifar10', download=True)" in text
    assert "load('mnist', download=True)" in text
    assert f"{len(doctor.EXTRAS) + 3} optional parts are missing" in text

    (tmp_path / "mnist").mkdir()
    for stem in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (tmp_path / "mnist" / f"{stem}-ubyte").touch()
    checks = {check["name"]: check for check in json.loads(run("doctor", "--json")[1])["checks"]}
    assert (checks["data 'mnist'"]["status"], checks["data 'mnist'"]["found"]) == ("ok", str(tmp_path / "mnist"))


def test_doctor_knows_every_extra_of_the_package() -> None:
    with (Path(__file__).parents[2] / "pyproject.toml").open("rb") as file:
        declared = tomllib.load(file)["project"]["optional-dependencies"]
    for_users = {name: needs for name, needs in declared.items() if name not in ("digits", "oracle", "torture", "dev")}
    assert set(doctor.EXTRAS) == set(for_users)
    for extra, (package, _) in doctor.EXTRAS.items():
        assert for_users[extra][0].startswith(package)


def test_nothing_is_said_to_be_on_a_package_index() -> None:
    package = Path(netgrain.__file__).parent
    for path in package.rglob("*.py"):
        assert not re.search(r"pip install ['\"]?netgrain\b", path.read_text()), path


def test_doctor_leaves_the_threads_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "most_workers", lambda: 2)
    torch.set_num_threads(1)
    doctor._speed("speed")
    assert torch.get_num_threads() == 1


def test_doctor_notices_wrong_results(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    known = doctor.KNOWN.clone()
    known[1, 1] *= 1.5
    monkeypatch.setattr(doctor, "KNOWN", known)
    names = ("self-check, exact", "self-check, sampled")
    monkeypatch.setattr(doctor, "LOOKS", {name: doctor.LOOKS[name] for name in names})
    code, stdout, _ = run("doctor")
    assert code == 1
    assert stdout.count("FAIL") == 3
    assert "Something is wrong" in stdout


def test_doctor_reports_what_it_cannot_do(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(name: str) -> doctor.Finding:
        raise RuntimeError("no luck")

    monkeypatch.setattr(doctor, "LOOKS", {"luck": fails})
    code, stdout, _ = run("doctor")
    assert code == 1
    assert "luck FAIL RuntimeError: no luck" in one_line(stdout)


def test_doctor_says_that_a_machine_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "most_workers", lambda: 2)
    monkeypatch.setattr(doctor, "_seconds", lambda _: float(torch.get_num_threads()))
    check = doctor._speed("speed")
    assert (check.status, check.found) == ("warning", "1000 ms with one thread, 2000 ms with 2")
    assert "the machine is busy" in check.advice


def test_doctor_survives_a_folder_it_cannot_write_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    check = doctor._folder("current folder")
    assert (check.status, check.found) == ("warning", "cannot write here (Permission denied)")


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
