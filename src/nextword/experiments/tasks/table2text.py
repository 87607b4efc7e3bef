"""LogicNLG: generate a sentence that follows from a table.

The data is LogicNLG's original files. Each sentence has a list of the columns that it is about. A model reads these
columns as text with markup, and with their ranks, sums and averages, as in PLOG:

    <table> <caption> olympic games </caption> <sum_cell> 1589 <col_header> seats </col_header> </sum_cell> ...
    <cell> 589 <col_header> seats </col_header> <row_idx> 0 </row_idx> <max_rank> 2 </max_rank> ... </cell> ... </table>

Source: Wan, Zhang and Bansal, "HistAlign: Improving Context Dependency in Language Generation by Aligning with History"
(EMNLP 2023), section 6.4 and appendix A.4, which follows PLOG (Liu et al., EMNLP 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from nextword.evaluation.metrics import Table
from nextword.experiments.tasks.pair_measures import TargetLikelihood
from nextword.experiments.tasks.pair_task import PairEncoder, PairRows, StartPairs, expect_pair_model
from nextword.experiments.tasks.prompted_texts import PromptedTexts
from nextword.experiments.tasks.small_start import SmallStart, T5StartConfig
from nextword.experiments.tasks.tables_as_text import MARKS, Linearisation, Order, Precomputation
from nextword.experiments.tasks.task import ENCODER_DECODER, Task, registry
from nextword.experiments.tasks.tokenizers import named_or_trained, with_tokens
from nextword.experiments.tasks.writing import MAY_CHANGE, Texts, WritingConfig
from nextword.inference.generation.prompts import Prompt
from nextword.inference.generation.strategies import Decoding
from nextword.inference.scoring.likelihood import TokenPair
from nextword.runtime.corpora import PARTS
from nextword.runtime.corpora.gap_sentences import MASK, GapConfig, Pair, gap_pairs
from nextword.runtime.corpora.logicnlg import LogicNLG, TableSentence, read_logicnlg
from nextword.runtime.corpora.pairs import sample
from nextword.runtime.corpora.texts import read_parts
from nextword.settings.config import Seed, Settings

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase


# -- The settings of the task ``table2text``.


class TableTextsConfig(WritingConfig):
    """Settings for generating a sentence from the table of each test sentence, and for the metrics of these texts."""

    sentences: int | None = Field(default=None, ge=0)
    """Number of test sentences, from the first, for which a sentence is generated; none: all; 0: generate no texts."""
    decodings: list[Decoding] = Field(default=[Decoding(beams=4)], min_length=1)
    """Decodings. PLOG uses beam search with four beams."""
    metrics: list[str | dict[str, Any]] = Field(default=["bleu-logicnlg"], min_length=1)
    """Metrics of the generated texts, as for nextword evaluate. They may be changed after the comparison has finished.
    A model-based metric names a model or parser: {metric = "tapex", model = "FOLDER"} (also tapas and nli), {metric =
    "sp", parser = "module:function"}."""

    def texts(self) -> Texts | None:
        """Decodings and metrics of the generated sentences; ``None`` if ``sentences`` is 0."""
        return None if self.sentences == 0 else self.texts_after("")


class TableStartConfig(T5StartConfig):
    """Settings of the small initial T5, which is used if no pretrained model is given."""

    data: str | None = None
    """Training text besides the training sentences: a file or folder as for the task lm. A sentence is removed from
    each paragraph, and the model learns to generate it."""


class Table2TextConfig(Settings):
    """Settings of the task ``table2text``; ``data`` is required."""

    data: str
    """A folder with LogicNLG's original files: train_lm.json, val_lm.json, test_lm.json and all_csv."""
    precomputation: Precomputation = "complete"
    """Precomputed facts of the columns: ranks, sums and averages of all suitable columns ("complete"), those of PLOG's
    released code ("published"), or none ("none")."""
    order: Order = "row"
    """Order of the cells: row by row, as in PLOG's commands, or column by column."""
    seed: Seed = 0
    """Seed of the samples."""
    train_sentences: int | None = Field(default=None, ge=1)
    """Maximum number of training sentences, sampled at random; none: all."""
    validation_sentences: int | None = Field(default=500, ge=1)
    """Maximum number of validation sentences."""
    test_sentences: int | None = Field(default=None, ge=2)
    """Maximum number of test sentences. The references are always all sentences of a table."""
    tuning_sentences: int = Field(default=100, ge=1)
    """Number of validation sentences for choosing a cache's temperature and weight."""
    max_source_tokens: int = Field(default=500, ge=8)
    """Maximum tokens of a table. Longer tables are truncated at the end."""
    max_target_tokens: int = Field(default=200, ge=8)
    """Maximum tokens of a target sentence, which is otherwise truncated at the end, and of a generated sentence."""
    tokenizer: str | None = None
    """Path or hub name of a tokenizer; none: train a byte-level BPE on all training text."""
    vocabulary: int = Field(default=8000, ge=259)
    """Vocabulary size of the trained BPE, without the markup tokens of tables."""
    cache: str | None = None
    """Folder for trained tokenizers; none: train one in each run (seconds)."""
    batch_size: int = Field(default=32, ge=1)
    """Batch size of the measurements, in sentences."""
    generation: TableTextsConfig = TableTextsConfig()
    """Texts that every method generates."""
    start: TableStartConfig = TableStartConfig()
    """The small initial model, used if no pretrained model is given."""


# -- Sentences about tables, as training rows of an encoder-decoder model.


class TableRows(PairRows):
    """Training rows, each with a table as ``input_ids`` and a sentence that follows from it as ``labels``."""

    pairs: TableSamples

    def whole_text(self) -> str:
        """Training sentences, additional text, and from each training table the columns that one sentence is about."""
        train = self.pairs.train
        tables = list({one.table.name: one for one in train}.values())
        cells = [[word for word in pair.source.split() if word not in MARKS] for pair in self.pairs.as_text(tables)]
        texts = [*map(" ".join, cells), *(one.sentence for one in train), *(pair.text for pair in self._first.pairs)]
        return "\n".join(texts)

    def start_rows(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """Training rows, and rows of additional text: a paragraph with a masked sentence, and the sentence as label."""
        return super()._rows([*self.pairs.as_text(self.pairs.train), *self._first.pairs], tokenizer)

    def test_text(self) -> str:
        """All test sentences, as one text."""
        return "\n".join(one.sentence for one in self.pairs.available.test)

    def _rows(self, pairs: Sequence[TableSentence], tokenizer: PreTrainedTokenizerBase) -> Dataset:
        return super()._rows(self.pairs.as_text(pairs), tokenizer)


# -- The task: from a table to a sentence that follows from it.


@registry.register("table2text")
class TableToText(Task):
    """Encoder-decoder models generate sentences from tables: likelihood, BLEU. See docs/tasks/table2text.md."""

    name = "table2text"
    version = 1
    Config = Table2TextConfig
    architecture = ENCODER_DECODER
    may_change = MAY_CHANGE
    # for the small model on two CPU cores; a pretrained model has the learning rates of FineTuning
    training_defaults: ClassVar[dict[str, Any]] = {
        "steps": 200, "batch_size": 16, "learning_rate": 2e-3, "freeze_output_embeddings": False,
    }  # fmt: skip
    data: TableRows

    def __init__(self, config: Table2TextConfig) -> None:
        self.config = config
        linearised = Linearisation(config.precomputation, config.order)
        sizes = config.train_sentences, config.validation_sentences, config.test_sentences
        self.samples = TableSamples(read_logicnlg(Path(config.data)), sizes, config.seed, linearised)
        self.data = data = TableRows(self.samples, self._encoder, _start_pairs(config.start.data))
        self.start = SmallStart(
            lambda: with_tokens(
                named_or_trained(config.tokenizer, data.whole_text, config.vocabulary, config.cache, MASK), MARKS
            ),
            architecture=lambda tokenizer: config.start.architecture(tokenizer, self._encoder(tokenizer).pad),
            rows=lambda tokenizer, seed: data.start_rows(tokenizer),
            training=config.start.training(),
        )
        self.start.tokens = MARKS  # these tokens are also added to a pretrained model's tokenizer
        self.measures = TargetLikelihood(self._tokens, config.batch_size, config.tuning_sentences)
        texts = config.generation.texts()
        if texts is not None:
            size, longest = config.generation.batch_size, config.max_target_tokens
            self.writes = PromptedTexts(texts, self._prompts, size, config.batch_size, longest=longest)

    def check(self, model_config: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        """Raise ValueError if the tokenizer has no end token, or the model no start token or too few positions."""
        expect_pair_model(model_config, self.config)
        self._encoder(tokenizer)

    def _encoder(self, tokenizer: PreTrainedTokenizerBase) -> PairEncoder:
        return PairEncoder(tokenizer, self.config.max_source_tokens, self.config.max_target_tokens)

    def _tokens(self, tokenizer: PreTrainedTokenizerBase, part: str, count: int | None) -> list[TokenPair]:
        pairs = self.samples.as_text(getattr(self.samples, part)[:count])
        return [pair.tokens for pair in self._encoder(tokenizer)(pairs)]

    def _prompts(self, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Prompt]]:
        sentences = self.samples.test[: self.config.generation.sentences]
        pairs = self.samples.as_text(sentences)
        prompts = []
        for number, (one, pair, ids) in enumerate(zip(sentences, pairs, self._encoder(tokenizer)(pairs), strict=True)):
            rows = [list(row) for row in one.table.rows]
            table = Table(header=list(one.table.header), rows=rows, title=one.title)  # model-based metrics read it all
            prompt = Prompt(
                **vars(ids.tokens), number=number, source=pair.source,
                references=tuple(self.samples.references(one)), columns={"table": table.model_dump()},
            )  # fmt: skip
            prompts.append(prompt)
        return {"": prompts}


def _start_pairs(data: str | None) -> StartPairs:
    # sentences removed from the paragraphs of task.start.data
    if data is None:
        return StartPairs()
    further = read_parts(data, "task.start.data")
    pairs = list(gap_pairs(further.train, GapConfig(), seed=0))
    return StartPairs(
        pairs, {"start_source": further.source, "start_sha256": further.sha256, "start_pairs": len(pairs)}
    )


# -- The sentences that a task uses. Each split has a maximum number; the seed determines which sentences are used.


class TableSamples:
    """Sentences in three splits, ``train``, ``validation`` and ``test``, each sampled down to its size in ``sizes``."""

    def __init__(
        self,
        available: LogicNLG,
        sizes: tuple[int | None, int | None, int | None],
        seed: int,
        linearised: Linearisation,
    ) -> None:
        self.available, self._linearised = available, linearised
        self.train, self.validation, self.test = (
            sample(getattr(available, part), size, seed) for part, size in zip(PARTS, sizes, strict=True)
        )

    def as_text(self, sentences: Sequence[TableSentence]) -> list[Pair]:
        """For each sentence, a pair of its table as text and the sentence. White space is collapsed, as in PLOG."""
        return [Pair(self._linearised(one), one.target) for one in sentences]

    def references(self, one: TableSentence) -> list[str]:
        """All test sentences about the table of the test sentence ``one``. The first is ``one`` itself."""
        return [one.sentence, *(other.sentence for other in self.available.others(one))]

    def describe(self) -> dict[str, int | float | str]:
        """Sizes, checksum, and the numbers of test sentences whose table, or whose text, is in the training data."""
        sizes: dict[str, int | float | str] = {}
        for part in PARTS:
            available = getattr(self.available, part)
            sizes[f"{part}_sentences"] = len(getattr(self, part))
            sizes[f"{part}_sentences_available"] = len(available)
            sizes[f"{part}_tables_available"] = len({one.table.name for one in available})
        tables = {_cells(one) for one in self.available.train}
        sentences = {one.sentence for one in self.available.train}
        return {
            "source": self.available.source,
            "sha256": self.available.sha256,
            "split": "files",
            **sizes,
            "leak_tables": sum(_cells(one) in tables for one in self.available.test),
            "leak_sentences": sum(one.sentence in sentences for one in self.available.test),
        }


def _cells(one: TableSentence) -> Any:
    return one.table.header, one.table.rows
