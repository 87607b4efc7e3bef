"""From a model and a text to a trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from nextword.conditioning import conditioner_spec
from nextword.heads import head_spec
from nextword.inference.inspection.continuation import written_example
from nextword.inference.inspection.long_example import facts_in_windows, window_of
from nextword.inference.inspection.store_excerpts import store_excerpts
from nextword.inference.inspection.text_pieces import pieces_of_spans
from nextword.inference.inspection.trace import Trace
from nextword.inference.scoring.example_encoding import EncodedExample, Example, auxiliary_inputs, encode_example
from nextword.inference.scoring.opened_model import AnyModel, OpenedModel
from nextword.inference.scoring.token_facts import TokenFacts, TopPlaces
from nextword.model.drafting.drafting import JudgedDraft
from nextword.model.training_modes import measuring
from nextword.objectives import objective_spec
from nextword.results.records.token_trace import (
    Candidates,
    Places,
    Role,
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
"""Of nats and shares: a ten-thousandth of a nat is a ten-thousandth of a probability."""


def trace(
    model: AnyModel,
    tokenizer: PreTrainedTokenizerBase | None = None,
    text: str | None = None,
    *,
    prompt: str = "",
    source: str | None = None,
    auxiliary: str | None = None,
    candidates: int = 10,
    places: int = 8,
    **generation: Any,
) -> Trace:
    """What a model says about every token of a text: how probable it was, what else was, and where that came from.

    A text longer than the model can see is read in windows that overlap by half; ``window`` of the trace says so.

    Args:
        model: A model of ours or of transformers (which is asked with head ``softmax`` and stays as it is), or the
            folder or hub name of one. With a conditioner: its folder, or an ``OpenedModel`` with its two tokenizers.
        tokenizer: Its tokenizer; None where ``model`` brings its own.
        text: What the model predicts, token by token. None: what it writes itself after the prompt or source.
        prompt: What stands before the text, read and not predicted.
        source: What an encoder-decoder model reads.
        auxiliary: What the encoder of a conditioned model reads.
        candidates: How many of the most probable tokens are named at each position.
        places: How many places of the text or source are named, for each component that points at places.
        **generation: Arguments of ``generate``, where the model writes the text.

    Returns:
        The trace: ``to_pandas()``, ``to_json(path)``, ``to_html(path)``; a notebook shows it by itself.

    Raises:
        ValueError: No text, one that is longer than an encoder-decoder model can see, a tokenizer without offsets,
            something missing that the model reads, or a number out of range.

    Examples:
        >>> trace = nw.trace(model, tokenizer, "The king sat. The king stood.")  # doctest: +SKIP
        >>> trace.to_pandas()[["piece", "log_prob", "rank", "share cache"]]  # doctest: +SKIP
    """
    opened = OpenedModel.of(model, tokenizer)
    example = Example(text or "", prompt, source, auxiliary, id="text")
    numbers: dict[str, Any] = {"candidates": candidates, "places": places}
    with measuring(opened.model):
        if text is None:
            inputs = auxiliary_inputs(opened)([_unread(example)])
            encoded, pieces, drafts = written_example(opened, example, inputs, generation)
            numbers["drafts"] = drafts
        else:
            _expect_none(generation)
            encoded = encode_example(opened, example)
            inputs = auxiliary_inputs(opened)([encoded])
            pieces = pieces_of_spans(example.text, encoded.spans)
        return traced(opened, encoded, pieces, inputs, **numbers)


def traced(
    opened: OpenedModel,
    encoded: EncodedExample,
    pieces: list[str],
    inputs: Mapping[str, Any],
    *,
    candidates: int = 10,
    places: int = 8,
    drafts: Sequence[JudgedDraft] = (),
) -> Trace:
    """The trace of a text that is tokens already.

    Args:
        opened: The model, in evaluation.
        encoded: Context and target.
        pieces: What each token of the target adds to the text.
        inputs: Further inputs of the model, such as its auxiliary text.
        candidates: As of ``trace``.
        places: Likewise.
        drafts: What was guessed while the target was written.

    Raises:
        ValueError: As ``trace``.
    """
    window, size = window_of(opened, encoded), len(weight_of(opened.model.get_output_embeddings()))
    numbers = {"candidates": min(candidates, size), "places": places}
    facts, places_in = facts_in_windows(opened, encoded, inputs, window, **numbers)
    _expect_numbers(facts)
    beside: Role = "source" if opened.has_encoder else "auxiliary"
    texts = _texts(opened, encoded, pieces, inputs)
    excerpts, facts = store_excerpts(opened, facts)
    if excerpts is not None:
        texts["store"] = excerpts
    tokens, first = _columns(facts), len(texts["text"].ids) - len(encoded.target)
    guessed = [TracedDraft(begin=first + one.begin, ids=list(one.words), accepted=one.accepted) for one in drafts]
    return Trace(
        nextword=__version__,
        model=_facts_of(opened),
        texts=texts,
        places_in={name: _role(of, beside) for name, of in places_in.items() if name in tokens.places},
        first=first,
        window=window,
        vocabulary=_labels(opened.tokenizer, texts, [*tokens.candidates.ids, *(one.ids for one in guessed)]),
        tokens=tokens,
        drafts=guessed,
    )


def _role(of: str, beside: Role) -> Role:
    return cast("Role", of) if of in ("text", "store") else beside


def _unread(example: Example) -> EncodedExample:
    """An example before it has tokens, to be asked for its auxiliary text."""
    return EncodedExample([], [], 0, example, [], 0)


def _expect_none(generation: Mapping[str, Any]) -> None:
    if generation:
        raise ValueError(
            f"trace: '{next(iter(generation))}' is an argument of generate, and the text is given; leave the text out "
            "to let the model write it"
        )


def _expect_numbers(facts: TokenFacts) -> None:
    wrong = np.flatnonzero(np.isnan(facts.log_prob) | np.isnan(facts.entropy))
    if len(wrong):
        raise ValueError(
            f"token {wrong[0] + 1} of the text: its probability is no number (NaN); are the model's weights damaged?"
        )


def _facts_of(opened: OpenedModel) -> TracedModel:
    model = opened.model
    return TracedModel(
        name=opened.name,
        head=head_spec(model.next_word_head.config),
        objective=objective_spec(model.objective.config),
        conditioner=None if model.conditioner is None else conditioner_spec(model.conditioner.config),
        backbone=type(model.backbone).__name__,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
    )


def _texts(
    opened: OpenedModel, encoded: EncodedExample, pieces: list[str], inputs: Mapping[str, Any]
) -> dict[Role, TracedText]:
    """What the model read and predicted: its own text first, then what it reads beside it."""
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
    # what the encoder cut off cannot be pointed at
    count = inputs["source_ids"].shape[1] if "source_ids" in inputs else len(made["input_ids"])
    shown = TracedText(
        ids=list(made["input_ids"])[:count], pieces=pieces_of_spans(example.auxiliary, made["offset_mapping"])[:count]
    )
    return {"text": text, "auxiliary": shown}


def _columns(facts: TokenFacts) -> TracedTokens:
    best = facts.candidates
    counts = np.isfinite(best.log_prob).sum(1)  # a token without any probability is no candidate
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
        places={name: _strongest(of) for name, of in facts.places.items()},
    )


def _strongest(places: TopPlaces) -> Places:
    counts = (places.share.round(DECIMALS) > 0).sum(1)
    return Places(at=_cut(places.at.tolist(), counts), share=_cut(_rounded(places.share), counts))


def _cut(rows: list[Any], counts: np.ndarray) -> list[Any]:
    return [row[:count] for row, count in zip(rows, counts.tolist(), strict=True)]


def _rounded(numbers: np.ndarray) -> Any:
    return (numbers.round(DECIMALS) + 0.0).tolist()  # 0.0 for -0.0


def _labels(tokenizer: Any, texts: Mapping[Role, TracedText], beside: Sequence[Sequence[int]]) -> dict[int, str]:
    rows = [*(text.ids for text in texts.values()), *beside]
    return {token: token_label(tokenizer, token) for token in sorted({token for row in rows for token in row})}
