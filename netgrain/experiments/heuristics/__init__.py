"""Training heuristics and how geometric complexity follows them."""
