# %% [markdown]
# # Pick a network
# Four built-in networks on the same images: which one will do best, and which cannot be told apart before training?

# %%
from functools import partial

import netgrain as ng
from netgrain.data import load
from netgrain.learning import ranking
from netgrain.models import MLP, ResNet18, ViT

digits = load("digits")
X, y = digits.X[:500], digits.y[:500]
size = {"channels": 1, "image_size": 8}
networks = {
    "linear": partial(MLP, depth=0, **size),
    "MLP": partial(MLP, **size),
    "ResNet18": partial(ResNet18, width=1 / 8, **size),
    "ViT": partial(ViT, patch=4, depth=2, width=1 / 4, **size),
}
found = {name: ng.learnability(make, X, y, trial=False, progress=False) for name, make in networks.items()}

# %% [markdown]
# `ranking` marks the networks that cannot be told apart from the best one. A prediction has an error of some points, so differences of one
# point mean nothing.

# %%
for place in ranking(list(found.values()), list(found)):
    print(f"{place.name:8s} {place.score.with_error:16s} {'like the best' if place.like_best else 'lower'}")

# %%
figure = found["ResNet18"].plot()
