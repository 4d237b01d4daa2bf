"""Cards of the built-in models (and of timm models, where timm is installed) on one page of Markdown.

python examples/gallery.py --out docs
"""

import argparse
import importlib.util
from pathlib import Path

from netgrain.audit import card
from netgrain.average import average_geometry
from netgrain.errors import NetgrainError
from netgrain.files import write_whole
from netgrain.models import load_model
from netgrain.plots import png

BUILT_IN = ("mlp", "lenet", "vgg11:pool=avg", "resnet18", "vit")
TIMM = ("timm:resnet18", "timm:mobilenetv3_small_050")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("gallery"))
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--models", nargs="*", default=None)
    arguments = parser.parse_args()
    names = arguments.models or [*BUILT_IN, *(TIMM if importlib.util.find_spec("timm") else ())]
    page = [
        "# Gallery",
        f"The grain of some networks at random initialisation, {arguments.size} × {arguments.size} colour images, GELU "
        "in the built-in ones. Made by `python examples/gallery.py --out docs`.",
    ]
    for name in names:
        options = {} if name.startswith("timm:") else {"activation": "gelu"}
        shape = (3, arguments.size, arguments.size)
        try:
            make = load_model(name, channels=3, image_size=arguments.size, outputs=10, **options)
            made = card(name, average_geometry(make, shape))
        except NetgrainError as e:
            page.append(f"### {name}\n\n{e}")
            continue
        picture = Path("images") / f"grain-{name.replace(':', '-').replace('=', '-')}.png"
        write_whole(arguments.out / picture, png(made.figure()))
        page.append(made.markdown(str(picture)).strip())
        print(name)
    write_whole(arguments.out / "gallery.md", ("\n\n".join(page) + "\n").encode())


if __name__ == "__main__":
    main()
