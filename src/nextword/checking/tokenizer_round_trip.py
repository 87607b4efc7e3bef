"""What a tokenizer loses: texts that are the same tokens, so that bits per byte count bytes that cost nothing."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any

from nextword.checking.audit.scorer_properties import CHANGES, PROBES
from nextword.checking.findings import CheckRow, Finding
from nextword.checking.property import FAULTS

ONLY_FOR = "bits per byte"
"""What a loss matters for. Probabilities of tokens are right without what the tokenizer left out."""


def _without_accents(text: str) -> str:
    return "".join(one for one in unicodedata.normalize("NFD", text) if not unicodedata.combining(one))


_CHANGES: tuple[Callable[[str], str], ...] = (
    *(change for _, change in CHANGES),
    str.lower,
    lambda text: unicodedata.normalize("NFC", text),
    lambda text: unicodedata.normalize("NFKC", text),
    _without_accents,
)
"""What tokenizers do to a text before they cut it up."""


def round_trip(tokenizer: Any) -> tuple[CheckRow, Finding | None]:
    """Whether a tokenizer tells texts apart that differ: white space, accents, emoji, control characters, marks.

    A text that does not come back is no loss yet: decoding may drop a space that the tokens had. It is one where
    another text has the very same tokens, because what differs is then paid for by no bit.

    Returns:
        A row, which never fails a check, and where something is lost a finding that is for bits per byte only.
    """
    try:
        lost, changed = _lost(tokenizer)
    except Exception as fault:  # of anything: a tokenizer of somebody's own, which cannot decode
        return _row(None, f"the tokenizer cannot be asked: {type(fault).__name__}: {fault}"), None
    said = "; ".join(f"{text!r} and {other!r} are the same tokens" for text, other in lost)
    where = (
        f"{len(lost)} of {len(PROBES)} texts: {said}" if lost else "no two texts were found that are the same tokens"
    )
    if changed > len(lost):
        where += f"; decoded to another text that has other tokens: {changed - len(lost)}"
    row = _row(float(len(lost)), where)
    if not lost:
        return row, None
    ids = tuple(tuple(_tokens(tokenizer, text)) for text, _ in lost[:1])
    return row, Finding("bytes", f"{FAULTS['bytes']}: {said}", len(lost), 0.0, ids, said.split("; ")[0], ONLY_FOR)


def _row(worst: float | None, where: str) -> CheckRow:
    return CheckRow(
        name="tokenizer",
        meaning="texts that differ are different tokens, so every byte is paid for in bits per byte",
        worst=worst,
        tolerance=0.0,
        where=where,
        look_at="Give bits per byte of the text as the tokenizer reads it, or say what it leaves out.",
        only_for=ONLY_FOR,
    )


def _lost(tokenizer: Any) -> tuple[list[tuple[str, str]], int]:
    """Texts that are the same tokens as others, with these; and how many texts are decoded to others."""
    lost: list[tuple[str, str]] = []
    changed = 0
    for text in PROBES:
        tokens = _tokens(tokenizer, text)
        back = str(tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False))
        changed += back != text
        others = (back, *(change(text) for change in _CHANGES))
        lost += [(text, other) for other in others if other != text and _tokens(tokenizer, other) == tokens][:1]
    return lost, changed


def _tokens(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False).input_ids)
