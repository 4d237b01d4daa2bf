"""Variables are set for a while, and what was there comes back."""

import os
import subprocess
import sys

import pytest

from netgrain.runtime.environment import environment


@pytest.mark.parametrize("before", [None, "old"])
def test_variables_come_back_even_after_an_error(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if before is None:
        monkeypatch.delenv("NETGRAIN_TRIED", raising=False)
    else:
        monkeypatch.setenv("NETGRAIN_TRIED", before)

    def fail_inside() -> None:
        with environment({"NETGRAIN_TRIED": "new"}):
            assert os.environ["NETGRAIN_TRIED"] == "new"
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail_inside()
    assert os.environ.get("NETGRAIN_TRIED") == before


def test_processes_started_inside_see_them() -> None:
    program = [sys.executable, "-S", "-c", "import os; print(os.environ['NETGRAIN_TRIED'])"]
    with environment({"NETGRAIN_TRIED": "seen"}):
        assert subprocess.run(program, capture_output=True, text=True, check=True).stdout == "seen\n"
