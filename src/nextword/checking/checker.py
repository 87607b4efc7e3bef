"""``nw.check``: test that a model's next-word distributions are valid and use no input that they must not use."""

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
"""Default lengths of random texts."""

FEWER_LENGTHS = (1, 17)
"""Lengths in a quick check of a model without a nextword head. Each length needs two dozen passes or more, and the
model may be large."""

SHORT_LENGTHS = (1, 6)
"""Lengths in a quick check of a large model with a nextword head, which the check reads token by token in every
mode."""

_LARGE = 50_000_000
"""Number of parameters from which a model counts as large: one pass then takes seconds on two CPU cores."""

PROPERTIES: tuple[Property, ...] = (*ANSWERS, *INVARIANCES, *POSITIONS, *AUXILIARY)
"""All properties, in the order of the report."""


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
    """Check that a model's next-word distributions are valid and consistent, in every mode of its head.

    Every distribution must sum to one without NaN. All methods of a distribution must agree, and a KV cache may not
    change its probabilities. A distribution may not depend on later tokens, other sequences or padding. In a
    conditioned model, it must depend on the auxiliary text of its own sequence. The check restores the model's training
    mode and torch's random state. Details: ``docs/checker.md``.

    Args:
        model: A model with a head, from ``nextword.attach`` or ``nextword.load``; any other transformers model, with or
            without adapters; the folder, GGUF file or hub name of a model; or, with ``vocabulary``, any scorer.
        texts_or_ids: Texts or token ids to check in addition to random tokens. An encoder-decoder model gets each text
            as both source and target. A conditioned model gets a random auxiliary text with each text.
        tokenizer: Tokenizer of the texts. The check also tests whether the tokenizer gives different texts the same
            tokens. None: the tokenizer saved with the model, if ``model`` is a path or hub name.
        seed: Seed of the random tokens.
        lengths: Lengths of the random texts, in tokens; reduced if the model has too few positions. None: 1, 6
            and 17, and in a thorough check also 64. A quick check uses only 1 and 17 for a transformers model without a
            nextword head, and only 1 and 6 for a model with a head and at least 50 million parameters. For each length,
            a model with a head is checked on a batch of three sequences of at most this length.
        max_length: Maximum number of tokens of each given text; the check truncates longer texts.
        vocabulary: Vocabulary size. Give it if ``model`` is a scorer: a function of prefixes, or an object with more
            methods (``nextword.checking.audit.scorer.Scorer``).
        effort: "quick", or "thorough" to check longer texts and run tests that need much memory.

    Returns:
        A report with one row per property; ``report.raise_if_failed()`` raises an exception if one failed.

    Raises:
        ValueError: If ``model`` is not a transformers model and no ``vocabulary`` is given, if the path ``model`` has
            no model, if texts are given without a tokenizer, if a token id is outside the vocabulary, or if a length is
            below 1.

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
    """Default lengths of the random texts of ``check``."""
    if effort == "thorough" or vocabulary is not None:
        return LENGTHS[effort]
    if not isinstance(model, NextWordModel):
        return FEWER_LENGTHS
    size = sum(parameter.numel() for parameter in model.parameters())
    return SHORT_LENGTHS if size >= _LARGE else LENGTHS[effort]


def check_as_wanted(
    model: Any, wanted: Wanted, vocabulary: int | None = None, progress: Progress = lambda name, share: None
) -> CheckReport:
    """Like ``check``, with the texts and the effort of ``wanted``.

    Before each property is tested, ``progress`` is called with the property's name and the finished share of all tests.
    """
    ours = vocabulary is None and isinstance(model, NextWordModel)
    report = _of_ours(model, wanted, progress) if ours else _of_what_is_not_ours(model, vocabulary, wanted, progress)
    damage = weights_at_fault(model) if isinstance(model, torch.nn.Module) and not report.passed else None
    if damage is not None:  # no head can predict from NaN weights, so the report names the weights and no other cause
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
"""Number of positions that the random texts leave free for padding."""


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
            # allow what rounding changes in the backbone itself, up to a limit that rounding never explains
            bare = worst_of(one, [BackboneReader(model)], cases)
            rounding = 0.0 if bare is None else bare.found.value
            excused, limit = SHARE_OF_ROUNDING * rounding, one.most(model.dtype)
            if one.of_the_cache and tolerance + excused > limit:
                reason = (
                    f"{type(model.backbone).__name__} itself fails this: without the head it deviates by {rounding:.3g}"
                )
                return one.row(None, tolerance, reason), None
            if excused:
                excused *= magnification(found.reader, found.case.batch)
            tolerance = min(tolerance + excused, limit)
            where += f"; the bare backbone deviates by {rounding:.3g}"
    except Exception as fault:  # an exception of a head is a finding about this property; the other rows still count
        row = one.row(torch.inf, tolerance, "the call failed", fault)
        texts = tuple(tuple(ids.tolist()) for ids in cases[0].sample.rows)
        return row, Finding(one.fault, row.explain(), torch.inf, tolerance, texts, row.where)
    row = one.row(worst, tolerance, where)
    if row.passed:
        return row, None
    # a text is not shortened for a property of the cache: every attempt would take one pass per token
    smallest = None if one.of_the_cache else shrunk(one, found, tolerance)
    return row, finding_of(one, found, tolerance, smallest)


@contextmanager
def _as_it_was(model: Any) -> Iterator[None]:
    """Set evaluation mode in this block; afterwards restore each module's training mode and torch's random state."""
    training = {module: module.training for module in model.modules()}
    with torch.random.fork_rng():
        model.eval()
        try:
            yield
        finally:
            for module, was in training.items():
                module.training = was


# -- What a tokenizer loses: if two texts have the same tokens, bits per byte counts bytes that cost no bits.

ONLY_FOR = "bits per byte"
"""Name of the only measure that is wrong if a tokenizer gives different texts the same tokens."""


def _without_accents(text: str) -> str:
    return "".join(one for one in unicodedata.normalize("NFD", text) if not unicodedata.combining(one))


_CHANGES: tuple[Callable[[str], str], ...] = (
    *(change for _, change in CHANGES),
    str.lower,
    lambda text: unicodedata.normalize("NFC", text),
    lambda text: unicodedata.normalize("NFKC", text),
    _without_accents,
)
"""Normalisations that tokenizers apply to a text."""


def round_trip(tokenizer: Any) -> tuple[CheckRow, Finding | None]:
    """Test whether a tokenizer distinguishes texts that differ in white space, accents, case and so on.

    If two different texts have the same tokens, the tokens lose the difference, which then costs no bits. A text that
    decodes to a different text does not prove a loss, because decoding may drop a space.

    Returns:
        A row, which never fails a check, and a finding about bits per byte (None: no lost difference was found).
    """
    try:
        lost, changed = _lost(tokenizer)
    except Exception as fault:  # a tokenizer of the user's own may raise anything, for instance if it cannot decode
        return _row(None, f"the tokenizer raised an error: {type(fault).__name__}: {fault}"), None
    said = "; ".join(f"{text!r} and {other!r} are the same tokens" for text, other in lost)
    where = f"{len(lost)} of {len(PROBES)} texts: {said}" if lost else "no two texts with the same tokens were found"
    if changed > len(lost):
        where += f"; texts that decode to a text with other tokens: {changed - len(lost)}"
    row = _row(float(len(lost)), where)
    if not lost:
        return row, None
    ids = tuple(tuple(_tokens(tokenizer, text)) for text, _ in lost[:1])
    return row, Finding("bytes", f"{FAULTS['bytes']}: {said}", len(lost), 0.0, ids, said.split("; ")[0], ONLY_FOR)


def _row(worst: float | None, where: str) -> CheckRow:
    return CheckRow(
        name="tokenizer",
        meaning="different texts have different tokens, so bits per byte covers every byte",
        worst=worst,
        tolerance=0.0,
        where=where,
        look_at="Report bits per byte of the text as the tokenizer normalises it, or state what it drops.",
        only_for=ONLY_FOR,
    )


def _lost(tokenizer: Any) -> tuple[list[tuple[str, str]], int]:
    """Pairs of texts with the same tokens, and the number of texts that decode to another text."""
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
