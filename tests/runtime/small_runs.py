"""Runs of tiny units, for tests of run folders and of what keeps its outcomes there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from netgrain.runtime.run_folder import RunFolder
from netgrain.runtime.units import Outcome

CALLS: list[int] = []


def square(unit: Mapping[str, Any]) -> Outcome:
    CALLS.append(unit["n"])
    generator = torch.Generator().manual_seed(unit["n"])
    return Outcome({"square": unit["n"] ** 2}, {"noise": torch.randn(5, generator=generator)})


def folder_of(path: Path, *, resume: bool = False, **changes: Any) -> RunFolder:
    asked = {"experiment": "test", "scale": "smoke", "config": {"a": 1}} | changes
    return RunFolder.create(path, resume=resume, **asked)


def configs(n: int) -> list[dict[str, Any]]:
    return [{"n": i, "kind": "square"} for i in range(n)]
