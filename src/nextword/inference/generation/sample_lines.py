"""What a written text is as a line of a samples file (docs/generate.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nextword.inference.generation.batched_generation import GeneratedText
from nextword.inference.generation.generation_passes import GenerationPass
from nextword.inference.generation.prompt_files import TextPrompt
from nextword.inference.generation.samples_files import DIGITS
from nextword.inference.scoring.example_encoding import auxiliary_inputs, encode_example
from nextword.inference.scoring.opened_model import OpenedModel
from nextword.inference.scoring.target_likelihood import target_log_probs
from nextword.model.training_modes import measuring
from nextword.settings.setting_names import named


@dataclass(frozen=True)
class SampleLines:
    """Makes lines.

    Attributes:
        opened: The model.
        references: By the prompt's id, columns about its references; see ``reference_columns``.
    """

    opened: OpenedModel
    references: Mapping[str | int, Mapping[str, Any]]

    def line(self, text: GeneratedText, one: GenerationPass) -> dict[str, Any]:
        """The columns of one text. Of several after one prompt, each but the first has its number in the ``id``."""
        row, example = text.row, text.row.prompt.example
        beside = {"source": example.source, "auxiliary": example.auxiliary}
        return {
            "id": f"{example.id}#{row.sample}" if row.sample else example.id,
            "prompt": example.prompt if example.source is None else example.source,
            **{name: value for name, value in beside.items() if value is not None},
            "prompt_token_ids": row.prompt.context[row.prompt.specials :],
            "text": text.text,
            "token_ids": text.token_ids,
            "decoding": one.title,
            "seed": one.seed,
            "sample": row.sample,
            **({} if text.sources is None else text.sources.columns()),
            **self.references.get(example.id, {}),
        }


def reference_columns(
    opened: OpenedModel, prompts: Sequence[TextPrompt], scored: bool, batch_size: int
) -> dict[str | int, dict[str, Any]]:
    """By the prompt's id: the references as they came, and in tokens of the model; empty where there are none.

    Args:
        opened: The model.
        prompts: With their references.
        scored: Whether the log-probability of each token of the first reference is to stand beside it.
        batch_size: References scored at a time.

    Raises:
        ValueError: References are to be scored and some prompt has none, or some prompts have some and others none.
    """
    missing = [prompt.id for prompt in prompts if not prompt.references]
    if len(missing) == len(prompts) and not scored:
        return {}
    if missing:
        raise ValueError(
            f"prompt {missing[0]}: has no reference, and others or {named('score_references')} need one; give one"
        )
    ids = opened.tokenizer
    columns: dict[str | int, dict[str, Any]] = {
        prompt.id: {
            "references": list(prompt.references),
            "reference_token_ids": [ids(one, add_special_tokens=False)["input_ids"] for one in prompt.references],
        }
        for prompt in prompts
    }
    if not scored:
        return columns
    examples = [encode_example(opened, prompt.example(prompt.references[0])) for prompt in prompts]
    with measuring(opened.model):
        values = target_log_probs(opened.model, examples, batch_size, auxiliary_inputs(opened))
    for prompt, example, row in zip(prompts, examples, values, strict=True):
        columns[prompt.id] |= {
            "target_token_ids": example.target,
            "target_bytes": example.target_bytes,
            "log_probs": [round(value, DIGITS) for value in row.tolist()],
        }
    return columns
