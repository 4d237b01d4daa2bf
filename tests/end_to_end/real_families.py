"""Small ones of the families that people use: timm, torchvision and transformers models with a few channels.

Nothing here is imported before it is asked for: timm takes six seconds. `import_timm` comes first, because it makes
a torchvision importable that was built for another torch.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.models.timm_models import import_timm

SIDE, OUTPUTS = 32, 3
SHAPE = (3, SIDE, SIDE)
FEW = (8, 16, 16, 24)  # channels of four stages


def _timm(name: str, **options: object) -> Callable[[], nn.Module]:
    return partial(import_timm(f"timm:{name}").create_model, name, num_classes=OUTPUTS, **options)


def _resnet(name: str, *channels: int) -> Callable[[], nn.Module]:
    return _timm(name, layers=(1, 1, 1, 1), channels=channels, stem_width=8)


def _vgg() -> Callable[[], nn.Module]:
    import_timm("timm:vgg16_bn")
    from timm.models.vgg import VGG

    layers = [8, "M", 8, "M", 16, "M", 16, "M", 16, "M"]
    return partial(VGG, layers, num_classes=OUTPUTS, norm_layer=nn.BatchNorm2d, mlp_ratio=0.01)


def _hrnet() -> Callable[[], nn.Module]:
    import_timm("timm:hrnet_w18_small")
    from timm.models.hrnet import HighResolutionNet, cfg_cls

    small = copy.deepcopy(cfg_cls["hrnet_w18_small"])
    for i, stage in enumerate((f"stage{j}" for j in range(1, 5)), 1):
        channels = tuple(4 * (k + 1) for k in range(i))
        small[stage] = {**small[stage], "num_modules": 1, "num_blocks": (1,) * i, "num_channels": channels}
    return partial(HighResolutionNet, small, num_classes=OUTPUTS)


def _poolformer() -> Callable[[], nn.Module]:
    import_timm("timm:poolformer_s12")
    from timm.models.metaformer import GroupNorm1, MetaFormer

    return partial(
        MetaFormer,
        depths=(1, 1, 1, 1),
        dims=FEW,
        num_classes=OUTPUTS,
        downsample_norm=None,
        mlp_act=nn.GELU,
        mlp_bias=True,
        norm_layers=GroupNorm1,
        layer_scale_init_values=1e-5,
        res_scale_init_values=None,
        use_mlp_head=False,
    )


def _mixer() -> Callable[[], nn.Module]:
    import_timm("timm:mixer_s16_224")
    from timm.models.mlp_mixer import MlpMixer

    return partial(MlpMixer, OUTPUTS, img_size=SIDE, patch_size=8, num_blocks=2, embed_dim=32)


TIMM: dict[str, Callable[[], Callable[[], nn.Module]]] = {
    "resnet18": partial(_resnet, "resnet18", *FEW),
    "resnet50": partial(_resnet, "resnet50", 4, 4, 8, 8),
    "seresnet50": partial(_resnet, "seresnet50", 4, 4, 8, 8),
    "densenet121": partial(_timm, "densenet121", growth_rate=4, block_config=(2, 2, 2, 2)),
    "vgg16_bn": _vgg,
    "mobilenetv3": partial(_timm, "mobilenetv3_small_050"),
    "efficientnet": partial(_timm, "test_efficientnet"),
    "regnety": partial(_timm, "regnety_002"),
    "convnext": partial(_timm, "convnext_tiny", depths=(1, 1, 1, 1), dims=FEW),
    "nf_resnet": partial(_timm, "nf_resnet26", depths=(1, 1, 1, 1), channels=FEW, stem_chs=8),
    "darknet": partial(_timm, "darknet17"),
    "hrnet": _hrnet,
    "poolformer": _poolformer,
    "mixer": _mixer,
    "vit": partial(_timm, "vit_tiny_patch16_224", img_size=SIDE, patch_size=8, depth=2, embed_dim=24, num_heads=3),
    "swin": partial(
        _timm,
        "swin_tiny_patch4_window7_224",
        img_size=SIDE,
        window_size=4,
        depths=(1, 1, 1, 1),
        embed_dim=12,
        num_heads=(1, 2, 2, 4),
    ),
}


def torchvision_family(name: str) -> Callable[[], nn.Module]:
    """A family of torchvision."""
    import_timm("torchvision")
    import torchvision.models as tv

    if name == "vit":
        sizes = {"image_size": SIDE, "patch_size": 8, "num_layers": 2, "num_heads": 2, "hidden_dim": 16, "mlp_dim": 32}
        return partial(tv.VisionTransformer, num_classes=OUTPUTS, **sizes)
    return partial(getattr(tv, name), num_classes=OUTPUTS)


def vit_of_transformers() -> nn.Module:
    """Returns a dataclass with `logits`."""
    import_timm("transformers")
    from transformers import ViTConfig, ViTForImageClassification

    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    return ViTForImageClassification(ViTConfig(image_size=SIDE, patch_size=8, num_labels=OUTPUTS, **sizes))


TOKENS, WIDTH = 6, 16


def bert_of_transformers() -> nn.Module:
    """Takes integer tokens, or embeddings by the keyword `inputs_embeds`; returns a dataclass with `logits`."""
    import_timm("transformers")
    from transformers import BertConfig, BertForSequenceClassification

    sizes = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 16}
    return BertForSequenceClassification(BertConfig(vocab_size=50, hidden_size=WIDTH, num_labels=OUTPUTS, **sizes))


class Logits(nn.Module):
    """A model of transformers as a plain one, wrapped by hand: embeddings or pixels in, logits out."""

    def __init__(self, make: Callable[[], Any], keyword: str) -> None:
        super().__init__()
        self.model, self.keyword = make(), keyword

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(**{self.keyword: x}).logits
        return logits


def with_a_head(make: Callable[[], nn.Module]) -> nn.Module:
    """A model whose last linear layer starts with variance 1/fan-in instead of zeros: switched on by hand."""
    model = make()
    head = [m for m in model.modules() if isinstance(m, nn.Linear)][-1]
    with torch.no_grad():
        head.weight.normal_(0, head.in_features**-0.5)
    return model
