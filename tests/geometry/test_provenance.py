"""How a geometry was obtained: facts survive a file, sentences are made of them, files of layout 1 are read."""

from __future__ import annotations

import base64
import zlib
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from torch import nn

import netgrain as ng
from netgrain.auditing.places import where
from netgrain.families.reasons import Reason
from netgrain.families.switched_off import OffPart, SwitchedOff
from netgrain.geometry.provenance import (
    ASKED_FOR,
    GIVEN_MODELS,
    Integration,
    ProbeUsed,
    Provenance,
    StepNote,
)
from netgrain.geometry.tails import Tails
from tests.families.residual_networks import OFF

VERSIONS = {"netgrain": "0.1.0", "python": "3.11.7", "torch": "2.13.0+cpu"}
KINK = (
    "the network has a kink at the origin; its limit σ → 0 is used (the network is positively homogeneous, so the "
    "limit is taken at σ = 1)"
)
PLAIN = "plain sampling: away from the origin the forward pass depends on the first layer"

# netgrain 0.1.0 before this layout: average_geometry of the two-tap filter of its docstring, members=2, saved
LAYOUT_1 = (
    "c${@qO>f&U4DE*f5JQ)4m|;l%PA<C**m=h|FcgbUj5?MlDcQ0h|9!M*H$~ey2x2{wkK`kj!>0%TTv=To!AT{ZtZTNuvH{%Q$ZlY3cCDD)>65G2"
    "I>2}MBOCwT%HBd4RID2uptI}rFyR$zJ7ZnY%L|xbF@g$wWPb@hKk~;gI7`#Xp@Bd|JQhJ!ojBi#fJfp>#U|Pw<QZ%|XWncl><Gsl7&`$mo!vnz"
    "%4+3t>_JiRQ7h;P{|UcNFt|?kWE!*sd#6PHky2ov{p>Ruy#vCu>Gs_~um$kR_;fg9A=t8=by*anC~PC*GuH)coZ%!AA}R=X+B64(<47bC|JsbFi"
    "rpsLUog712Wfl}JmMa0wK>k&8a;N@g_tajCQr0Hb;BaaXh6<-SbZ|hTbC9mf}yjM(Z6jyf~iMoNOU9@UM1Ve-iP~X#Tn1jA}*3R%}ZaJb+DACy8"
    "d|=HWd8?W}tCwVh@Z`sczVNWP@t*EoB)c%?aUz5NA3CGu6$fx>x^X^Z*T#&#JYjzOS8;)aZaGT2GwsB<2W9PsDvE+JnYTGM9Pr<Yitu@!Wb1#%M"
    "#s5TaO#jEgeGPnPGY_d3Wp%ZUyh5=ey-Wv-gE5WIz$m*s9HlNC>u%vLQ|QWm8wi#BgmTf}H9cfcVlT7`Ra!-o7&BN|+^Ol7*8%3Vgli}@o@S;%~"
    "2Y&{9f{QcE!Yr$EBcqsBM5^1Br{68{z8!7TI<=a;^OzZKI<$Dsp%pbl}LCV7nOSlE}e4xLZhvoO-)%oKc`u6hs4<|=j^Z"
)


def taps() -> nn.Module:
    net = nn.Sequential(nn.Conv1d(1, 1, 2, bias=False), nn.AvgPool1d(2), nn.Flatten())
    nn.init.normal_(net[0].weight)
    return net


@pytest.mark.quick
def test_a_file_of_layout_1(tmp_path: Path) -> None:
    file = tmp_path / "old.safetensors"
    file.write_bytes(zlib.decompress(base64.b85decode(LAYOUT_1)))
    G = ng.Geometry.load(file)
    assert G.about.probe == ProbeUsed(used="origin")
    assert G.about.integration == Integration("first layer", "0", "variance 1.021 ± 0.1")
    assert G.about.averaged == "first layer integrated exactly ('0', variance 1.021 ± 0.1)"
    assert G.about.versions == VERSIONS
    assert repr(G).startswith("Geometry(d=3, sampled from 2 members, first layer integrated, Sequential, probe origin")
    torch.testing.assert_close(
        G.matrix() / G.matrix()[0, 0], torch.tensor([[1.0, 1, 0], [1, 2, 1], [0, 1, 1]]).double()
    )
    again = ng.Geometry.load(G.save(tmp_path / "new.safetensors"))
    assert again.about == G.about


OLD = {  # the sentences of layout 1, and what becomes of them
    "kink": (
        {"probe": "origin limit (gaussian:1)", "integration": PLAIN, "notes": [KINK]},
        {"probe": ProbeUsed("", "gaussian:1", 1.0, Reason("kink", "", KINK)), "remarks": ()},
    ),
    "data": (
        {"probe": "data (200 samples)", "integration": "given members", "notes": ["flipped"]},
        {"probe": ProbeUsed(used="data (200 samples)", samples=200), "integration": GIVEN_MODELS},
    ),
    "closed form": (
        {"probe": "gaussian:0.5", "integration": "all layers", "notes": ["averaged over 8 probe points"]},
        {"probe": ProbeUsed(used="gaussian:0.5", sigma=0.5), "integration": Integration("all layers")},
    ),
    "both ends": (
        {"probe": "gaussian:1", "integration": f"{PLAIN}; last layer integrated ('fc')", "notes": []},
        {"last_layer": Integration("last layer", "fc")},
    ),
    "approximately": (
        {
            "probe": "data (9 samples)",
            "integration": "first layer integrated approximately: the probe is not the origin ('c', uniform in ±1/√3)",
            "notes": [],
        },
        {"integration": Integration("first layer", "c", "uniform in ±1/√3", exactly=False)},
    ),
    "heads": (
        {"probe": "gaussian:1", "integration": "antithetic heads ('2', uniform in ±1/√3)", "notes": []},
        {"integration": Integration("output weights", "2", "uniform in ±1/√3", exactly=False)},
    ),
    "asked for": (
        {"probe": "", "integration": "plain sampling (asked for)", "notes": []},
        {"probe": ProbeUsed(), "integration": ASKED_FOR},
    ),
}


@pytest.mark.parametrize("name", OLD)
def test_sentences_of_layout_1_become_fields_and_are_made_of_them_again(name: str) -> None:
    old, facts = OLD[name]
    found = Provenance.from_dict({"method": "sampled", "versions": VERSIONS, "leaves_out": [], **old})
    for field, value in facts.items():
        assert getattr(found, field) == value, field
    assert str(found.probe) == old["probe"]
    assert found.averaged == old["integration"]
    assert list(found.notes) == old["notes"]
    assert Provenance.from_dict(asdict(found)) == found


def test_every_field_survives_a_file() -> None:
    about = Provenance(
        "closed-form",
        probe=ProbeUsed("origin", "gaussian:1", 1.0, Reason("kink", "", "a kink")),
        points=8,
        integration=Integration("all layers", symmetries=("images transposed",)),
        last_layer=Integration("last layer", "fc"),
        tolerance=0.1,
        reached=True,
        steps=(StepNote("observed", "relu", "slopes observed"),),
        leaves_out=("something",),
        off=SwitchedOff((OffPart("norm", 8, 20, ("a.weight", "b.weight")),), zero=True),
        switched_on=True,
        tails=Tails(8, 3.0, 1.0, 1.5, 9.0),
        remarks=("more",),
    )
    assert Provenance.from_dict({**asdict(about), "of a newer version": 1}) == about
    kink, observed, averaged, tails, more = about.notes
    assert (kink, observed, averaged, more) == ("a kink", "slopes observed", "averaged over 8 probe points", "more")
    assert tails.startswith("heavy tails")


def test_off_and_on_survive_a_file_and_are_said(tmp_path: Path) -> None:
    G = ng.average_geometry(OFF["scale"][0], (5,), switched_on=True, members=8)
    again = ng.Geometry.load(G.save(tmp_path / "on.safetensors"))
    assert again.about == G.about
    assert again.about.off is not None
    assert repr(again) == repr(G)
    assert Provenance("sampled", switched_on=True).switches() == "switched on: nothing was off"
    assert Provenance("sampled").switches() == ""


def test_what_is_recorded_of_a_sampled_geometry() -> None:
    about = ng.average_geometry(taps, (1, 3), members=2).about
    assert isinstance(about.integration, Integration)
    assert (about.integration.part, about.integration.layer, about.integration.exactly) == ("first layer", "0", True)
    assert (about.probe.asked, about.probe.used, about.tolerance, about.reached) == ("", "origin", None, None)
    reached = ng.average_geometry(taps, (1, 3), tolerance=0.1, method="sampled").about
    assert (reached.tolerance, reached.reached) == (0.1, True)
    never = ng.average_geometry(taps, (1, 3), members=2, first_layer="never", probe=ng.Gaussian(0.5), probes=3).about
    assert (never.integration, never.points) == (ASKED_FOR, 3)
    assert (never.probe.asked, never.probe.sigma, never.probe.why) == ("gaussian:0.5", 0.5, None)


def test_the_place_in_words_comes_from_fields() -> None:
    def at(probe: ProbeUsed, samples: int | None = None) -> str:
        G = ng.Geometry.from_matrix(torch.eye(2))
        return where(ng.Geometry(G.form, (2,), Provenance("sampled", probe=probe)), samples)

    data = ProbeUsed(used="data (8 samples)", samples=8)
    assert at(data, 100) == "at 8 of the 100 samples"
    assert at(data, 8) == "at the 8 samples"
    assert at(data) == "at the probe data (8 samples)"
    assert at(ProbeUsed(used="gaussian:1", why=Reason("kink"))) == "at the origin x = 0 (its limit: gaussian:1)"
    assert at(ProbeUsed(used="origin")) == "at the origin x = 0"
