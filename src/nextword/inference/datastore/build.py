"""Builds a datastore: by shards, in several processes, on from where it was killed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from nextword.conditioning.parts.auxiliary_encoder import comparable_fingerprint
from nextword.functional.frequency.counts import tokenizer_fingerprint
from nextword.inference.datastore.documents import Documents, DocumentWindow, in_shards
from nextword.inference.datastore.shard_task import ShardTask, expect_decoder, states_of
from nextword.inference.scoring.opened_model import AnyModel, OpenedModel, open_model
from nextword.inference.scoring.prompt_encoding import start_id
from nextword.retrieval.shard import write_array
from nextword.retrieval.store_manifest import BEGUN, MANIFEST, PROBE, StoreManifest, StoreOrigin
from nextword.runtime.corpora import open_corpus
from nextword.runtime.disk import disk_full_explained
from nextword.runtime.lock import locked
from nextword.runtime.workers import ThisProcess, Workers, workers
from nextword.settings.version import __version__

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
