"""Proposition A.1: labels drop out for opposite heads only."""

from netgrain.experiments.theory import theorems


def test_labels_drop_out_for_opposite_heads_only() -> None:
    zero, shifted = theorems.label_part(0.0, 1, 3), theorems.label_part(0.3, 1, 3)
    assert zero < 1e-12
    assert shifted > 1e-3
