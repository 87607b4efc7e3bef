"""``attach`` and ``load``: make a model with a nextword head from a transformers model or from a folder."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, PretrainedConfig, PreTrainedModel
from transformers.initialization import no_tie_weights

from nextword.conditioning import Conditioner, ConditionerConfig, conditioner_spec, parse_conditioner
from nextword.conditioning.auxiliary_encoder import (
    comparable_fingerprint,
    expect_same,
    identity_of,
    load_encoder,
)
from nextword.distribution import SoftmaxDistribution
from nextword.functional.frequency.counts import tokenizer_fingerprint
from nextword.heads import HeadConfig, head_spec, parse_head
from nextword.heads.context import Context
from nextword.heads.safe_start import nats_apart, probe_tokens
from nextword.model.conditioned_model import choose_trained, expect_no_encoder_of_its_own, untie
from nextword.model.configuration import NextWordConfig
from nextword.model.forward.output_layer import probe_inputs, validate_output_layer
from nextword.model.modeling import NextWordForCausalLM, NextWordForSeq2SeqLM, NextWordModel
from nextword.model.stored_states.finished_model import expect_backbone, saved_head
from nextword.model.stored_states.state_files import TokenRow
from nextword.model.stored_states.stored_backbone import StoredBackbone, UnknownRowError
from nextword.model.training_modes import inference_mode_of, modes_kept
from nextword.objectives import ObjectiveConfig, parse_objective
from nextword.runtime.devices import device_of
from nextword.runtime.pretrained import from_pretrained, model_location, saved_tokenizer
from nextword.settings.config import SettingsError
from nextword.settings.registry import UnknownNameError

logger = logging.getLogger(__name__)

HeadSpec = str | Mapping[str, Any] | HeadConfig
ObjectiveSpec = str | Mapping[str, Any] | ObjectiveConfig
ConditionerSpec = str | Mapping[str, Any] | ConditionerConfig


def attach(
    model: PreTrainedModel,
    head: HeadSpec,
    objective: ObjectiveSpec = "mle",
    *,
    conditioner: ConditionerSpec | None = None,
    encoder: PreTrainedModel | str | Path | None = None,
) -> NextWordModel:
    """Attaches a head to your model, and optionally a conditioner for an auxiliary text.

    The result wraps ``model`` and shares its weights. If ``model`` already has a head, the new head replaces it. At
    first the result predicts almost as ``model`` does: the head's initial values are fitted to the states and scores of
    ``model`` on random tokens (``nextword.heads.safe_start``). With the initial values of a head's paper
    (``"cache:published"``), the untrained result can predict much worse. A warning is logged if the result is more than
    0.05 nats per token worse on random tokens.

    Args:
        model: A transformers language model, decoder-only or encoder-decoder, with or without a nextword head.
        head: Head spec such as ``"mos:3+mi"``, a dictionary of settings, or a typed config.
        objective: Objective spec such as ``"mle"`` or ``"histalign"``, a dictionary of settings, or a typed config.
        conditioner: Conditioner spec such as ``"bergpt"``, a dictionary of settings, or a typed config. Its setting
            ``trains`` chooses the weights to train; other weights are frozen. If it names the output layer without the
            input embedding, the two no longer share a weight. None: the conditioner of ``model``, if it has one.
        encoder: Encoder of the auxiliary texts, as a model, folder or hub name, which becomes part of the result. None:
            the auxiliary encoder of ``model``; if it has none, ``conditioner`` needs this argument.

    Returns:
        A transformers model, with ``generate``, ``save_pretrained`` and ``distribution``. Trainer can train it.

    Raises:
        ValueError: If a head, objective or conditioner is unknown, if they cannot be combined, or if the scores of
            ``model`` cannot be reproduced from its output layer.

    Examples:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=8, n_layer=1, n_head=2))
        >>> attach(gpt2, "cache").next_word_head.config.head
        'cache'
    """
    chosen = _parsed(head)
    wrapped = _attached(model, chosen, parse_objective(objective), conditioner, encoder)
    if chosen.published and chosen.as_published() is chosen:  # then no initial value was fitted
        _warn_if_worse(wrapped)
    return wrapped


def attach_to_train(
    model: PreTrainedModel,
    head: HeadSpec,
    objective: ObjectiveSpec = "mle",
    *,
    conditioner: ConditionerSpec | None = None,
    encoder: PreTrainedModel | str | Path | None = None,
    pretrained: bool = False,
) -> NextWordModel:
    """Attaches a head as ``attach`` does, but with the initial values for training (docs/train.md).

    If ``pretrained`` is false (a new small model), the head begins with the values of its paper. On a pretrained model
    these values would outweigh the model's own predictions. So if ``pretrained`` is true, the head gets its form for
    training, with values fitted to ``model``. In this form, for example, the entries of ``cache`` share one softmax
    with the vocabulary.
    """
    chosen = _parsed(head)
    begun = chosen.to_fine_tune() if pretrained else chosen.as_published()
    wrapped = _attached(model, begun, parse_objective(objective), conditioner, encoder)
    if pretrained and begun.published:
        _warn_if_worse(wrapped)
    return wrapped


def _parsed(head: HeadSpec) -> HeadConfig:
    if not isinstance(head, str | Mapping | HeadConfig):
        raise ValueError(f"attach: head must be a spec such as 'cache' or its settings ({type(head).__name__} given)")
    return parse_head(head)


def _attached(
    model: PreTrainedModel,
    head: HeadConfig,
    objective: ObjectiveConfig,
    conditioner: ConditionerSpec | None,
    encoder: PreTrainedModel | str | Path | None,
) -> NextWordModel:
    backbone = model.backbone if isinstance(model, NextWordModel) else model
    if isinstance(backbone, str | Path):
        written = f"nextword.load('{backbone}', '{head_spec(head)}')"
        raise ValueError(f"attach: must be given a transformers model (the name '{backbone}' given); use {written}")
    if not isinstance(backbone, PreTrainedModel):
        raise ValueError(f"attach: must be given a transformers model ({type(model).__name__} given)")
    former: Any = model.next_word_head if isinstance(model, NextWordModel) else None
    if former is not None:
        former.configure({})  # so that its settings have those of the head below, which may have changed
    head = head.unbuilt().over(None if former is None else former.config)
    scale = validate_output_layer(backbone)
    reader, settings, kept = _conditioning(model, conditioner, encoder)
    if settings is not None and settings.unties:
        untie(backbone)
    kind = _kind_of(backbone.config)
    config: Any = kind.config_class(
        text_config=backbone.config,
        backbone_class=None if kind.knows(backbone.config) else type(backbone).__name__,
        head=head.model_dump(),
        objective=objective.model_dump(),
        conditioner=None if settings is None else settings.model_dump(),
        auxiliary_encoder=None if reader is None else identity_of(reader),
        state_scale=scale,
    )
    config.dtype = backbone.dtype
    with _not_initialized_again(backbone, reader):
        wrapped: NextWordModel = kind(config, backbone=backbone, encoder=reader)
    if kept is not None:
        wrapped.conditioner = kept
    if former is not None:
        wrapped.next_word_head.take_over(former)
    _move_to_backbone(wrapped)
    if kept is None and wrapped.conditioner is not None:
        wrapped.conditioner.init_from_backbone(backbone)
    choose_trained(wrapped)
    with modes_kept(backbone):
        wrapped.train(backbone.training)
    _prove(wrapped)
    try:
        with _probed(wrapped) as context_of:
            wrapped.next_word_head.init_from_backbone(context_of)
    except UnknownRowError:
        raise ValueError(
            f"head '{head_spec(head)}': must begin on tokens whose states are stored (it draws others); give f2 "
            "start=random, or train through the model itself"
        ) from None
    wrapped.config.head = wrapped.next_word_head.config.model_dump()
    return wrapped


def _kind_of(config: PretrainedConfig) -> Any:
    return NextWordForSeq2SeqLM if config.is_encoder_decoder else NextWordForCausalLM


def _move_to_backbone(model: NextWordModel) -> None:
    """Gives head, conditioner and auxiliary encoder the device of the output layer and the backbone's precision."""
    device = device_of(model.get_output_embeddings())
    for part in (model.next_word_head, model.conditioner, model.auxiliary_encoder):
        if part is not None:
            part.to(device=device, dtype=model.backbone.dtype)


@contextmanager
def _not_initialized_again(*models: PreTrainedModel | None) -> Iterator[None]:
    """In this block transformers does not initialise these models' weights again, and does not tie untied weights."""
    parts = [part for model in models if model is not None for part in (*model.modules(), *model.parameters())]
    unmarked: list[Any] = [part for part in parts if not hasattr(part, "_is_hf_initialized")]
    for part in unmarked:
        part._is_hf_initialized = True
    try:
        with no_tie_weights():
            yield
    finally:
        for part in unmarked:
            vars(part).pop("_is_hf_initialized", None)  # an offloaded weight may have lost the mark when it was loaded


def _conditioning(
    model: PreTrainedModel, conditioner: ConditionerSpec | None, encoder: PreTrainedModel | str | Path | None
) -> tuple[PreTrainedModel | None, ConditionerConfig | None, Conditioner | None]:
    """Encoder, settings, and the model's own conditioner if it stays; each is None if it does not exist."""
    own: Any = model if isinstance(model, NextWordModel) and model.conditioner is not None else None
    if conditioner is None:
        if encoder is not None:
            raise ValueError("attach: encoder needs a conditioner (none given); give one, such as conditioner='bergpt'")
        return (None, None, None) if own is None else (own.auxiliary_encoder, own.conditioner.config, own.conditioner)
    settings = parse_conditioner(conditioner)
    if encoder is None and own is None:
        raise ValueError(
            f"attach: conditioner '{conditioner_spec(settings)}' needs the encoder that reads the auxiliary texts: "
            "encoder=AutoModel.from_pretrained(...), or its folder or hub name"
        )
    expect_no_encoder_of_its_own(model.config)
    return own.auxiliary_encoder if encoder is None else load_encoder(encoder), settings, None


_PROBE_LENGTH = 32  # tokens per row on which the head may run the model before training
_WORD = 5  # token that replaces tokens for images
_NOTICED = 0.05  # loss in nats per token above which a warning about the head's initial values is logged


def _prove(model: NextWordModel) -> None:
    """Raises the head's ValueError if the head does not fit the model."""
    with _probed(model) as context_of:
        model.next_word_head.validate_backbone(context_of, lambda: _fingerprint(model.backbone))


def _fingerprint(backbone: Any) -> str | None:
    is_stored = isinstance(backbone, StoredBackbone)
    return backbone.store.manifest.origin.model_fingerprint if is_stored else comparable_fingerprint(backbone)


def _warn_if_worse(model: NextWordModel) -> None:
    """Logs a warning if the head's settings make the untrained model worse."""
    head = model.next_word_head
    with _probed(model) as context_of:
        context = context_of(probe_tokens(head.dimensions.vocab_size))
        apart = nats_apart(SoftmaxDistribution(context.vocabulary, context.states), head(context))
    if not apart <= _NOTICED:
        logger.warning(
            "head '%s': predicts %.3g nats per token worse than the model alone until it is trained (measured on "
            "random tokens); attach '%s', which begins where the model is, or choose settings with nw.calibrate",
            head_spec(head.config),
            apart,
            head.config.head,
        )


def probed_rows(model: NextWordModel) -> list[TokenRow]:
    """The token rows on which ``attach`` runs a backbone, to check it and to fit the initial values of the head."""
    asked = probe_inputs(model.backbone)
    decoder = model.config.is_encoder_decoder
    texts = asked["decoder_input_ids" if decoder else "input_ids"].tolist()
    rows = [TokenRow(tuple(text), tuple(asked["input_ids"][0].tolist()) if decoder else ()) for text in texts]
    probed = _probe_rows(model, probe_tokens(model.next_word_head.dimensions.vocab_size)).tolist()
    return [*rows, *(TokenRow(tuple(text), tuple(text) if decoder else ()) for text in probed)]


def _probe_rows(model: NextWordModel, ids: Int[Tensor, "M"]) -> Int[Tensor, "R T"]:
    limit = getattr(model.config, "max_position_embeddings", None) or _PROBE_LENGTH
    length = min(_PROBE_LENGTH, limit, len(ids))
    if model._wordless:  # these tokens stand for images, and there are no pixels here
        ids = ids.masked_fill(torch.isin(ids, torch.tensor(model._wordless)), _WORD)
    return ids[: len(ids) // length * length].view(-1, length)


@contextmanager
def _probed(model: NextWordModel) -> Iterator[Callable[[Int[Tensor, "M"]], Context]]:
    """In this block the head can run the model, in evaluation mode, on tokens that the head chooses."""

    def context_of(ids: Int[Tensor, "M"]) -> Context:
        rows = _probe_rows(model, ids).to(device_of(model.get_input_embeddings()))
        inputs = {"input_ids": rows, "use_cache": False, **model.blank_auxiliary(len(rows))}
        return model.context(inputs | ({"decoder_input_ids": rows} if model.config.is_encoder_decoder else {}))

    with inference_mode_of(model):
        yield context_of


def load(
    path: str | Path,
    head: HeadSpec | None = None,
    objective: ObjectiveSpec | None = None,
    *,
    encoder: PreTrainedModel | str | Path | None = None,
    **kwargs: Any,
) -> NextWordModel:
    """Loads a saved model with its head, or attaches ``head`` to an ordinary checkpoint.

    Args:
        path: Folder, GGUF file or hub name of the model.
        head: Head to attach; it replaces a saved head. None: the saved head, or ``softmax`` if there is none.
        objective: Objective; it replaces a saved objective. None: the saved objective, or ``mle`` if there is none.
        encoder: Encoder of auxiliary texts to use instead of the saved copy, for instance to share one encoder among
            several models. Its weights must be those of the saved encoder. Only for a model with a conditioner.
        **kwargs: Further arguments of ``from_pretrained``, such as ``dtype``.

    Returns:
        The model with its head, in evaluation mode.

    Raises:
        ValueError: If ``path`` has no model, its files are damaged or incomplete, transformers cannot read the GGUF
            file, or ``encoder`` has other weights or is given for a model without a conditioner.

    Examples:
        >>> import tempfile
        >>> import nextword as nw
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> config = GPT2Config(vocab_size=50, n_embd=8, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
        >>> folder = tempfile.mkdtemp()
        >>> nw.attach(GPT2LMHeadModel(config), "cache").save_pretrained(folder)
        >>> nw.load(folder).next_word_head.config.head
        'cache'
        >>> nw.load(folder, "mos:3").next_word_head.config.components
        3
    """
    path = model_location(path)
    try:
        config = from_pretrained(AutoConfig, path)
        kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
        loaded: Any = from_pretrained(kind, path, output_loading_info=True, **kwargs)
    except (UnknownNameError, SettingsError) as fault:
        raise type(fault)(f"{path}: {fault}") from None
    except OSError as fault:
        raise ValueError(
            f"{path}: no model folder, and no model that can be fetched ({_first_line(fault)}); give the path of a "
            "saved model, or its name on the hub"
        ) from fault
    except Exception as fault:
        if type(fault).__name__ not in _UNREADABLE and "ignore_mismatched_sizes" not in str(fault):
            raise
        raise ValueError(f"{path}: the checkpoint is damaged or half written ({_first_line(fault)})") from fault
    model, read = loaded
    if encoder is not None and getattr(model, "conditioner", None) is None:
        raise ValueError(f"{path}: encoder must be left out (the model has no conditioner that would read it)")
    if not isinstance(model, NextWordModel):
        return attach(model, head or "softmax", objective or "mle")
    if model.conditioner is not None:
        _expect_the_saved_encoder(path, model, read, encoder)
    if head is not None:
        return attach(model, head, objective or model.objective.config)
    _expect_the_whole(path, read, "head", "next_word_head", head_spec(model.next_word_head.config))
    if objective is not None:
        model.set_objective(objective)
    _prove(model)

    def saved_fingerprint() -> str | None:
        tokenizer = saved_tokenizer(path)
        return None if tokenizer is None else tokenizer_fingerprint(tokenizer)

    model.next_word_head.expect_tokenizer(saved_fingerprint)
    return model


def load_onto(states: str | Path, path: str | Path, dtype: torch.dtype | None = None) -> NextWordModel:
    """Loads the head of a saved model onto stored states of its backbone, so that the backbone need not be loaded.

    Args:
        states: Folder of a store of states, which ``nextword states build`` writes (docs/states.md).
        path: Folder, GGUF file or hub name of the model. A model without a head gets ``softmax``.
        dtype: Precision of the weights; None: as saved.

    Returns:
        The model, in evaluation mode. It can predict only on the texts whose states are stored.

    Raises:
        ValueError: If ``path`` has no model or a damaged one, if the model has a conditioner, or if its backbone is not
            the one whose states are stored.
    """
    location = model_location(path)
    config: Any = from_pretrained(AutoConfig, location)
    ours = isinstance(config, NextWordConfig)
    backbone = StoredBackbone.open(states, config.dtype if ours and dtype is None else dtype)
    expect_backbone(location, backbone.store.manifest.origin)
    if not ours:
        model = attach(backbone, "softmax").eval()
    else:
        if config.conditioner is not None:
            raise ValueError(f"model: must be without a conditioner, which changes the states ('{path}' has one)")
        model = with_head(backbone, config, saved_head(location), path)
    model.name_or_path = str(location)
    return model


def with_head(
    backbone: PreTrainedModel,
    config: NextWordConfig,
    weights: Mapping[str, Tensor],
    path: str | Path,
    encoder: PreTrainedModel | None = None,
) -> NextWordModel:
    """Builds the model of a saved configuration around a loaded backbone.

    Args:
        backbone: The backbone, for example one that reads stored states.
        config: Configuration of the model. Its ``dtype`` becomes that of ``backbone``.
        weights: The head's weights.
        path: Where the weights are from, for messages.
        encoder: The encoder of auxiliary texts, if the model has a conditioner.

    Returns:
        The model, in evaluation mode. A conditioner has new weights.

    Raises:
        ValueError: If weights are missing or left over, or if the head does not fit the backbone.
    """
    config.dtype = backbone.dtype
    with _not_initialized_again(backbone, encoder):
        model: NextWordModel = _kind_of(config)(config, backbone=backbone, encoder=encoder).eval()
    _move_to_backbone(model)
    read = model.next_word_head.load_state_dict(weights, strict=False)
    names = {key: [f"next_word_head.{name}" for name in getattr(read, key)] for key in _KEYS}
    _expect_the_whole(path, names, "head", "next_word_head", head_spec(model.next_word_head.config))
    _prove(model)
    return model


_KEYS = ("missing_keys", "unexpected_keys")


def _expect_the_whole(path: str | Path, read: dict[str, Any], part: str, module: str, spec: str) -> None:
    for key, said in zip(_KEYS, ("lacks", "has, unasked,"), strict=True):
        names = sorted(name for name in read.get(key, ()) if name.startswith(f"{module}."))
        if names:
            raise ValueError(
                f"{path}: the checkpoint {said} {len(names)} weights of its {part} ({names[0]}, ...), and config.json "
                f"names {part} '{spec}'. Damaged? load(path, head=...) puts a new head on its backbone."
            )


def _expect_the_saved_encoder(
    path: str | Path, model: NextWordModel, read: dict[str, Any], encoder: PreTrainedModel | str | Path | None
) -> None:
    _expect_the_whole(path, read, "conditioner", "conditioner", conditioner_spec(model.conditioner.config))
    if encoder is not None:
        reader: Any = load_encoder(encoder)
        model.auxiliary_encoder = reader.to(model.device, model.dtype).eval()
        choose_trained(model)
    expect_same(model.config.auxiliary_encoder, model.auxiliary_encoder, f"{path}: the auxiliary encoder")


# errors for files that end too early, by name, because their packages need not be imported here
_UNREADABLE = frozenset({"SafetensorError", "JSONDecodeError", "UnpicklingError", "EOFError"})


def _first_line(fault: BaseException) -> str:
    return str(fault).strip().splitlines()[0] if str(fault).strip() else type(fault).__name__
