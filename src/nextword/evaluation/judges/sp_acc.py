"""SP-Acc: the share of texts that are true on their table, according to programs that a semantic parser finds."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from nextword.evaluation.judges.checkpoints import is_blank, note_on_empty
from nextword.evaluation.judges.tables import is_empty
from nextword.evaluation.metrics import Metric, MetricConfig, Sample, Score, Setup, Table, metric, registry

Program = tuple[float, bool]
"""A program's score (higher is better) and whether it is true on the table."""

Parser = Callable[[Table, str], bool | Sequence[Program] | None]
"""Function of a table and a text. It returns whether the text is true on the table (None: it found no program), or all
programs of the text."""

PROGRAMS = 36
"""Maximum number of programs per text. Later programs are ignored."""
MANY = 8
"""If a text has more programs than this, it is true if one of its ``BEST`` best-scored programs is true."""
BEST = 3


def verdict(programs: Sequence[Program]) -> bool | None:
    """Whether a text is true according to its ``programs``, given in the order of discovery. None without programs.

    Only the first ``PROGRAMS`` programs are used. If there are more than ``MANY`` of them, the text is true if one of
    the ``BEST`` programs with the highest scores is true. Otherwise the program with the highest score decides.

    Source: LogicNLG (Chen et al., 2020), ``parse_programs.py --compute_score``.

    >>> verdict([(0.9, False), (0.1, True)]), verdict([(0.9, False), *[(0.1, True)] * 8]), verdict([])
    (False, True, None)
    """
    found = list(programs)[:PROGRAMS]
    if not found:
        return None
    ranked = sorted(found, key=lambda program: -program[0])
    return any(true for _, true in ranked[: BEST if len(found) > MANY else 1])


class SpConfig(MetricConfig):
    """Settings of SP-Acc."""

    parser: str | None = None
    """Import path ``module:function`` of a semantic parser that takes table and text."""


def find_parser(path: str | None) -> Parser:
    """Import the semantic parser at ``path``, which has the form ``module:function``.

    Raises:
        ValueError: If ``path`` is None or has another form, or the function cannot be imported.

    >>> find_parser("builtins:len") is len
    True
    """
    if path is None:
        raise ValueError(
            "sp.parser: must be a semantic parser as module:function (none given); the library has none. The "
            "function is called with a table (header, rows, title) and a text, and returns True, False, None (no "
            "program), or all programs as pairs (score, whether true)."
        )
    module, colon, function = path.partition(":")
    if not (module and colon and function):
        raise ValueError(f"sp.parser: must be module:function ('{path}' given)")
    try:
        found = getattr(importlib.import_module(module), function, None)
    except ImportError as fault:
        raise ValueError(f"sp.parser: module '{module}' cannot be imported: {fault}") from fault
    if not callable(found):
        raise ValueError(f"sp.parser: module '{module}' has no function '{function}'")
    return cast(Parser, found)


@registry.register("sp")
class Sp(Metric):
    """SP-Acc: share of texts that are true on the table according to a semantic parser. Example: ``sp``."""

    Config = SpConfig
    needs = ("table", "text")
    group, goal, decimals = metric.FAITHFULNESS, "higher", 2

    def __init__(self, config: MetricConfig, setup: Setup) -> None:
        super().__init__(config, setup)
        self._parse = find_parser(self.config.parser)
        self._true: list[float] = []
        self._parsed: list[float] = []
        self._empty: list[bool] = []

    @classmethod
    def on_request(cls) -> str | None:
        """Reason why ``metrics="all"`` leaves this metric out: the user must name a parser."""
        return "runs an external parser; to compute it, name one as sp.parser"

    def add(self, sample: Sample) -> None:
        """Run the parser on table and text. ValueError if it fails or returns anything but a bool, None or programs."""
        table, text = sample.need("table", "sp"), sample.need("text", "sp")
        given = not is_empty(table)
        self._empty.append(given and is_blank(text))
        if not given:
            self._true.append(np.nan)
            self._parsed.append(np.nan)
            return
        answer = None if is_blank(text) else self._answer(sample, table, text)
        self._true.append(float(bool(answer)))
        self._parsed.append(float(answer is not None))

    def _answer(self, sample: Sample, table: Table, text: str) -> bool | None:
        try:
            answer = self._parse(table, text)
        except Exception as fault:
            raise ValueError(f"{sample.place}: parser {self.config.parser} fails: {fault!r}") from fault
        if answer is None or isinstance(answer, bool | np.bool_):
            return None if answer is None else bool(answer)
        if _are_programs(answer):
            return verdict(answer)
        raise ValueError(
            f"{sample.place}: parser {self.config.parser} must return True, False, None (no program) or a list of "
            f"programs with their scores, (score, whether true) ({answer!r} given)"
        )

    def result(self) -> dict[str, Score]:
        """``sp``, the share of true texts, and ``sp-parsed``, the share of texts for which a program was found."""
        parser = f"parser {self.config.parser}"
        return {
            "sp": self._score(
                "SP-Acc",
                self._true,
                f"share of texts whose program ({parser}) is true; none found and an empty text count as false",
            ),
            "sp-parsed": self._score(
                "SP, parsed", self._parsed, f"share of texts for which a program was found ({parser})"
            ),
        }

    def _score(self, title: str, values: list[float], meaning: str) -> Score:
        measure = self.measure(title, "fraction of texts", f"{title}: {meaning}.")
        return Score.mean(measure, np.array(values, dtype=np.float64), note_on_empty(self._empty))


def _are_programs(answer: Any) -> bool:
    return isinstance(answer, list | tuple) and all(
        isinstance(one, list | tuple) and len(one) == 2 and isinstance(one[1], bool | np.bool_) for one in answer
    )
