"""Columns of tables of text metrics, in the order of the tables in papers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from nextword.results.records import Measure
from nextword.results.report import formats
from nextword.results.report.table import Column

MOST_MAIN = 4
"""Maximum number of metrics that the terminal shows if none of them is in a paper's table."""

SAID_OTHERWISE = r"nll|bits_per_byte|share-.+|vr"
"""Pattern of the keys of metrics that get no column: perplexity in other units, and metrics in figures or texts."""

REFERENCE_PERPLEXITY = (
    "of the human references given their prompts, token by token; not of generated text, and not of the whole test text"
)

SHY = "\N{SOFT HYPHEN}"
"""Character at which a long word of a heading may be broken."""

REFERENCES = f"refer{SHY}ences"

BIGRAMS = 2
"""The n-gram length that is shown if there is little space, as in F2-Softmax's figure 3."""


def text_column(key: str, measure: Measure, main: bool, kind: str = "") -> Column:
    """Make the column of the text metric ``key``. Its heading shows the unit, followed by ``kind`` if given.

    If ``main``, the terminal shows the column too.
    """
    unit = formats.unit_name(measure.unit)
    plain = unit.partition(" (")[0]
    short_unit = ", ".join(part for part in ("%" if plain.startswith("%") else plain, kind) if part)
    return Column(
        title=measure.title,
        key=key,
        measure=measure,
        unit=unit,
        short_unit=short_unit,
        hover=f"{measure.title}: {measure.unit}",
        below=(short_unit,),
        main=main,
        short=measure.title,
    )


@dataclass(frozen=True)
class Rule:
    """A column of a paper's table.

    Attributes:
        pattern: Regular expression of the metrics' keys. It may capture the length n of the n-grams.
        group: Heading over the columns that differ only in n.
        title: Heading of the column.
        short: Title of the column where the heading ``group`` is not shown.
        metric: Name of the metric that computes the value, or that gives the reason if there is no value.
        kind: Whether the heading also shows the first word in the brackets of the metric's unit.
        note: Note for the reader, in addition to the metric's meaning.
        main: Whether the column (with several n, one of the columns) is shown in the terminal.
    """

    pattern: str
    group: str
    title: str
    short: str
    metric: str
    kind: bool = False
    note: str = ""
    main: bool = True

    def columns(self, measures: Mapping[str, Measure]) -> list[Column]:
        """Columns of the metrics in ``measures`` whose keys match ``pattern``, in order of increasing n."""
        matches = [match for key in measures if (match := re.fullmatch(self.pattern, key))]
        lengths = sorted((int((match.groups() or ("0",))[0]), match.string) for match in matches)
        known = [n for n, _ in lengths]
        main = BIGRAMS if BIGRAMS in known else max(known, default=0)
        columns = []
        for n, key in lengths:
            kind = re.search(r"\((\w+)", measures[key].unit) if self.kind else None
            column = replace(
                text_column(key, measures[key], self.main and n == main, kind[1] if kind else ""),
                title=self.title.format(n=n),
                short=self.short.format(n=n),
                group=self.group,
                metric=self.metric,
                note=self.note,
            )
            columns.append(column)
        return columns


@dataclass(frozen=True)
class TableLayout:
    """Layout of one paper's table.

    Attributes:
        rules: The table's columns, in order.
        people: Whether the table has a row for human texts; False if all metrics compare with human texts.
    """

    rules: tuple[Rule, ...]
    people: bool

    def columns(self, measures: Mapping[str, Measure]) -> list[Column]:
        """Columns of ``measures``: first the metrics of the paper's table in its order, then the others.

        Other metrics with keys that match ``SAID_OTHERWISE`` get columns only if no metric would have one otherwise.
        """
        placed = self.placed(measures)
        others = {key: measure for key, measure in measures.items() if key not in {column.key for column in placed}}
        new = [key for key in others if not re.fullmatch(SAID_OTHERWISE, key)]
        shown = new if placed or new else list(others)
        main = 0 if placed else MOST_MAIN
        return [*placed, *(text_column(key, others[key], i < main) for i, key in enumerate(shown))]

    def placed(self, measures: Mapping[str, Measure]) -> list[Column]:
        """Columns of the metrics in ``measures`` that are in the paper's table, in its order."""
        return [column for rule in self.rules for column in rule.columns(measures)]


CONTINUATIONS = TableLayout(
    rules=(
        Rule(r"perplexity", "", f"PPL of {REFERENCES}", "ref. PPL", "likelihood", note=REFERENCE_PERPLEXITY),
        Rule(r"kl-human-generated", "", "KLD", "KLD", "unigram-kl"),
        Rule(r"ms-jaccard-([123])", "MS-Jaccard", "n = {n}", "MSJ-{n}", "ms-jaccard"),
        Rule(r"self-bleu-([123])", "Self-BLEU", "n = {n}", "SB-{n}", "self-bleu"),
        Rule(r"distinct-([123])", "Distinct", "n = {n}", "Dist-{n}", "distinct"),
        Rule(r"rep", "", "Rep", "Rep", "rep"),
        Rule(r"uniq-seq", "", "Uniq", "Uniq", "uniq-seq"),
    ),
    people=True,
)
"""F2-Softmax, tables 1, 2 and 10: free continuations, compared with human text as a whole."""

EXPANSIONS = TableLayout(
    rules=(
        Rule(
            r"perplexity", "", f"Per{SHY}plexity of {REFERENCES}", "ref. PPL", "likelihood", note=REFERENCE_PERPLEXITY
        ),
        Rule(r"mean_perplexity", "", f"Mean per{SHY}plexity", "Mean PPL", "likelihood", note=REFERENCE_PERPLEXITY),
        Rule(r"rouge-1", "", "ROUGE-1", "ROUGE-1", "rouge", kind=True),
        Rule(r"rouge-2", "", "ROUGE-2", "ROUGE-2", "rouge", kind=True),
        Rule(r"rouge-l", "", "ROUGE-L", "ROUGE-L", "rouge", kind=True),
        Rule(r"topics-jsd", "", "LDA + JSD", "LDA + JSD", "topics"),
    ),
    people=False,
)
"""Conditional generation from summaries, table 1: texts that are compared with one reference each."""

STORIES = TableLayout(
    rules=(
        Rule(r"diversity-product", "", "Diversity", "Diversity", "diversity"),
        Rule(r"mauve", "", "MAUVE", "MAUVE", "mauve"),
        Rule(r"coherence", "", "Coherence", "Coherence", "coherence"),
        Rule(r"seq-rep-(\d+)", "seq-rep", "n = {n}", "seq-rep-{n}", "seq-rep"),
        Rule(r"rep", "", "Rep", "Rep", "rep"),
        Rule(r"diversity-mean", "", "Diversity (mean)", "Diversity (mean)", "diversity", main=False),
    ),
    people=True,
)
"""HistAlign, table 3: stories continued from their beginnings."""

SUMMARIES = TableLayout(
    rules=(
        Rule(r"rouge-1", "", "ROUGE-1", "R-1", "rouge", kind=True),
        Rule(r"rouge-2", "", "ROUGE-2", "R-2", "rouge", kind=True, main=False),
        Rule(r"rouge-l", "", "ROUGE-L", "R-L", "rouge", kind=True),
        Rule(r"rouge-lsum", "", "ROUGE-Lsum", "R-Lsum", "rouge", kind=True, main=False),
        Rule(r"cider-d", "", "CIDEr", "CIDEr", "cider"),
        Rule(r"factcc", "", "FactCC", "FactCC", "factcc"),
        Rule(r"dae", "", "DAE", "DAE", "dae"),
        Rule(r"entity-precision", "", "P_ent", "P_ent", "entities"),
        Rule(r"mauve", "", "MAUVE", "MAUVE", "mauve"),
        Rule(r"copy_recall", "", "Copy recall", "Copy recall", "copying"),
        Rule(r"copy_precision", "", "Copy precision", "Copy precision", "copying", main=False),
    ),
    people=True,
)
"""HistAlign, table 5, and Softmax-CPR, figure 4: summaries, compared with a reference and with their document."""

TABLE_TEXTS = TableLayout(
    rules=(
        Rule(r"bleu-logicnlg-(\d)", "BLEU", "n = {n}", "BLEU-{n}", "bleu-logicnlg"),
        Rule(r"nli", "", "NLI", "NLI", "nli"),
        Rule(r"sp", "", "SP", "SP", "sp"),
        Rule(r"tapex", "", "TAPEX", "TAPEX", "tapex"),
        Rule(r"tapas", "", "TAPAS", "TAPAS", "tapas"),
    ),
    people=True,
)
"""HistAlign, table 7: sentences about tables, compared with references and with what the table says."""

LAYOUTS = (CONTINUATIONS, EXPANSIONS, STORIES, SUMMARIES, TABLE_TEXTS)


def text_columns(measures: Mapping[str, Measure]) -> list[Column]:
    """Columns of the metrics in ``measures``, as ``layout_of(measures)`` orders them."""
    return layout_of(measures).columns(measures)


def layout_of(measures: Mapping[str, Measure]) -> TableLayout:
    """The layout in ``LAYOUTS`` with columns for the most metrics in ``measures``; in a tie, the first of them."""
    return max(LAYOUTS, key=lambda layout: len(layout.placed(measures)))


# -- Explanations of the metrics on a page. Each is explained once, even with several columns or lengths of n-grams.


@dataclass(frozen=True)
class GlossaryEntry:
    """Explanation of one metric, or of several that differ only in n."""

    term: str
    meaning: str
    units: tuple[str, ...] = ()
    """Full units of the metric; empty if the headings of the columns show them."""


@dataclass(frozen=True)
class _Line:
    """Explanation of one metric, before equal explanations are merged."""

    family: str
    length: str
    alone: str
    together: str
    meaning: str
    unit: str


def of_metrics(columns: Iterable[Column]) -> list[GlossaryEntry]:
    """Explain the metrics of runs in ``columns``, in order. Columns with the same meaning share an entry."""
    by_meaning: dict[str, list[Column]] = {}
    for column in columns:
        if column.measure and column.measure.meaning:
            by_meaning.setdefault(column.measure.meaning, []).append(column)
    return [_of_metric(meaning, members) for meaning, members in by_meaning.items()]


def _of_metric(meaning: str, columns: Sequence[Column]) -> GlossaryEntry:
    term, _, sentence = meaning.partition(": ")
    units: dict[str, list[str]] = {}
    for column in columns:
        if column.unit != column.short_unit and not column.unit.startswith("%"):
            units.setdefault(column.unit, []).append(column.title)
    if len(units) == 1:
        return GlossaryEntry(term, sentence, tuple(units))
    return GlossaryEntry(term, sentence, tuple(f"{unit} ({', '.join(titles)})" for unit, titles in units.items()))


def of_texts(columns: Iterable[Column]) -> list[GlossaryEntry]:
    """Explain the text metrics in ``columns``, in order. Metrics that differ only in n may share an entry."""
    lines = []
    for column, measure in ((column, column.measure) for column in columns if column.measure):
        said = _sentence(measure)
        plain = column.title.lower() == measure.title.lower()
        name = column.title if plain or column.note else f"{column.title} ({measure.title})"
        alone = measure.title if column.group else name
        meaning = f"{said} Here: {column.note}." if column.note else said
        lines.append(_line(column.key, alone, column.group, meaning, measure))
    return _entries(lines)


def of_measures(measures: Mapping[str, Measure]) -> list[GlossaryEntry]:
    """Explain the text metrics in ``measures``, a mapping from key to description, in its order."""
    return _entries([_line(key, one.title, "", _sentence(one), one) for key, one in measures.items()])


def _sentence(measure: Measure) -> str:
    """The meaning of a metric, without its title."""
    title = f"{measure.title}: "
    return measure.meaning[len(title) :] if measure.meaning.lower().startswith(title.lower()) else measure.meaning


def _line(key: str, alone: str, together: str, meaning: str, measure: Measure) -> _Line:
    family, _, length = key.rpartition("-")
    if not length.isdigit():
        family, length = key, ""
    of_family = together or re.sub(rf"[ -]?\b{length}$", "", alone)
    return _Line(family, length, alone, of_family, meaning, formats.unit_name(measure.unit))


def _entries(lines: Iterable[_Line]) -> list[GlossaryEntry]:
    families: dict[str, list[_Line]] = {}
    for line in dict.fromkeys(lines):  # tables of different decodings have the same columns
        families.setdefault(line.family, []).append(line)
    found: list[GlossaryEntry] = []
    for members in families.values():
        meanings = _shared([(line.meaning, line.length) for line in members])
        if len(members) > 1 and len(meanings) == 1:
            units = _shared([(line.unit, line.length) for line in members])
            found.append(GlossaryEntry(members[0].together, meanings[0], units))
        else:
            found += [GlossaryEntry(line.alone, line.meaning, (line.unit,)) for line in members]
    return found


def _shared(texts: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """The distinct texts. Differences in the length of n-grams are ignored.

    >>> _shared([("1-grams of a text", "1"), ("2-grams of a text", "2")]), _shared([("words", "1"), ("pairs", "2")])
    (('n-grams of a text',), ('words', 'pairs'))
    """
    plain = dict.fromkeys(text for text, _ in texts)
    general = dict.fromkeys(re.sub(rf"\b{length}\b", "n", text) if length else text for text, length in texts)
    return tuple(plain if len(plain) == 1 or len(general) > 1 else general)
