"""A model of lm-eval as a scorer: what ``lm_eval --model_args`` would score is what is audited."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nextword.checking.audit.scorer import Texts
from nextword.runtime import optional_libraries as extras
from nextword.runtime.devices import best_device
from nextword.settings.setting_names import named


class LmEvalScorer:
    """Asks ``loglikelihood`` of lm-eval, with token ids in place of texts, so that no tokenizer stands between.

    Args:
        model: A model of lm-eval whose requests are tokens (a ``TemplateLM``, as nearly all are).
    """

    def __init__(self, model: Any) -> None:
        self._model = model

    def text_log_probs(self, texts: Texts, /) -> list[Tensor]:
        """One request for each token, with those before it as context; the first has none, and NaN."""
        requests = [(list(text[:place]), [text[place]]) for text in texts for place in range(1, len(text))]
        told = iter(self._scored(requests))
        return [torch.tensor([torch.nan, *(next(told) for _ in text[1:])]) for text in texts]

    def text_totals(self, texts: Texts, /) -> list[float]:
        """One request for each text: its first token is the context, the rest the continuation."""
        whole = [(list(text[:1]), list(text[1:])) for text in texts if len(text) > 1]
        told = iter(self._scored(whole))
        return [next(told) if len(text) > 1 else 0.0 for text in texts]

    def _scored(self, requests: list[tuple[list[int], list[int]]]) -> list[float]:
        if not requests:
            return []
        requested = [(("", ""), context, continuation) for context, continuation in requests]
        return [float(found) for found, _ in self._model._loglikelihood_tokens(requested, disable_tqdm=True)]


def open_lm_eval(arguments: str) -> tuple[LmEvalScorer, int]:
    """A scorer, and the size of its vocabulary.

    Args:
        arguments: As after ``--model_args``: ``pretrained=NAME,dtype=float32``. A model other than ``hf`` is named
            before a colon: ``vllm:pretrained=NAME``.

    Raises:
        ValueError: lm-eval is not installed, or knows no such model.
    """
    if extras.missing({"lm_eval": "lm-eval"}):
        raise ValueError(f"{named('lm_eval')}: lm-eval is not installed here ({extras.install('tools')})")
    from lm_eval.api.registry import get_model

    name, colon, rest = arguments.partition(":")
    kind, given = (name, rest) if colon and "=" not in name else ("hf", arguments)
    names = {setting.partition("=")[0] for setting in given.split(",")}
    ours = {"batch_size": 8, "device": str(best_device())}
    try:
        left = {name: value for name, value in ours.items() if name not in names}
        model: Any = get_model(kind).create_from_arg_string(given, left)
    except (OSError, ValueError, TypeError, KeyError) as fault:
        said = " ".join(str(fault).split())
        raise ValueError(f"{named('lm_eval')}: '{arguments}' cannot be opened ({said})") from fault
    return LmEvalScorer(model), int(model.model.config.get_text_config(decoder=True).vocab_size)
