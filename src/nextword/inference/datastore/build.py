"""Builds datastores (shard by shard, like stores of states) and n-gram indexes from texts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float

from nextword.conditioning.auxiliary_encoder import comparable_fingerprint
from nextword.functional.frequency.counts import tokenizer_fingerprint
from nextword.inference.scoring.long_text import windows_after
from nextword.inference.scoring.measurement.data_files import GivenTexts
from nextword.inference.scoring.opened_model import AnyModel, OpenedModel
from nextword.inference.scoring.text_tokens import start_id, token_ids, whole_ids
from nextword.inference.states import Told, building, in_shards, made_shards, row_states
from nextword.model.stored_states.state_files import TokenRow
from nextword.retrieval.datastore.stored_keys import (
    MANIFEST,
    PROBE,
    ShardFacts,
    StoreManifest,
    StoreOrigin,
    write_shard,
)
from nextword.retrieval.ngram import Document, NgramManifest, build_ngram_index
from nextword.runtime.corpora import Corpus, open_corpus, readable
from nextword.runtime.shard_files import write_array
from nextword.settings.version import __version__

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


_PROBE = 32
"""Number of tokens whose states are compared to recognise the model."""

_LONGEST = 1024
"""Default maximum number of tokens of a window."""


@dataclass(frozen=True)
class BuildSettings:
    """Settings for building a datastore. All except ``batch_size`` and ``processes`` determine its content.

    Attributes:
        precision: Precision of the keys: float16, or int8 with a scaling factor for each key.
        text_column: Name or index of the column with the text, for tables.
        split: Split of a folder or of a data set on the hub; None: the training split.
        window: Number of tokens that the model sees at once. A larger number than the model's maximum (1,024 if it has
            none) is reduced to this maximum. None: the model's maximum, but at most 1,024.
        stride: Number of tokens from the beginning of a window to that of the next. None: windows do not overlap, so
            that the model reads each token once.
        shard_keys: Minimum number of keys per shard. If a build is killed, each process loses at most one shard.
        batch_size: Number of windows per pass.
        processes: Number of processes, each with its own copy of the model; None: only this process.
    """

    precision: Literal["float16", "int8"] = "float16"
    text_column: str | int = "text"
    split: str | None = None
    window: int | None = None
    stride: int | None = None
    shard_keys: int = 100_000
    batch_size: int = 8
    processes: int | None = None


def build_datastore(
    model: AnyModel,
    data: str | Path,
    out: str | Path,
    settings: BuildSettings | None = None,
    progress: Callable[[int], None] | None = None,
) -> StoreManifest:
    """Stores every token of a data set with its key, the state from which the model predicts the token.

    If a build was killed, the same call resumes it and computes only the missing shards.

    Args:
        model: A decoder-only model. For several processes, give its folder or hub name.
        data: A text file, a table, a folder of such files, or a name on the hub. Each row of a table and each file of
            plain text is a document.
        out: Folder of the datastore.
        settings: Settings of the datastore; None: the defaults.
        progress: Function that receives the number of keys so far: after each shard, and also within a shard if this
            process computes it.

    Raises:
        ValueError: If there is no text, the model has an encoder or a conditioner, ``out`` has another datastore,
            another process builds in ``out``, or a setting is out of range.
        DiskFullError: If there is not enough disk space. Finished shards stay.
    """
    chosen, folder = settings or BuildSettings(), Path(out)
    opened = OpenedModel.of(model)
    expect_decoder(opened)
    if chosen.shard_keys < 1 or chosen.batch_size < 1:
        raise ValueError(
            f"shard_keys and batch_size: must be at least 1 ({chosen.shard_keys} and {chosen.batch_size} given)"
        )
    corpus = open_corpus(data, "data", text_column=chosen.text_column, split=chosen.split)
    origin = _origin(opened, corpus.identity, chosen)
    documents = Documents(corpus)
    with building(model, opened, folder, origin, chosen.processes, f"nextword datastore build {data}") as asked:
        windows = documents.windows(opened.tokenizer, origin.start, origin.window, origin.stride)
        first = next(windows, None)
        if first is None:
            raise ValueError(f"data: must have a token ('{corpus.source}' has none in any document)")
        shards = in_shards(itertools.chain([first], windows), chosen.shard_keys, lambda window: window.stored)
        make, told = partial(_written, chosen), progress or (lambda keys: None)
        made = made_shards(asked, folder, ShardFacts, shards, make, lambda facts: facts.keys, told)
        probe = _write_probe(folder, opened, first)
        manifest = StoreManifest(
            nextword=__version__,
            origin=origin,
            documents=documents.count,
            empty_documents=documents.empty,
            shards=[facts.keys for facts in made],
            probe=probe,
        )
        manifest.save(folder / MANIFEST)
    return manifest


def _origin(opened: OpenedModel, data: str, settings: BuildSettings) -> StoreOrigin:
    if settings.window is not None and settings.window < 1:
        raise ValueError(f"window: must be at least 1 ({settings.window} given)")
    window = min(settings.window or _LONGEST, opened.longest or _LONGEST)
    stride = window if settings.stride is None else settings.stride
    if not 1 <= stride <= window:
        raise ValueError(f"stride: must be from 1 to the window of {window} ({stride} given)")
    dimensions = opened.model.next_word_head.dimensions
    return StoreOrigin(
        model=opened.name,
        model_fingerprint=comparable_fingerprint(opened.model.backbone),
        tokenizer=tokenizer_fingerprint(opened.tokenizer),
        data=data,
        width=dimensions.hidden,
        vocab_size=dimensions.vocab_size,
        precision=settings.precision,
        start=start_id(opened.tokenizer),
        window=window,
        stride=stride,
        shard_keys=settings.shard_keys,
    )


def _write_probe(folder: Path, opened: OpenedModel, first: DocumentWindow) -> list[int]:
    """Stores states of the first tokens, which identify the model when it is loaded."""
    ids = first.ids[: min(_PROBE, len(first.ids) - 1)]
    alone = DocumentWindow(0, 0, [*ids, ids[-1]], len(ids))
    write_array(folder / PROBE, states_of(opened, [alone], 1)[0])
    return ids


# -- The documents of a data set as windows of tokens, grouped into shards.


@dataclass(frozen=True)
class DocumentWindow:
    """One window of a document: tokens that the model reads in one pass, some of which are stored.

    Attributes:
        document: Index of the document in the data set, from 0.
        position: Index in the document of the first stored token, from 0.
        ids: Inputs of the model, and the token after the last input.
        stored: Number of tokens that are stored, at the end of ``ids``.
    """

    document: int
    position: int
    ids: list[int]
    stored: int


@dataclass
class Documents:
    """The documents of a data set. Each row of a table and each file of plain text is a document.

    Attributes:
        count: Number of documents that ``windows`` has read so far.
        empty: Number of these documents that have no tokens.
    """

    corpus: Corpus
    count: int = field(default=0, init=False)
    empty: int = field(default=0, init=False)

    def texts(self) -> Iterator[str]:
        """Yields the text of each document; raises ValueError at the first if the data set has only token ids."""
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
        """Yields the windows of each document, with the token ``start`` before the document.

        Each token of a document is stored once. A window has at most ``size`` inputs. Each window after the first
        stores ``stride`` tokens, or fewer at the end.
        """
        for number, text in enumerate(self.texts()):
            ids = [start, *token_ids(tokenizer, text)]
            self.count, self.empty = self.count + 1, self.empty + (len(ids) == 1)
            for window in windows_after(1, len(ids), size, stride) if len(ids) > 1 else []:
                targets = window.targets
                yield DocumentWindow(number, targets.start - 1, ids[window.begin : targets.stop], len(targets))


# -- One shard: the next free process computes and writes the states of some windows.


def _written(
    settings: BuildSettings,
    folder: Path,
    number: int,
    windows: Sequence[DocumentWindow],
    told: Told | None,
    opened: OpenedModel,
) -> ShardFacts:
    keys = np.concatenate(states_of(opened, windows, settings.batch_size, told))
    tokens = np.array([token for window in windows for token in window.ids[-window.stored :]])
    positions = np.array(
        [(one.document, one.position + step) for one in windows for step in range(one.stored)], np.int64
    )
    return write_shard(folder, number, keys, tokens, positions, settings.precision)


def expect_decoder(opened: OpenedModel) -> None:
    """Raises ValueError if the model has an encoder or a conditioner: its states then depend on a second text."""
    if opened.has_encoder or opened.model.conditioner is not None:
        raise ValueError(
            f"model: must be decoder-only and without a conditioner ('{opened.name}' given); states that follow a "
            "source cannot be looked up by another text"
        )


def states_of(
    opened: OpenedModel, windows: Sequence[DocumentWindow], batch_size: int, told: Told | None = None
) -> list[Float[np.ndarray, "_ D"]]:
    """For each window, float32 states that predict its stored tokens. ``told`` receives the number of states so far."""
    found, done = dict[int, np.ndarray](), 0
    rows = [TokenRow(tuple(window.ids[:-1])) for window in windows]
    for at, row in row_states(opened, rows, 0, batch_size):
        found[at], done = row.states[-windows[at].stored :].float().numpy(), done + windows[at].stored
        if told is not None:
            told(done)
    return [found[at] for at in range(len(windows))]


# -- An n-gram index of texts. It needs a tokenizer, but no model.


def store_texts(
    tokenizer: PreTrainedTokenizerBase, given: GivenTexts, out: str | Path, command: str = "nextword ngram build"
) -> NgramManifest:
    """Builds an n-gram index in the folder ``out``, for models with ``tokenizer``. Each text becomes a document.

    ``command`` names this call in the error of another process that builds in ``out``.

    Raises:
        ValueError: If no text has two tokens, or the folder has another index.
        DiskFullError: If there is not enough disk space.
    """
    documents = (Document(str(one.id), whole_ids(tokenizer, one.text)) for one in given.examples)
    size = max(len(tokenizer), max(tokenizer.get_vocab().values()) + 1)
    fingerprint = tokenizer_fingerprint(tokenizer)
    return build_ngram_index(documents, out, vocab_size=size, tokenizer=fingerprint, data=given.data, command=command)
