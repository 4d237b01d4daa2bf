"""Training heuristics and how geometric complexity follows them."""

STUDY = "complexity"  # what `netgrain reproduce --only` calls it
TITLE = "Geometric complexity"
