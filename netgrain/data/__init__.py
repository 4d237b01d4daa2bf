"""Labelled samples as values: from names, files, folders and tensors, and synthetic sets along chosen directions.

Downloading and unpacking are in `netgrain.data.download`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
