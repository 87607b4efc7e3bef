"""No loss depends on padding, and the loss of a batch is the sum of what its rows give alone or says why not."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import nextword as nw
from tests.helpers.families import PAD, VOCABULARY
from tests.helpers.head_specs import ON_EVERY_FAMILY, SPECS, refused_pairs, specs, with_head

OBJECTIVES: dict[str, Any] = {
    "mle:labels": "mle:labels",
    "face:gpo,cp": "face:gpo,cp",
    "histalign": {"objective": "histalign", "margin": 0.1},
    "histalign:paper": "histalign:paper",
    "histalign:released": "histalign:released",
    "histalign:released,inputs": "histalign:released,inputs",
    "histalign:released-bart": "histalign:released-bart",
    "histalign,pair_mean": {"objective": "histalign", "reduction": "pair_mean", "ranks": "all", "embedding": "output"},
} | {name: name for name in nw.objectives.registry.names() if name != "histalign"}
STORED = ("histalign", "mle:labels")
"""What asks for a head that stores tokens begins so."""
OF_THE_DECODER = ("mle:labels", "histalign:released")
"""These take labels as values of a memory, which only the decoder's has."""
LENGTHS = (9, 3, 6)
OTHER = VOCABULARY - 1
"""A token to stand at padding in place of the model's own."""


def cases() -> list[Any]:
    """Every objective with its head, and every head with maximum likelihood.

    An objective sees no family and a head no objective, so the whole product is slow.
    """
    refused = set(refused_pairs())
    pairs = [
        (family, "cache" if objective.startswith(STORED) else "softmax+mi", objective)
        for family in ("gpt2", "llama", "t5", "bart")
        for objective in OBJECTIVES
        if family in ("gpt2", "llama") or objective not in OF_THE_DECODER
    ]
    pairs += [(family, head, "mle") for family in ("gpt2", "bart") for head in specs()]

    def fast(family: str, head: str, objective: str) -> bool:
        if objective in ("mle", "histalign", "unlikelihood"):
            return family == "gpt2" or head in ON_EVERY_FAMILY or ("gpt2", head) in refused
        return family in ("gpt2", "t5")

    return [
        pytest.param(
            family,
            head,
            objective,
            id=f"{family}-{head}-{objective}",
            marks=[] if fast(family, head, objective) else [pytest.mark.slow],
        )
        for family, head, objective in dict.fromkeys(pairs)
        if (family, head) not in refused
    ]


class Texts:
    """Rows of tokens, many of them more than once, and their sources where the model reads any."""

    def __init__(self, model: Any) -> None:
        self.model = model
        chance = torch.Generator().manual_seed(3)
        of = lambda length: torch.randint(5, 12, (length,), generator=chance)  # noqa: E731
        self.rows = [of(length) for length in LENGTHS]
        self.sources = [of(length + 2) for length in reversed(LENGTHS)] if model.config.is_encoder_decoder else None

    def total(self, which: list[int], *, left: int = 0, right: int = 0, pad: int = PAD) -> Tensor:
        """The loss of some rows, summed over their tokens, with so many more columns of padding."""
        model = self.model
        ids, mask = _padded([self.rows[i] for i in which], left, right, pad)
        # the first token of a text is no target of a decoder-only model
        first = mask.cumsum(1) == 1
        skipped = ~mask if self.sources is not None else ~mask | first
        given: dict[str, Tensor] = {"labels": ids.masked_fill(skipped, -100)}
        if self.sources is None:
            positions = (mask.cumsum(1) - 1).clamp_min(0)
            given |= {"input_ids": ids, "attention_mask": mask.long(), "position_ids": positions}
        else:
            source, seen = _padded([self.sources[i] for i in which], 0, right, pad)
            given |= {"input_ids": source, "attention_mask": seen.long()}
            given |= {"decoder_input_ids": F.pad(ids[:, :-1], (1, 0), value=2), "decoder_attention_mask": mask.long()}
        objective = model.objective
        model.objective = copy.deepcopy(objective).train()  # what it counts in training begins anew
        try:
            return model(**given).loss * int((~skipped).sum())
        finally:
            model.objective = objective


def _padded(rows: list[Tensor], left: int, right: int, pad: int) -> tuple[Tensor, Tensor]:
    """All on one side: on the left where there is anything more on the left."""
    longest = max(map(len, rows))
    room = [longest - len(row) for row in rows]
    sides = [(n + left, right) if left else (0, n + right) for n in room]
    ids = torch.stack([F.pad(row, side, value=pad) for row, side in zip(rows, sides, strict=True)])
    ones = [F.pad(torch.ones_like(row), side) for row, side in zip(rows, sides, strict=True)]
    return ids, torch.stack(ones).bool()


def ready(family: str, head: str, objective: str) -> Texts:
    spec = SPECS.get(head, head)
    torch.manual_seed(0)
    return Texts(with_head(family, spec, objective=OBJECTIVES[objective], dtype=torch.float64).eval())


def same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.few(6)
@pytest.mark.parametrize(("family", "head", "objective"), cases())
@torch.no_grad()
def test_no_loss_depends_on_padding(family: str, head: str, objective: str) -> None:
    texts = ready(family, head, objective)
    every = list(range(len(LENGTHS)))
    expected, alone = texts.total(every), [texts.total([row]) for row in every]
    placed = family in ("gpt2", "llama")  # left padding can be told from text
    for changes in ({"right": 12}, {"pad": OTHER, "right": 1}, *([{"left": 3}, {"left": 3, "pad": OTHER}] * placed)):
        same(texts.total(every, **changes), expected)
        same(texts.total([1], **changes), alone[1])
    if texts.model.objective.couples_rows:
        assert abs(sum(alone) - expected) > 1e-5 * abs(expected)  # 1e-9 is rounding
    else:
        same(sum(alone), expected)
