"""Scorers and models that are not ours, right and wrong; the zoo of all planted faults has tests of its own."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

import nextword as nw
from nextword.checking.audit.auditing import Wanted
from nextword.checking.checker import PROPERTIES, check_as_wanted
from nextword.checking.findings import CheckReport
from nextword.checking.property import FAULTS
from tests.helpers.families import tiny

V = 12
TABLE = torch.randn(V, V, generator=torch.Generator().manual_seed(0)).log_softmax(-1)


def bigram(prefixes: Sequence[Sequence[int]]) -> Tensor:
    """A right scorer in its shortest form."""
    return torch.stack([TABLE[prefix[-1]] for prefix in prefixes])


class Whole:
    """The same scorer of whole texts."""

    def text_distributions(self, texts: Sequence[Sequence[int]]) -> list[Tensor]:
        """Nothing is said of a first token."""
        nothing = torch.full((1, V), torch.nan)
        return [
            torch.cat([nothing, bigram([[token] for token in text[:-1]])] if text[1:] else [nothing]) for text in texts
        ]


def faults(report: CheckReport) -> list[str]:
    """By name."""
    return [one.fault for one in report.findings]


def verdicts(report: CheckReport) -> dict[str, str]:
    """Of each property."""
    return {row.name: row.verdict for row in report.rows}


@pytest.mark.parametrize("scorer", [bigram, Whole()])
def test_a_right_scorer_passes(scorer: Any) -> None:
    report = nw.check(scorer, vocabulary=V)
    assert report.passed
    assert report.exit_code == 0
    assert "future" in verdicts(report)
    assert any("is missed with probability 0.001" in sentence for sentence in report.power)


def test_numpy_and_lists_will_do() -> None:
    assert nw.check(lambda prefixes: bigram(prefixes).numpy(), vocabulary=V, lengths=[4]).passed
    assert nw.check(lambda prefixes: bigram(prefixes).tolist(), vocabulary=V, lengths=[4]).passed


def test_what_follows_from_a_cause_is_not_asked() -> None:
    """A scorer that is never the same twice sees no future for that."""

    def noisy(prefixes: Sequence[Sequence[int]]) -> Tensor:
        return (bigram(prefixes) + torch.randn(len(prefixes), V)).log_softmax(-1)

    report = nw.check(noisy, vocabulary=V)
    assert faults(report)[0] == "not-repeatable"
    assert "future" not in faults(report)
    (row,) = [row for row in report.rows if row.name == "future"]
    assert row.where == "not tested, because 'asked again' fails"


def test_learning_from_the_scored_text_has_its_own_name() -> None:
    class Counts:
        def __init__(self) -> None:
            self.counts = torch.ones(V)

        def text_distributions(self, texts: Sequence[Sequence[int]]) -> list[Tensor]:
            found = []
            for text in texts:
                found.append((self.counts / self.counts.sum()).log().expand(len(text), V).clone())
                self.counts = self.counts + torch.bincount(torch.tensor(text), minlength=V)
            return found

    found = faults(nw.check(Counts(), vocabulary=V))
    assert "scored-before" in found
    assert "state-left-over" in found

    class Emptied(Counts):
        def reset(self) -> None:
            self.counts = torch.ones(V)

        def text_distributions(self, texts: Sequence[Sequence[int]]) -> list[Tensor]:
            found = []
            for text in texts:
                self.reset()
                found += super().text_distributions([text])
            return found

    assert nw.check(Emptied(), vocabulary=V).passed


@pytest.mark.parametrize(
    ("scorer", "said"),
    [
        (lambda prefixes: bigram(prefixes)[:, :-1], "must return arrays of shape"),
        (lambda prefixes: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_what_cannot_be_asked_has_code_2(scorer: Any, said: str) -> None:
    report = nw.check(scorer, vocabulary=V, lengths=[3])
    assert report.exit_code == 2
    assert said in str(report)


def test_an_object_without_a_way_is_refused() -> None:
    with pytest.raises(ValueError, match="text_distributions"):
        nw.check(object(), vocabulary=V)


def test_every_fault_has_a_meaning() -> None:
    assert {one.fault for one in PROPERTIES} <= set(FAULTS)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_right_model_passes_in_each_precision(name: str, dtype: torch.dtype) -> None:
    report = nw.check(tiny(name).to(dtype), lengths=[7])
    assert report.passed, str(report)


def gpt2() -> GPT2LMHeadModel:
    """A small one with dropout, of weights that make it sure of something."""
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=40, n_embd=16, n_layer=1, n_head=2, n_positions=32, bos_token_id=0, eos_token_id=0)
    return GPT2LMHeadModel(config)


def test_the_model_is_left_as_it_was() -> None:
    model = gpt2().train()
    before, state = copy.deepcopy(model.state_dict()), torch.random.get_rng_state()
    nw.check(model, lengths=[5])
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_leak_through_the_loss_alone_is_found() -> None:
    class Smoothed(GPT2LMHeadModel):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            found = super().forward(*args, **kwargs)
            if found.loss is not None:
                found.loss = 0.9 * found.loss
            return found

    model = gpt2()
    model.__class__ = Smoothed
    assert faults(nw.check(model, lengths=[5])) == ["score-is-not-its-steps"]


def test_an_adapter_is_part_of_the_model() -> None:
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    adapted = peft.get_peft_model(gpt2(), peft.LoraConfig(task_type="CAUSAL_LM", init_lora_weights=False))
    report = nw.check(adapted, lengths=[5])
    assert report.passed, str(report)
    assert verdicts(report)["cache, token by token"] == "passed"
    prompted = peft.get_peft_model(gpt2(), peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2))
    with pytest.raises(ValueError, match="learned prompt"):
        nw.check(prompted)


@pytest.mark.parametrize("head", ["softmax", None])
def test_progress_names_each_property_and_grows(head: str | None) -> None:
    torch.manual_seed(0)
    backbone = GPT2LMHeadModel(GPT2Config(vocab_size=40, n_embd=16, n_layer=1, n_head=2, n_positions=64))
    told: list[tuple[str, float]] = []
    model = backbone if head is None else nw.attach(backbone, head)
    report = check_as_wanted(model, Wanted([1]), progress=lambda name, share: told.append((name, share)))
    assert [name for name, _ in told] == [row.name for row in report.rows]
    assert [share for _, share in told] == [number / len(told) for number in range(len(told))]
