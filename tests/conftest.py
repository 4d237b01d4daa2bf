"""One torch thread per test process: two processes with two threads each fight over two cores."""

import torch

torch.set_num_threads(1)
