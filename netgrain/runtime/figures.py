"""New figures: pyplot's where it is in use, so that notebooks and `plt.show()` display them, else free ones."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class DisplayedFigure(Figure):
    """A figure of pyplot that a notebook displays once, whether or not it is the last value of a cell."""

    def _ipython_display_(self) -> None:
        import matplotlib.pyplot as plt
        from IPython.core.pylabtools import print_figure
        from IPython.display import Image, display

        plt.close(self)  # else the end of the cell displays it a second time
        display(Image(print_figure(self, bbox_inches=None), embed=True))


def new_figure(size: tuple[float, float]) -> Figure:
    """An empty figure of this size in inches, known to pyplot where that is in use."""
    if not _pyplot_in_use():
        return Figure(figsize=size, layout="constrained")
    import matplotlib.pyplot as plt

    return plt.figure(figsize=size, layout="constrained", FigureClass=DisplayedFigure)


def axes_or_new(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The given axes, or those of a new figure."""
    return new_figure(size).add_subplot() if ax is None else ax


def forget(figure: Figure) -> None:
    """Take a figure that was written to a file out of pyplot, which would show it again."""
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
        pyplot.close(figure)


def _pyplot_in_use() -> bool:
    """Whether the program has imported pyplot, or runs in a notebook, which shows no other figures."""
    if threading.current_thread() is not threading.main_thread():
        return False  # windows belong to the main thread
    return "matplotlib.pyplot" in sys.modules or _in_notebook()


def _in_notebook() -> bool:
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None
