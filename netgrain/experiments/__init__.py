"""Studies that reproduce the papers: one file per figure or table, found by being there."""
