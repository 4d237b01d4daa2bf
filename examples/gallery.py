"""Cards of the built-in models (and of timm models, where timm is installed) on one page of Markdown.

python examples/gallery.py --out docs     # minutes; the ReLU networks need CIFAR-10 (NETGRAIN_DATA, or --download)
"""

import argparse
import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

import netgrain as ng
from netgrain.auditing.cards import card
from netgrain.data import load
from netgrain.geometry.plots import png
from netgrain.models import load_model
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.files import write_whole

BUILT_IN = ("mlp", "lenet", "vgg11:pool=avg", "resnet18", "vit")
TIMM = ("timm:resnet18", "timm:mobilenetv3_small_050")
AT_IMAGES = ("lenet", "resnet18", "vit")  # sampling takes a while


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("gallery"))
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--models", nargs="*", default=None)
    parser.add_argument("--data", default="cifar10", help="images for ReLU networks; none to leave them out")
    parser.add_argument("--download", action="store_true")
    parser.add_argument("--tolerance", type=float, default=0.05, help="1 − Corr with the true G at images")
    arguments = parser.parse_args()
    names = arguments.models or [*BUILT_IN, *(TIMM if importlib.util.find_spec("timm") else ())]
    size = arguments.size
    page = [
        "# Gallery",
        f"What some networks react to at random initialisation, {size} × {size} colour images. Each title says "
        "which activation and where G is taken. At the origin x = 0 a network is a linear map, so a direction without "
        "gain there may have some elsewhere. Made by `python examples/gallery.py --out docs`.",
    ]
    probe = None if arguments.data == "none" else images(arguments.data, size, arguments.download)
    for name in names:
        own = name.startswith("timm:")
        make = load_model(name, channels=3, image_size=size, outputs=10, activation=None if own else "gelu")
        page.append(
            shown(arguments.out, f"{name}, {'its own activation' if own else 'GELU'} at the origin", make, size)
        )
        if name in AT_IMAGES and probe is not None:
            make = load_model(name, channels=3, image_size=size, outputs=1, activation="relu")
            wanted = {"probe": probe, "probes": 16, "tolerance": arguments.tolerance, "method": "sampled"}
            page.append(shown(arguments.out, f"{name}, ReLU at {probe.describe()}", make, size, **wanted))
    write_whole(arguments.out / "gallery.md", ("\n\n".join(page) + "\n").encode())


def shown(out: Path, title: str, make: Callable[[], nn.Module], size: int, **wanted: Any) -> str:
    """The card of a family; its picture is written."""
    try:
        made = card(title, ng.average_geometry(make, (3, size, size), **wanted))
    except NetgrainError as e:
        return f"### {title}\n\n{e}"
    picture = Path("images") / f"grain-{re.sub('[^a-z0-9]+', '-', title.lower()).strip('-')}.png"
    write_whole(out / picture, png(made.figure()))
    print(title, flush=True)
    return made.markdown(str(picture)).strip()


def images(name: str, size: int, download: bool) -> ng.Data:
    return ng.Data(load(name, limit=1000, size=size, download=download).X, name)


if __name__ == "__main__":
    main()
