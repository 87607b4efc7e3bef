"""One architecture with one head: attached, and asked for everything that the bare model can do."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import nextword as nw
from architectures.abilities import ABILITIES, Ability, UnableError
from architectures.bare import MOST, TOLERANCE, Bare
from architectures.one_line import one_line
from architectures.probes import Probe
from nextword.checking.checker import PROPERTIES
from nextword.checking.probe_texts import ProbeWords
from nextword.checking.property import Case
from nextword.checking.readers import BackboneReader
from nextword.functional.frequency import TokenCounts

LENGTHS = (5,)
"""Of the texts that ``nw.check`` reads."""


@dataclass(frozen=True)
class Cell:
    """What became of it.

    Args:
        outcome: ``works``, ``refused`` or ``fails``.
        where: The check that failed; empty where none did.
        reason: Why, in one line.
    """

    outcome: str
    where: str = ""
    reason: str = ""


def _counted() -> dict[str, str]:
    """The head that divides the vocabulary by frequency needs counts: a file of them."""
    path = Path(tempfile.mkdtemp()) / "counts.npz"
    TokenCounts(np.arange(40, dtype=np.int64)[::-1].copy(), None, "the sweep").save(path)
    return {"head": "f2", "counts": str(path), "decoupled": False}


HEADS: dict[str, Callable[[], Any]] = {
    "softmax": lambda: "softmax",
    "cache": lambda: "cache",
    "softmax+cpr:3,5+mi:2x3": lambda: "softmax+cpr:3,5+mi:2x3",
    "pg": lambda: "pg",
    "mos:2": lambda: "mos:2",
    "f2": _counted,
}
"""One head of each family: name to how its spec is made."""


def cell(model: Any, head: str, bare: Bare, probe: Probe) -> Cell:
    """Attaches the head and asks; stops at the first thing that fails."""
    before = _configuration(model)
    torch.manual_seed(0)
    try:
        ours = nw.attach(model, HEADS[head]())
    except ValueError as fault:
        return Cell("refused", "attach", one_line(fault))
    except Exception as fault:
        return Cell("fails", "attach", one_line(fault))
    ours.eval()
    for name, check in _checks(model, head, bare, probe, before):
        try:
            check(ours)
        except Exception as fault:  # whatever is raised after attach is a failure of ours
            return Cell("fails", name, one_line(fault))
    return Cell("works")


def _checks(
    model: Any, head: str, bare: Bare, probe: Probe, before: str
) -> Iterator[tuple[str, Callable[[Any], None]]]:
    if head == "softmax":
        yield "bit for bit", lambda ours: _same_bits(ours, model, probe)
    yield "nw.check", _checked
    for name, ability in ABILITIES.items():
        if name in bare.deviations:
            yield name, lambda ours, name=name, ability=ability: _able(ours, ability, probe, bare.allowed(name))
    yield "configuration untouched", lambda ours: _untouched(model, before)


@torch.no_grad()
def _same_bits(ours: Any, model: Any, probe: Probe) -> None:
    found, expected = (one(**probe.reading).logits.float().log_softmax(-1) for one in (ours, model))
    if not torch.equal(found, expected):
        raise UnableError(f"differs by {float((found - expected).abs().max()):.2g}")


def _checked(ours: Any) -> None:
    for row in nw.check(ours, lengths=LENGTHS).failures:
        if not _bare_fails(ours, row.name) and not _is_rounding(ours, row.name):
            raise UnableError(row.explain())


def _is_rounding(ours: Any, name: str) -> bool:
    """Whether the property holds in double precision: what is wrong would be wrong there, too.

    Held to the tolerance of single precision, in which some models compute parts of themselves whatever they are given.
    """
    with _double_precision():
        report = nw.check(copy.deepcopy(ours).double(), lengths=LENGTHS)
    (worst,) = (row.worst for row in report.rows if row.name == name)
    return worst is None or worst <= TOLERANCE


@torch.no_grad()
def _bare_fails(ours: Any, name: str) -> bool:
    """Whether the model without a head lacks the property, too."""
    (one,) = (one for one in PROPERTIES if one.name == name)
    if not one.reruns:
        return False
    words = ProbeWords(ours, seed=0)
    case = Case(ours, words, words.random_sample(*LENGTHS))
    try:
        return any(worst > MOST for _, worst in one.measure(BackboneReader(ours), case))
    except Exception:  # it cannot even be asked
        return True


def _able(ours: Any, ability: Ability, probe: Probe, allowed: float) -> None:
    worst = ability(ours, probe)
    if worst <= allowed:
        return
    if worst <= MOST:
        with _double_precision():
            if ability(copy.deepcopy(ours).double(), probe) <= TOLERANCE:  # rounding, as above
                return
    raise UnableError(f"deviates by {worst:.2g}, {allowed:.2g} allowed")


@contextmanager
def _double_precision() -> Iterator[None]:
    """Tensors that a model makes in its forward are of double precision too, or it cannot run in it (XGLM)."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _configuration(model: Any) -> str:
    generation = getattr(model, "generation_config", None)
    settings = [model.config.to_dict(), None if generation is None else generation.to_dict()]
    return json.dumps(settings, sort_keys=True, default=str)


def _untouched(model: Any, before: str) -> None:
    if _configuration(model) != before:
        raise UnableError("the model's own configuration was changed")
