"""From a table to a sentence that follows from it: LogicNLG.

The data is LogicNLG's own files. A sentence says which columns it is about, and a model reads these columns as text
with marks, and with ranks, sums and averages that were computed beforehand, as in PLOG:

    <table> <caption> olympic games </caption> <sum_cell> 1589 <col_header> seats </col_header> </sum_cell> ...
    <cell> 589 <col_header> seats </col_header> <row_idx> 0 </row_idx> <max_rank> 2 </max_rank> ... </cell> ... </table>

Source: Wan, Zhang and Bansal, "HistAlign: Improving Context Dependency in Language Generation by Aligning with History"
(EMNLP 2023), section 6.4 and appendix A.4, which follows PLOG (Liu et al., EMNLP 2022).
"""

from __future__ import annotations

from collections import defaultdict
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


# -- What can be set of the task ``table2text``.


class TableTextsConfig(WritingConfig):
    """What is written in place of the test sentences, and how it is measured."""

    sentences: int | None = Field(default=None, ge=0)
    """Test sentences, from the first, in whose place one is written; None: all; 0: none."""
    decodings: list[Decoding] = Field(default=[Decoding(beams=4)], min_length=1)
    """Ways to write; PLOG's is a search with four beams."""
    metrics: list[str | dict[str, Any]] = Field(default=["bleu-logicnlg"], min_length=1)
    """Metrics of the texts, as for nextword evaluate; may change later. Model-based metrics need a model or parser:
    {metric = "tapex", model = "FOLDER"}, and so tapas and nli; {metric = "sp", parser = "module:function"}."""

    def texts(self) -> Texts | None:
        """What a comparison must know of it; ``None``: no texts."""
        return None if self.sentences == 0 else self.texts_after("")


class TableStartConfig(T5StartConfig):
    """The small T5 that all methods start from where no pretrained model is given."""

    data: str | None = None
    """Further text to train it on beside the training sentences, as for the task lm: of each of its paragraphs a
    sentence is taken out, and to be written."""


class Table2TextConfig(Settings):
    """What can be set; ``data`` must be."""

    data: str
    """A folder with LogicNLG's own files: train_lm.json, val_lm.json, test_lm.json and all_csv."""
    precomputation: Precomputation = "complete"
    """What is computed of the columns: ranks, sums and averages wherever they make sense ("complete"), what PLOG's
    released code computes ("published"), or nothing ("none")."""
    order: Order = "row"
    """Whether cells come row by row, as in PLOG's commands, or column by column."""
    seed: Seed = 0
    """Seed of the samples below."""
    train_sentences: int | None = Field(default=None, ge=1)
    """Training sentences at most, a sample; None: all."""
    validation_sentences: int | None = Field(default=500, ge=1)
    """Validation sentences at most."""
    test_sentences: int | None = Field(default=None, ge=2)
    """Test sentences at most; references are all sentences of a table even so."""
    tuning_sentences: int = Field(default=100, ge=1)
    """Validation sentences on which a cache's temperature and weight are chosen."""
    max_source_tokens: int = Field(default=500, ge=8)
    """Longer tables are cut off at the end."""
    max_target_tokens: int = Field(default=200, ge=8)
    """Longer sentences are cut off at the end; a written one has at most so many tokens."""
    tokenizer: str | None = None
    """Path or hub name of a tokenizer; None: a byte-level BPE is trained on what models are trained on."""
    vocabulary: int = Field(default=8000, ge=259)
    """Tokens of the trained BPE, without the marks around the parts of a table."""
    cache: str | None = None
    """Folder in which trained tokenizers are kept; None: trained again in each run (seconds)."""
    batch_size: int = Field(default=32, ge=1)
    """Sentences at a time in measurements."""
    generation: TableTextsConfig = TableTextsConfig()
    """Texts that every method writes."""
    start: TableStartConfig = TableStartConfig()
    """The start model where no pretrained one is given."""


# -- Sentences about tables as training rows of an encoder-decoder model.


class TableRows(PairRows):
    """Tables as ``input_ids``, sentences as ``labels``; the start learns sentences of a further text too."""

    pairs: TableSamples

    def whole_text(self) -> str:
        """Everything that models are trained on; of each table the columns of one sentence, without marks."""
        train = self.pairs.train
        tables = list({one.table.name: one for one in train}.values())
        cells = [[word for word in pair.source.split() if word not in MARKS] for pair in self.pairs.as_text(tables)]
        texts = [*map(" ".join, cells), *(one.sentence for one in train), *(pair.text for pair in self._first.pairs)]
        return "\n".join(texts)

    def start_rows(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """The training sentences, and those taken out of the further text."""
        return super()._rows([*self.pairs.as_text(self.pairs.train), *self._first.pairs], tokenizer)

    def test_text(self) -> str:
        """All test sentences."""
        return "\n".join(one.sentence for one in self.pairs.available.test)

    def _rows(self, pairs: Sequence[TableSentence], tokenizer: PreTrainedTokenizerBase) -> Dataset:
        return super()._rows(self.pairs.as_text(pairs), tokenizer)


# -- From a table to a sentence that follows from it.


@registry.register("table2text")
class TableToText(Task):
    """Sentences that encoder-decoder models write from tables: likelihood, BLEU. See docs/tasks/table2text.md."""

    name = "table2text"
    version = 1
    Config = Table2TextConfig
    architecture = ENCODER_DECODER
    may_change = MAY_CHANGE
    # for the small start on two CPU cores; a pretrained one has the rates of FineTuning
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
        self.start.tokens = MARKS  # a pretrained model's tokenizer gets them too
        self.measures = TargetLikelihood(self._tokens, config.batch_size, config.tuning_sentences)
        texts = config.generation.texts()
        if texts is not None:
            size, longest = config.generation.batch_size, config.max_target_tokens
            self.writes = PromptedTexts(texts, self._prompts, size, config.batch_size, longest=longest)

    def check(self, model_config: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        """The tokenizer must end sequences; the model must hold the lengths and begin targets."""
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
            table = Table(header=list(one.table.header), rows=rows, title=one.title)  # judges read all of it
            prompt = Prompt(
                **vars(ids.tokens), number=number, source=pair.source,
                references=tuple(self.samples.references(one)), columns={"table": table.model_dump()},
            )  # fmt: skip
            prompts.append(prompt)
        return {"": prompts}


def _start_pairs(data: str | None) -> StartPairs:
    # sentences taken out of the paragraphs of task.start.data
    if data is None:
        return StartPairs()
    further = read_parts(data, "task.start.data")
    pairs = list(gap_pairs(further.train, GapConfig(), seed=0))
    return StartPairs(
        pairs, {"start_source": further.source, "start_sha256": further.sha256, "start_pairs": len(pairs)}
    )


# -- The sentences about tables that a task uses: of each part at most so many, always the same ones for a seed.


class TableSamples:
    """Sentences in three parts, ``train``, ``validation`` and ``test``, each cut to a size."""

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
        self._by_table: dict[str, list[str]] = defaultdict(list)
        for one in available.test:
            self._by_table[one.table.name].append(one.sentence)

    def as_text(self, sentences: Sequence[TableSentence]) -> list[Pair]:
        """Table and sentence; white space of both is single, as in PLOG."""
        return [Pair(self._linearised(one), " ".join(one.sentence.split())) for one in sentences]

    def references(self, one: TableSentence) -> list[str]:
        """The human references for the table of a test sentence: this sentence first, then the others."""
        others = list(self._by_table[one.table.name])
        others.remove(one.sentence)
        return [one.sentence, *others]

    def describe(self) -> dict[str, int | float | str]:
        """Sizes, checksum, and how many test sentences are about a table, or say a sentence, that training has."""
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
