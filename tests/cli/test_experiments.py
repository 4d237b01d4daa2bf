"""The commands list, run and claims; score and prune."""

import json
from pathlib import Path

from typer.testing import CliRunner

from netgrain.cli.app import app


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
    code, out, err = _invoke("run", "gc-l2", "--scale", "smoke", "--out", folder, "--json")
    assert code == 0, err
    assert json.loads(out)["claims"]
    code, _, err = _invoke("run", "gc-l2", "--scale", "smoke", "--out", folder)
    assert code == 2
    assert "--resume" in err
    code, out, _ = _invoke("run", "gc-l2", "--scale", "smoke", "--out", folder, "--resume")
    assert code == 0
    assert "figure.png" in out
    code, out, _ = _invoke("claims", folder)
    assert code == 0
    assert "weight decay lowers complexity" in out
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
        (str(tmp_path / "only.npz"), "0.5", "has no array y"),
        (str(tmp_path / "bad.npz"), "0.5", "cannot be read"),
        (str(tmp_path / "alone.npz"), "0.5", "has one array, not X and y"),
        ("cifar11", "0.5", "did you mean 'cifar10'"),
    ):
        code, _, err = _invoke("prune", model, "--data", data_name, "--members", "4", "--keep", keep, "--out", bad)
        assert code == 2, data_name
        assert message in err
    assert not Path(bad).exists()
