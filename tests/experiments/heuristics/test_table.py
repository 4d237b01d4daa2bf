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
    "gc-l2": "3f586f3d511c",
    "gc-spectral": "58806af58448",
    "gc-explicit": "70c5079ae5d0",
    "gc-flatness": "e5ada156928b",
    "gc-input-noise": "cddc87a90402",
    "gc-label-noise": "2b2681d2127d",
    "gc-label-corruption": "707697e0a3f0",
    "gc-learning-rate": "d69afa41e55b",
    "gc-batch-size": "cc982bcc536c",
    "gc-init": "a818330f5556",
}


def _fingerprint(row: Heuristic) -> str:
    trainings = [
        {str(v): asdict(p) for v, p in sweep.protocols(config).items()}
        for config in presets(row.steps).values()
        for sweep in row.sweeps_at(config)
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
        for sweep in row.sweeps_at(config):
            protocols = sweep.protocols(config)
            assert len(protocols) >= 2
            for value, protocol in protocols.items():
                Settings(**protocol.settings)
                assert protocol.regularizer is None or hasattr(regularizers, protocol.regularizer)
                varied = (protocol.strength, protocol.scale, protocol.corrupted, protocol.repeat)
                assert value in (*varied, *protocol.settings.values())
            by_label.setdefault(sweep.label, []).append(protocols)
        assert all(p == same[0] for same in by_label.values() for p in same)


def test_rows_are_experiments_by_name() -> None:
    assert list(EXPERIMENTS) == [row.name for row in HEURISTICS]
    assert {e.study for e in EXPERIMENTS.values()} == {"complexity"}
    assert all(set(e.PRESETS) == {"smoke", "laptop", "paper"} for e in EXPERIMENTS.values())


def test_a_convolutional_network_stands_beside_the_perceptron() -> None:
    """For every heuristic that the source names; at paper scale its network is in the place of both."""
    named = {"gc-l2", "gc-spectral", "gc-flatness", "gc-input-noise", "gc-label-noise", "gc-learning-rate"}
    named |= {"gc-batch-size", "gc-init"}
    for row in HEURISTICS:
        scales = presets(row.steps)
        networks = {s.network for s in row.sweeps_at(scales["laptop"])}
        assert ("convnet" in networks) == (row.name in named)
        assert {s.network for s in row.sweeps_at(scales["paper"])} == {"perceptron"}


def test_what_contradicts_the_source_is_a_counter_claim() -> None:
    counter = {s.claim for row in HEURISTICS for s in row.sweeps if s.basis == "counter"}
    assert counter == {"at fixed steps of plain cross-entropy raw complexity rises"}
    assert {n for row in HEURISTICS for n in row.covers} >= {85, 86, 87, 88, 89, 90, 93}
