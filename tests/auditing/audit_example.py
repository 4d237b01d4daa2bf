"""Made-up but complete reports for the page: hostile strings, a 1-D input, sections that were not measured."""

import base64
import math
import random
import struct
import zlib
from typing import Any

HOSTILE = "<script>alert(1)</script>"
BREAKING = '" onmouseover="x'
CLOSING = "</script><img src=x onerror=alert(2)>\u2028 & 'quoted'"
SECTIONS = ["verdict", "expected", "data", "geometry", "spectrum", "leading", "zero", "labels", "directions"]
SECTIONS += ["scales", "samples", "features", "complexity", "layers", "what_if", "sentences"]


def png(values: list[list[tuple[int, int, int]]]) -> str:
    """A small RGB picture as a data address."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    raw = b"".join(b"\0" + bytes(c for pixel in row for c in pixel) for row in values)
    header = struct.pack(">IIBBBBB", len(values[0]), len(values), 8, 2, 0, 0, 0)
    whole = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(whole).decode()


def _wave(k: int, l: int, side: int) -> str:
    def pixel(i: int, j: int) -> tuple[int, int, int]:
        v = math.cos(math.pi * k * (i + 0.5) / side) * math.cos(math.pi * l * (j + 0.5) / side)
        return (int(247 - 200 * max(0, -v)), int(246 - 150 * abs(v)), int(242 - 200 * max(0, v)))

    return png([[pixel(i, j) for j in range(side)] for i in range(side)])


def _spot(k: int, l: int, side: int) -> str:
    dark, light = (26, 28, 32), (240, 200, 120)
    at = {((side // 2 + s * k // 2) % side, (side // 2 + t * l // 2) % side) for s in (1, -1) for t in (1, -1)}
    return png([[light if (i, j) in at else dark for j in range(side)] for i in range(side)])


def _noise(rng: random.Random, side: int) -> str:
    return png(
        [[(rng.randrange(256), rng.randrange(256), rng.randrange(256)) for _ in range(side)] for _ in range(side)]
    )


def est(value: float, stderr: float | None = 0.01, n: int = 100) -> dict[str, Any]:
    return {"value": value, "stderr": stderr, "n": n}


def _layer(name: str, i: int) -> dict[str, Any]:
    numbers = {key: est(1.1 * 0.8**i) for key in ("gain", "factor", "response", "differs")} | {"silent": 0.1 * i}
    return {"name": name, "type": "Conv2d", "shape": [8, 8, 8], **numbers, "trained": numbers}


def expected(samples: int, classes: list[str]) -> dict[str, Any]:
    """A prediction with its learning curve."""
    sizes = [samples // 8, samples // 4, samples // 2, samples]
    points = [{"samples": n, "score": est(0.5 + 0.1 * i, 0.03), "measured": True} for i, n in enumerate(sizes)]
    return {
        "model": "resnet18",
        "measure": "accuracy",
        "network": "random",
        "score": est(0.83, 0.03),
        "error": {"samples": 0.01, "members": 0.005, "model": 0.027},
        "chance": 0.1,
        "at_chance": False,
        "balanced": est(0.8, 0.02),
        "per_class": {**{name: est(0.8, 0.03) for name in classes[1:]}, classes[0]: None},
        "counts": dict.fromkeys(classes, samples // 10),
        "kernel": "layers",
        "curve": {
            "samples": sizes,
            "scores": [p["score"] for p in points],
            "twice": est(0.85, 0.005),
            "enough": [8000, 4000, None],
        },
        "points": [*points, {"samples": 2 * samples, "score": est(0.85, 0.04), "measured": False}],
        "all": {"samples": samples, "score": est(0.83, 0.03)},
        "shares": {"now": est(0.6, 0.02), "later": est(0.1, 0.02), "never": est(0.3, 0.03), "bands": []},
        "label_noise_at_most": est(0.1, 0.02),
        "trial": None,
        "combined": None,
        "warning": None,
        "remarks": [HOSTILE],
        "settings": {"samples": samples, "given": samples, "seed": 0, "recipe": "AdamW", "record": "16 tasks"},
    }


def scales() -> dict[str, Any]:
    """By size of pattern: three bands, the finest one weak."""
    names, ends = ("2–4 px", "4–8 px", "8 px and coarser"), ((2.0, 4.0), (4.0, 8.0), (8.0, None))
    values = ((0.86, 0.03, 0.1, 0.31), (0.11, 2.9, 0.3, 0.49), (0.03, 21.9, 0.6, None))
    rows = [
        {"name": name, "from": low, "to": high, "dimensions": size, "gain": est(gain), "trained": est(gain)}
        | {"variance": est(variance), "labels": None if labels is None else est(labels, 0.04)}
        for name, (low, high), (size, gain, variance, labels) in zip(names, ends, values, strict=True)
    ]
    weak = {"bands": ["2–4 px"], "finer_than": 4.0, "gain": est(0.03), "variance": est(0.1)}
    return {
        "kind": "image",
        "unit": "px",
        "members": 8,
        "points": 32,
        "samples": 1437,
        "target": "classes",
        "threshold": 0.1,
        "bands": rows,
        "weak": weak | {"labels": est(0.31, 0.04), "labels_found": True},
    }


def example(
    side: int = 8, *, noise: bool = False, samples: int = 1437, model: str = "resnet18:norm=none"
) -> dict[str, Any]:
    """A complete report on pictures; with noise=True pictures that do not compress."""
    rng = random.Random(0)
    d = side * side
    classes = ["0", "1", "2", HOSTILE, BREAKING, CLOSING, "6", "7", "8", "9"]
    decay = [(i + 1) ** -1.6 for i in range(d)]
    mean = sum(decay) / d
    network = [v / mean for v in decay]
    stops = sorted({min(d - 1, round(math.exp(math.log(d) * i / 199)) - 1) for i in range(200)})
    chosen = [*range(16), *range(d // 2 - 8, d // 2 + 8), *range(d - 16, d)]

    def direction(n: int, i: int) -> dict[str, Any]:
        k, l = i // side, i % side
        return {
            "index": i,
            "group": ("strongest", "middle", "weakest")[n // 16],
            "eigenvalue": network[i],
            "cumulative": sum(decay[: i + 1]) / sum(decay),
            "block": [1, 3] if i in (1, 2) else [i, i + 1],
            "data_variance": 3.0 / (1 + i / 3),
            "label_relevance": 0.6 / (1 + i / 9),
            "nonlinear": min(1.0, 0.75 / (1 + i / 12) + 0.05),
            "picture": _noise(rng, side) if noise else _wave(k, l, side),
            "fourier": _noise(rng, side) if noise else _spot(k, l, side),
            "bars": None,
        }

    def scored(kind: int) -> list[dict[str, Any]]:
        pictures = [_noise(rng, side) if noise else _wave(kind + j, j, side) for j in range(6)]
        return [
            {"index": rng.randrange(samples), "score": 2.1 - kind - 0.1 * j, "picture": p}
            for j, p in enumerate(pictures)
        ]

    return {
        "schema": 2,
        "netgrain": "0.1.0",
        "date": "2026-11-16",
        "model": model,
        "seed": 0,
        "network": {"parameters": 11000, "operations": 4.5e6, "given": False, "family_known": True, "quick": False},
        "left_out": [],
        "verdict": {
            "sentence": f"Expect about 83 ± 3 % from this network; {HOSTILE} is hard.",
            "level": "warning",
            "action": f"Collect more samples of {HOSTILE}.",
        },
        "alerts": [
            {
                "level": "warning",
                "title": f"{BREAKING} is rare",
                "evidence": CLOSING,
                "action": f"Collect more samples of {HOSTILE}.",
                "panel": "expected",
                "weight": 2.0,
            },
            {
                "level": "note",
                "title": "More samples would help",
                "evidence": "Twice as many would add 2.3 ± 0.5 points.",
                "action": "Collect up to 8,000.",
                "panel": "expected",
                "weight": 1.0,
            },
        ],
        "expected": expected(samples, classes),
        "data": {
            "name": "digits",
            "note": "Pixels standardised per channel: mean 4.88, standard deviation 6.02.",
            "samples": samples,
            "given": samples,
            "target": "classes",
            "classes": classes,
            "per_class": [samples // 10] * 10,
            "input_shape": [1, side, side],
            "features": None,
        },
        "geometry": {
            "method": "closed-form",
            "how": "closed form, exact at any width, no network sampled",
            "probe": "origin",
            "where": "at the origin x = 0",
            "exact": True,
            "members": 0,
            "corr_with_truth": 1.0,
            "trace": est(12.345, 0.0),
            "effective_rank": est(5.62, 0.031),
            "d": d,
            "known": d,
            "largest": network[0],
            "directions_50": 2,
            "directions_90": 7,
            "directions_99": 15,
            "notes": ["The probe is the origin."],
            "zero": False,
        },
        "spectrum": {
            "index": stops,
            "network": [network[i] for i in stops],
            "flat": [1.0] * len(stops),
            "data": [6.0 / (1 + i / 2) for i in stops],
            "data_along": [3.0 / (1 + i / 3) for i in stops],
        },
        "zero": {"at_probe": 0, "invisible": 0},
        "leading": {
            "count": 15,
            "definition": "The leading directions that together carry 99 % of the trace of G.",
            "data_variance": est(0.732, 0.011),
            "weak_variance": est(0.268, 0.011),
        },
        "labels": {
            "mean_difference": est(0.913, 0.008),
            "linear": {
                "all": est(0.951, 0.006),
                "leading": est(0.874, 0.009),
                "weak": est(0.412, 0.02),
                "chance": 0.1,
            },
            "nonlinear": est(0.71, 0.02),
            "reaction": est(6.6, 0.3),
        },
        "scales": scales(),
        "directions": [direction(n, i) for n, i in enumerate(chosen)],
        "samples": {
            "edges": [0.1 * i for i in range(21)],
            "counts": [[int(40 * math.exp(-((i - 6 - c) ** 2) / 12)) for i in range(20)] for c in range(10)],
            "classes": [{"name": name, "best": scored(0), "worst": scored(1)} for name in classes],
            "keep": 0.7,
            "kept": sorted(rng.sample(range(samples), int(0.7 * samples))),
        },
        "features": {
            "dropped": [
                {"directions": k, "variance": 0.004 * k, "accuracy": est(0.95 - 0.00012 * k * k, 0.012)}
                for k in range(0, 61, 10)
            ],
            "named": None,
        },
        "complexity": {
            "initial": est(0.84, 0.03),
            "trained": est(11.2, 0.4),
            "moved": {"corr": est(0.62, 0.02), "rows": [["Most of the move", "ranks 3 to 9"], [HOSTILE, BREAKING]]},
        },
        "layers": {
            "rows": [_layer(name, i) for i, name in enumerate(["conv1", "stages.0.0.conv1", HOSTILE, "pool", "head"])],
            "loses": {"name": "pool", "type": "AvgPool2d", "factor": est(0.35)},
            "trained_loses": None,
            "members": 4,
            "samples": 64,
            "why": "",
        },
        "what_if": [
            {
                "change": "pool1 → AvgPool2d(2)",
                "sentence": "Average pooling gives back 7 directions and most of the label signal.",
                "leading": {"before": 15, "after": 22},
                "labels": {"before": 0.5, "after": 0.9},
                "spectrum": [network[i] ** 0.8 for i in stops],
            }
        ],
        "sentences": [
            {
                "level": "good",
                "text": "Most of what separates the classes (91 % ± 1) lies where this network can learn it.",
                "more": "The share of the squared differences between class means inside the leading directions.",
            },
            {
                "level": "note",
                "text": f"ResNet18 puts 90 % of its geometry into 7 of {d} directions.",
                "more": "Of the trace of G.",
            },
            {
                "level": "warn",
                "text": "27 % of the data's variance lies in directions it can hardly learn.",
                "more": "Outside of the leading directions.",
            },
            {"level": "bad", "text": f"The class {HOSTILE} is almost invisible to it.", "more": BREAKING},
        ],
    }


def tabular() -> dict[str, Any]:
    """A report on a 1-D input: bars with feature names instead of pictures."""
    report = example()
    names = [
        "age",
        "income",
        HOSTILE,
        BREAKING,
        "a feature with a rather long name that must be shortened",
        "height",
        "weight",
        "steps",
    ]
    report["model"], report["data"]["name"] = "tabular.py:make", "people.npz"
    report["data"] |= {"input_shape": [8], "features": names}
    for n, direction in enumerate(report["directions"]):
        direction |= {"picture": None, "fourier": None, "bars": [math.cos(0.4 * (n + 1) * (j + 0.5)) for j in range(8)]}
    for entry in report["samples"]["classes"]:
        for sample in entry["best"] + entry["worst"]:
            sample["picture"] = None
    report["features"]["named"] = [{"name": name, "share": 0.3 / (i + 1)} for i, name in enumerate(names)]
    return report


def unmeasured() -> dict[str, Any]:
    """Every section null."""
    return {"netgrain": "0.1.0", "date": "2026-11-16", "model": "mixer", "seed": 0} | dict.fromkeys(SECTIONS)


def several() -> dict[str, Any]:
    """A comparison of three audits, one of them not measured."""
    other = example(model="vit:depth=2")
    other["spectrum"]["network"] = [v**0.6 for v in other["spectrum"]["network"]]
    other["directions"] = other["directions"][::-1][:40]
    return {
        "netgrain": "0.1.0",
        "date": "2026-11-16",
        "schema": 2,
        "verdict": {"sentence": f"Cannot tell {HOSTILE} and vit apart.", "level": "note", "action": f"Take {HOSTILE}."},
        "ranking": [
            {"model": name, "score": est(0.8, 0.03), "like_best": True, "warning": None, "parameters": 10}
            | {"operations": 1e6, "step_operations": None}
            for name in ("resnet18:norm=none", "vit:depth=2", HOSTILE)
        ],
        "audits": [example(), other, unmeasured() | {"model": HOSTILE}],
    }
