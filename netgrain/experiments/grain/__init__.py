"""Figures and tables of the paper on geometric inductive biases."""

STUDY = "geometry"  # what `netgrain reproduce --only` calls it
TITLE = "Geometric inductive biases of deep networks"
