"""Experiments are found by name, and run the same everywhere and at every scale."""

from pathlib import Path

import pytest

from netgrain import NetgrainError
from netgrain.experiments.registry import conclude_again, find, in_variant, names, preset, run_experiment
from netgrain.runtime.processes import Processes
from tests.experiments.conftest import SmokeRun


@pytest.mark.parametrize("name", ["gc-l2", "eq-uncertainty", "tab1"])
def test_processes_find_the_same(name: str, smoke_run: SmokeRun, tmp_path: Path) -> None:
    elsewhere = run_experiment(name, "smoke", tmp_path / "run", engine=Processes(2))
    assert elsewhere.computed > 0
    assert (tmp_path / "run" / "claims.json").read_bytes() == (smoke_run(name) / "claims.json").read_bytes()


def test_names_are_found_without_being_listed() -> None:
    assert {"fig1", "fig14", "tab2", "gc-l2", "gc-depth", "eq-ccq200"} < set(names())
    assert not {"grains", "pruning", "table", "studies", "protocol"} & set(names())  # what they share
    for name in ("grains", "table"):
        with pytest.raises(NetgrainError, match="is not known"):
            find(name)
    with pytest.raises(NetgrainError, match="did you mean 'fig9'"):
        find("figg9")
    with pytest.raises(NetgrainError, match="did you mean 'laptop'"):
        preset("fig9", "labtop")


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
        "seeds": 1, "most_seeds": 1, "members": 4,
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
    finished = run_experiment(name, "paper", tmp_path / "run", changes=TINY[name])
    assert finished.claims
    assert [c.as_dict() for c in conclude_again(tmp_path / "run").claims] == [c.as_dict() for c in finished.claims]


def test_a_variant_is_a_change_of_the_configuration() -> None:
    text, code = (preset("fig2", "paper", in_variant("fig2", v)) for v in ("text", "code"))
    assert text.rate("MLP") != code.rate("MLP")
    assert preset("tab1", "laptop", in_variant("tab1", "code")).variants == ("code",)
