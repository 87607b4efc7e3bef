"""From a document to its summary: likelihood of people's summaries, and what is measured of those that models write.

The data is pairs in the form of XSum, CNN/DailyMail, SAMSum, DialogSum, BookSum or SQuALITY, or of your own:

    {"document": "The full cost of damage in Newton Stewart is still being assessed. ...",
     "summary": "Clean-up operations are continuing across the Scottish Borders."}

Sources: HistAlign (Wan, Zhang and Bansal, 2023), table 5; Softmax-CPR (Chang et al., 2023), figure 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nextword.experiments.tasks.parts.prompted_texts import PromptedTexts
from nextword.experiments.tasks.parts.seq2seq.pair_likelihood import PairLikelihood
from nextword.experiments.tasks.parts.seq2seq.pair_task import PairTask, PairTaskConfig
from nextword.experiments.tasks.parts.summarise.document_start import document_pairs
from nextword.experiments.tasks.parts.summarise.summary_settings import SummaryGenerationConfig, SummaryStartConfig
from nextword.experiments.tasks.task import registry
from nextword.inference.generation.prompts import Prompt
from nextword.inference.generation.writing_settings import MAY_CHANGE
from nextword.runtime.corpora.bbc_articles import ARTICLES
from nextword.runtime.corpora.gap_sentences import GapConfig

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class SummariseConfig(PairTaskConfig):
    """What can be set; ``data`` must be."""

    data: str
    """A .jsonl file, a folder with one for each part, other tables in their place, or the original files of XSum
    (.summary) or CNN/DailyMail (.story)."""
    source_field: str | None = None
    """Field that holds the document; None: recognised by the fields that there are."""
    target_field: str | None = None
    """Field that holds the summary; a path such as "questions.0.responses[].response_text" may lead to several."""
    split_field: str | None = None
    """Field of one file that says train, validation or test; None: "split" where there is such a field and the data set
    is recognised, otherwise the file is split by a hash of the document."""
    gaps: GapConfig = GapConfig()
    """How sentences are taken out of documents for the start."""
    generation: SummaryGenerationConfig = SummaryGenerationConfig()
    """Summaries that every method writes."""
    start: SummaryStartConfig = SummaryStartConfig()
    """The start model where no pretrained one is given."""


@registry.register("summarise")
class Summarise(PairTask):
    """Summaries written by encoder-decoder models: likelihood, ROUGE, CIDEr, copying. See docs/tasks/summarise.md."""

    name = "summarise"
    version = 1
    Config = SummariseConfig
    may_change = MAY_CHANGE
    config: SummariseConfig

    def __init__(self, config: SummariseConfig) -> None:
        super().__init__(config, ARTICLES, lambda pairs: document_pairs(config.start.data, config.gaps, pairs))
        self.measures = PairLikelihood(self.pairs, self._encoder, config)
        texts = config.generation.texts()
        if texts is not None:
            self.writes = PromptedTexts(
                texts,
                self._prompts,
                config.generation.batch_size,
                config.batch_size,
                longest=config.generation.max_tokens or config.max_target_tokens,
                search=config.generation.search(),
            )

    def _prompts(self, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Prompt]]:
        """The first test documents, as far as the model reads them, with all that people wrote of them."""
        pairs = self.pairs.test[: self.config.generation.summaries]
        encoded = self._encoder(tokenizer)(pairs)
        return {
            "": [
                Prompt(**vars(ids.tokens), number=number, source=pair.source, references=pair.references)
                for number, (pair, ids) in enumerate(zip(pairs, encoded, strict=True))
            ]
        }
