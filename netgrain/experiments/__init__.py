"""Studies that reproduce the papers: find an experiment, run it, judge its claims, or reproduce all of them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
