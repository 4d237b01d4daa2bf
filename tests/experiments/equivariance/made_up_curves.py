"""Made-up curves of the image experiments."""

import torch

from netgrain.experiments.equivariance import images
from netgrain.experiments.equivariance.studies import Seeds
from netgrain.runtime.units import Outcome


def verdicts(claims: list) -> dict[str, str]:
    return {c.name: c.verdict for c in claims}


def seeds_with(arrays: dict[str, torch.Tensor], numbers: dict[str, list[float]] | None = None) -> Seeds:
    """Made-up outcomes: arrays (seeds, …) and numbers, one for each seed."""
    count = len(next(iter((numbers or arrays).values())))
    return Seeds(
        Outcome({n: v[i] for n, v in (numbers or {}).items()}, {n: v[i] for n, v in arrays.items()})
        for i in range(count)
    )


def curves_that_fall(fall: float, kinds: tuple[str, ...] = ("direct", "semidirect")) -> images.ImageCurves:
    """G-CNNs start at half of the others and change by `fall`; the others halve."""
    noise = 1 + 0.01 * torch.arange(5.0, dtype=torch.float64)[:, None]
    values = {}
    for net in images.NETS:
        for space in kinds if "G-CNN" not in net else [net.split(", ")[1]]:
            ends = [50.0, 50.0 * fall] if "G-CNN" in net else [100.0, 50.0]
            values[f"{net}/{space}"] = torch.tensor([ends], dtype=torch.float64) * torch.cat([noise, noise**2], 1)
        values[f"{net}/real"] = torch.tensor([[10.0, 10.0 + 5 * (1 - fall)]], dtype=torch.float64) * noise
        if net == "FC":
            values[f"{net}/real"] = torch.tensor([[10.0, 10.0]], dtype=torch.float64) * noise.flip(0)
        values[f"{net}/margin"] = values[f"{net}/accuracy"] = torch.ones(5, 2, dtype=torch.float64)
    return images.ImageCurves(torch.tensor([0, 1]), values)
