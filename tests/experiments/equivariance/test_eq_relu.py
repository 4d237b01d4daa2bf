"""ReLU networks: claims count the dead."""

from dataclasses import replace

import torch

from netgrain.experiments.equivariance import eq_relu
from tests.experiments.equivariance.made_up_curves import seeds_with, verdicts


def test_relu_claims_count_the_dead_and_can_fail() -> None:
    def result(end: float, dead: float) -> eq_relu.Result:
        noise = torch.linspace(0.99, 1.01, 5, dtype=torch.float64)[:, None]
        fourier = {n: torch.tensor([[200.0, 200.0 if n != "G-CNN" else end]]).double() * noise for n in eq_relu.NETS}
        fourier["G-CNN"] = fourier["G-CNN"] * torch.cat([noise, noise**2], 1)
        shares = {n: torch.tensor([[0.0, dead]]).double() + 0 * noise for n in eq_relu.NETS}
        training = {
            n: seeds_with({"fourier": fourier[n], "real": fourier[n], "dead": shares[n], "loss": shares[n]})
            for n in eq_relu.NETS
        }
        return eq_relu.Result(replace(eq_relu.PRESETS["smoke"], seeds=5), {"SGD": training})

    low, high = verdicts(eq_relu.claims(result(100, 0.0))), verdicts(eq_relu.claims(result(300, 0.5)))
    for name in ("falls by more than the FC", "ends below the CNN"):
        assert low[f"the ReLU G-CNN {name} (SGD)"] == "holds"
        assert high[f"the ReLU G-CNN {name} (SGD)"] == "fails"
    assert low["few samples of the ReLU G-CNN die (SGD)"] == "holds"
    assert high["few samples of the ReLU G-CNN die (SGD)"] == "fails"
