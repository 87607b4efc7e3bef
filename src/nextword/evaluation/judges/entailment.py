"""Metrics that count how many texts a classifier takes to follow from what they were written about."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from jaxtyping import Bool, Float
from pydantic import Field

from nextword.evaluation.judges.checkpoints import Encoded, is_blank, note_on_empty
from nextword.evaluation.judges.classifier import (
    Classifier,
    ClassifierAnswers,
    ClassifierConfig,
    Evidence,
    InputForm,
    Question,
)
from nextword.evaluation.judges.sentences import sentences_of
from nextword.evaluation.judges.tables import (
    READERS,
    Cells,
    is_empty,
    note_on_cells,
    row_form,
    sentence_form,
    tapex_form,
)
from nextword.evaluation.metrics import Metric, MetricConfig, Sample, Score, Setup, Table, metric, registry
from nextword.results.records import Goal, Measure


class TableConfig(ClassifierConfig):
    """Settings of a metric that asks a classifier about tables."""

    cells: Cells = "text"
    """How cells are read: "text", as they stand in the sample, or "pandas", as the scripts of LogicNLG and PLOG do."""


class Entailment(Metric):
    """Asks a classifier about every text, in one claim or several.

    A text is consistent if every claim of it is. An empty text is wrong, since a system that writes nothing would be
    the best one otherwise. A text has no value where there is no evidence, or where it claims nothing that is asked
    about.
    """

    title: ClassVar[str]
    """Heading."""
    asks: ClassVar[str]
    """What is asked, for the reader of a report: "the classifier {asks}"."""
    group, decimals = metric.FAITHFULNESS, 2
    goal: ClassVar[Goal | None] = "higher"
    nameless_label: ClassVar[int | None] = None
    """The output that means "consistent" in checkpoints whose outputs have no names."""

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._classifier = Classifier(self.config, self.form(), setup, self.nameless_label)
        self._questions: list[list[Question]] = []
        self._empty: list[bool] = []

    @classmethod
    def on_request(cls) -> str | None:
        """It asks a classifier that must be named."""
        return "asks a classifier (its setting model): name it to have it measured"

    @abstractmethod
    def evidence(self, sample: Sample) -> Evidence:
        """What the text was written about.

        Raises:
            MissingFieldError: The sample lacks a field.
        """

    def claims(self, text: str) -> list[str]:
        """What is asked about, of a text that is not empty."""
        return [text]

    def form(self) -> InputForm:
        """How a question is written down for the model."""
        return InputForm()

    def add(self, sample: Sample) -> None:
        """Reads evidence and text."""
        evidence, text = self.evidence(sample), sample.need("text", self.config.metric)
        given = not (is_empty(evidence) if isinstance(evidence, Table) else is_blank(evidence))
        self._empty.append(given and is_blank(text))
        asked = self.claims(text) if given and not is_blank(text) else []
        self._questions.append([(evidence, claim) for claim in asked])

    def result(self) -> dict[str, Score]:
        """The share of consistent texts, and the mean probability (of the least probable claim of each text)."""
        name, answers = self.config.metric, self.answers()
        share = self.measure(
            self.title,
            "fraction of texts",
            f"{self.title}: share of texts of which the classifier ({self.described()}) {self.asks}; an empty text "
            "counts as wrong.",
        )
        probability = self.measure(
            f"{self.title}, probability",
            "probability",
            f"{self.title}: mean probability with which the classifier ({self.described()}) {self.asks}; 0 for an "
            "empty text.",
            decimals=3,
        )
        least = [float(one.probabilities.min()) if one else None for one in answers]
        return {
            name: self.score(share, [float(one.chosen.all()) if one else None for one in answers]),
            f"{name}-probability": self.score(probability, least),
        }

    def answers(self) -> list[ClassifierAnswers | None]:
        """For each sample the answers to its questions; None where nothing was asked."""
        flat = [question for questions in self._questions for question in questions]
        if not flat:
            return [None for _ in self._questions]
        found = self._classifier.ask(flat)
        ends = np.cumsum([len(questions) for questions in self._questions])
        chosen, probabilities = np.split(found.chosen, ends[:-1]), np.split(found.probabilities, ends[:-1])
        return [
            ClassifierAnswers(probabilities=some, chosen=picked) if len(picked) else None
            for picked, some in zip(chosen, probabilities, strict=True)
        ]

    def score(self, measure: Measure, values: Sequence[float | None], empty: float = 0.0) -> Score:
        """The mean of a value a sample; None does not count, and an empty text has the value ``empty``."""
        known: Float[np.ndarray, "N"] = np.array([np.nan if one is None else one for one in values], dtype=np.float64)
        blank: Bool[np.ndarray, "N"] = np.array(self._empty, dtype=bool)
        known[blank] = empty
        return Score.mean(measure, known, note_on_empty(self._empty))

    def described(self) -> str:
        """Model, output and length, for a report."""
        return f"{self._classifier.name}, output '{self._classifier.label}', at most {self.config.max_length} tokens"


class TableEntailment(Entailment):
    """Asks whether a text follows from its table."""

    needs = ("table", "text")
    asks = "says that they follow from the table"

    def evidence(self, sample: Sample) -> Table:
        """The table."""
        return READERS[self.config.cells](sample.need("table", self.config.metric))

    def described(self) -> str:
        """Model, output, length, and how cells are read where not as they stand."""
        return f"{super().described()}{note_on_cells(self.config.cells)}"


# -- NLI accuracy: does a text follow from its table or document, asked of an entailment model.

FORMS: dict[str, Callable[[Table], str]] = {"sentences": sentence_form, "rows": row_form, "tapex": tapex_form}
"""How a table is written down."""


class NliConfig(TableConfig):
    """Settings of NLI accuracy."""

    evidence: Literal["table", "source"] | None = None
    """The field that the text should follow from; None: the table of a sample that has one, else its source."""
    table_form: Literal["sentences", "rows", "tapex"] = "sentences"
    """How a table is written down: as LogicNLG describes it, as its NLI model reads it, or as TAPEX reads it."""


@registry.register("nli")
class Nli(Entailment):
    """NLI-Acc: share of texts that an entailment model takes to follow from table or source. Example: ``nli``."""

    Config = NliConfig
    needs = ("text",)
    title = "NLI-Acc"
    asks = "says that they follow from the evidence"

    def evidence(self, sample: Sample) -> Evidence:
        """The premise: table or document as text."""
        field = self.config.evidence or ("table" if sample.table is not None else "source")
        evidence = sample.need(field, "nli")
        if not isinstance(evidence, Table):
            return str(evidence)
        return "" if is_empty(evidence) else FORMS[self.config.table_form](READERS[self.config.cells](evidence))

    def described(self) -> str:
        """Model, output, length and form of tables."""
        return f"{super().described()}, tables in the form '{self.config.table_form}'{note_on_cells(self.config.cells)}"


# -- FactCC: does a summary agree with its document, asked of a classifier trained on changed sentences.


class FactccConfig(ClassifierConfig):
    """Settings of FactCC."""

    model: str | None = "manueldeprada/FactCC"
    """Folder or hub name of the classifier; the default is the authors' checkpoint in the form of transformers."""
    sentences: bool = False
    """Whether each sentence of a summary is a claim of its own; the summary is consistent if all of them are."""


@registry.register("factcc")
class Factcc(Entailment):
    """FactCC: share of summaries that a classifier takes to agree with the document. Example: ``factcc``."""

    Config = FactccConfig
    needs = ("source", "text")
    title = "FactCC"
    asks = "says that they agree with the document"
    nameless_label = 0  # the official checkpoint was trained with CORRECT as 0, INCORRECT as 1

    def evidence(self, sample: Sample) -> str:
        """The document."""
        return str(sample.need("source", "factcc"))

    def claims(self, text: str) -> list[str]:
        """The summary, or each of its sentences."""
        return sentences_of(text) if self.config.sentences else [text]

    def described(self) -> str:
        """Model, output and length, and what a claim is."""
        return f"{super().described()}, {'each sentence' if self.config.sentences else 'the whole text'} as the claim"


# -- TAPAS-Acc: does a text follow from its table, asked of a TAPAS model trained on TabFact.


class TableAndQuestion(InputForm):
    """Text first, then the cells with their columns, rows and ranks.

    Of too many tokens every cell keeps its first ones; if that is not enough, rows are dropped from the end, as TAPAS
    does.
    """

    name = "tapas"

    def tokenizer(self, name: str, **arguments: Any) -> Any:
        """The tokenizer of tables."""
        import transformers

        return transformers.TapasTokenizer.from_pretrained(name, **arguments)

    def encode(self, question: Question, tokenizer: Any, limit: int, config: Any) -> Encoded:
        """Tokens, and seven types for each."""
        import pandas  # type: ignore[import-untyped]

        table, text = question
        assert isinstance(table, Table)
        # Column 0 and row 0 stand for the text and the header; the model has no embedding beyond these numbers,
        # and the tokenizer does not know that.
        columns, rows = config.type_vocab_sizes[1] - 1, config.type_vocab_sizes[2] - 1
        if len(table.header) > columns:
            raise ValueError(f"the table has {len(table.header)} columns, the model takes {columns}")
        # Plain objects: the tokenizer puts objects of its own into the cells, which columns of text refuse.
        cells = pandas.DataFrame([list(row) for row in table.rows[:rows]], columns=list(table.header), dtype=object)
        return dict(tokenizer(table=cells, queries=text, truncation=True, max_length=limit))


class TapasConfig(TableConfig):
    """Settings of TAPAS-Acc."""

    model: str | None = "google/tapas-large-finetuned-tabfact"
    """Folder or hub name of a TapasForSequenceClassification."""


@registry.register("tapas")
class Tapas(TableEntailment):
    """TAPAS-Acc: share of texts that TAPAS takes to follow from the table. Example: ``tapas``."""

    Config = TapasConfig
    title = "TAPAS-Acc"
    nameless_label = 1  # in the checkpoints of TabFact 1 is entailed, 0 refuted

    def form(self) -> InputForm:
        """The table as a table."""
        return TableAndQuestion()


# -- TAPEX-Acc: does a text follow from its table, asked of a BART that learned to execute queries, then TabFact.


class TapexSequence(InputForm):
    """Text and table as one sequence in small letters; too many tokens: cut at the end.

    transformers has no TapexTokenizer any more. It was the tokenizer of BART on this string. A space goes before what
    is tokenized, the sequence as well as a single cell, as PLOG's script has it (``add_prefix_space=True``; the
    configuration of the checkpoint says false). A cell that is cut keeps that space; a whole cell has none.
    """

    def __init__(self, cell_tokens: int) -> None:
        self.name = f"tapex-space-{cell_tokens}"
        self._cell_tokens = cell_tokens

    def tokenizer(self, name: str, **arguments: Any) -> Any:
        """BART's, whichever class the checkpoint names."""
        import transformers

        return transformers.BartTokenizer.from_pretrained(name, add_prefix_space=True, **arguments)

    def encode(self, question: Question, tokenizer: Any, limit: int, config: Any) -> Encoded:
        """The tokens of ``<s> text col : a | b row 1 : x | y ... </s>``."""
        table, text = question
        assert isinstance(table, Table)
        rows = [[self._cut(cell, tokenizer) for cell in row] for row in table.rows]
        sequence = f"{text} {tapex_form(table.model_copy(update={'rows': rows}))}".lower()
        return dict(tokenizer(sequence, truncation=True, max_length=limit, split_special_tokens=True))

    def _cut(self, cell: str, tokenizer: Any) -> str:
        # A token has at least one byte: short cells, and the space before them, need no look.
        if len(cell.encode()) + 1 < self._cell_tokens or not cell.strip():
            return cell
        ids = tokenizer(cell, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        return cell if len(ids) < self._cell_tokens else str(tokenizer.decode(ids[: self._cell_tokens]))


class TapexConfig(TableConfig):
    """Settings of TAPEX-Acc."""

    model: str | None = "microsoft/tapex-large-finetuned-tabfact"
    """Folder or hub name of a BartForSequenceClassification that was trained on tables in the form of TAPEX."""
    max_length: int = Field(default=1024, ge=8)
    """Tokens of text and table together; fewer where the model has a lower limit."""
    cell_tokens: int = Field(default=15, ge=1)
    """Tokens that are kept of a cell."""


@registry.register("tapex")
class Tapex(TableEntailment):
    """TAPEX-Acc: share of texts that TAPEX takes to follow from the table. Example: ``tapex``."""

    Config = TapexConfig
    title = "TAPEX-Acc"

    def form(self) -> InputForm:
        """Text and table as one sequence."""
        return TapexSequence(self.config.cell_tokens)
