"""Linear and ReLU networks over groups, what their training minimises, and where it ends.

>>> import torch
>>> from netgrain.equivariant import limit
>>> from netgrain.groups import dihedral
>>> X = torch.tensor([[1.0, 1, -1, -1, 1, 1, -1, -1], [1, -1, -1, 1, 1, -1, -1, 1]])  # two characters
>>> found = limit(dihedral(order=8), X, torch.tensor([-1.0, 1.0]), depth=2)
>>> round(found.objective, 4), found.weighted_rank
(2.0, 2)
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
