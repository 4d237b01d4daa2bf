"""Weights from a file: safetensors, or what `torch.save` writes, with tensors only; nothing is unpickled."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.runtime.files import is_file

HOLDERS = ("state_dict", "model_state_dict", "model")  # where training loops keep the weights among other things
JUDGED, AT_ONCE = 1000, 250  # samples that a checkpoint is tried on, and how many of them together
NEAR = 0.1  # of the way from guessing to perfect
EXPECTED = "expected weights as .safetensors, or a state dict saved with torch.save(model.state_dict(), …)"


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """State dict of a checkpoint file, on the CPU.

    Understands a bare state dict and the checkpoint of a training loop that holds it as ``state_dict``,
    ``model_state_dict`` or ``model``. Only tensors are read from the file.

    Parameters
    ----------
    path : str or Path
        A ``.safetensors`` file, or a file that ``torch.save`` wrote.

    Returns
    -------
    dict of str to Tensor
        Tensors by name, as in the file. The prefixes ``module.`` and ``model.`` that wrappers leave in names are
        removed where a model does not have them, when the weights are copied into it.

    Raises
    ------
    NetgrainError
        If the file is missing or damaged, or holds anything but named tensors.

    See Also
    --------
    netgrain.audit : Takes the result as `weights`.

    Examples
    --------
    >>> import tempfile
    >>> net = torch.nn.Linear(2, 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     torch.save({"epoch": 3, "model_state_dict": net.state_dict()}, f"{folder}/last.pt")
    ...     sorted(read_weights(f"{folder}/last.pt"))
    ['bias', 'weight']
    """
    path = Path(path)
    if not is_file(path):
        raise NetgrainError(f"{path} is not a file; {EXPECTED}.")
    try:
        content = _content(path)
    except Exception as e:  # torch and safetensors raise many kinds
        reason = (str(e).strip() or type(e).__name__).splitlines()[0]
        raise NetgrainError(f"{path} cannot be read as weights ({reason}); {EXPECTED}.") from e
    for name in HOLDERS:
        if isinstance(content, dict) and isinstance(content.get(name), dict):
            content = content[name]
    named = isinstance(content, dict) and all(isinstance(name, str) for name in content)
    if not named or not all(isinstance(tensor, Tensor) for tensor in content.values()):
        raise NetgrainError(f"{path} holds {type(content).__name__}, not named tensors; {EXPECTED}.")
    return dict(content)


def _content(path: Path) -> Any:
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    return torch.load(path, map_location="cpu", weights_only=True)


def warn_near_chance(model: nn.Module, X: Tensor, y: Tensor | None) -> None:
    """Warn if a trained classifier is hardly better than guessing: most often its preprocessing is missing."""
    if y is None or y.is_floating_point():
        return  # no classes
    rows = torch.linspace(0, len(X) - 1, min(JUDGED, len(X))).round().long()
    labels = y[rows]
    with torch.no_grad():
        parts = [model(part) for part in X[rows].split(AT_ONCE)]
    if not all(isinstance(part, Tensor) for part in parts):
        return  # more than the scores of classes
    scores = torch.cat(parts)
    if scores.dim() != 2 or not 1 < int(labels.max()) + 1 <= scores.shape[1]:
        return  # no classifier of these labels
    accuracy = float((scores.argmax(1) == labels).double().mean())
    chance = float(labels.bincount().max()) / len(labels)
    if accuracy < chance + NEAR * (1 - chance):
        warnings.warn(
            f"the checkpoint is right on {accuracy:.0%} of the samples, and always guessing the most frequent class on "
            f"{chance:.0%}: were the data preprocessed as in training? --standardise standardises them.",
            GrainWarning,
            stacklevel=2,
        )
