# %% [markdown]
# # Watch and regularise while training
# Geometric complexity, the mean squared norm of the input Jacobian over the data, grows while a network fits. A tracker records it in any
# loop; a regulariser keeps it small.

# %%
import torch
from torch import nn

import netgrain as ng
from netgrain.data import load
from netgrain.models import MLP

digits = load("digits")
X, y = digits.X[:300], digits.y[:300]


def trained(regularizer: ng.regularizers.Regularizer) -> ng.ComplexityTracker:
    torch.manual_seed(0)
    model = MLP(channels=1, image_size=8)
    tracker = ng.ComplexityTracker(model, X, y, every=20)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(201):
        tracker(step)
        optimizer.zero_grad()
        regularizer.backward(nn.functional.cross_entropy, model, X, y)
        optimizer.step()
    return tracker


plain = trained(ng.regularizers.L2(0.0))
ax = plain.plot()

# %% [markdown]
# The same with noise on the inputs, which is known to keep the complexity down:

# %%
noisy = trained(ng.regularizers.InputNoise(0.5))
for name, tracker in (("plain", plain), ("noise", noisy)):
    print(name, f"complexity {tracker.history['gc'][-1].value:.1f}, accuracy {tracker.history['accuracy'][-1]:.2f}")
