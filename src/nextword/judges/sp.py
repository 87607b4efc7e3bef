"""SP-Acc: does the program that a parser makes of a text hold on its table."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import cast

import numpy as np

from nextword.judges.tables import is_empty
from nextword.metrics import Metric, MetricConfig, Sample, Score, Setup, Table, groups, registry
from nextword.records import Measure

Parser = Callable[[Table, str], bool | None]
"""Given table and text: whether the best program for the text evaluates to true on the table; None: no program."""


class SpConfig(MetricConfig):
    """Settings of SP-Acc."""

    parser: str | None = None
    """Import path ``module:function`` of a semantic parser that takes table and text."""


def find_parser(path: str | None) -> Parser:
    """The function that ``module:function`` names.

    Raises:
        ValueError: There is none; the message says how to name one.

    >>> find_parser("builtins:len") is len
    True
    """
    if path is None:
        raise ValueError(
            "sp.parser: missing; SP-Acc needs a semantic parser, which does not come with the library. Name one as "
            "module:function; it is called with a table (header, rows, title) and a text, and returns whether the "
            "program it finds is true, or None where it finds none."
        )
    module, colon, function = path.partition(":")
    if not (module and colon and function):
        raise ValueError(f"sp.parser: must be module:function, got '{path}'")
    try:
        found = getattr(importlib.import_module(module), function, None)
    except ImportError as fault:
        raise ValueError(f"sp.parser: module '{module}' cannot be imported: {fault}") from fault
    if not callable(found):
        raise ValueError(f"sp.parser: module '{module}' has no function '{function}'")
    return cast(Parser, found)


@registry.register("sp")
class Sp(Metric):
    """SP-Acc: share of texts whose program, by an external parser, is true on the table. Example: ``sp``."""

    Config = SpConfig
    needs = ("table", "text")

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._parse = find_parser(self.config.parser)
        self._true: list[float] = []
        self._parsed: list[float] = []

    @classmethod
    def on_request(cls) -> str | None:
        """It asks a parser that must be named."""
        return "asks an external parser (sp.parser): name it to have it measured"

    def add(self, sample: Sample) -> None:
        """Has the text parsed and its program executed.

        Raises:
            ValueError: The parser fails, or gives something else than true, false or None.
        """
        table, text = sample.need("table", "sp"), sample.need("text", "sp")
        if not text.strip() or is_empty(table):
            self._true.append(np.nan)
            self._parsed.append(np.nan)
            return
        try:
            answer = self._parse(table, text)
        except Exception as fault:
            raise ValueError(f"{sample.place}: parser {self.config.parser} fails: {fault!r}") from fault
        if not isinstance(answer, bool | np.bool_ | None):
            raise ValueError(
                f"{sample.place}: parser {self.config.parser} must return True, False or None (no program), "
                f"got {answer!r}"
            )
        self._true.append(float(bool(answer)))
        self._parsed.append(float(answer is not None))

    def result(self) -> dict[str, Score]:
        """``sp``, and ``sp-parsed``: the share of texts for which a program was found."""
        parser = f"parser {self.config.parser}"
        return {
            "sp": self._score(
                "SP-Acc", self._true, f"share of texts whose program ({parser}) is true; none found counts as false"
            ),
            "sp-parsed": self._score(
                "SP, parsed", self._parsed, f"share of texts for which a program was found ({parser})"
            ),
        }

    def _score(self, title: str, values: list[float], meaning: str) -> Score:
        measure = Measure(
            title=title,
            group=groups.FAITHFULNESS,
            unit="fraction of texts",
            goal="higher",
            decimals=2,
            meaning=f"{title}: {meaning}.",
        )
        known = np.asarray(values, dtype=np.float64)
        return Score.mean(measure, known)
