"""Where the tokens of written texts came from, as columns of a samples file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nextword.scoring.example_encoding import EncodedExample
from nextword.scoring.opened_model import OpenedModel


@dataclass(frozen=True)
class SourceColumns:
    """Of one text.

    Attributes:
        shares: By component, the part of each token's probability that came from it.
        places: By component that points at places, those that gave most of each token's probability.
    """

    shares: dict[str, list[float]]
    places: dict[str, Any]


def source_columns(
    opened: OpenedModel, texts: Sequence[EncodedExample], inputs: Mapping[str, Any], places: int
) -> list[SourceColumns]:
    return []
