"""Models as text: `resnet18:norm=none,width=0.25`, `path/file.py:name`, `package.module:name`, `timm:NAME`.

A built-in model is a file of this room and one row of BUILTIN. torch is loaded with the first model, so a wrong name is
answered at once.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

from netgrain.models.user_code import importable, module_by_name, module_from_file, no_file, path_of
from netgrain.runtime.errors import NetgrainError, did_you_mean
from netgrain.runtime.files import is_file

if TYPE_CHECKING:
    from torch import nn

BUILTIN = {
    "mlp": "netgrain.models.mlp:MLP",
    "lenet": "netgrain.models.lenet:LeNet",
    "smalllenet": "netgrain.models.lenet:SmallLeNet",
    "vgg11": "netgrain.models.vgg:VGG11",
    "resnet18": "netgrain.models.resnet:ResNet18",
    "vit": "netgrain.models.vit:ViT",
}
BUILTIN_NAMES = tuple(BUILTIN)
TIMM = "timm"  # the prefix of timm's own names
FILE = re.compile(r"(?P<file>.+?\.py)(:(?P<name>[^:=,]*))?(:(?P<options>.*))?")
MODULE = re.compile(r"(?P<module>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*):(?P<name>[^:=,]*)(:(?P<options>.*))?")
FORMS = f"""MODEL is one of
  a built-in name      {", ".join(BUILTIN_NAMES)}
  a file               path/file.py:NAME         a class or function that returns a fresh module
  a module             package.module:NAME
  a model of timm      timm:NAME                 extra [vision]
  each with options    lenet:activation=gelu,outputs=1"""
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "none": None}


@dataclass(frozen=True, repr=False)
class ModelSpec:
    """A family of networks written as text: called, it returns a fresh module.

    It is pickled as its text and the folder it was read in, and loaded again from there when unpickled, so it
    can be sent to another process.
    """

    name: str
    """The text as it was written."""
    options: Mapping[str, object] = field(hash=False)
    """Everything the model is called with: options of the text, and the defaults that it takes."""
    base: Path
    """The folder that relative paths and module names start from."""
    make: Callable[..., object] = field(compare=False)
    """The class or function behind the name."""
    folder: Path | None = field(default=None, compare=False)
    """The folder of the user's code, importable while it runs."""
    defaults: Mapping[str, object] = field(default_factory=dict, compare=False)
    """The defaults it was loaded with."""

    def __call__(self) -> nn.Module:
        from torch import nn

        with nullcontext() if self.folder is None else importable(self.folder):
            module = self.make(**self.options)
        if not isinstance(module, nn.Module):
            raise NetgrainError(
                f"{self.name!r} was expected to return a torch.nn.Module, found {type(module).__name__}: "
                "name a class or function that returns a fresh module."
            )
        return module

    def with_options(self, **values: object) -> ModelSpec:
        """The same model with some options set or changed, as if the text had them.

        Parameters
        ----------
        **values : int, float, bool, str or None
            Options by name.

        Returns
        -------
        ModelSpec
            Its text has all of them.

        Examples
        --------
        >>> load_model("mlp:width=2", channels=1).with_options(width=0.5, norm=None).name
        'mlp:width=0.5,norm=none'
        """
        _, text, _ = _find(self.name, self.base)
        head = self.name.removesuffix(text).rstrip(":")
        written = ",".join(f"{key}={_written(value)}" for key, value in {**_options(self.name, text), **values}.items())
        return _load(f"{head}:{written}", self.defaults, self.base)

    def __repr__(self) -> str:
        options = "".join(f", {key}={value!r}" for key, value in self.options.items())
        return f"ModelSpec({self.name!r}{options})"

    def __reduce__(self) -> tuple[Callable[..., ModelSpec], tuple[str, dict[str, object], Path]]:
        return _load, (self.name, dict(self.defaults), self.base)


def load_model(
    spec: str,
    *,
    channels: int | None = None,
    image_size: int | None = None,
    outputs: int | None = None,
    width: float | None = None,
    activation: str | Callable[..., Any] | None = None,
    norm: str | None = None,
    features: int | None = None,
) -> ModelSpec:
    """Family of networks described by a string such as ``"lenet:width=0.5"``.

    Parameters
    ----------
    spec : str
        A built-in name (``mlp``, ``lenet``, ``smalllenet``, ``vgg11``, ``resnet18`` or ``vit``, in any case),
        ``path/file.py:name`` or ``package.module:name`` for a class or function that returns a module, or ``timm:NAME``
        with timm's random initialisation. Each may be followed by ``:key=value,...``; values are read as integers,
        numbers, true, false or none, otherwise as words.
    channels, image_size, outputs : int, optional
        Sizes, if `spec` does not set them.
    width : float, optional
        Factor on the hidden sizes, if `spec` does not set it.
    activation : str or callable, optional
        Activation, if `spec` does not set it.
    norm : str, optional
        Normalisation, if `spec` does not set it.
    features : int, optional
        Number of columns of a table, if `spec` does not set it.

    Returns
    -------
    ModelSpec
        A callable that returns a fresh module each time. Your own callables receive only the arguments that they have a
        parameter for.

    Raises
    ------
    NetgrainError
        If there is no such model, or it does not accept an option in `spec`.

    See Also
    --------
    netgrain.average_geometry : Takes the result as `make`.

    Examples
    --------
    LeNet-5 on grey images has 61,706 weights.

    >>> load_model("lenet:activation=gelu", channels=1)
    ModelSpec('lenet:activation=gelu', channels=1, activation='gelu')
    >>> sum(p.numel() for p in load_model("LeNet", channels=1)().parameters())
    61706
    """
    given = {
        "channels": channels,
        "image_size": image_size,
        "outputs": outputs,
        "width": width,
        "activation": activation,
        "norm": norm,
        "features": features,
    }
    return _load(spec, {key: value for key, value in given.items() if value is not None}, Path.cwd())


def is_builtin(spec: str) -> bool:
    """Whether a text names a model of this room.

    >>> is_builtin("LeNet:width=0.5"), is_builtin("my.py:LeNet")
    (True, False)
    """
    return spec.partition(":")[0].strip().casefold() in BUILTIN


def check_name(spec: str, base: Path) -> None:
    """Refuse a text that can be no model: no built-in name, no file that is there, no name in it, no module.

    >>> check_name("resnet18:width=0.5", Path())
    """
    head = spec.partition(":")[0].strip()
    if head.casefold() in (*BUILTIN_NAMES, TIMM):
        return
    if match := FILE.fullmatch(spec):
        file = path_of(match["file"], base)
        _check_named(spec, match["file"], match["name"])
        if not is_file(file):
            raise NetgrainError(no_file(match["file"], file))
        return
    if match := MODULE.fullmatch(spec):
        _check_named(spec, match["module"], match["name"])
        return
    raise NetgrainError(
        f"There is no built-in model called {head!r}.{did_you_mean(head, BUILTIN_NAMES)} Known models: "
        f"{', '.join(BUILTIN_NAMES)}; your own is written path/file.py:name or package.module:name."
    )


def _check_named(spec: str, source: str, name: str | None) -> None:
    if not name:
        raise NetgrainError(
            f"{spec!r} names {source!r} but no model in it: write {source}:NAME with the class or function "
            "that returns the model."
        )


def _load(spec: str, defaults: Mapping[str, object], base: Path) -> ModelSpec:
    make, text, folder = _find(spec, base)
    options = _options(spec, text)
    parameters = _parameters(make)
    _check_options(spec, options, parameters)
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    options = {key: value for key, value in defaults.items() if key in named} | options
    _check_complete(spec, options, parameters)
    return ModelSpec(
        name=spec,
        options=MappingProxyType(options),
        base=base,
        make=make,
        folder=folder,
        defaults=MappingProxyType(dict(defaults)),
    )


def _find(spec: str, base: Path) -> tuple[Callable[..., object], str, Path | None]:
    """The callable that a text names, the text of its options, and the folder of the user's code."""
    head, _, rest = spec.partition(":")
    if place := BUILTIN.get(head.strip().casefold()):
        module, _, name = place.partition(":")
        return getattr(importlib.import_module(module), name), rest, None
    if head.strip().casefold() == TIMM:
        from netgrain.models.timm_models import find_timm

        return *find_timm(spec), None
    check_name(spec, base)
    if match := FILE.fullmatch(spec):
        file = path_of(match["file"], base)
        found = module_from_file(file, match["file"])
        return _callable_in(found, match["name"], match["file"]), match["options"] or "", file.parent
    match = MODULE.fullmatch(spec)
    assert match is not None, "check_name lets nothing else through"
    found = module_by_name(match["module"], base, BUILTIN_NAMES)
    return _callable_in(found, match["name"], match["module"]), match["options"] or "", base


def _callable_in(module: ModuleType, name: str, source: str) -> Callable[..., object]:
    from torch import nn

    if not hasattr(module, name):
        public = [word for word, value in vars(module).items() if callable(value) and not word.startswith("_")]
        raise NetgrainError(
            f"{source!r} has nothing called {name!r}.{did_you_mean(name, public)} "
            "Name a class or function that returns a fresh module."
        )
    found: object = getattr(module, name)
    if isinstance(found, nn.Module):
        raise NetgrainError(
            f"{name!r} in {source!r} is one finished module ({type(found).__name__}), and an average needs "
            f"many: give a class or function that returns a fresh module, or netgrain.fresh({name})."
        )
    if not callable(found):
        raise NetgrainError(
            f"{name!r} in {source!r} was expected to be a class or function that returns a fresh module, "
            f"found {type(found).__name__}."
        )
    return found


def _options(spec: str, text: str) -> dict[str, object]:
    options: dict[str, object] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        key, _, value = (piece.strip() for piece in part.partition("="))
        if not key or not value:
            raise NetgrainError(
                f"{spec!r} has the option {part!r}, expected key=value: write for example width=0.5. "
                "(A model of your own is written path/file.py:name.)"
            )
        if key in options:
            raise NetgrainError(f"{spec!r} sets {key!r} twice: keep one of them.")
        options[key] = plain_value(value)
    return options


def _written(value: object) -> str:
    return str(value).casefold() if value is None or isinstance(value, bool) else str(value)


def plain_value(text: str) -> object:
    """A written option as true, false, none, a number, or else the word itself.

    >>> plain_value("0.5"), plain_value("none"), plain_value("batch")
    (0.5, None, 'batch')
    """
    if text.casefold() in _WORDS:
        return _WORDS[text.casefold()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _parameters(make: Callable[..., object]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(make).parameters.values())
    except (TypeError, ValueError):  # compiled code does not say what it takes: let it judge for itself
        return [inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD)]


def _check_options(spec: str, options: Mapping[str, object], parameters: list[inspect.Parameter]) -> None:
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    known = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    for key in options:
        if key not in known:
            listed = f"Its options are {', '.join(known)}." if known else "It takes no options."
            raise NetgrainError(f"{spec!r} has no option {key!r}.{did_you_mean(key, known)} {listed}")


def _check_complete(spec: str, options: Mapping[str, object], parameters: list[inspect.Parameter]) -> None:
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for p in parameters:
        if p.kind is p.POSITIONAL_ONLY and p.default is p.empty:
            raise NetgrainError(
                f"{spec!r} needs a value for {p.name!r}, which can only be given by position: give it a default."
            )
        if p.default is p.empty and p.kind not in optional and p.name not in options:
            raise NetgrainError(
                f"{spec!r} needs a value for {p.name!r}: add the option {p.name}=VALUE, or give it a default."
            )
