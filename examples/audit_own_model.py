"""Audit a model of your own on data of your own, and read the findings.

python examples/audit_own_model.py --out report.html
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn

import netgrain as ng


class Net(nn.Module):
    """Any module will do: what it is made of is looked at, nothing has to be declared."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.GELU(), nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.GELU()
        )
        self.head = nn.Linear(16 * 4 * 4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x).flatten(1))


def data(samples: int) -> tuple[Tensor, Tensor]:
    """Is there a faint checkerboard in the noise?"""
    generator = torch.Generator().manual_seed(0)
    X, y = torch.randn(samples, 1, 16, 16, generator=generator), torch.arange(samples) % 2
    board = torch.ones(16, 16)
    board[::2, ::2] = board[1::2, 1::2] = -1
    return X + 0.3 * y[:, None, None, None] * board, y


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("report.html"))
    parser.add_argument("--samples", type=int, default=2000)
    arguments = parser.parse_args()
    found = ng.audit(Net, *data(arguments.samples), name="Net", data="checkerboards", note="made up, unit noise")
    print(found)
    print(f"\nlook at {found.save(arguments.out)}")


if __name__ == "__main__":
    main()
