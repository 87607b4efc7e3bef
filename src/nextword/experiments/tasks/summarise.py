"""From a document to its summary: likelihood of people's summaries, and what is measured of those that models write.

The data is pairs in the form of XSum, CNN/DailyMail, SAMSum, DialogSum, BookSum or SQuALITY, or of your own:

    {"document": "The full cost of damage in Newton Stewart is still being assessed. ...",
     "summary": "Clean-up operations are continuing across the Scottish Borders."}

Sources: HistAlign (Wan, Zhang and Bansal, 2023), table 5; Softmax-CPR (Chang et al., 2023), figure 4.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from nextword.experiments.tasks.pair_measures import PairLikelihood
from nextword.experiments.tasks.pair_task import PairSamples, PairTask, PairTaskConfig, StartPairs
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


# -- What can be set of the start of the task ``summarise``, and of the summaries that methods write for it.

METRICS: tuple[str | dict[str, Any], ...] = ("rouge:1,2,l", "cider", "copying")
"""Metrics that need no trained model. Softmax-CPR's figure 4 also has mauve and factcc, HistAlign's table 5 also
entities, factcc and dae."""


class SummaryStartConfig(T5StartConfig):
    """The small T5 that all methods start from where no pretrained model is given, and what it is trained on."""

    data: list[str] = Field(default=[])
    """Further documents beside the training documents: data sets like task.data, of which the training documents are
    taken, or text files, which are taken whole. Of all of them sentences are taken out, which it learns to write."""


class SummaryGenerationConfig(WritingConfig):
    """What is written from the test documents, and how it is measured."""

    summaries: int = Field(default=200, ge=0)
    """Number of test documents, from the first, that each model summarises; 0: none."""
    decodings: list[Decoding] = Field(default=[Decoding(beams=4)], min_length=1)
    """Ways to write: "beam:B", "greedy", "top-p:P" and the like."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Longest summary; None: as long as the longest target."""
    min_tokens: int = Field(default=0, ge=0)
    """Shortest summary: before, the model cannot end it."""
    length_penalty: float = 1.0
    """Beams are ranked by their log-probability divided by their length to this power: above 1 favours long ones."""
    no_repeat_ngram: int = Field(default=0, ge=0)
    """No n-gram of this length comes twice in a summary; 0: any may."""
    metrics: list[str | dict[str, Any]] = Field(default=list(METRICS), min_length=1)
    """Metrics of the texts, as for nextword evaluate; may change later. Model-based metrics may be named by
    folder: {metric = "factcc", model = "FOLDER"}."""

    def texts(self) -> Texts | None:
        """What a comparison must know of it; ``None``: no texts."""
        return self.texts_after("") if self.summaries else None

    def search(self) -> dict[str, Any]:
        """Limits of what is written, as arguments of transformers' ``generate``; without limits none."""
        limits: dict[str, Any] = {}
        if self.min_tokens:
            limits["min_new_tokens"] = self.min_tokens
        if self.no_repeat_ngram:
            limits["no_repeat_ngram_size"] = self.no_repeat_ngram
        if any(decoding.beams > 1 for decoding in self.decodings):
            # the published configurations of T5 and BART stop as soon as there are as many ended texts as beams
            limits |= {"length_penalty": self.length_penalty, "early_stopping": True}
        return limits


# -- From a document to its summary.


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
        pairs = self.pairs.test[: self.config.generation.summaries]
        encoded = self._encoder(tokenizer)(pairs)
        return {
            "": [
                Prompt(**vars(ids.tokens), number=number, source=pair.source, references=pair.references)
                for number, (pair, ids) in enumerate(zip(pairs, encoded, strict=True))
            ]
        }


# -- What the start of task ``summarise`` learns: to write the sentences that were taken out of documents.


def document_pairs(data: Sequence[str], gaps: GapConfig, pairs: PairSamples) -> StartPairs:
    """Gap sentences (PEGASUS) of the training documents and of further ones; no test document is among them.

    ``data`` are text files, which are taken whole, and data sets, which are read and split as the task's, and of which
    the training documents are taken.

    Raises:
        ValueError: Nothing there, or no document has enough sentences.
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
            f"task.start: no document has task.gaps.min_sentences ({gaps.min_sentences}) sentences; give more "
            f"documents with task.start.data, or a smaller number"
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
    """Each document as a line, so that the sentences of all of its paragraphs are neighbours."""
    return "\n".join(" ".join(document.split()) for document in documents)
