"""A trace: the predictions of a model for every token of a text, as JSON, a table or an HTML page."""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from nextword.results.records import write_atomically
from nextword.results.records.token_trace import TraceRecord

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

_HEIGHT = 720
"""Height of the page in a notebook, in pixels."""


class Trace(TraceRecord):
    """The predictions of a model for every token of a text; made by ``nextword.trace``.

    Each list in ``trace.tokens`` has one entry per predicted token: ``trace.tokens.log_prob[i]`` is about the token
    ``trace.texts["text"].ids[trace.first + i]``. A notebook shows a trace as an HTML page.
    """

    def __repr__(self) -> str:
        count, spec = len(self.tokens.log_prob), self.model.head
        mean = -sum(self.tokens.log_prob) / count
        return f"Trace({count} tokens, {self.model.name} with head '{spec}', {mean:.3f} nats per token)"

    @overload
    def to_json(self, path: None = None) -> str: ...

    @overload
    def to_json(self, path: str | Path) -> None: ...

    def to_json(self, path: str | Path | None = None) -> str | None:
        """The trace as JSON, which ``Trace.load`` reads from a file. ``docs/file-formats.md`` explains the keys.

        Args:
            path: File to write; the result is then None. Without a path the method returns the JSON text.
        """
        text = self.model_dump_json()
        if path is None:
            return text
        write_atomically(path, text + "\n")
        return None

    @overload
    def to_html(self, path: None = None) -> str: ...

    @overload
    def to_html(self, path: str | Path) -> None: ...

    def to_html(self, path: str | Path | None = None) -> str | None:
        """The trace as one self-contained HTML page.

        Args:
            path: File to write; the result is then None. Without a path the method returns the page.
        """
        from nextword.results.report.inspection_page import trace_page

        page: str = trace_page(self)
        if path is None:
            return page
        write_atomically(path, page)
        return None

    def to_pandas(self) -> pd.DataFrame:
        """The trace as a table with one row per predicted token.

        Columns: ``index`` (position from 0, prompt included), ``id``, ``token`` (as in the vocabulary), ``piece`` (the
        text that the token adds), ``log_prob``, ``rank``, ``entropy`` and ``candidates`` (pairs of a token and its
        log-probability). Each component has a column ``share COMPONENT``. If the component points at positions, it also
        has a column ``positions COMPONENT`` (pairs of a position and its share).
        """
        import pandas as pd

        text, tokens = self.texts["text"], self.tokens
        ids = text.ids[self.first :]
        columns: dict[str, Any] = {
            "index": range(self.first, len(text.ids)),
            "id": ids,
            "token": [self.vocabulary[token] for token in ids],
            "piece": text.pieces[self.first :],
            "log_prob": tokens.log_prob,
            "rank": tokens.rank,
            "entropy": tokens.entropy,
        }
        columns |= {f"share {name}": shares for name, shares in tokens.shares.items()}
        for name, positions in tokens.positions.items():
            columns[f"positions {name}"] = [
                list(zip(*row, strict=True)) for row in zip(positions.at, positions.share, strict=True)
            ]
        best = zip(tokens.candidates.ids, tokens.candidates.log_prob, strict=True)
        columns["candidates"] = [
            [(self.vocabulary[token], log_prob) for token, log_prob in zip(*row, strict=True)] for row in best
        ]
        return pd.DataFrame(columns)

    def _repr_html_(self) -> str:
        """The page in an HTML frame, which separates its styles and scripts from the notebook's."""
        page = html.escape(self.to_html(), quote=True)
        style = f"width: 100%; height: {_HEIGHT}px; border: 0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{page}"></iframe>'
