"""timm, torchvision and transformers models: they run, G is a geometry, and it is that of plain sampling.

Run by `make test-more` in one process with the training frameworks: importing timm takes six seconds.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

import netgrain as ng
from netgrain.families.members import member
from tests.end_to_end.real_families import (
    SHAPE,
    TIMM,
    TOKENS,
    WIDTH,
    Logits,
    bert_of_transformers,
    torchvision_family,
    vit_of_transformers,
    with_a_head,
)
from tests.judging import judged, kind_of

# what other packages deprecate is not ours to mend
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

ZERO_HEAD = ("mixer",)
COMPARED = ("vgg16_bn", "efficientnet", "convnext", "poolformer", "vit", "swin")


def is_geometry(G: ng.Geometry, shape: tuple[int, ...]) -> bool:
    """Finite, positive somewhere, and never negative along some random vectors; symmetric for pairs of them."""
    V = torch.randn(12, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    products = G.matvec(V).flatten(1) @ V.flatten(1).T
    assert torch.isfinite(products).all()
    torch.testing.assert_close(products, products.T, rtol=1e-6, atol=1e-9 * float(products.diagonal().max()))
    assert torch.linalg.eigvalsh(products).min() >= -1e-9 * products.diagonal().max()
    return 0 < G.trace.value < float("inf")


def few(make: Callable[[], nn.Module], shape: tuple[int, ...] = SHAPE, **asked: Any) -> ng.Geometry:
    return ng.average_geometry(make, shape, members=4, workers=1, **asked)


@pytest.mark.parametrize("name", [name for name in TIMM if name not in ZERO_HEAD])
def test_family_of_timm(name: str) -> None:
    G = few(TIMM[name]())
    assert is_geometry(G, SHAPE)
    assert G.members == 4


@pytest.mark.parametrize("name", COMPARED)
def test_agrees_with_plain_sampling(name: str) -> None:
    """The default call at a tolerance of a tenth; Corr and trace in standard errors."""
    default = partial(ng.average_geometry, tolerance=0.1, workers=1)
    verdict = judged(name, TIMM[name](), SHAPE, most=128, large=True, default=default)
    assert verdict.violations == (), verdict
    assert verdict.reference >= 32, verdict.reasons


@pytest.mark.filterwarnings("ignore::netgrain.runtime.errors.GrainWarning")
@pytest.mark.parametrize("make", [TIMM["mixer"], partial(torchvision_family, "vit")], ids=["timm", "torchvision"])
def test_a_head_of_zeros(make: Callable[[], Callable[[], nn.Module]]) -> None:
    G = few(make())
    assert G.trace.value == 0
    assert "zero" in repr(G)
    assert is_geometry(few(partial(with_a_head, make())), SHAPE)


@pytest.mark.parametrize("make", [TIMM["mixer"], partial(torchvision_family, "vit")], ids=["timm", "torchvision"])
def test_a_head_of_zeros_switched_on(make: Callable[[], Callable[[], nn.Module]]) -> None:
    asked: Any = {"switched_on": True, "tolerance": 0.1, "workers": 1}
    by_hand = partial(with_a_head, make())
    verdict = judged(
        "zero head", by_hand, SHAPE, most=128, large=True, default=lambda _, s: ng.average_geometry(make(), s, **asked)
    )
    assert verdict.violations == (), verdict
    assert verdict.reference >= 32, verdict.reasons


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small"])
def test_family_of_torchvision(name: str) -> None:
    assert is_geometry(few(torchvision_family(name)), SHAPE)


def test_an_activation_in_place_behind_the_stem() -> None:
    """As in VGG, AlexNet and SqueezeNet of torchvision."""
    G = few(torchvision_family("squeezenet1_1"), first_layer="always")
    assert kind_of(G).startswith("sampled, ")
    assert is_geometry(G, SHAPE)


# --- transformers -----------------------------------------------------------------------------------------------------


def test_models_of_transformers_wrapped_by_hand() -> None:
    assert is_geometry(few(partial(Logits, vit_of_transformers, "pixel_values")), SHAPE)
    tokens = (TOKENS, WIDTH)
    assert is_geometry(few(partial(Logits, bert_of_transformers, "inputs_embeds"), tokens), tokens)


def test_logits_are_found() -> None:
    G, wrapped = few(vit_of_transformers), few(partial(Logits, vit_of_transformers, "pixel_values"))
    torch.testing.assert_close(G.matrix(), wrapped.matrix())


def test_embeddings_are_the_inputs_of_a_text_model() -> None:
    """The same members as those wrapped by hand, so the same numbers."""
    asked: Any = {"at": "embeddings"}
    G = few(bert_of_transformers, (TOKENS, WIDTH), **asked)
    wrapped = few(partial(Logits, bert_of_transformers, "inputs_embeds"), (TOKENS, WIDTH))
    torch.testing.assert_close(G.matrix(), wrapped.matrix())


def test_a_keyword_input() -> None:
    asked: Any = {"call": lambda model, x: model(inputs_embeds=x).logits}
    G = few(bert_of_transformers, (TOKENS, WIDTH), **asked)
    wrapped = few(partial(Logits, bert_of_transformers, "inputs_embeds"), (TOKENS, WIDTH))
    torch.testing.assert_close(G.matrix(), wrapped.matrix())


def test_integer_tokens_have_no_gradient() -> None:
    with pytest.raises(ng.NetgrainError):
        few(bert_of_transformers, (TOKENS,))


def test_the_judge_of_geometries_rejects() -> None:
    matrix = torch.eye(12, dtype=torch.float64)
    assert is_geometry(ng.Geometry.from_matrix(matrix, (12,)), (12,))
    assert not is_geometry(ng.Geometry.from_matrix(0 * matrix, (12,)), (12,))
    matrix[0, 0] = -1
    with pytest.raises(AssertionError):
        is_geometry(ng.Geometry.from_matrix(matrix, (12,)), (12,))


def test_members_differ() -> None:
    make = TIMM["vit"]()
    first, other = (next(p for p in member(make, 0, i).parameters() if p.dim() > 1) for i in (0, 1))
    assert not torch.equal(first, other)
