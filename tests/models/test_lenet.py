"""LeNet against the same network written out."""

import torch
from torch.nn import functional as F

from tests.models.networks import images, small


def test_lenet_is_the_network_of_the_paper() -> None:
    model = small("lenet", width=1.0, activation="tanh")
    w = list(model.parameters())
    x = images()
    for kernel, bias in ((w[0], w[1]), (w[2], w[3])):
        x = F.avg_pool2d(torch.tanh(F.conv2d(x, kernel, bias)), 2)
    x = x.reshape(2, -1)
    for matrix, bias in ((w[4], w[5]), (w[6], w[7])):
        x = torch.tanh(x @ matrix.T + bias)
    assert torch.allclose(model(images()), x @ w[8].T + w[9], atol=1e-6)
