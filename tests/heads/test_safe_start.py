"""Attaching a head makes no pretrained model worse: loss and likeliest tokens, with states short and long."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor

import nextword as nw
from nextword.experiments.reproduction.planning.experiment_work import zipf_counts
from nextword.heads import head_spec, parse_head
from nextword.heads.safe_start import fitted_temperature, nats_apart, probe_tokens, unobtrusive_share
from tests.helpers.counted import counts_file
from tests.helpers.families import VOCABULARY, tiny

ALLOWED, WRITTEN, SAME = 0.05, 50, 45
"""Nats per token; tokens that the model writes greedily; of these, those that must be the likeliest still."""

HEADS: dict[str, Any] = {
    name: name
    for name in nw.heads.registry.names()
    if name != "f2"
} | {
    "f2": {"head": "f2", "counts": counts_file()},
    "cache:temperature=4": "cache:temperature=4",
    "mos:3,static+mi:2x3": "mos:3,static+mi:2x3",
    "pg+mi:2x3": "pg+mi:2x3",
    "ps:include_current=true": "ps:include_current=true",
    "softmax+cpr:3,8": "softmax+cpr:3,8",
    "copynet:tanh=false": "copynet:tanh=false",
}  # fmt: skip


def untrained(family: str) -> Any:
    """A model as transformers starts it, which is sure of nothing, where ``tiny`` is sure of everything."""
    torch.manual_seed(1)
    tokens = {"vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    if family == "gpt2":
        return hf.GPT2LMHeadModel(hf.GPT2Config(n_embd=64, n_layer=2, n_head=4, n_positions=256, **tokens))
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    return hf.LlamaForCausalLM(hf.LlamaConfig(**sizes, max_position_embeddings=256, **tokens))


MODELS = {
    "untrained gpt2": lambda: untrained("gpt2"),
    "untrained llama": lambda: untrained("llama"),
    **{name: lambda name=name: tiny(name) for name in ("gpt2", "llama", "t5", "bart")},
}


def lengthened(model: Any, length: float) -> Any:
    """The model with states of this length at its end: its last norms are made larger."""
    norms = {
        "gpt2": lambda: [model.transformer.ln_f],
        "llama": lambda: [model.model.norm],
        "t5": lambda: [model.encoder.final_layer_norm, model.decoder.final_layer_norm],
        "bart": lambda: [part.layers[-1].final_layer_norm for part in (model.model.encoder, model.model.decoder)],
    }[model.config.model_type]()
    for norm in norms:
        norm.weight.data *= length / norm.weight.data.norm()
    return model.eval()


class Texts:
    """A random text, texts that the model writes at random, and what it writes greedily after a prompt."""

    def __init__(self, model: Any) -> None:
        generator = torch.Generator().manual_seed(3)
        self.prompt = torch.randint(3, VOCABULARY, (1, 20), generator=generator)
        texts = torch.randint(3, VOCABULARY, (4, 60), generator=generator)
        asked = {"attention_mask": torch.ones_like(self.prompt), "max_new_tokens": WRITTEN, "min_new_tokens": WRITTEN}
        self.greedy = model.generate(self.prompt, do_sample=False, **asked)
        torch.manual_seed(0)
        own = model.generate(self.prompt, do_sample=True, top_k=0, num_return_sequences=4, **asked)
        source = self.prompt.expand(4, -1)
        self.scored = (
            [{"input_ids": source, "labels": one} for one in (texts, own[:, 1:].contiguous())]
            if model.config.is_encoder_decoder
            else [{"input_ids": one, "labels": one} for one in (texts, own)]
        )
        self.read = (
            {"input_ids": self.prompt, "decoder_input_ids": self.greedy[:, :-1]}
            if model.config.is_encoder_decoder
            else {"input_ids": self.greedy[:, :-1]}
        )

    def nats(self, model: Any) -> list[float]:
        return [model(**text).loss.item() for text in self.scored]

    def likeliest(self, model: Any) -> Tensor:
        return model(**self.read).logits[0, -WRITTEN:].argmax(-1)


@pytest.mark.slow
@pytest.mark.parametrize("length", [5, 500, *(pytest.param(one, marks=pytest.mark.slow) for one in (16, 50, 160))])
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_no_head_makes_a_model_worse(name: str, length: float) -> None:
    model = lengthened(MODELS[name](), length)
    texts = Texts(model)
    before, likeliest = texts.nats(model), texts.likeliest(model)
    for head, spec in HEADS.items():
        ours = nw.attach(model, spec).eval()
        worse = [now - then for now, then in zip(texts.nats(ours), before, strict=True)]
        same = int((texts.likeliest(ours) == likeliest).sum())
        assert max(worse) <= ALLOWED, (head, worse)
        assert same >= SAME, (head, same)


REAL_HEADS = ["cache", "pg", "ps", "copynet", "sigsoftmax", "softmax+cpr:20,100+mi"]


@pytest.mark.real
@torch.no_grad()
def test_no_head_makes_a_real_model_worse(real_model: tuple[Any, Any], tmp_path: Path) -> None:
    model, tokenizer = real_model
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    ids = tokenizer(text, return_tensors="pt").input_ids[:, :256]
    greedy = model.generate(ids[:, :64], max_new_tokens=WRITTEN, do_sample=False)[:, :-1]
    before, likeliest = model(input_ids=ids, labels=ids).loss, model(input_ids=greedy).logits[0, 63:].argmax(-1)
    for head in [*REAL_HEADS, {"head": "f2", "counts": str(zipf_counts(model.config.vocab_size, tmp_path / "c.npz"))}]:
        ours = nw.attach(model, head).eval()
        worse = (ours(input_ids=ids, labels=ids).loss - before).item()
        same = int((ours(input_ids=greedy).logits[0, 63:].argmax(-1) == likeliest).sum())
        assert worse <= ALLOWED, (head, worse)
        assert same >= SAME * len(likeliest) / WRITTEN, (head, same)


@pytest.mark.parametrize("head", ["cache:published", "ps:published", "pg:published", "f2:published"])
@torch.no_grad()
def test_a_published_start_that_hurts_is_said_once_with_what_it_costs(head: str, caplog: Any) -> None:
    model = lengthened(tiny("llama"), 50)
    spec = parse_head(head).model_dump() | ({"counts": counts_file()} if head.startswith("f2") else {})
    with caplog.at_level(logging.WARNING):
        ours = nw.attach(model, spec).eval()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"head '{head}': predicts ")
    assert f"attach '{ours.next_word_head.config.head}'" in line
    rows = probe_tokens(VOCABULARY).view(-1, 32)
    own, changed = (logits.double().log_softmax(-1) for logits in (model(rows).logits, ours(rows).logits))
    assert float(line.split()[3]) == pytest.approx((own.exp() * (own - changed)).sum(-1).mean().item(), rel=1e-2)


@pytest.mark.parametrize("head", ["cache", "pg", "cache:weight=0.01", "sigsoftmax:shift=100", "softmax"])
def test_a_start_that_does_not_hurt_is_not_spoken_of(head: str, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING):
        nw.attach(lengthened(tiny("gpt2"), 5), head)
    assert not caplog.records


def test_the_temperature_fits_the_length_of_the_states() -> None:
    states = torch.randn(64, 16, generator=torch.Generator().manual_seed(0))
    states *= 40 / states.norm(dim=-1, keepdim=True)
    assert fitted_temperature(states, states[None]) == pytest.approx(40 * 40 / math.sqrt(16) / 16, rel=5e-3)
    assert fitted_temperature(states, states[None] / 4) == pytest.approx(40 * 10 / math.sqrt(16) / 16, rel=5e-3)
    assert fitted_temperature(states * 0, states[None]) == 1.0


@torch.no_grad()
def test_the_share_is_the_smallest_that_changes_the_likeliest_token() -> None:
    """Found here by trying weights: at two of a hundred positions the likeliest token is another one just above it."""
    model = lengthened(tiny("gpt2"), 2.0)
    ours = nw.attach(model, "cache:temperature=2,weight=0.5").eval()
    ids = torch.randint(3, VOCABULARY, (8, 30), generator=torch.Generator().manual_seed(5))
    softmax, cache = ours.distribution(ids, mode="lm_only"), ours.distribution(ids, mode="cache_only")
    entries = ours.next_word_head.entries(ours.context({"input_ids": ids}))
    sees = entries.any_visible()
    own, stored = softmax.probs()[sees], cache.probs()[sees]
    critical = []
    for one, other in zip(own, stored, strict=True):
        low, high = 0.0, 1.0
        for _ in range(50):
            middle = (low + high) / 2
            changed = ((1 - middle) * one + middle * other).argmax() != one.argmax()
            low, high = (low, middle) if changed else (middle, high)
        critical.append(high)
    tried = torch.tensor(critical).quantile(0.02).item()
    sure = own.amax(-1).quantile(0.9).item() ** 2 / 2
    assert unobtrusive_share(softmax, entries) == pytest.approx(min(0.03, tried, sure), rel=6e-3)


@torch.no_grad()
def test_the_divergence_is_that_of_the_textbook() -> None:
    ours = nw.attach(tiny("gpt2"), "cache:published").eval()
    ids = torch.randint(3, VOCABULARY, (2, 30), generator=torch.Generator().manual_seed(5))
    own, both = (ours.distribution(ids, mode=mode) for mode in ("lm_only", "joint"))
    p, q = own.probs().double(), both.probs().double()
    assert nats_apart(own, both) == pytest.approx((p * (p / q).log()).sum(-1).mean().item(), rel=1e-4)


@pytest.mark.parametrize(
    ("saved", "spec"),
    [
        ({"head": "cache", "mode": "joint", "temperature": 1.0, "weight": None, "long": None}, "cache:published"),
        ({"head": "cache", "mode": "joint", "temperature": 4.0, "weight": None}, "cache:temperature=4.0,weight=none"),
        ({"head": "pg", "gate_bias": None, "mi": None, "bias": True}, "pg:published"),
        ({"head": "ps", "gate_bias": 0.0}, "ps:published"),
        ({"head": "copynet", "tanh": True, "initial_bias": 0.0}, "copynet:published"),
    ],
)
def test_settings_of_earlier_versions_mean_what_they_meant(saved: dict[str, Any], spec: str) -> None:
    assert head_spec(parse_head(saved)) == spec
    assert parse_head(saved).as_published() == parse_head(saved)


@torch.no_grad()
def test_a_folder_without_the_newer_settings_is_what_it_was(tmp_path: Any) -> None:
    """Earlier versions wrote no shift of the sigmoid and no prior of the classes."""
    ids = torch.randint(3, VOCABULARY, (1, 20), generator=torch.Generator().manual_seed(5))
    for spec, newer in (
        ("sigsoftmax:published", "shift"),
        ({"head": "f2", "counts": counts_file(), "prior": None}, "prior"),
    ):
        model = nw.attach(tiny("gpt2"), spec).eval()
        folder = tmp_path / newer
        model.save_pretrained(folder)
        config = json.loads((folder / "config.json").read_text())
        del config["head"][newer]
        (folder / "config.json").write_text(json.dumps(config))
        assert torch.equal(nw.load(folder).eval()(input_ids=ids).logits, model(input_ids=ids).logits)


def test_what_is_fitted_at_the_start_cannot_be_asked_for_later() -> None:
    model = nw.attach(tiny("gpt2"), "cache")
    with pytest.raises(ValueError, match=r"head\.weight:.*head is attached"):
        model.configure_head(weight="fitted")
