"""How a geometry was obtained: facts in typed fields, kept with it and saved beside it.

Sentences are made from the fields, by `str` and `notes`, and never read back. The only text that is taken apart is that
of files of layout 1, which held sentences.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from netgrain.closed_form.feature_maps import StepKind
from netgrain.families.origin import Resolved
from netgrain.families.probes import Data, Gaussian
from netgrain.families.reasons import Reason
from netgrain.families.switched_off import SwitchedOff
from netgrain.geometry.projection import Projection
from netgrain.geometry.tails import Tails
from netgrain.runtime.versions import versions

ASKED_FOR = Reason("asked for")
GIVEN_MODELS = Reason("given members")


@dataclass(frozen=True)
class ProbeUsed:
    """Where gradients were taken, and why there.

    Parameters
    ----------
    asked : str, default ""
        The probe that was asked for; empty if it was left to netgrain.
    used : str, default ""
        The probe whose points were used; empty if there is none, as for a given matrix.
    sigma : float, optional
        Standard deviation of the points, if they are Gaussian.
    why : Reason, optional
        Why another probe was used than the origin: ``kind`` is "kink" or "constant norm".
    samples : int, optional
        Number of samples, if the points are data.

    Examples
    --------
    >>> str(ProbeUsed(used="gaussian:1", sigma=1.0, why=Reason("kink")))
    'origin limit (gaussian:1)'
    """

    asked: str = ""
    used: str = ""
    sigma: float | None = None
    why: Reason | None = None
    samples: int | None = None

    @classmethod
    def of(cls, resolved: Resolved) -> ProbeUsed:
        """Describe a probe in words and numbers that can be saved.

        Parameters
        ----------
        resolved : Resolved
            The probe itself.

        Returns
        -------
        ProbeUsed
            Its description.
        """
        probe = resolved.probe
        return cls(
            asked="" if resolved.asked is None else resolved.asked.describe(),
            used=probe.describe(),
            sigma=probe.sigma if isinstance(probe, Gaussian) else None,
            why=resolved.why,
            samples=len(probe.X) if isinstance(probe, Data) else None,
        )

    @property
    def is_limit(self) -> bool:
        """Whether a Gaussian stands for the origin, where the network has a kink."""
        return self.why is not None and self.why.kind == "kink"

    def __str__(self) -> str:
        return f"origin limit ({self.used})" if self.is_limit else self.used


@dataclass(frozen=True)
class Integration:
    """A part of the network that was averaged by a formula instead of being sampled.

    Parameters
    ----------
    part : {"all layers", "first layer", "last layer", "output weights", "symmetries"}
        What was averaged: all of it (a closed form), one end, the output weights in Δ, or only the symmetries of the
        first layer.
    layer : str, default ""
        Dotted name of the layer.
    law : str, default ""
        Law of its weights, in words.
    exactly : bool, default True
        Whether the average is exact; else it is nearly so (or taken over two opposite draws, in Δ).
    symmetries : tuple of str, default ()
        Symmetries of the family that were averaged over as well.
    shown_by : int, default 0
        Number of sampled members that confirmed an inexact average to be within the tolerance.
    remark : str, default ""
        What else these members showed.

    Examples
    --------
    >>> str(Integration("first layer", "conv1", "variance 0.5"))
    "first layer integrated exactly ('conv1', variance 0.5)"
    """

    part: Literal["all layers", "first layer", "last layer", "output weights", "symmetries"]
    layer: str = ""
    law: str = ""
    exactly: bool = True
    symmetries: tuple[str, ...] = ()
    shown_by: int = 0
    remark: str = ""

    def __str__(self) -> str:
        if self.part == "all layers":
            return self.part
        inside = ", ".join(filter(None, (f"'{self.layer}'", self.law, *self.symmetries)))
        if self.part == "output weights":
            return f"{'integrated' if self.exactly else 'antithetic'} heads ({inside})"
        if self.part == "symmetries":
            return f"averaged over symmetries of the first layer ({inside})"
        if self.part == "last layer":
            return f"last layer integrated ({inside})"
        how = "exactly" if self.exactly else "approximately: the probe is not the origin"
        shown = f", within the tolerance as {self.shown_by} sampled members show{self.remark}" if self.shown_by else ""
        return f"first layer integrated {how} ({inside}){shown}"


@dataclass(frozen=True)
class StepNote:
    """How well a closed form follows a step of a network.

    Parameters
    ----------
    kind : {"exact", "wide limit", "observed", "local"}
        Exact at any width, the limit of wide layers, averaged over the channels of networks that
        really ran, or followed only near a point.
    where : str, default ""
        The step and its module.
    text : str, default ""
        A remark on this step alone.

    Examples
    --------
    >>> Provenance("closed-form", members=8, steps=(StepNote("observed", "'act' (ReLU)"),)).notes
    ('slopes averaged over the channels of 8 members, one probe point each',)
    """

    kind: StepKind
    where: str = ""
    text: str = ""


@dataclass(frozen=True)
class Provenance:
    """How a matrix was obtained.

    Parameters
    ----------
    method : str
        One of "closed-form", "sampled", "data", "derived" and "given".
    model : str, default ""
        The family, or the classes of given models.
    probe : ProbeUsed, optional
        Where gradients were taken.
    output : str, default "all"
        Outputs whose gradients count.
    seed : int, optional
        Of members and points.
    members : int, default 0
        Number of networks behind it.
    points : int, default 0
        Points per network (sampled), or in total (closed form away from the origin).
    exact : bool, default False
        Whether it has no sampling error and holds at any width.
    integration : Integration or Reason, optional
        The part that was averaged by a formula, or why none was.
    last_layer : Integration, optional
        The last layer, if it was averaged as well.
    tolerance : float, optional
        The tolerance that sampling aimed at.
    reached : bool, optional
        Whether it was reached; None if that cannot be measured.
    zero_share : float, default 0.0
        Share of the networks whose input gradient is exactly zero.
    steps : tuple of StepNote, default ()
        Of a closed form: how well each step is followed, in order.
    leaves_out : tuple of str, default ()
        Of a closed form: terms of the limit of wide layers that this matrix leaves out.
    expected : float, optional
        Expected correlation with the true matrix, if members are not stored separately.
    projection : Projection, optional
        The space of matrices that the sample was projected to, to remove noise (large inputs).
    off : SwitchedOff, optional
        Parts of the family that start at zero, if any.
    switched_on : bool, default False
        Whether those parts were switched on first.
    tails : Tails, optional
        The spread of the traces of single networks, where a few of them make up the mean.
    remarks : tuple of str, default ()
        Further remarks for the reader.
    versions : dict, optional
        Versions of netgrain, Python and PyTorch.

    Examples
    --------
    >>> about = Provenance("sampled", members=8, tolerance=0.01, reached=False)
    >>> about.notes
    ('the tolerance 0.01 was not reached with 8 members',)
    """

    method: str
    model: str = ""
    probe: ProbeUsed = ProbeUsed()
    output: str = "all"
    seed: int | None = None
    members: int = 0
    points: int = 0
    exact: bool = False
    integration: Integration | Reason | None = None
    last_layer: Integration | None = None
    tolerance: float | None = None
    reached: bool | None = None
    zero_share: float = 0.0
    steps: tuple[StepNote, ...] = ()
    leaves_out: tuple[str, ...] = ()
    expected: float | None = None
    projection: Projection | None = None
    off: SwitchedOff | None = None
    switched_on: bool = False
    tails: Tails | None = None
    remarks: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=versions)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for a reader, made from the fields."""
        found = [self.off.sentence()] if self.off is not None and not self.off.matters else []
        found += [str(self.probe.why)] if self.probe.why is not None else []
        found += [step.text for step in self.steps if step.text]
        if any(step.kind == "observed" and not step.text for step in self.steps):
            found.append(f"slopes averaged over the channels of {self.members} members, one probe point each")
        all_layers = isinstance(self.integration, Integration) and self.integration.part == "all layers"
        if all_layers and self.points and not self.members:
            found.append(f"averaged over {self.points} probe points")
        found += [str(self.projection)] if self.projection is not None else []
        found += [str(self.tails)] if self.tails is not None else []
        found += self.remarks
        if self.reached is False:
            found.append(f"the tolerance {self.tolerance:g} was not reached with {self.members} members")
        return tuple(found)

    @property
    def averaged(self) -> str:
        """What was averaged by a formula, and why not more, in words."""
        both = (_averaged(self.integration), "" if self.last_layer is None else str(self.last_layer))
        return "; ".join(filter(None, both))

    def switches(self, option: str = "switched_on=True") -> str:
        """Which parts start at zero and how to proceed, or that they were switched on.

        Parameters
        ----------
        option : str, default "switched_on=True"
            The option that switches everything on, as the reader would write it.

        Returns
        -------
        str
            One clause; empty where nothing is off.
        """
        off = self.off if self.off is not None and self.off.matters else None
        if self.switched_on:
            return "switched on: " + ("nothing was off" if off is None else f"without that, {off.what}, {off.effect}")
        return "" if off is None else off.sentence(option)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Provenance:
        """Rebuild from plain values, including those of file layout 1.

        Parameters
        ----------
        values : dict
            Values as returned by ``dataclasses.asdict``.

        Returns
        -------
        Provenance
            The record, without entries that the current version does not know.
        """
        values = _from_layout_1(values) if isinstance(values.get("probe"), str) else values
        known = {k: v for k, v in values.items() if k in cls.__dataclass_fields__}
        if isinstance(probe := known.pop("probe", None), dict):
            known["probe"] = ProbeUsed(**{**probe, "why": _reason(probe.get("why"))})
        for name in ("integration", "last_layer"):
            known[name] = _integration(known.get(name))
        if isinstance(projection := known.get("projection"), dict):
            known["projection"] = Projection(**{**projection, "period": tuple(projection["period"])})
        known["off"] = None if known.get("off") is None else SwitchedOff.from_dict(known["off"])
        known["tails"] = None if known.get("tails") is None else Tails(**known["tails"])
        known["steps"] = tuple(StepNote(**step) for step in known.get("steps", ()))
        lists = {k: tuple(known.get(k, ())) for k in ("remarks", "leaves_out")}
        return cls(**{**known, **lists})


def _averaged(integration: Integration | Reason | None) -> str:
    if isinstance(integration, Reason) and integration == ASKED_FOR:
        return "plain sampling (asked for)"
    if isinstance(integration, Reason) and integration != GIVEN_MODELS:
        return f"plain sampling: {integration}"
    return "" if integration is None else str(integration)


# --- files ----------------------------------------------------------------------------------------------------------


def _reason(values: dict[str, str] | None) -> Reason | None:
    return None if values is None else Reason(**values)


def _integration(values: dict[str, Any] | None) -> Any:
    """An Integration or a Reason, told apart by their fields."""
    if values is None or "part" not in values:
        return _reason(values)
    return Integration(**{**values, "symmetries": tuple(values.get("symmetries", ()))})


def _from_layout_1(values: dict[str, Any]) -> dict[str, Any]:
    """Facts from the sentences that files of layout 1 held; what is not understood is kept as a remark or a reason."""
    notes = tuple(values.get("notes", ()))
    probe = _probe_of_layout_1(values["probe"], notes)
    why = None if probe["why"] is None else probe["why"]["text"]
    return {
        **values,
        "probe": probe,
        "remarks": tuple(note for note in notes if note != why),
        **_integration_of_layout_1(values.get("integration", "")),
    }


def _probe_of_layout_1(text: str, notes: tuple[str, ...]) -> dict[str, Any]:
    limit = re.fullmatch(r"origin limit \((.*)\)", text)
    used = limit[1] if limit else text
    gaussian, data = re.fullmatch(r"gaussian:(.*)", used), re.fullmatch(r".* \((\d+) samples\)", used)
    text = next((n for n in notes if " kink at the origin" in n or "origin is not defined" in n), "")
    kind = "kink" if limit else "constant norm"
    return {
        "used": used,
        "sigma": float(gaussian[1]) if gaussian else None,
        "why": {"kind": kind, "where": "", "text": text} if limit or text else None,
        "samples": int(data[1]) if data else None,
    }


def _integration_of_layout_1(text: str) -> dict[str, Any]:
    text, _, last = text.partition("; last layer integrated ('")
    also = {"last_layer": {"part": "last layer", "layer": last.removesuffix("')")} if last else None}
    first = re.fullmatch(r"first layer integrated (\w+).*? \('([^']*)', (.*)\).*", text)
    if text == "all layers":
        return {"integration": {"part": "all layers"}, **also}
    if first:
        exactly = first[1] == "exactly"
        return {"integration": {"part": "first layer", "layer": first[2], "law": first[3], "exactly": exactly}, **also}
    heads = re.fullmatch(r"(integrated|antithetic) heads \('([^']*)', (.*)\)", text)
    if heads:
        exactly = heads[1] == "integrated"
        return {"integration": {"part": "output weights", "layer": heads[2], "law": heads[3], "exactly": exactly}}
    known = {"": None, "given members": {"kind": "given members"}, "plain sampling (asked for)": {"kind": "asked for"}}
    reason = {"kind": "layout 1", "text": text.removeprefix("plain sampling: ")}
    return {"integration": known.get(text, reason), **also}
