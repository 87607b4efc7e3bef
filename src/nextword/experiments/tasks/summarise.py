"""Summarisation: likelihood of the human summaries, and metrics of generated summaries.

The data is pairs in the format of XSum, CNN/DailyMail, SAMSum, DialogSum, BookSum or SQuALITY, or your own pairs:

    {"document": "The full cost of damage in Newton Stewart is still being assessed. ...",
     "summary": "Clean-up operations are continuing across the Scottish Borders."}

Sources: HistAlign (Wan, Zhang and Bansal, 2023), table 5; Softmax-CPR (Chang et al., 2023), figure 4.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from nextword.experiments.tasks.pair_measures import PairLikelihood
from nextword.experiments.tasks.pair_task import PairSamples, PairTask, PairTaskConfig, StartPairs, source_prompts
from nextword.experiments.tasks.prompted_texts import PromptedTexts
from nextword.experiments.tasks.small_start import T5StartConfig
from nextword.experiments.tasks.task import registry
from nextword.experiments.tasks.writing import MAY_CHANGE, Texts, WritingConfig
from nextword.inference.generation.prompts import Prompt
from nextword.inference.generation.strategies import Decoding
from nextword.runtime.corpora import is_text, open_corpus
from nextword.runtime.corpora.articles import ARTICLES
from nextword.runtime.corpora.gap_sentences import GapConfig, gap_pairs
from nextword.runtime.corpora.pairs import read_pairs

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


# -- The settings of the small initial model and of the summaries that methods generate.

METRICS: tuple[str | dict[str, Any], ...] = ("rouge:1,2,l", "cider", "copying")
"""Default metrics, none of which needs a model. Figure 4 of the Softmax-CPR paper also has mauve and factcc; table 5 of
the HistAlign paper also has entities, factcc and dae."""


class SummaryStartConfig(T5StartConfig):
    """The small initial T5, used if no pretrained model is given, and its training text."""

    data: list[str] = Field(default=[])
    """Documents besides the training documents: text files, or data sets like task.data, whose training split is used.
    A sentence is removed from each document, and the model learns to generate it."""


class SummaryGenerationConfig(WritingConfig):
    """Settings of the generation from test documents, and its metrics."""

    summaries: int = Field(default=200, ge=0)
    """Number of test documents, from the first document, that each model summarises; 0: none."""
    decodings: list[Decoding] = Field(default=[Decoding(beams=4)], min_length=1)
    """Decodings, such as "beam:B", "greedy" or "top-p:P"."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Maximum tokens of a summary; none: ``task.max_target_tokens``."""
    min_tokens: int = Field(default=0, ge=0)
    """Minimum tokens of a summary. The model cannot end a summary earlier."""
    length_penalty: float = 1.0
    """Beams are ranked by log-probability divided by length to this power. A larger power favours longer summaries."""
    no_repeat_ngram: int = Field(default=0, ge=0)
    """No n-gram of this length may occur twice in a summary; 0: no limit."""
    metrics: list[str | dict[str, Any]] = Field(default=list(METRICS), min_length=1)
    """Metrics of the generated texts, as for nextword evaluate. They may be changed after the comparison has finished.
    A model-based metric names the folder of its model: {metric = "factcc", model = "FOLDER"}."""

    def texts(self) -> Texts | None:
        """The decodings and metrics of a comparison's texts; ``None`` if no texts are generated."""
        return self.texts_after("") if self.summaries else None

    def search(self) -> dict[str, Any]:
        """The limits on tokens and n-grams, and the length penalty, as arguments of transformers' ``generate``."""
        limits: dict[str, Any] = {}
        if self.min_tokens:
            limits["min_new_tokens"] = self.min_tokens
        if self.no_repeat_ngram:
            limits["no_repeat_ngram_size"] = self.no_repeat_ngram
        if any(decoding.beams > 1 for decoding in self.decodings):
            # as in the published configurations of T5 and BART: stop once the number of finished texts equals the beams
            limits |= {"length_penalty": self.length_penalty, "early_stopping": True}
        return limits


# -- The task: from a document to its summary.


class SummariseConfig(PairTaskConfig):
    """Settings of the task; ``data`` is required."""

    data: str
    """A .jsonl file or another table, a folder with one table per split, or the original files of XSum (.summary) or
    CNN/DailyMail (.story)."""
    source_field: str | None = None
    """Field with the document; none: known data sets are recognised by their fields."""
    target_field: str | None = None
    """Field with the summary. A path such as "questions.0.responses[].response_text" may give several summaries."""
    split_field: str | None = None
    """Field of a single file with the split: train, validation or test; none: the field "split" if a known data set has
    it, otherwise a hash of the document."""
    gaps: GapConfig = GapConfig()
    """How sentences are removed from documents to train the small initial model."""
    generation: SummaryGenerationConfig = SummaryGenerationConfig()
    """Summaries that every method generates."""
    start: SummaryStartConfig = SummaryStartConfig()
    """The small initial model, used if no pretrained model is given."""


@registry.register("summarise")
class Summarise(PairTask):
    """Generate summaries (encoder-decoder models): likelihood, ROUGE, CIDEr, copying. See docs/tasks/summarise.md."""

    name = "summarise"
    version = 1
    Config = SummariseConfig
    may_change = MAY_CHANGE
    config: SummariseConfig

    def __init__(self, config: SummariseConfig) -> None:
        super().__init__(config, ARTICLES, lambda pairs: document_pairs(config.start.data, config.gaps, pairs))
        self.measures = PairLikelihood(self.pairs, self._encoder, config)
        self.writes = written_targets(config, self._prompts)

    def _prompts(self, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Prompt]]:
        pairs = self.pairs.test[: self.config.generation.summaries]
        return {"": source_prompts(pairs, [ids.tokens for ids in self._encoder(tokenizer)(pairs)])}


def written_targets(
    config: Any, prompts: Callable[[PreTrainedTokenizerBase], Mapping[str, Sequence[Prompt]]]
) -> PromptedTexts | None:
    """Generates texts after ``prompts`` as ``config.generation`` says; ``None`` if it asks for no texts."""
    generation: SummaryGenerationConfig = config.generation
    texts, longest = generation.texts(), generation.max_tokens or config.max_target_tokens
    if texts is None:
        return None
    sizes = generation.batch_size, config.batch_size
    return PromptedTexts(texts, prompts, *sizes, longest=longest, search=generation.search())


# -- The training of the small initial model: it generates sentences that were removed from documents.


def document_pairs(data: Sequence[str], gaps: GapConfig, pairs: PairSamples) -> StartPairs:
    """Pairs made by removing sentences (PEGASUS) from the training documents and the additional documents in ``data``.

    ``data`` names text files, and data sets that are read and split like the task's data. Of a data set, the training
    split is used.

    Raises:
        ValueError: If a file does not exist, or no document has enough sentences.
    """
    texts = [one_line(pair.source for pair in pairs.train)]
    known = {pair.source for pair in pairs.train}
    for name in data:
        path = Path(name)
        if path.is_file() and is_text(path):
            texts.append("".join(open_corpus(path, "task.start.data")))
            continue
        documents = [pair.source for pair in read_pairs(path, pairs.reading, "task.start.data").train]
        new = [document for document in documents if document not in known]
        known |= set(new)
        texts.append(one_line(new))
    taken_out = [pair for text in texts for pair in gap_pairs(text, gaps, pairs.reading.seed)]
    if not taken_out:
        raise ValueError(
            f"task.start: must have documents with task.gaps.min_sentences ({gaps.min_sentences}) sentences (none "
            "has); give more documents with task.start.data, or lower task.gaps.min_sentences"
        )
    digest = hashlib.sha256()
    for pair in taken_out:
        digest.update(f"{pair.source}\0{pair.target}\0".encode())
    sources = [pairs.available.source, *(f"{Path(name).parent.name}/{Path(name).name}" for name in data)]
    facts: dict[str, int | float | str] = {
        "start_source": ", ".join(sources),
        "start_sha256": digest.hexdigest(),
        "start_pairs": len(taken_out),
        "start_leak_documents": sum(pair.source in known for pair in pairs.available.test),
    }
    return StartPairs(taken_out, facts)


def one_line(documents: Iterable[str]) -> str:
    """Puts each document on one line, so that sentences are adjacent across paragraphs."""
    return "\n".join(" ".join(document.split()) for document in documents)
