"""The grain of four networks before any training: their average geometry as pictures, numbers and plain words.

For each of MLP, LeNet, ResNet18 and ViT (one channel of 32×32, one output, no normalisation) this finds the average
G = E[JᵀJ] over random networks and looks at it, twice. With GELU at the origin x = 0, where a network is a linear map:
in closed form for the first three, by sampling for the last. And with ReLU at images, where units switch on and off:
narrow networks, sampled. G says how strongly, on average, the output reacts to each pattern in the input. It is no
prediction of what training will do.

    python examples/demo.py                  # everything into out/demo, under a minute on two cores
    python examples/demo.py --small          # narrow networks, a few seconds
    python examples/demo.py --data cifar10 --width 1 --tolerance 0.02     # as in the README; minutes
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch

import netgrain as ng
from netgrain.data import load
from netgrain.geometry import plots
from netgrain.models import MLP, LeNet, ResNet18, ViT
from netgrain.runtime.files import write_whole
from netgrain.runtime.threads import one_thread

TITLES = {"gelu": "GELU", "relu": "ReLU"}
NETWORKS = {"MLP": MLP, "LeNet": LeNet, "ResNet18": ResNet18, "ViT": ViT}
SHARES = (0.5, 0.9, 0.99)
IMAGES = 1000  # of the data set, to take G at
ALIKE = 0.99  # Corr with the identity, corrected for sampling noise, from which on no grain is seen
POINTS = 16  # of them for one random network
SLOW = 8  # pixels: the shortest wavelength that counts as a slow pattern


def main() -> int:
    options = arguments()
    try:
        return run(options)
    except ng.NetgrainError as e:
        print(f"error: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; every file that is there is whole", file=sys.stderr)
        return 130


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="folder for the results (out/demo)")
    parser.add_argument("--members", type=int, help="sample this many random networks instead")
    parser.add_argument("--data", default="digits", help="images for ReLU networks, made grey and 32×32 (digits)")
    parser.add_argument("--width", type=float, default=0.25, help="of the ReLU networks (0.25)")
    parser.add_argument("--tolerance", type=float, default=0.1, help="1 − Corr with the true G for these (0.1)")
    parser.add_argument("--small", action="store_true", help="narrow networks on 16×16 images, rougher averages")
    return parser.parse_args()


def run(options: argparse.Namespace) -> int:
    started = time.perf_counter()
    side = 16 if options.small else 32
    wanted = {"members": options.members} if options.members else {"tolerance": 0.2 if options.small else 0.01}
    images = grey(options.data, side)
    at_images = dict(wanted) if options.small or options.members else {"tolerance": options.tolerance}
    at_images |= {"probe": images, "probes": POINTS, "method": "sampled"}

    rows = measured(options, "gelu", side, 0.25 if options.small else 1.0, wanted, " at the origin", "")
    place = f" at {options.data}"
    rows += measured(options, "relu", side, options.width, at_images, place, f"-relu-{options.data}")

    table = markdown(rows)
    words = "\n".join(f"- {sentence}" for row in rows for sentence in sentences(row))
    write_whole(options.out / "table.md", f"{table}\n\n{words}\n".encode())
    write_whole(options.out / "table.json", (json.dumps(rows, indent=2, allow_nan=False) + "\n").encode())

    print(f"\n{table}\n\n{words}\n")
    print(f"look at {options.out / 'geometry.png'}: GELU at the origin, one column per network, G above its spectrum")
    print(f"look at {options.out / f'geometry-relu-{options.data}.png'}: the same for ReLU at {images.describe()}")
    print(
        f"look at {options.out / 'lenet-directions.png'}: patterns it reacts to most and least (one file per network)"
    )
    print(f"the numbers are in {options.out / 'table.md'} and {options.out / 'table.json'}")
    print(f"{time.perf_counter() - started:.0f} seconds in total")
    return 0


def measured(
    options: argparse.Namespace,
    activation: str,
    side: int,
    width: float,
    wanted: dict[str, Any],
    place: str,
    suffix: str,
) -> list[dict[str, Any]]:
    """The rows of four networks; their geometries, directions and picture are written."""
    geometries: dict[str, ng.Geometry] = {}
    rows: list[dict[str, Any]] = []
    for name, network in NETWORKS.items():
        clock = time.perf_counter()
        make = partial(network, activation=activation, channels=1, outputs=1, norm=None, image_size=side, width=width)
        G = ng.average_geometry(make, (1, side, side), **wanted)
        with one_thread():  # two threads on a machine that does something else too can be ten times slower than one
            row = {"network": name, "activation": activation, "width": width, "place": place.strip(), **numbers(G)}
        row["seconds"] = round(time.perf_counter() - clock, 2)
        print(f"{name}, {activation}{place}: {row['how']}, {row['seconds']:.1f} s", flush=True)
        geometries[f"{name}, {TITLES[activation]}{place}"] = G
        rows.append(row)
        G.save(options.out / f"{name.lower()}{suffix}.safetensors")
        write_whole(options.out / f"{name.lower()}{suffix}-directions.png", plots.png(plots.directions(G)))
    write_whole(options.out / f"geometry{suffix}.png", plots.png(plots.overview(geometries)))
    return rows


def grey(name: str, side: int) -> ng.Data:
    """Images of a data set in grey, side × side, as a whole of mean 0 and variance 1."""
    X = load(name, limit=IMAGES, standardise=False).X.mean(1, keepdim=True)
    X = torch.nn.functional.interpolate(X, (side, side), mode="bilinear", antialias=True)
    return ng.Data((X - X.mean()) / X.std(), name)


def numbers(G: ng.Geometry) -> dict[str, Any]:
    """Everything the table and the sentences say, as plain values."""
    blocks = G.blocks()
    return {
        "d": G.d,
        "members": G.members,
        "how": how(G),
        "trace": G.trace.as_dict(),
        "effective_rank": G.effective_rank.as_dict(),
        "directions_for": {f"{share:.0%}": G.directions_for(share) for share in SHARES},
        "corr_with_identity": ng.corr(G, torch.eye(G.d)).as_dict(),
        "fidelity": None if math.isnan(G.fidelity) else G.fidelity,
        "blocks": len(blocks),
        "largest_blocks": [
            {"size": b.size, "share": b.size * b.value / G.trace.value}
            for b in sorted(blocks, key=lambda b: -b.size * b.value)[:3]
        ],
        "at_zero": sum(b.size for b in blocks if b.value <= 1e-10 * blocks[0].value),
        "slow_directions": slow_part(torch.eye(G.d), G.input_shape) / G.d,
        "slow_trace": slow_part(G.matrix(), G.input_shape) / G.trace.value,
        "probe": str(G.about.probe),
        "first_layer": G.about.averaged,
    }


def how(G: ng.Geometry) -> str:
    if G.method == "closed-form":
        return "closed form, exact" if G.exact else "closed form, wide limit"
    return f"{G.members} networks"


def slow_part(matrix: torch.Tensor, input_shape: tuple[int, ...]) -> float:
    """tr(P M), P the projection onto patterns with wavelengths of SLOW pixels and more in both axes."""
    frequencies = [torch.fft.fftfreq(side).abs() <= 1 / SLOW for side in input_shape[-2:]]
    keep = frequencies[0][:, None] & frequencies[1]
    rows = matrix.double().reshape(len(matrix), *input_shape)
    slow = torch.fft.ifft2(torch.fft.fft2(rows) * keep).real
    return float(slow.reshape(matrix.shape).trace())


def markdown(rows: list[dict[str, Any]]) -> str:
    """The numbers as a table, with a legend below."""
    header = (
        "network",
        "activation, place",
        "d",
        "how",
        "effective rank",
        *(f"{share:.0%}" for share in SHARES),
        "blocks",
        "Corr with I",
        "Corr with true G",
        "seconds",
    )
    lines = []
    for row in rows:
        counts = [str(row["directions_for"][f"{share:.0%}"]) for share in SHARES]
        cells = (
            row["network"],
            f"{TITLES[row['activation']]} {row['place']}",
            str(row["d"]),
            row["how"],
            number(row["effective_rank"]),
            *counts,
            str(row["blocks"]),
            number(row["corr_with_identity"]),
            "?" if row["fidelity"] is None else f"{row['fidelity']:.4f}",
            f"{row['seconds']:.1f}",
        )
        lines.append(cells)
    widths = [max(len(line[i]) for line in (header, *lines)) for i in range(len(header))]
    rule = tuple("-" * (w - 1) + ":" if i else "-" * w for i, w in enumerate(widths))

    def text(cells: tuple[str, ...]) -> str:
        padded = (c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True)))
        return f"| {' | '.join(padded)} |"

    legend = (
        f"{', '.join(f'{share:.0%}' for share in SHARES)}: number of directions that carry that share of the trace. "
        "Blocks: runs of equal eigenvalues.\n"
        "± is one standard error; Corr with true G is what to expect of that many networks (1: exact)."
    )
    return "\n".join(text(line) for line in (header, rule, *lines)) + "\n\n" + legend


def number(estimate: dict[str, Any]) -> str:
    value, error = estimate["value"], estimate["stderr"]
    if value is None:
        return "?"
    if error is None:
        return f"{value:.4g}"
    return str(ng.Estimate(value, error)).partition(" (")[0]


def sentences(row: dict[str, Any]) -> list[str]:
    """What the numbers mean, read off the numbers."""
    name, d = f"{row['network']} ({TITLES[row['activation']]} {row['place']})", row["d"]
    strongest = row["largest_blocks"][0]
    nine_tenths = row["directions_for"]["90%"]
    alike = row["corr_with_identity"]
    if row["blocks"] == 1:
        first = f"{name} has no grain: it reacts to all {d} directions of the input alike."
    elif row["members"] and alike["value"] is not None and alike["value"] > ALIKE:
        first = (
            f"{name} has no grain that these networks show: Corr of G with the identity is {number(alike)}, so the "
            "slope of its spectrum is sampling noise."
        )
    elif row["blocks"] <= 4:
        first = (
            f"{name} has {row['blocks']} kinds of directions: {strongest['size']} of {d}, all equally strong, "
            f"carry {percent(strongest['share'])} of the geometry."
        )
    else:
        rank = number(row["effective_rank"])
        first = (
            f"{name} has a grain: {nine_tenths} of {d} directions carry 90 % of the geometry, and its effective rank "
            f"is {rank}."
        )
    if row["at_zero"]:
        first += f" Along {row['at_zero']} directions its gain there is zero."
    ratio = row["slow_trace"] / row["slow_directions"]
    if ratio > 1.25:
        verdict = f"{ratio:.1f} times their part"
    elif ratio < 0.8:
        verdict = f"only {ratio:.2g} times their part"
    else:
        verdict = "no more and no less than their part"
    second = (
        f"{name}: patterns that vary slowly over the image are {percent(row['slow_directions'])} of all directions and "
        f"carry {percent(row['slow_trace'])} of the geometry, {verdict}."
    )
    return [first, second]


def percent(share: float) -> str:
    digits = 2 if share < 0.99 else 5  # 99.997 % and 100 % are not the same
    return f"{100 * share:.{digits}g} %"


if __name__ == "__main__":
    sys.exit(main())
