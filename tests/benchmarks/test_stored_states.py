"""The record of stored states: medians and their ratios, what is extrapolated, and tables that others wrote."""

from __future__ import annotations

import pytest
import stored_states
import stored_states_growth
import stored_states_shapes


def test_medians_and_their_ratio_stand_in_the_record() -> None:
    row = {
        "head": "mos:3",
        "loss_change": -3e-5,
        "through the model": [4.0, 6.0, 5.0],
        "full fine-tuning": [9.0, 7.5, 7.0],
        "from states": [2.0, 2.5, 3.0],
    }
    built = {"tokens": 1544, "seconds": 6.0, "mib": 7.0, "rounding": 2e-4}
    tables = stored_states.step_tables([row], built, "a model")
    cells = tables[0]["parts"][0]["rows"][0]
    times = ["5.00 (4.00 to 6.00)", "7.50 (7.00 to 9.00)", "2.50 (2.00 to 3.00)"]
    assert cells == ["mos:3", *times, "2.00", "3.00", "-3.0e-05"]


def test_a_part_replaces_its_own_tables_alone() -> None:
    def section(title: str, content: int) -> dict[str, object]:
        return {"title": title, "parts": [content]}

    before = {"sections": [section("A training step", 1), section("Comparisons", 2), section("Command", 3)]}
    made = stored_states.with_part(before | {"measured": {"steps": 5}}, "reading", {"rows": 6}, [section("Reading", 7)])
    titles = [one["title"] for one in made["sections"]]
    assert titles == ["A training step", "Reading", "Comparisons", "Command"]
    assert made["sections"][2] == section("Comparisons", 2)
    assert made["measured"] == {"steps": 5, "reading": {"rows": 6}}


def test_a_layer_costs_what_the_second_one_adds() -> None:
    found = {"frozen, 1": [3.0, 2.0, 4.0], "frozen, 2": [5.0, 4.5, 6.0]}
    assert stored_states_shapes.whole_step(found, "frozen", 16) == pytest.approx(3.0 + 15 * 2.0)


def test_growth_is_the_slope_of_logarithms() -> None:
    found = [{"tokens": 10 * 2**times, "build": 3.0 * 2**times, "step": 0.5} for times in range(4)]
    assert stored_states_growth.exponent(found, "build") == pytest.approx(1.0)
    assert stored_states_growth.exponent(found, "step") == pytest.approx(0.0)
