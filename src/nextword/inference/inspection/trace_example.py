"""Makes a trace from a model and a text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from nextword.inference.inspection.trace import Trace
from nextword.inference.scoring.example_encoding import (
    EncodedExample,
    Example,
    auxiliary_inputs,
    encode_context,
    encode_example,
)
from nextword.inference.scoring.likelihood import expect_numbers, text_answers
from nextword.inference.scoring.long_text import ScoringWindow
from nextword.inference.scoring.measurement.scored_texts import limited
from nextword.inference.scoring.opened_model import AnyModel, OpenedModel, Progress
from nextword.inference.scoring.text_tokens import start_id
from nextword.inference.scoring.token_facts import TextFacts, TokenFacts, TopPositions, span_facts
from nextword.model.speculative_decoding.speculative_decoding import DraftOutcome, speculative_decoding_of
from nextword.model.training_modes import inference_mode_of
from nextword.results.records.token_trace import (
    Candidates,
    Role,
    StrongestPositions,
    TracedDraft,
    TracedModel,
    TracedText,
    TracedTokens,
)
from nextword.runtime.devices import weight_of
from nextword.runtime.pretrained import token_label
from nextword.settings.version import __version__

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


DECIMALS = 4
"""Decimals of nats and shares in a trace. A difference of 0.0001 nats is a factor of 1.0001 in a probability."""


def trace(  # noqa: PLR0913  (its options)
    model: AnyModel,
    tokenizer: PreTrainedTokenizerBase | None = None,
    text: str | None = None,
    *,
    prompt: str = "",
    source: str | None = None,
    auxiliary: str | None = None,
    candidates: int = 10,
    positions: int = 8,
    limit: int | None = None,
    progress: Progress | None = None,
    **generation: Any,
) -> Trace:
    """Traces a model over a text: each token's probability, how components contribute to it, and alternatives.

    A text with more tokens than the model has positions is read in windows that overlap by half. ``Trace.window`` is
    the size of these windows in tokens.

    Args:
        model: A model of nextword or transformers, or its folder or hub name. A transformers model is used with the
            head ``softmax`` and is not changed. Give a model with a conditioner as a folder, or as an ``OpenedModel``.
        tokenizer: Tokenizer of the model; None if ``model`` includes it.
        text: Text whose tokens are predicted. None: the model generates a text after the prompt or source.
        prompt: Text before ``text``. The model reads it, but its tokens are not in the trace.
        source: Source of an encoder-decoder model.
        auxiliary: Auxiliary text of a conditioned model.
        candidates: Number of most probable tokens listed for each predicted token.
        positions: Maximum number of positions listed for each predicted token and each component of the head that
            points at positions.
        limit: Approximate number of tokens of ``text`` to trace, from its beginning; None: all.
        progress: Function that is called with the finished share of the text.
        **generation: Arguments of ``generate``, only if ``text`` is None.

    Returns:
        The trace, with ``to_pandas()``, ``to_json(path)`` and ``to_html(path)``; a notebook displays it as a page.

    Raises:
        ValueError: If the text is empty or is too long for an encoder-decoder model, the tokenizer gives no character
            offsets, an input of the model is missing, ``candidates`` or ``positions`` is negative, or ``limit`` is
            below 1.

    Examples:
        >>> import nextword as nw
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
        >>> words = Tokenizer(models.WordLevel({"<eos>": 0, "the": 1, "king": 2, "sat": 3, "and": 4}))
        >>> words.pre_tokenizer = pre_tokenizers.Whitespace()
        >>> tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<eos>")
        >>> config = GPT2Config(vocab_size=5, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
        >>> model = nw.attach(GPT2LMHeadModel(config), "cache")
        >>> trace = nw.trace(model, tokenizer, "the king sat and the king sat", candidates=2)
        >>> list(trace.to_pandas()["piece"])
        ['the', ' king', ' sat', ' and', ' the', ' king', ' sat']
    """
    opened = OpenedModel.of(model, tokenizer)
    example = Example(text or "", prompt, source, auxiliary, id="text")
    drafts: list[DraftOutcome] = []
    with inference_mode_of(opened.model):
        if text is None:
            unread = EncodedExample([], [], 0, example, [], 0)
            inputs = auxiliary_inputs(opened)([unread])
            encoded, pieces, drafts = written_example(opened, example, inputs, generation)
        else:
            if generation:
                raise ValueError(
                    f"trace: '{next(iter(generation))}' is an argument of generate, and the text is given; leave the "
                    "text out to let the model write it"
                )
            if limit is not None:
                if limit < 1:
                    raise ValueError(f"limit: must be at least 1 ({limit} given)")
                ((example, *_), _) = limited(opened, [example], limit)
            encoded = encode_example(opened, example)
            inputs = auxiliary_inputs(opened)([encoded])
            pieces = pieces_of_spans(example.text, encoded.spans)
        return traced(
            opened, encoded, pieces, inputs, candidates=candidates, positions=positions, drafts=drafts,
            progress=progress,
        )  # fmt: skip


def traced(
    opened: OpenedModel,
    encoded: EncodedExample,
    pieces: list[str],
    inputs: Mapping[str, Any],
    *,
    candidates: int = 10,
    positions: int = 8,
    drafts: Sequence[DraftOutcome] = (),
    progress: Progress | None = None,
) -> Trace:
    """Makes the trace of a tokenised text; ``pieces`` has the text that each target token adds.

    ``inputs`` are further model inputs, from ``auxiliary_inputs``. ``drafts`` are the draft tokens from the
    generation of the target. The model must be in evaluation mode. Other arguments and errors are those of ``trace``.
    """
    window, size = window_of(opened, encoded), len(weight_of(opened.model.get_output_embeddings()))
    question = partial(span_facts, candidates=min(candidates, size), positions=positions)
    (parts,) = text_answers(opened.model, [encoded], window, 1, question, lambda _: inputs, progress)
    said = TextFacts.joined(parts)
    facts, positions_in = said.facts, said.texts
    expect_numbers(opened, "the text", np.where(np.isnan(facts.entropy), np.nan, facts.log_prob))
    beside: Role = "source" if opened.has_encoder else "auxiliary"
    texts = _texts(opened, encoded, pieces, inputs)
    excerpts, facts = store_excerpts(opened, facts)
    if excerpts is not None:
        texts["store"] = excerpts
    tokens, first = _columns(facts), len(texts["text"].ids) - len(encoded.target)
    guessed = [TracedDraft(begin=first + one.begin, ids=list(one.tokens), accepted=one.accepted) for one in drafts]
    roles: dict[str, Role] = {"text": "text", "store": "store"}
    return Trace(
        nextword=__version__,
        model=TracedModel(name=opened.name, **opened.parts),
        texts=texts,
        positions_in={name: roles.get(of, beside) for name, of in positions_in.items() if name in tokens.positions},
        first=first,
        window=window.window,
        vocabulary=_labels(opened.tokenizer, texts, [*tokens.candidates.ids, *(one.ids for one in guessed)]),
        tokens=tokens,
        drafts=guessed,
    )


def _texts(
    opened: OpenedModel, encoded: EncodedExample, pieces: list[str], inputs: Mapping[str, Any]
) -> dict[Role, TracedText]:
    # the texts that the model read and predicted: first its own text, then its source or auxiliary text
    example = encoded.example
    read = example.source if opened.has_encoder else example.prompt
    before = TracedText(ids=encoded.context, pieces=pieces_of_spans(read or "", encoded.context_spans))
    if opened.has_encoder:
        start = int(opened.model.generation_config.decoder_start_token_id)
        return {"text": TracedText(ids=[start, *encoded.target], pieces=["", *pieces]), "source": before}
    text = TracedText(ids=before.ids + encoded.target, pieces=before.pieces + pieces)
    if example.auxiliary is None or opened.auxiliary_tokenizer is None:
        return {"text": text}
    tokenizer: Any = opened.tokenizer
    made = tokenizer(example.auxiliary, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    # no component can point at tokens that the encoder cut off
    count = inputs["source_ids"].shape[1] if "source_ids" in inputs else len(made["input_ids"])
    shown = TracedText(
        ids=list(made["input_ids"])[:count], pieces=pieces_of_spans(example.auxiliary, made["offset_mapping"])[:count]
    )
    return {"text": text, "auxiliary": shown}


def _columns(facts: TokenFacts) -> TracedTokens:
    best = facts.candidates
    counts = np.isfinite(best.log_prob).sum(1)  # a token with probability 0 is not a candidate
    return TracedTokens(
        log_prob=_rounded(facts.log_prob),
        rank=facts.rank.tolist(),
        entropy=_rounded(facts.entropy),
        shares={name: _rounded(share) for name, share in facts.shares.items()},
        candidates=Candidates(
            ids=_cut(best.ids.tolist(), counts),
            log_prob=_cut(_rounded(best.log_prob), counts),
            shares={name: _cut(_rounded(share), counts) for name, share in best.shares.items()},
        ),
        positions={name: _strongest(of) for name, of in facts.positions.items()},
    )


def _strongest(positions: TopPositions) -> StrongestPositions:
    counts = (positions.share.round(DECIMALS) > 0).sum(1)
    return StrongestPositions(at=_cut(positions.at.tolist(), counts), share=_cut(_rounded(positions.share), counts))


def _cut(rows: list[Any], counts: np.ndarray) -> list[Any]:
    return [row[:count] for row, count in zip(rows, counts.tolist(), strict=True)]


def _rounded(numbers: np.ndarray) -> Any:
    return (numbers.round(DECIMALS) + 0.0).tolist()  # 0.0 for -0.0


def _labels(tokenizer: Any, texts: Mapping[Role, TracedText], beside: Sequence[Sequence[int]]) -> dict[int, str]:
    rows = [*(text.ids for text in texts.values()), *beside]
    return {token: token_label(tokenizer, token) for token in sorted({token for row in rows for token in row})}


# -- A text that the model generates after a prompt or from a source.


def written_example(
    opened: OpenedModel, example: Example, inputs: Mapping[str, Any], generation: Mapping[str, Any]
) -> tuple[EncodedExample, list[str], list[DraftOutcome]]:
    """Generates a text after the prompt or source of ``example``, with the arguments ``generation`` of ``generate``.

    Returns the encoded example, whose target has the generated tokens; the piece of text of each; and the drafts.

    Raises:
        ValueError: If the generated text is empty, or several texts are requested.
    """
    if generation.get("num_return_sequences", 1) != 1:
        raise ValueError("trace: num_return_sequences must be 1; call trace once per text")
    context, spans = encode_context(opened, example).listed
    ids = torch.tensor([context], device=opened.model.device)
    drafting = speculative_decoding_of(generation["draft"]) if generation.get("draft") is not None else None
    drafts = {} if drafting is None else {"draft": drafting}
    made = opened.model.generate(ids, attention_mask=torch.ones_like(ids), **inputs, **{**generation, **drafts})
    written = getattr(made, "sequences", made)[0].tolist()
    target = written[1 if opened.has_encoder else len(context) :]
    if not target:
        raise ValueError("trace: the model generated no token; give text, or max_new_tokens of 1 or more")
    pieces = pieces_of_ids(opened.tokenizer, target, () if opened.has_encoder else context)
    bytes_written = len("".join(pieces).encode())
    encoded = EncodedExample(context, target, bytes_written, example, [], 1, spans)
    return encoded, pieces, [] if drafting is None else drafting.verified


# -- A text that is longer than the model's window: the model reads it in windows that overlap by half.


def window_of(opened: OpenedModel, encoded: EncodedExample) -> ScoringWindow:
    """The window in which an example is read: the whole example if the model can read it at once.

    Raises:
        ValueError: If the target is too long for an encoder-decoder model, which reads a target only as a whole.
    """
    limit = opened.longest
    read = len(encoded.target) + (0 if opened.has_encoder else len(encoded.context) - 1)
    if limit is None or read <= limit:
        return ScoringWindow()
    if opened.has_encoder:
        raise ValueError(
            f"text: must have at most {limit:,} tokens, which is what the decoder of '{opened.name}' sees ({read:,} "
            "given); trace a part of it"
        )
    return ScoringWindow(limit, max(1, limit // 2), opened.model.next_word_head.looks_back)


# -- The tokens around those that were retrieved from a datastore. They form a text with positions to point at.

AROUND = 24
"""Number of tokens shown before and after a retrieved token."""


def store_excerpts(opened: OpenedModel, facts: TokenFacts) -> tuple[TracedText | None, TokenFacts]:
    """Excerpts of the datastores around retrieved tokens, and ``facts`` with positions in these excerpts.

    Overlapping excerpts are joined. Each excerpt begins with a placeholder token, whose text names the document, the
    number of the excerpt's first token in this document and, if there are several datastores, the component. If no
    tokens were retrieved, the excerpts are None.
    """
    stored = {name: of for name, of in facts.positions.items() if of.documents is not None}
    read, start = opened.model.next_word_head.stored_texts(), start_id(opened.tokenizer)
    text, moved = TracedText(ids=[], pieces=[]), {}
    for name, of in stored.items():
        index: dict[tuple[int, int], int] = {}
        for document, first, last in _excerpt_bounds(sorted(set(_places(of)))):
            ids, begin = read[name].stretch(document, first, last)
            where = f"[{name}: " if len(stored) > 1 else "["
            where += f"document {document}, from token {begin + 1}] "
            text.pieces.extend(["\n" + where if text.pieces else where, *pieces_of_ids(opened.tokenizer, ids)])
            index |= {(document, begin + at): len(text.ids) + 1 + at for at in range(len(ids))}
            text.ids.extend([start, *ids])
        moved[name] = _moved(of, index)
    return (text, replace(facts, positions=facts.positions | moved)) if text.ids else (None, facts)


def _places(of: TopPositions) -> Iterator[tuple[int, int]]:
    assert of.documents is not None
    there = of.at >= 0
    return zip(of.documents[there].tolist(), of.at[there].tolist(), strict=True)


def _excerpt_bounds(positions: list[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Document, first and last token of each excerpt, from sorted positions."""
    if not positions:
        return
    document, first, last = positions[0][0], positions[0][1] - AROUND, positions[0][1] + AROUND
    for of, at in positions[1:]:
        if of == document and at - AROUND <= last:
            last = at + AROUND
            continue
        yield document, first, last
        document, first, last = of, at - AROUND, at + AROUND
    yield document, first, last


def _moved(of: TopPositions, index: dict[tuple[int, int], int]) -> TopPositions:
    assert of.documents is not None
    pairs = zip(of.documents.ravel().tolist(), of.at.ravel().tolist(), strict=True)
    at = np.array([index.get(pair, -1) for pair in pairs], dtype=np.int64).reshape(of.at.shape)
    return TopPositions(at, of.share)


# -- The piece of text that each token stands for. All pieces together are the text.


def pieces_of_spans(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """The piece of text of each token, from its character span; (-1, -1) is a special token.

    A piece begins where the previous piece ends. So a space outside all spans belongs to the next token, or at the end
    of the text to the last token. If several tokens form one character, the first token gets the character and the
    others get an empty piece. Special tokens get an empty piece too.

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
    """The piece of text that each token adds to the text decoded from ``ids``.

    ``before`` has the tokens before ``ids``, which determine whether the first piece begins with a space.
    """

    def decoded(count: int) -> str:
        some = [*before, *ids[:count]]
        text: str = tokenizer.decode(some, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    whole, pieces = decoded(len(ids)), [""] * len(ids)
    done, first = len(decoded(0)), 0
    for at in range(len(ids)):
        text = decoded(at + 1)
        # a character is complete once all of its bytes are there; it then belongs to the token of its first byte
        if at + 1 < len(ids) and not whole.startswith(text):
            continue
        pieces[first], done, first = text[done:], max(done, len(text)), at + 1
    return pieces
