"""What `make package` runs with the Python of an empty environment in which a wheel or an sdist was installed.

Outside of the checkout: what is missing in the package is missing here.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path

LICENCES = {"LICENSE", "netgrain/data/digits/LICENSE.txt"}
COMMANDS = (
    "--version",
    "audit mlp --data digits --limit 200 --quick --out page.html",
    "learnability mlp --data digits --limit 100 --no-trial --out scores.png",
    "geometry lenet --input 1x16x16 --out G.safetensors",
    "group D8 --out d8",
    "run fig9 --scale smoke --out fig9",
)
MADE = ("page.html", "scores.png", "G.safetensors", "d8/cayley.png", "fig9/figure.png")


def main() -> None:
    """Stops with a traceback at the first thing that is wrong."""
    import netgrain
    from netgrain.models import LeNet

    found = distribution("netgrain")
    root = files("netgrain")
    assert str(root).startswith(sys.prefix), f"{root} is not the installed package"
    assert root.joinpath("py.typed").is_file(), "type checkers need py.typed"
    there = {str(file).partition(".dist-info/licenses/")[2] for file in found.files or ()}
    assert there >= LICENCES, f"licences are missing: {LICENCES - there}"
    for name in netgrain.__all__:
        assert getattr(netgrain, name) is not None, name
    assert netgrain.average_geometry(LeNet, (3, 32, 32), members=2, progress=False).d == 3072
    script = Path(sys.executable).with_name("netgrain")
    with tempfile.TemporaryDirectory() as empty:
        for words in COMMANDS:
            subprocess.run([script, *words.split()], cwd=empty, check=True, stdout=subprocess.DEVNULL)
        missing = [name for name in MADE if not Path(empty, name).stat().st_size]
    assert not missing, missing
    sys.stdout.write(f"netgrain {found.version} works on Python {sys.version.split()[0]}; ")
    sys.stdout.write(f"{len(netgrain.__all__)} public names\n")


if __name__ == "__main__":
    main()
