"""Small networks of tokens, and their Jacobian by the embedding table itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

WIDTH, TOKENS = 8, 5


class Text(nn.Module):
    """A text transformer as people write it: an embedding, positions, an encoder, a head."""

    def __init__(self, vocabulary: int = 11) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, WIDTH, padding_idx=1)
        self.position = nn.Embedding(TOKENS, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        keep = (tokens != 1).to(x)[..., None]
        out: Tensor = self.head((self.encoder(x) * keep).sum(1) / keep.sum(1))
        return out


def jacobian_by_table(
    model: nn.Module, table: nn.Embedding, x: Tensor, call: Callable[[Any, Tensor], Tensor], step: float = 1e-5
) -> Tensor:
    """∂f/∂x at embeddings x (tokens, width), (outputs, tokens · width): differences of the rows of the table.

    Token t has number 2 + t, so that its embedding is a row of its own.
    """
    tokens = 2 + torch.arange(len(x))[None]
    columns = []
    with torch.no_grad():
        kept = table.weight.clone()
        for i in range(x.numel()):
            outputs = []
            for sign in (1, -1):
                moved = x.clone().flatten()
                moved[i] += sign * step
                table.weight[2 : 2 + len(x)] = moved.reshape(x.shape).to(table.weight)
                outputs.append(call(model, tokens).flatten())
            columns.append((outputs[0] - outputs[1]) / (2 * step))
        table.weight.copy_(kept)
    return torch.stack(columns, 1)
