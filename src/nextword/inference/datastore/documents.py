"""Documents of a data set as windows of tokens, gathered into what a shard holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nextword.inference.scoring.text_tokens import token_ids
from nextword.inference.scoring.windows import windows_after
from nextword.runtime.corpora import Corpus, readable

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class DocumentWindow:
    """What a model sees of a document at once, and which of the tokens after are stored.

    Attributes:
        document: Number of the document.
        place: Place in the document of the first token that is stored.
        ids: Inputs, and the token after the last of them.
        stored: How many of the last tokens are stored.
    """

    document: int
    place: int
    ids: list[int]
    stored: int


@dataclass
class Documents:
    """The documents of a corpus: each row of a table, each file of plain text.

    Attributes:
        corpus: Where they are from.
        count: How many were read so far.
        empty: How many of them have no token.
    """

    corpus: Corpus
    count: int = field(default=0, init=False)
    empty: int = field(default=0, init=False)

    def texts(self) -> Iterator[str]:
        """The text of each document."""
        if self.corpus.lines is None:
            raise ValueError(f"data: must have text ('{self.corpus.source}' has token ids); give the text itself")
        pieces: list[str] = []
        file: Any = None
        with readable(self.corpus.source):
            for batch in self.corpus.rows.iter(batch_size=1):
                of = batch["path"][0] if self.corpus.batch_size == 1 else None
                if pieces and (of is None or of != file):
                    yield "".join(pieces)
                    pieces = []
                file = of
                pieces.append("".join(self.corpus.lines(batch)))
        if pieces:
            yield "".join(pieces)

    def windows(
        self, tokenizer: PreTrainedTokenizerBase, start: int, size: int, stride: int
    ) -> Iterator[DocumentWindow]:
        """Each token of each document in one window, after the start token or those before it."""
        for number, text in enumerate(self.texts()):
            ids = [start, *token_ids(tokenizer, text)]
            self.count, self.empty = self.count + 1, self.empty + (len(ids) == 1)
            for window in windows_after(1, len(ids), size, stride) if len(ids) > 1 else []:
                targets = window.targets
                yield DocumentWindow(number, targets.start - 1, ids[window.begin : targets.stop], len(targets))


def in_shards(windows: Iterator[DocumentWindow], keys: int) -> Iterator[list[DocumentWindow]]:
    """Windows that together store at least so many tokens; the last ones what is left."""
    gathered: list[DocumentWindow] = []
    stored = 0
    for window in windows:
        gathered.append(window)
        stored += window.stored
        if stored >= keys:
            yield gathered
            gathered, stored = [], 0
    if gathered:
        yield gathered
