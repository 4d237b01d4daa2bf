"""Mistakes about models and arguments."""

from __future__ import annotations

from tests.mistakes import Mistake

MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        "an unknown model",
        argv=("geometry", "resnet81", "--input", "1x32x32"),
        says=r"no built-in model called 'resnet81'\. Did you mean 'resnet18'\?",
    ),
)
