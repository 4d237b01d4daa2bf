"""The command `netgrain geometry`: the average geometry of a family, printed, written and checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from netgrain.cli import plan
from netgrain.cli.options import (
    DryRun,
    Input,
    Memory,
    Resume,
    Seed,
    SwitchedOn,
    argument,
    known_model,
    option,
    out_folder,
)
from netgrain.cli.output import FAILED, Answer, on_interrupt
from netgrain.cli.parsing import (
    digest_of,
    family_from_text,
    parse_input,
    parse_output,
    parse_probe,
    resumable,
    source_of,
)
from netgrain.cli.writing import is_one_file, json_file
from netgrain.models.specs import FORMS
from netgrain.runtime.errors import NetgrainError

if TYPE_CHECKING:
    from netgrain.families.prepared import At
    from netgrain.geometry.agreement import Agreement
    from netgrain.geometry.estimate import Estimate
    from netgrain.geometry.options import EndLayer, Method
    from netgrain.geometry.value import Geometry

EXAMPLES = f"""  netgrain geometry lenet --input 1x32x32
  netgrain geometry my_models.py:Net --input 3x32x32 --check 2000
  netgrain geometry resnet18:activation=gelu,width=0.25 --input 3x32x32 --members 50 --out out/resnet
  netgrain geometry my_models.py:Net --input 3x64x64 --probe data:images.npy --json
  netgrain geometry my_package.models:build:hidden=32 --input 20 --output diff:0,1
  netgrain geometry my_models.py:Net --input 3x224x224 --members 1024 --engine ray --workers 2 --out out/net --resume

\b
{FORMS}
"""

NAMED = 3  # steps of a kind that are named
FILES = {
    "geometry": "geometry.safetensors",
    "picture": "geometry.png",
    "directions": "directions.png",
    "summary": "summary.json",
}
ALONE = {"geometry": ".safetensors", "picture": ".png", "summary": ".json"}  # what --out FILE may name


def geometry(
    model: Annotated[str, argument("MODEL", "The family of networks, see below.", check=known_model)],
    shape: Input,
    probe: Annotated[
        str,
        option(
            "PROBE",
            "Where to take gradients: auto (the origin, or its limit at a kink), origin, gaussian:SIGMA, "
            "or data:FILE (.npy, or .npz with an array X).",
        ),
    ] = "auto",
    method: Annotated[
        str,
        option(
            "METHOD",
            "closed-form (propagate second moments through the layers), sampled (average over random networks), "
            "or auto (the closed form where every layer has one and --members is not given).",
        ),
    ] = "auto",
    members: Annotated[
        int | None,
        option(
            "N",
            "Number of random networks to average over (default: enough to reach the tolerance).",
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        option(
            "T",
            "Stop sampling when the expected Corr with the true G is 1 - T (default: 0.01 without --members).",
        ),
    ] = None,
    seed: Seed = 0,
    memory: Memory = None,
    output: Annotated[
        str,
        option(
            "OUTPUT",
            "Outputs that count: all (their sum of squares), mean, an index as in 3, or a difference as in diff:0,1.",
        ),
    ] = "all",
    first_layer: Annotated[
        str,
        option(
            "WHEN",
            "Average over the first layer exactly instead of sampling it: auto (where that is exact), never, "
            "or always (also where it is nearly exact).",
        ),
    ] = "auto",
    at: Annotated[
        str | None,
        option(
            "PLACE",
            "embeddings: for models of tokens, measure at the output of the token embedding, with --input "
            "TOKENSxWIDTH (default: the input itself).",
        ),
    ] = None,
    switched_on: SwitchedOn = False,
    check: Annotated[
        int | None,
        option(
            "N",
            "Compare the closed form with N sampled networks (2000 is a good number), band by band of the "
            "spectrum, in standard errors. The exit code is 1 if they differ.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        out_folder(
            "Write geometry.safetensors, geometry.png, directions.png and summary.json there and replace "
            "existing ones. Sampled networks are kept in DIR/members until all are finished.",
            *ALONE.values(),
        ),
    ] = None,
    resume: Resume = False,
    dry_run: DryRun = False,
) -> Answer:
    """Show which input directions a family of networks reacts to: its average geometry G = E[JᵀJ].

    Prints a table. With --out it also writes pictures, numbers and a file that netgrain.Geometry.load reads.
    """
    sizes, chosen = parse_input(shape), parse_output(output)
    folder = None if out is None or is_one_file(out) else out
    if resume and folder is None:
        raise NetgrainError("--resume continues with the networks in a folder; name it with --out DIR.")

    from netgrain.geometry.agreement import check as compare
    from netgrain.geometry.agreement import check_error_bars
    from netgrain.geometry.average import average_geometry
    from netgrain.geometry.options import Options

    place = parse_probe(probe)
    make = family_from_text(model, sizes)
    sample = partial(
        average_geometry,
        make,
        sizes,
        method=cast("Method", method if check is None else "closed-form"),
        probe=place,
        members=members,
        tolerance=tolerance,
        seed=seed,
        output=chosen,
        first_layer=cast("EndLayer", first_layer),
        memory=memory,
        at=cast("At | None", at),
        switched_on=switched_on,
    )
    if switched_on and check is not None:
        raise NetgrainError("--check compares networks as they start; leave --switched-on out.")
    if dry_run:
        return plan.of_geometry(sample, sizes, members, folder)
    compared = (
        None
        if check is None
        else partial(
            compare, make, sizes, members=check, probe=place, output=chosen, seed=seed, at=cast("At | None", at)
        )
    )
    if check is not None and at is None:
        check_error_bars(make, Options(sizes, members=check, probe=place, output=chosen, seed=seed))
    about = {
        "model": model, "source": source_of(make), "input": list(sizes), "probe": probe,
        "data": digest_of(probe.removeprefix("data:")), "members": members, "tolerance": tolerance,
        "seed": seed, "output": output, "first_layer": first_layer, "at": at, "switched_on": switched_on,
    }  # fmt: skip
    with (
        on_interrupt(partial(_kept, folder)),
        resumable(None if folder is None else folder / "members", about, resume) as keeping,
    ):
        G = sample()
        agreement = None if compared is None else compared(closed=G)
        report = _reported(G, agreement, out)
        if keeping is not None:
            keeping.done()
    code = 0 if agreement is None or agreement.agrees else FAILED
    error = None
    if out is not None and not report["files"]:
        error = f"G is zero, so there is no picture; {out} was not written. Name a .json file for the numbers."
    return Answer(report, _shown(G, report, agreement), code, error)


def _kept(out: Path | None) -> str:
    if out is None or not (out / "members").is_dir():
        return "nothing was written"
    return f"finished members are in {out / 'members'}; resume with --resume"


def _reported(G: Geometry, agreement: Agreement | None, out: Path | None) -> dict[str, Any]:
    """The document about a geometry, which is written with its pictures where a folder was given."""
    from netgrain.runtime.threads import one_thread

    with one_thread():  # several threads on a busy machine can be ten times slower
        report = {**G.summary(), "files": {} if out is None else _file_names(G, out)}
        if agreement is not None:
            report["check"] = agreement.as_dict()
        if out is not None:
            _write(G, report, out)
    return report


def _file_names(G: Geometry, out: Path) -> dict[str, str]:
    """Files by what they hold; there are no pictures of a geometry that is zero."""
    pictures = G.trace.value > 0
    names = {what: name for what, name in FILES.items() if pictures or not name.endswith(".png")}
    if not is_one_file(out):
        return {what: str(out / name) for what, name in names.items()}
    return {what: str(out) for what, suffix in ALONE.items() if what in names and suffix == out.suffix.casefold()}


def _write(G: Geometry, report: dict[str, Any], out: Path) -> None:
    """Everything is made first and written last; of one file, nothing else is made."""
    from netgrain.geometry import plots
    from netgrain.runtime.files import write_whole

    files: dict[str, str] = report["files"]
    made: dict[str, Callable[[], bytes]] = {
        "picture": lambda: plots.png(plots.overview({G.about.model: G})),
        "directions": lambda: plots.png(plots.directions(G)),
        "summary": lambda: json_file(report),
    }
    contents = {what: make() for what, make in made.items() if what in files}
    done = 0

    def kept() -> str:
        if is_one_file(out):
            return "nothing was written"
        number = f"{done} {'was' if done == 1 else 'were'}"
        return f"of {len(files)} files in {out}, {number} written (whole); resume with --resume"

    with on_interrupt(kept):
        if "geometry" in files:
            G.save(files["geometry"])
            done += 1
        for what, content in contents.items():
            write_whole(files[what], content)
            done += 1


def _shown(G: Geometry, report: dict[str, Any], agreement: Agreement | None) -> Iterator[str | list[tuple[str, str]]]:
    sizes = "x".join(map(str, report["input_shape"]))
    counts = [("?" if n is None else str(n)) for n in report["directions_for"].values()]
    rows = [
        ("model", report["model"]),
        ("input", f"{sizes}, d = {report['d']}"),
        ("output", report["output"]),
        ("method", _method(report)),
        ("probe", report["probe"]),
        ("trace", _number(G.trace, G.exact)),
        ("effective rank", _number(G.effective_rank, G.exact)),
        ("directions", f"{', '.join(counts)} carry {', '.join(report['directions_for'])} of the trace"),
        ("blocks", _blocks(G)),
        (
            f"Corr with {G.fidelity_with}",
            "unknown" if report["fidelity"] is None else f"about {report['fidelity']:.4f}",
        ),
    ]
    if G.flat is not None:
        rows.insert(8, ("leading", str(G.flat)))
    if report["method"] == "sampled":
        rows[4:4] = [
            ("members", f"{report['members']} (seed {report['seed']})"),
            ("first layer", report["integration"].removeprefix("first layer ")),
        ]
    if report["method"] == "closed-form" and not G.form.parts:
        rows.pop()  # nothing was sampled
    rows += [("steps", text) for text in _steps(G)]
    if report["zero_share"]:
        rows.append(("zero gradient", f"{report['zero_share']:.1%} of the members"))
    rows += [("note", note) for note in report["notes"]]
    if switches := G.about.switches("--switched-on"):
        what, _, text = switches.partition(": ")
        rows.insert(0, (what, text))
    if not G.trace.value > 0:  # nothing is to be read off zeros
        empty = ("effective rank", "directions", "blocks", f"Corr with {G.fidelity_with}")
        rows = [row for row in rows if row[0] not in empty]
    yield rows
    if report["files"]:
        yield "\n  ".join(["\nwritten:", *report["files"].values()])
    if agreement is not None:
        yield f"\nclosed form against {agreement.sampled.members} sampled networks:\n{agreement}"


def _steps(G: Geometry) -> Iterator[str]:
    """How well a closed form follows its steps, one line for each kind; those that are not exact by name."""
    kinds: dict[str, list[str]] = {}
    for step in G.about.steps:
        kinds.setdefault(step.kind, []).append(step.where)
    for kind, places in kinds.items():
        named = ", ".join(places[:NAMED]) + (", …" if len(places) > NAMED else "")
        yield f"{len(places)} {kind}" + ("" if kind == "exact" else f": {named}")


def _method(report: dict[str, Any]) -> str:
    if report["method"] != "closed-form":
        return str(report["method"])
    return "closed form, " + ("exact at any width" if report["exact"] else "wide limit")


def _number(estimate: Estimate, exact: bool) -> str:
    if estimate.stderr == 0 and not exact:
        return f"{estimate.value:.6g}"
    if math.isnan(estimate.stderr):
        return f"{estimate.value:.4g} (no error bar)"
    return estimate.with_error


def _blocks(G: Geometry) -> str:
    sizes = [block.size for block in G.blocks()]
    known = "" if sum(sizes) == G.d else f" among the {sum(sizes)} leading directions"
    if not sizes:
        return "none known"
    if max(sizes) == 1:
        return f"{len(sizes)}, no two eigenvalues are equal{known}"
    spread = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    return f"{len(sizes)}, of {spread} equal eigenvalues{known}"
