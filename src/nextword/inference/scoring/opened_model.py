"""A model with its tokenizers, ready to score or generate texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import torch

from nextword.conditioning import conditioner_spec
from nextword.conditioning.auxiliary_tokenizer import ENCODER_TOKENIZER, AuxiliaryTokenizer
from nextword.functional.frequency.counts import tokenizer_fingerprint
from nextword.heads import head_spec
from nextword.heads.head import registry as heads
from nextword.model.attach import attach, load, load_onto
from nextword.model.modeling import NextWordModel
from nextword.model.stored_states.state_files import manifest_of
from nextword.objectives import objective_spec
from nextword.runtime.devices import best_device
from nextword.runtime.pretrained import load_tokenizer, model_location
from nextword.settings.registry import did_you_mean

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


AnyModel: TypeAlias = "PreTrainedModel | OpenedModel | str | Path"
"""Type of arguments for a model: a model of nextword or transformers in memory, or its folder or hub name."""


@dataclass(frozen=True)
class OpenedModel:
    """A model in evaluation mode and its tokenizers.

    Attributes:
        name: Name of the model in tables.
        model: Model with a head. A plain transformers model gets the head ``softmax``, which changes nothing.
        tokenizer: Tokenizer of the model's texts.
        auxiliary_tokenizer: Tokenizer of auxiliary texts; None if the model has no conditioner.
    """

    name: str
    model: NextWordModel
    tokenizer: PreTrainedTokenizerBase
    auxiliary_tokenizer: AuxiliaryTokenizer | None = None

    def __post_init__(self) -> None:
        """Raises ValueError if the head's files were made with another tokenizer."""
        self.model.next_word_head.expect_tokenizer(lambda: tokenizer_fingerprint(self.tokenizer))

    @classmethod
    def of(
        cls,
        model: AnyModel,
        tokenizer: PreTrainedTokenizerBase | None = None,
        auxiliary_tokenizer: AuxiliaryTokenizer | None = None,
        name: str | None = None,
    ) -> OpenedModel:
        """Makes an opened model from ``model``, which may already be opened.

        Args:
            model: A model of nextword or transformers, its folder or hub name, or an opened model. A transformers model
                is used with the head ``softmax`` and is not changed.
            tokenizer: Tokenizer of the model; None if ``model`` includes it.
            auxiliary_tokenizer: Tokenizer of auxiliary texts, for a model in memory with a conditioner.
            name: Name of the model in tables; None: made from ``model``, such as the name of its folder.

        Raises:
            ValueError: If a tokenizer is missing or invalid, the folder has no model, or the head's files are for
                another tokenizer.
        """
        expect_tokenizer(tokenizer)
        if isinstance(model, str | Path):
            model = open_model(model)
        if isinstance(model, OpenedModel):
            changes: dict[str, Any] = {"name": name, "tokenizer": tokenizer, "auxiliary_tokenizer": auxiliary_tokenizer}
            return replace(model, **{key: value for key, value in changes.items() if value is not None})
        if tokenizer is None:
            raise ValueError("tokenizer: must be given with a model; or give the folder that both were saved in")
        ours: Any = model if isinstance(model, NextWordModel) else attach(model, "softmax")
        if ours.conditioner is not None and auxiliary_tokenizer is None:
            raise ValueError(
                "auxiliary_tokenizer: must be given with a model that follows auxiliary texts (none given); give the "
                "model's folder, or nextword.inference.scoring.opened_model.OpenedModel.of(model, tokenizer, "
                "nextword.AuxiliaryTokenizer(encoder, tokenizer))"
            )
        folder = Path(str(ours.name_or_path or ours.backbone.config.name_or_path or "")).name
        auxiliary = auxiliary_tokenizer if ours.conditioner is not None else None
        return cls(name or folder or type(ours.backbone).__name__, ours, tokenizer, auxiliary)

    @property
    def has_encoder(self) -> bool:
        """Whether the model is an encoder-decoder model."""
        return bool(self.model.config.is_encoder_decoder)

    @property
    def parts(self) -> dict[str, Any]:
        """Facts about the model for records, as a mapping from name to value.

        ``head``, ``objective`` and ``conditioner`` (or None) are specs, ``backbone`` is a class name, and
        ``parameters`` is the number of all weights.
        """
        model, conditioner = self.model, self.model.conditioner
        return {
            "head": head_spec(model.next_word_head.config),
            "objective": objective_spec(model.objective.config),
            "conditioner": None if conditioner is None else conditioner_spec(conditioner.config),
            "backbone": type(model.backbone).__name__,
            "parameters": sum(weight.numel() for weight in model.parameters()),
        }

    @property
    def longest(self) -> int | None:
        """Maximum number of tokens of the decoder, without the conditioner's positions; None: no configured limit."""
        return longest_of(self.model)


def expect_tokenizer(tokenizer: object) -> None:
    """Raises ValueError if ``tokenizer`` is a string or path, for instance a text passed as the wrong argument."""
    if isinstance(tokenizer, str | Path):
        raise ValueError(
            f"tokenizer: must be a tokenizer, not a text ({str(tokenizer)[:40]!r} given); give a text by name, "
            "with text=, texts= or prompts=, and leave the tokenizer of a model's folder out"
        )


def longest_of(model: NextWordModel) -> int | None:
    """Maximum number of tokens of a model's decoder; see ``OpenedModel.longest``."""
    limit = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    # T5 has n_positions in its configuration, but no limit
    return limit - getattr(model.conditioner, "virtual", 0) if isinstance(limit, int) else None


def open_model(
    path: str | Path,
    device: str = "auto",
    dtype: str = "auto",
    name: str | None = None,
    head: Mapping[str, Any] = MappingProxyType({}),
    states: str | None = None,
) -> OpenedModel:
    """Opens a saved model of nextword or transformers.

    Args:
        path: Folder or hub name.
        device: Torch device; ``auto``: an accelerator if there is one.
        dtype: Precision of the weights; ``auto``: as saved.
        name: Name of the model in tables; None: the folder's name.
        head: Mapping from settings of the head to new values. A setting that only other heads have is ignored.
        states: Folder of the backbone's stored states, which replace the backbone. Only texts whose states are stored
            can then be scored. None: load the backbone.

    Raises:
        ValueError: If ``head`` has a setting that no head can change, the device is unavailable, the folder has no
            complete model with a tokenizer, or the states belong to another backbone or tokenizer.
    """
    _expect_adjustable(head)
    location, where = model_location(path), _device(device)
    precision = None if dtype == "auto" else getattr(torch, dtype)
    if states is None:
        model: NextWordModel = load(location, dtype=precision or "auto")
    else:
        model = load_onto(states, location, precision)
    model.to(where)
    model.configure_head(**{key: head[key] for key in head if key in model.next_word_head.adjustable})
    tokenizer = load_tokenizer(str(location), f"{location}: tokenizer")
    if states is not None:
        _expect_tokenizer_of(states, tokenizer, location)
    title = name or (Path(location).resolve().name if isinstance(location, Path) else location)
    model.eval()
    return OpenedModel(title, model, tokenizer, _auxiliary_tokenizer(location, model, tokenizer))


def _expect_tokenizer_of(states: str, tokenizer: PreTrainedTokenizerBase, location: str | Path) -> None:
    if tokenizer_fingerprint(tokenizer) != manifest_of(Path(states)).origin.tokenizer:
        raise ValueError(
            f"model: must have the tokenizer of the stored states ('{location}' has another one than '{states}'); "
            "build a store with this model"
        )


def _expect_adjustable(head: Mapping[str, Any]) -> None:
    known = sorted({setting for name in heads.names() for setting in heads.get(name).adjustable})
    wrong = next((key for key in head if key not in known), None)
    if wrong is not None:
        raise ValueError(
            f"set: must be a setting of a head that may change after training ('{wrong}' given)."
            f"{did_you_mean(wrong, known)} Known: {', '.join(known)}"
        )


def _device(name: str) -> torch.device:
    if name == "auto":
        return best_device()
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as fault:  # torch raises one of these if the device does not exist
        raise ValueError(f"device: must be auto or a device of torch that is here ('{name}' given: {fault})") from None


def _auxiliary_tokenizer(
    location: str | Path, model: NextWordModel, tokenizer: PreTrainedTokenizerBase
) -> AuxiliaryTokenizer | None:
    if model.conditioner is None:
        return None
    copies = tokenizer if model.next_word_head.reads_source else None
    folder = Path(location)
    for place in (folder / ENCODER_TOKENIZER, folder.parent / ENCODER_TOKENIZER):
        if place.is_dir():
            return AuxiliaryTokenizer(load_tokenizer(str(place), f"{place}: tokenizer"), copies)
    raise ValueError(
        f"{location}: the model follows auxiliary texts, and there is no {ENCODER_TOKENIZER} in its folder; save the "
        f"encoder's tokenizer there, with AutoTokenizer.from_pretrained(ENCODER).save_pretrained"
    )


# -- A list in slices that fit into memory, with a report of the finished share.

T = TypeVar("T")

Progress = Callable[[float], None]
"""Function that receives the finished share, from 0 to 1."""


def batches(rows: Sequence[T], size: int, progress: Progress | None = None) -> Iterator[Sequence[T]]:
    """Yields ``rows`` in slices of at most ``size`` rows. ``progress`` receives the finished share after each slice.

    >>> shares = []
    >>> [list(part) for part in batches([1, 2, 3, 4], 3, shares.append)], shares
    ([[1, 2, 3], [4]], [0.75, 1.0])
    """
    for begin in range(0, len(rows), size):
        part = rows[begin : begin + size]
        yield part
        if progress is not None:
            progress((begin + len(part)) / len(rows))


def progress_within(progress: Progress | None, begin: float, end: float) -> Progress:
    """Returns a progress function for one part of some work, the share from ``begin`` to ``end`` of the whole.

    >>> shares = []
    >>> progress_within(shares.append, 0.5, 1.0)(0.5)
    >>> shares
    [0.75]
    """

    def report(share: float) -> None:
        if progress is not None:
            progress(begin + share * (end - begin))

    return report
