"""Texts written from summaries: one samples file for each decoding, without prompt and with the summary as prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nextword.decoding.continuations import Continuations, Prompt, WritingConfig
from nextword.scoring.ask import Progress, part_of
from nextword.tasks.parts.expand.article_encoding import Beginning, Guide, SummaryPrompts
from nextword.tasks.parts.expand.expand_settings import SummaryWriting


@dataclass(frozen=True)
class Expansions:
    """Writes the samples files of one model.

    Attributes:
        config: Batch size.
        given: Summaries and the beginnings of people's articles.
        prompts: Makes what stands before a text.
        guide: Makes what a conditioned model is told beside.
        score_batch: People's articles scored at a time.
    """

    config: WritingConfig
    given: Sequence[Beginning]
    prompts: SummaryPrompts
    guide: Guide
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
        done = 0
        for prompted in dict.fromkeys(way.prompted for way in files.values()):
            own = {path: way.decoding for path, way in files.items() if way.prompted == prompted}
            told = part_of(progress, done / len(files), (done + len(own)) / len(files))
            self._continuations(prompted).write(model, own, seed, arguments, told)
            done += len(own)

    def _continuations(self, prompted: bool) -> Continuations:
        """The beginnings as what is continued: after a start token, and with a prompt after the summary too."""
        of = {one.number: one for one in self.given}

        def about(prompt: Prompt) -> dict[str, Any]:
            # What every text is to follow, also where it is no prompt; the tokens are those that stood before the text.
            summary = of[prompt.number].summary
            return {"prompt": summary, "source": summary, "prompt_token_ids": prompt.ids[1:]}

        return Continuations(
            self.config,
            self.prompts.before(self.given, prompted),
            self.prompts.tokenizer,
            self.score_batch,
            guide=lambda part: self.guide([of[prompt.number] for prompt in part]),
            about=about,
        )
