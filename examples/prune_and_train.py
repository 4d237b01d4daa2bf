"""Drop the samples to which a fresh network reacts least, train on the rest, and compare with dropping at random.

python examples/prune_and_train.py --keep 0.5
"""

import argparse
from functools import partial

import torch

import netgrain as ng
from netgrain.data import load_split
from netgrain.models import MLP, LeNet
from netgrain.training import Settings, accuracy, train_member


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=float, default=0.5)
    parser.add_argument("--samples", type=int, default=1400)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    split = load_split("digits", limit=(arguments.samples, 360))
    X, y, side = split.train.X, split.train.y, split.train.X.shape[-1]
    make = partial(LeNet if side >= 16 else MLP, channels=1, image_size=side)
    G = ng.average_geometry(make, tuple(X.shape[1:]))
    scored = ng.prune(G, X, y, keep=arguments.keep)
    settings = Settings(lr=0.1, steps=arguments.steps, batch=64)
    for seed in range(arguments.seeds):
        generator = torch.Generator().manual_seed(seed)
        chance = torch.randperm(len(X), generator=generator)[: len(scored)]
        found = []
        for rows in (scored, chance):
            trained = train_member(make, X[rows], y[rows], settings, seed=seed, i=0)
            found.append(accuracy(trained.model(make), split.test.X, split.test.y))
        print(f"seed {seed}: kept by score {found[0]:.1%}, kept at random {found[1]:.1%} ({len(scored)} samples)")


if __name__ == "__main__":
    main()
