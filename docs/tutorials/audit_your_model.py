# %% [markdown]
# # Audit your model
# You have a PyTorch module and labelled images. What should you expect, and what limits it? This takes a minute, and no
# training.

# %%
import torch
from torch import nn

import netgrain as ng
from netgrain.data import load


class Net(nn.Module):
    """A small network with a coarse first layer: it averages over 4 × 4 pixels early."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 16, 4, stride=4), nn.ReLU(), nn.Flatten())
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x))


digits = load("digits")
X, y = digits.X[:600], digits.y[:600]

# %% [markdown]
# A *family* is anything that returns a fresh module, such as the class itself. The score is that of a trained network,
# predicted from a few random ones, with an error that counts how far such predictions were from trained networks.

# %%
found = ng.learnability(Net, X, y, trial=False, progress=False)
found

# %% [markdown]
# The learning curve says whether more samples would help.

# %%
ax = found.plot_curve()

# %% [markdown]
# Which patterns does it react to? The first directions of the average geometry G at the data:

# %%
G = ng.average_geometry(Net, X.shape[1:], probe=ng.Data(X[:200]), members=64, progress=False)
G, G.directions_for(0.9)

# %% [markdown]
# `ng.audit(Net, X, y)` puts all of this on one page, with what to do; `.save("report.html")` writes it.
