from __future__ import annotations

import pytest
import torch

from nextword.experiments.training.collator import Auxiliary, EncodedTexts, RightPadding


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
    with pytest.raises(ValueError, match=r"labels: must be as many as input_ids.*\(2, 3\)"):
        RightPadding()([{"input_ids": [1, 2], "labels": [1, 2, 3]}])


def test_targets_of_their_own_length():
    batch = RightPadding(pad_id=9, aligned=False)(
        [{"input_ids": [1, 2, 3], "labels": [4]}, {"input_ids": [5], "labels": [6, 7]}]
    )
    assert batch["input_ids"].tolist() == [[1, 2, 3], [5, 9, 9]]
    assert batch["labels"].tolist() == [[4, -100], [6, 7]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]


def test_labels_of_another_length_are_refused_whatever_the_longest_is():
    with pytest.raises(ValueError, match=r"labels:.*input_ids"):
        RightPadding()([{"input_ids": [1, 2], "labels": [1, 2]}, {"input_ids": [1, 2], "labels": [1]}])


ADVISED = [
    {"input_ids": [1], "labels": [1], "aux_input_ids": [5, 6, 7], "source_ids": [8, 9], "source_positions": [1, 2]},
    {"input_ids": [2], "labels": [2], "aux_input_ids": [5], "source_ids": [8, 9, 9], "source_positions": [0, 0, 0]},
]


def test_auxiliary_columns_are_left_out_without_a_conditioner():
    assert set(RightPadding()(ADVISED)) == {"input_ids", "labels", "attention_mask"}


def test_auxiliary_text_is_padded_and_masked():
    batch = RightPadding(pad_id=3, auxiliary=Auxiliary())(ADVISED)
    assert set(batch) == {"input_ids", "labels", "attention_mask", "aux_input_ids", "aux_attention_mask"}
    assert batch["aux_input_ids"].tolist() == [[5, 6, 7], [5, 0, 0]]
    assert batch["aux_attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]


def test_heads_that_copy_get_the_source():
    batch = RightPadding(auxiliary=Auxiliary(source=True))(ADVISED)
    assert batch["source_ids"].tolist() == [[8, 9, 0], [8, 9, 9]]
    assert batch["source_positions"].tolist() == [[1, 2, -1], [0, 0, 0]]


def test_states_take_the_place_of_ids_where_all_are_there():
    states = {(5, 6, 7): torch.arange(6.0).view(3, 2), (5,): -torch.ones(1, 2)}
    batch = RightPadding(auxiliary=Auxiliary(encoded=EncodedTexts(states)))(ADVISED)
    assert "aux_input_ids" not in batch
    assert batch["aux_states"].tolist() == [[[0, 1], [2, 3], [4, 5]], [[-1, -1], [0, 0], [0, 0]]]
    assert batch["aux_attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
    states.pop((5,))
    assert "aux_states" not in RightPadding(auxiliary=Auxiliary(encoded=EncodedTexts(states)))(ADVISED)
