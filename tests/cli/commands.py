"""What the tests of commands share: models in a file, and how a command is run."""

from collections.abc import Callable

MODELS = """
    import time
    from pathlib import Path
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self, channels=1):
            super().__init__()
            self.channels = channels
            self.layer = nn.Linear(4, 2)

        def forward(self, x):
            return torch.tanh(self.layer(x.flatten(1)))

    class Raises(nn.Module):
        def __init__(self):
            raise RuntimeError("no such\\nthing")

    class Empty(nn.Module):
        def forward(self, x):
            return x.flatten(1)

    class Broken(Net):
        def __init__(self):
            super().__init__()
            self.layer.weight.data[0, 0] = float("nan")

    class Noisy(Net):
        def forward(self, x):
            return super().forward(x) + torch.rand(len(x), 1)

    class Deaf(Net):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(2, 1)
            nn.init.zeros_(self.last.weight)

        def forward(self, x):
            return self.last(super().forward(x))

    class Loud(Net):
        def __init__(self):
            super().__init__()
            print("hello from the model")

    class Slow(Net):
        def __init__(self):
            super().__init__()
            with Path("made").open("a") as f:
                f.write("x")
            time.sleep(0.02)

    class Buggy(Net):
        def forward(self, x):
            return self.no_such_thing
"""

NET = ("models.py:Net", "--input", "4")

Run = Callable[..., tuple[int, str, str]]


def one_line(text: str) -> str:
    return " ".join(text.split())
