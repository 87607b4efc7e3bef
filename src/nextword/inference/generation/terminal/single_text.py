"""One text shown while it is written, each token with the component of the head that it came from."""

from __future__ import annotations

from dataclasses import replace

from nextword.inference.generation.batched_generation import GeneratedText
from nextword.inference.generation.generation_passes import effective_config, end_ids
from nextword.inference.generation.generation_run import GenerationRun, generated_texts
from nextword.inference.generation.terminal.coloured_text import ColouredText
from nextword.inference.generation.terminal.streamed_text import (
    LatestDistribution,
    SourceStreamer,
    TextPieces,
    strongest,
)
from nextword.inference.scoring.example_encoding import EncodedExample
from nextword.inference.scoring.opened_model import OpenedModel


def show_text(run: GenerationRun, screen: ColouredText) -> None:
    """Shows the prompt and the text of a run with one row.

    Greedy search and sampling are shown token by token. What beams, an assistant or drafts write is shown when it is
    finished; its tokens are then asked about in one more pass.

    Args:
        run: Of one prompt, one decoding, one seed and one sample.
        screen: Where to.
    """
    (one,), model = run.passes, run.opened.model
    if not run.opened.has_encoder:
        screen.prompt(run.prompts[0].prompt)
    if not one.is_rowwise or run.settings.draft is not None:
        _show_finished(run, screen)
        return
    latest = LatestDistribution(model.next_word_head)
    ends = end_ids(effective_config(model, one.arguments))
    source = latest.source if screen.is_coloured else None
    streamer = SourceStreamer(run.opened.tokenizer, ends, screen.show, source, _before(run.opened, run.encoded[0]))
    with latest.watching():
        for _ in generated_texts(run, streamer):
            pass
    screen.end(latest.names)


def with_prompt(opened: OpenedModel, text: GeneratedText) -> str:
    """A text after its prompt, as a terminal shows both; what an encoder-decoder model wrote stands alone.

    Args:
        opened: The model that wrote it.
        text: What it wrote.
    """
    prompt = text.row.prompt
    pieces = TextPieces(opened.tokenizer, _before(opened, prompt))
    written = "".join([*map(pieces.add, text.token_ids), pieces.end()])
    return written if opened.has_encoder else f"{prompt.example.prompt}{written}"


def _before(opened: OpenedModel, prompt: EncodedExample) -> list[int]:
    """Tokens that a text goes on after."""
    return [] if opened.has_encoder else list(prompt.context)


def _show_finished(run: GenerationRun, screen: ColouredText) -> None:
    described = replace(run, settings=run.settings.model_copy(update={"sources": screen.is_coloured, "places": 0}))
    ((_, text),) = generated_texts(described)
    shares = {} if text.sources is None else text.sources.shares
    pieces = TextPieces(run.opened.tokenizer, _before(run.opened, text.row.prompt))
    component: int | None = None
    for place, token in enumerate(text.token_ids):
        component = strongest([share[place] for share in shares.values()]) if len(shares) > 1 else None
        screen.show(pieces.add(token), component)
    screen.show(pieces.end(), component)
    screen.end(list(shares))
