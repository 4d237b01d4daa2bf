"""Tensors and a header in one file: the same content, the same bytes; anything else is refused."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from netgrain import NetgrainError
from netgrain.runtime.packed import read_packed, write_packed

HEADER = {"b": [1, 2.5, None], "a": "text"}
TENSORS = {"x": torch.arange(6.0).reshape(2, 3), "y": torch.tensor([1, -1])}


@pytest.mark.quick
def test_what_is_written_is_read_and_has_the_same_bytes_again(tmp_path: Path) -> None:
    path = write_packed(tmp_path / "one", "thing", HEADER, TENSORS)
    header, tensors = read_packed(path, "thing")
    assert header == HEADER
    assert tensors.keys() == TENSORS.keys()
    assert all(torch.equal(tensors[k], TENSORS[k]) and tensors[k].dtype == TENSORS[k].dtype for k in TENSORS)
    turned = {"x": TENSORS["x"].T.contiguous().T, "y": TENSORS["y"]}  # other strides
    again = write_packed(tmp_path / "two", "thing", dict(reversed(HEADER.items())), turned)
    assert again.read_bytes() == path.read_bytes()


def test_what_was_not_written_so_is_refused(tmp_path: Path) -> None:
    path = write_packed(tmp_path / "one", "thing", HEADER, TENSORS)
    with pytest.raises(NetgrainError, match="was written by netgrain but is not a geometry"):
        read_packed(path, "geometry")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1  # one bit of a number
    path.write_bytes(content)
    with pytest.raises(NetgrainError, match="its checksum differs"):
        read_packed(path, "thing")
    path.write_bytes(content[:-1])
    with pytest.raises(NetgrainError, match="is not a thing or is damaged"):
        read_packed(path, "thing")
    save_file(TENSORS, tmp_path / "other")
    with pytest.raises(NetgrainError, match="is a safetensors file but not a thing"):
        read_packed(tmp_path / "other", "thing")
    with pytest.raises(NetgrainError, match="is not a file"):
        read_packed(tmp_path / "nowhere", "thing")
