"""A score as a table of values separated by commas: a row for each model, and for each of its groups."""

from __future__ import annotations

import csv
import io

from nextword.results.records import ScoreResults

COLUMNS = ("model", "breakdown", "group", "tokens", "nll", "low", "high", "perplexity", "share_of_nats", "impossible")


def score_csv(results: ScoreResults) -> str:
    """The text of the file; a cell is empty where there is no finite number."""
    written = io.StringIO()
    table = csv.writer(written, lineterminator="\n")
    table.writerow(COLUMNS)
    for model in results.models:
        nll = model.values.get("nll")
        whole = (nll.value, nll.low, nll.high) if nll is not None else (None, None, None)
        perplexity = model.values.get("perplexity")
        table.writerow(
            [model.name, "", "", model.tokens, *whole, perplexity and perplexity.value, 1.0, model.impossible]
        )
        for key, groups in model.breakdowns.items():
            for one in groups:
                finite = one.perplexity if one.nll is not None else None
                numbers = (one.tokens, one.nll, one.low, one.high, finite, one.share_of_nats, one.impossible)
                table.writerow([model.name, key, one.group, *numbers])
    return written.getvalue()
