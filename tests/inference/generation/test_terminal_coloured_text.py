from __future__ import annotations

import io

import pytest
from rich.console import Console

from nextword.inference.generation.terminal import COLOURS, ColouredText


def printed(terminal: bool, colour: bool, pieces, names=()):
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, no_color=not colour, color_system="truecolor", width=20)
    screen = ColouredText(console)
    for piece, component in pieces:
        screen.show(piece, component)
    screen.end(names)
    return file.getvalue()


PIECES = [("The", 0), (" king", 1), ("[red] and a line that is longer than twenty\n", None), (" end", 2)]
TEXT = "The king[red] and a line that is longer than twenty\n end\n"


def test_each_component_has_its_colour_and_the_legend_names_them():
    found = printed(True, True, PIECES, ["softmax", "cache", "copy"])
    assert "\x1b[38;2;86;180;233m king\x1b[0m" in found
    assert "\x1b[38;2;230;159;0m end\x1b[0m" in found
    assert "\x1b[38;2;86;180;233mcache\x1b[0m" in found.splitlines()[-1]
    assert len(set(COLOURS)) == len(COLOURS)


@pytest.mark.parametrize(("terminal", "colour"), [(True, False), (False, True), (False, False)])
def test_without_colours_the_text_is_plain_and_has_no_legend(terminal, colour):
    assert printed(terminal, colour, PIECES, ["softmax", "cache"]) == TEXT


def test_one_component_has_no_legend():
    assert "probability" not in printed(True, True, PIECES, ["softmax"])


def test_a_terminal_is_not_told_what_to_do_by_a_text():
    assert "\x1b" not in printed(True, False, [("a\x1b[2Jb\x9b\r", None)])
