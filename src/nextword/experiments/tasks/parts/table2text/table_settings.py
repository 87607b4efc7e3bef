"""What can be set of the task ``table2text``."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from nextword.experiments.tasks.parts.seq2seq.t5_start import T5StartConfig
from nextword.experiments.tasks.parts.table2text.column_facts import Precomputation
from nextword.experiments.tasks.parts.table2text.linearisation import Order
from nextword.inference.generation.strategies import Decoding, PromptedDecoding
from nextword.inference.generation.writing_settings import Texts, WritingConfig
from nextword.settings.config import Seed, Settings


class TableTextsConfig(WritingConfig):
    """What is written in place of the test sentences, and how it is measured."""

    sentences: int | None = Field(default=None, ge=0)
    """Test sentences, from the first, in whose place one is written; None: all; 0: none."""
    decodings: list[Decoding] = Field(default=[Decoding(beams=4)], min_length=1)
    """Ways to write; PLOG's is a search with four beams."""
    metrics: list[str | dict[str, Any]] = Field(default=["bleu-logicnlg"], min_length=1)
    """Metrics of the texts, as for nextword evaluate; may change later. Judges want a model or parser each:
    {metric = "tapex", model = "FOLDER"}, and so tapas and nli; {metric = "sp", parser = "module:function"}."""

    def texts(self) -> Texts | None:
        """What a comparison must know of it; ``None``: no texts."""
        if self.sentences == 0:
            return None
        ways = tuple(PromptedDecoding(decoding) for decoding in self.decodings)
        return Texts(ways, tuple(self.metrics), None if self.wins is None else tuple(self.wins), self.examples)


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

    @property
    def sizes(self) -> tuple[int | None, int | None, int | None]:
        """Sentences to train, validate and test on at most."""
        return self.train_sentences, self.validation_sentences, self.test_sentences
