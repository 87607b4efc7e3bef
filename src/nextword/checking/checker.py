"""The checker: is what a model answers a distribution, and does it depend on what it may depend on only."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from nextword.checking.audit.auditing import Progress, Wanted, audit_model, audit_scorer
from nextword.checking.audit.scorer_properties import CHANGES, PROBES
from nextword.checking.audit.shrinking import shrunk
from nextword.checking.distribution_properties import ANSWERS
from nextword.checking.findings import CheckFailedError, CheckReport, CheckRow, Finding
from nextword.checking.invariance_properties import INVARIANCES
from nextword.checking.opened_subject import open_subject, tokenizer_of
from nextword.checking.position_properties import AUXILIARY, POSITIONS
from nextword.checking.probe_texts import ProbeWords, given_sample
from nextword.checking.property import FAULTS, SHARE_OF_ROUNDING, Case, Property, finding_of, worst_of
from nextword.checking.readers import BackboneReader, Reader, magnification
from nextword.conditioning import conditioner_spec
from nextword.heads import head_spec
from nextword.model.forward.output_layer import weights_at_fault
from nextword.model.modeling import NextWordModel

__all__ = ["CheckFailedError", "CheckReport", "CheckRow", "check"]

Effort = Literal["quick", "thorough"]

LENGTHS: dict[str, Sequence[int]] = {"quick": (1, 6, 17), "thorough": (1, 6, 17, 64)}
"""Lengths of random texts."""

FEWER_LENGTHS = (1, 17)
"""Lengths in a quick check of a model that is not ours, which may be large; each costs two dozen passes and more."""

SHORT_LENGTHS = (1, 6)
"""Lengths in a quick check of a large model of ours, which is read token by token in every mode of its head."""

_LARGE = 50_000_000
"""Parameters from which on a model is large: on two cores a pass takes seconds."""

PROPERTIES: tuple[Property, ...] = (*ANSWERS, *INVARIANCES, *POSITIONS, *AUXILIARY)
"""Everything that is checked, in the order of the report."""


def check(
    model: Any,
    texts_or_ids: Sequence[str] | Sequence[Sequence[int]] | Tensor | str | None = None,
    *,
    tokenizer: Any = None,
    seed: int = 0,
    lengths: Sequence[int] | None = None,
    max_length: int = 64,
    vocabulary: int | None = None,
    effort: Effort = "quick",
) -> CheckReport:
    """Checks that a model's next-word distributions are distributions, in every mode of its head.

    They sum to one, are finite, agree with themselves however they are asked, see neither the future nor other
    sequences nor padding, and are the same with and without a KV cache; those of a conditioned model depend on the
    auxiliary text of their own sequence. ``docs/checker.md`` says what each row proves. Training mode and random state
    are left as they were.

    Args:
        model: A model with a head, from ``nextword.attach`` or ``nextword.load``; any other model of transformers, with
            adapters or without; the folder, GGUF file or hub name of one; with ``vocabulary`` any scorer.
            ``docs/checker.md`` says what is asked of these.
        texts_or_ids: Texts or token ids to check on beside random tokens; for an encoder-decoder model they are source
            and target at once. For a conditioned model each has a random auxiliary text.
        tokenizer: Turns texts into ids, and is itself asked which texts it cannot tell apart; None for a folder, which
            has its own.
        seed: Seed of the random tokens.
        lengths: Lengths of the random texts, by default 1, 6 and 17, and 64 in a thorough check; in a quick one 1 and
            17 of a model that is not ours, 1 and 6 of a large model of ours. A head of ours is checked on batches of
            three sequences of each length.
        max_length: Given texts are cut to so many tokens.
        vocabulary: Number of tokens of a scorer, which is given in place of a model: a function of prefixes, or an
            object with more (``nextword.checking.audit.scorer.Scorer``).
        effort: "quick", or "thorough" for longer texts too, and for questions that take much memory.

    Returns:
        A row for each property. ``report.raise_if_failed()`` turns failures into an exception.

    Raises:
        ValueError: Not a model of transformers, and no ``vocabulary``; no model where the path is; texts without a
            tokenizer; or token ids outside the vocabulary.

    Examples:
        >>> import nextword as nw
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=8, n_layer=1, n_head=2))
        >>> nw.check(nw.attach(gpt2, "cache"), lengths=[4]).passed
        True
    """
    if isinstance(model, str | Path) and vocabulary is None:
        tokenizer = tokenizer_of(model) if tokenizer is None else tokenizer
        model = open_subject(model)
    asked = usual_lengths(model, vocabulary, effort) if lengths is None else lengths
    wanted = Wanted(asked, texts_or_ids, tokenizer, max_length, seed, effort == "thorough")
    return check_as_wanted(model, wanted, vocabulary)


def usual_lengths(model: Any, vocabulary: int | None, effort: Effort) -> Sequence[int]:
    """Lengths of the random texts of ``check`` where it is not told any."""
    if effort == "thorough" or vocabulary is not None:
        return LENGTHS[effort]
    if not isinstance(model, NextWordModel):
        return FEWER_LENGTHS
    size = sum(parameter.numel() for parameter in model.parameters())
    return SHORT_LENGTHS if size >= _LARGE else LENGTHS[effort]


def check_as_wanted(
    model: Any, wanted: Wanted, vocabulary: int | None = None, progress: Progress = lambda name, share: None
) -> CheckReport:
    """``check``, and reports before each property its name and the share of the work that is done."""
    ours = vocabulary is None and isinstance(model, NextWordModel)
    report = _of_ours(model, wanted, progress) if ours else _of_what_is_not_ours(model, vocabulary, wanted, progress)
    damage = weights_at_fault(model) if isinstance(model, torch.nn.Module) and not report.passed else None
    if damage is not None:  # no head makes numbers of them, so none is to be looked at
        why = f"{damage[0].upper()}{damage[1:]}."
        report = replace(report, rows=tuple(row if row.passed else replace(row, look_at=why) for row in report.rows))
    if wanted.tokenizer is None:
        return report
    row, finding = round_trip(wanted.tokenizer)
    findings = report.findings if finding is None else (*report.findings, finding)
    return replace(report, rows=(*report.rows, row), findings=findings)


def _of_ours(model: Any, wanted: Wanted, progress: Progress) -> CheckReport:
    words = ProbeWords.of_model(model, wanted.seed)
    samples = [words.random_sample(length) for length in _fitting(wanted.lengths, words.longest)]
    if wanted.given is not None:
        (longest,) = _fitting([wanted.max_length], words.longest)
        samples.append(given_sample(words, wanted.given, wanted.tokenizer, longest))
    cases = [Case(model, words, sample) for sample in samples]
    with _as_it_was(model), torch.no_grad():
        readers = [Reader(model, mode) for mode in model.next_word_head.modes]
        judged = []
        for number, one in enumerate(PROPERTIES):
            progress(one.name, number / len(PROPERTIES))
            judged.append(_judged(one, readers, cases))
    name = type(model.backbone).__name__
    dtype = str(model.dtype).removeprefix("torch.")
    conditioner = None if model.conditioner is None else conditioner_spec(model.conditioner.config)
    findings = tuple(finding for _, finding in judged if finding is not None)
    rows = tuple(row for row, _ in judged)
    return CheckReport(name, head_spec(model.next_word_head.config), dtype, rows, conditioner, findings)


def _of_what_is_not_ours(model: Any, vocabulary: int | None, wanted: Wanted, progress: Progress) -> CheckReport:
    if vocabulary is not None:
        return audit_scorer(model, vocabulary, replace(wanted, lengths=_fitting(wanted.lengths, None)), progress)
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "config"):
        raise ValueError(
            f"check: must be given a model of transformers ({type(model).__name__} given); "
            "for a function or an object that scores tokens, give vocabulary=... too"
        )
    config: Any = model.config
    longest = getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
    with _as_it_was(model), torch.no_grad():
        return audit_model(model, replace(wanted, lengths=_fitting(wanted.lengths, longest)), progress)


_ROOM = 4
"""Positions to leave free in a model with few, for padding."""


def _fitting(lengths: Iterable[int], longest: int | None) -> list[int]:
    wanted = list(lengths)
    if not wanted or min(wanted) < 1:
        raise ValueError(f"check: lengths must be one or more positive numbers ({wanted} given)")
    limit = max(1, longest - _ROOM) if longest is not None else max(wanted)
    return list(dict.fromkeys(min(length, limit) for length in wanted))


def _judged(one: Property, readers: list[Reader], cases: list[Case]) -> tuple[CheckRow, Finding | None]:
    model = cases[0].model
    reason = one.applies(model)
    tolerance = one.tolerance(model.dtype)
    if reason:
        return one.row(None, tolerance, reason), None
    try:
        found = worst_of(one, readers, cases)
        if found is None:
            return one.row(None, tolerance, one.nothing), None
        worst, where = found.found.value, found.where
        if one.reruns and tolerance < worst < torch.inf:
            # judged by what rounding does to the backbone itself, up to a limit that no rounding excuses
            bare = worst_of(one, [BackboneReader(model)], cases)
            rounding = 0.0 if bare is None else bare.found.value
            excused, limit = SHARE_OF_ROUNDING * rounding, one.most(model.dtype)
            if one.of_the_cache and tolerance + excused > limit:
                reason = f"{type(model.backbone).__name__} itself does not do so: alone it deviates by {rounding:.3g}"
                return one.row(None, tolerance, reason), None
            if excused:
                excused *= magnification(found.reader, found.case.batch)
            tolerance = min(tolerance + excused, limit)
            where += f"; the bare backbone deviates by {rounding:.3g}"
    except Exception as fault:  # whatever a head raises is a finding about it, and the other rows still count
        row = one.row(torch.inf, tolerance, "the call failed", fault)
        texts = tuple(tuple(ids.tolist()) for ids in cases[0].sample.rows)
        return row, Finding(one.fault, row.explain(), torch.inf, tolerance, texts, row.where)
    row = one.row(worst, tolerance, where)
    if row.passed:
        return row, None
    # in steps every try takes as many passes as a text has tokens
    smallest = None if one.of_the_cache else shrunk(one, found, tolerance)
    return row, finding_of(one, found, tolerance, smallest)


@contextmanager
def _as_it_was(model: Any) -> Iterator[None]:
    """Evaluation mode inside; training mode of every module and torch's random state as before afterwards."""
    training = {module: module.training for module in model.modules()}
    with torch.random.fork_rng():
        model.eval()
        try:
            yield
        finally:
            for module, was in training.items():
                module.training = was


# -- What a tokenizer loses: texts that are the same tokens, so that bits per byte count bytes that cost nothing.

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

    A text that does not come back is not a loss yet: decoding may drop a space that the tokens had. It is one where
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
