"""Learnability, measured: predicted scores beside those that trained networks reach."""

STUDY = "learnability"  # what `netgrain reproduce --only` calls it
TITLE = "Learnability"
OF_A_PAPER = False  # a study of our own: `netgrain reproduce` runs it only when asked for
