"""Models called in another way: by a function of the user's, or from the embeddings of their tokens."""

import copy

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain.families.members import member, tensors_of
from netgrain.families.wrapped import Called, FromEmbeddings, from_embeddings, inside, name_of
from tests.families.token_networks import TOKENS, WIDTH, Text, jacobian_by_table

SHAPE = (TOKENS, WIDTH)


@pytest.mark.quick
def test_called_as_the_user_says() -> None:
    class Two(nn.Linear):
        def forward(self, values: Tensor, *, scale: float) -> Tensor:  # type: ignore[override]
            return scale * super().forward(values)

    inner = Two(3, 2)
    model, x = Called(inner, lambda model, x: model(values=x, scale=3.0)), torch.randn(4, 3)
    assert torch.equal(model(x), 3 * (x @ inner.weight.T + inner.bias))
    assert inside(model) is inner
    assert name_of(model) == "Two"
    assert set(tensors_of(model)) == {"model.weight", "model.bias"}
    assert Called(inner.eval(), len).training is False
    assert inner.training is False


@pytest.mark.parametrize("x", [torch.zeros(SHAPE), torch.randn(SHAPE, generator=torch.Generator().manual_seed(0))])
def test_embeddings_by_differences_of_the_table(x: Tensor) -> None:
    """G at one point is JᵀJ of the table's own rows, in double precision."""
    model = member(Text, 0, 0).double()
    G = ng.geometry_of(model, ng.Data(x[None]), at="embeddings")
    J = jacobian_by_table(model, model.embed, x.double(), lambda model, tokens: model(tokens))  # type: ignore[arg-type]
    expected = J.T @ J
    assert G.about.model == "Text at its embeddings"
    assert float((G.matrix() - expected).abs().max()) < 1e-5 * float(expected.abs().max())


def test_the_family_is_the_average_over_members() -> None:
    G = ng.average_geometry(Text, SHAPE, at="embeddings", members=3, first_layer="never", probe=ng.Origin())
    each = [
        ng.geometry_of(member(Text, 0, i), ng.Origin(), input_shape=SHAPE, at="embeddings").matrix() for i in range(3)
    ]
    assert torch.allclose(G.matrix(), sum(each) / 3, rtol=1e-4, atol=1e-8)  # type: ignore[operator]
    together = ng.average_geometry(Text, SHAPE, at="embeddings", members=3, vmapped=True, probe=ng.Origin())
    assert torch.allclose(G.matrix(), together.matrix(), rtol=1e-3, atol=1e-7)


def test_the_model_is_left_as_found() -> None:
    model = Text().train()
    model.encoder.eval()
    before, modes = copy.deepcopy(model.state_dict()), [m.training for m in model.modules()]
    ng.geometry_of(model, ng.Gaussian(1.0), input_shape=SHAPE, at="embeddings", probes=1)
    assert [m.training for m in model.modules()] == modes
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in model.modules())
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())


def test_the_table_that_gets_the_tokens_is_found_among_others() -> None:
    wrapped = from_embeddings(Text(), SHAPE)
    assert wrapped.table == "embed"
    assert from_embeddings(Called(Text(), lambda model, tokens: model(tokens)), SHAPE).table == "model.embed"
    tokens: list[Tensor] = []
    wrapped.model.register_forward_pre_hook(lambda _, inputs: tokens.append(inputs[0]))
    wrapped(torch.zeros(2, *SHAPE))
    assert tokens[0].unique().tolist() == [2]  # 1 is the padding of this table


class Keyword(Text):
    """As Hugging Face has it: embeddings by keyword."""

    def get_input_embeddings(self) -> nn.Module:
        return self.embed

    def forward(self, input_ids: Tensor | None = None, inputs_embeds: Tensor | None = None) -> Tensor:  # type: ignore[override]
        assert input_ids is None
        assert inputs_embeds is not None
        out: Tensor = self.head(self.encoder(inputs_embeds + self.position.weight).mean(1))
        return out


def test_embeddings_by_keyword() -> None:
    assert from_embeddings(Keyword(), SHAPE).table is None
    both = [ng.average_geometry(make, SHAPE, at="embeddings", members=2).matrix() for make in (Text, Keyword)]
    assert torch.allclose(*both, rtol=1e-5)


class Twice(Text):
    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens) + self.head(self.embed(tokens).mean(1))


class Needs(Text):
    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(tokens) * mask


REFUSED = {
    "no embedding": (nn.Linear(WIDTH, 2), SHAPE, "looks up its tokens in an nn.Embedding, and Linear has none"),
    "another width": (Text(), (TOKENS, 3), r"has width 8, found \(5, 3\); pass \(5, 8\)"),
    "no width": (Text(), (TOKENS,), r"input_shape of \(tokens, width\), found \(5,\)"),
    "no width, by keyword": (Keyword(), (TOKENS,), r"found \(5,\); .* as in \(16, 8\)"),
    "twice": (Twice(), SHAPE, r"in Twice they are 2 times \('embed', 'embed'\); .*call=lambda"),
    "more inputs": (Needs(), SHAPE, r"the model's forward needs 'mask' too"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_in_one_sentence(case: str) -> None:
    model, shape, says = REFUSED[case]
    with pytest.raises(ng.NetgrainError, match=says) as caught:
        from_embeddings(model, shape)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


def test_more_tokens_than_positions() -> None:
    with pytest.raises(ng.NetgrainError, match=r"inputs of shape \(14, 8\) \(index out of range in self\)"):
        ng.average_geometry(Text, (14, WIDTH), at="embeddings")


def test_several_inputs_and_embeddings_together() -> None:
    half = ng.average_geometry(
        Needs, SHAPE, at="embeddings", call=lambda model, tokens: model(tokens, mask=0.5), members=2
    )
    whole = ng.average_geometry(Text, SHAPE, at="embeddings", members=2)
    assert torch.allclose(4 * half.matrix(), whole.matrix(), rtol=1e-4)
    assert isinstance(inside(FromEmbeddings(Called(Needs(), len), "model.embed")), Needs)
