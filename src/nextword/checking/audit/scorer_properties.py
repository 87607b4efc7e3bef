"""Properties of scorers: their methods agree, every token has a probability, and scoring has no side effects."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor

from nextword.checking.audit.scorer import CALL, OBSERVED, lacks, ways_of
from nextword.checking.probe_texts import Batch, ProbeSample
from nextword.checking.property import Case, Deviation, Property, answers_about, compared
from nextword.checking.readers import Reader


def _steps(reader: Any, case: Case) -> Iterator[Deviation]:
    base = reader.base
    if base is reader:
        return
    found, expected = reader.told(case.batch), base.told(case.batch)
    if reader.mode == OBSERVED:
        targets = torch.cat([torch.tensor(text[1:]) for text in reader.longer_texts(case.batch)])
        expected = expected.gather(1, targets[:, None]) if expected.shape[1] > 1 else expected
    yield compared(f"{reader.name} against {base.name}", found, expected, case.batch)


def _totals(reader: Any, case: Case) -> Iterator[Deviation]:
    if reader.mode == CALL:
        return  # this method gives no probability of the first token
    texts = reader.texts(case.batch)
    totals = [float(total) for total in reader.model.text_totals(texts)]
    for number, (text, total, answer) in enumerate(zip(texts, totals, reader.asked(texts), strict=True)):
        ids = torch.tensor(text)[:, None]
        told = answer if reader.mode == OBSERVED else answer.gather(1, ids)
        steps = float(told[:, 0].double().nansum())
        off = abs(total - steps) / max(1.0, abs(steps))
        yield Deviation(
            "",
            off,
            f"text {number} of {len(text)} tokens has the total {total:.6g}, but its tokens add up to {steps:.6g}",
        )


def _unscored(reader: Any, case: Case) -> Iterator[Deviation]:
    log_probs = reader.log_probs(case.batch)
    nothing = log_probs == -torch.inf
    at = ""
    if nothing.any():
        where, token = (int(index) for index in nothing.nonzero()[0])
        row, position = int(case.batch.row[where]), int(case.batch.position[where])
        name = f"token {token}" if log_probs.shape[1] > 1 else f"token {int(case.batch.ids[row, position])} or the next"
        at = f"after {position + 1} tokens of text {row}, {name} has probability 0; {int(nothing.sum())} more such"
    yield Deviation("", torch.inf if nothing.any() else 0.0, at)


def _one_way(scorer: Any) -> str:
    return "" if len(ways_of(scorer)) > 1 else "the scorer has only one method"


STEPS = Property(
    name="score and steps",
    fault="score-is-not-its-steps",
    meaning=f"whole texts get the probabilities that {CALL} returns step by step",
    look_at="Check what is applied to whole texts only: temperature, smoothing, windows, look-ahead.",
    measure=_steps,
    applies=_one_way,
    reruns=True,
)
TOTALS = Property(
    name="totals",
    fault="total",
    meaning="the total of a text is the sum over its tokens, each counted once",
    look_at="Check overlapping windows, padding, and the divisor of the sum.",
    measure=_totals,
    applies=lacks("text_totals"),
)
UNSCORED = Property(
    name="all tokens",
    fault="unscored-token",
    meaning="every token has a probability above 0 after every prefix",
    look_at="Look for tokens without a count, active truncation (top-k, top-p), and a hard argmax.",
    measure=_unscored,
)


# -- Properties of texts in one batch: neighbours, their lengths and their order change nothing.


def _neighbours(reader: Reader, case: Case) -> Iterator[Deviation]:
    sample, batch = case.sample, case.batch
    for own in range(len(sample.rows)):
        mine = batch.row == own
        if not own:  # only for text 0, because the other texts would be at another position if they were alone
            alone = answers_about(reader, sample.only(own), 0)
            yield compared("text 0 in a batch instead of alone", reader.log_probs(batch)[mine], alone, batch, mine)
        rows = [case.words.other(row) for row in sample.rows]
        sources = None if sample.sources is None else [case.words.other(source) for source in sample.sources]
        found = answers_about(reader, sample.with_row(own, rows, sources), own)
        yield compared(f"all but text {own} changed", found, reader.log_probs(batch)[mine], batch, mine)


def _order(reader: Reader, case: Case) -> Iterator[Deviation]:
    batch = case.batch
    index = torch.arange(len(case.sample.rows), device=batch.ids.device).roll(1)
    moved = batch.select(index)
    expected = torch.cat([reader.log_probs(batch)[batch.row == row] for row in index.tolist()])
    yield compared("texts in another order", reader.log_probs(moved), expected, moved)


def _lengths(reader: Any, case: Case) -> Iterator[Deviation]:
    # texts of several lengths in one call, compared with each text alone; the scorer pads them in its own way
    texts = reader.longer_texts(case.batch)
    together = reader.side_by_side(texts)
    for own, (text, found) in enumerate(zip(texts, together, strict=True)):
        mine = case.batch.row == own
        (expected,) = reader.asked([text])
        yield compared(f"text {own} beside texts of other lengths", found[1:], expected[1:], case.batch, mine)


def _cut(reader: Reader, case: Case) -> Iterator[Deviation]:
    """Compare the answers about a text's beginning with and without the rest of the text."""
    batch, length = case.batch, case.batch.ids.shape[1]
    for kept in sorted({1, (length + 1) // 2, length - 1} - {0, length}):
        short = replace(case.sample, rows=tuple(row[:kept] for row in case.sample.rows)).batch()
        told, told_short = batch.position < kept - reader.lag, short.position < kept - reader.lag
        found, expected = reader.log_probs(batch)[told], reader.log_probs(short)[told_short]
        yield compared(f"{length} tokens instead of {kept}", found, expected, batch, told)


CUT = Property(
    name="future, cut off",
    fault="future",
    meaning="the length of the text after a position does not change its distribution",
    look_at="Look for a computation that depends on the length of the text.",
    measure=_cut,
    reruns=True,
)
NEIGHBOURS = Property(
    name="other texts",
    fault="batch-neighbour",
    meaning="the other texts of a batch change nothing",
    look_at="Look for a mean, a maximum, a store or a cache over the whole batch.",
    measure=_neighbours,
    reruns=True,
)
ORDER = Property(
    name="order",
    fault="order",
    meaning="the position of a text in its batch changes nothing",
    look_at="Look for state that is kept by position in the batch, or for the first or last text.",
    measure=_order,
    reruns=True,
)
LENGTHS = Property(
    name="lengths",
    fault="padding",
    meaning="the lengths of the other texts, and so any padding, change nothing",
    look_at="Check the mask: padding may be read, counted in a mean, or shift positions.",
    measure=_lengths,
    reruns=True,
)


# -- Bits per byte: every byte of a text is counted once, and no byte is free.

_SAME_BITS = 1e-12
"""Relative difference up to which the bits of two different texts count as equal."""

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
"""Texts that tokenizers may change: white space, accents in both forms, multi-byte characters, and names of special
tokens."""

CHANGES: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("white space made one", lambda text: " ".join(text.split())),
    ("ends stripped", str.strip),
    ("no invisible characters", lambda text: "".join(one for one in text if one.isprintable())),
)
"""Changes that a tokenizer may make to a text and that change its number of bytes."""


def _bytes(reader: Any, case: Case) -> Iterator[Deviation]:
    scorer = reader.model
    for text, (bits, size) in zip(PROBES, scorer.bits_and_bytes(list(PROBES)), strict=True):
        right = len(text.encode())
        yield Deviation("bytes", abs(size - right), f"{text!r} has {right} bytes of UTF-8, but {size} are counted")
        if not torch.isfinite(torch.tensor(bits)):
            yield Deviation("bits", torch.inf, f"{text!r} costs {bits} bits")
    for name, change in CHANGES:
        changed = [(text, change(text)) for text in PROBES if len(change(text).encode()) != len(text.encode())]
        first = scorer.bits_and_bytes([text for text, _ in changed])
        second = scorer.bits_and_bytes([other for _, other in changed])
        for (text, other), (bits, _), (fewer, _) in zip(changed, first, second, strict=True):
            same = abs(bits - fewer) <= _SAME_BITS * abs(bits)
            at = f"{text!r} costs {bits:.6g} bits, the same as {other!r}: their difference is not scored"
            yield Deviation(name, torch.inf if same else 0.0, at)


BYTES = Property(
    name="bytes",
    fault="bytes",
    meaning="every byte of a text is counted once, and none is free",
    look_at="Check what the tokenizer drops or adds, and that bytes are UTF-8 bytes of the text before tokenization.",
    measure=_bytes,
    limit=0.5,
    applies=lacks("bits_and_bytes"),
)


# -- Properties of repeated questions: earlier questions, about the same or another text, change nothing.

_TEXTS = 4
"""Number of texts that are scored twice."""

_SURE = 4.0
"""Number of standard errors above 0 from which a mean gain counts as learning. Chance exceeds it in one of 30,000
audits."""


@dataclass(frozen=True, eq=False)
class Repetition:
    """Differences between two answers of a reader, for several new texts that are each scored twice in a row."""

    gains: Float[Tensor, "K"]
    """Gain of each observed token, in nats: its log-probability in the second answer minus that in the first."""
    found: tuple[Deviation, ...]
    """Deviation of the second answer from the first, for each text."""

    @classmethod
    def of(cls, reader: Reader, samples: Sequence[ProbeSample]) -> Repetition:
        """Score each of ``samples`` twice with ``reader``."""
        gains, found = [], []
        for sample in samples:  # one text at a time, because answers may need much memory
            batch = sample.batch()
            # the second call gets a new batch, because answers about the same batch are cached
            first, second = reader.log_probs(batch), reader.log_probs(sample.batch())
            gains.append(_gains(first, second, batch))
            found.append(compared("", second, first, batch)._replace(sample=sample))
        return cls(torch.cat(gains), tuple(found))

    @property
    def was_learned(self) -> bool:
        """Whether the mean of ``gains`` is more than 4 standard errors above 0."""
        if len(self.gains) < 2 or not self.gains.any():
            return False
        error = float(self.gains.std()) / math.sqrt(len(self.gains))
        return float(self.gains.mean()) > _SURE * error

    def deviations(self, variant: str, said: str = "") -> Iterator[Deviation]:
        """Yield the deviations in ``found``, each named ``variant`` and with ``said`` before its description."""
        for found in self.found:
            yield found._replace(variant=variant, at=said + found.at)


def _again(reader: Reader, case: Case) -> Iterator[Deviation]:
    found = _repetition(reader, case)
    if not found.was_learned:
        yield from found.deviations("asked again at once")


def _scored_before(reader: Reader, case: Case) -> Iterator[Deviation]:
    found = _repetition(reader, case)
    yield Deviation("scored a second time", 0.0)
    if found.was_learned:
        mean = float(found.gains.mean())
        yield from found.deviations("scored a second time", f"tokens gain {mean:.3g} nats each; ")


def _left_over(reader: Reader, case: Case) -> Iterator[Deviation]:
    before = reader.log_probs(case.sample.batch())
    reader.log_probs(_fresh(case).batch())
    yield compared("after another text was scored", reader.log_probs(case.sample.batch()), before, case.batch)


def _untouched(reader: Any, case: Case) -> Iterator[Deviation]:
    texts = reader.texts(case.batch)
    # a text that ends like a text that was scored before, but begins differently
    half = (len(texts[0]) + 1) // 2
    start = case.words.other(case.batch.ids[0, :half])
    sample = case.words.sample("another beginning", [torch.cat([start, case.batch.ids[0, half:]])])
    reader.log_probs(case.sample.batch())
    found, expected = reader.log_probs(sample.batch()), reader.untouched().log_probs(sample.batch())
    yield compared("against a copy made before all questions", found, expected, sample.batch())._replace(sample=sample)


_repetitions: WeakKeyDictionary[Case, dict[Reader, Repetition]] = WeakKeyDictionary()


def _repetition(reader: Reader, case: Case) -> Repetition:
    # computed once for both properties, which distinguish one fault from the other
    known = _repetitions.setdefault(case, {})
    if reader not in known:
        known[reader] = Repetition.of(reader, [_fresh(case) for _ in range(_TEXTS)])
    return known[reader]


def _fresh(case: Case) -> ProbeSample:
    return case.words.sample("another text", [case.words.text(len(case.sample.rows[0]))])


def _gains(first: Tensor, second: Tensor, batch: Batch) -> Float[Tensor, "K"]:
    """Differences ``second - first`` of the log-probabilities of the observed tokens of one text."""
    ids, last = batch.ids[batch.mask], batch.row != batch.row.roll(-1)
    last[-1] = True
    if first.shape[1] == 1:
        gains = (second - first)[~last][:, 0]
    else:
        targets = ids.roll(-1)[~last].to(first.device)
        gains = (second - first)[~last.to(first.device)].gather(1, targets[:, None])[:, 0]
    return gains[torch.isfinite(gains)].double()


UNTOUCHED = Property(
    name="untouched copy",
    fault="state-left-over",
    meaning="a fresh copy gives the same answers",
    look_at="Look for a cache whose key two texts share, and for anything that is learned from texts.",
    measure=_untouched,
)
REPEATS = (
    Property(
        name="asked again",
        fault="not-repeatable",
        meaning="the same question, repeated immediately, has the same answer",
        look_at="Look for dropout, sampling, or a dependence on time or a counter.",
        measure=_again,
    ),
    Property(
        name="scored before",
        fault="scored-before",
        meaning="a text is not more probable after it was scored",
        look_at="Look for a datastore, a cache or weights that are updated with the scored text.",
        measure=_scored_before,
    ),
    Property(
        name="left over",
        fault="state-left-over",
        meaning="another text scored in between changes nothing",
        look_at="Look for a cache or datastore that is not emptied between texts.",
        measure=_left_over,
    ),
)
"""The properties of repeated questions that need no copy of the scorer, in the order of the report."""
