"""Figure 13 is figure 12 with batches that grow with the data."""

from dataclasses import replace

import pytest

from netgrain.experiments.contract import SCALES
from netgrain.experiments.grain import fig12, fig13
from netgrain.experiments.grain.following import snapshots_by_epoch


@pytest.mark.quick
@pytest.mark.parametrize("scale", SCALES)
def test_the_number_of_steps_does_not_depend_on_the_number_of_samples(scale: str) -> None:
    config, before = fig13.PRESETS[scale], fig12.PRESETS[scale]
    assert replace(config, batches=before.batches) == before

    def steps(c: fig12.Config) -> list[int]:
        pairs = zip(c.samples, c.batches, strict=True)
        return [snapshots_by_epoch(samples, batch, c.epochs, c.every)[-1] for samples, batch in pairs]

    assert len(set(steps(config))) == 1
    assert len(set(steps(before))) == len(before.samples)
