"""A tiny random model of an architecture, with weights so large that its distributions are far from uniform."""

from __future__ import annotations

from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, AutoModelForSeq2SeqLM

from architectures.shrunk import EXCEPTIONS, START, shrunk, with_exceptions

MOST_PARAMETERS = 3_000_000
"""A model of more was not shrunk: it is not built."""

AUTO = {"decoder-only": AutoModelForCausalLM, "encoder-decoder": AutoModelForSeq2SeqLM}


class NotBuiltError(Exception):
    """No tiny model of an architecture; the message says why."""


def tiny_config(kind: str, name: str) -> Any:
    """The default configuration of an architecture, made small."""
    own = EXCEPTIONS.get(name, {})
    made = CONFIG_MAPPING[name](**own.get("default", {}))
    settings = with_exceptions(shrunk(made.to_dict()), own.get("set", {}))
    if kind == "decoder-only" and settings.get("is_decoder") is False:
        settings["is_decoder"] = True
    if settings.get("is_encoder_decoder") and settings.get("decoder_start_token_id") is None:
        settings["decoder_start_token_id"] = START  # T5's checkpoints name it, its class does not
    return type(made).from_dict(settings)


def tiny_model(kind: str, name: str) -> Any:
    """The model, in evaluation mode.

    Raises:
        NotBuiltError: It is not small.
    """
    with torch.device("meta"):
        count = sum(one.numel() for one in _made(kind, name).parameters())
    if count > MOST_PARAMETERS:
        raise NotBuiltError(f"{count:,} parameters after shrinking")
    torch.manual_seed(0)
    model = _made(kind, name)
    _make_lively(model)
    return model.eval()


def _made(kind: str, name: str) -> Any:
    config, part = tiny_config(kind, name), EXCEPTIONS.get(name, {}).get("part")
    if part is None:
        return AUTO[kind].from_config(config)
    return AUTO[kind]._model_mapping[type(config)]._from_config(getattr(config, part))


@torch.no_grad()
def _make_lively(model: Any) -> None:
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        if not parameter.requires_grad or not parameter.is_floating_point():
            continue  # sinusoidal positions: no checkpoint has others
        spread = 0.1 if parameter.ndim < 2 else parameter.shape[-1] ** -0.5
        parameter += (spread * torch.randn(parameter.shape, generator=generator)).to(parameter.dtype)
