"""A text on a terminal, each token in the colour of the component that gave most of its probability."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

COLOURS = ("default", "#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#D55E00")
"""Of the components in their order, from the palette of Okabe and Ito (2008), which people with any common form of
colour blindness can tell apart; readable on black and on white. The first component, most often the vocabulary, has
none."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""A terminal would obey these; line ends and tabs are text."""


class ColouredText:
    """Prints pieces of a text as they come, and a legend at the end.

    Args:
        console: Where to; without colour where it is no terminal or NO_COLOR is set.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self.is_coloured = console.is_terminal and not console.no_color

    def show(self, piece: str, component: int | None = None) -> None:
        """Prints a piece; ``component`` says in which colour, None for plain."""
        if piece:
            self._print(piece, "" if component is None else COLOURS[component % len(COLOURS)])

    def prompt(self, text: str) -> None:
        """Prints what the model read, less bright than what it writes."""
        self._print(text, "dim")

    def end(self, names: Sequence[str] = ()) -> None:
        """Ends the line, and says which colour is which component where there are several."""
        self._console.print()
        if self.is_coloured and len(names) > 1:
            self._print("most of each token's probability came from: ", "dim")
            for place, name in enumerate(names):
                self.show(name, place)
                self._print("" if place == len(names) - 1 else ", ", "dim")
            self._console.print()

    def _print(self, text: str, style: str) -> None:
        from rich.text import Text

        if self._console.is_terminal:
            text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
        self._console.print(Text(text, style if self.is_coloured else ""), end="", soft_wrap=True)
