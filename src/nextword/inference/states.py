"""Stores the states of a backbone, which reads all texts once, shard by shard; a killed build can be resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from nextword.conditioning.auxiliary_encoder import comparable_fingerprint
from nextword.functional.frequency.counts import tokenizer_fingerprint
from nextword.functional.padding import padded
from nextword.inference.scoring.opened_model import AnyModel, OpenedModel, open_model
from nextword.model.attach import probed_rows
from nextword.model.forward.output_layer import expect_layers, run_with_output_tap, weights_at_fault
from nextword.model.stored_states.state_files import (
    MANIFEST,
    Precision,
    RowStates,
    StatesManifest,
    StatesOrigin,
    StatesShard,
    TokenRow,
    checksum,
    write_shard,
)
from nextword.model.stored_states.stored_backbone import save_output_layer
from nextword.model.training_modes import inference_mode_of
from nextword.retrieval.datastore.stored_keys import DATASTORE, PROBE, STATES_FORMAT, StoreManifest, StoreOrigin
from nextword.runtime.files import Record, disk_full_explained
from nextword.runtime.pretrained import encoder_config
from nextword.runtime.resumable import begin, locked
from nextword.runtime.shard_files import BEGUN, finished_shard, write_array
from nextword.runtime.workers import ThisProcess, Workers, workers
from nextword.settings.version import __version__


@dataclass(frozen=True)
class StatesSettings:
    """How a store of states is built. ``batch_size`` and ``processes`` do not change what is stored.

    Attributes:
        precision: Precision of the states on disk. None: the precision of the model's weights, but float16 for float32.
        layers: Number of last layers whose hidden state is stored for each token; a head with ``+mi:KxL`` needs K.
        shard_tokens: Minimum number of tokens per shard. If a build is killed, each process loses at most one shard.
        batch_size: Number of rows (texts) per forward pass.
        processes: Number of processes, each with its own copy of the model; None: only this process.
    """

    precision: Precision | None = None
    layers: int = 1
    shard_tokens: int = 20_000
    batch_size: int = 8
    processes: int | None = None


def build_states(
    model: AnyModel,
    rows: Sequence[TokenRow],
    out: str | Path,
    settings: StatesSettings | None = None,
    *,
    task: Mapping[str, Any] | None = None,
    text_rows: int = 0,
    command: str = "nextword states build",
    progress: Callable[[int, int], None] | None = None,
) -> StatesManifest:
    """Stores the states of a model at every token of ``rows``, and the output layer of the model.

    The states are the input of the output layer, the last ``settings.layers`` hidden states, and the encoder's states.
    If a build was killed, the same call computes only the missing shards.

    Args:
        model: A model of transformers or nextword. For several processes, give its folder or hub name.
        rows: The texts as rows of tokens; each is encoded separately. Equal rows are stored once.
        out: Folder of the store.
        settings: How the store is built; None: the defaults.
        task: Settings of the task that made the rows, which are saved in the store.
        text_rows: How many of the first rows together form one text without gaps. The head ``knn`` can retrieve from
            these rows, if no two of them are equal.
        command: Name of this call in the error of another process that builds in ``out``.
        progress: Function that receives the number of finished tokens, at first 0, and the number of all tokens.

    Raises:
        ValueError: If the model has a conditioner, ``out`` has another store, another process builds in ``out``, states
            are NaN or too large for the precision, the model has fewer than ``settings.layers`` hidden states, or
            ``settings.processes`` is given with a model in memory.
        DiskFullError: If there is not enough disk space. Finished shards stay.
    """
    chosen, folder = settings or StatesSettings(), Path(out)
    opened = OpenedModel.of(model)
    if opened.model.conditioner is not None:
        raise ValueError(f"model: must be without a conditioner, which changes the states ('{opened.name}' has one)")
    backbone = opened.model.backbone
    expect_layers(backbone, chosen.layers)
    unique = list(dict.fromkeys([*rows, *probed_rows(opened.model)]))
    precision = chosen.precision or _PRECISIONS[backbone.dtype]
    dimensions = opened.model.next_word_head.dimensions
    origin = StatesOrigin(
        model=str(model) if isinstance(model, str | Path) else opened.name,
        model_fingerprint=comparable_fingerprint(backbone),
        tokenizer=tokenizer_fingerprint(opened.tokenizer),
        task=dict(task or {}),
        rows=checksum(unique),
        width=dimensions.hidden,
        source_width=encoder_config(backbone.config).hidden_size if backbone.config.is_encoder_decoder else None,
        layers=chosen.layers,
        state_scale=opened.model.state_scale or 1.0,
        precision=precision,
        shard_tokens=chosen.shard_tokens,
    )
    with building(model, opened, folder, origin, chosen.processes, command) as asked:
        save_output_layer(backbone, folder)
        opened.tokenizer.save_pretrained(folder)
        total = sum(len(row.ids) for row in unique)

        def told(done: int) -> None:
            if progress is not None:
                progress(done, total)

        told(0)
        shards = in_shards(unique, chosen.shard_tokens, lambda row: len(row.ids))
        make = partial(_written, precision, chosen)
        made = made_shards(asked, folder, StatesShard, shards, make, lambda facts: facts.tokens, told)
        if sum(len(row.ids) for row in rows[:text_rows]) > 1 and unique[:text_rows] == list(rows[:text_rows]):
            _write_datastore(folder, opened, rows[:text_rows], origin, made)
        manifest = StatesManifest(nextword=__version__, origin=origin, shards=made, built_in=str(Path.cwd()))
        manifest.save(folder / MANIFEST)
    return manifest


_PRECISIONS: dict[torch.dtype, Precision] = {
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
    torch.float32: "float16",
    torch.float64: "float64",
}


def _write_datastore(
    folder: Path, opened: OpenedModel, text: Sequence[TokenRow], origin: StatesOrigin, shards: Sequence[StatesShard]
) -> None:
    """Writes the files that make the states of a text a datastore, and the states that identify the model."""
    probe = probed_rows(opened.model)[-1]
    ((_, found),) = row_states(opened, [probe], 0, 1)
    write_array(folder / PROBE, found.states.float().numpy())
    left, keys = sum(len(row.ids) for row in text) - 1, []
    for shard in shards:
        keys.append(min(shard.tokens, left))
        left -= keys[-1]
    store = StoreOrigin(
        format=STATES_FORMAT,
        model=origin.model,
        model_fingerprint=origin.model_fingerprint,
        tokenizer=origin.tokenizer,
        data=str(origin.task.get("data")),
        width=origin.width,
        vocab_size=opened.model.next_word_head.dimensions.vocab_size,
        precision=origin.precision,
        start=text[0].ids[0],
        window=len(text[0].ids),
        stride=len(text[0].ids),
        shard_keys=origin.shard_tokens,
    )
    manifest = StoreManifest(
        nextword=__version__,
        origin=store,
        documents=1,
        empty_documents=0,
        shards=[count for count in keys if count],
        probe=list(probe.ids),
    )
    manifest.save(folder / DATASTORE.manifest)


def _written(
    precision: Precision,
    settings: StatesSettings,
    folder: Path,
    number: int,
    rows: Sequence[TokenRow],
    told: Told | None,
    opened: OpenedModel,
) -> StatesShard:
    found, done = dict[int, RowStates](), 0
    for at, states in row_states(opened, rows, settings.layers, settings.batch_size):
        if not bool(torch.isfinite(states.states).all()):  # checked here, because a shard of a large model takes hours
            fault = weights_at_fault(opened.model.backbone)
            raise ValueError(f"model: {fault or 'must give finite hidden states (it gives NaN or infinite ones)'}")
        found[at], done = states, done + len(rows[at].ids)
        if told is not None:
            told(done)
    return write_shard(folder, number, rows, [found[at] for at in range(len(rows))], precision)


# -- The functions that build all stores of states, datastores included.

Row = TypeVar("Row")
Facts = TypeVar("Facts", bound=Record)

Told = Callable[[int], None]
"""Function that receives the finished amount, such as a number of tokens."""

Make = Callable[[Path, int, Sequence[Row], Told | None, OpenedModel], Facts]
"""Function that computes and writes a shard: its folder, number and rows, the receiver of progress, and the model."""


@contextmanager
def building(
    model: AnyModel, opened: OpenedModel, folder: Path, origin: Record, processes: int | None, command: str
) -> Iterator[Workers[OpenedModel]]:
    """Locks ``folder`` in a ``with`` block, so that no other process builds in it. Yields the worker processes.

    Raises:
        ValueError: If ``processes`` is given with a model in memory, another process builds in the folder, or the
            folder has a store with another ``origin``.
        DiskFullError: If there is not enough disk space.
    """
    asked: Workers[OpenedModel] = ThisProcess(lambda: opened)
    if processes is not None:
        if not isinstance(model, str | Path):
            raise ValueError("processes: must be left out with a model in memory; give the model's folder")
        asked = workers(partial(open_model, model), processes)
    with disk_full_explained(folder), locked(folder, command):
        begin(folder / BEGUN, origin, "store", lambda key: key == "model")
        yield asked


def in_shards(rows: Iterable[Row], least: int, size: Callable[[Row], int]) -> Iterator[list[Row]]:
    """Groups ``rows`` into shards. The ``size`` of a shard's rows sums to at least ``least``, except in the last."""
    gathered: list[Row] = []
    count = 0
    for row in rows:
        gathered.append(row)
        count += size(row)
        if count >= least:
            yield gathered
            gathered, count = [], 0
    if gathered:
        yield gathered


def made_shards(
    asked: Workers[OpenedModel],
    folder: Path,
    kind: type[Facts],
    shards: Iterable[Sequence[Row]],
    make: Make[Row, Facts],
    size: Callable[[Facts], int],
    told: Told,
) -> list[Facts]:
    """Makes those of ``shards`` that are not yet finished in ``folder``, and returns the facts of all shards.

    ``make`` writes one shard and returns its facts, of the class ``kind``. ``told`` receives the total ``size`` so far:
    after each shard, and also within a shard if this process computes it.
    """
    made, done = list[Facts](), 0

    def within(more: int) -> None:
        told(done + more)

    here = within if asked.in_this_process else None
    tasks = (partial(_made, make, folder, number, kind, rows, here) for number, rows in enumerate(shards))
    for facts in asked.answers(tasks):
        made.append(facts)
        done += size(facts)
        told(done)
    return made


def _made(
    make: Make[Row, Facts],
    folder: Path,
    number: int,
    kind: type[Facts],
    rows: Sequence[Row],
    told: Told | None,
    opened: OpenedModel,
) -> Facts:
    there = finished_shard(folder, number, kind)
    return make(folder, number, rows, told, opened) if there is None else there


def row_states(
    opened: OpenedModel, rows: Sequence[TokenRow], layers: int, batch_size: int
) -> Iterator[tuple[int, RowStates]]:
    """Yields the index and the states of each row, short rows first, with the last ``layers`` hidden states."""
    model: Any = opened.model
    order = sorted(range(len(rows)), key=lambda at: len(rows[at].ids))  # rows of similar length need little padding
    with inference_mode_of(model):
        for first in range(0, len(order), batch_size):
            some = order[first : first + batch_size]
            yield from zip(some, _batch_states(model, [rows[at] for at in some], layers), strict=True)


def _batch_states(model: Any, rows: Sequence[TokenRow], layers: int) -> Iterator[RowStates]:
    def arguments(texts: list[tuple[int, ...]], side: str) -> dict[str, Any]:
        ids, mask = (one.to(model.device) for one in padded(texts))
        return {f"{side}input_ids": ids, f"{side}attention_mask": mask}

    has_encoder = model.config.is_encoder_decoder
    inputs = arguments([row.ids for row in rows], "decoder_" if has_encoder else "")
    inputs |= arguments([row.source for row in rows], "") if has_encoder else {}
    inputs |= {"use_cache": False, "output_hidden_states": layers > 0}
    outputs, states = run_with_output_tap(model.backbone, inputs)
    hidden = outputs.decoder_hidden_states if has_encoder else outputs.hidden_states
    source = outputs.encoder_last_hidden_state if has_encoder else states[:, :0]
    kept = torch.stack([hidden[-1 - at] for at in range(layers)], 2) if layers else states[:, :, None][:, :, :0]
    for number, row in enumerate(rows):
        length = len(row.ids)
        yield RowStates(
            states[number, :length].cpu(), kept[number, :length].cpu(), source[number, : len(row.source)].cpu()
        )
