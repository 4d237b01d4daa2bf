"""Network families: plain `nn.Module`s that share one signature, and models written as text."""

from netgrain.model_names import BUILTIN_NAMES
from netgrain.models.lenet import LeNet, SmallLeNet
from netgrain.models.loading import load_model
from netgrain.models.mlp import MLP
from netgrain.models.resnet import ResNet18
from netgrain.models.vgg import VGG11
from netgrain.models.vit import ViT

__all__ = ["BUILTIN_NAMES", "MLP", "VGG11", "LeNet", "ResNet18", "SmallLeNet", "ViT", "load_model"]
