"""A card: one picture and a few lines of Markdown about the grain of a family, for a README or a model card."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from netgrain.auditing.axes import known_of
from netgrain.auditing.places import SHARES, how, where
from netgrain.geometry.spectrum import FULL_LIMIT, NULL
from netgrain.geometry.value import Geometry
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOP, LAST = 8, 4  # directions drawn


@dataclass(frozen=True, eq=False, repr=False)
class Card:
    """The grain of one family in a picture and in a few lines of Markdown.

    Parameters
    ----------
    name : str
        What the family is called.
    G : Geometry
        Its geometry.

    See Also
    --------
    card : Makes one.
    """

    name: str
    G: Geometry

    def markdown(self, picture: str = "grain.png") -> str:
        """A few lines of Markdown for a README or a model card.

        Parameters
        ----------
        picture : str, default "grain.png"
            The address of the picture.

        Returns
        -------
        str
            A heading, the picture and a paragraph.
        """
        G = self.G
        counts = {share: count for share in SHARES if (count := G.directions_for(share)) is not None}
        halves = ", ".join(f"{share:.0%} in {count}" for share, count in counts.items())
        if not counts:
            halves = f"{float(G.eigenvalues.sum()) / G.trace.value:.0%} in the {len(G.eigenvalues)} strongest"
        shape = " × ".join(map(str, G.input_shape))
        # zeros of a sample may be for want of networks
        whole = not G.truncated and G.spectrum.complete and known_of(G) == G.d
        zeros = G.d - int((G.eigenvalues > NULL * G.eigenvalues[0]).sum()) if whole else 0
        there = f" {zeros} of them have zero gain there." if zeros else ""
        first = f"{_sentence(switches)} " if (switches := G.about.switches()) else ""
        alike = f" {_sentence(str(G.flat))}" if G.flat is not None else ""
        what = "the spectrum" if alike else "directions the network reacts to"
        return (
            f"### The grain of {_plain(self.name)}\n\n"
            f"![{what}]({picture})\n\n"
            f"{first}Taken {where(G)}, its geometry lies {halves} of the {G.d} directions of its {shape} input; "
            f"effective rank {G.effective_rank.value:.3g}.{there}{alike} This is what fresh networks react to, not "
            f"what they can learn. ({how(G)}; made by netgrain)\n"
        )

    def figure(self) -> Figure:
        """The spectrum, the leading directions and the last ones, as a figure.

        If there are no leading directions, a sentence replaces them.

        Returns
        -------
        matplotlib.figure.Figure
            The figure, not yet shown or saved.
        """
        from netgrain.geometry import plots
        from netgrain.runtime.figures import new_figure

        G = self.G
        figure = new_figure((9.6, 3.0))
        left, right = figure.subfigures(1, 2, width_ratios=(1, 1.9), squeeze=False)[0]
        ax = left.subplots()
        plots.spectrum(G, ax, log_x=True)
        ax.set_title("spectrum", fontsize=10)
        figure.suptitle(f"{self.name}, G {where(self.G)}", fontsize=11)
        if G.flat is not None:
            plots.write(right.subplots(), str(G.flat), 60)
            return figure
        columns = max(TOP // 2, LAST)
        grid = right.subplots(3, columns)
        first, last = min(TOP, G.d), min(LAST, G.d) if G.d <= FULL_LIMIT and not G.truncated else 0
        vectors = [*G.directions(first), *(G.directions(last, bottom=True) if last else ())]
        names = [f"{i + 1}" for i in range(first)] + [f"{G.d - LAST + i + 1}" for i in range(last)]
        for cell in grid.flat:
            cell.axis("off")
        for cell, vector, name in zip(grid.flat, vectors, names, strict=False):
            plots.draw_vector(cell, vector.numpy())
            cell.set_title(name, fontsize=7, pad=2)
        least = " (first two rows) and least (last row)" if last else ""
        right.suptitle(f"what it reacts to most{least}", fontsize=10)
        return figure

    def save(self, folder: str | Path) -> Path:
        """Write ``grain.png`` and ``grain.md`` into a folder.

        Parameters
        ----------
        folder : str or Path
            The folder; created if missing.

        Returns
        -------
        Path
            The Markdown file.
        """
        from netgrain.geometry.plots import png

        folder = Path(folder)
        picture, text = png(self.figure()), self.markdown().encode()  # both are made before either is written
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "grain.png", picture)
        return write_whole(folder / "grain.md", text)

    def __repr__(self) -> str:
        return f"Card({self.name}, {self.G!r})"


def card(name: str, G: Geometry) -> Card:
    """The card of a family: a picture and a few lines of Markdown.

    Parameters
    ----------
    name : str
        What the family is called.
    G : Geometry
        Its geometry, as of `average_geometry`.

    Returns
    -------
    Card
        The card; ``save`` writes it into a folder.

    Raises
    ------
    NetgrainError
        If G is zero.

    Examples
    --------
    Of three equally strong directions the first two carry half of the geometry.

    >>> import torch
    >>> text = card("mine", Geometry.from_matrix(torch.eye(3))).markdown()
    >>> "its geometry lies 50% in 2, 90% in 3, 99% in 3 of the 3 directions" in text
    True
    """
    if not G.trace.value > 0:
        why = G.about.switches() or "a zero-initialised last layer?"
        raise NetgrainError(
            f"the input gradient of {name} is exactly zero at initialisation ({why}), so there is no grain to show; "
            "probe the features below it, or a trained checkpoint."
        )
    return Card(name, G)


def _sentence(clause: str) -> str:
    return f"{_plain(clause[0].upper() + clause[1:])}."


def _plain(name: str) -> str:
    """Without what Markdown or HTML would take for markup."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>#|" else c for c in " ".join(name.split()))
