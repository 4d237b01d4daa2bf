"""`netgrain doctor`: what it finds, and what it says of what it cannot do."""

import importlib.metadata
import json
import re
import tomllib
from pathlib import Path

import pytest
import torch

import netgrain
from netgrain.cli import doctor
from tests.cli.commands import Run, one_line


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
    monkeypatch.setattr("netgrain.data.set_files.DEBIAN", tmp_path)
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
    for_users = {name: needs for name, needs in declared.items() if name not in ("oracle", "torture", "docs", "dev")}
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
    known = doctor._known()
    known[1, 1] *= 1.5
    monkeypatch.setattr(doctor, "_known", lambda: known)
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
