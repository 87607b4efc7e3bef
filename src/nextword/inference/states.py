"""Builds a store of states: one pass of a backbone over rows, by shards, resumed where it was killed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from nextword.conditioning.auxiliary_encoder import comparable_fingerprint
from nextword.functional.frequency.counts import tokenizer_fingerprint
from nextword.functional.padding import padded
from nextword.inference.scoring.opened_model import AnyModel, OpenedModel, open_model
from nextword.model.attach import probed_rows
from nextword.model.forward.output_layer import expect_layers, run_with_output_tap
from nextword.model.stored_states.state_files import (
    BEGUN,
    MANIFEST,
    Precision,
    RowStates,
    StatesManifest,
    StatesOrigin,
    StatesShard,
    TokenRow,
    checksum,
    finished_shard,
    write_shard,
)
from nextword.model.stored_states.stored_backbone import save_output_layer
from nextword.model.training_modes import inference_mode_of
from nextword.runtime.files import disk_full_explained
from nextword.runtime.pretrained import encoder_config
from nextword.runtime.resumable import begin, locked
from nextword.runtime.workers import ThisProcess, Workers, workers
from nextword.settings.version import __version__


@dataclass(frozen=True)
class StatesSettings:
    """How a store of states is built; all but the last two decide what is in it.

    Attributes:
        precision: Precision of the states on disk; None: that of the model's weights, but float16 for float32.
        layers: Hidden states that are kept at each token; a head ``+mi:KxL`` reads K of them.
        shard_tokens: Tokens of a shard; what a killed build loses at most of each process.
        batch_size: Rows that go through the model together.
        processes: So many processes, each with the model; None: this one.
    """

    precision: Precision | None = None
    layers: int = 1
    shard_tokens: int = 20_000
    batch_size: int = 8
    processes: int | None = None


def build_states(
    model: AnyModel,
    rows: Iterable[TokenRow],
    out: str | Path,
    settings: StatesSettings | None = None,
    *,
    task: Mapping[str, Any] | None = None,
    command: str = "nextword states build",
    progress: Callable[[int, int], None] | None = None,
) -> StatesManifest:
    """Stores what a model's output layer reads at every token of some rows, and that layer.

    A build that was killed resumes with the shards that are not there yet, when it is called again.

    Args:
        model: A model of transformers or ours; with several processes its folder or hub name.
        rows: What it reads, each row in a pass of its own. Rows that come twice are stored once.
        out: Folder of the store.
        settings: How; the defaults where None.
        task: The task that made the rows.
        command: How the user started this.
        progress: Told how many tokens are computed, and of how many.

    Raises:
        ValueError: No row, a model with a conditioner, a folder with another store, another process that builds it,
            states that are NaN or beyond the precision, or a setting that does not fit.
        DiskFullError: There is no room for it; finished shards stay.
    """
    chosen, folder = settings or StatesSettings(), Path(out)
    opened = OpenedModel.of(model)
    if opened.model.conditioner is not None:
        raise ValueError(f"model: must be without a conditioner, which changes the states ('{opened.name}' has one)")
    if chosen.processes is not None and not isinstance(model, str | Path):
        raise ValueError("processes: must be left out with a model in memory; give the model's folder")
    backbone = opened.model.backbone
    expect_layers(backbone, chosen.layers)
    unique = list(dict.fromkeys([*rows, *probed_rows(opened.model)]))
    shards = list(_in_shards(unique, chosen.shard_tokens))
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
    with disk_full_explained(folder), locked(folder, command):
        begin(folder / BEGUN, origin, "store", lambda key: key == "model")
        save_output_layer(backbone, folder)
        opened.tokenizer.save_pretrained(folder)
        asked: Workers[OpenedModel] = ThisProcess(lambda: opened)
        if chosen.processes is not None and isinstance(model, str | Path):
            asked = workers(partial(open_model, model), chosen.processes)
        total, done = sum(len(row.ids) for row in unique), 0
        tasks = (partial(_written_shard, folder, number, of, precision, chosen) for number, of in enumerate(shards))
        written: list[StatesShard] = []
        for facts in asked.answers(tasks):
            written.append(facts)
            done += facts.tokens
            if progress is not None:
                progress(done, total)
        manifest = StatesManifest(nextword=__version__, origin=origin, shards=written)
        manifest.save(folder / MANIFEST)
    return manifest


_PRECISIONS: dict[torch.dtype, Precision] = {
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
    torch.float32: "float16",
    torch.float64: "float64",
}


def _in_shards(rows: Sequence[TokenRow], tokens: int) -> Iterator[list[TokenRow]]:
    gathered: list[TokenRow] = []
    count = 0
    for row in rows:
        gathered.append(row)
        count += len(row.ids)
        if count >= tokens:
            yield gathered
            gathered, count = [], 0
    if gathered:
        yield gathered


def _written_shard(
    folder: Path, number: int, rows: list[TokenRow], precision: Precision, settings: StatesSettings, opened: OpenedModel
) -> StatesShard:
    there = finished_shard(folder, number)
    if there is not None:
        return there
    found = states_of_rows(opened, rows, settings.layers, settings.batch_size)
    return write_shard(folder, number, rows, found, precision)


def states_of_rows(opened: OpenedModel, rows: Sequence[TokenRow], layers: int, batch_size: int) -> list[RowStates]:
    """What the output layer reads at each token of each row, and the last hidden states there."""
    model: Any = opened.model
    found: dict[int, RowStates] = {}
    order = sorted(range(len(rows)), key=lambda at: len(rows[at].ids))  # of like lengths: little padding
    with inference_mode_of(model):
        for first in range(0, len(order), batch_size):
            some = order[first : first + batch_size]
            found |= dict(zip(some, _batch_states(model, [rows[at] for at in some], layers), strict=True))
    return [found[at] for at in range(len(rows))]


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
