"""Data: image sets with their files checked, and synthetic sets whose label lies along chosen directions.

Downloading and unpacking are in `netgrain.data.download`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
