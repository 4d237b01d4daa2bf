"""The door: thin commands."""

from netgrain.cli.app import main

__all__ = ["main"]
