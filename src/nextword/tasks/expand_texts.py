"""Texts written from summaries: one samples file for each decoding, without prompt and with the summary as prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from nextword.records import write_atomically
from nextword.tasks.continuation import Prompt, continued, decoded, reference_log_probs
from nextword.tasks.encoding import batches, measuring
from nextword.tasks.expand_encoding import Beginning, Guide, SummaryPrompts
from nextword.tasks.expand_settings import SummaryWriting
from nextword.tasks.task import Progress


@dataclass(frozen=True)
class Expansions:
    """Writes the samples files of one model.

    Attributes:
        given: Summaries and the beginnings of people's articles.
        prompts: Makes what stands before a text.
        guide: Makes what a conditioned model is told beside.
        batch_size: Texts written at a time.
        score_batch: People's articles scored at a time.
    """

    given: Sequence[Beginning]
    prompts: SummaryPrompts
    guide: Guide
    batch_size: int
    score_batch: int

    def write(
        self,
        model: Any,
        files: Mapping[Path, SummaryWriting],
        seed: int,
        arguments: Mapping[str, Any],
        progress: Progress | None = None,
    ) -> None:
        """Writes one file for each way of writing, as a whole or not at all; each starts from ``seed`` anew.

        Args:
            model: An attached model.
            files: What goes where.
            seed: Of the tokens that are drawn.
            arguments: Further arguments of ``generate``.
            progress: Told the share that is done.
        """
        told = progress or (lambda share: None)
        scored: dict[bool, list[list[float]]] = {}
        with measuring(model):
            for done, (path, way) in enumerate(files.items()):
                if way.prompted not in scored:
                    scored[way.prompted] = self._scored(model, way.prompted)
                before = self.prompts.before(self.given, way.prompted)
                torch.manual_seed(seed)
                texts: list[list[int]] = []
                for part in batches(list(zip(self.given, before, strict=True)), self.batch_size):
                    guided = {**self.guide([one for one, _ in part]), **arguments}
                    length = self.prompts.length
                    texts += continued(model, [prompt for _, prompt in part], way.decoding, length, guided)
                    told((done + len(texts) / len(self.given)) / len(files))
                rows = zip(self.given, before, texts, scored[way.prompted], strict=True)
                write_atomically(path, "".join(self._line(*row) for row in rows))

    def _scored(self, model: Any, prompted: bool) -> list[list[float]]:
        return [
            row
            for part in batches(self.given, self.score_batch)
            for row in reference_log_probs(model, self.prompts.before(part, prompted), self.guide(part))
        ]

    def _line(self, one: Beginning, before: Prompt, written: list[int], log_probs: list[float]) -> str:
        tokenizer = self.prompts.tokenizer
        content = {
            "id": one.number,
            # What every text is to follow, also where it is no prompt; the tokens are those that stood before the text.
            "prompt": one.summary,
            "source": one.summary,
            "prompt_token_ids": before.ids[1:],
            "text": decoded(tokenizer, written),
            "token_ids": written,
            "references": [decoded(tokenizer, one.ids)],
            "reference_token_ids": [one.ids],
            "target_token_ids": one.ids,
            "target_bytes": one.text_bytes,
            "log_probs": log_probs,
        }
        return json.dumps(content, ensure_ascii=False) + "\n"
