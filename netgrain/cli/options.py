"""--engine, --workers, --address and --device: options of every command that does independent work."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from netgrain.cli.parsing import one_sentence_errors
from netgrain.runtime.engines import engine_names
from netgrain.runtime.environment import environment

EngineName = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help=f"Where to run independent work: {engine_names()}, each with options as in processes:deadline=600 "
        "(default: chosen by the size of the job).",
        show_default=False,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", metavar="N", help="Units at a time; one for each core if not given.", show_default=False),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address", metavar="HOST:PORT", help="Of a running Ray cluster, for --engine ray.", show_default=False
    ),
]
Device = Annotated[
    str | None,
    typer.Option("--device", metavar="DEVICE", help="cpu, cuda, cuda:1 or mps; the best if not given."),
]
OPTIONS = {"engine": EngineName, "workers": Workers, "address": Address, "device": Device}


def with_engine_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with these options; inside it, sampling, training and sweeps go where they say."""

    @functools.wraps(command)
    def wrapped(**values: Any) -> None:
        asked = {name: values.pop(name) for name in OPTIONS}
        with one_sentence_errors(), on_device(asked.pop("device")):
            from netgrain.runtime.engine_in_use import using

            with using(_chosen(**asked)):
                command(**values)

    own = inspect.signature(command, eval_str=True)
    extra = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in OPTIONS.items()
    ]
    keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own.parameters.values()]
    # before --json, which every command has last
    wrapped.__signature__ = own.replace(parameters=[*keyword[:-1], *extra, keyword[-1]])  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in [*keyword, *extra]}
    return wrapped


def _chosen(engine: str | None, workers: int | None, address: str | None) -> Any:
    if engine is None and workers is None and address is None:
        return None
    from netgrain.runtime.engines import engine as by_name

    return by_name(engine or ("ray" if address is not None else "processes"), workers, address)


@contextmanager
def on_device(text: str | None) -> Iterator[None]:
    """Inside, this is the device that is used where none is named (None: nothing changes)."""
    if text is None:
        yield
        return
    from netgrain.runtime.devices import checked_device

    checked_device(text)
    with environment({"NETGRAIN_DEVICE": text}):
        yield
