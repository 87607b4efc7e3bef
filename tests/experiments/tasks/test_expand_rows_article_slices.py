from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from nextword.experiments.tasks.expand_rows import Articles, SameSlices, Slices
from nextword.experiments.tasks.tokenizers import trained_tokenizer

START, LENGTH = 1000, 4
ROWS = [list(range(10, 20)), [3, 4], list(range(50, 54)), list(range(30, 37))]
USED = [0, 2, 3]
PROMPTS = [[90, 91], [92], [93, 94]]


def articles():
    rows = [[START, *row] for row in ROWS]
    return Articles(np.array([token for row in rows for token in row]), np.cumsum([0, *map(len, rows)]))


def slices(seed=0, prompted_share=0.0, columns=None):
    return Slices(articles(), USED, PROMPTS, LENGTH, seed, prompted_share, columns)


def rows_of(data, epoch):
    data.set_epoch(epoch)
    return [data[index] for index in range(len(data))]


def test_articles_are_encoded_as_wholes():
    text = "An article.\n\nOf lines \N{EM DASH} two."
    tokenizer = trained_tokenizer(text * 3, 300, None)
    found = Articles.of(tokenizer, [text, "", text[:5]], start=7)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(found) == 3
    assert [found.tokens(number) for number in range(3)] == [len(ids), 0, len(tokenizer(text[:5])["input_ids"])]
    assert found.slice(0, 0, 4) == [7, *ids[:3]]
    assert found.slice(2, 1, 2) == tokenizer(text[:5], add_special_tokens=False)["input_ids"][:2]
    assert len(Articles.of(tokenizer, [], start=7)) == 0


def test_a_row_is_a_slice_with_the_token_before_it():
    for epoch in range(20):
        for row, number in zip(rows_of(slices(), epoch), USED, strict=True):
            whole = [START, *ROWS[number]]
            begin = whole.index(row["input_ids"][0])
            assert row["input_ids"] == whole[begin : begin + LENGTH + 1]
            assert row["labels"] == row["input_ids"]
            assert len(row["labels"]) == LENGTH + 1


def test_the_same_slices_are_those_of_the_first_epoch():
    same = SameSlices(articles(), USED, PROMPTS, LENGTH, 0, 0.5)
    assert not hasattr(same, "set_epoch")
    first, second = (rows_of(slices(prompted_share=0.5), epoch) for epoch in (0, 1))
    assert [same[index] for index in range(len(same))] == first != second


def test_every_place_is_equally_likely_and_an_article_of_just_the_length_has_one():
    data = slices()
    seen = [Counter() for _ in USED]
    for epoch in range(2100):
        for row, counts in zip(rows_of(data, epoch), seen, strict=True):
            counts[row["input_ids"][0]] += 1
    assert set(seen[1]) == {START}
    assert set(seen[0]) == {START, *ROWS[0][:6]}
    # 7 places of 300 each; sqrt(2100 * 1/7 * 6/7) = 16, so 5 deviations
    assert max(abs(count - 300) for count in seen[0].values()) < 80


def test_rows_depend_on_seed_epoch_and_number_only():
    data = slices(prompted_share=0.5)
    first = rows_of(data, 3)
    assert rows_of(data, 4) != first
    assert rows_of(data, 3) == first
    data.set_epoch(3)
    assert [data[index] for index in (2, 0, 1)] == [first[index] for index in (2, 0, 1)]
    assert rows_of(slices(prompted_share=0.5), 3) == first
    assert any(rows_of(slices(seed=1, prompted_share=0.5), epoch) != rows_of(data, epoch) for epoch in range(3))


def test_prompted_rows_begin_with_their_prompt_which_is_no_target():
    for epoch in range(5):
        plain, prompted = rows_of(slices(), epoch), rows_of(slices(prompted_share=1.0), epoch)
        for one, other, prompt in zip(plain, prompted, PROMPTS, strict=True):
            assert other["input_ids"] == [START, *prompt, *one["input_ids"][1:]]
            assert other["labels"] == [-100] * (1 + len(prompt)) + one["labels"][1:]


def test_the_share_of_prompted_rows_is_the_one_asked_for():
    data = slices(prompted_share=0.25)
    prompted = sum(row["labels"][0] == -100 for epoch in range(1000) for row in rows_of(data, epoch))
    assert prompted == pytest.approx(750, abs=5 * (3000 * 0.25 * 0.75) ** 0.5)


def test_columns_go_along():
    data = slices(columns={"aux_input_ids": [[1], [2, 3], [4]]})
    assert data.column_names == ["input_ids", "labels", "aux_input_ids"]
    assert [row["aux_input_ids"] for row in data] == [[1], [2, 3], [4]]
    assert len(data) == 3
    with pytest.raises(IndexError, match="row 3 of 3"):
        data[3]
