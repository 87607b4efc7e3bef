"""The record of stored states: medians, their ratio, and what the states cost in loss."""

from __future__ import annotations

import stored_states


def test_medians_and_their_ratio_stand_in_the_record() -> None:
    row = {"head": "mos:3", "loss_change": -3e-5, "through the model": [4.0, 6.0, 5.0], "from states": [2.0, 2.5, 3.0]}
    built = {"tokens": 1544, "seconds": 6.0, "mib": 7.0, "rounding": 2e-4}
    made = stored_states.record([row], built, "a model")
    cells = made["sections"][0]["parts"][0]["rows"][0]
    assert cells == ["mos:3", "5.00 (4.00 to 6.00)", "2.50 (2.00 to 3.00)", "2.00", "-3.0e-05"]
    assert made["measured"] == [row]
