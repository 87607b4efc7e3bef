"""Every registered head on every family, and with every objective."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

import nextword as nw
from tests.helpers.families import FAMILIES, inputs, labels, prompts, tiny
from tests.helpers.head_specs import ONE_OF_EACH_KIND, pairs, refused_pairs, specs, with_head

HEADS = specs()
OBJECTIVES = {name: name for name in nw.objectives.registry.names()} | {
    "mle:labels": "mle:labels",
    "histalign,pair_sum": {"objective": "histalign", "reduction": "pair_sum", "ranks": "valid", "base": "mle"},
}
UNCHANGED = {
    spec: spec
    for spec in (
        "softmax+proj", "softmax+mi", "softmax+c", "softmax+p", "softmax+cp", "softmax+r:3", "softmax+cpr:3,8+mi",
        "mos:2+cpr:3,8+mi", "softmax+e", "softmax+ce", "softmax+ep", "softmax+cepr:3+mi",
    )
}  # fmt: skip
"""Heads that leave a pretrained model as it is until they are trained."""


def unchanged_pairs() -> list[Any]:
    """All of these heads on one family of each kind, the fullest ones on all others; the whole product is slow."""
    refused = set(refused_pairs(UNCHANGED))
    full = {"softmax+c", "softmax+cpr:3,8+mi", "softmax+cepr:3+mi"}
    return [
        pytest.param(family, head, marks=[] if family in ONE_OF_EACH_KIND or head in full else [pytest.mark.slow])
        for head in UNCHANGED
        for family in FAMILIES
        if (family, head) not in refused
    ]


@pytest.mark.few(14)
@pytest.mark.parametrize(("family", "head"), pairs())
def test_distributions_pass_the_checker(family: str, head: str) -> None:
    nw.check(with_head(family, HEADS[head]), lengths=[5]).raise_if_failed()


@pytest.mark.parametrize(("family", "head"), refused_pairs())
def test_pair_that_makes_no_sense_is_refused(family: str, head: str) -> None:
    with pytest.raises(ValueError, match=r"\+mi: .* wide|\+e: .* decoder-only"):
        nw.attach(tiny(family), HEADS[head])


@pytest.mark.few(1)
@pytest.mark.parametrize(("family", "head"), pairs("gpt2", "bart"))
def test_distributions_pass_the_checker_in_float64(family: str, head: str) -> None:
    report = nw.check(with_head(family, HEADS[head], dtype=torch.float64), lengths=[1, 4])
    report.raise_if_failed()
    assert {row.tolerance for row in report.rows} == {1e-10}


@pytest.mark.few(10)
@pytest.mark.parametrize(("family", "head"), unchanged_pairs())
@torch.no_grad()
def test_attached_model_starts_with_its_own_distribution(family: str, head: str) -> None:
    # Gemma 2 masks with the least number of float64 and takes the softmax in float32, where that is -inf
    dtype, tolerance = (torch.float32, 1e-4) if family == "gemma2" else (torch.float64, 1e-8)
    backbone = tiny(family, dtype)
    given = inputs(backbone)
    expected = backbone(**given).logits.log_softmax(-1)
    found = nw.attach(backbone, head).distribution(**given).log_probs().view_as(expected)
    seen = given.get("decoder_attention_mask", torch.ones(found.shape[:2]))
    seen = seen if "decoder_input_ids" in given else given["attention_mask"]
    torch.testing.assert_close(found[seen.bool()], expected[seen.bool()], rtol=0, atol=tolerance)


@pytest.mark.few(3)
@pytest.mark.parametrize(("family", "head"), pairs())
@torch.no_grad()
def test_saved_model_comes_back_bit_for_bit(family: str, head: str, tmp_path: Path) -> None:
    model = with_head(family, HEADS[head])
    given = inputs(model)
    expected = model(**given).logits
    model.save_pretrained(tmp_path)
    auto = AutoModelForSeq2SeqLM if model.config.is_encoder_decoder else AutoModelForCausalLM
    for loaded in (nw.load(tmp_path), auto.from_pretrained(tmp_path)):
        assert type(loaded) is type(model)
        assert loaded.next_word_head.config == model.next_word_head.config
        assert not loaded.training
        assert torch.equal(loaded(**given).logits, expected)
        tied = loaded.get_input_embeddings().weight.data_ptr() == loaded.get_output_embeddings().weight.data_ptr()
        assert tied == bool(model.config.tie_word_embeddings)


@pytest.mark.few(9)
@pytest.mark.parametrize(("family", "head"), pairs(*ONE_OF_EACH_KIND))
@torch.no_grad()
def test_copies_are_independent(family: str, head: str) -> None:
    model = with_head(family, HEADS[head])
    given = inputs(model)
    expected = model(**given).logits
    twin = copy.deepcopy(model)
    assert torch.equal(twin(**given).logits, expected)
    for parameter in model.parameters():
        parameter.data.zero_()
    assert torch.equal(twin(**given).logits, expected)
    assert not torch.equal(model(**given).logits, expected)


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_new_tokens_leave_old_scores_alone(family: str) -> None:
    model = with_head(family, "softmax")
    given = inputs(model)
    expected = model(**given).logits
    size = expected.shape[-1]
    model.resize_token_embeddings(size + 5, mean_resizing=False)
    logits = model(**given).logits
    assert logits.shape[-1] == size + 5
    torch.testing.assert_close(logits[..., :size], expected, rtol=1e-6, atol=1e-6)
    assert model.get_output_embeddings().weight.shape[0] == model.config.get_text_config(decoder=True).vocab_size


@pytest.mark.few(1)
@pytest.mark.parametrize(("family", "head"), pairs(*ONE_OF_EACH_KIND))
@torch.no_grad()
def test_resized_model_passes_the_checker(family: str, head: str, tmp_path: Path) -> None:
    model = with_head(family, HEADS[head])
    size = model.get_output_embeddings().weight.shape[0]
    model.resize_token_embeddings(size + 5)
    nw.check(model, lengths=[4]).raise_if_failed()
    given = inputs(model)
    expected = model(**given).logits
    assert expected.shape[-1] == size + 5
    model.save_pretrained(tmp_path)
    assert torch.equal(nw.load(tmp_path)(**given).logits, expected)


@pytest.mark.few(6)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(("family", "head"), pairs("gpt2", "bart"))
def test_pair_trains_or_is_refused(family: str, head: str, objective: str) -> None:
    try:
        model = with_head(family, HEADS[head], objective=OBJECTIVES[objective])
    except ValueError as refusal:
        name = OBJECTIVES[objective]
        name = name if isinstance(name, str) else name["objective"]
        assert name.partition(":")[0] in str(refusal)  # noqa: PT017  (whether it is refused is the head's affair)
        return
    model.train()
    given = inputs(model)
    targets = labels(given)
    loss = model(**given, labels=targets).loss
    loss.backward()
    grads = gradients(model)
    assert torch.isfinite(loss)
    assert loss > 0
    assert all(grad.isfinite().all() for grad in grads.values())
    assert any(grad.abs().sum() > 0 for grad in grads.values())
    assert {name for name, p in model.next_word_head.named_parameters() if p.requires_grad} <= {
        name.removeprefix("next_word_head.") for name in grads
    }
    model.zero_grad()
    nothing = model(**given, labels=torch.full_like(targets, -100)).loss
    assert nothing.item() == 0
    nothing.backward()
    assert all(not grad.any() for grad in gradients(model).values())


@pytest.mark.slow
def test_every_objective_is_taken_by_some_head_and_mle_by_all() -> None:
    for objective in OBJECTIVES.values():
        taken = []
        for head, spec in HEADS.items():
            try:
                nw.attach(tiny("gpt2"), spec, objective=objective)
            except ValueError:
                continue
            taken.append(head)
        assert taken
        refused = {head for family, head in refused_pairs() if family == "gpt2"}
        assert objective != "mle" or taken == [head for head in HEADS if head not in refused]


@pytest.mark.few(4)
@pytest.mark.parametrize(("family", "head"), pairs(*ONE_OF_EACH_KIND))
def test_gradient_checkpointing_changes_no_gradient(family: str, head: str) -> None:
    found = []
    for checkpointing in (False, True):
        model = with_head(family, HEADS[head], dtype=torch.float64)
        if checkpointing:
            model.gradient_checkpointing_enable()
        model.train()
        given = inputs(model)
        torch.manual_seed(0)  # dropout stays on: it must be the same in the second pass
        model(**given, labels=labels(given)).loss.backward()
        found.append(gradients(model))
    assert found[0].keys() == found[1].keys()
    for name, grad in found[0].items():
        torch.testing.assert_close(found[1][name], grad, rtol=1e-9, atol=1e-12)


@pytest.mark.few(5)
@pytest.mark.parametrize(("family", "head"), pairs())
@torch.no_grad()
def test_bfloat16_is_finite_and_sums_to_one(family: str, head: str) -> None:
    model = with_head(family, HEADS[head], dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    given = prompts(model)
    for mode in model.next_word_head.modes:
        start = {"decoder_input_ids": given["input_ids"]} if model.config.is_encoder_decoder else {}
        seen = given["attention_mask"].bool()
        log_probs = model.distribution(**given, **start, positions=None if start else seen, mode=mode).log_probs()
        assert log_probs.dtype == torch.float32
        assert not log_probs.isnan().any()
        torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(len(log_probs)), rtol=0, atol=1e-5)
    out = model.generate(**given, max_new_tokens=3, do_sample=True, output_logits=True, return_dict_in_generate=True)
    assert all(not scores.isnan().any() and scores.isfinite().any(-1).all() for scores in out.logits)


@pytest.mark.few(6)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize(("family", "head"), pairs("gpt2", "t5"))
def test_a_step_in_half_precision_is_that_of_single_precision(family: str, head: str, dtype: torch.dtype) -> None:
    found = {}
    for precision in (torch.float32, dtype):
        torch.manual_seed(0)
        model = with_head(family, HEADS[head]).to(precision)
        model.train().backbone.eval()  # without dropout
        given = inputs(model)
        loss = model(**given, labels=labels(given)).loss
        loss.backward()
        found[precision] = (loss.float(), model.get_output_embeddings().weight.grad)
        assert all(grad.isfinite().all() for grad in gradients(model).values())
        torch.optim.SGD(model.parameters(), lr=1e-3).step()
    (expected, gradient), (ours, own) = found.values()
    torch.testing.assert_close(ours, expected, rtol=0.05, atol=0)
    assert own.dtype is dtype
    assert torch.nn.functional.cosine_similarity(own.float().flatten(), gradient.flatten(), 0) > 0.9


def gradients(model: Any) -> dict[str, torch.Tensor]:
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
