"""What a user can get wrong in generation, and unusual prompts that must work."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import DynamicCache

from tests.helpers.generating_models import (
    DECODERS,
    ENCODER_DECODERS,
    NEW,
    VOCABULARY,
    headed,
    pairs,
    prompt,
)
from tests.helpers.recomputation import TOLERANCE, assert_as_recomputed, generated, step_log_probs

ALL = {**DECODERS, **ENCODER_DECODERS}
FEW = {"gpt2": ["softmax", "cache", "softmax+mi"], "bart": ENCODER_DECODERS["bart"]}
FEW_PAIRS = [pair for pair in pairs(FEW) if pair.values[1] in FEW[pair.values[0]]]


@pytest.mark.parametrize(("family", "head"), FEW_PAIRS)
def test_empty_prompt(family: str, head: str) -> None:
    with pytest.raises(ValueError, match=r"empty (prompt|source): at least one token is needed"):
        headed(family, head).generate(torch.zeros(1, 0, dtype=torch.long), max_new_tokens=2)


@pytest.mark.parametrize("wrong", [VOCABULARY, -1])
@pytest.mark.parametrize(("family", "head"), FEW_PAIRS)
def test_ids_outside_the_vocabulary(family: str, head: str, wrong: int) -> None:
    with pytest.raises(ValueError, match=f"token id {wrong} is outside the vocabulary of {VOCABULARY} tokens"):
        headed(family, head).generate(torch.tensor([[5, wrong, 6]]), max_new_tokens=2)


@pytest.mark.parametrize(("family", "head"), FEW_PAIRS)
def test_prompt_beyond_the_models_positions(family: str, head: str) -> None:
    with pytest.raises(ValueError, match="more than the 64"):
        headed(family, head).generate(prompt(1, 70), max_new_tokens=2)


@pytest.mark.parametrize(("family", "head"), FEW_PAIRS)
def test_growing_beyond_the_models_positions(family: str, head: str) -> None:
    model = headed(family, head)
    start = {"decoder_input_ids": prompt(1, 60)} if model.config.is_encoder_decoder else {}
    with pytest.raises(ValueError, match="more than the 64"):
        model.generate(prompt(1, 60), **start, max_new_tokens=10)


@pytest.mark.few(6)
@pytest.mark.parametrize(("family", "head"), pairs(ALL))
def test_row_of_padding_only(family: str, head: str) -> None:
    """A defined, finite result; the other row does not see it."""
    model, ids = headed(family, head), prompt()
    mask = torch.ones_like(ids)
    mask[1] = 0
    out = generated(model, ids, attention_mask=mask, max_new_tokens=NEW)
    assert step_log_probs(out).exp().isfinite().all()
    total = step_log_probs(out).exp().sum(-1)
    assert torch.allclose(total, torch.ones_like(total), rtol=0, atol=TOLERANCE)
    alone = generated(model, ids[:1], max_new_tokens=NEW)
    assert out.sequences[0].tolist() == alone.sequences[0].tolist()
    assert torch.allclose(step_log_probs(out)[0], step_log_probs(alone)[0], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("head", ["cache", "softmax+mi"])
def test_layouts_that_a_memory_cannot_follow(head: str) -> None:
    """Several texts in one row that a mask makes one, or a mask that says who sees whom."""
    ids = prompt()
    packed = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4]] * 2)
    causal = torch.ones(2, 1, 9, 9, dtype=torch.bool).tril()
    for inputs in ({"position_ids": packed, "attention_mask": torch.ones(2, 9)}, {"attention_mask": causal}):
        with pytest.raises(ValueError, match=r"packed into one row|does not support a custom attention mask"):
            headed("gpt2", head)(ids, **inputs)
        headed("gpt2", "softmax")(ids, **inputs)


@pytest.mark.few(6)
@pytest.mark.parametrize(("family", "head"), pairs(DECODERS, remembering=True))
def test_embeddings_beside_ids(family: str, head: str) -> None:
    model, ids = headed(family, head), prompt()
    embeddings = model.get_input_embeddings()(ids).detach()
    out = generated(model, ids, inputs_embeds=embeddings, max_new_tokens=NEW)
    assert out.sequences.tolist() == model.generate(ids, max_new_tokens=NEW).tolist()
    assert_as_recomputed(model, out, {"input_ids": ids})


@pytest.mark.few(7)
@pytest.mark.parametrize(("family", "head"), pairs(DECODERS, remembering=True))
def test_embeddings_alone(family: str, head: str) -> None:
    """No word of the prompt is known, so none is remembered; what is generated is."""
    model, ids = headed(family, head), prompt()
    embeddings = model.get_input_embeddings()(ids).detach()
    out = generated(model, None, inputs_embeds=embeddings, max_new_tokens=NEW)
    cache = DynamicCache(config=model.config.get_text_config(decoder=True))
    with torch.no_grad():
        first = model(inputs_embeds=embeddings, past_key_values=cache, logits_to_keep=1).logits
        rest = model(out.sequences[:, :-1], past_key_values=cache).logits
    full = torch.cat([first, rest], 1).double()
    assert torch.allclose(step_log_probs(out).clamp_min(-30), full.clamp_min(-30), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("family", ENCODER_DECODERS)
def test_source_given_as_states(family: str) -> None:
    """The words of the source must come along, in either name."""
    model, ids = headed(family, "source cache"), prompt()
    settings = {"max_new_tokens": NEW, "num_beams": 3}
    expected = model.generate(ids, **settings).tolist()
    with torch.no_grad():
        embeddings = model.get_input_embeddings()(ids)

    def states() -> Any:
        with torch.no_grad():
            return model.get_encoder()(ids)  # anew for each call: transformers repeats them for the beams in place

    assert model.generate(ids, encoder_outputs=states(), **settings).tolist() == expected
    assert model.generate(encoder_outputs=states(), source_ids=ids, **settings).tolist() == expected
    for given in ({"encoder_outputs": states()}, {"inputs_embeds": embeddings}):
        with pytest.raises(ValueError, match="source_ids"):
            model.generate(**given, **settings)
    assert model.generate(inputs_embeds=embeddings, source_ids=ids, **settings).tolist() == expected
