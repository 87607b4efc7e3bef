"""Made-up reproduced tables: a wide one with everything that a cell can hold, and one that is shown elsewhere."""

from __future__ import annotations

from nextword.results.records.reproduced_table import (
    JudgedClaim,
    JudgedComparison,
    RanExperiment,
    ReproducedCell,
    ReproducedColumn,
    ReproducedRow,
    ReproducedTable,
)
from tests.helpers.written_results import ENVIRONMENT

PAPER = "HistAlign. Wan, Zhang, Bansal. EMNLP 2023."
COLUMNS = [
    *(ReproducedColumn(title=f"Acc@{k}", group="Full", unit="%", better="higher") for k in (2, 5, 10, 25)),
    *(ReproducedColumn(title=f"Acc@{k}", group="Cache-Only", unit="%", better="higher") for k in (2, 5, 10, 25)),
    ReproducedColumn(title="DAE", unit="%", better="lower"),
    ReproducedColumn(title="Diversity", unit="%", better="human"),
    ReproducedColumn(title="Rank"),
    ReproducedColumn(title="Duels"),
]


def number(printed: float | None, by_seed: dict[str, float], half: float | None = 0.5) -> ReproducedCell:
    """A cell with our number, the mean over seeds."""
    mean = sum(by_seed.values()) / len(by_seed)
    low, high = (None, None) if half is None else (mean - half, mean + half)
    return ReproducedCell(printed=printed, value=mean, low=low, high=high, by_seed=by_seed)


def row(title: str, first: float, note: str | None = None) -> ReproducedRow:
    """A row with our numbers, over three seeds but for the last ones."""
    seeds = [{str(seed): first + place + 0.1 * seed for seed in (0, 1, 2)} for place in range(9)]
    cells = [number(first + place + 0.25, values) for place, values in enumerate(seeds)]
    cells += [
        ReproducedCell(printed=87.3, spread=0.4, missing="no text is long enough"),
        number(762.0, {"0": 410.0}, None),
        ReproducedCell(printed="4-3", value="5-2"),
    ]
    return ReproducedRow(title=title, cells=cells, note=note)


def missing_row(title: str, reason: str) -> ReproducedRow:
    """A row of which the paper alone has numbers."""
    cells = [ReproducedCell(printed=50.5 + place, missing=reason) for place in range(len(COLUMNS))]
    return ReproducedRow(title=title, cells=cells)


HELD = JudgedComparison(
    first="HistAlign", second="TRIME", column="Full: Acc@2", outcome="supported",
    difference=12.345, low=10.5, high=14.25, seeds=3, printed=17.04,
)  # fmt: skip
ONCE = JudgedComparison(
    first="HistAlign", second="Softmax", column="Full: Acc@2", outcome="inconclusive", difference=3.0, seeds=1,
    printed=13.47,
)  # fmt: skip
CLAIMS = [
    JudgedClaim(
        text="HistAlign puts both words on top more often.", place="section 6.1", headline=True, outcome="inconclusive",
        reason="HistAlign − TRIME, Full: Acc@2: +12.3", comparisons=[HELD, ONCE], note="Two | of <three> models.",
    ),
    JudgedClaim(
        text="The memory alone is enough.", outcome="supported", reason="+12.3", comparisons=[HELD], headline=True
    ),
    JudgedClaim(
        text="A rank above the width.", outcome="not supported", reason="-3",
        comparisons=[
            HELD.model_copy(update={"outcome": "not supported", "difference": -3.0, "low": -4.0, "high": -2.0})
        ],
    ),
    JudgedClaim(
        text="People prefer it.", place="section 6.2", outcome="not testable", reason="it takes people", headline=True
    ),
]  # fmt: skip
RAN = RanExperiment(
    name="ambiguous", recipe="quickstart", command="nextword compare quickstart --out runs/q", task="ambiguous",
    seeds=[0, 1, 2], start="a model of 1.2 M parameters", data="questions-words.txt", minutes=7.25, start_minutes=3.5,
    report="experiments/small/ambiguous/report.html",
)  # fmt: skip


def table(name: str = "histalign/table-1", paper: str = PAPER, **update: object) -> ReproducedTable:
    """The wide table."""
    made = ReproducedTable(
        name=name,
        paper=paper,
        title="Ambiguous Template",
        place="section 6.1",
        scale="small",
        columns=COLUMNS,
        rows=[
            row("Softmax", 20.0, "Without a memory."),
            row("HistAlign", 32.5),
            missing_row("GPT2-Large, HistAlign", "not at scale small"),
        ],
        claims=CLAIMS,
        note="The rank depends on the threshold.",
        differs=["GPT-2 is a small one."],
        experiments=[RAN],
        command="nextword reproduce histalign/table-1 --data DATA",
        environment=ENVIRONMENT,
    )
    return made.model_copy(update=update)


def picture(name: str = "histalign/figure-1") -> ReproducedTable:
    """A figure that the experiment's report shows."""
    shown = "experiments/small/ambiguous/report.html#examples"
    return table(name, title="A prompt with two right words", columns=[], rows=[], claims=[], shown_in=shown)
