"""Models written as text: the three forms, their options, the user's own code, and every sentence for what is wrong."""

import copy
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest
import torch
from torch import nn

from netgrain.models import MLP, ResNet18, load_model
from netgrain.models.specs import BUILTIN_NAMES, ModelSpec, plain_value
from netgrain.runtime.errors import NetgrainError


def parameters(family: Callable[[], nn.Module]) -> int:
    """Module-level, so that a spawned process can find it."""
    torch.set_num_threads(1)
    return sum(p.numel() for p in family().parameters())


# Built-in models


def test_builtin_names() -> None:
    assert BUILTIN_NAMES == ("mlp", "lenet", "smalllenet", "vgg11", "resnet18", "vit")


@pytest.mark.parametrize("name", BUILTIN_NAMES)
def test_every_builtin_loads_in_any_case_with_its_options(name: str) -> None:
    family = load_model(f"{name.upper()}:width=0.1,norm=none", channels=1, image_size=16, outputs=3)
    module = family()
    assert type(module).__name__.casefold() == name
    assert module(torch.zeros(2, 1, 16, 16)).shape == (2, 3)
    assert family() is not module


def test_options_of_the_text_reach_the_model_and_win_over_defaults() -> None:
    family = load_model("resnet18:norm=batch,width=0.25,activation=gelu,channels=2", channels=1, image_size=32)
    expected = {"norm": "batch", "width": 0.25, "activation": "gelu", "channels": 2, "image_size": 32}
    assert dict(family.options) == expected
    module = family()
    assert isinstance(module, ResNet18)
    assert module.stem[0].weight.shape == (16, 2, 3, 3)
    assert isinstance(module.stem[1], nn.BatchNorm2d)
    assert isinstance(module.stem[2], nn.GELU)


def test_family_is_readable_comparable_and_hashable() -> None:
    family = load_model("mlp:depth=1", channels=1)
    assert family.name == "mlp:depth=1"
    assert repr(family) == "ModelSpec('mlp:depth=1', channels=1, depth=1)"
    assert family == load_model("mlp:depth=1", channels=1)
    assert hash(family) == hash(load_model("mlp:depth=1", channels=1))
    assert family != load_model("mlp:depth=1", channels=3)
    with pytest.raises(AttributeError):
        family.name = "other"
    with pytest.raises(TypeError):
        family.options["depth"] = 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3", 3),
        ("-3", -3),
        ("0.25", 0.25),
        ("1e-3", 0.001),
        ("true", True),
        ("False", False),
        ("None", None),
        ("gelu", "gelu"),
        ("3x3", "3x3"),
        ("1.2.3", "1.2.3"),
    ],
)
def test_values_are_read_as_the_narrowest_kind(text: str, expected: object) -> None:
    found = plain_value(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize("spec", ["mlp", "mlp:", "mlp: depth = 2 , ", " MLP :depth=2"])
def test_spaces_and_empty_options_are_forgiven(spec: str) -> None:
    assert isinstance(load_model(spec, channels=1)(), MLP)


def test_defaults_may_be_objects() -> None:
    module = load_model("mlp", activation=nn.Tanh, channels=1)()
    assert sum(isinstance(part, nn.Tanh) for part in module.modules()) == 2


# The user's own models


@pytest.mark.parametrize(
    "spec", ["nets.py:Net", "./nets.py:Net", "nets:Net", "nets.py:Net:hidden=7", "nets:Net:hidden=7"]
)
def test_own_class_from_file_and_module(write: Callable[..., Path], spec: str) -> None:
    write("nets.py")
    module = load_model(spec)()
    assert type(module).__name__ == "Net"
    assert module(torch.zeros(2, 5)).shape == (2, 3)
    assert module.layers[1].out_features == (7 if "hidden" in spec else 4)


def test_installed_module_is_found(write: Callable[..., Path]) -> None:
    assert isinstance(load_model("netgrain.models.mlp:MLP:depth=1", channels=1)(), MLP)


def test_own_callable_gets_only_the_defaults_it_names(write: Callable[..., Path]) -> None:
    write("nets.py")
    family = load_model("nets.py:Net", channels=1, image_size=32)
    assert dict(family.options) == {"channels": 1}
    assert family().rest == {}
    assert load_model("nets.py:Net:image_size=8", image_size=32)().rest == {"image_size": 8}
    assert dict(load_model("nets.py:linear", channels=1).options) == {}


# Other processes


@pytest.mark.parametrize("spec", ["lenet:width=0.5", "nets.py:build:hidden=6", "nets:build:hidden=6"])
def test_family_survives_pickling_and_copying(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    folder = write("nets.py").parent
    family = load_model(spec, channels=1)
    pickled = bytes(ForkingPickler.dumps(family))
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    for twin in (ForkingPickler.loads(pickled), copy.deepcopy(family)):
        assert isinstance(twin, ModelSpec)
        assert twin == family
        assert dict(twin.options) == dict(family.options)
        assert str(twin()) == str(family())


def test_family_works_in_a_spawned_process(write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write("nets.py", "import sizes\nfrom torch import nn\ndef make(n): return nn.Linear(n, sizes.N)\n").parent
    write("sizes.py", "N = 2\n")
    families = [load_model("nets.py:make:n=4"), load_model("nets:make:n=5"), load_model("lenet", channels=1)]
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert list(pool.map(parameters, families)) == [10, 12, 61_706]


# Messages


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "resnet81",
            r"no built-in model called 'resnet81'\. Did you mean 'resnet18'\? "
            r"Known models: mlp, lenet, smalllenet, vgg11, resnet18, vit; your own is written path/file\.py:name",
        ),
        ("resnet81:norm=none", r"no built-in model called 'resnet81'\. Did you mean 'resnet18'\?"),
        ("", r"no built-in model called ''\. Known models: mlp"),
        ("mlp:hidden=3", r"'mlp:hidden=3' has no option 'hidden'.* Its options are channels, image_size, .*depth"),
        ("vgg11:widht=2", r"has no option 'widht'\. Did you mean 'width'\? Its options are channels,"),
        ("mlp:gelu", r"'mlp:gelu' has the option 'gelu', expected key=value: write for example width=0\.5"),
        ("mlp:norm=", "has the option 'norm=', expected key=value"),
        ("mlp:depth=1,depth=2", "sets 'depth' twice"),
        ("nets.py", r"'nets\.py' names 'nets\.py' but no model in it: write nets\.py:NAME"),
        ("nets.py:hidden=3", r"names 'nets\.py' but no model in it"),
        ("nets:", "names 'nets' but no model in it: write nets:NAME"),
        ("net.py:Net", r"There is no file 'net\.py' \(looked for .*net\.py\)\. Did you mean 'nets\.py'\?"),
        ("no/such/net.py:Net", r"There is no file 'no/such/net\.py' .* Check the path"),
        ("nets.py:Nett", r"'nets\.py' has nothing called 'Nett'\. Did you mean 'Net'\? Name a class or function"),
        ("nets:biuld", r"'nets' has nothing called 'biuld'\. Did you mean 'build'\?"),
        ("nets.py:number", r"'number' in 'nets\.py' was expected to be a class or function .*, found int"),
        (
            "nets.py:finished",
            r"'finished' in 'nets\.py' is one finished module \(Net\).*: "
            "give a class or function that returns a fresh module",
        ),
        ("nets.py:build", r"'nets\.py:build' needs a value for 'hidden': add the option hidden=VALUE"),
        ("nets.py:build:hiden=3", r"has no option 'hiden'\. Did you mean 'hidden'\? Its options are hidden, word\."),
        ("nets.py:linear:size=3", r"has no option 'size'\. It takes no options\."),
        ("nets.py:positional", "needs a value for 'size', which can only be given by position"),
        ("netz.nets:Net", r"no module 'netz\.nets' in .* \(Python found no 'netz'\).* A file is written path/file"),
        ("resnet19:make", r"There is no module 'resnet19' in .* Did you mean 'resnet18'\?"),
        ("sub/nets:Net", "no built-in model called 'sub/nets'"),
        (f"{'n' * 300}.py:Net", r"There is no file 'n+\.py'"),
        (f"{'n' * 5000}/net.py:Net", r"There is no file 'n+/net\.py'"),
        ("a\0b.py:Net", r"'a\\x00b\.py' cannot be the path of a file \(embedded null"),
        ("~nobody-here/net.py:Net", r"'~nobody-here/net\.py' cannot be the path of a file \(.*home"),
    ],
)
def test_bad_text_gets_a_sentence(write: Callable[..., Path], spec: str, message: str) -> None:
    write("nets.py")
    with pytest.raises(NetgrainError, match=message):
        load_model(spec)


def test_a_default_that_is_misspelt_is_refused_by_the_signature() -> None:
    with pytest.raises(TypeError, match="chanels"):
        load_model("mlp", chanels=1)  # type: ignore[call-arg]


def test_a_family_that_returns_no_module_says_so(write: Callable[..., Path]) -> None:
    write("nets.py")
    with pytest.raises(NetgrainError, match=r"'nets\.py:wrong' was expected to return a torch\.nn\.Module, found dict"):
        load_model("nets.py:wrong")()
