"""What reads along with a pass: any question for log-probabilities, and the blocks of its tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import nextword as nw
from nextword.inference.scoring.calibrate import LONGEST_BLOCK, OnePass, read, tuned
from nextword.inference.scoring.likelihood import ask
from nextword.model.training_modes import inference_mode_of
from tests.helpers.word_models import word_model

ROWS = [[5, 6, 7, 5, 6, 9, 5], [4, 8, 8, 4, 10], [11, 5, 11]]
WANTED = torch.tensor([[6, 7], [8, 10], [5, 4]])


def attached(head: str = "cache") -> Any:
    return nw.attach(word_model(), head)


def asked(model: Any) -> torch.Tensor:
    with inference_mode_of(model):
        log_probs: torch.Tensor = ask(model, ROWS, 0)[0].log_prob(WANTED)
    return log_probs


def test_several_tokens_of_a_position() -> None:
    model = attached()
    calibration: Any = read(model, lambda: asked(model)).calibration
    for temperature, weight in ((1.0, None), (2.0, 0.3)):
        model.configure_head(temperature=temperature, weight=weight)
        np.testing.assert_allclose(
            calibration.log_probs(temperature, weight), asked(model).flatten().numpy(), atol=1e-7
        )


def test_the_model_has_its_own_head_again() -> None:
    model = attached()
    head = model.next_word_head
    with pytest.raises(ZeroDivisionError):
        read(model, lambda: 1 / 0)
    assert model.next_word_head is head
    with pytest.raises(TypeError, match="only log_prob of a distribution"):
        read(model, lambda: ask(model, ROWS, 0)[0].log_probs())
    assert model.next_word_head is head


def test_nothing_to_tune() -> None:
    model = attached("mos:2")
    assert tuned(model, lambda: pytest.fail("asked in vain")) == {}


@pytest.mark.parametrize(("lengths", "size"), [([7, 5], 1), ([400, 300, 4], 35), ([9000, 10], LONGEST_BLOCK)])
def test_blocks_are_neighbours_of_one_text(lengths: list[int], size: int) -> None:
    reading = OnePass(None)  # type: ignore[arg-type]
    sequence = np.repeat(np.arange(len(lengths)), lengths)
    reading._sequences = [sequence[: len(sequence) // 2], sequence[len(sequence) // 2 :]]
    blocks, longest = reading.blocks()
    assert longest == size
    assert np.bincount(blocks).max() <= size
    assert (np.diff(blocks) >= 0).all()
    assert len(np.unique(blocks)) == sum(-(-length // size) for length in lengths)
    assert all(len(set(sequence[blocks == one])) == 1 for one in range(blocks.max() + 1))
