"""Words that a user types: models, probes, shapes, outputs, groups, data sets, layers, engines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.fuzzing.files import picture
from tests.fuzzing.rules import Failure, Target, untouched
from tests.fuzzing.spoiling import word

MODELS = (
    *("mlp", "lenet", "smalllenet", "vgg11", "resnet18", "vit", "mlp:width=0.1", "lenet:activation=gelu,channels=1"),
    *("resnet18:norm=none,width=0.25", "vit:outputs=3", "models.py:Net", "./models.py:Net:channels=2", "models:Net"),
    *("models.py:VALUE", "models.py:Raises", "broken.py:Net", "torch.nn:Linear:in_features=2,out_features=1"),
    *("math:pi", "no.such.module:name", "timm:nothing", "folder.py:x", "mlp:activation=none,norm=batch"),
)
PROBES = ("auto", "origin", "gaussian", "gaussian:0.001", "gaussian:1e-300", "data:x.npy", "data:.", "data:models.py")
SIZES = ("4", "1x2x2", "1x8x8", "3x32x32", "20", "1×4×4", "1x0", "9999999x9999", "01x2")
OUTPUTS = ("all", "mean", "0", "-1", "3", "diff:0,1", "diff:0,9")
GROUPS = (
    "C12",
    "D60",
    "Q8",
    "Dic12",
    "S4",
    "A5",
    "C8xC8xD8",
    "C5xC5:Q8",
    "p4m8",
    "C3:C2",
    "S6",
    "A9",
    "C999999999",
    "Z2",
)
SMALL_GROUPS = ("C12", "D8", "Q8", "Dic12", "S4", "A5", "C2xC2xD8", "C3xC3:Q8", "p4m2", "C3:C2", "C999999999", "D7")
SETS = ("digits", "mnist", "fashion-mnist", "cifar10", "cifar2", "x.npz", "nowhere.npz", "photos/", ".", "models.py")
LAYERS = (
    "pool=AvgPool2d(2)",
    "a.b=GELU",
    "x=Linear(3, 4)",
    "x=Conv2d(1,2,3,stride=(1,2))",
    "x=Softmax(dim=1)",
    "=",
    "a=[1](",
)
ENGINES = ("local", "processes", "ray", "submitit", "threads")
FILES = {
    "models.py": (
        "from torch import nn\nVALUE = 3\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, channels=1):\n        super().__init__()\n        self.layer = nn.Linear(4, 2)\n"
        "    def forward(self, x):\n        return self.layer(x.flatten(1)).tanh()\n"
        "def Raises():\n    raise RuntimeError('no such\\nthing')\n"
    ),
    "broken.py": "def (:\n",
    "text.txt": "words\n",
}


def lay_out(folder: Path) -> None:
    """Small files that the words may name."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "folder.py").mkdir()
    np.save(folder / "x.npy", np.arange(8, dtype=np.float32).reshape(2, 4))
    np.save(folder / "s.npy", np.arange(4, dtype=np.float32))
    np.savez(folder / "x.npz", X=np.arange(24, dtype=np.float32).reshape(6, 4) / 7, y=np.array([0, 1] * 3))
    for name in ("photos/cat", "photos/dog"):
        (folder / name).mkdir(parents=True)
        (folder / name / "1.png").write_bytes(picture("PNG", "L"))
    (folder / "w.pt").write_bytes(b"nothing")


def run_model(text: str, folder: Path) -> bool:
    from netgrain.cli.parsing import family_from_text

    lay_out(folder)
    before = list(sys.path), set(sys.modules)
    try:
        family_from_text(text, (1, 8, 8))
    finally:
        for name in set(sys.modules) - before[1]:
            if name.startswith("netgrain_user_") or name == "models":
                del sys.modules[name]
        if sys.path != before[0]:
            raise Failure("the import path was changed")
    return True


def run_words(call: Callable[[str], object]) -> Callable[[str, Path], bool]:
    def run(text: str, folder: Path) -> bool:
        lay_out(folder)
        with untouched(folder):
            call(text)
        return True

    return run


def _parse_probe(text: str) -> None:
    from netgrain.cli.parsing import parse_probe

    probe = parse_probe(text)
    if probe is not None:
        probe.points((4,), 2, 0)


def _parse_input(text: str) -> None:
    from netgrain.cli.parsing import parse_input

    parse_input(text)


def _parse_output(text: str) -> None:
    from netgrain.cli.parsing import parse_output

    parse_output(text)


def _parse_group(text: str) -> None:
    from netgrain.groups import parse

    repr(parse(text))


def _read_set(text: str) -> None:
    from netgrain.data import load

    load(text, data_dir=Path.cwd(), limit=5)


def _read_layers(text: str) -> None:
    from netgrain.auditing.swaps import parsed_swaps

    parsed_swaps([text])


def _find_engine(text: str) -> None:
    from netgrain.runtime.engines import engine

    engine(text, 1)


def _words_target(name: str, known: tuple[str, ...], call: Callable[[str], object]) -> Target:
    return Target(name, lambda rng: word(rng, *known), run_words(call))


TARGETS = (
    Target("MODEL", lambda rng: word(rng, *MODELS), run_model),
    _words_target("probe", PROBES, _parse_probe),
    _words_target("input shape", SIZES, _parse_input),
    _words_target("output", OUTPUTS, _parse_output),
    _words_target("group", GROUPS, _parse_group),
    _words_target("data set", SETS, _read_set),
    _words_target("layer", LAYERS, _read_layers),
    _words_target("engine", ENGINES, _find_engine),
)
