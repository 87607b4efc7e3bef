"""What a user gets wrong about auxiliary texts, and what they are told."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

import nextword as nw
from tests.helpers.conditioned_models import COPYING, ENCODER_VOCABULARY, WIDTH, conditioned, encoder, texts, with_words
from tests.helpers.families import VOCABULARY, inputs, tiny

AUX = texts((7, 3, 5))
IDS, MASK = AUX["aux_input_ids"], AUX["aux_attention_mask"]
GIVEN = inputs(tiny("gpt2"))


@cache
def model_of(conditioner: str, head: str = "softmax") -> Any:
    """Not to be changed."""
    return conditioned(tiny("gpt2"), head, conditioner)


def asked(model: Any, **given: Any) -> list[Any]:
    """Every way to ask the model."""
    return [
        lambda: model(**GIVEN, **given),
        lambda: model(**GIVEN, **given, labels=GIVEN["input_ids"]),
        lambda: model.distribution(**GIVEN, **given),
        lambda: model.generate(**GIVEN, **given, max_new_tokens=2),
    ]


@pytest.mark.parametrize("conditioner", ["lmh", "dau", "bergpt", "prefix"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "aux_input_ids: missing; this model follows an auxiliary text"),
        ({"aux_attention_mask": MASK}, "aux_input_ids: missing"),
        ({"aux_input_ids": IDS[:2]}, "auxiliary text: 2 rows for 3 sequences; every sequence needs one"),
        ({"aux_states": torch.zeros(1, 4, WIDTH)}, "auxiliary text: 1 rows for 3 sequences"),
        (
            {"aux_input_ids": IDS, "aux_attention_mask": MASK[:, 1:]},
            r"aux_attention_mask: must be .* \(shape \(3, 6\) given",
        ),
        ({"aux_input_ids": IDS, "aux_attention_mask": MASK * 0}, r"row 0 has no token \(it is padding only\)"),
        (
            {"aux_input_ids": IDS, "aux_attention_mask": MASK * torch.tensor([[1], [1], [0]])},
            "row 2 has no token .*leave such rows out",
        ),
        ({"aux_states": torch.zeros(3, 4, WIDTH + 1)}, rf"aux_states: must be .* \(shape \(3, 4, {WIDTH + 1}\) given"),
        (
            {"aux_states": torch.zeros(3, WIDTH)},
            rf"aux_states: must be \(batch, positions, 12\), .* \(shape \(3, {WIDTH}\) given",
        ),
        ({"aux_input_ids": IDS, "aux_states": torch.zeros(3, 7, WIDTH)}, "both aux_input_ids and aux_states"),
        ({"aux_input_ids": IDS.tolist()}, "aux_input_ids: must be a tensor .* .list given"),
        ({"aux_input_ids": IDS.float()}, "aux_input_ids: must be whole numbers, .* .torch.float32 given"),
        ({"aux_input_ids": IDS[0, :3]}, r"aux_input_ids: must be \(batch, positions\) \(shape \(3,\) given"),
        ({"aux_input_ids": IDS[:, :0]}, r"aux_input_ids: must be \(batch, positions\), .*\(shape \(3, 0\) given"),
        (
            {"aux_input_ids": IDS + ENCODER_VOCABULARY},
            f"aux_input_ids: .*outside the vocabulary of {ENCODER_VOCABULARY}",
        ),
        ({"aux_input_ids": IDS - 40}, "aux_input_ids: token id -.* is outside"),
        ({"aux_input_ids": IDS.repeat(1, 3)}, "21 tokens are more than the 16 positions of its encoder"),
    ],
)
def test_auxiliary_texts(conditioner: str, given: dict[str, Any], message: str) -> None:
    for ask in asked(model_of(conditioner), **given):
        with pytest.raises(ValueError, match=message):
            ask()


@pytest.mark.parametrize("head", COPYING)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source_ids": None}, r"copies tokens of the auxiliary text: pass source_ids and source_positions"),
        ({"source_positions": None}, r"copies tokens of the auxiliary text: pass source_ids and source_positions"),
        ({"source_ids": torch.zeros(3, 2).long()}, r"one shape, with 3 rows \(shapes \(3, 2\) and \(3, 6\) given"),
        ({"source_ids": torch.full((3, 6), VOCABULARY)}, f"source_ids: token id {VOCABULARY} is outside"),
        (
            {"source_positions": torch.full((3, 6), 6)},
            "source_positions: a position at the padding of the auxiliary text",
        ),
        (
            {"source_positions": torch.full((3, 6), 7)},
            "source_positions: a position (at the padding|beyond the 7 tokens)",
        ),
    ],
)
def test_words_to_copy(head: str, change: dict[str, Tensor | None], message: str) -> None:
    for ask in asked(model_of("bergpt", head), **(with_words(AUX) | change)):
        with pytest.raises(ValueError, match=message):
            ask()


def test_places_beyond_the_text() -> None:
    given = {"aux_input_ids": IDS, "source_ids": torch.zeros(3, 2).long(), "source_positions": torch.full((3, 2), 7)}
    with pytest.raises(ValueError, match=r"source_positions:.*7 tokens of the auxiliary"):
        model_of("dau", "pg")(**GIVEN, **given)


@pytest.mark.parametrize("head", COPYING)
def test_a_text_without_words_to_copy_has_a_distribution(head: str) -> None:
    model = model_of("bergpt", head)
    nothing = {"source_ids": torch.zeros(3, 2).long(), "source_positions": torch.full((3, 2), -1)}
    probs = model.distribution(**GIVEN, **AUX, **nothing).probs()
    torch.testing.assert_close(probs.sum(-1), torch.ones(27), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["aux_input_ids", "aux_attention_mask", "aux_states", "source_positions"])
def test_a_model_without_conditioner_has_no_use_for_a_text(name: str) -> None:
    model = nw.attach(tiny("gpt2"), "softmax")
    given = {"aux_states": torch.zeros(3, 4, WIDTH)}.get(name, IDS)
    for ask in asked(model, **{name: given})[:3]:
        with pytest.raises(ValueError, match=f"{name}: this model has no conditioner, .*attach one"):
            ask()
    with pytest.raises(ValueError, match="this model has no conditioner"):
        model.generate(**GIVEN, **{name: given}, max_new_tokens=2)
    with pytest.raises(ValueError, match=r"aux_input_ids:.*conditioner"):
        model.encode(IDS)


@pytest.mark.parametrize(
    ("conditioner", "message"),
    [
        ("bertgpt", "unknown conditioner 'bertgpt'. Did you mean 'bergpt'"),
        (3, "conditioner: must be a spec such as 'bergpt' or its settings"),
        ({"layers": [1]}, "conditioner: missing; it names the conditioner"),
        ("lmh:median", "must be followed by mean or max .'median' given"),
        ("dau:max,mean", "must be followed by mean or max"),
        ("bergpt:0", "followed by a number of last layers such as bergpt:2"),
        ("bergpt:4", r"conditioner.last: must be at most 3, the layers of the decoder \(4 given"),
        (
            {"conditioner": "bergpt", "layers": [0, 3]},
            r"conditioner.layers: must be among the decoder's layers 0 to 2 \(3 given",
        ),
        (
            {"conditioner": "bergpt", "layers": [0, -3]},
            r"must not name a layer twice \(\[0, -3\] given\)",
        ),
        ({"conditioner": "bergpt", "layers": []}, "conditioner.layers: must be .*length"),
        (
            {"conditioner": "bergpt", "heads": 5},
            r"heads: must divide the decoder's width of 32 \(5 given\)",
        ),
        ({"conditioner": "bergpt", "haeds": 4}, "conditioner.haeds: unknown key. Did you mean 'heads'"),
        ({"conditioner": "bergpt:2", "last": 1}, "conditioner.last: given as 2 by 'bergpt:2' and as 1"),
        ({"conditioner": "dau", "trains": "none"}, "conditioner.trains: must be .*'downstream'"),
        ("prefix:x", "followed by a number of vectors such as prefix:8"),
        ({"conditioner": "prefix", "start": "unchanged"}, "conditioner.start: must be .*'random'"),
    ],
)
def test_specs(conditioner: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nw.attach(tiny("gpt2"), "softmax", conditioner=conditioner, encoder=encoder())


def test_conditioner_and_encoder_come_together() -> None:
    with pytest.raises(ValueError, match="conditioner"):
        nw.attach(tiny("gpt2"), "softmax", conditioner="dau")
    with pytest.raises(ValueError, match="conditioner"):
        nw.attach(tiny("gpt2"), "softmax", encoder=encoder())
    with pytest.raises(ValueError, match=r"encoder:.*\(int given"):
        nw.attach(tiny("gpt2"), "softmax", conditioner="dau", encoder=3)  # type: ignore[arg-type]


def test_a_prefix_takes_positions() -> None:
    model = model_of("prefix")
    ids = torch.full((3, 121), 5)
    assert model(ids[:, :120], **AUX).logits.shape[1] == 120
    with pytest.raises(ValueError, match="129 positions"):
        model(ids, **AUX)
    with pytest.raises(ValueError, match="129 positions"):
        model.generate(ids[:, :118], **AUX, max_new_tokens=5)


def test_continuous_batching_is_refused() -> None:
    with pytest.raises(ValueError, match="continuous"):
        model_of("dau").generate_batch([[3, 4]])


@pytest.mark.parametrize("conditioner", ["lmh", "dau", "bergpt", "prefix"])
def test_other_types_of_the_same_text(conditioner: str) -> None:
    model = model_of(conditioner)
    expected = model(**GIVEN, **AUX).logits
    same = [
        {"aux_input_ids": IDS.int(), "aux_attention_mask": MASK.bool()},
        {"aux_input_ids": IDS, "aux_attention_mask": MASK.float()},
        {"aux_states": model.encode(**AUX), "aux_attention_mask": MASK},
        {"aux_states": model.encode(**AUX).double(), "aux_attention_mask": MASK},
    ]
    for given in same:
        assert torch.equal(model(**GIVEN, **given).logits, expected)
    whole, without = (
        model(**GIVEN, aux_input_ids=IDS, **mask).logits for mask in ({"aux_attention_mask": MASK**0}, {})
    )
    assert torch.equal(whole, without)


@pytest.mark.parametrize("conditioner", ["lmh:max", "dau", "bergpt", "prefix"])
def test_more_padding_is_the_same_text(conditioner: str) -> None:
    model = model_of(conditioner, "pg")
    given = with_words(AUX)
    fill = {"aux_input_ids": 9, "aux_attention_mask": 0, "source_ids": 9, "source_positions": -1}
    wider = {name: torch.nn.functional.pad(value, (0, 4), value=fill[name]) for name, value in given.items()}
    torch.testing.assert_close(model(**GIVEN, **wider).logits, model(**GIVEN, **given).logits, rtol=0, atol=1e-4)


def test_guidance_is_refused() -> None:
    with pytest.raises(ValueError, match=r"guidance_scale:.*model without inputs"):
        model_of("dau").generate(**GIVEN, **AUX, max_new_tokens=2, guidance_scale=2.0)


def test_a_prefix_that_leaves_no_place() -> None:
    with pytest.raises(ValueError, match=r"prefix.length: must be less than the model's 128 positions .500 given"):
        conditioned(tiny("gpt2"), "softmax", "prefix:500")
