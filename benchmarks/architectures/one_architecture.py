"""One architecture through everything: built, asked without a head, asked with each."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import torch

from architectures.bare import bare_abilities
from architectures.cells import cell
from architectures.one_line import one_line
from architectures.probes import Probe, probe_of
from architectures.shrunk import VOCABULARY
from architectures.tiny_model import tiny_model

Row = dict[str, Any]
"""What is known of an architecture; JSON."""
READING = "reading a text"


class NoScoresError(Exception):
    """A model does not score the next token of a text."""


def try_architecture(kind: str, name: str, tell: Callable[[Row], None], heads: Sequence[str]) -> None:
    """Tries it, and tells after every step what is known by then: the next one may end the process."""
    start = time.perf_counter()
    found = built(kind, name, tell)
    if found is None:
        return
    model, probe, row = found
    _open_ended(model)
    bare = bare_abilities(copy.deepcopy(model), probe)
    row["bare"] = bare.unable
    for head in heads:
        row["heads"][head] = {"outcome": "fails", "where": "process", "reason": "the process ended in it"}
        tell(row)
        row["heads"][head] = asdict(cell(copy.deepcopy(model), head, bare, probe))
        row["seconds"] = since(start)
        tell(row)


def built(kind: str, name: str, tell: Callable[[Row], None]) -> tuple[Any, Probe, Row] | None:
    """The tiny model, what it is asked, and its row so far; None, and the reason is told, where it reads no text."""
    row: Row = {"kind": kind, "name": name, "not_built": "the process ended while the model was built"}
    tell(row)
    start = time.perf_counter()
    try:
        model = tiny_model(kind, name)
        probe = probe_of(model)
    except Exception as fault:  # whatever transformers raises
        tell(row | {"not_built": one_line(fault), "seconds": since(start)})
        return None
    row |= {"not_built": "", "model": type(model).__name__, "parameters": model.num_parameters(), "heads": {}}
    row["bare"] = {"everything": "the process ended in it"}
    tell(row)
    try:
        _expect_scores(model, probe)
    except Exception as fault:  # whatever transformers raises: there is nothing to put a head on
        tell(row | {"bare": {READING: one_line(fault)}, "seconds": since(start)})
        return None
    return model, probe, row


@torch.no_grad()
def _expect_scores(model: Any, probe: Probe) -> None:
    """Raises where the model reads no text alone, or gives no finite score for every token."""
    scores = model(**probe.reading).logits
    expected = (*probe.reading.get("decoder_input_ids", probe.reading["input_ids"]).shape, VOCABULARY)
    if tuple(scores.shape[:-1]) != expected[:-1] or scores.shape[-1] < VOCABULARY:
        raise NoScoresError(f"its scores have the shape {tuple(scores.shape)}, those of a language model {expected}")
    if not bool(scores.isfinite().all()):
        raise NoScoresError("its scores are not finite")


def _open_ended(model: Any) -> None:
    """Takes out of its generation settings what would cut the texts of the sweep short."""
    settings = getattr(model, "generation_config", None)
    if settings is not None:
        settings.max_length = None


def since(start: float) -> float:
    """Seconds, as a row has them."""
    return round(time.perf_counter() - start, 1)
