"""One text shown while it is written, each token with the component of the head that it came from."""

from __future__ import annotations

from dataclasses import replace

from nextword.decoding.generation_passes import effective_config, end_ids
from nextword.decoding.generation_run import GenerationRun, generated_texts
from nextword.decoding.terminal.coloured_text import ColouredText
from nextword.decoding.terminal.streamed_text import LatestDistribution, SourceStreamer, TextPieces, strongest


def show_text(run: GenerationRun, screen: ColouredText) -> None:
    """Shows the prompt and the text of a run with one row.

    Greedy search and sampling are shown token by token. What beams or an assistant write is shown when it is finished;
    its tokens are then asked about in one more pass.

    Args:
        run: Of one prompt, one decoding, one seed and one sample.
        screen: Where to.
    """
    (one,), model = run.passes, run.opened.model
    if not run.opened.has_encoder:
        screen.prompt(run.prompts[0].prompt)
    if not one.is_rowwise:
        _show_finished(run, screen)
        return
    latest = LatestDistribution(model.next_word_head)
    ends = end_ids(effective_config(model, one.arguments))
    streamer = SourceStreamer(run.opened.tokenizer, ends, screen.show, latest.source if screen.is_coloured else None)
    with latest.watching():
        for _ in generated_texts(run, streamer):
            pass
    screen.end(latest.names)


def _show_finished(run: GenerationRun, screen: ColouredText) -> None:
    described = replace(run, settings=run.settings.model_copy(update={"sources": screen.is_coloured, "places": 0}))
    ((_, text),) = generated_texts(described)
    shares = {} if text.sources is None else text.sources.shares
    pieces = TextPieces(run.opened.tokenizer)
    component: int | None = None
    for place, token in enumerate(text.token_ids):
        component = strongest([share[place] for share in shares.values()]) if len(shares) > 1 else None
        screen.show(pieces.add(token), component)
    screen.show(pieces.end(), component)
    screen.end(list(shares))
