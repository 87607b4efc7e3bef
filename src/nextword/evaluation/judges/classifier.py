"""A sequence classifier that judges whether a claim follows from its evidence. Several metrics use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from pydantic import Field

from nextword.evaluation.judges.checkpoints import Encoded, find_checkpoint, load_part, padded_batches, token_limit
from nextword.evaluation.judges.feature_cache import FeatureCache, key_of
from nextword.evaluation.metrics import MetricConfig, Setup, Table
from nextword.settings.registry import did_you_mean
from nextword.settings.setting_names import either

Evidence = str | Table
Question = tuple[Evidence, str]
"""A pair of evidence and claim."""


class ClassifierConfig(MetricConfig):
    """Settings of a metric that runs a classifier."""

    model: str | None = None
    """Folder or hub name of the classifier."""
    label: str | int | None = None
    """Name or number of the output that means "consistent". None: find this output by its usual names."""
    max_length: int = Field(default=512, ge=8)
    """Maximum number of tokens of evidence and claim together, or the model's own limit if that is lower."""


class InputForm:
    """Encoding of evidence and claim as one input of a classifier, with the evidence first.

    If the input is too long, the end of the evidence is cut off. If the claim alone is too long, tokens are removed
    from the end of the longer of evidence and claim until the input fits.
    """

    name = "pair"
    """Name of the encoding. Outputs for different encodings are cached separately."""

    def tokenizer(self, name: str, **arguments: Any) -> Any:
        """Load the tokenizer of the checkpoint ``name``. ``arguments`` are passed to ``from_pretrained``."""
        import transformers

        return transformers.AutoTokenizer.from_pretrained(name, **arguments)

    def encode(self, question: Question, tokenizer: Any, limit: int, config: Any) -> Encoded:
        """Encode ``question``, a pair of evidence and claim, for example as [CLS] evidence [SEP] claim [SEP].

        Raises:
            ValueError: If the pair cannot be shortened to at most ``limit`` tokens.
        """
        evidence, claim = question
        # a special token inside a text is read as text, because a </s> would end the sequence for BART
        claim_length = len(tokenizer("", claim, split_special_tokens=True)["input_ids"])
        cut = "only_first" if claim_length < limit else "longest_first"
        return dict(tokenizer(evidence, claim, truncation=cut, max_length=limit, split_special_tokens=True))


@dataclass(frozen=True)
class ClassifierAnswers:
    """Outputs of a classifier for N pairs of evidence and claim."""

    probabilities: Float[np.ndarray, "N"]
    """Probability of the output that means "consistent", per pair."""
    chosen: Bool[np.ndarray, "N"]
    """Whether "consistent" is the most probable output, per pair."""


class Classifier:
    """The sequence classifier ``config.model`` (folder or hub name), with cached outputs for the pairs that it read.

    ``form`` encodes the pairs. ``default_label`` is the number of the output "consistent" if the outputs have no names.

    Raises:
        ValueError: If the model does not exist or is not a classifier, or if its output "consistent" is not found.
    """

    def __init__(
        self, config: ClassifierConfig, form: InputForm, setup: Setup, default_label: int | None = None
    ) -> None:
        self._metric, self._form, self._setup, self._max_length = config.metric, form, setup, config.max_length
        setting = f"{config.metric}.model"
        example = either(
            f"--set {setting}=models/{config.metric}",
            f"metrics=[{{'metric': '{config.metric}', 'model': 'models/{config.metric}'}}]",
        )
        self._found = find_checkpoint(config.model, setting, f"Give one, for example {example}.")
        import transformers

        self._config = load_part(transformers.AutoConfig.from_pretrained, self._found, setting)
        # only id2label is read, because label2id of some published checkpoints does not agree with it
        names: Mapping[int, str] = {int(number): str(name) for number, name in self._config.id2label.items()}
        if len(names) < 2:
            raise ValueError(
                f"{setting}: '{config.model}' must be a classifier with several labels (it has one output); name "
                f"another model"
            )
        self._consistent = consistent_label(names, config.label, default_label, f"{config.metric}.label")
        self.label = names[self._consistent]
        """Name of the output that means "consistent"."""

    @property
    def name(self) -> str:
        """Short name of the model."""
        return Path(self._found.name).name

    def ask(self, questions: Sequence[Question]) -> ClassifierAnswers:
        """Classify ``questions``, pairs of evidence and claim, in order. Equal pairs are computed only once."""
        settings = {
            "model": self._found.fingerprint,
            "max_length": self._max_length,
            "form": self._form.name,
        }
        cache = FeatureCache(self._setup.cache, self._metric, settings, self._setup.progress)
        keys = [
            key_of(evidence if isinstance(evidence, str) else evidence.model_dump_json(), claim)
            for evidence, claim in questions
        ]
        rows = cache.rows(keys, partial(self._read, questions))
        chosen: Bool[np.ndarray, "N"] = rows.argmax(axis=1) == self._consistent
        return ClassifierAnswers(probabilities=rows[:, self._consistent].astype(np.float64), chosen=chosen)

    def _read(
        self, questions: Sequence[Question], missing: list[int]
    ) -> Iterator[tuple[list[int], Float[np.ndarray, "B K"]]]:
        import torch

        tokenizer, model = self._load()
        limit = token_limit(model, tokenizer, self._max_length)
        encoded = {position: self._encode(questions[position], tokenizer, limit) for position in missing}
        # a decoder-only classifier finds its last token by the padding id; without such an id, batches have one text
        size = 1 if self._config.pad_token_id is None else self._setup.batch_size
        for positions, fields in padded_batches(encoded, tokenizer, size, self._setup.device):
            with torch.inference_mode():
                logits = model(**fields).logits
            yield positions, logits.float().softmax(dim=-1).cpu().numpy()

    def _encode(self, question: Question, tokenizer: Any, limit: int) -> Encoded:
        try:
            return self._form.encode(question, tokenizer, limit, self._config)
        except ValueError as fault:
            raise ValueError(f"{self._metric}: cannot encode the text {question[1][:80]!r}: {fault}") from None

    def _load(self) -> tuple[Any, Any]:
        import torch
        import transformers

        setting = f"{self._metric}.model"
        tokenizer = load_part(self._form.tokenizer, self._found, setting)
        model, info = load_part(
            transformers.AutoModelForSequenceClassification.from_pretrained,
            self._found,
            setting,
            dtype=torch.float32,
            output_loading_info=True,
        )
        if info["missing_keys"]:
            raise ValueError(
                f"{setting}: '{self._found.name}' must be a trained classifier (it lacks weights of "
                f"{type(model).__name__}: {', '.join(sorted(info['missing_keys'])[:3])}); name another model"
            )
        return tokenizer, model.to(self._setup.device).eval()


# -- The output of a classifier that means that a text is consistent with its evidence.

CONSISTENT = frozenset(
    {
        *("entailment", "entailed", "entail", "entails"),
        *("correct", "consistent", "factual", "faithful"),
        *("supported", "supports", "support", "verified"),
    }
)
"""Names that checkpoints use, in lower case, for the output "the claim follows from the evidence"."""


def consistent_label(names: Mapping[int, str], asked: str | int | None, default: int | None, setting: str) -> int:
    """Return the number of the classifier's output that means "consistent" or "entailed".

    Args:
        names: Names of the outputs, from the checkpoint's ``id2label``.
        asked: Number or name (in any case) of the output that the user chose. None: the name is one of ``CONSISTENT``.
        default: The number to return if ``asked`` is None and the outputs have no names (LABEL_0, LABEL_1, ...). None:
            raise an error.
        setting: Name of the setting for error messages.

    Raises:
        ValueError: If no output or several outputs match.

    >>> consistent_label({0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"}, None, None, "nli.label")
    2
    """
    shown = ", ".join(f"{number} = {name}" for number, name in sorted(names.items()))
    by_name = {name.lower(): number for number, name in names.items()}
    if asked is not None:
        number = by_name.get(str(asked).lower(), int(asked) if str(asked).isdigit() else -1)
        if number not in names:
            near = did_you_mean(str(asked), by_name)
            raise ValueError(f"{setting}: the model has no output '{asked}'.{near} It has: {shown}.")
        return number
    fitting = [number for name, number in by_name.items() if name in CONSISTENT]
    if len(fitting) == 1:
        return fitting[0]
    nameless = all(name == f"label_{number}" for name, number in by_name.items())
    if nameless and default in names and default is not None:
        return default
    found = "several outputs" if fitting else "no output"
    raise ValueError(
        f"{setting}: {found} of the model can be identified by name as 'consistent'. Its outputs are {shown}; name "
        f"one of them."
    )
