from __future__ import annotations

import pytest

from nextword.training.collator import RightPadding


def test_pads_right_with_mask_and_ignored_labels():
    batch = RightPadding(pad_id=9)(
        [{"input_ids": [1], "labels": [1]}, {"input_ids": [2, 3, 4], "labels": [-100, 3, 4]}]
    )
    assert batch["input_ids"].tolist() == [[1, 9, 9], [2, 3, 4]]
    assert batch["labels"].tolist() == [[1, -100, -100], [-100, 3, 4]]
    assert batch["attention_mask"].tolist() == [[1, 0, 0], [1, 1, 1]]
    assert "return_logits" not in batch


def test_asks_for_no_logits_when_told():
    assert RightPadding(without_logits=True)([{"input_ids": [1], "labels": [1]}])["return_logits"] is False


def test_labels_of_another_length_are_refused():
    with pytest.raises(ValueError, match=r"as many labels as input_ids.*\(2, 3\)"):
        RightPadding()([{"input_ids": [1, 2], "labels": [1, 2, 3]}])


def test_targets_of_their_own_length():
    batch = RightPadding(pad_id=9, aligned=False)(
        [{"input_ids": [1, 2, 3], "labels": [4]}, {"input_ids": [5], "labels": [6, 7]}]
    )
    assert batch["input_ids"].tolist() == [[1, 2, 3], [5, 9, 9]]
    assert batch["labels"].tolist() == [[4, -100], [6, 7]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]


def test_labels_of_another_length_are_refused_whatever_the_longest_is():
    with pytest.raises(ValueError, match="as many labels as input_ids"):
        RightPadding()([{"input_ids": [1, 2], "labels": [1, 2]}, {"input_ids": [1, 2], "labels": [1]}])
