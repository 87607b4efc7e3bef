"""Shows a text in the terminal during generation. A token's colour shows which component of the head predicted it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers.generation.streamers import BaseStreamer

from nextword.distribution import NextToken
from nextword.inference.generation.generation_passes import effective_config, end_ids
from nextword.inference.generation.generation_run import GenerationRun, generated_texts
from nextword.inference.generation.generator import GeneratedText
from nextword.inference.generation.prompts import Prompt
from nextword.inference.scoring.opened_model import OpenedModel

if TYPE_CHECKING:
    from rich.console import Console
    from transformers import PreTrainedTokenizerBase


def show_text(run: GenerationRun, screen: ColouredText) -> None:
    """Generates the only text of ``run``, and shows it on ``screen``, for a decoder-only model after the prompt.

    In greedy search and sampling, the text is shown token by token. With beam search, an assistant model or drafts, it
    is shown when it is finished; for the colours, one more forward pass then computes the component of each token.
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
    """Prompt and text together, as a terminal shows them; for an encoder-decoder model, only the text."""
    prompt = text.row.prompt
    pieces = TextPieces(opened.tokenizer, _before(opened, prompt))
    written = "".join([*map(pieces.add, text.token_ids), pieces.end()])
    return written if opened.has_encoder else f"{prompt.text}{written}"


def _before(opened: OpenedModel, prompt: Prompt) -> list[int]:
    # the tokens before the text in the decoder
    return [] if opened.has_encoder else list(prompt.context)


def _show_finished(run: GenerationRun, screen: ColouredText) -> None:
    described = replace(run, settings=run.settings.model_copy(update={"sources": screen.is_coloured, "positions": 0}))
    ((_, text),) = generated_texts(described)
    shares = {} if text.sources is None else text.sources.shares
    pieces = TextPieces(run.opened.tokenizer, _before(run.opened, text.row.prompt))
    component: int | None = None
    for place, token in enumerate(text.token_ids):
        component = strongest([share[place] for share in shares.values()]) if len(shares) > 1 else None
        screen.show(pieces.add(token), component)
    screen.show(pieces.end(), component)
    screen.end(list(shares))


# -- A text token by token, as it is generated, with the component of the head for each token.

Show = Callable[[str, int | None], None]
"""Function that receives a piece of text and the component (from 0) with the largest share of its last token's
probability. The component is None if it was not computed, or if the head has only one component."""


def strongest(shares: Sequence[float]) -> int:
    """Index of the largest share; of several largest shares, the first.

    >>> strongest([0.2, 0.5, 0.5])
    1
    """
    return max(range(len(shares)), key=lambda place: shares[place])


class TextPieces:
    """Decodes tokens one by one. A character that consists of several tokens is added with the last of them.

    ``before`` has the tokens before the first decoded token, because some tokenizers decode a text's first token
    without its space.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, before: Sequence[int] = ()) -> None:
        self._tokenizer: Any = tokenizer
        self._ids: list[int] = list(before)
        self._before, self._shown = 0, len(self._ids)

    def add(self, token: int) -> str:
        """Returns the text that the token adds. It is empty while a character is incomplete."""
        self._ids.append(token)
        return self._rest(False)

    def end(self) -> str:
        """Returns the text of last tokens that do not form a complete character; call this after the last token."""
        return self._rest(True)

    def _rest(self, is_last: bool) -> str:
        # decodes only from the last piece but one, so that a token takes the same time in a long text
        before = self._decoded(self._ids[self._before : self._shown])
        now = self._decoded(self._ids[self._before :])
        if len(now) <= len(before) or (now.endswith("\N{REPLACEMENT CHARACTER}") and not is_last):
            return ""
        self._before, self._shown = self._shown, len(self._ids)
        return now[len(before) :]

    def _decoded(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))


class SourceStreamer(BaseStreamer):
    """A streamer for ``generate`` that shows each token of one row.

    ``show`` receives the text and the component of each token. The tokens ``ends`` are not shown. ``source`` returns
    the component that predicted a token; None: no component is shown. ``before`` has the tokens of the prompt.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        ends: Sequence[int],
        show: Show,
        source: Callable[[int], int | None] | None = None,
        before: Sequence[int] = (),
    ) -> None:
        self._pieces, self._ends, self._show, self._source = TextPieces(tokenizer, before), ends, show, source
        self._latest: int | None = None

    def put(self, value: Tensor) -> None:
        """Shows the new tokens ``value``."""
        for token in value.flatten().tolist():
            if token not in self._ends:
                self._latest = self._source(token) if self._source is not None else None
                self._show(self._pieces.add(token), self._latest)

    def end(self) -> None:
        """Shows the text of an incomplete last character."""
        self._show(self._pieces.end(), self._latest)


class LatestDistribution:
    """The latest distribution of a head, captured by a hook during generation.

    The component that predicted a token is known only from the product of the hidden state and the output embedding,
    which takes a large part of a step. So the hook computes this product once, for ``generate`` and for ``source``.

    Attributes:
        names: Names of the components; empty before the first call of ``source``.
    """

    def __init__(self, head: Any) -> None:
        self.names: tuple[str, ...] = ()
        self._head = head
        self._latest: NextToken | None = None
        self._handle: Any = None

    def source(self, token: int) -> int | None:
        """Index of the component with the largest share of the token's probability; None if the head has only one."""
        if self._latest is None or self._handle is None:
            return None
        ids = torch.full((len(self._latest), 1), token, device=self._latest.device)
        shares = {name: float(share[-1]) for name, share in self._latest.sources(ids).items()}
        self.names = tuple(shares)
        if len(shares) == 1:  # with one component there is nothing to show, so later tokens are not computed
            self._stop()
            return None
        return strongest(list(shares.values()))

    def _stop(self) -> None:
        if self._handle is not None:
            self._handle.remove()
        self._handle = self._latest = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Captures the head's distributions inside the ``with`` block."""

        def see(head: Any, inputs: Any, distribution: NextToken) -> NextToken:
            # only once it is known that there are several components
            self._latest = distribution.computed() if self.names else distribution
            return self._latest

        self._handle = self._head.register_forward_hook(see)
        try:
            yield
        finally:
            self._stop()


# -- A text on a terminal, with each token in the colour of the component with the largest share of its probability.

COLOURS = ("default", "#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#D55E00")
"""Colours of the components in order, from the colour-blind safe palette of Okabe and Ito (2008). They are readable on
black and on white. The first component, usually the vocabulary, has no colour."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters that would affect the terminal, except line ends and tabs."""


class ColouredText:
    """Prints each new piece of a text immediately, and a legend at the end.

    Without a terminal, or if NO_COLOR is set, there are no colours.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self.is_coloured = console.is_terminal and not console.no_color

    def show(self, piece: str, component: int | None = None) -> None:
        """Prints a piece in the colour of ``component``; None: without colour."""
        if piece:
            self._print(piece, "" if component is None else COLOURS[component % len(COLOURS)])

    def prompt(self, text: str) -> None:
        """Prints the prompt in a dimmer colour than the generated text."""
        self._print(text, "dim")

    def end(self, names: Sequence[str] = ()) -> None:
        """Ends the line, and prints the legend if there are several components."""
        self._console.print()
        if self.is_coloured and len(names) > 1:
            self._print("most of each token's probability came from: ", "dim")
            for place, name in enumerate(names):
                self.show(name, place)
                self._print("" if place == len(names) - 1 else ", ", "dim")
            self._console.print()

    def _print(self, text: str, style: str) -> None:
        from rich.text import Text

        if self._console.is_terminal:
            text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
        self._console.print(Text(text, style if self.is_coloured else ""), end="", soft_wrap=True)
