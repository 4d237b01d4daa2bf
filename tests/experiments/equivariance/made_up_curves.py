"""Made-up curves of the image experiments."""

import torch

from netgrain.experiments.equivariance import images


def verdicts(claims: list) -> dict[str, str]:
    return {c.name: c.verdict for c in claims}


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
