"""What the grain of a network means for a data set: numbers with errors, and sentences made from them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.auditing.axes import axes_of
from netgrain.auditing.checks import check_options, checked_data
from netgrain.auditing.label_relevance import relevance
from netgrain.auditing.pages import Document, page
from netgrain.auditing.places import Place, place_of
from netgrain.auditing.sections.contract import Alert, Report, Sentence, Subject, said
from netgrain.auditing.sections.registry import sections
from netgrain.families.members import Family
from netgrain.families.prepared import prepared
from netgrain.families.probes import Probe
from netgrain.geometry.value import Geometry
from netgrain.runtime.devices import best_device, checked_device
from netgrain.runtime.progress import Bar
from netgrain.runtime.versions import __version__

MOST_ALERTS = 5


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Document):
    """What an audit found about a family of networks and a data set.

    Its repr lists the findings, one in each line.

    Parameters
    ----------
    report : dict
        Everything that was found, as plain values for JSON. docs/audit.md explains the numbers.
    G : Geometry
        The geometry that the audit is about.

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
        return "\n".join(f"- {s['text']}" for s in self.report["sentences"])


def audit(
    make: Family,
    X: Tensor,
    y: Tensor,
    *,
    name: str = "",
    data: str = "data",
    note: str = "as given",
    classes: Sequence[str] = (),
    features: Sequence[str] | None = None,
    G: Geometry | None = None,
    weights: Mapping[str, Tensor] | None = None,
    swaps: Mapping[str, nn.Module] | None = None,
    advice: bool | None = None,
    probe: Probe | str | None = None,
    keep: float = 0.7,
    members: int | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> Audit:
    """What fresh networks of a family react to in a data set and its labels.

    The audit takes the average geometry G of the family, and measures how the variance of the data and the labels lie
    along its eigenvectors. That is a statement about initialisation, not about what training reaches.

    Parameters
    ----------
    make : callable
        Returns a fresh ``torch.nn.Module`` on every call, with an output for each class.
    X : Tensor of shape (samples, *input_shape)
        The samples as the network will get them: standardise them first.
    y : Tensor of shape (samples,)
        Labels 0 to classes − 1.
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
    swaps : mapping of str to Module, optional
        Changes to try, each alone: dotted names of submodules and what replaces them.
    advice : bool, optional
        Whether to try the catalogue of changes: all of it, none, or by default as many as a fixed cost allows.
    probe : {"data", "origin", "gaussian:SIGMA"} or Probe, optional
        Where G is taken; by default at 512 of the samples.
    keep : float, default 0.7
        Share of the samples that the pruned list keeps.
    members : int, optional
        Number of networks to average over; by default the closed form, or enough to reach a tolerance.
    seed : int, default 0
        Everything random depends on it alone.

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
    X, y, first = checked_data(make, X, y, classes, seed=seed)
    shape, on = tuple(X.shape[1:]), best_device() if device is None else checked_device(device)
    make = prepared(make, shape)
    check_options(shape, features=features, G=G, probe=probe, weights=weights, keep=keep, members=members)
    place = Place() if G is not None else place_of(probe, X, members=members, seed=seed)
    labels = tuple(classes) or tuple(map(str, range(int(y.max()) + 1)))
    header = {
        "netgrain": __version__,
        "date": str(datetime.date.today()),
        "model": name or type(first).__name__,
        "seed": seed,
        "data": {
            "name": data,
            "note": note,
            "samples": len(X),
            "classes": list(labels),
            "per_class": torch.bincount(y, minlength=len(labels)).tolist(),
            "input_shape": list(shape),
            "features": list(features) if features else None,
        },
    }
    with Bar("audit", 3 + len(sections()), progress) as bar:
        bar.advance(0, note="geometry")
        if G is None:
            G = place.geometry(make, shape, seed=seed, device=on, progress=False)
        bar.advance(note="directions")
        axes = axes_of(G)
        bar.advance(note="labels")
        subject = Subject(
            make=make,
            X=X,
            y=y,
            classes=labels,
            features=tuple(features or ()),
            G=G,
            place=place,
            axes=axes,
            relevance=relevance(axes, X, y, seed=seed),
            weights=weights,
            swaps=swaps or {},
            keep=keep,
            seed=seed,
            device=on,
            advice=advice,
        )
        bar.advance()
        return Audit(_report(header, subject, bar), G)


def _report(header: dict[str, Any], subject: Subject, bar: Bar) -> dict[str, Any]:
    """What every section measured under its keys, then what they say about it."""
    report = dict(header)
    for key, section in sections().items():
        bar.advance(0, note=key)
        for part, values in section.measure(subject).items():
            report[part] = {**report[part], **values} if part in report else values
        bar.advance()
    said = [sentence for section in sections().values() for sentence in section.sentences(report)]
    report["sentences"] = [*said, _how(report)]
    report["alerts"] = _ranked([alert for section in sections().values() for alert in section.alerts(report)])
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
