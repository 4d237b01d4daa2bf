"""Training members of a family: one loop for every experiment, the same bits for any number of processes."""

from netgrain.training.loop import accuracy
from netgrain.training.members import train, train_member
from netgrain.training.settings import Settings, Trained, minibatch_order

__all__ = ["Settings", "Trained", "accuracy", "minibatch_order", "train", "train_member"]
