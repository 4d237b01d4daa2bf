"""The files of your own that the README and the docs talk about, made up so that every line there can be typed.

python examples/make_files.py --out out/demo
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from mymodels import Net
from PIL import Image
from safetensors.torch import save
from torch import Tensor
from torch.nn.functional import cross_entropy

from netgrain.runtime.files import write_whole


def scratch() -> Tensor:
    """A scratch one pixel wide on a grey image, 1 × 32 × 32."""
    image = torch.zeros(1, 32, 32)
    image[0, range(4, 28), [row // 3 + 10 for row in range(4, 28)]] = 1
    return image


def boards(samples: int = 400) -> tuple[Tensor, Tensor]:
    """Colour noise of 16 × 16; in every second image a faint checkerboard."""
    generator = torch.Generator().manual_seed(0)
    X, y = torch.randn(samples, 3, 16, 16, generator=generator), torch.arange(samples) % 2
    board = torch.ones(16, 16)
    board[::2, ::2] = board[1::2, 1::2] = -1
    return X + 0.5 * y[:, None, None, None] * board, y


def trained(X: Tensor, y: Tensor, steps: int = 60) -> dict[str, Tensor]:
    """The weights of a Net that has seen the boards for a few seconds."""
    torch.manual_seed(0)
    model = Net(channels=3, outputs=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        cross_entropy(model(X), y).backward()
        optimizer.step()
    return {name: value.detach() for name, value in model.state_dict().items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/demo"))
    out = parser.parse_args().out
    X, y = boards()
    (out / "photos").mkdir(parents=True, exist_ok=True)
    np.save(out / "defect.npy", scratch().numpy())
    np.savez(out / "my.npz", X=X.numpy(), y=y.numpy())
    write_whole(out / "trained.safetensors", save(trained(X, y)))
    for i, (x, label) in enumerate(zip(X[:60], y[:60], strict=True)):
        folder = out / "photos" / ("plain", "board")[int(label)]
        folder.mkdir(exist_ok=True)
        pixels = (128 + 40 * x).clamp(0, 255).byte().permute(1, 2, 0).numpy()
        Image.fromarray(pixels).resize((64, 64), Image.Resampling.NEAREST).save(folder / f"{i:02}.png")
    print(f"made files to play with in {out}: defect.npy, my.npz, trained.safetensors, photos/")


if __name__ == "__main__":
    main()
