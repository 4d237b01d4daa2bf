"""The commands score and prune: what they write, and what they refuse."""

import json
from pathlib import Path

from typer.testing import CliRunner

from netgrain.cli.app import app


def _invoke(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


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
    np.savez(tmp_path / "other.npz", images=X)
    (tmp_path / "bad.npz").write_bytes(b"PK nothing")
    with (tmp_path / "alone.npz").open("wb") as file:
        np.save(file, X)
    bad = str(tmp_path / "bad.csv")
    for data_name, keep, message in (
        (data, "0", "share in (0, 1]"),
        (data, "1.5", "share in (0, 1]"),
        (str(tmp_path / "short.npz"), "0.5", "39"),
        (str(tmp_path / "other.npz"), "0.5", "has no array X"),
        (str(tmp_path / "bad.npz"), "0.5", "cannot be read"),
        (str(tmp_path / "alone.npz"), "0.5", "has one array, not X"),
        ("cifar11", "0.5", "did you mean 'cifar10'"),
    ):
        code, _, err = _invoke("prune", model, "--data", data_name, "--members", "4", "--keep", keep, "--out", bad)
        assert code == 2, data_name
        assert message in err
    assert not Path(bad).exists()
    only = str(tmp_path / "only.npz")
    code, out, _ = _invoke("prune", model, "--data", only, "--members", "10", "--keep", "0.5", "--out", bad, "--json")
    assert (code, json.loads(out)["per_class"]) == (0, False)
    assert [int(line) for line in Path(bad).read_text().splitlines()[1:]] == sorted(
        sorted(range(40), key=values.__getitem__)[20:]
    )
