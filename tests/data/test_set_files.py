"""Where the files of named sets are looked for, and in which order."""

from pathlib import Path

import pytest

from netgrain import data
from netgrain.runtime.errors import NetgrainError
from tests.data.image_set_files import write_binary


def test_the_search_goes_argument_variable_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def count(data_dir: Path | None = None) -> int:
        return len(data.cifar10(data_dir, official=False).test)

    with pytest.raises(
        NetgrainError,
        match=r"pass data_dir= .*, set NETGRAIN_DATA to it, or fetch it with python -c .*load\('cifar10', .*\"\.$",
    ):
        count()
    write_binary(tmp_path / "cache" / "netgrain" / "cifar-10-batches-bin", n=1)
    assert count() == 1
    write_binary(tmp_path / "variable" / "cifar-10-batches-bin", n=2)
    monkeypatch.setenv("NETGRAIN_DATA", str(tmp_path / "variable"))
    assert count() == 2
    write_binary(tmp_path / "argument", n=3)
    assert count(data_dir=tmp_path / "argument") == 3
    (tmp_path / "empty").mkdir()
    assert count(data_dir=tmp_path / "empty") == 2
    with pytest.raises(NetgrainError, match="is not a folder"):
        count(data_dir=tmp_path / "nowhere")
