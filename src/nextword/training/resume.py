"""Which checkpoint an interrupted training can resume from."""

from __future__ import annotations

import json
import logging
import re
import zipfile
from pathlib import Path

logger = logging.getLogger(__name__)

STATE = "trainer_state.json"


def last_complete(folder: Path) -> Path | None:
    """The newest checkpoint of ``transformers.Trainer`` in ``folder`` that can be read in full, or ``None``.

    A process that is killed while it saves leaves half a checkpoint behind; such a one is passed over with a warning.
    """
    for checkpoint in sorted(folder.glob("checkpoint-*"), key=_step, reverse=True):
        problem = what_is_missing(checkpoint)
        if problem is None:
            return checkpoint
        logger.warning("%s is incomplete (%s); an earlier state is used instead", checkpoint, problem)
    return None


def what_is_missing(checkpoint: Path) -> str | None:
    """Why a checkpoint cannot be resumed from, or ``None`` where it can."""
    if _step(checkpoint) < 0:
        return "its name has no step number"
    try:
        json.loads((checkpoint / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return f"no readable {STATE}"
    problem = unreadable_weights(checkpoint)
    if problem is not None:
        return problem
    for name in ("optimizer.pt", "scheduler.pt"):  # zip archives; their table of contents is written last
        if not zipfile.is_zipfile(checkpoint / name):
            return f"no readable {name}"
    return None


def unreadable_weights(folder: Path) -> str | None:
    """What is wrong with the safetensors files in ``folder``, or ``None``."""
    from safetensors import SafetensorError, safe_open

    names = {path.name for path in folder.glob("*.safetensors")}
    index = folder / "model.safetensors.index.json"
    if index.exists():
        try:
            names |= set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (OSError, ValueError, KeyError):
            return f"no readable {index.name}"
    if not names:
        return "no weights"
    for name in sorted(names):
        try:
            with safe_open(folder / name, framework="pt"):  # checks that header and file length agree
                pass
        except (OSError, SafetensorError):
            return f"no readable {name}"
    return None


def _step(checkpoint: Path) -> int:
    match = re.fullmatch(r"checkpoint-(\d+)", checkpoint.name)
    return int(match.group(1)) if match else -1
