"""Every head and objective gives the numbers that it gave before, and whatever is not the same is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.helpers.golden import small_values
from tests.helpers.golden.differences import between
from tests.helpers.golden.digests import digest

KEPT = small_values.kept()


def test_all_heads_are_kept() -> None:
    assert [*KEPT["losses"]] == [*KEPT["log_probs"]] == small_values.CARRIED


@pytest.mark.parametrize("head", small_values.CARRIED)
def test_losses_are_as_before(head: str) -> None:
    found, before = small_values.losses(head), KEPT["losses"][head]
    assert found.keys() == before.keys()
    for objective, value in found.items():
        expected = before[objective]
        assert value == (expected if isinstance(expected, str) else pytest.approx(expected, rel=1e-9)), objective


@pytest.mark.parametrize("head", small_values.CARRIED)
def test_log_probabilities_are_as_before(head: str) -> None:
    assert small_values.log_probs(head) == pytest.approx(KEPT["log_probs"][head], rel=1e-9)


@pytest.mark.parametrize(("family", "head"), small_values.WRITTEN)
def test_greedy_texts_are_as_before(family: str, head: str) -> None:
    assert str(small_values.tokens(family, head)) == KEPT["tokens"][f"{family} {head}"]


# -- the comparison of two folders finds what is planted


def outputs(folder: Path, **changes: Any) -> Path:
    content = {"loss": digest(torch.tensor([1.0, 2.0])), "text": "first\nsecond", "gone": "x"} | changes
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps({"inner": content}))
    return folder


def test_the_same_outputs_do_not_differ(tmp_path: Path) -> None:
    assert not [*between(outputs(tmp_path / "a"), outputs(tmp_path / "b"))]


def test_planted_differences_are_found(tmp_path: Path) -> None:
    before = outputs(tmp_path / "a")
    after = outputs(tmp_path / "b", loss=digest(torch.tensor([1.0, 2.0 + 2**-22])), text="first\nother", new="y")
    content = json.loads((after / "a.json").read_text())
    del content["inner"]["gone"]
    (after / "a.json").write_text(json.dumps(content))
    (after / "b.json").write_text("{}")
    assert [*between(before, after)] == [
        "missing: a.json > inner > gone",
        "a.json > inner > loss: other bits: by 2.38e-07 in the few places that are kept, by 2.38e-07 in the sum",
        "new: a.json > inner > new",
        "a.json > inner > text: line 2: was 'second', is 'other'",
        "new: b.json",
    ]


def test_another_shape_is_a_difference(tmp_path: Path) -> None:
    before, after = outputs(tmp_path / "a"), outputs(tmp_path / "b", loss=digest(torch.ones(3)))
    assert [*between(before, after)] == ["a.json > inner > loss: was float32 [2], is float32 [3]"]
