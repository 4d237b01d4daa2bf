"""The commands that rank samples: score, prune."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from netgrain.cli.options import DataOptions, DataProbe, Keep, Members, Model, Seed, out_file, switch
from netgrain.cli.output import Answer
from netgrain.cli.parsing import family_from_text

if TYPE_CHECKING:
    from netgrain.data.dataset import Dataset
    from netgrain.geometry.value import Geometry

SCORE_EXAMPLES = """  netgrain score resnet18:activation=gelu,width=0.25 --data digits --out scores.csv
  netgrain score lenet --data my.npz"""
PRUNE_EXAMPLES = "  netgrain prune lenet --data cifar10 --data-dir data --keep 0.5 --out kept.csv"
CENTRED = "of each sample minus the mean of all samples"


def score(
    model: Model,
    samples: DataOptions,
    probe: DataProbe = "data",
    members: Members = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None, out_file("Write index, label and score of every sample, as .csv.", ".csv", ".txt")
    ] = None,
) -> Answer:
    """Score samples by how strongly random networks react along them: x·Gx / x·x, x minus the mean sample."""
    data, G = _geometry_at(samples, model, probe, members, seed)
    from netgrain.auditing.places import where
    from netgrain.geometry.scores import score as scores_of

    scores = scores_of(G, data.X, centre=True)
    order = scores.argsort(descending=True)
    per_class = {name: float(scores[data.labels == c].mean()) for c, name in enumerate(data.classes) if data.counts[c]}
    report: dict[str, Any] = {
        "model": model,
        "data": data.name,
        "note": data.note,
        "samples": len(data),
        "probe": str(G.about.probe),
        "centred": True,
        "members": G.members,
        "corr_with_truth": G.fidelity,
        "mean": float(scores.mean()),
        "mean_of_a_random_direction": G.trace.value / G.d,
        "per_class": per_class,
        "highest": order[:10].tolist(),
        "lowest": order.flip(0)[:10].tolist(),
        "file": None if out is None else str(out),
    }
    if out is not None:
        labels = [""] * len(data) if data.y is None else data.y.tolist()
        pairs = zip(labels, scores.tolist(), strict=True)
        _write_csv(out, ("index", "label", "score"), [(i, y, float(f"{s:.9g}")) for i, (y, s) in enumerate(pairs)])

    ratio = report["mean"] / report["mean_of_a_random_direction"]
    rows = [
        ("data", f"{data.name}, {len(data)} samples; {data.note}"),
        ("geometry", f"G {where(G, len(data))}; {G!r}"),
        ("scores", CENTRED),
        ("mean score", f"{report['mean']:.4g}, {ratio:.2f} times that of a random direction"),
        *((f"  {name}", f"{value:.4g}") for name, value in per_class.items()),
        ("highest", ", ".join(map(str, report["highest"]))),
        ("lowest", ", ".join(map(str, report["lowest"]))),
        *([("written", str(out))] if out is not None else []),
    ]
    return Answer(report, [rows])


def prune(
    model: Model,
    samples: DataOptions,
    out: Annotated[Path, out_file("Write the kept indices there, each on a line, as .csv.", ".csv", ".txt")],
    keep: Keep = 0.7,
    any_class: Annotated[bool, switch("--any-class", "Do not keep the same share of every class.")] = False,
    probe: DataProbe = "data",
    members: Members = None,
    seed: Seed = 0,
) -> Answer:
    """Keep the samples with the highest scores: those along which random networks react most."""
    data, G = _geometry_at(samples, model, probe, members, seed)
    from netgrain.auditing.places import where
    from netgrain.geometry.scores import prune as kept_by

    per_class = data.target == "classes" and not any_class
    kept = kept_by(G, data.X, data.y, keep=keep, per_class=per_class, centre=True)
    _write_csv(out, ("index",), [(i,) for i in kept.tolist()])
    report = {
        "kept": len(kept),
        "of": len(data),
        "file": str(out),
        "model": model,
        "data": data.name,
        "note": data.note,
        "probe": str(G.about.probe),
        "centred": True,
        "per_class": per_class,
    }
    shown = [
        f"data {data.note}; G {where(G, len(data))}; scores {CENTRED}",
        f"kept {len(kept)} of {len(data)} samples of {data.name}{', the same share of each class' * per_class}, "
        f"written to {out}",
    ]
    return Answer(report, shown)


def _geometry_at(
    samples: DataOptions, model: str, probe: str, members: int | None, seed: int
) -> tuple[Dataset, Geometry]:
    """The samples, and the geometry of the family where the probe says."""
    from netgrain.auditing.places import place_of

    data = samples.load(seed)
    make = family_from_text(model, data.shape, outputs=data.outputs)
    return data, place_of(probe, data.X, members=members, seed=seed).geometry(make, data.shape, seed=seed)


def _write_csv(out: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    from netgrain.runtime.files import csv_cell, write_whole

    lines = (",".join(map(csv_cell, row)) for row in (header, *rows))
    write_whole(out, ("\n".join(lines) + "\n").encode())
