from __future__ import annotations

from nextword.records.reproduced_table import ReproducedCell, ReproducedColumn, ReproducedRow
from nextword.report.reproduction.printed_and_ours import NO_SEED, numbers
from tests.helpers.reproduced_tables import table


def of_one_column(*cells: ReproducedCell) -> list[tuple[str, str]]:
    """The paper's number and ours of each row."""
    rows = [ReproducedRow(title=f"row {place}", cells=[cell]) for place, cell in enumerate(cells)]
    shown = numbers(table(columns=[ReproducedColumn(title="value")], rows=rows))
    return [(row.printed[0], row.ours[0].text) for row in shown.rows]


def test_settings_stand_as_they_are() -> None:
    settings = [(8.0, 2.0), (1e-4, 2e-3), (1500.0, 80.0), (113655420.0, 2051910.0), (0.25, 0.0)]
    cells = [ReproducedCell(printed=printed, value=ours, by_seed={NO_SEED: ours}) for printed, ours in settings]
    assert of_one_column(*cells) == [
        ("8", "2"), ("0.0001", "0.002"), ("1500", "80"), ("113655420", "2051910"), ("0.25", "0"),
    ]  # fmt: skip


def test_what_was_measured_has_the_paper_s_precision() -> None:
    people = ReproducedCell(printed=95.2, value=95.0, by_seed={NO_SEED: 95.0})
    ours = ReproducedCell(printed=93.45, value=92.123456, low=91.0, high=93.5, by_seed={"0": 91.9, "1": 92.346912})
    assert of_one_column(people, ours) == [("95.20", "95.00"), ("93.45", "92.12")]
