"""Metrics with a classifier: the share of texts that follow from their source or table."""

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
    """Settings of a metric that runs a classifier on tables."""

    cells: Cells = "text"
    """How cells are read: "text" (unchanged) or "pandas" (as the scripts of LogicNLG and PLOG read them)."""


class Entailment(Metric):
    """Base class of metrics in which a classifier compares every text, as one or several claims, with its evidence.

    The evidence is the sample's source or table. A text is consistent if the classifier calls all its claims consistent
    with the evidence. An empty text counts as wrong, because otherwise a system that generates nothing would be the
    best. A sample has no value if its evidence is empty, or if its text has words but no claims.
    """

    title: ClassVar[str]
    """Heading in the report."""
    asks: ClassVar[str]
    """What the classifier says of consistent texts, for the report: "the classifier {asks}"."""
    group, decimals = metric.FAITHFULNESS, 2
    goal: ClassVar[Goal | None] = "higher"
    nameless_label: ClassVar[int | None] = None
    """If the checkpoint has no names for its outputs: number of the output that means "consistent"."""

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._classifier = Classifier(self.config, self.form(), setup, self.nameless_label)
        self._questions: list[list[Question]] = []
        self._empty: list[bool] = []

    @classmethod
    def on_request(cls) -> str | None:
        """Reason why ``metrics="all"`` leaves this metric out: the user must name a classifier."""
        return "runs a classifier; to compute it, name one with the setting model"

    @abstractmethod
    def evidence(self, sample: Sample) -> Evidence:
        """The source or table of ``sample``, from which its text should follow.

        Raises:
            MissingFieldError: If ``sample`` lacks this source or table.
        """

    def claims(self, text: str) -> list[str]:
        """Split ``text``, which is not empty, into claims. By default, the whole text is one claim."""
        return [text]

    def form(self) -> InputForm:
        """The encoding of evidence and claim as input of the classifier."""
        return InputForm()

    def add(self, sample: Sample) -> None:
        """Read the evidence and the text."""
        evidence, text = self.evidence(sample), sample.need("text", self.config.metric)
        given = not (is_empty(evidence) if isinstance(evidence, Table) else is_blank(evidence))
        self._empty.append(given and is_blank(text))
        asked = self.claims(text) if given and not is_blank(text) else []
        self._questions.append([(evidence, claim) for claim in asked])

    def result(self) -> dict[str, Score]:
        """The share of consistent texts (key: the metric's name), and a mean probability (name and ``-probability``).

        The mean is over texts. A text's value is the lowest probability that one of its claims is consistent.
        """
        name, answers = self.config.metric, self.answers()
        share = self.measure(
            self.title,
            "fraction of texts",
            f"{self.title}: share of texts for which the classifier ({self.described()}) {self.asks}; an empty text "
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
        """The classifier's outputs for the claims of each sample, in order. None for a sample without claims."""
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
        """The mean of ``values`` (one per sample) as a score. None is left out. An empty text counts as ``empty``."""
        known: Float[np.ndarray, "N"] = np.array([np.nan if one is None else one for one in values], dtype=np.float64)
        blank: Bool[np.ndarray, "N"] = np.array(self._empty, dtype=bool)
        known[blank] = empty
        return Score.mean(measure, known, note_on_empty(self._empty))

    def described(self) -> str:
        """Description for the report: model, output that means "consistent", and maximum number of tokens."""
        return f"{self._classifier.name}, output '{self._classifier.label}', at most {self.config.max_length} tokens"


class TableEntailment(Entailment):
    """Base class of metrics in which a classifier decides whether a text follows from its table."""

    needs = ("table", "text")
    asks = "says that they follow from the table"

    def evidence(self, sample: Sample) -> Table:
        """The table of ``sample``, with cells read as the setting ``cells`` says."""
        return READERS[self.config.cells](sample.need("table", self.config.metric))

    def described(self) -> str:
        """Description for the report, as in ``Entailment``, and how cells are read if ``cells`` is not "text"."""
        return f"{super().described()}{note_on_cells(self.config.cells)}"


# -- NLI accuracy: an entailment model decides whether a text follows from its table or document.

FORMS: dict[str, Callable[[Table], str]] = {"sentences": sentence_form, "rows": row_form, "tapex": tapex_form}
"""Encodings of a table."""


class NliConfig(TableConfig):
    """Settings of NLI accuracy."""

    evidence: Literal["table", "source"] | None = None
    """Field with the evidence. None: the sample's table if it has a table, otherwise its source."""
    table_form: Literal["sentences", "rows", "tapex"] = "sentences"
    """Encoding of a table: "sentences" as in LogicNLG's data loader, "rows" as for LogicNLG's NLI model, or "tapex"."""


@registry.register("nli")
class Nli(Entailment):
    """NLI-Acc: share of texts that an entailment model infers from the table or source. Example: ``nli``."""

    Config = NliConfig
    needs = ("text",)
    title = "NLI-Acc"
    asks = "says that they follow from the evidence"

    def evidence(self, sample: Sample) -> Evidence:
        """The table or source of ``sample``, as the setting ``evidence`` says. A table is written as text."""
        field = self.config.evidence or ("table" if sample.table is not None else "source")
        evidence = sample.need(field, "nli")
        if not isinstance(evidence, Table):
            return str(evidence)
        return "" if is_empty(evidence) else FORMS[self.config.table_form](READERS[self.config.cells](evidence))

    def described(self) -> str:
        """Description for the report, as in ``Entailment``, with the encoding of tables."""
        return f"{super().described()}, tables in the form '{self.config.table_form}'{note_on_cells(self.config.cells)}"


# -- FactCC: a classifier trained on changed sentences decides whether a summary agrees with its document.


class FactccConfig(ClassifierConfig):
    """Settings of FactCC."""

    model: str | None = "manueldeprada/FactCC"
    """Folder or hub name of the classifier. The default is the authors' checkpoint, converted to transformers."""
    sentences: bool = False
    """Whether each sentence is a claim of its own. A summary is then consistent if all its sentences are consistent."""


@registry.register("factcc")
class Factcc(Entailment):
    """FactCC: share of summaries that a classifier calls consistent with the document. Example: ``factcc``."""

    Config = FactccConfig
    needs = ("source", "text")
    title = "FactCC"
    asks = "says that they agree with the document"
    nameless_label = 0  # the authors trained their checkpoint with CORRECT as 0 and INCORRECT as 1

    def evidence(self, sample: Sample) -> str:
        """The document, which is the field ``source`` of ``sample``."""
        return str(sample.need("source", "factcc"))

    def claims(self, text: str) -> list[str]:
        """The summary ``text`` as one claim or, with the setting ``sentences``, each of its sentences."""
        return sentences_of(text) if self.config.sentences else [text]

    def described(self) -> str:
        """Description for the report, as in ``Entailment``, and whether a claim is a sentence or the whole text."""
        return f"{super().described()}, {'each sentence' if self.config.sentences else 'the whole text'} as the claim"


# -- TAPAS-Acc: a TAPAS model trained on TabFact decides whether a text follows from its table.


class TableAndQuestion(InputForm):
    """TAPAS encoding: first the text, then the cells, each with column, row and, for a number, its rank in the column.

    If the input is too long, the end of each cell is cut off, and then rows at the end are dropped, as TAPAS does. Rows
    beyond the model's maximum are dropped too.
    """

    name = "tapas"

    def tokenizer(self, name: str, **arguments: Any) -> Any:
        """Load the TAPAS tokenizer of the checkpoint ``name``. ``arguments`` are passed to ``from_pretrained``."""
        import transformers

        return transformers.TapasTokenizer.from_pretrained(name, **arguments)

    def encode(self, question: Question, tokenizer: Any, limit: int, config: Any) -> Encoded:
        """Encode ``question``, a pair of table and text, as at most ``limit`` tokens, each with seven token types.

        Raises:
            ValueError: If the table has more columns than the model's maximum.
        """
        import pandas  # type: ignore[import-untyped]

        table, text = question
        assert isinstance(table, Table)
        # Column 0 and row 0 are those of the text and the header. The model has no embeddings for larger numbers than
        # these limits, which the tokenizer does not check.
        columns, rows = config.type_vocab_sizes[1] - 1, config.type_vocab_sizes[2] - 1
        if len(table.header) > columns:
            raise ValueError(f"the table has {len(table.header)} columns, but the model takes at most {columns}")
        # dtype=object, because the tokenizer puts objects into the cells, which columns of text do not accept
        cells = pandas.DataFrame([list(row) for row in table.rows[:rows]], columns=list(table.header), dtype=object)
        return dict(tokenizer(table=cells, queries=text, truncation=True, max_length=limit))


class TapasConfig(TableConfig):
    """Settings of TAPAS-Acc."""

    model: str | None = "google/tapas-large-finetuned-tabfact"
    """Folder or hub name of a TapasForSequenceClassification."""


@registry.register("tapas")
class Tapas(TableEntailment):
    """TAPAS-Acc: share of texts that the model TAPAS infers from the table. Example: ``tapas``."""

    Config = TapasConfig
    title = "TAPAS-Acc"
    nameless_label = 1  # in the checkpoints for TabFact, 1 means entailed and 0 refuted

    def form(self) -> InputForm:
        """The encoding for TAPAS."""
        return TableAndQuestion()


# -- TAPEX-Acc: a BART model trained on queries and then on TabFact decides whether a text follows from its table.


class TapexSequence(InputForm):
    """TAPEX encoding: text and table as one lower-case sequence, whose end is cut off if it is too long.

    A cell is cut to ``cell_tokens`` tokens. The tokenizer is BART's, as in TapexTokenizer, which transformers has
    removed. As in PLOG's script, a space is put before the sequence and before each cell that is tokenized alone to
    measure its length (``add_prefix_space=True``, which the checkpoint's configuration sets to false). Only a truncated
    cell keeps its space in the sequence.
    """

    def __init__(self, cell_tokens: int) -> None:
        self.name = f"tapex-space-{cell_tokens}"
        self._cell_tokens = cell_tokens

    def tokenizer(self, name: str, **arguments: Any) -> Any:
        """Load BART's tokenizer, whatever tokenizer class the checkpoint names."""
        import transformers

        return transformers.BartTokenizer.from_pretrained(name, add_prefix_space=True, **arguments)

    def encode(self, question: Question, tokenizer: Any, limit: int, config: Any) -> Encoded:
        """Encode table and text as at most ``limit`` tokens: ``<s> text col : a | b row 1 : x | y ... </s>``."""
        table, text = question
        assert isinstance(table, Table)
        rows = [[self._cut(cell, tokenizer) for cell in row] for row in table.rows]
        sequence = f"{text} {tapex_form(table.model_copy(update={'rows': rows}))}".lower()
        return dict(tokenizer(sequence, truncation=True, max_length=limit, split_special_tokens=True))

    def _cut(self, cell: str, tokenizer: Any) -> str:
        # A token has at least one byte. So a cell with few bytes, its space included, need not be tokenized.
        if len(cell.encode()) + 1 < self._cell_tokens or not cell.strip():
            return cell
        ids = tokenizer(cell, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        return cell if len(ids) < self._cell_tokens else str(tokenizer.decode(ids[: self._cell_tokens]))


class TapexConfig(TableConfig):
    """Settings of TAPEX-Acc."""

    model: str | None = "microsoft/tapex-large-finetuned-tabfact"
    """Folder or hub name of a BartForSequenceClassification trained on tables in TAPEX's format."""
    max_length: int = Field(default=1024, ge=8)
    """Maximum number of tokens of text and table together, or the model's limit if it is lower."""
    cell_tokens: int = Field(default=15, ge=1)
    """Maximum number of tokens per cell."""


@registry.register("tapex")
class Tapex(TableEntailment):
    """TAPEX-Acc: share of texts that the model TAPEX infers from the table. Example: ``tapex``."""

    Config = TapexConfig
    title = "TAPEX-Acc"

    def form(self) -> InputForm:
        """The encoding for TAPEX."""
        return TapexSequence(self.config.cell_tokens)
