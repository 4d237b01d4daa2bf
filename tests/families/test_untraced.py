"""What trying finds: the same ends and the same reasons as a trace."""

import pytest
import torch

from netgrain.families.ends import Entry
from netgrain.families.reading import read
from netgrain.families.reasons import Reason
from tests.families.networks import NO_ENTRY, NO_LAST, mlp, opaque, strided, tokens


@pytest.mark.quick
def test_traced_and_tried_entries_are_the_same() -> None:
    for make, shape in ((mlp, (1, 6)), (tokens, (6,)), (strided, (2, 3))):
        traced, tried = read(make, shape).entry(), read(opaque(make), shape).entry()
        assert isinstance(traced, Entry)
        assert isinstance(tried, Entry)
        assert tried.name == f"inner.{traced.name}"
        assert (traced.stem, traced.positions, traced.copies) == (tried.stem, tried.positions, tried.copies)
        assert torch.equal(traced.order, tried.order)
        assert (traced.law.variance, traced.law.error) == (tried.law.variance, tried.law.error)
        assert traced.law.read_from == "program"


@pytest.mark.parametrize("name", ["around", "several", "used twice", "seen again", "seen through a norm"])
def test_trying_finds_the_same_reasons(name: str) -> None:
    make, kind, where = NO_ENTRY[name]
    found = read(opaque(make), (6,)).entry()
    assert isinstance(found, Reason)
    assert (found.kind, found.where.removeprefix("inner").removeprefix(".")) == (kind, where), found


@pytest.mark.parametrize("name", ["softmax", "around", "scaled", "tied"])
def test_trying_finds_why_there_is_no_last_layer(name: str) -> None:
    make, kind = NO_LAST[name]
    found = read(opaque(make), (6,)).last_layer()
    assert isinstance(found, Reason)
    assert found.kind == kind
