"""What a worker sends back: an outcome or the reason why there is none, as JSON and safetensors."""

from __future__ import annotations

import json
import traceback
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from netgrain.runtime.engine_in_use import inside_unit
from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.runtime.memory import shortage
from netgrain.runtime.units import Outcome, Work

if TYPE_CHECKING:
    from torch import Tensor

Answer = tuple[bytes, bytes]  # JSON; tensors


class UnitError(RuntimeError):
    """The work failed in a worker; the message holds the worker's traceback."""


def answer(work: Work, config: Mapping[str, Any]) -> Answer:
    """Do the work and say how it went. Nothing is raised: what goes wrong is part of the answer."""
    from safetensors.torch import save as to_bytes

    try:
        with warnings.catch_warnings(record=True) as heard, inside_unit():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", GrainWarning)
            outcome = work(config)
        said = [str(w.message) for w in heard]
        facts = {"numbers": outcome.numbers, "seconds": outcome.seconds, "warnings": said}
        return json.dumps(facts).encode(), to_bytes(_apart(outcome.arrays))
    except NetgrainError as e:
        return failure(str(e))
    except Exception as e:
        if short := shortage(e):
            return failure(short)
        return failure(f"{type(e).__name__}: {e}", traceback.format_exc())


def failure(message: str, trace: str = "") -> Answer:
    """There is no outcome; with a traceback it is a bug, without one it is said on purpose."""
    return json.dumps({"problem": message, "trace": trace}).encode(), b""


def outcome_of(found: Answer) -> Outcome:
    """The outcome behind an answer; what went wrong in the worker is raised here, what it warned of is said here."""
    facts = json.loads(found[0])
    if "problem" in facts:
        if facts["trace"]:
            raise UnitError(f"{facts['problem']}\n\nin a worker:\n{facts['trace']}")
        raise NetgrainError(facts["problem"])
    from safetensors.torch import load as from_bytes

    for text in facts["warnings"]:
        warnings.warn(text, GrainWarning, stacklevel=2)
    return Outcome(facts["numbers"], from_bytes(found[1]), facts["seconds"])


def _apart(arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors on the CPU that share no memory with each other, as safetensors wants them."""
    taken: set[int] = set()
    apart = {}
    for name, tensor in arrays.items():
        tensor = tensor.detach().cpu().contiguous()
        if tensor.untyped_storage().data_ptr() in taken:
            tensor = tensor.clone()
        taken.add(tensor.untyped_storage().data_ptr())
        apart[name] = tensor
    return apart
