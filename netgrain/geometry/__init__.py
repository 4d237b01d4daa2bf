"""The average geometry G: the value, how it is held, and the ways to obtain it."""
