"""Valid bytes, documents and words, spoiled in every way: mutations get deeper than noise."""

from __future__ import annotations

import copy
import struct
from collections.abc import Iterator
from typing import Any

from tests.fuzzing.rules import Random

ABSURD = (0, 1, -1, 127, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**48, 2**62, 2**63 - 1)


def mutated(content: bytes, rng: Random) -> bytes:
    """One to four changes: bits, bytes, blocks, lengths and sizes."""
    spoiled = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        rng.choice(BYTE_CHANGES)(spoiled, rng)
    return bytes(spoiled)


def _place(content: bytearray, rng: Random) -> int:
    """Anywhere, but half the time near the start, where headers are."""
    end = len(content) if rng.random() < 0.5 else min(len(content), 200)
    return rng.randrange(end) if end else 0


def _flip(content: bytearray, rng: Random) -> None:
    if content:
        content[_place(content, rng)] ^= 1 << rng.randrange(8)


def _set(content: bytearray, rng: Random) -> None:
    if content:
        content[_place(content, rng)] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))


def _cut(content: bytearray, rng: Random) -> None:
    del content[_place(content, rng) :]


def _insert(content: bytearray, rng: Random) -> None:
    at = _place(content, rng)
    content[at:at] = rng.randbytes(rng.choice((1, 2, 7, 100)))


def _remove(content: bytearray, rng: Random) -> None:
    at = _place(content, rng)
    del content[at : at + rng.choice((1, 2, 8, 64))]


def _swap(content: bytearray, rng: Random) -> None:
    size = rng.choice((1, 4, 16))
    a, b = sorted((_place(content, rng), _place(content, rng)))
    if b + size <= len(content) and a + size <= b:
        content[a : a + size], content[b : b + size] = content[b : b + size], content[a : a + size]


def _repeat(content: bytearray, rng: Random) -> None:
    at = _place(content, rng)
    content[at:at] = content[at : at + rng.choice((4, 32, 512))]


def _number(content: bytearray, rng: Random) -> None:
    kind = rng.choice(("<I", ">I", "<Q", ">Q", "<H"))
    size = struct.calcsize(kind)
    at = _place(content, rng)
    content[at : at + size] = struct.pack(kind, rng.choice(ABSURD) % 2 ** (8 * size))


def _digits(content: bytearray, rng: Random) -> None:
    places = [i for i, c in enumerate(content[:2000]) if chr(c).isdigit()]
    if places:
        at = rng.choice(places)
        content[at : at + 1] = str(rng.choice(ABSURD)).encode()


def _empty(content: bytearray, rng: Random) -> None:
    if rng.random() < 0.2:
        content.clear()


BYTE_CHANGES = (_flip, _flip, _set, _set, _cut, _insert, _remove, _swap, _repeat, _number, _number, _digits, _empty)

JSON_VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 10**30, 1.5, float("nan"), float("inf"), "", "x", "../../up", "\x00", [], {}, [[]]),
    *([1, 2, 3], [-1], [2**40], [1e300], ["a"], {"a": 1}, {"kind": "dense"}, {"kind": []}),
)


def spoiled_json(value: Any, rng: Random) -> Any:
    """A document with one to three of its values, at any depth, replaced, removed or repeated."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = list(_places(value))
        if not places:
            return rng.choice(JSON_VALUES)
        inside, key = rng.choice(places)
        what = rng.random()
        if what < 0.25:
            del inside[key]
        elif what < 0.3 and isinstance(inside, list):
            inside.append(inside[key])
        else:
            inside[key] = copy.deepcopy(rng.choice(JSON_VALUES))
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    pairs = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    for key, inner in pairs:
        yield value, key
        yield from _places(inner)


SCRAPS = (
    *("", " ", ":", "::", "=", ",", "x", "×", "-", "--", ".", "..", "/", "~", "*", "(", ")", "0", "-1", "1e9", "1e400"),
    *(
        "nan",
        "inf",
        "None",
        "true",
        "9" * 25,
        "9" * 5000,
        "٣",
        "²",
        "½",
        "é",
        "\u202e",
        "\t",
        "\n",
        "\r",
        "\0",
        "~nobody/",
        "{}",
        "%s",
    ),
    *("\udcff", "'", '"', "\\", "[red]", "<b>", "=1+1", "data:", "timm:", "a" * 300),
)


def word(rng: Random, *known: str) -> str:
    """One of the known words, mostly spoiled."""
    text = rng.choice(known)
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        at = rng.randrange(len(text) + 1)
        what = rng.random()
        if what < 0.55:
            text = text[:at] + rng.choice(SCRAPS) + text[at:]
        elif what < 0.75:
            text = text[:at] + text[at + 1 :]
        elif what < 0.9:
            text = text[:at] + chr(rng.choice((rng.randrange(32, 127), rng.randrange(160, 0x2FF)))) + text[at + 1 :]
        else:
            other = rng.choice(known)
            text = text[:at] + other[rng.randrange(len(other) + 1) :]
    return text
