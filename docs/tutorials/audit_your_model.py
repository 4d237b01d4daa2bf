# %% [markdown]
# # Audit your model
# You have a PyTorch module and labelled images. What accuracy should you expect, and what limits it? You will know in a minute,
# without training.

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
# `ng.audit` takes anything that returns a fresh module, such as the class itself, and your samples and labels. `quick=True` leaves out what
# takes longest. The first line is the verdict, the second what to do.

# %%
report = ng.audit(Net, X, y, quick=True, progress=False)
report.save("report.html")  # the whole page: one file that works offline
report

# %% [markdown]
# ## Step by step
# The audit puts several answers on one page. Each is also a function of its own. `ng.learnability` predicts the accuracy of the trained
# network from a few random ones. Its error includes how far such predictions were from networks that were trained.

# %%
found = ng.learnability(Net, X, y, trial=False, progress=False)
found

# %% [markdown]
# The learning curve shows whether more samples would help.

# %%
ax = found.plot_curve()

# %% [markdown]
# To which patterns does the network react? The average geometry G = E[JᵀJ], J the Jacobian of a random network at your data, has them as
# eigenvectors. `directions_for(0.9)` is the number of patterns that carry 90% of the reaction.

# %%
G = ng.average_geometry(Net, X.shape[1:], probe=ng.Data(X[:200]), members=64, progress=False)
G, G.directions_for(0.9)

# %%
figure = G.plot_directions(8)

# %% [markdown]
# On the command line: `netgrain audit my_file.py:Net --data my_images/ --out report.html`.
