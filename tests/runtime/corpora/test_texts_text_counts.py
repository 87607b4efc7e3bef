from __future__ import annotations

import pytest

from nextword.runtime.corpora.texts import text_counts


@pytest.mark.parametrize(
    ("text", "articles"),
    [
        (" = Valkyria = \n \n A game . \n \n = = Story = = \n \n In a war . \n", 1),
        (" \n = A = \n \n x \n \n = B = \n \n = = S = = \n \n y \n", 2),
        (" = A = \n \n = B = \n \n x \n", 2),
        (" = A = \n \n Wins ; L \n = Losses ; GA = \n x \n", 1),  # in a table: no title, since no line is empty
        ("one\ntwo\n\nthree\n\n\nfour", 3),
        ("\n\none\ntwo\n\n", 2),
        ("one\n  \ntwo", 2),
        ("", 0),
    ],
)
def test_articles_are_titles_else_paragraphs_else_lines(text, articles):
    assert text_counts(text).articles == articles


def test_words_stand_between_white_space():
    assert text_counts(" = A = \n \n x , y\tz\n").words == 7
