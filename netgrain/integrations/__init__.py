"""Callbacks for training frameworks; each module needs its own extra, and `import netgrain` loads none of them."""
