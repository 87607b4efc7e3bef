from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from nextword.results.records import EvaluationResults, Measure, Results, SystemRecord
from nextword.results.report.columns import REFERENCES, text_columns
from nextword.results.report.comparison.main_table import sheets
from nextword.results.report.comparison.methods import methods
from nextword.results.report.evaluation_table import measure_table
from nextword.results.report.table import ReportTable, Row
from tests.helpers.made_up_results import make_sample
from tests.helpers.written_results import HUMAN, KEYS, MEASURES, PAPER, comparison, evaluation, file, human_file, system

RATIO = {key for key, measure in MEASURES.items() if measure.unit.startswith("fraction")}


def only_table(results: Results) -> ReportTable:
    (sheet,) = sheets(results, methods(results))
    return sheet.table


def people(table: ReportTable) -> Row | None:
    (block,) = table.blocks
    return block.human


def table_of(texts: EvaluationResults, seeds: Sequence[int] = (1,)) -> ReportTable:
    results = make_sample(seeds=seeds, methods=[("a", "softmax", "mle", None), ("b", "f2", "mle", None)], task="lm")
    results = results.model_copy(update={"texts": {"greedy": texts}})
    table = only_table(results)
    return table


def of(name: str, values: Mapping[str, float], undefined: Mapping[str, str] | None = None) -> SystemRecord:
    return system(name, file(f"{name}.jsonl", values, undefined))


def best(table: ReportTable, key: str) -> list[str]:
    place = [column.key for column in table.columns].index(key)
    return [row.label for row in table.rows if row.cells[place].best]


def text(key: str, number: float) -> str:
    """A number of the paper as its measure is shown, by other means than the report."""
    return f"{number * 100 if key in RATIO else number:.{MEASURES[key].decimals}f}"


def test_columns_are_those_of_the_paper_in_its_order() -> None:
    results = comparison()
    table = sheets(results, methods(results))[0].table
    assert [column.key for column in table.columns] == list(KEYS[:13])
    assert table.headings == [("", 2), ("MS-Jaccard", 3), ("Self-BLEU", 3), ("Distinct", 3), ("", 2)]
    assert [column.title for column in table.columns[:4]] == [f"PPL of {REFERENCES}", "KLD", "n = 1", "n = 2"]
    assert [column.short for column in table.columns if column.main] == [
        "ref. PPL", "KLD", "MSJ-2", "SB-2", "Dist-2", "Rep", "Uniq",
    ]  # fmt: skip
    assert [column.short_unit for column in table.columns][:3] == ["per token", "nats", "%"]
    assert sum(table.starts) == 5


def test_every_value_of_the_paper_stands_in_its_own_cell() -> None:
    """Rows and columns by name: were two values swapped, two cells would differ."""
    results = comparison(decodings=("greedy",))
    table = only_table(results)
    found = {row.label: dict(zip((c.key for c in table.columns), row.cells, strict=True)) for row in table.rows}
    expected = {
        label: {key: text(key, number) for key, number in zip(KEYS[:13], numbers, strict=False)}
        for label, numbers in PAPER.items()
    }
    assert {label: {key: cell.text for key, cell in row.items()} for label, row in found.items()} == expected
    human = people(table)
    assert human is not None
    assert [cell.text for cell in human.cells] == [
        "\N{EN DASH}",
        *(text(key, n) for key, n in zip(KEYS[1:13], HUMAN, strict=False)),
    ]


def test_cells_are_those_of_the_table_with_a_row_a_measure() -> None:
    results = comparison(decodings=("greedy",))
    table = only_table(results)
    rows = {row.key: row for row in measure_table(results.texts["greedy"]).rows}
    for place, column in enumerate(table.columns):
        there = rows[column.key].cells[: len(table.rows)]
        for cell, other in zip((row.cells[place] for row in table.rows), there, strict=True):
            assert (cell.text, cell.value, cell.best, cell.spread) == (
                other.text,
                other.value,
                other.best,
                other.spread,
            )


@pytest.mark.parametrize(("one", "other"), [("distinct-1", "distinct-2"), ("ms-jaccard-2", "self-bleu-2")])
def test_swapped_values_are_seen(one: str, other: str) -> None:
    """Two numbers of one method exchanged in the record: exactly these two cells of its row change."""
    results = comparison(decodings=("greedy",))
    texts = results.texts["greedy"]
    first = texts.systems[0]
    swapped = first.model_copy(update={"values": first.values | {one: first.values[other], other: first.values[one]}})
    changed = texts.model_copy(update={"systems": [swapped, *texts.systems[1:]]})
    before, after = table_of(texts), table_of(changed)
    differ = [
        (row.label, column.key)
        for row, new in zip(before.rows, after.rows, strict=True)
        for column, cell, now in zip(before.columns, row.cells, new.cells, strict=True)
        if cell.text != now.text
    ]
    assert differ == [("MLE", key) for key in KEYS if key in (one, other)]


def test_best_by_goal_as_the_paper_has_it() -> None:
    results = comparison(decodings=("greedy",))
    table = only_table(results)
    assert {key: best(table, key) for key in KEYS[:13]} == {
        "perplexity": ["MLE"],
        "kl-human-generated": ["F2-Softmax"],
        "ms-jaccard-1": ["F2-Softmax"],
        "ms-jaccard-2": ["F2-Softmax"],
        "ms-jaccard-3": ["F2-Softmax"],
        "self-bleu-1": ["UL-token+seq"],
        "self-bleu-2": ["F2-Softmax"],
        "self-bleu-3": ["F2-Softmax"],
        "distinct-1": ["F2-Softmax"],
        "distinct-2": ["F2-Softmax"],
        "distinct-3": ["F2-Softmax"],
        "rep": ["UL-token+seq"],
        "uniq-seq": ["F2-Softmax"],
    }


def test_nearest_to_people_is_best_on_either_side_and_ties_are_both() -> None:
    near = evaluation([of("a", {"rep": 0.5}), of("b", {"rep": 0.1})], file("h", {"rep": 0.2}))
    assert best(table_of(near), "rep") == ["b"]
    tied = evaluation([of("a", {"rep": 0.3}), of("b", {"rep": 0.1}), of("c", {"rep": 0.9})], file("h", {"rep": 0.2}))
    assert best(table_of(tied), "rep") == ["a", "b"]
    alike = evaluation([of("a", {"rep": 0.3}), of("b", {"rep": 0.3})], file("h", {"rep": 0.2}))
    assert best(table_of(alike), "rep") == []


def test_without_people_nothing_is_nearest_and_there_is_no_row() -> None:
    values = {"rep": 0.5, "perplexity": 20.0}
    table = table_of(evaluation([of("a", values), of("b", {"rep": 0.1, "perplexity": 30.0})], None))
    assert people(table) is None
    assert best(table, "rep") == []
    assert best(table, "perplexity") == ["a"]


def test_one_method_is_never_the_best() -> None:
    assert not table_of(evaluation([of("a", {"rep": 0.5})], human_file())).has_best


def test_no_value_is_a_dash_with_the_reason_and_never_best() -> None:
    systems = [
        of("a", {"kl-human-generated": 2.0}, {"distinct": "no text has 2 tokens"}),
        of("b", {"kl-human-generated": 1.0, "distinct-2": 0.4}),
        of("c", {"distinct-2": 0.9}),
    ]
    table = table_of(evaluation(systems, human_file()))
    keys = [column.key for column in table.columns]
    a, b, c = (dict(zip(keys, row.cells, strict=True)) for row in table.rows)
    assert (a["distinct-2"].text, a["distinct-2"].reason) == ("\N{EN DASH}", "no text has 2 tokens")
    assert (b["distinct-2"].text, b["distinct-2"].reason) == ("40.0", "")
    assert (c["kl-human-generated"].text, c["kl-human-generated"].reason) == ("\N{EN DASH}", "")
    assert best(table, "kl-human-generated") == ["b"]
    assert best(table, "distinct-2") == ["c"]
    human = people(table)
    assert human is not None
    assert human.cells[0].text == "0.000"


def test_seeds_are_a_mean_with_the_range() -> None:
    seeds = [file(f"a-{seed}.jsonl", {"rep": value}) for seed, value in enumerate((0.1, 0.4, 0.25))]
    table = table_of(evaluation([system("a", *seeds), of("b", {"rep": 0.5})], None), seeds=(1,))
    cell = table.rows[0].cells[0]
    assert (cell.text, cell.spread, cell.seeds) == ("25.00", "10.00\N{EN DASH}40.00", ("10.00", "40.00", "25.00"))
    assert table.rows[1].cells[0].spread == "49.50\N{EN DASH}50.50"  # one seed: its interval


def test_a_seed_without_a_value_is_told() -> None:
    files = [file("a-1.jsonl", {"rep": 0.1}), file("a-2.jsonl", {}, {"rep": "no text is long enough"})]
    table = table_of(evaluation([system("a", *files), of("b", {"rep": 0.5})], human_file()))
    cell = table.rows[0].cells[[column.key for column in table.columns].index("rep")]
    assert (cell.text, cell.spread) == ("\N{EN DASH}", "")
    assert cell.reason == "1 of 2 seeds: no text is long enough"


def test_a_method_that_lacks_seeds_is_never_best() -> None:
    twice = [file(f"a-{seed}.jsonl", {"perplexity": 30.0 - seed}) for seed in (1, 2)]
    thrice = [file(f"c-{seed}.jsonl", {"perplexity": 40.0 - seed}) for seed in (1, 2)]
    systems = [system("a", *twice), of("b", {"perplexity": 20.0}), system("c", *thrice)]
    table = table_of(evaluation(systems, None), seeds=(1, 2))
    assert [row.lacking for row in table.rows] == ["", "1 of 2 seeds", ""]
    assert best(table, "perplexity") == ["a"]


def test_greedy_is_first_and_the_others_keep_their_order() -> None:
    results = comparison(decodings=("top-k 20", "top-k 3", "greedy"))
    titles = [sheet.title for sheet in sheets(results, methods(results))]
    assert titles == ["greedy", "top-k 20", "top-k 3"]


@pytest.mark.parametrize(("lengths", "main"), [((1, 2, 3), 2), ((1, 3), 3), ((1,), 1), ((), None)])
def test_bigrams_stand_for_all_lengths_where_they_are_there(lengths: tuple[int, ...], main: int | None) -> None:
    measures: dict[str, Measure] = {f"distinct-{n}": MEASURES[f"distinct-{n}"] for n in reversed(lengths)}
    columns = text_columns(measures | {"distinct-9": MEASURES["distinct-1"], "zipf": MEASURES["rep"]})
    assert [column.key for column in columns] == [*(f"distinct-{n}" for n in lengths), "distinct-9", "zipf"]
    expected = ["distinct-9", "zipf"] if main is None else [f"distinct-{main}"]
    assert [column.key for column in columns if column.main] == expected


def made_up(*keys: str) -> dict[str, Measure]:
    """Measures of these keys, each with its key as its title."""
    kind = {"group": "Other", "unit": "fraction", "goal": "higher"}
    return {key: Measure.model_validate({"title": key, "meaning": f"{key}: explained.", **kind}) for key in keys}


def test_what_no_paper_has_a_place_for_has_a_column_of_its_own() -> None:
    columns = text_columns(made_up("zipf", "uniq"))
    assert [(column.title, column.main) for column in columns] == [("zipf", True), ("uniq", True)]
    beside = text_columns({"rep": MEASURES["rep"]} | made_up("zipf", "uniq"))
    assert [(column.key, column.main) for column in beside] == [("rep", True), ("zipf", False), ("uniq", False)]
    assert [column.key for column in text_columns(MEASURES | made_up("zipf", "uniq"))] == [*KEYS[:13], "zipf", "uniq"]


@pytest.mark.parametrize(
    ("keys", "sizes"),
    [
        (("perplexity", "kl-human-generated", *(f"distinct-{n}" for n in (1, 2, 3)), "zipf"), [6]),
        ((*KEYS[:13], "zipf", "uniq"), [13, 2]),
        (("mauve", "coherence", *(f"seq-rep-{n}" for n in range(1, 13)), "rep"), [2, 13]),  # one heading, one part
        (("mauve", *(f"seq-rep-{n}" for n in range(1, 15))), [13, 2]),  # a heading too wide for any table
        ((), []),
    ],
)
def test_columns_for_which_a_table_has_no_room_are_in_the_next(keys: tuple[str, ...], sizes: list[int]) -> None:
    texts = evaluation([of(name, {"rep": 0.5}) for name in ("a", "b")], human_file())
    results = comparison(decodings=("greedy",))
    texts = texts.model_copy(update={"measures": made_up(*keys)})
    (sheet,) = sheets(results.model_copy(update={"texts": {"greedy": texts}}), methods(results))
    assert [len(part.columns) for part in sheet.parts] == sizes
    assert [column for part in sheet.parts for column in part.columns] == list(sheet.table.columns)
    assert [cell for part in sheet.parts for cell in part.rows[1].cells] == list(sheet.table.rows[1].cells)
    human = people(sheet.table)
    if human is not None:
        of_people = [people(part) for part in sheet.parts]
        assert [cell for row in of_people if row is not None for cell in row.cells] == list(human.cells)


def test_what_is_said_otherwise_has_a_column_only_where_nothing_else_has() -> None:
    shares = {key: MEASURES[key] for key in ("share-rare", "vr")}
    assert [column.key for column in text_columns(shares)] == ["share-rare", "vr"]
    assert [column.key for column in text_columns(shares | {"rep": MEASURES["rep"]})] == ["rep"]


def test_reason_of_a_column_of_no_paper() -> None:
    texts = evaluation([of("a", {"rep": 0.1}, {"uniq": "too short"}), of("b", {"rep": 0.2})], None)
    texts = texts.model_copy(update={"measures": texts.measures | made_up("uniq-pairs", "uniq")})
    table = table_of(texts)
    assert [cell.reason for cell in table.rows[0].cells] == ["", "too short", "too short"]
