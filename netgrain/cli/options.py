"""Each option that commands share, once; groups of them; and the wrapper that makes a function a command.

A command is a function that returns an `Answer`. A parameter whose type is one of the groups below stands for all
options of the group.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from netgrain.cli.output import Answer, one_sentence_errors
from netgrain.cli.parsing import check_share
from netgrain.cli.writing import file_ending_in, folder_or_file
from netgrain.data.formats import format_of, kinds
from netgrain.models.specs import check_name
from netgrain.runtime.engines import engine_names
from netgrain.runtime.environment import environment
from netgrain.runtime.errors import NetgrainError, known_name
from netgrain.runtime.memory import checked_memory

if TYPE_CHECKING:
    from netgrain.data.dataset import Dataset
    from netgrain.runtime.units import Engine

T = TypeVar("T")


def option(metavar: str, text: str, *names: str, check: Callable[[Any], object] | None = None) -> Any:
    """An option that takes a value; `check` refuses one while the command line is read: before torch is loaded."""
    return typer.Option(*names, metavar=metavar, help=text, callback=_early(check))


def argument(metavar: str, text: str, *, check: Callable[[Any], object] | None = None) -> Any:
    """An argument, refused as early as an option."""
    return typer.Argument(metavar=metavar, help=text, callback=_early(check))


def switch(name: str, text: str) -> Any:
    """An option without a value."""
    return typer.Option(name, help=text)


def out_folder(text: str, *suffixes: str) -> Any:
    """An option that names a folder to write to, or one file with one of these endings."""
    alone = f" A name that ends in {' or '.join(suffixes)} stands for that file alone." if suffixes else ""
    return option("DIR|FILE" if suffixes else "DIR", text + alone, check=folder_or_file(*suffixes))


def out_file(text: str, *suffixes: str) -> Any:
    """An option that names a file to write."""
    return option("FILE", text, check=file_ending_in(*suffixes))


def _early(check: Callable[[Any], object] | None) -> Callable[[Any], Any] | None:
    if check is None:
        return None

    def callback(written: Any) -> Any:
        with one_sentence_errors():
            for value in written if isinstance(written, list | tuple) else [] if written is None else [written]:
                check(value)
        return written

    return callback


def known_model(spec: str) -> None:
    """Refuse a text that can be no model."""
    check_name(spec, Path.cwd())


# --- options ----------------------------------------------------------------------------------------------------------

Model = Annotated[
    str, argument("MODEL", "The family of networks, as in `netgrain geometry --help`.", check=known_model)
]
Input = Annotated[str, option("SIZES", "Shape of one input without the batch: 1x32x32, or 20.", "--input")]
Members = Annotated[
    int | None, option("N", "Number of random networks to average over (default: chosen by the method).")
]
DataProbe = Annotated[
    str,
    option("PROBE", "Inputs at which to take G: data (some of the samples), origin (zeros) or gaussian:SIGMA (noise)."),
]
AnyProbe = Annotated[
    str,
    option(
        "PROBE", "Inputs at which to take G: auto (the origin), origin (zeros), gaussian:SIGMA (noise) or data:FILE."
    ),
]
Memory = Annotated[
    str | None,
    option(
        "SIZE",
        "Memory that G may take, as in 4GB (default: 4GB). The method may depend on it.",
        check=checked_memory,
    ),
]
Seed = Annotated[int, option("SEED", "The same seed gives the same result.")]
SwitchedOn = Annotated[
    bool,
    switch(
        "--switched-on",
        "Switch on what a model starts without: norm weights, gains and layer scales at one, a last layer of zeros "
        "with random weights.",
    ),
]
Keep = Annotated[float, option("SHARE", "Share of the samples to keep, in (0, 1].", check=check_share)]
Scale = Annotated[
    str,
    option(
        "SCALE",
        "smoke (seconds to minutes), laptop, paper (for a GPU), or overnight (validity: six hours on two cores).",
    ),
]
Resume = Annotated[bool, switch("--resume", "Finish a stopped run: compute only what is missing.")]
DryRun = Annotated[bool, switch("--dry-run", "Estimate time and memory from a few units, then stop.")]
DataDir = Annotated[Path | None, option("DIR", "Folder that holds named data sets (default: $NETGRAIN_DATA).")]
Numbers = Annotated[Path | None, out_file("Write the numbers of --json there, as .json.", ".json")]
Json = Annotated[bool, switch("--json", "Print one JSON document and nothing else.")]


def _target(kind: str) -> None:
    """Refuse a kind of labels that is none."""
    known_name("--target", kind, ("classes", "numbers"))


# --- groups -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DataOptions:
    """--data and what is done to it: one rule for every command."""

    data: Annotated[str, option("DATA", f"Samples: {kinds()}.", check=format_of)]
    data_dir: DataDir = None
    download: Annotated[bool, switch("--download", "Fetch a named data set that is not found.")] = False
    label: Annotated[
        str | None,
        option(
            "COLUMN",
            "Column of a table with the labels (default: the one called label, target, y or class, else the last).",
        ),
    ] = None
    no_label: Annotated[bool, switch("--no-label", "Ignore the labels, or read data that has none.")] = False
    target: Annotated[
        str | None,
        option(
            "KIND",
            "What the labels are: classes, or numbers to predict (default: decided from the values).",
            check=_target,
        ),
    ] = None
    channels: Annotated[int | None, option("N", "Make the images grey (1) or colour (3).")] = None
    size: Annotated[int | None, option("N", "Average the images to N x N first.")] = None
    limit: Annotated[int | None, option("N", "Use only N random samples.")] = None
    strict: Annotated[bool, switch("--strict", "Stop at an image that cannot be read, instead of skipping it.")] = False
    as_is: Annotated[
        bool,
        switch(
            "--as-is", "Leave the data alone (default: standardise each channel of images, each feature of tables)."
        ),
    ] = False

    def load(self, seed: int, *, standardise: bool = True) -> Dataset:
        """The samples, standardised unless --as-is was given or the command takes them as they are."""
        from netgrain.data.sources import load

        return load(self.data, **self._read(seed, standardise))

    def load_with_test(self, seed: int, *, standardise: bool = True) -> tuple[Dataset, Dataset | None]:
        """The same, with the test part of a source that has one."""
        from netgrain.data.sources import load_with_test

        return load_with_test(self.data, **self._read(seed, standardise))

    def _read(self, seed: int, standardise: bool) -> dict[str, Any]:
        if self.no_label and self.target is not None:
            raise NetgrainError("--no-label and --target cannot be combined; leave one of them out.")
        return {
            "label": self.label,
            "target": "none" if self.no_label else self.target,
            "channels": self.channels,
            "standardise": standardise and not self.as_is,
            "size": self.size,
            "limit": self.limit,
            "seed": seed,
            "strict": self.strict,
            "data_dir": self.data_dir,
            "download": self.download,
        }


@dataclass(frozen=True)
class WeightOptions:
    """--weights, and the samples it is measured on: a checkpoint has its own preprocessing."""

    weights: Annotated[
        Path | None,
        option(
            "FILE",
            "Trained weights of one network: .safetensors, or a checkpoint saved by torch. Data are then taken as "
            "they are.",
        ),
    ] = None
    standardise: Annotated[bool, switch("--standardise", "With --weights: standardise the data all the same.")] = False

    def load(self, data: DataOptions, seed: int) -> Dataset:
        """The samples: standardised for fresh networks, as they are for a checkpoint."""
        return data.load(seed, standardise=self._standardises(data))

    def load_with_test(self, data: DataOptions, seed: int) -> tuple[Dataset, Dataset | None]:
        """The same, with a test part for a checkpoint, where the source has one."""
        if self.weights is None:
            return self.load(data, seed), None
        return data.load_with_test(seed, standardise=self._standardises(data))

    def _standardises(self, data: DataOptions) -> bool:
        if self.standardise and data.as_is:
            raise NetgrainError("--standardise and --as-is cannot be combined; leave one of them out.")
        return self.weights is None or self.standardise


@dataclass(frozen=True)
class DeviceOptions:
    """The device of networks that are measured in this process, one after the other."""

    device: Annotated[str | None, option("DEVICE", "cpu, cuda, cuda:1 or mps (default: the best available).")] = None

    @contextmanager
    def used(self) -> Iterator[None]:
        """Inside, networks are on this device."""
        with _on_device(self.device):
            yield


@dataclass(frozen=True)
class EngineOptions(DeviceOptions):
    """Where independent work runs."""

    engine: Annotated[
        str | None,
        option(
            "ENGINE",
            f"Where to run independent work: {engine_names()}, each with options as in processes:deadline=600 "
            "(default: chosen by the size of the job).",
        ),
    ] = None
    workers: Annotated[int | None, option("N", "Number of parallel workers (default: one for each core).")] = None
    address: Annotated[str | None, option("HOST:PORT", "Address of a running Ray cluster, for --engine ray.")] = None

    @contextmanager
    def used(self) -> Iterator[None]:
        """Inside, sampling, training and sweeps go where these options say."""
        from netgrain.runtime.engine_in_use import using

        with super().used(), using(self._chosen()):
            yield

    def _chosen(self) -> Engine | None:
        if self.engine is None and self.workers is None and self.address is None:
            return None
        from netgrain.runtime.engines import engine

        return engine(self.engine or ("ray" if self.address is not None else "processes"), self.workers, self.address)


@contextmanager
def _on_device(text: str | None) -> Iterator[None]:
    """Inside, this is the device that is used where none is named (None: nothing changes)."""
    if text is None:
        yield
        return
    from netgrain.runtime.devices import checked_device

    checked_device(text)
    with environment({"NETGRAIN_DEVICE": text}):
        yield


# --- from a function to a command -------------------------------------------------------------------------------------


def as_command(work: Callable[..., Answer], *, where: type[DeviceOptions] | None = None) -> Callable[..., None]:
    """The command of a function: groups spread out to options, --json last, errors in one sentence.

    where: options about the place of the work that it takes, too. A function that has a parameter as_json is told.
    """
    own = inspect.signature(work, eval_str=True)
    groups: dict[str, Any] = {p.name: p.annotation for p in own.parameters.values() if is_dataclass(p.annotation)}

    @functools.wraps(work)
    def command(**values: Any) -> None:
        as_json = values.pop("as_json")
        with one_sentence_errors():
            place = nullcontext() if where is None else _taken(where, values).used()
            for name, group in groups.items():
                values[name] = _taken(group, values)
            if "as_json" in own.parameters:
                values["as_json"] = as_json
            with place:
                with redirect_stdout(sys.stderr) if as_json else nullcontext():
                    answer = work(**values)
                answer.give(as_json)

    parameters = []
    for p in own.parameters.values():
        parameters += _options(p.annotation) if p.name in groups else [p] if p.name != "as_json" else []
    parameters += [] if where is None else _options(where)
    parameters.append(inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json))
    keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    command.__signature__ = own.replace(parameters=keyword, return_annotation=None)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in keyword}
    return command


def _options(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [p.replace(annotation=hints[p.name]) for p in inspect.signature(group).parameters.values()]


def _taken(group: type[T], values: dict[str, Any]) -> T:
    """The group with its values, which are taken out."""
    return group(**{f.name: values.pop(f.name) for f in fields(group)})  # type: ignore[arg-type]
