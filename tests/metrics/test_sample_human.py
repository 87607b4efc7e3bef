"""What the human row of a sample holds of held-out tokens."""

from __future__ import annotations

import pytest

from nextword.metrics import MissingFieldError, Sample

PREDICTED = {
    "target_token_ids": [1, 2],
    "predicted_token_ids": [3, 3],
    "log_probs": [-1.0, -1.0],
    "target_ranks": [1, 0],
}


def test_targets_are_their_own_prediction_and_nothing_is_known_of_their_probability() -> None:
    human = Sample.model_validate({"text": "a", "reference": "b", **PREDICTED}).as_human()
    assert (human.text, human.target_token_ids, human.predicted_token_ids) == ("b", [1, 2], [1, 2])
    assert (human.log_probs, human.target_ranks) == (None, None)


def test_targets_need_no_references() -> None:
    human = Sample.model_validate(PREDICTED).as_human()
    assert (human.text, human.predicted_token_ids) == (None, [1, 2])
    with pytest.raises(MissingFieldError, match="no 'references', which the human row needs"):
        Sample.model_validate({"text": "a"}).as_human()
