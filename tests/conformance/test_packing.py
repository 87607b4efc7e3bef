"""Texts that stand in one row, told apart by their positions, are read as each is alone, with every head and objective.

Nothing of it may differ: probabilities, sources and places, losses, gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nextword.model.forward.packing import text_rows_of
from tests.helpers.families import FAMILIES, is_encoder_decoder
from tests.helpers.head_specs import ON_EVERY_FAMILY, pairs, specs, with_head
from tests.helpers.losses_of_texts import FEW, OBJECTIVES, loss_of, taken, texts

HEADS = specs()

ROWS = [texts((4, 1, 6), 1), texts((3, 8), 2)]
"""One text has one token, the texts have few words in common and otherwise, and the second row has the longest."""
ALONE = [text for row in ROWS for text in row]
DECODERS = [family for family in FAMILIES if not is_encoder_decoder(family)]


def packed(rows: list[list[Tensor]] = ROWS, first: int = 0) -> dict[str, Tensor]:
    """Rows of several texts each, as trl's packing and transformers' DataCollatorWithFlattening give them."""
    positions = [torch.cat([torch.arange(len(text)) + first for text in row]) for row in rows]
    return {"input_ids": torch.stack([torch.cat(row) for row in rows]), "position_ids": torch.stack(positions)}


def apart(alone: list[Tensor] = ALONE) -> dict[str, Tensor]:
    """The same texts in rows of their own."""
    ids = torch.nn.utils.rnn.pad_sequence(alone, batch_first=True)
    lengths = torch.tensor([len(text) for text in alone])
    return {"input_ids": ids, "attention_mask": (torch.arange(ids.shape[1]) < lengths[:, None]).long()}


def asked(model: Any, ids: Tensor, positions: Tensor | None = None, **inputs: Any) -> list[dict[str, Tensor]]:
    """What is said at each place: of all tokens, of some tokens by component, of the place that each came from."""
    with torch.no_grad():
        found = model.distribution(ids, position_ids=positions, **inputs)
        tokens = torch.arange(3, 9).expand(ids.numel(), -1)
        shares = found.sources(tokens)
        pointed = found.positions() | {f"of 5, {name}": of for name, of in found.token_positions(tokens[:, 2]).items()}
        every = {"all": found.log_probs().exp(), **{f"from {name}": share for name, share in shares.items()}, **pointed}
    return [{name: of[row] for name, of in every.items()} for row in range(ids.numel())]


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor], where: str) -> None:
    """Equal; a text that is read alone has fewer places than the longest beside it, and what is beyond is nothing."""
    assert found.keys() == expected.keys()
    for name, of in found.items():
        own = torch.nn.functional.pad(expected[name], (0, len(of) - len(expected[name])))
        torch.testing.assert_close(of, own, rtol=0, atol=1e-10, msg=lambda said, name=name: f"{where}, {name}: {said}")


@pytest.mark.few(7)
@pytest.mark.parametrize(("family", "head"), pairs("gpt2", "mistral"))
def test_a_packed_text_is_read_as_alone(family: str, head: str) -> None:
    model = with_head(family, HEADS[head], dtype=torch.float64)
    expected = [one for text in ALONE for one in asked(model, text[None])]
    found = asked(model, *packed().values(), use_cache=False)
    for place, (packed_one, own) in enumerate(zip(found, expected, strict=True)):
        assert_same(packed_one, own, f"place {place}")


@pytest.mark.few(2)
@pytest.mark.parametrize(("family", "head"), pairs("gpt2"))
def test_loss_and_gradients_are_those_of_the_texts(family: str, head: str) -> None:
    """With labels at every place: what predicts the first token of the next text is nothing."""
    model = with_head(family, HEADS[head], dtype=torch.float64)
    model.train().backbone.eval()
    objectives = taken(model, OBJECTIVES if head in ON_EVERY_FAMILY else FEW)
    for name in objectives:
        expected, gradient = loss_of(model, OBJECTIVES[name], apart() | {"labels": apart()["input_ids"]})
        found, own = loss_of(model, OBJECTIVES[name], packed() | {"labels": packed()["input_ids"]})
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10, msg=lambda said, name=name: f"{name}: {said}")
        torch.testing.assert_close(own, gradient, rtol=0, atol=1e-10, msg=lambda said, name=name: f"{name}: {said}")


@pytest.mark.parametrize("head", ["cache", "softmax+cpr:3,8+mi"])
def test_the_summed_loss_is_the_sum_over_texts_read_one_by_one(head: str) -> None:
    model = with_head("gpt2", head, dtype=torch.float64)
    parts = [model(text[None], labels=text[None], num_items_in_batch=1).loss for text in ALONE if len(text) > 1]
    found = model(**packed(), labels=packed()["input_ids"], num_items_in_batch=1).loss
    assert float(found.detach()) == pytest.approx(float(sum(parts).detach()), abs=1e-10)


LET_TEXTS_MEET = ("opt", "opt_narrow")
"""Transformers makes the attention mask of OPT without its positions."""


KEEP_TEXTS_APART = [(family, None) for family in DECODERS if family not in LET_TEXTS_MEET]


@pytest.mark.few(5)
@pytest.mark.parametrize(("family", "attention"), [*KEEP_TEXTS_APART, ("gpt2", "eager"), ("mistral", "eager")])
def test_every_family_keeps_texts_apart(family: str, attention: str | None) -> None:
    model = with_head(family, "cache", dtype=torch.float64)
    if attention is not None:
        model.backbone.set_attn_implementation(attention)
    with torch.no_grad():
        expected = torch.cat([model.distribution(text[None]).log_probs() for text in ALONE])
        found = model.distribution(**packed()).log_probs()
    assert torch.allclose(found, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("family", LET_TEXTS_MEET)
def test_backbones_that_let_texts_meet_are_found_out(family: str) -> None:
    model = with_head(family, "cache")
    with pytest.raises(ValueError, match="OPTForCausalLM"):
        model(**packed())


@pytest.mark.parametrize("family", ["llama", "opt"])
def test_one_text_a_row_is_what_it_was(family: str) -> None:
    """Positions that go on, from anywhere, with every backbone."""
    model, ids = with_head(family, "cache"), packed()["input_ids"]
    positions = torch.arange(ids.shape[1])[None]
    assert torch.equal(model(ids, position_ids=positions, use_cache=False).logits, model(ids, use_cache=False).logits)
    model(ids, position_ids=positions + 5)


def test_nobody_has_to_say_that_no_cache_is_wanted() -> None:
    model, given = with_head("gpt2", "cache"), packed()
    out = model(**given)
    assert out.past_key_values is None
    assert torch.equal(out.logits, model(**given, use_cache=False).logits)


@pytest.mark.parametrize("keep", [1, 3, torch.tensor([2, 9]), torch.tensor([-1])])
def test_logits_of_the_places_that_are_kept(keep: Any) -> None:
    model = with_head("gpt2", "softmax+cpr:3,8+mi", dtype=torch.float64)
    whole, found = model(**packed()).logits, model(**packed(), logits_to_keep=keep).logits
    assert torch.allclose(found, whole[:, keep if isinstance(keep, Tensor) else slice(-keep, None)], rtol=0, atol=1e-10)


def test_places_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="logits_to_keep: must ascend"):
        with_head("gpt2", "cache")(**packed(), logits_to_keep=torch.tensor([9, 2]))


def test_sequence_updates_continue_each_text() -> None:
    """Prefixes end where their text does."""
    model = with_head("gpt2", "cache", objective="unlikelihood+seq:1,3x4", dtype=torch.float64)
    model.train().backbone.eval()
    losses = [model(**given, labels=given["input_ids"]).loss for given in (apart(), packed())]
    torch.testing.assert_close(losses[1], losses[0], rtol=0, atol=1e-10)


TOGETHER: dict[str, tuple[Callable[[Any], dict[str, Any]], str]] = {
    "a mask": (lambda _: {"attention_mask": torch.ones(2, 11)}, "leave it out"),
    "a wish for a cache": (lambda _: {"use_cache": True}, "set use_cache=False"),
    "a cache": (lambda model: {"past_key_values": filled_cache(model)}, "set use_cache=False"),
}


def filled_cache(model: Any) -> Any:
    return model(torch.tensor([[3, 4]] * 2), use_cache=True).past_key_values


@pytest.mark.parametrize("case", TOGETHER)
def test_what_lets_texts_meet_is_refused_by_heads_that_remember(case: str) -> None:
    make, said = TOGETHER[case]
    model = with_head("gpt2", "cache")
    with pytest.raises(ValueError, match=f"packed into one row.*{said}.*its own row"):
        model(**packed(), **make(model))
    other = with_head("gpt2", "softmax")
    other(**packed(), **make(other))


def test_flash_attention_parts_one_row_only() -> None:
    model = with_head("llama", "cache")
    model.backbone.config._attn_implementation = "flash_attention_2"
    with pytest.raises(ValueError, match="attention"):
        model(**packed())
    model._parts_texts["flash_attention_2"] = True  # it cannot be tried on a CPU
    found = text_rows_of(model, packed(ROWS[:1]))
    assert found is not None
    assert found.row.tolist() == [[0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2]]
    jump = {"input_ids": torch.tensor([[3, 4, 5, 6]]), "position_ids": torch.tensor([[0, 1, 5, 6]])}
    assert text_rows_of(model, jump) is None
