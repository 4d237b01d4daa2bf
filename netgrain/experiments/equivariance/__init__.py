"""Networks over groups: what the end of their training keeps small."""
