"""Bits per byte: every byte of a text is counted once, and every byte is paid for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from nextword.checking.audit.scorer_reading import lacks
from nextword.checking.property import Case, Deviation, Property

_SAME_BITS = 1e-12
"""Two texts of different lengths never cost the same to so many digits."""

PROBES = (
    "The cat sat on the mat.",
    "a  b   c\n\n\td ",
    " starts with a space",
    "na\u00efve caf\u00e9",
    "nai\u0308ve cafe\u0301",
    "\u4eca\u65e5\u306f\u4e16\u754c",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u00a0\u2009thin\u200bspaces\ufeff",
    "<s> </s> <unk> <|endoftext|>",
    "\ufb01ne \u00bd \u2126 \x07",
)
"""Texts that tokenizers change: white space, accents in both forms, characters of several bytes, names of marks."""

_CHANGES = (
    ("white space made one", lambda text: " ".join(text.split())),
    ("ends stripped", str.strip),
    ("no invisible characters", lambda text: "".join(one for one in text if one.isprintable())),
)
"""What a tokenizer may do to a text before it is scored, that changes the number of bytes."""


def _bytes(reader: Any, case: Case) -> Iterator[Deviation]:
    scorer = reader.model
    for text, (bits, size) in zip(PROBES, scorer.bits_and_bytes(list(PROBES)), strict=True):
        right = len(text.encode())
        yield Deviation("bytes", abs(size - right), f"{text!r} has {right} bytes of UTF-8, and {size} are counted")
        if not torch.isfinite(torch.tensor(bits)):
            yield Deviation("bits", torch.inf, f"{text!r} costs {bits} bits")
    for name, change in _CHANGES:
        changed = [(text, change(text)) for text in PROBES if len(change(text).encode()) != len(text.encode())]
        first = scorer.bits_and_bytes([text for text, _ in changed])
        second = scorer.bits_and_bytes([other for _, other in changed])
        for (text, other), (bits, _), (fewer, _) in zip(changed, first, second, strict=True):
            same = abs(bits - fewer) <= _SAME_BITS * abs(bits)
            at = f"{text!r} costs {bits:.6g} bits, and so does {other!r}: what differs is not scored"
            yield Deviation(name, torch.inf if same else 0.0, at)


BYTES = Property(
    name="bytes",
    fault="bytes",
    meaning="every byte of a text is counted once, and none is free",
    look_at="Look at what the tokenizer drops or adds, and at how bytes are counted: of UTF-8, before tokens are made.",
    measure=_bytes,
    limit=0.5,
    applies=lacks("bits_and_bytes"),
)
