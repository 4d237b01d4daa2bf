from .checkpoints import read_weights as read_weights
from .lenet import LeNet as LeNet
from .lenet import SmallLeNet as SmallLeNet
from .mlp import MLP as MLP
from .resnet import ResNet18 as ResNet18
from .specs import load_model as load_model
from .vgg import VGG11 as VGG11
from .vit import ViT as ViT
