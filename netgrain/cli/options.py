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
from netgrain.data.sources import format_of, kinds
from netgrain.models.specs import check_name
from netgrain.runtime.engines import engine_names
from netgrain.runtime.environment import environment
from netgrain.runtime.errors import NetgrainError

if TYPE_CHECKING:
    from netgrain.data.dataset import Dataset
    from netgrain.runtime.units import Engine

T = TypeVar("T")


def early(check: Callable[[str], object]) -> Callable[[Any], Any]:
    """A callback that refuses a word while the command line is read: before torch is loaded."""

    def callback(written: Any) -> Any:
        with one_sentence_errors():
            for word in [written] if isinstance(written, str) else written or []:
                check(word)
        return written

    return callback


known_model = early(lambda spec: check_name(spec, Path.cwd()))
known_source = early(lambda source: format_of(source))


# --- options ----------------------------------------------------------------------------------------------------------

MODEL_HELP = "The family of networks, as in `netgrain geometry --help`."
Model = Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP, callback=known_model)]
Input = Annotated[
    str,
    typer.Option(
        "--input",
        metavar="SIZES",
        help="Shape of one input without the batch: 1x32x32, or 20.",
        show_default=False,
    ),
]
Members = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Number of random networks to average over (default: chosen by the method).",
        show_default=False,
    ),
]
DataProbe = Annotated[
    str, typer.Option(metavar="PROBE", help="Where to take G: data (some of the samples), origin or gaussian:SIGMA.")
]
AnyProbe = Annotated[
    str, typer.Option(metavar="PROBE", help="Where to take G: auto (the origin), origin, gaussian:SIGMA or data:FILE.")
]
Seed = Annotated[int, typer.Option(metavar="SEED", help="The same seed gives the same result.")]
Keep = Annotated[float, typer.Option(metavar="SHARE", help="Share of the samples to keep, in (0, 1].")]
Scale = Annotated[str, typer.Option(metavar="SCALE", help="smoke (seconds to minutes), laptop, or paper (for a GPU).")]
Resume = Annotated[bool, typer.Option("--resume", help="Finish a stopped run: compute only what is missing.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Estimate time and memory from a few units, then stop.")]
DataDir = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Folder that holds named data sets (default: $NETGRAIN_DATA).", show_default=False
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


# --- groups -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DataOptions:
    """--data and what is done to it: one rule for every command."""

    data: Annotated[
        str, typer.Option("--data", metavar="DATA", help=f"Labelled samples: {kinds()}.", callback=known_source)
    ]
    data_dir: DataDir = None
    download: Annotated[bool, typer.Option("--download", help="Fetch a named data set that is not found.")] = False
    size: Annotated[
        int | None, typer.Option(metavar="N", help="Average the images to N x N first.", show_default=False)
    ] = None
    limit: Annotated[int | None, typer.Option(metavar="N", help="Use only N random samples.", show_default=False)] = (
        None
    )
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at an image that cannot be read, instead of skipping it.")
    ] = False
    as_is: Annotated[
        bool,
        typer.Option(
            "--as-is",
            help="Leave the data alone (default: standardise each channel of images, each feature of tables).",
        ),
    ] = False

    def load(self, seed: int, *, standardise: bool = True) -> Dataset:
        """The samples, standardised unless --as-is was given or the command takes them as they are."""
        from netgrain.data.sources import load

        return load(
            self.data,
            standardise=standardise and not self.as_is,
            size=self.size,
            limit=self.limit,
            seed=seed,
            strict=self.strict,
            data_dir=self.data_dir,
            download=self.download,
        )


@dataclass(frozen=True)
class WeightOptions:
    """--weights, and the samples it is measured on: a checkpoint has its own preprocessing."""

    weights: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Trained weights of one network: .safetensors, or a checkpoint saved by torch. Data are then taken as "
            "they are.",
            show_default=False,
        ),
    ] = None
    standardise: Annotated[
        bool, typer.Option("--standardise", help="With --weights: standardise the data all the same.")
    ] = False

    def load(self, data: DataOptions, seed: int) -> Dataset:
        """The samples: standardised for fresh networks, as they are for a checkpoint."""
        if self.standardise and data.as_is:
            raise NetgrainError("--standardise and --as-is cannot be combined; leave one of them out.")
        return data.load(seed, standardise=self.weights is None or self.standardise)


@dataclass(frozen=True)
class EngineOptions:
    """Where independent work runs."""

    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="ENGINE",
            help=f"Where to run independent work: {engine_names()}, each with options as in processes:deadline=600 "
            "(default: chosen by the size of the job).",
            show_default=False,
        ),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", metavar="N", help="Number of units at a time (default: one for each core).", show_default=False
        ),
    ] = None
    address: Annotated[
        str | None,
        typer.Option(
            "--address", metavar="HOST:PORT", help="Address of a running Ray cluster, for --engine ray.",
            show_default=False,
        ),
    ] = None  # fmt: skip
    device: Annotated[
        str | None,
        typer.Option(
            "--device", metavar="DEVICE", help="cpu, cuda, cuda:1 or mps (default: the best available).",
            show_default=False,
        ),
    ] = None  # fmt: skip

    @contextmanager
    def used(self) -> Iterator[None]:
        """Inside, sampling, training and sweeps go where these options say."""
        from netgrain.runtime.engine_in_use import using

        with _on_device(self.device), using(self._chosen()):
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


def as_command(work: Callable[..., Answer], *, engine: bool = False) -> Callable[..., None]:
    """The command of a function: groups spread out to options, --json last, errors in one sentence.

    engine: it takes --engine, --workers, --address and --device, too. A function that has a parameter as_json is told.
    """
    own = inspect.signature(work, eval_str=True)
    groups: dict[str, Any] = {p.name: p.annotation for p in own.parameters.values() if is_dataclass(p.annotation)}

    @functools.wraps(work)
    def command(**values: Any) -> None:
        as_json = values.pop("as_json")
        with one_sentence_errors():
            place = _taken(EngineOptions, values).used() if engine else nullcontext()
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
    parameters += _options(EngineOptions) if engine else []
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
