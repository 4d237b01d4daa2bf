"""Figures and tables of the paper on geometric inductive biases."""
