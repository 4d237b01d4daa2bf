"""Learnability, measured: predicted scores beside those that trained networks reach."""

STUDY = "learnability"  # what `netgrain reproduce --only` calls it
TITLE = "Learnability"
