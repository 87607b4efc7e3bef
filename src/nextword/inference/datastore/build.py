"""Builds a datastore: by shards, in several processes, on from where it was killed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float
from torch import Tensor

from nextword.conditioning.auxiliary_encoder import comparable_fingerprint
from nextword.functional.frequency.counts import tokenizer_fingerprint
from nextword.functional.padding import padded
from nextword.inference.scoring.long_text import windows_after
from nextword.inference.scoring.opened_model import AnyModel, OpenedModel, open_model
from nextword.inference.scoring.text_tokens import start_id, token_ids
from nextword.model.training_modes import inference_mode_of
from nextword.retrieval.stored_keys import (
    BEGUN,
    MANIFEST,
    PROBE,
    ShardFacts,
    StoreManifest,
    StoreOrigin,
    finished,
    write_array,
    write_shard,
)
from nextword.runtime.corpora import Corpus, open_corpus, readable
from nextword.runtime.files import disk_full_explained, locked
from nextword.runtime.workers import ThisProcess, Workers, workers
from nextword.settings.version import __version__

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


Progress = Callable[[int], None]
"""Told how many keys are computed."""

_PROBE = 32
"""Tokens by whose states a model is known again."""

_LONGEST = 1024
"""Tokens of a window, where the model could see more."""


@dataclass(frozen=True)
class BuildSettings:
    """How a store is built; all but the last two decide what is in it.

    Attributes:
        precision: Of the keys: float16, or int8 with a factor for each key.
        text_column: The column with the text of a table.
        split: The part of a folder or of a data set of the hub; None: the training part.
        window: Tokens that the model sees at once; None: all that it can, at most 1,024.
        stride: Tokens that each window after the first gives; None: all, which takes one pass over the text.
        shard_keys: Keys of a shard; what a killed build loses at most of each process.
        batch_size: Windows that go through the model together.
        processes: So many processes, each with the model; None: this one.
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
    progress: Progress | None = None,
) -> StoreManifest:
    """Stores the state before every token of a data set, and the token.

    A build that was killed goes on with the shards that are not there yet, when it is called again.

    Args:
        model: A decoder-only model; with several processes its folder or hub name.
        data: A text file, a table, a folder of them, or a name on the hub. Each row of a table is a document, and each
            file of plain text.
        out: Folder of the store.
        settings: How; the defaults where None.
        progress: Told how many keys are computed, now and then: after each shard, and in this process within one.

    Raises:
        ValueError: No text there, a model with an encoder or a conditioner, a folder with another store, another
            process that builds it, or a setting that does not fit.
        DiskFullError: There is no room for it; finished shards stay.
    """
    chosen, folder = settings or BuildSettings(), Path(out)
    opened = OpenedModel.of(model)
    _expect_decoder(opened, chosen, model)
    corpus = open_corpus(data, "data", text_column=chosen.text_column, split=chosen.split)
    origin = _origin(opened, corpus.identity, chosen)
    documents = Documents(corpus)
    with disk_full_explained(folder), locked(folder, f"nextword datastore build {data}"):
        _begin(folder, origin)
        windows = documents.windows(opened.tokenizer, origin.start, origin.window, origin.stride)
        first, windows = _first(windows, corpus.source)
        asked = _workers(opened, model, chosen)
        shards: list[int] = []

        def told(keys: int) -> None:
            if progress is not None:
                progress(sum(shards) + keys)

        tasks = (
            ShardTask(
                folder, number, of_shard, chosen.precision, chosen.batch_size, told if asked.in_this_process else None
            )
            for number, of_shard in enumerate(in_shards(windows, chosen.shard_keys))
        )
        for facts in asked.answers(tasks):
            shards.append(facts.keys)
            told(0)
        probe = _write_probe(folder, opened, first)
        manifest = StoreManifest(
            nextword=__version__,
            origin=origin,
            documents=documents.count,
            empty_documents=documents.empty,
            shards=shards,
            probe=probe,
        )
        manifest.save(folder / MANIFEST)
    return manifest


def _expect_decoder(opened: OpenedModel, settings: BuildSettings, model: AnyModel) -> None:
    expect_decoder(opened)
    if settings.processes is not None and not isinstance(model, str | Path):
        raise ValueError("processes: must be left out with a model in memory; give the model's folder")
    if settings.shard_keys < 1 or settings.batch_size < 1:
        raise ValueError(
            f"shard_keys and batch_size: must be at least 1 ({settings.shard_keys} and {settings.batch_size} given)"
        )


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


def _begin(folder: Path, origin: StoreOrigin) -> None:
    """Notes down what is built, or refuses a folder where something else is."""
    if not (folder / BEGUN).is_file():
        origin.save(folder / BEGUN)
        return
    begun = StoreOrigin.load(folder / BEGUN)
    for name, value in begun.model_dump().items():
        now = getattr(origin, name)
        if name != "model" and value != now:
            raise ValueError(
                f"out: must be an empty folder or the same store ('{folder}' was begun with another {name}: {value} "
                f"there, {now} now); name another folder or delete this one"
            )


def _first(windows: Iterator[DocumentWindow], source: str) -> tuple[DocumentWindow, Iterator[DocumentWindow]]:
    first = next(windows, None)
    if first is None:
        raise ValueError(f"data: must have a token ('{source}' has none in any document)")
    return first, itertools.chain([first], windows)


def _workers(opened: OpenedModel, model: AnyModel, settings: BuildSettings) -> Workers[OpenedModel]:
    if settings.processes is None or not isinstance(model, str | Path):
        return ThisProcess(lambda: opened)
    return workers(partial(open_model, model), settings.processes)


def _write_probe(folder: Path, opened: OpenedModel, first: DocumentWindow) -> list[int]:
    """Stores states of the first tokens; read as they are read when the model is loaded, in one row."""
    ids = first.ids[: min(_PROBE, len(first.ids) - 1)]
    alone = DocumentWindow(0, 0, [*ids, ids[-1]], len(ids))
    write_array(folder / PROBE, states_of(opened, [alone], 1)[0])
    return ids


# -- Documents of a data set as windows of tokens, gathered into what a shard holds.


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


# -- One shard: the states of some windows, computed and written by whoever is free.


@dataclass(frozen=True)
class ShardTask:
    """Writes a shard, unless it is there.

    Attributes:
        folder: Of the store.
        number: Of the shard.
        windows: What it holds.
        precision: Of the keys.
        batch_size: Windows that go through the model together.
        told: Told after each batch how many keys of this shard are computed.
    """

    folder: Path
    number: int
    windows: list[DocumentWindow]
    precision: str
    batch_size: int
    told: Callable[[int], None] | None = None

    def __call__(self, opened: OpenedModel) -> ShardFacts:
        """What the shard says of itself."""
        there = finished(self.folder, self.number)
        if there is not None:
            return there
        keys = np.concatenate(states_of(opened, self.windows, self.batch_size, self.told))
        tokens = np.array([token for window in self.windows for token in window.ids[-window.stored :]])
        places = np.array(
            [(one.document, one.place + step) for one in self.windows for step in range(one.stored)], dtype=np.int64
        )
        return write_shard(self.folder, self.number, keys, tokens, places, self.precision)


def expect_decoder(opened: OpenedModel) -> None:
    """Raises ValueError where a model's states follow more than the text."""
    if opened.has_encoder or opened.model.conditioner is not None:
        raise ValueError(
            f"model: must be decoder-only and without a conditioner ('{opened.name}' given); states that follow a "
            "source cannot be looked up by another text"
        )


def states_of(
    opened: OpenedModel,
    windows: list[DocumentWindow],
    batch_size: int,
    told: Callable[[int], None] | None = None,
) -> list[Float[np.ndarray, "_ D"]]:
    """What the output layer reads before each stored token, window by window."""
    found: list[np.ndarray] = [np.empty(0)] * len(windows)
    done = 0
    order = sorted(range(len(windows)), key=lambda at: len(windows[at].ids))  # of like lengths: little padding
    with inference_mode_of(opened.model):
        for begin in range(0, len(order), batch_size):
            chosen = order[begin : begin + batch_size]
            states = _states(opened, [windows[at].ids[:-1] for at in chosen])
            for row, at in zip(states, chosen, strict=True):
                length = len(windows[at].ids) - 1
                found[at] = row[length - windows[at].stored : length].float().cpu().numpy()
                done += windows[at].stored
            if told is not None:
                told(done)
    return found


def _states(opened: OpenedModel, rows: list[list[int]]) -> Float[Tensor, "B T D"]:
    model = opened.model
    ids, mask = (tensor.to(model.device) for tensor in padded(rows))
    states: Tensor = model.context({"input_ids": ids, "attention_mask": mask, "use_cache": False}).states
    return states.view(*ids.shape, -1)
