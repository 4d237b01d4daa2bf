"""Cards of the built-in models, and the grain of twenty-four real ones at native size, on one page of Markdown.

python examples/gallery.py --out docs     # minutes; the ReLU networks need CIFAR-10 (NETGRAIN_DATA, or --download)
python examples/gallery.py --out docs --real     # and the models of timm and torchvision (extra [vision]): half an hour

Every card is made in a process of its own and kept in --work, so a run that was interrupted resumes; --anew makes the
cards of --models again.
"""

import argparse
import json
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from torch import nn

import netgrain as ng
from netgrain.auditing.cards import card
from netgrain.auditing.places import how, where
from netgrain.data import load
from netgrain.geometry.plots import draw_vector, png, spectrum
from netgrain.models import load_model
from netgrain.models.timm_models import import_timm
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.files import write_whole

BUILT_IN = ("mlp", "lenet", "vgg11:pool=avg", "resnet18", "vit")
AT_IMAGES = ("lenet", "resnet18", "vit")  # sampling takes a while
SIXTEEN = (
    *("resnet18", "resnet50", "seresnet50", "densenet121", "vgg16_bn", "mobilenetv3_large_100", "efficientnet_b0"),
    *("regnety_004", "convnext_tiny", "nf_resnet50", "darknet53", "hrnet_w18_small", "poolformer_s12"),
    *("mixer_s16_224", "vit_tiny_patch16_224", "swin_tiny_patch4_window7_224"),
)  # as in benchmarks/real_models.py
SIX = ("resnext50_32x4d", "ghostnet_100", "repvgg_a0", "inception_v3", "cait_xxs24_224", "gmlp_s16_224")
REAL = (*(f"timm:{name}" for name in (*SIXTEEN, *SIX)), "torchvision:resnet18", "torchvision:squeezenet1_1")
SWITCHED_ON = ("timm:mixer_s16_224", "timm:gmlp_s16_224")  # their heads start at zero, so that G = 0
REAL_AT_IMAGES = ("timm:resnet18", "timm:vit_tiny_patch16_224")
CLASSES = 1000
LEADS = 4  # an eigenvalue leads that is so many times the mean of all; else the pictures would be of noise
SHOWN = 8  # leading directions of a large input


@dataclass(frozen=True)
class Entry:
    """A card: the model, where G is taken ("" is the default: the origin or its limit) and at which size."""

    model: str
    at: str
    size: int

    @property
    def real(self) -> bool:
        return ":" in self.model and self.model.partition(":")[0] in ("timm", "torchvision")

    @property
    def title(self) -> str:
        if self.real:
            on = ", switched on" if self.model in SWITCHED_ON else ""
            return f"{self.model}, {self.size} × {self.size}{on}{f', at {self.at}' if self.at else ''}"
        return f"{self.model}, ReLU at {self.at}" if self.at else f"{self.model}, GELU at the origin"

    @property
    def name(self) -> str:
        """Of its files."""
        return f"grain-{re.sub('[^a-z0-9]+', '-', self.title.lower()).strip('-')}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("gallery"))
    parser.add_argument("--work", type=Path, default=Path("out/gallery"), help="where finished cards are kept")
    parser.add_argument("--size", type=int, default=None, help="pixels (32 for built-in models, native for real ones)")
    parser.add_argument("--models", nargs="*", default=None, help="these alone, such as mlp or timm:resnet18")
    parser.add_argument("--real", action="store_true", help="the twenty-four real models as well")
    parser.add_argument("--anew", action="store_true", help="make cards that are there again")
    parser.add_argument("--data", default="cifar10", help="images for some networks; none to leave them out")
    parser.add_argument("--download", action="store_true")
    parser.add_argument("--tolerance", type=float, default=0.05, help="1 − Corr with the true G at images")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds of one card")
    parser.add_argument("--one", nargs=3, metavar=("MODEL", "AT", "SIZE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        model, at, size = arguments.one
        made(Entry(model, at, int(size)), arguments)
        return
    sections = {"": [], "## Real models": []}
    for entry in entries(arguments):
        text = kept(entry, arguments)
        sections["## Real models" if entry.real else ""].append(text)
        print(entry.title, "(failed)" if "could not be made" in text else "", flush=True)
    page = [
        "# Gallery",
        "What some networks react to at random initialisation, on colour images. Each card says where it takes G, the "
        "network's average input geometry: at the *origin* (the input x = 0) or at other inputs (a *probe*, such as "
        "images of CIFAR-10). At the origin a network is a linear map, so a direction with zero gain there may have "
        "some elsewhere. Where a network has a kink at the origin, Gaussian inputs (`gaussian:σ`) stand for it. "
        "*Members* are random networks of the family; a *block* is a run of nearly equal eigenvalues. Made by "
        "`python examples/gallery.py --out docs --real`.",
    ]
    page += [part for title, cards in sections.items() if cards for part in ([title] if title else []) + cards]
    write_whole(arguments.out / "gallery.md", ("\n\n".join(page) + "\n").encode())


def entries(arguments: argparse.Namespace) -> list[Entry]:
    found = []
    for model in arguments.models or [*BUILT_IN, *(REAL if arguments.real else ())]:
        own = Entry(model, "", arguments.size or (native_size(model) if Entry(model, "", 0).real else 32))
        found.append(own)
        if model in (*AT_IMAGES, *REAL_AT_IMAGES) and arguments.data != "none":
            found.append(Entry(model, arguments.data, own.size))
    return found


def native_size(model: str) -> int:
    library, _, name = model.partition(":")
    return int(import_timm(model).get_pretrained_cfg(name).input_size[-1]) if library == "timm" else 224


def kept(entry: Entry, arguments: argparse.Namespace) -> str:
    """The text of a card that was made, now or earlier; a sentence where it could not be made, which is not kept."""
    path = arguments.work / f"{entry.name}.json"
    if arguments.anew or not path.exists() or not (arguments.out / picture(entry)).exists():
        path.unlink(missing_ok=True)
        words = [str(w) for w in sys.argv[1:] if w != "--anew"]
        command = [sys.executable, __file__, *words, "--one", entry.model, entry.at, str(entry.size)]
        try:
            done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=arguments.timeout, check=False)
            said = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "no word")
        except subprocess.TimeoutExpired:
            said = f"not finished after {arguments.timeout:.0f} s"
        if not path.exists():
            return f"### The grain of {entry.title}\n\nThis card could not be made: {said}"
    return str(json.loads(path.read_text())["text"])


def picture(entry: Entry) -> Path:
    return Path("images") / f"{entry.name}.png"


# --- one card ---------------------------------------------------------------------------------------------------------


def made(entry: Entry, arguments: argparse.Namespace) -> None:
    """Compute a geometry, draw it, and write down what it took."""
    wanted: dict[str, Any] = {}
    if entry.at:
        wanted = {"probe": images(entry.at, entry.size, arguments.download), "tolerance": arguments.tolerance}
        wanted |= {} if entry.real else {"probes": 16, "method": "sampled"}
    if entry.model in SWITCHED_ON:
        wanted["switched_on"] = True
    make = family(entry)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the card says how precise it is
        G = ng.average_geometry(make, (3, entry.size, entry.size), **wanted)
    seconds = time.perf_counter() - started
    if entry.real:
        figure, text = real_card(entry, G, seconds)
    else:
        own = card(entry.title, G)
        figure, text = own.figure(), own.markdown(str(picture(entry))).strip()
    write_whole(arguments.out / picture(entry), png(figure))
    facts = {"text": text, "seconds": seconds, "summary": repr(G), "where": str(G.about.probe)}
    write_whole(arguments.work / f"{entry.name}.json", (json.dumps(facts, ensure_ascii=False) + "\n").encode())


def family(entry: Entry) -> Callable[[], nn.Module]:
    library, _, name = entry.model.partition(":")
    if library == "torchvision":
        import_timm(entry.model)  # makes a torchvision importable that was built for another torch
        import torchvision.models

        return partial(getattr(torchvision.models, name), num_classes=CLASSES)
    if entry.real:
        size = None if entry.size == native_size(entry.model) else entry.size
        return load_model(entry.model, channels=3, image_size=size, outputs=CLASSES)
    activation, outputs = ("relu", 1) if entry.at else ("gelu", 10)
    return load_model(entry.model, channels=3, image_size=entry.size, outputs=outputs, activation=activation)


def images(name: str, size: int, download: bool) -> ng.Data:
    most = 1000 if size <= 64 else 64  # 64 images of 3 × 224 × 224 take 37 MB
    return ng.Data(load(name, limit=most, size=size, download=download).X, name)


def real_card(entry: Entry, G: ng.Geometry, seconds: float) -> tuple[Figure, str]:
    """The spectrum and the leading directions of a large input, if any leads, and a paragraph."""
    values = G.eigenvalues
    # a pattern in red, green and blue is one pattern
    alike = len(values) > 2 and G.input_shape[0] == 3 and bool(values[2] > (1 - 1e-6) * values[0])
    chosen = range(0, min(len(values), SHOWN * 3), 3) if alike else range(min(len(values), SHOWN))
    leading = [i for i in chosen if values[i] > LEADS * G.trace.value / G.d]
    figure = Figure(figsize=(9.6 if leading else 5.6, 2.8), layout="constrained")
    left, *right = figure.subfigures(1, 1 + bool(leading), width_ratios=(1, 1.9)[: 1 + bool(leading)], squeeze=False)[0]
    spectrum(G, left.subplots(), log_x=True)
    cells = list(right[0].subplots(2, SHOWN // 2).flat) if leading else []
    for cell in cells:
        cell.axis("off")
    vectors = G.directions(leading[-1] + 1) if leading else None
    for i, cell in zip(leading, cells, strict=False):
        assert vectors is not None
        draw_vector(cell, vectors[i].numpy())
        cell.set_title(str(i + 1), fontsize=7, pad=2)
    figure.suptitle(f"{entry.title}, G {where(G)}", fontsize=11 if leading else 9)
    rank, shape = G.effective_rank, " × ".join(map(str, G.input_shape))
    error = f" ± {rank.stderr:.2g}" if rank.stderr > 0 else ""
    sentences = [f"Taken {where(G)}: effective rank {rank.value:,.3g}{error} of {G.d:,} ({shape})."]
    if not leading:
        sentences.append(f"No eigenvalue exceeds {LEADS} times the mean, so no leading direction is drawn.")
    sentences += [f"{remark[:1].upper()}{remark[1:]}." for remark in G.about.remarks]
    sentences.append(f"({how(G)}; {seconds:.0f} s; made by netgrain)")
    text = f"### The grain of {entry.title}\n\n![directions the network reacts to]({picture(entry)})\n\n"
    return figure, text + " ".join(sentences)


if __name__ == "__main__":
    try:
        main()
    except NetgrainError as e:
        sys.exit(str(e))
