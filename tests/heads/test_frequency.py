"""F2-Softmax: the numbers of its equations, then whole models: start, training, what is saved, what is refused."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration, Trainer, TrainingArguments

import nextword as nw
from nextword.distribution import ClassDraw, FactorizedDistribution, TokenClasses
from nextword.functional.frequency import TokenCounts, divide
from nextword.functional.probability import drawn_at, truncated
from nextword.heads import head_spec, parse_head
from tests.helpers.contexts import LinearVocabulary
from tests.helpers.counted import counts_file
from tests.helpers.families import tiny
from tests.oracles import golden

V, T = 300, 24
TEXTBOOK = 1e-12
"""The golden file is a float64 computation of the paper's equations with nothing added."""


@pytest.fixture
def numbers() -> dict[str, Any]:
    return golden.load("objectives/f2_head")


def factorized(numbers: dict[str, Any]) -> FactorizedDistribution:
    """The distribution at all positions, with gradients of states and both embeddings."""
    for name in ("hidden", "class_emb", "out_emb"):
        numbers[name].requires_grad_()
    states = numbers["hidden"].flatten(0, 1)
    return FactorizedDistribution(
        LinearVocabulary(numbers["out_emb"]),
        states,
        states @ numbers["class_emb"].T,
        TokenClasses.of(numbers["token_class"]),
    )


def test_loss_and_gradients(numbers: dict[str, Any]) -> None:
    labels = numbers["labels"].flatten()
    counted = (labels != -100).nonzero()[:, 0]
    log_prob = factorized(numbers)[counted].log_prob(labels[counted, None])
    loss = -log_prob.mean()
    torch.testing.assert_close(loss, numbers["loss"], rtol=0, atol=TEXTBOOK)
    torch.testing.assert_close(loss.exp(), numbers["ppl"], rtol=TEXTBOOK, atol=0)
    loss.backward()
    for name in ("hidden", "class_emb", "out_emb"):
        torch.testing.assert_close(numbers[name].grad, numbers[f"grad_{name}"], rtol=0, atol=TEXTBOOK)


def test_both_factors_and_their_product(numbers: dict[str, Any]) -> None:
    distribution = factorized(numbers)
    shape = numbers["labels"].shape
    torch.testing.assert_close(
        distribution.log_probs().unflatten(0, shape), numbers["logp_full"], rtol=0, atol=TEXTBOOK
    )
    torch.testing.assert_close(
        distribution.log_class_probs().unflatten(0, shape), numbers["logp_class"], rtol=0, atol=TEXTBOOK
    )
    everything = torch.arange(distribution.vocab_size).expand(len(distribution), -1)
    torch.testing.assert_close(distribution.log_prob(everything), distribution.log_probs(), rtol=0, atol=TEXTBOOK)
    inside = numbers["logp_token_in_class"].flatten(0, 1)
    for chosen in range(3):
        found = distribution.within(torch.full((len(distribution),), chosen))
        own = numbers["token_class"] == chosen
        torch.testing.assert_close(found[:, own], inside[:, own], rtol=0, atol=TEXTBOOK)
        assert (found[:, ~own] == -torch.inf).all()


@torch.no_grad()
def test_greedy_decoding_takes_the_class_first(numbers: dict[str, Any]) -> None:
    distribution = factorized(numbers)
    scores = ClassDraw(sample=False)(distribution)
    tokens = scores.argmax(-1)
    assert torch.equal(numbers["token_class"][tokens], numbers["greedy_class"].flatten())
    assert torch.equal(tokens, numbers["greedy_token"].flatten())
    assert torch.equal(distribution.log_probs().argmax(-1), numbers["full_argmax"].flatten())
    assert int((tokens != numbers["full_argmax"].flatten()).sum()) == 2  # decoupled greedy is another decoding


@torch.no_grad()
@pytest.mark.parametrize(
    ("name", "cut"),
    [("topk3_given_greedy_class", {"top_k": 3}), ("nucleus08_given_greedy_class", {"top_p": 0.8})],
)
def test_cuts_act_within_the_class(numbers: dict[str, Any], name: str, cut: dict[str, Any]) -> None:
    scores = ClassDraw(sample=False)(factorized(numbers))
    found = truncated(scores, **cut).softmax(-1)
    expected = numbers[name].flatten(0, 1)
    expected = expected.exp() if bool((expected < 0).any()) else expected
    torch.testing.assert_close(found, expected, rtol=0, atol=TEXTBOOK)


@torch.no_grad()
@pytest.mark.parametrize("sample", [False, True])
def test_token_of_the_class_is_that_of_all_scores(numbers: dict[str, Any], sample: bool) -> None:
    """Greedy and drawn, for every position, without the scores of other classes."""
    distribution = factorized(numbers)
    uniform = torch.rand(len(distribution), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    draw = ClassDraw(sample)
    torch.manual_seed(1)
    scores = draw(distribution)
    expected = drawn_at(scores, uniform) if sample else scores.argmax(-1)
    torch.manual_seed(1)
    assert torch.equal(draw.token(distribution, uniform if sample else None), expected)
    assert len(expected.unique()) > 3


def gpt2(seed: int = 0, **settings: Any) -> GPT2LMHeadModel:
    torch.manual_seed(seed)
    special = {"bos_token_id": 0, "eos_token_id": None, "pad_token_id": 0}
    config = GPT2Config(vocab_size=V, n_embd=16, n_layer=2, n_head=2, n_positions=64, **special, **settings)
    return GPT2LMHeadModel(config).eval()


@pytest.fixture
def zipf(tmp_path: Path) -> str:
    counts = (20_000 / np.arange(1, V + 1)).astype(np.int64)
    TokenCounts(np.random.default_rng(0).permutation(counts), "abc", "a law").save(tmp_path / "zipf.npz")
    return str(tmp_path / "zipf.npz")


def drawn(path: str, rows: int = 4, seed: int = 1) -> Tensor:
    counts = torch.from_numpy(TokenCounts.load(path).counts).double()
    return torch.multinomial(counts, rows * T, True, generator=torch.Generator().manual_seed(seed)).view(rows, T)


class Products(TorchDispatchMode):
    """Shapes of both sides of every matrix product."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[tuple[int, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in {"mm", "addmm", "bmm", "baddbmm"}:
            self.shapes.append(tuple(out.shape))
        return out


def test_training_scores_the_tokens_of_the_targets_classes_only(zipf: str) -> None:
    model = nw.attach(gpt2(), parse_head("f2:4,published").model_dump() | {"counts": zipf}).train()
    classes = model.next_word_head.table.classes()
    frequent = classes.members[0].repeat(3)[:T][None]
    with Products() as products:
        model(input_ids=frequent, labels=frequent).loss.backward()
    assert products.shapes
    # the output layer itself is given no state at all: its product has no row
    assert not [shape for shape in products.shapes if V in shape and 0 not in shape]
    gradient = model.get_output_embeddings().weight.grad
    untouched = torch.cat(classes.members[1:])
    tied = torch.zeros(V, dtype=torch.bool).scatter_(0, frequent[0], True)  # input embeddings are the same weight
    assert gradient[classes.members[0]].abs().sum() > 0
    assert (gradient[untouched][~tied[untouched]] == 0).all()


def test_a_class_of_one_token_costs_nothing_and_learns_nothing(zipf: str) -> None:
    model = nw.attach(
        gpt2(tie_word_embeddings=False),
        parse_head("f2:30,published").model_dump() | {"counts": zipf},
    )
    single = model.next_word_head.table.classes().members[0]
    assert len(single) == 1
    ids = single.repeat(T)[None]
    model(input_ids=ids, labels=ids).loss.backward()
    assert (model.get_output_embeddings().weight.grad == 0).all()
    assert model.next_word_head.classes.weight.grad.abs().sum() > 0


@torch.no_grad()
def test_likelihood_is_that_of_the_full_posterior(zipf: str) -> None:
    model = nw.attach(gpt2(), {"head": "f2", "counts": zipf})
    ids = drawn(zipf)
    full = model.distribution(ids).log_probs().unflatten(0, ids.shape)[:, :-1].gather(2, ids[:, 1:, None])
    torch.testing.assert_close(model(input_ids=ids, labels=ids).loss, -full.mean())


@torch.no_grad()
def test_memory_budget_changes_nothing(zipf: str) -> None:
    model = nw.attach(gpt2(), {"head": "f2", "counts": zipf})
    ids = drawn(zipf)
    whole = model.distribution(ids).log_prob(ids.flatten()[:, None])
    with nw.score_memory(0.01):
        torch.testing.assert_close(model.distribution(ids).log_prob(ids.flatten()[:, None]), whole)


@pytest.mark.slow
@torch.no_grad()
def test_classes_start_near_the_softmax_of_a_trained_model(zipf: str) -> None:
    """After 60 steps, on new text: the divergence of p(class) from the softmax mass, against a random start."""
    backbone = gpt2()
    text = drawn(zipf, rows=64, seed=2)
    text[:, 1::2] = (text[:, ::2] * 7 + 3) % V  # every second token follows from the one before
    train(backbone, text)
    ids = drawn(zipf, seed=3)
    found = {}
    for start in ("softmax", "random"):
        model = nw.attach(copy.deepcopy(backbone), {"head": "f2", "counts": zipf, "start": start}).eval()
        distribution = model.distribution(ids)
        mass, ours = distribution.log_softmax_class_mass(), distribution.log_class_probs()
        found[start] = float((mass.exp() * (mass - ours)).sum(-1).mean())
    print(found)
    assert found["softmax"] < 0.1
    assert found["random"] > 5 * found["softmax"]


@torch.enable_grad()
def train(model: Any, text: Tensor, steps: int = 60) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(steps):
        model(input_ids=text, labels=text).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


@torch.no_grad()
def test_saved_and_loaded_without_the_counts_file(zipf: str, tmp_path: Path) -> None:
    model = nw.attach(gpt2(), {"head": "f2", "counts": zipf})
    ids = drawn(zipf)
    model.save_pretrained(tmp_path / "model")
    Path(zipf).unlink()
    loaded = nw.load(tmp_path / "model")
    assert torch.equal(loaded.distribution(ids).log_probs(), model.distribution(ids).log_probs())
    assert torch.equal(loaded.next_word_head.table.counts, model.next_word_head.table.counts)
    assert loaded.next_word_head.facts() == model.next_word_head.facts()
    assert zipf not in (tmp_path / "model" / "config.json").read_text()
    with pytest.raises(ValueError, match="f2: classes are made"):
        nw.attach(gpt2(), loaded.next_word_head.config)


def test_encoder_decoder(zipf: str) -> None:
    torch.manual_seed(0)
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 2, "num_heads": 2}
    t5 = T5ForConditionalGeneration(T5Config(vocab_size=V, decoder_start_token_id=0, **sizes)).eval()
    model = nw.attach(t5, {"head": "f2", "counts": zipf})
    ids = drawn(zipf, rows=2)
    assert torch.isfinite(model(input_ids=ids, labels=ids).loss)
    assert isinstance(model.distribution(ids, decoder_input_ids=ids), FactorizedDistribution)
    assert model.generate(ids, max_new_tokens=4, do_sample=True).shape[0] == 2


@pytest.mark.slow
def test_trainer_lowers_the_loss_and_resumes(zipf: str, tmp_path: Path) -> None:
    rows = [{"input_ids": row.tolist(), "labels": row.tolist()} for row in drawn(zipf, rows=32)]

    def trained(steps: int, folder: Path, resume: bool = False) -> Any:
        model = nw.attach(gpt2(), {"head": "f2", "counts": zipf})
        arguments = TrainingArguments(
            str(folder), max_steps=steps, save_steps=4, learning_rate=1e-2, lr_scheduler_type="constant",
            logging_steps=1, report_to=[], disable_tqdm=True, use_cpu=True,
        )  # fmt: skip
        trainer = Trainer(model, arguments, train_dataset=rows)
        trainer.train(resume_from_checkpoint=resume)
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        return model, losses

    whole, losses = trained(8, tmp_path / "whole")
    assert losses[-1] < losses[0] - 0.3
    trained(4, tmp_path / "cut")
    resumed, _ = trained(8, tmp_path / "cut", resume=True)
    for name, value in whole.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], value, msg=lambda said, name=name: f"{name}: {said}")


def test_half_precision_trains(zipf: str) -> None:
    model = nw.attach(gpt2().to(torch.bfloat16), {"head": "f2", "counts": zipf})
    ids = drawn(zipf)
    assert model.next_word_head.table.counts.dtype == torch.long
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    assert loss.dtype == torch.float32
    wide = nw.attach(gpt2(), {"head": "f2", "counts": zipf})
    torch.testing.assert_close(loss, wide(input_ids=ids, labels=ids).loss, rtol=0.02, atol=0)


def test_unseen_tokens_are_in_the_last_class(zipf: str, tmp_path: Path) -> None:
    counts = TokenCounts.load(zipf).counts.copy()
    counts[[5, 9, 200]] = 0
    TokenCounts(counts, None, "less").save(tmp_path / "less.npz")
    model = nw.attach(gpt2(), {"head": "f2", "counts": str(tmp_path / "less.npz")})
    table = model.next_word_head.table
    assert (table.token_class[[5, 9, 200]] == len(table.sizes) - 1).all()
    ids = torch.tensor([[5, 9, 200, 5]])
    assert torch.isfinite(model(input_ids=ids, labels=ids).loss)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "count them with 'nextword count'"),
        ({"counts": "nowhere.npz"}, "head.counts: .*nowhere.npz"),
        ({"counts": counts_file(), "division": "eq-freq", "classes": 301}, "classes: must be from 1 to 300"),
        ({"counts": counts_file(), "division": "eq-token"}, "division 'eq-token' needs a number of classes"),
        (
            {"counts": counts_file(), "classes": 4, "division": "mefmax"},
            "division 'mefmax' chooses the number of classes itself",
        ),
        ({"counts": counts_file(), "division": "even"}, "head.division"),
        ({"counts": counts_file(), "classes": 0, "division": "eq-freq"}, "head.classes"),
    ],
)
def test_what_cannot_be_divided_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nw.attach(gpt2(), {"head": "f2", **settings})


def test_counts_of_a_larger_vocabulary_are_refused(tmp_path: Path) -> None:
    TokenCounts(np.ones(V + 1, dtype=np.int64), None, "another").save(tmp_path / "large.npz")
    with pytest.raises(ValueError, match=r"head\.counts"):
        nw.attach(gpt2(), {"head": "f2", "counts": str(tmp_path / "large.npz")})


@torch.no_grad()
def test_new_tokens_join_the_last_class_and_removed_ones_leave(zipf: str, tmp_path: Path) -> None:
    model = nw.attach(gpt2(), {"head": "f2", "counts": zipf})
    ids, before = drawn(zipf), copy.deepcopy(model.next_word_head.table)
    model.resize_token_embeddings(V + 2)
    table = model.next_word_head.table
    assert torch.equal(table.token_class[:V], before.token_class)
    assert (table.token_class[V:] == len(table.sizes) - 1).all()
    torch.testing.assert_close(model.distribution(ids).probs().sum(-1), torch.ones(ids.numel()))
    model.save_pretrained(tmp_path)
    loaded = nw.load(tmp_path)
    assert torch.equal(loaded.distribution(ids).log_probs(), model.distribution(ids).log_probs())
    model.resize_token_embeddings(V)
    assert torch.equal(table.order, before.order)
    assert torch.equal(table.place, before.place)
    assert table.sizes == before.sizes


def test_an_empty_class_is_refused(tmp_path: Path) -> None:
    counts = np.ones(V, dtype=np.int64)
    counts[-1] = 1000
    TokenCounts(counts, None, "one").save(tmp_path / "one.npz")
    model = nw.attach(gpt2(), {"head": "f2", "counts": str(tmp_path / "one.npz"), "division": "eq-freq", "classes": 2})
    with pytest.raises(ValueError, match="class 1 would be empty"):
        model.resize_token_embeddings(V - 1)


@pytest.mark.parametrize("spec", ["f2", "f2:8", "f2:8,eq-token", "f2:3+mi"])
def test_specs_are_written_as_they_are_read(spec: str) -> None:
    assert head_spec(parse_head(spec)) == spec


@pytest.mark.parametrize("spec", ["f2:x", "f2:3,4,5", "f2:4,even", "f2:0"])
def test_senseless_specs_are_refused(spec: str) -> None:
    with pytest.raises(ValueError, match="f2"):
        parse_head(spec)


def test_boundaries_are_those_of_the_division(zipf: str) -> None:
    model = nw.attach(gpt2(), {"head": "f2", "counts": zipf})
    divided = divide(TokenCounts.load(zipf).counts, "mefmax")
    table = model.next_word_head.table
    assert tuple(model.next_word_head.facts()["boundaries"]) == divided.boundaries
    assert np.array_equal(table.token_class, divided.token_class)
    for number, members in enumerate(table.classes().members):
        assert members.tolist() == divided.tokens(number).tolist()
        assert table.place[members].tolist() == list(range(len(members)))


def test_a_table_may_name_a_spec(zipf: str) -> None:
    short = nw.attach(gpt2(), {"head": "f2:8", "counts": zipf}).next_word_head.facts()
    full = nw.attach(gpt2(), {"head": "f2", "division": "eq-freq", "classes": 8, "counts": zipf}).next_word_head.facts()
    assert short == full == nw.attach(gpt2(), {"head": "f2", "classes": 8, "counts": zipf}).next_word_head.facts()
    assert nw.attach(gpt2(), {"head": "f2+mi:2x3", "counts": zipf}).next_word_head.layers == 2
    with pytest.raises(ValueError, match=r"head.classes:.*'f2:8'"):
        parse_head({"head": "f2:8", "classes": 4})


@pytest.mark.parametrize("prior", ["fitted", "softmax"])
def test_with_a_prior_each_class_begins_with_its_probability_in_the_softmax(prior: str) -> None:
    spec = {"head": "f2", "counts": counts_file(), "prior": prior}
    head = nw.attach(tiny("gpt2"), spec).next_word_head
    assert head.config.prior == "softmax"
    assert not head.classes.weight.any()
