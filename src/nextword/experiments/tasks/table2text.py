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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from nextword.evaluation.metrics import Table
from nextword.experiments.tasks.pair_task import PairEncoder
from nextword.experiments.tasks.prompted_texts import PromptedTexts
from nextword.experiments.tasks.small_start import SmallStart, T5StartConfig
from nextword.experiments.tasks.tables_as_text import MARKS, Linearisation, Order, Precomputation
from nextword.experiments.tasks.task import ENCODER_DECODER, Data, Measures, Task, expect_positions, registry
from nextword.experiments.tasks.tokenizers import named_or_trained, with_tokens
from nextword.experiments.tasks.window_likelihood import likelihood_values
from nextword.inference.generation.prompts import Prompt
from nextword.inference.generation.strategies import MAY_CHANGE, Decoding, PromptedDecoding, Texts, WritingConfig
from nextword.inference.scoring.calibrate import tuned
from nextword.inference.scoring.opened_model import Progress
from nextword.inference.scoring.target_likelihood import TokenPair, likelihood_sum, target_log_probs
from nextword.model.training_modes import inference_mode_of
from nextword.results.records import Evaluation
from nextword.runtime.corpora import PARTS
from nextword.runtime.corpora.gap_sentences import MASK, GapConfig, Pair, gap_pairs
from nextword.runtime.corpora.logicnlg import LogicNLG, TableSentence, read_logicnlg
from nextword.runtime.corpora.pairs import sample
from nextword.runtime.corpora.texts import TextParts, read_parts
from nextword.settings.config import Seed, Settings

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

    Encoder = Callable[[PreTrainedTokenizerBase], PairEncoder]

    from nextword.evaluation.metrics.likelihood import LikelihoodSum


# -- What can be set of the task ``table2text``.


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


# -- Sentences about tables as training rows of an encoder-decoder model.


class TableRows(Data):
    """Tables as ``input_ids``, sentences as ``labels``.

    Args:
        samples: The sentences.
        encoder: Makes what turns pairs into ids, by tokenizer.
        further: Text for the start alone, of each paragraph of which a sentence is taken out; ``None``: there is none.
    """

    def __init__(
        self,
        samples: TableSamples,
        encoder: Callable[[PreTrainedTokenizerBase], PairEncoder],
        further: TextParts | None,
    ) -> None:
        self.samples, self._encoder, self._further = samples, encoder, further
        self._gaps = [] if further is None else list(gap_pairs(further.train, GapConfig(), seed=0))

    def whole_text(self) -> str:
        """Everything that models are trained on; of each table the columns of one sentence, without marks."""
        train = self.samples.train
        tables = list({one.table.name: one for one in train}.values())
        cells = [[word for word in pair.source.split() if word not in MARKS] for pair in self.samples.pairs(tables)]
        texts = [*map(" ".join, cells), *(one.sentence for one in train), *(pair.text for pair in self._gaps)]
        return "\n".join(texts)

    def describe(self) -> dict[str, int | float | str]:
        """What the samples say, and where the further text is from."""
        described = self.samples.describe()
        if self._further is not None:
            described |= {
                "start_source": self._further.source,
                "start_sha256": self._further.sha256,
                "start_pairs": len(self._gaps),
            }
        return described

    def training(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """The training sentences."""
        return self._rows(self.samples.pairs(self.samples.train), tokenizer)

    def validation(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """The validation sentences."""
        return self._rows(self.samples.pairs(self.samples.validation), tokenizer)

    def start_rows(self, tokenizer: PreTrainedTokenizerBase) -> Dataset:
        """The training sentences, and those taken out of the further text."""
        return self._rows([*self.samples.pairs(self.samples.train), *self._gaps], tokenizer)

    def test_text(self) -> str:
        """All test sentences."""
        return "\n".join(one.sentence for one in self.samples.available.test)

    def _rows(self, pairs: Sequence[Pair], tokenizer: PreTrainedTokenizerBase) -> Dataset:
        from datasets import Dataset

        encoded = self._encoder(tokenizer)(pairs)
        return Dataset.from_dict(
            {"input_ids": [pair.source.ids for pair in encoded], "labels": [pair.target.ids for pair in encoded]}
        )


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
        self.samples = TableSamples(read_logicnlg(Path(config.data)), config.sizes, config.seed, linearised)
        further = None if config.start.data is None else read_parts(config.start.data, "task.start.data")
        self.data = data = TableRows(self.samples, self._encoder, further)
        self.start = TableStart(data, config, self._encoder)
        self.measures = SentenceLikelihood(self.samples, self._encoder, config)
        texts = config.generation.texts()
        if texts is not None:
            size, longest = config.generation.batch_size, config.max_target_tokens
            self.writes = PromptedTexts(texts, self._prompts, size, config.batch_size, longest=longest)

    def check(self, model_config: Any, tokenizer: PreTrainedTokenizerBase) -> None:
        """The tokenizer must end sequences; the model must hold the lengths and begin targets."""
        if all(getattr(model_config, name, None) is None for name in ("decoder_start_token_id", "bos_token_id")):
            raise ValueError(
                "the start model's config.json says neither decoder_start_token_id nor bos_token_id, so nobody knows "
                "what its targets begin with; set decoder_start_token_id (in T5 the padding token)"
            )
        names = ("max_source_tokens", "max_target_tokens")
        expect_positions(model_config, {name: getattr(self.config, name) for name in names})
        self._encoder(tokenizer)

    def _encoder(self, tokenizer: PreTrainedTokenizerBase) -> PairEncoder:
        """What turns pairs into ids."""
        return PairEncoder(tokenizer, self.config.max_source_tokens, self.config.max_target_tokens)

    def _prompts(self, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[Prompt]]:
        """A prompt for each of the first test sentences, with the whole table, which judges read."""
        sentences = self.samples.test[: self.config.generation.sentences]
        pairs = self.samples.pairs(sentences)
        encoded = [pair.tokens for pair in self._encoder(tokenizer)(pairs)]
        return {
            "": [
                Prompt(
                    tokens.context, tokens.target, tokens.target_bytes, number, source=pair.source,
                    references=tuple(self.samples.references(one)), columns={"table": _table(one)},
                )
                for number, (one, pair, tokens) in enumerate(zip(sentences, pairs, encoded, strict=True))
            ]
        }  # fmt: skip


def _table(one: TableSentence) -> dict[str, Any]:
    return Table(
        header=list(one.table.header), rows=[list(row) for row in one.table.rows], title=one.title
    ).model_dump()


class TableStart(SmallStart):
    """A small T5 whose tokenizer has a token for each mark; a pretrained model's tokenizer gets them too."""

    tokens = MARKS

    def __init__(self, data: TableRows, config: Table2TextConfig, encoder: Encoder) -> None:
        super().__init__(
            lambda: with_tokens(
                named_or_trained(config.tokenizer, data.whole_text, config.vocabulary, config.cache, MASK), MARKS
            ),
            architecture=lambda tokenizer: config.start.architecture(tokenizer, encoder(tokenizer).pad),
            rows=lambda tokenizer, seed: data.start_rows(tokenizer),
            training=config.start.training(),
        )


class SentenceLikelihood(Measures):
    """Likelihood of the test sentences."""

    def __init__(self, samples: TableSamples, encoder: Encoder, config: Table2TextConfig) -> None:
        self._samples, self._encoder, self._config = samples, encoder, config

    def evaluate(self, model: Any, tokenizer: PreTrainedTokenizerBase, progress: Progress | None = None) -> Evaluation:
        """Nats, perplexity and bits per byte of the sentences."""
        with inference_mode_of(model):
            total = self._likelihood(model, self._tokens(self._samples.test, tokenizer), progress)
        return Evaluation(metrics=likelihood_values(total, "target token", "targets"))

    def tune(self, model: Any, tokenizer: PreTrainedTokenizerBase) -> dict[str, float | None]:
        """Temperature and weight of a cache, by the likelihood of the first validation sentences."""
        tokens = self._tokens(self._samples.validation[: self._config.tuning_sentences], tokenizer)
        return tuned(model, lambda: self._likelihood(model, tokens))

    def _tokens(self, sentences: Sequence[TableSentence], tokenizer: PreTrainedTokenizerBase) -> list[TokenPair]:
        return [pair.tokens for pair in self._encoder(tokenizer)(self._samples.pairs(sentences))]

    def _likelihood(self, model: Any, pairs: Sequence[TokenPair], progress: Progress | None = None) -> LikelihoodSum:
        log_probs = target_log_probs(model, pairs, self._config.batch_size, progress=progress)
        return likelihood_sum(pairs, (float((-row).sum()) for row in log_probs))


# -- The sentences about tables that a task uses: of each part at most so many, always the same ones for a seed.


class TableSamples:
    """Sentences in three parts, each cut to a size.

    Args:
        available: All sentences.
        sizes: How many to train, validate and test on at most; ``None``: all.
        seed: Of the samples.
        linearised: Writes the table of a sentence as text.

    Attributes:
        train: Sentences that are trained on.
        validation: Those that validate.
        test: Those that test.
    """

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

    def pairs(self, sentences: Sequence[TableSentence]) -> list[Pair]:
        """Table and sentence; white space of both is single, as in PLOG."""
        return [Pair(self._linearised(one), " ".join(one.sentence.split())) for one in sentences]

    def references(self, one: TableSentence) -> list[str]:
        """What people wrote about the table of a test sentence: this sentence first, then the others."""
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
