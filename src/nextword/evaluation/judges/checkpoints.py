"""Trained models that metrics ask: found by local path or hub name, told apart by what their files hold."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import torch


T = TypeVar("T")

_WEIGHTS = frozenset({".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".gguf", ".npz"})
_PAPERS = frozenset({".md", ".png", ".jpg", ".lock"})


@dataclass(frozen=True)
class Checkpoint:
    """A model that was found, not loaded yet."""

    name: str
    """The folder or hub name that was asked for."""
    revision: str | None = None
    """The commit on the hub; None for a folder."""

    @property
    def fingerprint(self) -> str:
        """Changes when the model does: the commit of a model of the hub, else a hash over the files of the folder.

        Small files (configs, vocabularies) count with their content, weights with name, size and time of last change:
        to read gigabytes before every evaluation would cost more than the short ones. A copy that keeps its times
        keeps its fingerprint, wherever it lies.
        """
        if self.revision is not None:
            return f"{self.name}@{self.revision}"
        digest = hashlib.sha256()
        for path in sorted(path for path in Path(self.name).rglob("*") if path.is_file()):
            place = path.relative_to(self.name)
            if path.suffix in _PAPERS or any(part.startswith(".") for part in place.parts):
                continue
            digest.update(f"{place.as_posix()}\0".encode())
            if path.suffix in _WEIGHTS:
                state = path.stat()
                digest.update(f"{state.st_size} {state.st_mtime_ns}\0".encode())
            else:
                digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()


def find_checkpoint(name: str | None, setting: str, advice: str = "") -> Checkpoint:
    """The model of a folder or of a name on the hub, which may download it.

    Args:
        name: What the user gave; None where nothing was given and there is no default.
        setting: The setting that names it, for example ``factcc.model``.
        advice: What to use where nothing was given.

    Raises:
        ValueError: Nothing was given, or there is no such model; the message says what to do.
    """
    if name is None:
        raise ValueError(f"{setting}: missing; it names a model by folder or hub name.{' ' if advice else ''}{advice}")
    if Path(name).is_dir():
        return Checkpoint(name)
    import huggingface_hub

    try:
        # What was downloaded once is not asked for again: without a connection that takes minutes, and a model that
        # changes on the hub would change the measure.
        config = huggingface_hub.try_to_load_from_cache(name, "config.json")
        if not isinstance(config, str):
            config = huggingface_hub.hf_hub_download(name, "config.json")
    except huggingface_hub.errors.HFValidationError:
        raise ValueError(f"{setting}: no folder '{name}', and the hub has no model of that name") from None
    except huggingface_hub.errors.RepositoryNotFoundError:
        raise ValueError(
            f"{setting}: '{name}' is neither a folder nor a model that the hub knows or shows you"
        ) from None
    except (OSError, huggingface_hub.errors.EntryNotFoundError) as fault:
        reason = str(fault).strip().splitlines()[0]
        raise ValueError(
            f"{setting}: '{name}' is not a folder and not downloaded yet, and the hub cannot be reached ({reason}). "
            f"Download it where there is a connection (hf download {name}), then copy the folder and name that."
        ) from None
    # .../snapshots/<commit>/config.json: what is loaded afterwards is the very commit that the fingerprint names.
    return Checkpoint(name, revision=Path(config).parent.name)


def load_part(load: Callable[..., T], found: Checkpoint, setting: str, **arguments: Any) -> T:
    """``load(name, revision=..., **arguments)`` of a model or tokenizer, with an error that names the setting.

    Raises:
        ValueError: It cannot be loaded.
    """
    try:
        with _no_progress_bars() if found.revision is None else nullcontext():
            return load(found.name, revision=found.revision, **arguments)
    except (OSError, ValueError, KeyError, RuntimeError, TypeError, ImportError) as fault:
        raise ValueError(f"{setting}: '{found.name}' cannot be loaded: {fault}") from fault


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    # A bar for every folder that is read would break up the progress of the evaluation; downloads keep theirs.
    import transformers

    logging: Any = transformers.utils.logging
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def token_limit(model: Any, tokenizer: Any, asked: int) -> int:
    """Tokens, special ones included, that the model reads: ``asked``, or fewer where it cannot read so many."""
    limits = [asked, int(tokenizer.model_max_length)]
    positions = getattr(model.config, "max_position_embeddings", None)
    if positions is not None:
        # RoBERTa counts positions from its padding id on, so that the first ones of the table stay unused.
        offsets = [
            part.padding_idx + 1
            for name, part in model.named_modules()
            if name.endswith("position_embeddings") and getattr(part, "padding_idx", None) is not None
        ]
        limits.append(int(positions) - max(offsets, default=0))
    return min(limits)


# -- Batches of token sequences of different lengths, padded on the right.

Encoded = Mapping[str, Sequence[Any]]
"""What a tokenizer gives for one text: ``input_ids`` and what else the model reads, one entry a token."""


def by_length(lengths: Mapping[int, int], size: int) -> Iterator[list[int]]:
    """Positions in batches of similar lengths, the longest first, so that a batch too large for memory fails at once.

    >>> list(by_length({0: 3, 1: 9, 2: 4, 3: 8}, 2))
    [[1, 3], [2, 0]]
    """
    order = sorted(lengths, key=lambda position: -lengths[position])
    for start in range(0, len(order), size):
        yield order[start : start + size]


def padded_batches(
    texts: Mapping[int, Encoded], tokenizer: Any, size: int, device: str
) -> Iterator[tuple[list[int], dict[str, torch.Tensor]]]:
    """Texts in batches of similar lengths: their positions, and a tensor a field, masks and types padded with 0."""
    import torch

    # Padding is masked, so that any id does where the tokenizer has none for it.
    pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id or 0
    for positions in by_length({position: len(text["input_ids"]) for position, text in texts.items()}, size):
        fields = {}
        for field in texts[positions[0]]:
            rows = [torch.tensor(texts[position][field], dtype=torch.long) for position in positions]
            fill = pad_id if field == "input_ids" else 0
            fields[field] = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=fill).to(device)
        yield positions, fields


# -- Texts in which nothing is written.


def is_blank(text: str) -> bool:
    """Whether there is nothing but white space."""
    return not text.strip()


def note_on_empty(empty: Sequence[bool], rule: str = "count as wrong") -> str | None:
    """How many texts are empty and what becomes of them; None where none is.

    >>> note_on_empty([False, True, False])
    'empty texts, which count as wrong: 1 of 3'
    """
    return f"empty texts, which {rule}: {sum(empty)} of {len(empty)}" if any(empty) else None
