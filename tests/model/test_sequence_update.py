"""Sequence updates of a model: what it continues, what it writes, and the gradient of the loss."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    DynamicCache,
    GPT2Config,
    GPT2LMHeadModel,
    T5Config,
    T5ForConditionalGeneration,
)

import nextword as nw
from nextword.model.sequence_update import cut_prefixes
from nextword.objectives.objective import SequenceConfig
from tests.helpers.sequence_updates import batch, close, gradients
from tests.oracles.textbook import unlikelihood as textbook

V, P, S = 12, 4, 14
HEADS = ("softmax", "mos:2", "cache", "softmax+cpr:3+mi:1x2")
SEQ = {"rate": 1.0, "prefix": P, "continuation": S, "n": 2}


def causal(head: str = "softmax", objective: str = "mle", dropout: float = 0.0, **seq: Any) -> Any:
    torch.manual_seed(0)
    drop = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), dropout)
    config = GPT2Config(
        vocab_size=V, n_embd=8, n_layer=2, n_head=2, n_positions=24, bos_token_id=0, eos_token_id=1, **drop
    )
    backbone = GPT2LMHeadModel(config).double()
    for parameter in backbone.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)  # a model that writes more than one token
    model = nw.attach(backbone, head, {"objective": objective, "seq": SEQ | seq})
    for parameter in model.next_word_head.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model.train()


def texts(*lengths: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    return [torch.randint(2, V, (length,), generator=generator) for length in lengths]


def greedy(model: Any, prefix: torch.Tensor, steps: int = S) -> torch.Tensor:
    """What the model writes, token by token and without a cache."""
    text = prefix[None]
    for _ in range(steps):
        text = torch.cat([text, model.distribution(text).log_probs()[-1:].argmax(-1, keepdim=True)], 1)
    return text[0, len(prefix) :]


def textbook_mean(model: Any, prefixes: list[torch.Tensor], n: int = 2) -> torch.Tensor:
    """One prefix at a time, by the distribution of the whole text at once."""
    model.eval()
    total = torch.zeros((), dtype=torch.float64)
    for prefix in prefixes:
        own = greedy(model, prefix)
        log_probs = model.distribution(torch.cat([prefix, own])[None]).log_probs()
        total = total + textbook.sequence_sum(log_probs[None, len(prefix) - 1 : -1], own[None], n)
    return total / (len(prefixes) * S)


@pytest.mark.few(1)
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("head", HEADS)
def test_value_and_gradient_on_padded_rows(head: str, side: str) -> None:
    rows = texts(9, 4, 2)
    prefixes = [rows[0][:P], rows[0][P : 2 * P], rows[1], rows[2]]
    expected_model, model = causal(head), causal(head, prefixes=2)
    expected = textbook_mean(expected_model, prefixes)
    assert expected > 0
    loss = model(**batch(rows, side)).loss
    close(loss, expected)
    close(model.loss_parts["sequence_loss"], expected.detach())
    for ours, theirs in zip(gradients(model, loss), gradients(expected_model, expected), strict=True):
        close(ours, theirs)


@pytest.mark.few(2)
@pytest.mark.parametrize("head", ["softmax", "mos:2", "softmax+r:3"])
def test_gradient_is_that_of_the_graph_kept_through_cached_states(head: str) -> None:
    (prefix,) = texts(P)
    stepwise, model = causal(head).eval(), causal(head)
    cache = DynamicCache(config=stepwise.config.text_config)
    new, log_probs, tokens = prefix[None], [], []
    for _ in range(S):
        scores = stepwise(input_ids=new, past_key_values=cache, use_cache=True).logits[:, -1]
        log_probs.append(scores.log_softmax(-1))
        new = scores.argmax(-1, keepdim=True)
        tokens.append(new)
    assert cache.layers[0].keys.requires_grad
    expected = textbook.sequence_sum(torch.stack(log_probs, 1), torch.cat(tokens, 1), 2) / S
    assert expected > 0
    loss = model(**batch([prefix])).loss
    close(loss, expected)
    for ours, theirs in zip(gradients(model, loss), gradients(stepwise, expected), strict=True):
        close(ours, theirs)


@pytest.mark.slow
def test_order_of_the_rows_does_not_matter() -> None:
    rows = texts(6, 4, 3)
    losses = [causal()(**batch(list(order))).loss for order in itertools.permutations(rows)]
    close(torch.stack(losses), losses[0].expand(6))
    alone = [causal()(**batch([row])).loss for row in rows]
    close(torch.stack(alone).mean(), losses[0])


def seq2seq(kind: str, head: str) -> Any:
    torch.manual_seed(0)
    special = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "vocab_size": V}
    t5 = T5Config(d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, dropout_rate=0.3, **special)
    bart = BartConfig(
        d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=8, decoder_ffn_dim=8, max_position_embeddings=24, forced_eos_token_id=1, **special,
    )  # fmt: skip
    made = {"t5": lambda: T5ForConditionalGeneration(t5), "bart": lambda: BartForConditionalGeneration(bart)}[kind]()
    for parameter in made.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return nw.attach(made.double(), head, {"objective": "mle", "seq": SEQ}).train()


@pytest.mark.few(1)
@pytest.mark.parametrize("head", ["softmax", "cache", "pg"])
@pytest.mark.parametrize("kind", ["t5", "bart"])
def test_encoder_decoder_continues_its_source(kind: str, head: str) -> None:
    model, expected_model = seq2seq(kind, head), seq2seq(kind, head).eval()
    rows = texts(9, 5)
    total = torch.zeros((), dtype=torch.float64)
    for row in rows:
        written = torch.zeros(1, 1, dtype=torch.long)
        for _ in range(S):
            found = expected_model.distribution(row[None], decoder_input_ids=written).log_probs()
            written = torch.cat([written, found[-1:].argmax(-1, keepdim=True)], 1)
        log_probs = expected_model.distribution(row[None], decoder_input_ids=written[:, :-1]).log_probs()
        total = total + textbook.sequence_sum(log_probs[None], written[:, 1:], 2)
    given = batch(rows)
    labels = torch.tensor([[3, 4, 5], [6, -100, -100]])
    loss = model(**given | {"labels": labels}).loss
    expected = total / (2 * S)
    assert expected > 0
    close(loss, expected)
    for ours, theirs in zip(gradients(model, loss), gradients(expected_model, expected), strict=True):
        close(ours, theirs)


def test_generation_settings_and_modes_are_put_aside_and_back() -> None:
    model = causal(dropout=0.4)
    model.generation_config.update(repetition_penalty=5.0, max_new_tokens=2, do_sample=True, suppress_tokens=[3, 4])
    own = model.generation_config
    model.backbone.transformer.h[0].eval()
    before = [module.training for module in model.modules()]
    losses = [model(**batch(texts(4))).loss.detach() for _ in range(2)]
    assert torch.equal(losses[0], losses[1])  # no dropout, no draw
    close(losses[0], causal()(**batch(texts(4))).loss.detach())
    assert model.generation_config is own
    assert [module.training for module in model.modules()] == before


def test_writing_does_not_stop_at_the_end_token() -> None:
    model = causal()
    written = greedy(model.eval(), *texts(P))
    model.generation_config.eos_token_id = int(written[0])
    model.train()(**batch(texts(P)))
    assert model.loss_parts["repeated"] == torch.tensor(textbook.repeated(written.tolist(), 2)).double().mean()


def test_gradient_checkpointing_changes_nothing() -> None:
    model, plain = causal(), causal()
    model.gradient_checkpointing_enable()
    losses = [made(**batch(texts(4, 3))).loss for made in (model, plain)]
    for ours, theirs in zip(gradients(model, losses[0]), gradients(plain, losses[1]), strict=True):
        close(ours, theirs)


@pytest.mark.parametrize(
    ("length", "settings", "lengths"),
    [
        (500, {}, [50] * 3),
        (300, {"prefixes": 6}, [50] * 6),
        (170, {"prefixes": 6}, [50] * 3),
        (170, {}, [50]),
        (30, {"prefixes": 6}, [30]),
        (1, {}, [1]),
    ],
)
def test_prefixes_of_a_text(length: int, settings: dict, lengths: list[int]) -> None:
    text = torch.arange(length)
    pieces = cut_prefixes(text, SequenceConfig(**settings))
    assert [len(piece) for piece in pieces] == lengths
    assert torch.equal(torch.cat(pieces), text[: sum(lengths)])


def test_without_prefixes_the_update_is_one_of_tokens() -> None:
    given = batch(texts(5, 3))
    model, plain = causal(), causal()
    plain.set_objective("mle")
    empty = given | {"attention_mask": torch.zeros_like(given["attention_mask"])}
    assert model(**empty).loss == 0
    embedded = {"inputs_embeds": model.get_input_embeddings()(given["input_ids"]), "labels": given["labels"]}
    close(model(**embedded).loss, plain(**embedded).loss)
    partly = given | {"attention_mask": given["attention_mask"] * torch.tensor([[1], [0]])}
    close(model(**partly).loss, causal()(**batch(texts(5))).loss)
    assert model.objective.sequence.step == 3


def test_evaluation_is_of_tokens_and_counts_no_update() -> None:
    given = batch(texts(6, 5))
    model, plain = causal(objective="unlikelihood"), causal().eval()
    close(model.eval()(**given).loss, plain(**given).loss)
    assert model.objective.sequence.step == 0
    assert set(model.loss_parts) == {"token_loss"}


@pytest.mark.slow
def test_either_sequence_or_token_loss() -> None:
    given = batch(texts(6, 5))
    model, tokens = causal(rate=0.5), causal()
    tokens.set_objective("mle")
    expected = {True: causal()(**given).loss, False: tokens(**given).loss}
    kinds = []
    for _ in range(12):
        loss = model(**given).loss
        kinds.append("sequence_loss" in model.loss_parts)
        close(loss, expected[kinds[-1]])
    assert 0 < sum(kinds) < 12


def test_weighs_as_the_targets_of_its_batch() -> None:
    given = batch(texts(6, 5))
    given["labels"][0, :4] = -100
    model = causal()
    mean = model(**given).loss
    targets = 2 + 4
    close(model(**given, num_items_in_batch=100).loss, mean * targets / 100)
    close(mean.detach(), model.loss_parts["sequence_loss"])


@pytest.mark.parametrize("spec", ["mle+seq:10x15", "unlikelihood+seq"])
def test_room_for_prefix_and_continuation(spec: str) -> None:
    model = causal()
    with pytest.raises(ValueError, match=r"seq\.prefix"):
        model.set_objective(spec)
    model.set_objective("mle+seq:8x15")
    with pytest.raises(ValueError, match=r"seq\.continuation"):
        seq2seq("bart", "softmax").set_objective("mle+seq:100x24")


@pytest.mark.slow
def test_checker_passes() -> None:
    nw.check(causal("cache", "unlikelihood").eval(), lengths=[5]).raise_if_failed()
