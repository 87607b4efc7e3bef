"""Which output of a classifier means that a text is right."""

from __future__ import annotations

from collections.abc import Mapping

from nextword.settings.registry import did_you_mean

CONSISTENT = frozenset(
    {
        *("entailment", "entailed", "entail", "entails"),
        *("correct", "consistent", "factual", "faithful"),
        *("supported", "supports", "support", "verified"),
    }
)
"""Names that checkpoints give to the output for "what is claimed follows from the evidence", in lower case."""


def consistent_label(names: Mapping[int, str], asked: str | int | None, default: int | None, setting: str) -> int:
    """The number of the output that means "consistent" or "entailed".

    Args:
        names: Names of the outputs, as the checkpoint's ``id2label`` has them.
        asked: The user's choice by name, in any case, or number; None to go by ``CONSISTENT``.
        default: The number where the outputs have no names (LABEL_0, LABEL_1, ...); None if that is an error.
        setting: The setting to name the output with, for messages.

    Raises:
        ValueError: No output, or more than one, fits.

    >>> consistent_label({0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"}, None, None, "nli.label")
    2
    """
    shown = ", ".join(f"{number} = {name}" for number, name in sorted(names.items()))
    by_name = {name.lower(): number for number, name in names.items()}
    if asked is not None:
        number = by_name.get(str(asked).lower(), int(asked) if str(asked).isdigit() else -1)
        if number not in names:
            near = did_you_mean(str(asked), by_name)
            raise ValueError(f"{setting}: the model has no output '{asked}'.{near} It has: {shown}.")
        return number
    fitting = [number for name, number in by_name.items() if name in CONSISTENT]
    if len(fitting) == 1:
        return fitting[0]
    nameless = all(name == f"label_{number}" for name, number in by_name.items())
    if nameless and default in names and default is not None:
        return default
    found = "several outputs" if fitting else "no output"
    raise ValueError(
        f"{setting}: {found} of the model can be told by name to mean that a text is consistent. Its outputs are "
        f"{shown}; name one of them."
    )
