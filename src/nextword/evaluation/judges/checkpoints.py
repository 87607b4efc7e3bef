"""Find and load the models of model-based metrics, by local path or hub name."""

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
    """A model that was found but not loaded."""

    name: str
    """Folder or hub name that the user gave."""
    revision: str | None = None
    """The commit on the hub; None if the model is a folder."""

    @property
    def fingerprint(self) -> str:
        """Identifier that changes with the model: name and commit of a hub model, or a hash over a folder's files.

        Weights are hashed by name, size and modification time, because reading gigabytes takes longer than a short
        evaluation. Configs, vocabularies and other files are hashed by name and content. Hidden files and documentation
        are ignored. A copy of a folder has the same fingerprint if the modification times were copied too.
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
    """Find a model by folder or hub name. Of a hub model that is not downloaded yet, ``config.json`` is downloaded.

    Args:
        name: Folder or hub name. None if the user gave no name and there is no default.
        setting: Name of the setting for error messages, for example ``factcc.model``.
        advice: Advice for the error message if ``name`` is None.

    Raises:
        ValueError: If ``name`` is None, the model does not exist, or the hub cannot be reached for the download.
    """
    if name is None:
        raise ValueError(
            f"{setting}: must be the folder or hub name of a model (none given).{' ' if advice else ''}{advice}"
        )
    if Path(name).is_dir():
        return Checkpoint(name)
    import huggingface_hub

    try:
        # A downloaded model is not requested again: without a connection the request takes minutes, and if the model
        # changed on the hub, the values of the metric would change.
        config = huggingface_hub.try_to_load_from_cache(name, "config.json")
        if not isinstance(config, str):
            config = huggingface_hub.hf_hub_download(name, "config.json")
    except huggingface_hub.errors.HFValidationError:
        raise ValueError(
            f"{setting}: must be a folder or the name of a model on the hub ('{name}' is neither)"
        ) from None
    except huggingface_hub.errors.RepositoryNotFoundError:
        raise ValueError(
            f"{setting}: '{name}' must be a folder or a model on the hub (it does not exist, or is private)"
        ) from None
    except (OSError, huggingface_hub.errors.EntryNotFoundError) as fault:
        reason = str(fault).strip().splitlines()[0]
        raise ValueError(
            f"{setting}: '{name}' is not a folder and not downloaded yet, and the hub cannot be reached ({reason}). "
            f"Download it on a machine with a connection (hf download {name}), copy the folder, and give its path."
        ) from None
    # The path is .../snapshots/<commit>/config.json. The commit is kept, so that the model is loaded from this commit.
    return Checkpoint(name, revision=Path(config).parent.name)


def load_part(load: Callable[..., T], found: Checkpoint, setting: str, **arguments: Any) -> T:
    """Load the model ``found``, or its tokenizer: ``load(found.name, revision=found.revision, **arguments)``.

    Raises:
        ValueError: If ``load`` fails. The message names ``setting``.
    """
    try:
        with _no_progress_bars() if found.revision is None else nullcontext():
            return load(found.name, revision=found.revision, **arguments)
    except (OSError, ValueError, KeyError, RuntimeError, TypeError, ImportError) as fault:
        raise ValueError(f"{setting}: '{found.name}' cannot be loaded: {fault}") from fault


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    # hides the progress bar of every folder that is read; progress bars of downloads are shown
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
    """Maximum number of tokens per input, with special tokens: ``asked``, or a limit of model or tokenizer if lower."""
    limits = [asked, int(tokenizer.model_max_length)]
    positions = getattr(model.config, "max_position_embeddings", None)
    if positions is not None:
        # RoBERTa counts positions from the position after its padding id, so the first positions are not used
        offsets = [
            part.padding_idx + 1
            for name, part in model.named_modules()
            if name.endswith("position_embeddings") and getattr(part, "padding_idx", None) is not None
        ]
        limits.append(int(positions) - max(offsets, default=0))
    return min(limits)


# -- Batches of token sequences of different lengths, padded on the right.

Encoded = Mapping[str, Sequence[Any]]
"""Output of a tokenizer for one text: ``input_ids`` and other model inputs, each with one entry per token."""


def by_length(lengths: Mapping[int, int], size: int) -> Iterator[list[int]]:
    """Group texts into batches of ``size`` texts of similar length, and yield the indices of each batch's texts.

    ``lengths`` maps the index of a text to its length. The longest texts are first, so that a lack of memory shows at
    the first batch.

    >>> list(by_length({0: 3, 1: 9, 2: 4, 3: 8}, 2))
    [[1, 3], [2, 0]]
    """
    order = sorted(lengths, key=lambda position: -lengths[position])
    for start in range(0, len(order), size):
        yield order[start : start + size]


def padded_batches(
    texts: Mapping[int, Encoded], tokenizer: Any, size: int, device: str
) -> Iterator[tuple[list[int], dict[str, torch.Tensor]]]:
    """Yield the batches of ``by_length``: the indices of the texts, and a mapping from model input to padded tensor.

    ``texts`` maps the index of a text to its encoding. Ids are padded with the padding token, other inputs with 0.
    """
    import torch

    # padding is masked, so any id is possible if the tokenizer has no padding token
    pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id or 0
    for positions in by_length({position: len(text["input_ids"]) for position, text in texts.items()}, size):
        fields = {}
        for field in texts[positions[0]]:
            rows = [torch.tensor(texts[position][field], dtype=torch.long) for position in positions]
            fill = pad_id if field == "input_ids" else 0
            fields[field] = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=fill).to(device)
        yield positions, fields


# -- Empty texts.


def is_blank(text: str) -> bool:
    """Whether the text is empty or only white space."""
    return not text.strip()


def note_on_empty(empty: Sequence[bool], rule: str = "count as wrong") -> str | None:
    """A note on how many texts are ``empty`` (one flag per text) and how they count (``rule``). None if no text is.

    >>> note_on_empty([False, True, False])
    'empty texts, which count as wrong: 1 of 3'
    """
    return f"empty texts, which {rule}: {sum(empty)} of {len(empty)}" if any(empty) else None
