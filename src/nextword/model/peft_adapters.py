"""What of a wrapped model an adapter of peft takes along: parts whose weights stand in no other file.

peft saves the adapter and ``modules_to_save``, and expects everything else in the folder or on the hub page that the
model came from. A head that was attached to a model from there is in neither: attached again, it would start from other
random numbers. So it is made one of the ``modules_to_save``, as a new classifier of peft's own models is.
"""

from __future__ import annotations

from typing import Any

_NEW = ("next_word_head", "conditioner")


class Adapted:
    """The part of a wrapped model that peft speaks to; to be mixed into a PreTrainedModel."""

    @property
    def peft_config(self) -> dict[str, Any]:
        """The adapters by name, which peft leaves here as soon as they are in their places."""
        try:
            found: dict[str, Any] = vars(self)["_peft_config"]
        except KeyError:
            raise AttributeError("peft_config") from None  # as of any model without adapters
        return found

    @peft_config.setter
    def peft_config(self, configs: dict[str, Any]) -> None:
        vars(self)["_peft_config"] = configs
        for adapter in configs:
            for part in self._left_behind(adapter):
                self._take_along(adapter, part)

    @peft_config.deleter
    def peft_config(self) -> None:
        del vars(self)["_peft_config"]

    def _left_behind(self, adapter: str) -> list[str]:
        """Parts with weights that are neither in the adapter nor where the model came from."""
        if self.name_or_path:  # type: ignore[attr-defined]  # the folder that the whole model was loaded from
            return []
        saved = getattr(self.peft_config[adapter], "modules_to_save", None) or ()
        return [
            part
            for part in _NEW
            if getattr(self, part) is not None and getattr(self, part).state_dict() and part not in saved
        ]

    def _take_along(self, adapter: str, part: str) -> None:
        from peft.tuners.tuners_utils import BaseTunerLayer
        from peft.utils import ModulesToSaveWrapper

        config = self.peft_config[adapter]
        config.modules_to_save = [*(config.modules_to_save or ()), part]
        module: Any = getattr(self, part)
        if isinstance(module, ModulesToSaveWrapper):  # another adapter has one already
            module.update(adapter)
            return
        # what is trained in full takes no adapter ("all-linear" finds its layers too)
        for name, layer in list(module.named_modules()):
            if isinstance(layer, BaseTunerLayer):
                layer.merge()
                parent, _, own = name.rpartition(".")
                setattr(module.get_submodule(parent), own, layer.get_base_layer())
        wrapper = ModulesToSaveWrapper(module, adapter)
        wrapper.set_adapter(adapter, inference_mode=config.inference_mode)
        setattr(self, part, wrapper)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """As of every module.

        Raises:
            ValueError: An adapter was added later that would be saved without weights it needs.
        """
        for adapter in getattr(self, "peft_config", ()):
            missing = self._left_behind(adapter)
            if missing:
                raise ValueError(
                    f"adapter '{adapter}': it would be saved without the weights of {' and '.join(missing)}, which are "
                    f"in no other file; add it with modules_to_save={missing}"
                )
        return super().state_dict(*args, **kwargs)  # type: ignore[misc]
