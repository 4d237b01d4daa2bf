"""What the grain of a network means for a data set: numbers with errors, and sentences made from them."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from netgrain.auditing.axes import axes_of
from netgrain.auditing.checks import check_options, checked_test
from netgrain.auditing.effort import effort_for, threads_for
from netgrain.auditing.label_relevance import relevance
from netgrain.auditing.measured_data import SAMPLES, MeasuredData, family_of, measured_data
from netgrain.auditing.pages import Document, page
from netgrain.auditing.places import Place, place_of
from netgrain.auditing.sections.contract import Alert, Report, Sentence, Subject, said
from netgrain.auditing.sections.registry import SLOW, sections
from netgrain.auditing.verdicts import few_lines, verdict
from netgrain.families.members import Family
from netgrain.families.prepared import prepared
from netgrain.families.probes import Probe
from netgrain.families.reading import Reading, read
from netgrain.families.sizes import UNKNOWN, operations
from netgrain.geometry.of_models import geometry_of
from netgrain.geometry.value import Geometry
from netgrain.learning.outcome import Learnability
from netgrain.learning.predictions import learnability
from netgrain.runtime.arguments import whole
from netgrain.runtime.devices import best_device, checked_device
from netgrain.runtime.progress import Bar
from netgrain.runtime.snippets import snippet
from netgrain.runtime.versions import __version__

SCHEMA = 2  # of the report; docs/audit.md and report.schema.json describe it
FEWEST_SAMPLES = 32
MOST_ALERTS = 5


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Document):
    """What an audit found about a family of networks and a data set.

    Its repr begins with the verdict and what to do, then the alerts and the main numbers, one per line.

    Parameters
    ----------
    report : dict
        Everything that was found, as plain values for JSON. docs/audit.md explains the numbers.
    G : Geometry
        The geometry that the audit is about.
    expected : Learnability or None
        The expected score and the numbers behind it; None without labels.

    Attributes
    ----------
    kept : Tensor
        Indices of the samples that stay when the lowest-scored ones are dropped.

    See Also
    --------
    audit : Makes one.
    compare : Puts several side by side.
    """

    G: Geometry
    expected: Learnability | None = None

    @property
    def kept(self) -> Tensor:
        """Indices of the samples that stay when the lowest-scored are dropped."""
        return torch.tensor(self.report["samples"]["kept"], dtype=torch.int64)

    def html(self) -> str:
        """The report as one HTML page that works offline.

        Returns
        -------
        str
            The page. It loads nothing and holds its numbers as JSON.
        """
        return page(self.report)

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {text}" if name else text for name, text in few_lines(self.report))

    def _repr_html_(self) -> str:
        return snippet(f"{self.report['model']} on {self.report['data']['name']}", few_lines(self.report))


def audit(
    make: Family | nn.Module,
    X: Tensor,
    y: Tensor | None = None,
    *,
    name: str = "",
    data: str = "data",
    note: str = "as given",
    classes: Sequence[str] = (),
    features: Sequence[str] | None = None,
    G: Geometry | None = None,
    weights: Mapping[str, Tensor] | None = None,
    test: tuple[Tensor, Tensor] | None = None,
    swaps: Mapping[str, nn.Module] | None = None,
    target: Literal["classes", "numbers"] | None = None,
    samples: int = SAMPLES,
    trial: bool | None = None,
    quick: bool = False,
    advice: bool | None = None,
    probe: Probe | str | None = None,
    keep: float = 0.7,
    members: int | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> Audit:
    """What to expect from a network on your data, and what to do.

    The audit predicts the score that trained networks will reach (`learnability`), takes the average geometry G of the
    family, and measures how data and labels lie along its directions. Its verdict is one sentence with one action.

    Parameters
    ----------
    make : callable or torch.nn.Module
        Returns a fresh ``torch.nn.Module`` on every call, with an output for each class; or one given network, such as
        a pretrained one.
    X : Tensor of shape (samples, *input_shape)
        The samples as the network will get them: standardise them first.
    y : Tensor of shape (samples,), optional
        Labels 0 to classes − 1, or numbers of shape (samples,) or (samples, outputs). Without labels no score is
        predicted.
    name : str, optional
        What the report calls the network; the name of its class by default.
    data : str, default "data"
        What the report calls the data.
    note : str, default "as given"
        How the data were prepared, for the report.
    classes : sequence of str, optional
        A name for each label.
    features : sequence of str, optional
        A name for each column of a table.
    G : Geometry, optional
        The geometry of the family, if you have it already.
    weights : mapping of str to Tensor, optional
        A trained state dict, whose complexity and geometry are compared with those of fresh networks.
    test : pair of Tensor, optional
        Samples and labels that training has not seen, prepared as X is; the trained network is scored on them.
    swaps : mapping of str to Module, optional
        Changes to try one at a time: dotted names of submodules and their replacements.
    target : {"classes", "numbers"}, optional
        Whether y holds classes or numbers; needed for floating-point labels with few values.
    samples : int, default 2000
        Number of random samples to measure, at least 32; fewer are used for the score where a network is expensive.
    trial : bool, optional
        Whether to run a short training as well; by default if its cost allows it.
    quick : bool, default False
        Save time: at most 500 samples for the score, no short training, and fewer sections.
    advice : bool, optional
        True tries the whole catalogue of changes, False none of it; by default as many as a fixed cost allows.
    probe : {"data", "origin", "gaussian:SIGMA"} or Probe, optional
        Where G is taken; by default at 512 of the samples.
    keep : float, default 0.7
        Share of the samples to keep when the lowest-scored ones are dropped.
    members : int, optional
        Number of networks to average over; by default the closed form, or enough to reach a tolerance.
    seed : int, default 0
        All randomness depends on this seed alone.

    Returns
    -------
    Audit
        The report, its page and the geometry behind it.

    Other Parameters
    ----------------
    device : torch.device or str, optional
        Where networks run, a GPU by default. Everything about the data is computed on the CPU.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.

    Raises
    ------
    NetgrainError
        If data, labels and network do not fit each other, or if the input gradient of the family is exactly zero.

    Warns
    -----
    GrainWarning
        If a class has no samples.

    See Also
    --------
    compare : Several audits of the same data side by side.
    visible : The same question about a single pattern.

    Examples
    --------
    A multilayer perceptron has no grain at the origin: all of its 16 directions lead.

    >>> from functools import partial
    >>> from netgrain.models import MLP
    >>> X = torch.randn(200, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    >>> make = partial(MLP, channels=1, image_size=4, outputs=2)
    >>> found = audit(make, X, (X[:, 0, 0, 0] > 0).long(), probe="origin")
    >>> found.report["leading"]["count"]
    16
    """
    whole("samples", samples, FEWEST_SAMPLES)
    network = make if isinstance(make, nn.Module) else None
    family, known = (make, True) if not isinstance(make, nn.Module) else family_of(make)
    found = measured_data(family, X, y, classes=classes, target=target, samples=samples, seed=seed)
    shape, on = tuple(found.X.shape[1:]), best_device() if device is None else checked_device(device)
    family = prepared(family, shape)
    check_options(shape, features=features, G=G, probe=probe, weights=weights, keep=keep, members=members)
    if network is not None and known and weights is None:
        weights = network.state_dict()
    held_out = checked_test(test, found.X, found.y, known=network is not None or weights is not None)
    reading = read(family, shape, seed)
    header = _header(found, name or type(found.first).__name__, data=data, note=note, features=features, seed=seed)
    header["network"] = {**_costs(reading), "given": network is not None, "family_known": known, "quick": quick}
    left_out = SLOW if quick else frozenset()
    with threads_for(reading), Bar("audit", 4 + len(sections()) - len(left_out), progress) as bar:
        bar.advance(0, note="expected score")
        score = _expected(network or family, found, reading, trial=trial, quick=quick, seed=seed)
        bar.advance(note="geometry")
        place = Place() if G is not None else place_of(probe, found.X, members=members, seed=seed)
        if G is None and network is not None and not known and place.probe is not None:
            G = geometry_of(network, place.probe, input_shape=shape, seed=seed, progress=False)
        elif G is None:
            G = place.geometry(family, shape, seed=seed, device=on, progress=False)
        bar.advance(note="directions")
        axes = axes_of(G)
        bar.advance(note="labels")
        subject = Subject(
            make=family,
            X=found.X,
            y=found.y,
            classes=found.names,
            features=tuple(features or ()),
            G=G,
            place=place,
            axes=axes,
            relevance=relevance(axes, found.X, found.y, seed=seed),
            weights=weights,
            swaps=swaps or {},
            keep=keep,
            seed=seed,
            device=on,
            expected=score,
            parts=found.groups,
            rows=found.rows,
            given=found.given,
            network=network,
            test=held_out,
            advice=advice,
        )
        bar.advance()
        return Audit(_report(header, subject, bar, left_out), G, score)


def _header(
    found: MeasuredData, name: str, *, data: str, note: str, features: Sequence[str] | None, seed: int
) -> dict[str, Any]:
    """What the report is about."""
    return {
        "schema": SCHEMA,
        "netgrain": __version__,
        "date": str(datetime.date.today()),
        "model": name,
        "seed": seed,
        "data": {
            "name": data,
            "note": note,
            "samples": len(found.X),
            "given": found.given,
            "target": found.target,
            "classes": list(found.names),
            "per_class": torch.bincount(found.groups, minlength=len(found.names)).tolist(),
            "input_shape": list(found.X.shape[1:]),
            "features": list(features) if features else None,
        },
    }


def _costs(reading: Reading) -> dict[str, Any]:
    """What a prediction costs; operations are None for a network that cannot be traced."""
    counted = operations(reading)
    return {
        "parameters": sum(p.numel() for p in reading.model.parameters()),
        "operations": None if counted == UNKNOWN else counted,
    }


def _expected(
    make: Family | nn.Module, found: MeasuredData, reading: Reading, *, trial: bool | None, quick: bool, seed: int
) -> Learnability | None:
    """The score to expect, with the effort that its cost allows; None without labels."""
    if found.y is None or found.target == "none":
        return None
    effort = effort_for(reading, len(found.X), quick=quick)
    untried = quick or isinstance(make, nn.Module) or (trial is None and not found.can_train)
    return learnability(
        make,
        found.X,
        found.y,
        target=found.target,
        classes=found.names if found.target == "classes" else None,
        samples=effort.samples,
        kinds=effort.kinds,
        members=None if isinstance(make, nn.Module) else effort.members,
        trial=False if untried else trial,
        grain=False,
        seed=seed,
        progress=False,
    )


def _report(header: dict[str, Any], subject: Subject, bar: Bar, left_out: Collection[str]) -> dict[str, Any]:
    """What every section measured under its keys, then what they say about it."""
    report = dict(header)
    used = {key: section for key, section in sections().items() if key not in left_out}
    for key, section in used.items():
        bar.advance(0, note=key)
        for part, values in section.measure(subject).items():
            report[part] = {**report[part], **values} if part in report else values
        bar.advance()
    report["left_out"] = sorted(left_out)
    report["sentences"] = [
        sentence | {"panel": section.panel or key}
        for key, section in used.items()
        for sentence in section.sentences(report)
    ]
    report["sentences"].append(_how(report) | {"panel": "numbers"})
    report["alerts"] = _ranked([alert for section in used.values() for alert in section.alerts(report)])
    report["verdict"] = verdict(report)
    return report


def _ranked(alerts: list[Alert]) -> list[Alert]:
    """Errors first, then warnings, then notes; within a level by what each is worth; at most five."""
    order = ("error", "warning", "note")
    return sorted(alerts, key=lambda a: (order.index(a["level"]), -a["weight"]))[:MOST_ALERTS]


def _how(r: Report) -> Sentence:
    """The last sentence: how the geometry and the data were obtained."""
    g = r["geometry"]
    sure = "" if g["corr_with_truth"] is None else f" Expected correlation with the truth: {g['corr_with_truth']:.3f}."
    return said(
        f"G {g['where']}: {g['how']}; data: {r['data']['note']}.",
        f"It is {'exact' if g['exact'] else 'not exact'}.{sure} {' '.join(g['notes'])}".strip(),
    )
