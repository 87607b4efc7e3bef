"""Which part of a text each of its tokens stands for: pieces that make the text when they are joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def pieces_of_spans(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """The piece of each token, from where its characters begin and end; (-1, -1) is a special token.

    A piece begins where the one before it ends: a space that a tokenizer leaves out of its spans, or drops, is the next
    token's, and at the end of the text the last one's. Of several tokens that are parts of one character the first has
    the character, and the others are empty. So are special tokens.

    >>> pieces_of_spans("the king 🙂 ", [(-1, -1), (0, 3), (4, 8), (9, 10), (9, 10), (-1, -1)])
    ['', 'the', ' king', ' 🙂 ', '', '']
    """
    pieces, done = [], 0
    for _, end in spans:
        pieces.append(text[done:end] if end > done else "")
        done = max(done, end)
    of_text = [at for at, piece in enumerate(pieces) if piece]
    if done < len(text) and pieces:
        pieces[of_text[-1] if of_text else -1] += text[done:]
    return pieces


def pieces_of_ids(tokenizer: Any, ids: Sequence[int], before: Sequence[int] = ()) -> list[str]:
    """The piece of each token where the tokens came first, and their text from them.

    Args:
        tokenizer: Makes text of tokens.
        ids: The tokens.
        before: Tokens that stand before them, which decide whether a space is written.
    """

    def decoded(count: int) -> str:
        some = [*before, *ids[:count]]
        text: str = tokenizer.decode(some, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    whole, pieces = decoded(len(ids)), [""] * len(ids)
    done, first = len(decoded(0)), 0
    for at in range(len(ids)):
        text = decoded(at + 1)
        # a character is whole when all of its bytes are there; it belongs to the first of them
        if at + 1 < len(ids) and not whole.startswith(text):
            continue
        pieces[first], done, first = text[done:], max(done, len(text)), at + 1
    return pieces
