from __future__ import annotations

from nextword.results.records.reproduced_table import NO_SEED, ReproducedCell, ReproducedColumn, ReproducedRow
from nextword.results.report.reproduction_page import numbers
from tests.helpers.reproduced_tables import table


def test_settings_and_sizes_have_all_their_digits() -> None:
    settings = [(8.0, 2.0), (1e-5, 2e-3), (1500.0, 80.0), (113655420.0, 2051910.0), (0.25, 0.0)]
    rows = [
        ReproducedRow(title=str(place), cells=[ReproducedCell(printed=printed, value=ours, by_seed={NO_SEED: ours})])
        for place, (printed, ours) in enumerate(settings)
    ]
    shown = numbers(table(columns=[ReproducedColumn(title="value")], rows=rows))
    assert [(row.printed[0], row.ours[0].text) for row in shown.rows] == [
        ("8", "2"), ("0.00001", "0.002"), ("1500", "80"), ("113655420", "2051910"), ("0.25", "0"),
    ]  # fmt: skip
