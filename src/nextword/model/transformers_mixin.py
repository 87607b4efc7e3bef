"""Methods of a wrapped model that transformers and peft call: embeddings, initialisation, saving, adapters."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from nextword.conditioning.auxiliary_encoder import POOLER, fingerprint
from nextword.functional.padding import shifted_right
from nextword.model.conditioned_model import Conditioned, choose_trained
from nextword.model.forward.output_layer import expect_state_scale, vocabulary_size
from nextword.model.saving import write_missing_card

_NEW = ("next_word_head", "conditioner")  # parts whose weights are only in files of nextword models


class TransformersMixin(Conditioned):
    """Methods of a wrapped model that transformers and peft call."""

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Sets the backbone's input embeddings."""
        self.backbone.set_input_embeddings(value)

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        """Sets the backbone's output embeddings."""
        self.backbone.set_output_embeddings(new_embeddings)

    def get_encoder(self, *args: Any, **kwargs: Any) -> Any:
        """The backbone's encoder."""
        return self.backbone.get_encoder(*args, **kwargs)

    def get_decoder(self, *args: Any, **kwargs: Any) -> Any:
        """The backbone's decoder."""
        return self.backbone.get_decoder(*args, **kwargs)

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Any:
        """The decoder's inputs, made from ``labels`` by the backbone's method, or if there is none by a right shift."""
        if hasattr(self.backbone, "prepare_decoder_input_ids_from_labels"):
            return self.backbone.prepare_decoder_input_ids_from_labels(labels)
        config = self.backbone.config
        return shifted_right(labels, config.decoder_start_token_id, config.pad_token_id)

    def resize_token_embeddings(
        self, new_num_tokens: int | None = None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> Any:
        """Resizes the backbone's embeddings, and fits head, conditioner and objective to the new vocabulary size."""
        embeddings = self.backbone.resize_token_embeddings(new_num_tokens, pad_to_multiple_of, mean_resizing)
        size = vocabulary_size(self.backbone)
        self.next_word_head.resized(size)
        self.config.head = self.next_word_head.config.model_dump()
        if self.conditioner is not None:
            self.conditioner.resized(size)
        self.vocab_size = self.config.get_text_config(decoder=True).vocab_size
        self.objective.resize_vocabulary(size)
        return embeddings

    # -- how weights are initialised, cast and loaded

    _keys_to_ignore_on_load_missing = [rf"auxiliary_encoder\.{POOLER}"]  # noqa: RUF012  (as transformers declares it)

    # Quantisers do not quantise these modules, only the backbone. Transformers uses the names for nothing else here:
    # ``_get_dtype_plan`` chooses the dtype of every weight.
    _keep_in_fp32_modules = ["next_word_head", "conditioner", "auxiliary_encoder", "objective"]  # noqa: RUF012

    @property
    def _keys_to_ignore_on_save(self) -> set[str]:
        # tied weights are not saved, so Trainer must not report them as missing when it resumes
        kept: set[str] = vars(self).get("_ignored_on_save", set())
        tied: dict[str, str] = getattr(self, "all_tied_weights_keys", {})
        read = self.get_parameter
        return kept | {name for name, source in tied.items() if read(name) is read(source)}

    @_keys_to_ignore_on_save.setter
    def _keys_to_ignore_on_save(self, names: set[str]) -> None:
        vars(self)["_ignored_on_save"] = names

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
        """Loads a model as transformers does.

        If the model has a conditioner, the conditioner's setting ``trains`` chooses the weights that get gradients.

        Raises:
            ValueError: If the head needs the saved ``state_scale``, and this scale does not fit the backbone.
        """
        loaded = super().from_pretrained(*args, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        choose_trained(model)
        scale = model.config.state_scale
        if scale is not None and model.next_word_head.layers and _is_here(model):
            expect_state_scale(model.backbone, scale)
        return loaded

    def save_pretrained(
        self, save_directory: str | os.PathLike[str], is_main_process: bool = True, *args: Any, **kwargs: Any
    ) -> None:
        """Saves as transformers does, and adds a short model card if the folder has none."""
        if self.conditioner is not None and not self._encoder_is_frozen:  # training has changed the encoder's weights
            told = self.config.auxiliary_encoder | {"fingerprint": fingerprint(self.auxiliary_encoder)}
            self.config.auxiliary_encoder = told
        super().save_pretrained(save_directory, is_main_process, *args, **kwargs)
        if is_main_process:
            write_missing_card(self, Path(save_directory))

    @classmethod
    def _can_set_experts_implementation(cls) -> bool:
        return True  # for the backbone's experts, if it has any

    @torch.no_grad()
    def initialize_weights(self) -> None:
        """Initialises the backbone and the auxiliary encoder with their own methods, and then all other modules."""
        # Transformers treats our class as custom code, and does not initialise modules without weights in such classes.
        # Falcon-H1's initialisation of its layers' buffers would be left out.
        for inside in self.children():
            if isinstance(inside, PreTrainedModel):
                inside.initialize_weights()
        super().initialize_weights()

    def _init_weights(self, module: nn.Module) -> None:
        # the backbone initialises itself; this method initialises the head's weights that a checkpoint lacks
        reset = getattr(module, "reset_parameters", None)
        if callable(reset):
            reset()

    def _get_dtype_plan(self, dtype: torch.dtype) -> dict[str, torch.dtype]:
        # Weights that keep single precision are matched only in the inner models. Transformers would match a name
        # anywhere: T5's ``wo`` is also a part of ``next_word_head``.
        return {
            rf"^{prefix}\.*{name}": kept  # "*" matches any characters here, "." matches any single character
            for prefix, inside in self.named_children()
            if isinstance(inside, PreTrainedModel)
            for name, kept in inside._get_dtype_plan(dtype).items()
        }

    # -- which parts are saved with an adapter
    #
    # peft saves the adapter and the modules in ``modules_to_save``. It expects all other weights in the folder or on
    # the hub page that the model came from. A head that was attached to this model is in neither place, and if it were
    # attached again it would start from other random numbers. So the head is added to ``modules_to_save``, as peft does
    # with a new classifier.

    @property
    def peft_config(self) -> dict[str, Any]:
        """A mapping from adapter name to the adapter's configuration. peft sets it after it has added adapters."""
        if "_peft_config" not in vars(self):
            raise AttributeError("peft_config")  # as in any model without adapters
        return vars(self)["_peft_config"]

    @peft_config.setter
    def peft_config(self, configs: dict[str, Any]) -> None:
        vars(self)["_peft_config"] = configs
        for adapter in configs:
            for part in self._unsaved_parts(adapter):
                self._add_module_to_save(adapter, part)

    @peft_config.deleter
    def peft_config(self) -> None:
        del vars(self)["_peft_config"]

    def _unsaved_parts(self, adapter: str) -> list[str]:
        """Modules with weights that are neither in the adapter nor in the folder that the model was loaded from."""
        if self.name_or_path:  # the whole model, with its head, was loaded from this folder
            return []
        saved = getattr(self.peft_config[adapter], "modules_to_save", None) or ()
        parts = {part: getattr(self, part) for part in _NEW if part not in saved}
        return [part for part, module in parts.items() if module is not None and module.state_dict()]

    def _add_module_to_save(self, adapter: str, part: str) -> None:
        from peft.tuners.tuners_utils import BaseTunerLayer
        from peft.utils import ModulesToSaveWrapper

        config = self.peft_config[adapter]
        config.modules_to_save = [*(config.modules_to_save or ()), part]
        module: Any = getattr(self, part)
        if isinstance(module, ModulesToSaveWrapper):  # another adapter has already wrapped the module
            module.update(adapter)
            return
        # a module that is trained in full needs no adapter layers ("all-linear" adds them)
        for name, layer in list(module.named_modules()):
            if isinstance(layer, BaseTunerLayer):
                layer.merge()
                parent, _, own = name.rpartition(".")
                setattr(module.get_submodule(parent), own, layer.get_base_layer())
        wrapper = ModulesToSaveWrapper(module, adapter)
        wrapper.set_adapter(adapter, inference_mode=config.inference_mode)
        setattr(self, part, wrapper)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The state dictionary of the module.

        Raises:
            ValueError: If an adapter was added that would be saved without some of its weights.
        """
        for adapter in getattr(self, "peft_config", ()):
            missing = self._unsaved_parts(adapter)
            if missing:
                raise ValueError(
                    f"adapter '{adapter}': it would be saved without the weights of {' and '.join(missing)}, which are "
                    f"saved nowhere else; add it with modules_to_save={missing}"
                )
        return super().state_dict(*args, **kwargs)


def _is_here(model: PreTrainedModel) -> bool:
    """Whether this process has all of a model's weights, so that it can run the model."""
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return not distributed and not any(parameter.is_meta for parameter in model.parameters())
