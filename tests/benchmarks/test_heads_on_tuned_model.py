"""The control of figure 3: each head's change is that of the same seed and of the same model."""

from __future__ import annotations

from heads_on_tuned_model import BASELINE, PLAIN, before, compared


def test_changes_are_relative_to_the_same_seed_of_the_same_model() -> None:
    first = {PLAIN: {0: 12.0}, BASELINE: {0: 10.0, 1: 20.0}, "mos:3": {0: 9.0, 1: 19.0}}
    second = {PLAIN: {0: 5.0}, BASELINE: {0: 5.0, 1: 4.0}, "mos:3": {0: 4.0, 1: 4.0}}
    rows = compared([first, second])
    assert rows[0] == ["as it is", "12.00", "+20.0", "5.00", "+0.0"]
    assert rows[1] == [f"`{BASELINE}`", "15.00 <sub>10.00–20.00</sub>", "", "4.50 <sub>4.00–5.00</sub>", ""]
    first_change, second_change = "−7.5 <sub>−10.0 to −5.0</sub>", "−10.0 <sub>−20.0 to +0.0</sub>"
    assert rows[2] == ["`mos:3`", "14.00 <sub>9.00–19.00</sub>", first_change, "4.00", second_change]


def test_figure_3_has_every_head_with_each_seed() -> None:
    found = before()
    assert len(found) == 16
    assert all(found[method].keys() == {0, 1, 2} for method in found if method != PLAIN)
