"""Every experiment goes through one contract; claims come out as the numbers say."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from netgrain import NetgrainError
from netgrain.cli.app import app
from netgrain.experiments import registry as experiments
from netgrain.experiments.contract import SCALES
from netgrain.experiments.registry import conclude_again, find, preset, run_experiment
from netgrain.experiments.reproduction import chosen
from netgrain.runtime.processes import Processes


@pytest.mark.parametrize("name", chosen(None))
@pytest.mark.timeout(240)
def test_contract(name: str, tmp_path: Path) -> None:
    experiment = find(name)
    assert set(experiment.PRESETS) == set(SCALES)
    assert experiment.title
    assert experiment.study in experiments.studies()
    assert experiment.cost > 0
    finished = run_experiment(name, "smoke", tmp_path / "run", engine=Processes(2))
    assert finished.computed > 0
    assert finished.claims
    assert all(c.verdict in ("holds", "fails", "undecided") for c in finished.claims)
    stored = json.loads((tmp_path / "run" / "claims.json").read_text())
    assert [c["name"] for c in stored] == [c.name for c in finished.claims]
    picture = (tmp_path / "run" / "figure.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    (tmp_path / "run" / "figure.png").unlink()
    again = conclude_again(tmp_path / "run")
    assert again.computed == 0
    assert [c.as_dict() for c in again.claims] == [c.as_dict() for c in finished.claims]
    assert (tmp_path / "run" / "figure.png").read_bytes() == picture


def test_names_are_found_without_being_listed() -> None:
    assert {"fig1", "fig14", "tab2", "gc-l2", "gc-depth", "eq-ccq200"} < set(experiments.names())
    assert not {"grains", "pruning", "table", "studies", "protocol"} & set(experiments.names())  # what they share
    for name in ("grains", "table"):
        with pytest.raises(NetgrainError, match="is not known"):
            find(name)
    with pytest.raises(NetgrainError, match="did you mean 'fig9'"):
        find("figg9")
    with pytest.raises(NetgrainError, match="did you mean 'laptop'"):
        preset("fig9", "labtop")


def _invoke(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_list_and_help() -> None:
    code, out, _ = _invoke("list")
    assert code == 0
    assert "fig9" in out
    for command in ("list", "run", "claims", "score", "prune"):
        code, out, _ = _invoke(command, "--help")
        assert code == 0
        assert "Examples:" in out


def test_run_and_claims_from_the_shell(tmp_path: Path) -> None:
    folder = str(tmp_path / "run")
    code, out, err = _invoke("run", "fig9", "--scale", "smoke", "--out", folder, "--json")
    assert code == 0, err
    assert json.loads(out)["claims"]
    code, _, err = _invoke("run", "fig9", "--scale", "smoke", "--out", folder)
    assert code == 2
    assert "--resume" in err
    code, out, _ = _invoke("run", "fig9", "--scale", "smoke", "--out", folder, "--resume")
    assert code == 0
    assert "figure.png" in out
    code, out, _ = _invoke("claims", folder)
    assert code == 0
    assert "MLP" in out
    for arguments, message in {
        ("run", "figg9"): "did you mean 'fig9'",
        ("run", "fig9", "--scale", "huge"): "expected one of smoke, laptop, paper",
        ("run", "fig9", "--engine", "cloud", "--out", str(tmp_path / "x")): "local, processes, ray, slurm",
        ("claims", str(tmp_path)): "is not a run",
    }.items():
        code, _, err = _invoke(*arguments)
        assert code == 2
        assert message in err
    assert not (tmp_path / "x").exists()


def test_score_and_prune_from_the_shell(tmp_path: Path) -> None:
    import numpy as np

    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(40, 1, 16, 16)).astype(np.float32), np.arange(40) % 2
    data = str(tmp_path / "mine.npz")
    np.savez(data, X=X, y=y)
    scores, kept = tmp_path / "scores.csv", tmp_path / "kept.csv"
    model = "lenet:activation=gelu"
    code, out, err = _invoke("score", model, "--data", data, "--members", "10", "--out", str(scores), "--json")
    assert code == 0, err
    report = json.loads(out)
    values = [float(line.split(",")[2]) for line in scores.read_text().splitlines()[1:]]
    assert report["highest"][0] == max(range(40), key=values.__getitem__)
    arguments = ("prune", model, "--data", data, "--members", "10", "--keep", "0.5", "--out", str(kept))
    assert _invoke(*arguments)[0] == 0
    indices = [int(line) for line in kept.read_text().splitlines()[1:]]
    for label in (0, 1):
        mine = sorted((i for i in range(40) if i % 2 == label), key=values.__getitem__)
        assert sorted(i for i in indices if i % 2 == label) == sorted(mine[10:])
    np.savez(tmp_path / "short.npz", X=X, y=y[:-1])
    np.savez(tmp_path / "only.npz", X=X)
    (tmp_path / "bad.npz").write_bytes(b"PK nothing")
    with (tmp_path / "alone.npz").open("wb") as file:
        np.save(file, X)
    bad = str(tmp_path / "bad.csv")
    for data_name, keep, message in (
        (data, "0", "share in (0, 1]"),
        (data, "1.5", "share in (0, 1]"),
        (str(tmp_path / "short.npz"), "0.5", "39"),
        (str(tmp_path / "only.npz"), "0.5", "expected X and y"),
        (str(tmp_path / "bad.npz"), "0.5", "cannot be read"),
        (str(tmp_path / "alone.npz"), "0.5", "has one array; expected X and y"),
        ("cifar11", "0.5", "did you mean 'cifar10'"),
    ):
        code, _, err = _invoke("prune", model, "--data", data_name, "--members", "4", "--keep", keep, "--out", bad)
        assert code == 2, data_name
        assert message in err
    assert not Path(bad).exists()


THREE = ("linear", "quadratic", "sinusoidal")


TINY = {  # the paper's settings but for sizes
    "fig2": {
        "images": "digits", "size": 16, "widths": {"ResNet18": 1 / 32, "ViT": 1 / 12}, "samples": 16, "tests": 16,
        "snapshots": [0, 1, 2], "geometry_members": 2, "mlp_members": 8, "probes": 2,
        **{k: dict.fromkeys(("MLP", "LeNet", "ResNet18", "ViT"), n)
           for k, n in (("members", 6), ("most_members", 6), ("first_members", 2))},
    },
    "fig14": {
        "size": 16, "width": 1 / 32, "samples": 64, "tests": 32, "indices": (0, -1), "steps": dict.fromkeys(THREE, 2),
        "seeds": 2, "most_seeds": 2, "members": 4,
    },
    "tab2": {
        "networks": {
            n: {"width": w, "levels": [10, 90]} for n, w in (("LeNet", 1.0), ("ResNet18", 1 / 32), ("ViT", 1 / 12))
        },
        "images": "digits", "size": 16, "pool": 300, "samples": 200, "tests": 50, "epochs": 1,
        "seeds": 2, "most_seeds": 2,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", TINY)
def test_paper_settings_run_from_start_to_end(name: str, tmp_path: Path) -> None:
    assert preset(name, "paper").device == "best"
    finished = run_experiment(name, "paper", tmp_path / "run", engine=Processes(2), changes=TINY[name])
    assert finished.claims
    assert [c.as_dict() for c in conclude_again(tmp_path / "run").claims] == [c.as_dict() for c in finished.claims]
