"""The checker on the card: every head is a distribution there, sees no future, and is the same with a KV cache."""

from __future__ import annotations

import pytest
import torch

import nextword as nw
from tests.helpers.head_specs import specs, with_head
from tests.helpers.on_card import moved

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("head", [head for head in specs() if "e" not in head.partition("+")[2].partition(":")[0]])
def test_passes_the_checker(head: str) -> None:
    nw.check(moved(with_head("gpt2", specs()[head])), lengths=[6]).raise_if_failed()


@pytest.mark.parametrize("head", ["softmax+e", "softmax+cepr:3+mi", "copynet", "cache", "pg"])
def test_with_a_source(head: str) -> None:
    nw.check(moved(with_head("bart", specs()[head])), lengths=[6]).raise_if_failed()


@pytest.mark.parametrize("head", ["softmax", "cache", "softmax+cpr:3,8+mi"])
def test_in_bfloat16(head: str) -> None:
    nw.check(moved(with_head("gpt2", specs()[head]), torch.bfloat16), lengths=[6]).raise_if_failed()
