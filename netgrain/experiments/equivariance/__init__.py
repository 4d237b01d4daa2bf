"""Networks over groups: what the end of their training keeps small."""

STUDY = "equivariant"  # what `netgrain reproduce --only` calls it
TITLE = "Linear equivariant networks"
