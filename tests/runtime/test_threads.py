"""One thread for a while, and back."""

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from threadpoolctl import ThreadpoolController

from netgrain.runtime import threads
from netgrain.runtime.processes import Processes
from netgrain.runtime.threads import one_thread
from netgrain.runtime.units import Outcome, Unit


def _blas_threads() -> dict[str, int]:
    import scipy.linalg  # noqa: F401  (brings a library of its own)
    from threadpoolctl import threadpool_info

    return {lib["filepath"]: lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}


def test_one_thread_of_linear_algebra_and_back() -> None:
    from threadpoolctl import threadpool_limits

    _blas_threads()  # everything is loaded before it is limited
    with threadpool_limits(2, user_api="blas"):
        able = {path for path, threads in _blas_threads().items() if threads == 2}  # some are built for one thread
        assert able
        with one_thread():
            assert set(_blas_threads().values()) == {1}
        assert {path for path, threads in _blas_threads().items() if threads == 2} == able

        def counted(unit: Any) -> Outcome:
            return Outcome({"blas": sorted(set(_blas_threads().values())), "torch": torch.get_num_threads()})

        found = [o.numbers for _, o in Processes(2).run(counted, [Unit({"i": 0}), Unit({"i": 1})])]
        assert found == [{"blas": [1], "torch": 1}] * 2
        assert {path for path, threads in _blas_threads().items() if threads == 2} == able


def test_libraries_are_looked_up_again_after_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    class Counted(ThreadpoolController):
        def __init__(self) -> None:
            asked.append(1)
            super().__init__()

    monkeypatch.setattr(threads, "ThreadpoolController", Counted)
    monkeypatch.setattr(threads, "_found", {})
    for _ in range(3):
        with one_thread():
            pass
    assert len(asked) == 1
    monkeypatch.setitem(sys.modules, "netgrain_imported_later", ModuleType("netgrain_imported_later"))
    with one_thread():
        pass
    assert len(asked) == 2
