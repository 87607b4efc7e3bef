"""TAPAS and TAPEX against transformers asked by hand, and tables as text."""

from __future__ import annotations

import json
import math
from functools import cache
from typing import Any

import numpy as np
import pandas
import pytest
import torch
import transformers

from nextword.evaluation.judges.entailment import TapexSequence
from nextword.evaluation.judges.tables import is_empty, read_by_pandas, row_form, sentence_form, tapex_form
from nextword.evaluation.metrics import Sample, Setup, Table, UndefinedError
from nextword.evaluation.metrics.sample import MissingFieldError
from tests.helpers.real_data import real_data
from tests.helpers.tiny_judges import GAMES, KOREAN, metric, parts, sample, scores

FILMS = Table(header=["영화", "year"], rows=[["성장영화", "2012"], ["", "1896"]], title="")
TWICE = Table(header=["city", "city"], rows=[["athens", "london"]])
LONG = Table(
    header=["name"], rows=[[f"row {number} of the year {number * 7} was not in the city"] for number in range(30)]
)
TEXTS = ["athens was in 1896", "London.", KOREAN[1], "the cat was not in the city", "2012 is not 1896"]
TABLES = [GAMES, FILMS, TWICE, LONG, GAMES]


def pairs() -> list[Sample]:
    return [
        sample(line, table=table, text=text) for line, (table, text) in enumerate(zip(TABLES, TEXTS, strict=True), 1)
    ]


@cache
def tapas_model(folder: str) -> tuple[Any, Any]:
    tokenizer = transformers.TapasTokenizer.from_pretrained(folder)
    return tokenizer, transformers.TapasForSequenceClassification.from_pretrained(folder).eval()


def tapas_by_hand(folder: str, table: Table, text: str, limit: int) -> float:
    tokenizer, model = tapas_model(folder)
    cells = pandas.DataFrame(table.rows, columns=table.header, dtype=object)
    encoded = tokenizer(table=cells, queries=[text], truncation=True, max_length=limit, return_tensors="pt")
    with torch.no_grad():
        # The tokenizer pads to the limit when it is told one; the oracle takes what is masked away again.
        real = int(encoded["attention_mask"].sum())
        return float(model(**{name: field[:, :real] for name, field in encoded.items()}).logits[0].softmax(-1)[1])


@pytest.mark.parametrize("batch_size", [1, 2, 50])
@pytest.mark.parametrize("limit", [512, 40])
def test_tapas_is_that_of_single_tables(tapas_folder: str, batch_size: int, limit: int) -> None:
    found = scores("tapas", pairs(), Setup(batch_size=batch_size), model=tapas_folder, max_length=limit)
    wanted = [tapas_by_hand(tapas_folder, one.table, one.text, limit) for one in pairs()]  # type: ignore[arg-type]
    np.testing.assert_allclose(parts(found["tapas-probability"]), wanted, atol=2e-5)
    assert parts(found["tapas"]) == [value > 0.5 for value in wanted]
    assert np.ptp(wanted) > 0.01
    assert "output 'LABEL_1'" in found["tapas"].measure.meaning  # 1 is entailed where outputs have no names


def test_tapas_drops_rows_that_it_has_no_numbers_for(tapas_folder: str) -> None:
    """The tiny model has numbers up to 31 for rows; the tokenizer would go on to its 512 tokens."""
    tall = Table(header=["a"], rows=[[str(number % 10)] for number in range(60)])
    cut = Table(header=["a"], rows=tall.rows[:31])
    values = [
        scores("tapas", [sample(table=table, text="a 5")], model=tapas_folder)["tapas-probability"].value
        for table in (tall, cut)
    ]
    assert values[0] == values[1]
    wide = Table(header=["a"] * 40, rows=[["1"] * 40])
    with pytest.raises(ValueError, match=r"tapas:.*40 columns"):
        scores("tapas", [sample(table=wide, text="a")], model=tapas_folder)


def test_tapas_text_that_leaves_no_room_is_an_error(tapas_folder: str) -> None:
    with pytest.raises(ValueError, match=r"tapas:.*'cat cat .*max_length of 40"):
        scores("tapas", [sample(table=GAMES, text="cat " * 60)], model=tapas_folder, max_length=40)


@cache
def tapex_model(folder: str) -> tuple[Any, Any]:
    tokenizer = transformers.BartTokenizer.from_pretrained(folder, add_prefix_space=True)
    return tokenizer, transformers.BartForSequenceClassification.from_pretrained(folder).eval()


def tapex_by_hand(folder: str, sequence: str, limit: int) -> float:
    tokenizer, model = tapex_model(folder)
    ids = tokenizer(sequence)["input_ids"]
    ids = ids if len(ids) <= limit else [*ids[: limit - 1], tokenizer.eos_token_id]
    with torch.no_grad():
        return float(model(input_ids=torch.tensor([ids])).logits[0].softmax(-1)[1])


@pytest.mark.parametrize("batch_size", [1, 2, 50])
@pytest.mark.parametrize(("asked", "limit"), [(1024, 96), (50, 50)])
def test_tapex_is_that_of_single_sequences(tapex_folder: str, batch_size: int, asked: int, limit: int) -> None:
    settings = {"model": tapex_folder, "max_length": asked, "cell_tokens": 1000}
    found = scores("tapex", pairs(), Setup(batch_size=batch_size), **settings)
    sequences = [f"{one.text} {tapex_form(one.table)}".lower() for one in pairs()]  # type: ignore[arg-type]
    wanted = [tapex_by_hand(tapex_folder, sequence, limit) for sequence in sequences]
    np.testing.assert_allclose(parts(found["tapex-probability"]), wanted, atol=2e-5)
    assert parts(found["tapex"]) == [value > 0.5 for value in wanted]
    assert np.ptp(wanted) > 0.01
    assert "output 'Entailed'" in found["tapex"].measure.meaning


def published_tapex_ids(folder: str, table: Table, text: str, cell_tokens: int, limit: int) -> list[int]:
    """What TapexTokenizer of transformers 4 made of table and text with ``add_prefix_space=True``, as PLOG calls it.

    Written from its definition on the byte pairs alone: the ids of 300 tables of LogicNLG are those of its code.
    """
    from tokenizers import ByteLevelBPETokenizer

    pairs = ByteLevelBPETokenizer(f"{folder}/vocab.json", f"{folder}/merges.txt", add_prefix_space=True)
    rows = []
    for number, row in enumerate(table.rows, 1):
        ids = [pairs.encode(cell).ids if cell.strip() else [] for cell in row]
        cut = [
            pairs.decode(found[:cell_tokens]) if len(found) >= cell_tokens else cell
            for cell, found in zip(row, ids, strict=True)
        ]
        rows.append(f"row {number} : {' | '.join(cut)} ")
    linear = f"col : {' | '.join(table.header)} {''.join(rows)}"
    joint = f"{text} {linear.strip()}"
    start, end = pairs.token_to_id("<s>"), pairs.token_to_id("</s>")
    return [start, *pairs.encode(joint.lower()).ids[: limit - 2], end]


@pytest.mark.parametrize("limit", [96, 30])
@pytest.mark.parametrize("cell_tokens", [1, 4, 15])
def test_tapex_feeds_the_published_tokens(tapex_folder: str, cell_tokens: int, limit: int) -> None:
    """Of a cut cell the space before it stays, of a letter of several tokens a part; an empty last cell leaves none."""
    form = TapexSequence(cell_tokens)
    tokenizer = form.tokenizer(tapex_folder)
    ragged = Table(header=["year", ""], rows=[["the cat sat on the mat in London", KOREAN[0]], [" ", ""]])
    for table, text in zip([*TABLES, ragged], [*TEXTS, "Athens"], strict=True):
        found = form.encode((table, text), tokenizer, limit, None)["input_ids"]
        assert found == published_tapex_ids(tapex_folder, table, text, cell_tokens, limit)


@pytest.mark.parametrize("cell", ["the cat sat on the mat in London", KOREAN[0], "a", ""])
def test_tapex_keeps_the_first_tokens_of_a_cell(tapex_folder: str, cell: str) -> None:
    tokenizer, _ = tapex_model(tapex_folder)
    ids = tokenizer(cell, add_special_tokens=False)["input_ids"]
    cut = tokenizer.decode(ids[:4]) if len(ids) >= 4 else cell
    found = scores(
        "tapex", [sample(table=Table(header=["a"], rows=[[cell]]), text="b")], model=tapex_folder, cell_tokens=4
    )
    wanted = tapex_by_hand(tapex_folder, f"b col : a row 1 : {cut}".lower().rstrip(), 96)
    assert found["tapex-probability"].value == pytest.approx(wanted, abs=2e-5)


def test_tapex_reads_an_end_mark_in_a_text_as_text(tapex_folder: str) -> None:
    """BART refuses batches whose sequences do not end equally often."""
    marked = [sample(table=GAMES, text="one </s> two"), sample(table=GAMES, text="three")]
    assert scores("tapex", marked, model=tapex_folder)["tapex"].n == 2


@pytest.mark.parametrize("name", ["tapas", "tapex"])
def test_empty_texts_are_wrong_and_empty_tables_do_not_count(request: pytest.FixtureRequest, name: str) -> None:
    folder = request.getfixturevalue(f"{name}_folder")
    fields = [(GAMES, "athens"), (GAMES, ""), (Table(header=["a"], rows=[]), "b"), (Table(header=[], rows=[[]]), "b")]
    found = scores(name, [sample(table=table, text=text) for table, text in fields], model=folder)
    assert [math.isnan(value) for value in parts(found[name])] == [False, False, True, True]
    for one in found.values():
        assert (parts(one)[1], one.n) == (0.0, 2)
        assert one.note == "empty texts, which count as wrong: 1 of 4"
    assert scores(name, [sample(table=GAMES, text=" ")], model=folder)[name].value == 0
    assert scores(name, [sample(table=GAMES, text="b")], model=folder)[name].note is None
    with pytest.raises(UndefinedError, match="no sample has a value"):
        scores(name, [sample(table=Table(header=["a"], rows=[]), text="")], model=folder)
    with pytest.raises(MissingFieldError, match=f"samples.jsonl line 1: no 'table', which {name} needs"):
        scores(name, [sample(text="a")], model=folder)


@pytest.mark.parametrize("name", ["tapas", "tapex"])
def test_defaults_are_the_published_checkpoints(name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name}\.model: '\w+/{name}-large-finetuned-tabfact' is not a folder"):
        metric(name)


def test_tables_are_told_apart_in_the_cache(tapex_folder: str, tmp_path: Any) -> None:
    setup = Setup(cache=tmp_path)
    other = GAMES.model_copy(update={"rows": [["1896", "london"], ["2012", "athens"]]})
    one, two = (
        scores("tapex", [sample(table=table, text="athens")], setup, model=tapex_folder)["tapex-probability"].value
        for table in (GAMES, other)
    )
    assert one != two
    again = scores("tapex", [sample(table=GAMES, text="athens")], setup, model=tapex_folder)["tapex-probability"].value
    assert again == one


@pytest.mark.parametrize("name", ["tapas", "tapex", "nli"])
def test_cells_as_pandas_reads_them(request: pytest.FixtureRequest, name: str) -> None:
    """As LogicNLG and PLOG do: a missing cell makes whole numbers fractions, and is "nan"."""
    seats = Table(header=["city", "seats"], rows=[["athens", "589"], ["london", ""], ["", "12"]], title="games")
    read = seats.model_copy(update={"rows": [["athens", "589.0"], ["london", "nan"], ["nan", "12.0"]]})
    assert read_by_pandas(seats) == read
    folder = request.getfixturevalue(f"{name}_folder")
    as_read, as_written, by_hand = (
        scores(name, [sample(table=table, text="589 in athens")], model=folder, **settings)[name + "-probability"]
        for table, settings in ((seats, {"cells": "pandas"}), (seats, {}), (read, {}))
    )
    assert as_read.value == by_hand.value != as_written.value
    assert "cells as pandas reads them" in as_read.measure.meaning
    assert "pandas" not in as_written.measure.meaning


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        (GAMES, GAMES.rows),
        (Table(header=["a", "a"], rows=[["1", "02"]]), [["1", "2"]]),
        (Table(header=["a"], rows=[['1,"2"#'], ["n/a"]]), [['1,"2"#'], ["nan"]]),
        (Table(header=["a"], rows=[]), []),
    ],
)
def test_pandas_reads_every_table(table: Table, rows: list[list[str]]) -> None:
    assert read_by_pandas(table).rows == rows


@pytest.mark.slow
def test_pandas_changes_tables_of_logicnlg() -> None:
    paths = sorted((real_data("logicnlg") / "all_csv").iterdir())
    changed = 0
    for path in paths:
        header, *rows = [line.split("#") for line in path.read_text(encoding="utf-8").splitlines()]
        published = pandas.read_csv(path, sep="#")
        table = Table(header=header, rows=rows)
        read = read_by_pandas(table)
        assert read.rows == [[str(cell) for cell in row] for row in published.itertuples(index=False)]
        changed += read != table
    assert (changed, len(paths)) == (23, 300)


def test_forms_of_tables() -> None:
    assert tapex_form(FILMS) == "col : 영화 | year row 1 : 성장영화 | 2012 row 2 :  | 1896"
    assert sentence_form(FILMS) == (
        "In row 1 , the 영화 is 성장영화 , the year is 2012 . In row 2 , the 영화 is  , the year is 1896 ."
    )
    assert row_form(GAMES) == (
        "title is : games . row 1 is : year is 1896 , city is athens , row 2 is : year is 2012 , city is london ,"
    )
    assert not is_empty(GAMES)
    assert is_empty(Table(header=["a"], rows=[]))
    assert tapex_form(Table(header=["a"], rows=[])) == "col : a"
    assert tapex_form(Table(header=["a", "b"], rows=[["1", ""]])) == "col : a | b row 1 : 1 |"


@pytest.mark.slow
def test_tables_of_logicnlg(tapas_folder: str, tapex_folder: str) -> None:
    """Up to 47 rows and 9 columns, ragged titles, cells such as "66 / 100" and "-"."""
    folder = real_data("logicnlg")
    samples = []
    for name, entries in list(json.loads((folder / "test_lm.json").read_text(encoding="utf-8")).items())[:12]:
        if (folder / "all_csv" / name).exists():
            lines = (folder / "all_csv" / name).read_text(encoding="utf-8").splitlines()
            header, *rows = [line.split("#") for line in lines]
            table = Table(header=header, rows=rows, title=entries[0][2])
            samples.append(sample(table=table, text=entries[0][0]))
    assert len(samples) > 5
    for metric_name, model in {"tapas": tapas_folder, "tapex": tapex_folder}.items():
        found = scores(metric_name, samples, model=model)[f"{metric_name}-probability"]
        assert found.n == len(samples)
        assert 0 <= min(parts(found)) < max(parts(found)) <= 1
