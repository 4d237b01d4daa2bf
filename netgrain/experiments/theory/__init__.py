"""Every theorem, conjecture, lemma and example of the paper as a statement that a command checks."""
