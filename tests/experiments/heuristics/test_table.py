"""The rows: what they train is what the run folders of earlier versions hold."""

import hashlib
import json
from dataclasses import asdict

import pytest

from netgrain.experiments.heuristics.protocol import presets
from netgrain.experiments.heuristics.rows import Heuristic
from netgrain.experiments.heuristics.table import EXPERIMENTS, HEURISTICS
from netgrain.training import regularizers
from netgrain.training.settings import Settings

# of all trainings at every scale; where one changes, unfinished run folders cannot be resumed
TRAININGS = {
    "gc-l2": "7ebdc62a67bd",
    "gc-spectral": "8cf0aa436d80",
    "gc-explicit": "bcfc177912ac",
    "gc-flatness": "3761825b306f",
    "gc-input-noise": "aaed3a4c412e",
    "gc-label-noise": "d0e8c886bfc8",
    "gc-label-corruption": "abb6ec1d7934",
    "gc-learning-rate": "fe6e3b4de8b4",
    "gc-batch-size": "64e707b1bb0d",
    "gc-init": "2d309693dfcc",
}


def _fingerprint(row: Heuristic) -> str:
    trainings = [
        {str(v): asdict(p) for v, p in sweep.protocols(config).items()}
        for config in presets(row.steps).values()
        for sweep in row.sweeps
    ]
    return hashlib.sha256(json.dumps(trainings, sort_keys=True).encode()).hexdigest()[:12]


@pytest.mark.parametrize("row", HEURISTICS, ids=lambda row: row.name)
def test_trainings_are_those_of_earlier_run_folders(row: Heuristic) -> None:
    assert _fingerprint(row) == TRAININGS[row.name]


@pytest.mark.parametrize("row", HEURISTICS, ids=lambda row: row.name)
def test_every_row_can_be_trained(row: Heuristic) -> None:
    """Settings and regularisers exist, labels tell trainings apart, and the value that varies reaches the training."""
    for config in presets(row.steps).values():
        by_label: dict[str, list] = {}
        for sweep in row.sweeps:
            protocols = sweep.protocols(config)
            assert len(protocols) >= 2
            for value, protocol in protocols.items():
                Settings(**protocol.settings)
                assert protocol.regularizer is None or hasattr(regularizers, protocol.regularizer)
                assert value in (protocol.strength, protocol.scale, protocol.corrupted, *protocol.settings.values())
            by_label.setdefault(sweep.label, []).append(protocols)
        assert all(p == same[0] for same in by_label.values() for p in same)


def test_rows_are_experiments_by_name() -> None:
    assert list(EXPERIMENTS) == [row.name for row in HEURISTICS]
    assert {e.study for e in EXPERIMENTS.values()} == {"complexity"}
    assert all(set(e.PRESETS) == {"smoke", "laptop", "paper"} for e in EXPERIMENTS.values())
