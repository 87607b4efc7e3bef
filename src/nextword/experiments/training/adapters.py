"""Low-rank adapters in the backbone while it is trained, merged into its weights afterwards."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch import nn
from transformers import set_seed

from nextword.experiments.training.settings import LoraSettings
from nextword.runtime import optional_libraries as extras

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def expect_peft() -> None:
    """Raises ValueError where the package that makes adapters is not there."""
    if extras.missing(["peft"]):
        raise ValueError(f"training.lora: needs the package peft, not installed here ({extras.install('lora')})")


@contextlib.contextmanager
def lora_adapters(model: PreTrainedModel, settings: LoraSettings | None, seed: int) -> Iterator[None]:
    """Gives the backbone adapters inside the ``with`` block and freezes the rest of it.

    What is no part of the backbone is trained as before: head, conditioner, and an auxiliary encoder where it was. So
    are output embeddings that are tied to nothing. At the end the adapters are merged and gone: the model is a plain
    one again, and what could be trained before can be trained.

    Args:
        model: A model of ours, or a plain one of transformers, which is its own backbone.
        settings: None gives it none.
        seed: Of the adapters' random half; their other half is zero, so that they change nothing at first.

    Raises:
        ValueError: peft is not installed, or no layer has such a name, or one does that must not be adapted.
    """
    if settings is None:
        yield
        return
    expect_peft()
    backbone: Any = getattr(model, "backbone", model)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    set_seed(seed)
    try:
        adapters = _injected(backbone, settings)
        try:
            for parameter in _own_output_layer(backbone):
                parameter.requires_grad_(parameter in set(trained))
            yield
        except BaseException:
            adapters.unload()
            raise
        adapters.merge_and_unload()
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)


def _injected(backbone: Any, settings: LoraSettings) -> Any:
    from peft import LoraConfig, LoraModel

    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,  # type: ignore[arg-type]  # a float works as well
        lora_dropout=settings.dropout,
        target_modules=settings.targets,
    )
    embeddings = backbone.get_input_embeddings(), backbone.get_output_embeddings()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="fan_in_fan_out")  # peft sets it right for GPT-2's layers itself
            warnings.filterwarnings("ignore", message=".*tie_word_embeddings")  # refused below
            adapters: Any = LoraModel(backbone, config, "default")
    except ValueError as problem:
        raise ValueError(f"training.lora.targets: {problem}") from problem
    if (backbone.get_input_embeddings(), backbone.get_output_embeddings()) != embeddings:
        adapters.unload()
        raise ValueError("training.lora.targets: input and output embeddings take no adapter; leave them out")
    return adapters


def _own_output_layer(backbone: Any) -> list[nn.Parameter]:
    """Parameters of the output embeddings that are not those of the input embeddings."""
    output, inputs = backbone.get_output_embeddings(), backbone.get_input_embeddings()
    tied = set(inputs.parameters()) if inputs is not None else set()
    return [parameter for parameter in output.parameters() if parameter not in tied] if output is not None else []
