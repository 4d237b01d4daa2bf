"""Every experiment goes through one contract."""

import json

import pytest

from netgrain.experiments.claims import BASES, VERDICTS
from netgrain.experiments.contract import OWN_SCALES, SCALES
from netgrain.experiments.registry import conclude_again, find, names, own_studies, studies
from tests.experiments.conftest import SmokeRun


@pytest.mark.parametrize("name", names())
@pytest.mark.timeout(240)
def test_contract(name: str, smoke_run: SmokeRun) -> None:
    experiment = find(name)
    assert experiment.name == name
    assert set(experiment.PRESETS) == set(OWN_SCALES if experiment.study in own_studies() else SCALES)
    assert experiment.title
    assert experiment.study in studies()
    assert experiment.cost > 0
    folder = smoke_run(name)
    stored, picture = json.loads((folder / "claims.json").read_text()), (folder / "figure.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert stored
    assert all(c["verdict"] in VERDICTS and c["basis"] in BASES for c in stored)
    again = conclude_again(folder)
    assert again.computed == 0
    assert [{"experiment": name, **c.as_dict()} for c in again.claims] == stored
    assert (folder / "figure.png").read_bytes() == picture
