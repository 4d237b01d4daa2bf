"""Models of Hugging Face, timm and torchvision as people pass them: outputs, keywords, tokens, finished instances."""

import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain.families.members import member
from netgrain.families.reading import read
from netgrain.runtime.randomness import seeded
from tests.families.token_networks import jacobian_by_table

MISSING = [name for name in ("timm", "torchvision", "transformers") if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
    pytest.mark.xdist_group("libraries"),
]

TOKENS, WIDTH = 4, 8
IMAGE = (1, 8, 8)


@pytest.fixture(scope="module")
def library() -> Any:
    from netgrain.models.timm_models import import_timm

    timm = import_timm("a test")
    import torchvision
    import transformers

    return timm, torchvision, transformers


def bert(transformers: Any, kind: str = "BertForSequenceClassification") -> Callable[[], nn.Module]:
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=30, num_labels=3, max_position_embeddings=16, **sizes)
    return lambda: getattr(transformers, kind)(config)  # type: ignore[no-any-return]


def gpt2(transformers: Any, kind: str = "GPT2Model") -> Callable[[], nn.Module]:
    sizes = {"n_embd": WIDTH, "n_layer": 1, "n_head": 2, "n_positions": 16}
    config = transformers.GPT2Config(vocab_size=30, bos_token_id=1, eos_token_id=1, **sizes)
    return lambda: getattr(transformers, kind)(config)  # type: ignore[no-any-return]


def vit(transformers: Any) -> Callable[[], nn.Module]:
    sizes = {"hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.ViTConfig(image_size=8, patch_size=4, num_channels=1, num_labels=3, **sizes)
    return lambda: transformers.ViTForImageClassification(config)  # type: ignore[no-any-return]


@pytest.mark.parametrize("which", ["bert", "gpt2", "gpt2 with its own head"])
def test_tokens_by_differences_of_the_table(library: Any, which: str) -> None:
    """G at a point of embedding space is JᵀJ by the rows of the model's own table."""
    *_, transformers = library
    make = {
        "bert": bert(transformers),
        "gpt2": gpt2(transformers),
        "gpt2 with its own head": gpt2(transformers, "GPT2LMHeadModel"),
    }[which]
    model = member(make, 0, 0).double()
    x = 0.1 * torch.randn(TOKENS, WIDTH, generator=torch.Generator().manual_seed(0)).double()

    def outputs(model: Any, tokens: Tensor) -> Tensor:
        out = model(tokens)
        return out.last_hidden_state if which == "gpt2" else out.logits  # type: ignore[no-any-return]

    table = model.get_input_embeddings()  # type: ignore[operator]
    if which == "gpt2 with its own head":  # which shares the table: differences would move the head too
        model.lm_head = nn.Linear(WIDTH, 3, bias=False).double()
    J = jacobian_by_table(model, table, x, outputs)
    G = ng.geometry_of(without(model), ng.Data(x[None]), at="embeddings")
    assert float((G.matrix() - J.T @ J).abs().max()) < 1e-5 * float((J.T @ J).abs().max())


def without(model: nn.Module) -> nn.Module:
    for p in model.parameters():
        p.requires_grad_(False)
    return model.eval()


def test_families_of_tokens(library: Any) -> None:
    *_, transformers = library
    for make in (bert(transformers), gpt2(transformers)):
        G = ng.average_geometry(make, (TOKENS, WIDTH), at="embeddings", members=4)
        assert G.trace.value > 0
        assert G.about.model.endswith(" at its embeddings")
    with pytest.raises(ng.NetgrainError, match=r"at='embeddings'"):
        ng.average_geometry(bert(transformers), (TOKENS,))


def test_two_kinds_of_features_are_the_users_choice(library: Any) -> None:
    *_, transformers = library
    make, shape = bert(transformers, "BertModel"), (TOKENS, WIDTH)
    with pytest.raises(
        ng.NetgrainError, match=r"last_hidden_state: .*pooler_output: .*lambda model, x: model\(x\)\.pooler_output\.$"
    ):
        ng.average_geometry(make, shape, at="embeddings", members=2)
    by_keyword = ng.average_geometry(make, shape, call=lambda model, x: model(inputs_embeds=x).pooler_output, members=2)
    by_table = ng.average_geometry(
        make, shape, at="embeddings", call=lambda model, x: model(x).pooler_output, members=2
    )
    assert torch.allclose(by_keyword.matrix(), by_table.matrix(), rtol=1e-4, atol=1e-9)


def test_logits_of_images(library: Any) -> None:
    """A dataclass with logits; the same by keyword, with the first layer integrated through the call."""
    *_, transformers = library
    G = ng.average_geometry(vit(transformers), IMAGE, members=3)
    by_keyword = ng.average_geometry(
        vit(transformers), IMAGE, members=3, call=lambda model, x: model(pixel_values=x).logits
    )
    assert "first layer integrated exactly" in str(G.about.integration)
    assert "first layer integrated exactly" in str(by_keyword.about.integration)
    assert torch.allclose(G.matrix(), by_keyword.matrix(), rtol=1e-5)


def test_the_law_is_that_of_the_library(library: Any) -> None:
    """Hugging Face does not initialise on meta, and does not say so: N(0, 0.02²), not torch's uniform law."""
    *_, transformers = library
    law = read(bert(transformers), (TOKENS, WIDTH)).initialisation.of("classifier.weight")
    assert law.text == "normal, sd 0.02"


def test_outputs_of_torchvision(library: Any) -> None:
    _, torchvision, _ = library
    models = torchvision.models
    with seeded(0):
        dense = models.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=2)
        aux = models.googlenet(weights=None, init_weights=False, num_classes=3)
    x = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    model = without(dense)
    found = ng.geometry_of(model, ng.Data(x), output="mean")
    leaf = x.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(model(leaf)["out"].mean(), leaf)
    assert found.trace.value == pytest.approx(float(gradient.double().square().sum()), rel=1e-4)
    assert ng.geometry_of(without(aux), ng.Data(x), output="mean").trace.value > 0


def spreads(model: nn.Module) -> dict[str, float]:
    return {name: float(p.detach().double().std(correction=0)) for name, p in model.named_parameters()}


FRESH = {
    "timm resnet": lambda timm, tv, hf: lambda: timm.create_model("resnet10t", num_classes=5),
    "timm vit": lambda timm, tv, hf: lambda: timm.create_model("vit_tiny_patch16_224", depth=1, num_classes=5),
    "bert": lambda timm, tv, hf: bert(hf),
    "gpt2": lambda timm, tv, hf: gpt2(hf, "GPT2LMHeadModel"),
    "vit": lambda timm, tv, hf: vit(hf),
}


@pytest.mark.parametrize("case", FRESH)
def test_fresh_models_have_the_law_of_their_constructors(library: Any, case: str) -> None:
    make = FRESH[case](*library)
    with seeded(0):
        instance = make()
    before = {name: t.clone() for name, t in instance.state_dict().items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error", ng.GrainWarning)
        family = ng.fresh(instance)
    with seeded(1):
        ours, theirs = spreads(family()), spreads(make())
    for name, p in instance.named_parameters():
        if p.numel() >= 256:
            assert ours[name] == pytest.approx(theirs[name], rel=5 / p.numel() ** 0.5), name
        else:
            assert (ours[name] > 0) == (theirs[name] > 0), name
    assert all(torch.equal(t, before[name]) for name, t in instance.state_dict().items())
    one, again, other = (member(family, 0, i).state_dict() for i in (0, 0, 1))
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_constructors_that_draw_by_themselves_are_noticed(library: Any) -> None:
    _, torchvision, _ = library
    with pytest.warns(ng.GrainWarning, match=r"fresh\(ResNet\): the weights of 'conv1.weight'"):
        ng.fresh(torchvision.models.resnet18(weights=None, num_classes=5))
    with pytest.raises(ng.NetgrainError, match=r"'encoder\.pos_embedding' of VisionTransformer anew"):
        ng.fresh(torchvision.models.VisionTransformer(32, 16, 1, 2, 16, 16, num_classes=3))
