"""Sweeps: a family trained at several settings and seeds, and how its geometric complexity follows."""
