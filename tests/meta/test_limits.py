"""No setting may ask for more than a computer has: every whole number that a user can set has an end."""

from __future__ import annotations

import time
from collections.abc import Iterator

import annotated_types
import numpy as np
import pytest
import torch
from pydantic import BaseModel
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

import nextword as nw
import nextword.evaluation.judges
from nextword.evaluation.metrics.diversity import self_bleu
from nextword.evaluation.metrics.repetition import ends_in_loop
from nextword.evaluation.metrics.statistics import Statistic, bootstrap_values, paired_tests
from nextword.functional.frequency import count_tokens
from nextword.runtime import weights as allocation
from nextword.runtime.weights import built
from nextword.settings.config import LARGEST, SettingsError, validated
from tests.helpers.settings_classes import REQUIRED, ROOTS, parts


def integers(model: type[BaseModel]) -> Iterator[tuple[type[BaseModel], str, bool]]:
    """Every model below this one, itself included, with its whole numbers; whether each stands in a list."""
    for name, field in model.model_fields.items():
        inside = list(parts(field.annotation))
        if int in inside:
            yield (
                model,
                name,
                any(getattr(part, "__origin__", part) in (list, tuple) for part in inside),
            )
        for part in inside:
            if isinstance(part, type) and issubclass(part, BaseModel) and part is not model:
                yield from integers(part)


FIELDS = sorted(
    {(model, name, listed) for root in ROOTS.values() for model, name, listed in integers(root)},
    key=lambda one: (one[0].__name__, one[1]),
)


def limit(model: type[BaseModel], name: str) -> int | None:
    """The upper limit that a field itself has."""
    field = model.model_fields[name]
    marks = [*field.metadata, *(mark for part in parts(field.annotation) for mark in getattr(part, "__metadata__", ()))]
    marks += [mark for one in marks for mark in getattr(one, "metadata", ())]
    ends = [mark.le if isinstance(mark, annotated_types.Le) else mark.lt for mark in marks
            if isinstance(mark, annotated_types.Le | annotated_types.Lt)]  # fmt: skip
    return min(ends, default=None)


@pytest.mark.few(129)
@pytest.mark.parametrize(("model", "name", "listed"), FIELDS, ids=lambda one: getattr(one, "__name__", str(one)))
@pytest.mark.parametrize("huge", [LARGEST + 1, 10**30])
def test_every_whole_number_has_an_end(model: type[BaseModel], name: str, listed: bool, huge: int) -> None:
    given = {key: "x" for key, field in model.model_fields.items() if field.is_required()}
    began = time.process_time()
    with pytest.raises(SettingsError, match=rf"{name}(\.\d+)?:? must be (at most|less than) [\d,]+.* \({huge} given"):
        validated(model, {**given, **REQUIRED.get(model.__name__, {}), name: [huge] if listed else huge})
    assert time.process_time() - began < 1


CHECKED_ELSEWHERE = {
    "PartitionConfig.rerank": "against the vocabulary",
    "FrequencyConfig.classes": "against the vocabulary",
    "FrequencyConfig.boundaries": "filled in by the library",
    "FrequencyConfig.class_top_k": "at most all classes",
    "MultiInputConfig.layers": "against the decoder",
    "CrossAttentionConfig.last": "against the decoder",
    "CrossAttentionConfig.layers": "against the decoder",
    "CrossAttentionConfig.heads": "must divide the width",
    "NgramConfig.evidence": "at most the limit",
    "NgramConfig.lengths": "tokens that are compared with",
    "FaceConfig.start": "an update",
    "FaceConfig.end": "an update",
}
"""Settings of heads, objectives and conditioners whose limit is not one number."""


def test_what_is_built_has_limits_of_its_own() -> None:
    found = {
        f"{model.__name__}.{name}"
        for root, config in ROOTS.items() if root.startswith(("head", "objective", "conditioner"))
        for model, name, _ in integers(config)
        if limit(model, name) is None and name != "seed"
    }  # fmt: skip
    assert found == set(CHECKED_ELSEWHERE)


def tiny() -> GPT2LMHeadModel:
    sizes = {"n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 32}
    return GPT2LMHeadModel(GPT2Config(vocab_size=20, bos_token_id=0, eos_token_id=0, **sizes))


@pytest.mark.parametrize("spec", [
    "mos:100000000000", "softmax+r:21", "softmax+r:4000000000", "softmax+mi:3x1", "softmax+mi:999x999",
    "softmax+mi:2x4000000000",
])  # fmt: skip
def test_heads_beyond_the_model_are_refused(spec: str) -> None:
    with pytest.raises(ValueError, match=r"at most|asked"):
        nw.attach(tiny(), spec)


def test_a_head_beyond_the_memory_is_refused_before_any_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation, "free_memory", lambda: 2**20)
    model = tiny()
    with pytest.raises(
        ValueError,
        match=r"'mos:900\+mi:2x3,expansion=4'",
    ):
        nw.attach(model, {"head": "mos", "components": 900, "mi": {"expansion": 4, "layers": 2}})
    assert nw.attach(model, "mos:3").next_word_head.config.components == 3


def test_planning_changes_no_random_numbers_and_no_weights() -> None:
    torch.manual_seed(3)
    wanted = nn.Linear(5, 4).state_dict(), torch.get_rng_state()
    torch.manual_seed(3)
    module = built(lambda: nn.Linear(5, 4), "a layer")
    assert torch.equal(torch.get_rng_state(), wanted[1])
    assert all(torch.equal(module.state_dict()[name], tensor) for name, tensor in wanted[0].items())
    with torch.device("meta"):
        assert built(lambda: nn.Linear(10**7, 10**7), "a layer").weight.device.type == "meta"


def test_functions_refuse_what_would_not_end() -> None:
    statistic = Statistic.mean(np.arange(3.0))
    with pytest.raises(ValueError, match=r"resamples: must be from 1 to 1,000,000 "):
        bootstrap_values([statistic], 10**12)
    with pytest.raises(ValueError, match=r"permutations: must be from 1 to 1,000,000 "):
        paired_tests([statistic], [statistic], permutations=10**12)
    with pytest.raises(ValueError, match=r"\(999,999,999 given"):
        self_bleu([[1], [2]], [999_999_999])
    with pytest.raises(ValueError, match=r"processes:.*\(1,000,000 given"):
        count_tokens("nowhere", None, processes=10**6)  # type: ignore[arg-type]
    assert ends_in_loop([7] * 51, longest_phrase=2**32)
    assert not ends_in_loop([], longest_phrase=2**32)
