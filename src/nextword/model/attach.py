"""attach and load: from an ordinary model, or a folder, to a model with a head of ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, PreTrainedModel

from nextword.context import Context
from nextword.heads import HeadConfig, head_spec, parse_head
from nextword.model.continuation import as_in_evaluation
from nextword.model.modeling import NextWordForCausalLM, NextWordForSeq2SeqLM, NextWordModel
from nextword.model.vocabulary import prove_output_layer
from nextword.objectives import ObjectiveConfig

HeadSpec = str | Mapping[str, Any] | HeadConfig
ObjectiveSpec = str | Mapping[str, Any] | ObjectiveConfig


def attach(model: PreTrainedModel, head: HeadSpec, objective: ObjectiveSpec = "mle") -> NextWordModel:
    """Puts a head on a model of your own.

    The model is wrapped, not copied: its weights are shared with the result. Attaching to a model that has a head
    already replaces the head.

    Args:
        model: A transformers language model, decoder-only or encoder-decoder.
        head: Head spec such as ``"mos:3+mi"``, settings written out, or a typed config.
        objective: Objective spec such as ``"mle"`` or ``"histalign"``, settings written out, or a typed config.

    Returns:
        A transformers model: train it with Trainer, call ``generate``, ``save_pretrained``, ``distribution``.

    Raises:
        ValueError: Unknown head or objective, a pair that makes no sense, or a model whose scores cannot be reproduced.

    Example:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=8, n_layer=1, n_head=2))
        >>> attach(gpt2, "cache").next_word_head.config.head
        'cache'
    """
    backbone = model.backbone if isinstance(model, NextWordModel) else model
    if not isinstance(backbone, PreTrainedModel):
        raise ValueError(f"attach: a transformers model is needed, {type(model).__name__} given")
    if not isinstance(head, str | Mapping | HeadConfig):
        raise ValueError(f"attach: a head spec such as 'cache' or its settings are needed, {type(head).__name__} given")
    scale = prove_output_layer(backbone)
    kind = NextWordForSeq2SeqLM if backbone.config.is_encoder_decoder else NextWordForCausalLM
    config: Any = kind.config_class(
        text_config=backbone.config,
        head=parse_head(head).unbuilt().model_dump(),
        objective=_plain(objective),
        state_scale=scale,
        # a composite configuration otherwise resets the backbone's attention implementation
        attn_implementation=backbone.config._attn_implementation,  # type: ignore[call-arg]  # taken by its base class
    )
    config.dtype = backbone.dtype
    part: Any
    for part in (*backbone.parameters(), *backbone.modules()):
        part._is_hf_initialized = True
    wrapped: NextWordModel = kind(config, backbone=backbone)
    wrapped.next_word_head.to(device=wrapped.get_output_embeddings().weight.device, dtype=backbone.dtype)
    wrapped.train(backbone.training)
    _begin(wrapped)
    return wrapped


_BEGINNING_LENGTH = 32
"""Tokens of a row that the head may see the model on before it starts."""


@torch.no_grad()
def _begin(model: NextWordModel) -> None:
    """Lets the head start its new parameters by what the model does already."""

    def context_of(ids: Int[Tensor, "M"]) -> Context:
        limit = getattr(model.config, "max_position_embeddings", None) or _BEGINNING_LENGTH
        length = min(_BEGINNING_LENGTH, limit, len(ids))
        rows = ids[: len(ids) // length * length].view(-1, length).to(model.device)
        inputs = {"input_ids": rows, "use_cache": False}
        return model.context(inputs | ({"decoder_input_ids": rows} if model.config.is_encoder_decoder else {}))

    with as_in_evaluation(model):
        model.next_word_head.begin(context_of)


def _plain(spec: Any) -> Any:
    return spec.model_dump() if isinstance(spec, HeadConfig | ObjectiveConfig) else spec


def load(
    path: str | Path, head: HeadSpec | None = None, objective: ObjectiveSpec | None = None, **kwargs: Any
) -> NextWordModel:
    """Loads a saved model with its head, or an ordinary checkpoint and attaches ``head``.

    Args:
        path: Folder or hub name.
        head: Head for a checkpoint without one (default ``softmax``), or instead of the saved one.
        objective: Objective instead of the saved one (default ``mle`` where none is saved).
        **kwargs: Further arguments of ``from_pretrained``, such as ``dtype``.

    Raises:
        ValueError: No such folder, a folder without a model, or one that was only half written.
    """
    folder = Path(path).expanduser()
    if not folder.exists() and str(path).startswith(("/", ".", "~")):
        raise ValueError(f"{path}: no such folder")
    path = folder if folder.exists() else path
    if folder.exists() and not (folder / "config.json").is_file():
        raise ValueError(f"{path}: no config.json in it, so this is no saved model (was saving interrupted?)")
    try:
        config = AutoConfig.from_pretrained(path)
        kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
        loaded: Any = kind.from_pretrained(path, output_loading_info=True, **kwargs)
    except OSError as fault:
        raise ValueError(f"{path}: no model folder, and no model that can be fetched ({_first_line(fault)})") from fault
    except Exception as fault:
        if type(fault).__name__ not in _UNREADABLE:
            raise
        raise ValueError(f"{path}: the checkpoint is damaged or half written ({_first_line(fault)})") from fault
    model, read = loaded
    if not isinstance(model, NextWordModel):
        return attach(model, head or "softmax", objective or "mle")
    if head is not None:
        return attach(model, head, objective or model.objective.config)
    _expect_the_whole_head(path, model, read)
    if objective is not None:
        model.set_objective(objective)
    return model


def _expect_the_whole_head(path: str | Path, model: NextWordModel, read: dict[str, Any]) -> None:
    """Raises ValueError where the weights in the folder are not those of the head that its configuration names."""
    spec = head_spec(model.next_word_head.config)
    for key, said in (("missing_keys", "lacks"), ("unexpected_keys", "has, unasked,")):
        names = sorted(name for name in read.get(key, ()) if name.startswith("next_word_head."))
        if names:
            raise ValueError(
                f"{path}: the checkpoint {said} {len(names)} weights of its head ({names[0]}, ...), and "
                f"config.json names head '{spec}'. Damaged? load(path, head=...) puts a new head on its backbone."
            )


_UNREADABLE = frozenset({"SafetensorError", "JSONDecodeError", "UnpicklingError", "EOFError"})
"""What readers raise on files that end too early; their classes live in packages we need not import for this."""


def _first_line(fault: BaseException) -> str:
    return str(fault).strip().splitlines()[0] if str(fault).strip() else type(fault).__name__
