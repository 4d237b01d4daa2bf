"""What people call the training and the test part of their data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")

NAMES = {
    "train": ("train", "training"),
    "test": ("test", "testing"),
    "validation": ("val", "valid", "validation", "dev", "eval"),
}


def part_of(word: str) -> str | None:
    """The part that a word names.

    >>> part_of("Training"), part_of("val"), part_of("cat")
    ('train', 'validation', None)
    """
    return next((part for part, names in NAMES.items() if word.casefold() in names), None)


def train_and_test(parts: Mapping[str, T]) -> list[T]:
    """Of the parts by name, the training part and the test part, or the validation part where there is no test part.

    >>> train_and_test({"test": 2, "train": 1, "validation": 3})
    [1, 2]
    """
    return [parts[name] for name in ("train", "test", "validation") if name in parts][:2]
