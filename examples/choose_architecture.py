"""Choose between three architectures for a data set, before training any of them.

python examples/choose_architecture.py --out compare.html
"""

import argparse
from functools import partial
from pathlib import Path

import netgrain as ng
from netgrain.data import load
from netgrain.models import MLP, ResNet18, ViT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("compare.html"))
    parser.add_argument("--samples", type=int, default=1400)
    parser.add_argument("--width", type=float, default=0.25, help="of ResNet18 and ViT")
    arguments = parser.parse_args()
    train = load("digits", limit=arguments.samples)
    families = {
        "MLP": partial(MLP, channels=1, image_size=8),
        "ResNet18": partial(ResNet18, channels=1, image_size=8, width=arguments.width),
        "ViT": partial(ViT, channels=1, image_size=8, patch=4, width=arguments.width),
    }
    audits = [ng.audit(make, train.X, train.y, name=n, data="digits", note=train.note) for n, make in families.items()]
    found = ng.compare(audits)
    print(found)
    print(f"\nlook at {found.save(arguments.out)}")


if __name__ == "__main__":
    main()
