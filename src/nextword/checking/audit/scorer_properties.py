"""Properties of a scorer that can be asked in several ways: they tell one story, and every token has a probability."""

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
        return  # has no first token's probability
    texts = reader.texts(case.batch)
    totals = [float(total) for total in reader.model.text_totals(texts)]
    for number, (text, total, answer) in enumerate(zip(texts, totals, reader.asked(texts), strict=True)):
        ids = torch.tensor(text)[:, None]
        told = answer if reader.mode == OBSERVED else answer.gather(1, ids)
        steps = float(told[:, 0].double().nansum())
        off = abs(total - steps) / max(1.0, abs(steps))
        yield Deviation("", off, f"text {number} of {len(text)} tokens counts {total:.6g}, its tokens {steps:.6g}")


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
    return "" if len(ways_of(scorer)) > 1 else "the scorer can be asked in one way only"


STEPS = Property(
    name="score and steps",
    fault="score-is-not-its-steps",
    meaning=f"whole texts are scored with what {CALL} says step by step",
    look_at="Look at what is done to scores of whole texts only: temperature, smoothing, windows, a look ahead.",
    measure=_steps,
    applies=_one_way,
    reruns=True,
)
TOTALS = Property(
    name="totals",
    fault="total",
    meaning="the total of a text is the sum over its tokens, each counted once",
    look_at="Look at windows that overlap, at padding, and at what the sum is divided by.",
    measure=_totals,
    applies=lacks("text_totals"),
)
UNSCORED = Property(
    name="all tokens",
    fault="unscored-token",
    meaning="every token has some probability after every prefix",
    look_at="Look for words without a count, truncation (top-k, top-p) left on, and a hard argmax.",
    measure=_unscored,
)


# -- Properties of texts side by side: neighbours, their lengths and the order change nothing.


def _neighbours(reader: Reader, case: Case) -> Iterator[Deviation]:
    sample, batch = case.sample, case.batch
    for own in range(len(sample.rows)):
        mine = batch.row == own
        if not own:  # the others would stand at another position alone
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
    # texts of several lengths in one call, against each alone; a scorer pads them as it likes
    texts = reader.longer_texts(case.batch)
    together = reader.side_by_side(texts)
    for own, (text, found) in enumerate(zip(texts, together, strict=True)):
        mine = case.batch.row == own
        (expected,) = reader.asked([text])
        yield compared(f"text {own} beside texts of other lengths", found[1:], expected[1:], case.batch, mine)


def _cut(reader: Reader, case: Case) -> Iterator[Deviation]:
    """What was said of a text's beginning before the rest was there."""
    batch, length = case.batch, case.batch.ids.shape[1]
    for kept in sorted({1, (length + 1) // 2, length - 1} - {0, length}):
        short = replace(case.sample, rows=tuple(row[:kept] for row in case.sample.rows)).batch()
        told, told_short = batch.position < kept - reader.lag, short.position < kept - reader.lag
        found, expected = reader.log_probs(batch)[told], reader.log_probs(short)[told_short]
        yield compared(f"{length} tokens instead of {kept}", found, expected, batch, told)


CUT = Property(
    name="future, cut off",
    fault="future",
    meaning="how much comes after a position does not change its distribution",
    look_at="Look for anything that is computed from the length of the text.",
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
    look_at="Look for what is kept by position in the batch, or for the first or last text.",
    measure=_order,
    reruns=True,
)
LENGTHS = Property(
    name="lengths",
    fault="padding",
    meaning="the lengths of the other texts, and so any padding, change nothing",
    look_at="Look at the mask: padding that is read, counted in a mean, or moves positions.",
    measure=_lengths,
    reruns=True,
)


# -- Bits per byte: every byte of a text is counted once, and every byte is paid for.

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

CHANGES: tuple[tuple[str, Callable[[str], str]], ...] = (
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
    for name, change in CHANGES:
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


# -- Properties of asking again: what was scored before, be it this text or another, changes nothing.

_TEXTS = 4
"""Texts that are asked about twice."""

_SURE = 4.0
"""Standard errors that a mean gain must be above 0, to be no mere noise: by chance once in 30,000 audits."""


@dataclass(frozen=True, eq=False)
class Repetition:
    """Texts that were not asked about before, each with two answers at once after each other."""

    gains: Float[Tensor, "K"]
    """What each observed token gains in nats, where both numbers are finite."""
    found: tuple[Deviation, ...]
    """For each text, how far the second answer is from the first."""

    @classmethod
    def of(cls, reader: Reader, samples: Sequence[ProbeSample]) -> Repetition:
        """Asks twice about each text."""
        gains, found = [], []
        for sample in samples:  # answers, which may be large, are held for one text at a time
            batch = sample.batch()
            # a new batch: answers about one batch are kept
            first, second = reader.log_probs(batch), reader.log_probs(sample.batch())
            gains.append(_gains(first, second, batch))
            found.append(compared("", second, first, batch)._replace(sample=sample))
        return cls(torch.cat(gains), tuple(found))

    @property
    def was_learned(self) -> bool:
        """Whether tokens became more probable, rather than now more and now less."""
        if len(self.gains) < 2 or not self.gains.any():
            return False
        error = float(self.gains.std()) / math.sqrt(len(self.gains))
        return float(self.gains.mean()) > _SURE * error

    def deviations(self, variant: str, said: str = "") -> Iterator[Deviation]:
        """Deviation of the second answer from the first."""
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
    # a text that shares its end with one that was asked about, and no beginning
    half = (len(texts[0]) + 1) // 2
    start = case.words.other(case.batch.ids[0, :half])
    sample = case.words.sample("another beginning", [torch.cat([start, case.batch.ids[0, half:]])])
    reader.log_probs(case.sample.batch())
    found, expected = reader.log_probs(sample.batch()), reader.untouched().log_probs(sample.batch())
    yield compared("against a copy made before all questions", found, expected, sample.batch())._replace(sample=sample)


_repetitions: WeakKeyDictionary[Case, dict[Reader, Repetition]] = WeakKeyDictionary()


def _repetition(reader: Reader, case: Case) -> Repetition:
    # asked once for both properties, which tell one fault from the other
    known = _repetitions.setdefault(case, {})
    if reader not in known:
        known[reader] = Repetition.of(reader, [_fresh(case) for _ in range(_TEXTS)])
    return known[reader]


def _fresh(case: Case) -> ProbeSample:
    return case.words.sample("another text", [case.words.text(len(case.sample.rows[0]))])


def _gains(first: Tensor, second: Tensor, batch: Batch) -> Float[Tensor, "K"]:
    """Differences for one text of the log-probabilities of observed tokens."""
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
    meaning="a copy that was asked nothing before gives the same answers",
    look_at="Look for answers that are kept under a key that two texts share, and for what is learned from texts.",
    measure=_untouched,
)
REPEATS = (
    Property(
        name="asked again",
        fault="not-repeatable",
        meaning="the same question has the same answer at once after the first",
        look_at="Look for dropout, sampling, or a time or counter that the answer depends on.",
        measure=_again,
    ),
    Property(
        name="scored before",
        fault="scored-before",
        meaning="a text is not more probable once it was scored",
        look_at="Look for a store, a cache or weights that take in the text that is scored.",
        measure=_scored_before,
    ),
    Property(
        name="left over",
        fault="state-left-over",
        meaning="another text scored in between changes nothing",
        look_at="Look for a cache or store that is not emptied between texts.",
        measure=_left_over,
    ),
)
"""All of them, in the order of the report."""
