"""What the checker says of conditioned models: right ones pass, each planted mistake fails in its own row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
import torch
from torch import Tensor
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel
from typer.testing import CliRunner

import nextword as nw
from nextword.checking.checker import PROPERTIES, CheckReport
from nextword.checking.probe_texts import ProbeWords
from nextword.checking.property import Case
from nextword.checking.readers import Reader
from nextword.cli import app
from nextword.conditioning import Conditioner
from nextword.conditioning import registry as conditioners
from nextword.distribution import SoftmaxDistribution
from nextword.functional.copy_scores import CopyScores
from nextword.heads import Head, HeadConfig
from nextword.heads import registry as heads
from nextword.heads.context import Context
from nextword.model.head_cache.head_cache import DynamicHeadCache
from tests.helpers import planted_conditioners

STEPS = {"cache, token by token", "cache, in chunks", "cache, reordered"}
ROWS = ("auxiliary text", "auxiliary padding")


def spread_out(model: Any) -> Any:
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.data.normal_(0, 0.4)
    return model.eval()


def new_gpt2() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    sizes = {"vocab_size": 40, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}
    return spread_out(GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)))


def new_bert(positions: int = 64) -> BertModel:
    torch.manual_seed(1)
    sizes = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    return spread_out(BertModel(BertConfig(vocab_size=30, max_position_embeddings=positions, **sizes)))


def conditioned(conditioner: str | dict[str, Any], head: str = "softmax", positions: int = 64) -> Any:
    return nw.attach(new_gpt2(), head, conditioner=conditioner, encoder=new_bert(positions))


def failed(report: CheckReport) -> set[str]:
    return {row.name for row in report.failures}


def rows_of(report: CheckReport) -> dict[str, Any]:
    return {row.name: row for row in report.rows if row.name in ROWS}


@pytest.fixture
def plant() -> Iterator[Callable[..., CheckReport]]:
    """Checks a model with this conditioner."""
    entries = dict(conditioners._entries)

    def check(kind: type[Conditioner], head: str = "softmax", start: str = "random") -> CheckReport:
        conditioners.register("planted")(kind)
        return nw.check(conditioned({"conditioner": "planted", "start": start}, head), lengths=[4])

    yield check
    conditioners._entries = entries
    assert "planted" not in conditioners


class PlantedHeadConfig(HeadConfig):
    head: Literal["planted"] = "planted"


@pytest.fixture
def plant_head(plant: Callable[..., CheckReport]) -> Iterator[Callable[..., CheckReport]]:
    """Checks a right conditioner with a head that makes its distribution of the copied words by a function."""
    entries = dict(heads._entries)

    def check(make: Callable[[Context], SoftmaxDistribution], start: str = "unchanged") -> CheckReport:
        @heads.register("planted")
        class PlantedHead(Head):
            Config = PlantedHeadConfig
            modes: ClassVar[tuple[str, ...]] = ("joint",)
            reads_source = True  # type: ignore[assignment]

            def forward(self, context: Context, mode: str | None = None) -> SoftmaxDistribution:
                return make(context)

        return plant(planted_conditioners.Right, "planted", start)

    yield check
    heads._entries = entries


def copying(context: Context, *, masked: bool = True) -> SoftmaxDistribution:
    """A word of the auxiliary text is as likely as its state is like the decoder's."""
    source = context.source
    assert source is not None
    visible = source.valid if masked else torch.ones_like(source.valid)
    scores = context.similarities(context.states[:, : source.states.shape[-1]], source.states)
    return SoftmaxDistribution(
        context.vocabulary,
        context.states,
        stored={"copied": CopyScores(source.ids, context.row, scores, visible[context.row])},
    )


# -- what is right passes


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("conditioner", "head"),
    [
        ("lmh:published", "softmax"),
        ("lmh:max,published", "softmax+ce"),
        ("dau:published", "pg"),
        ("dau:max,published", "cache:published"),
        ("bergpt:published", "softmax+ce"),
        ("bergpt:2,start=random", "softmax"),
        ("prefix:2", "pg"),
    ],
)
def test_every_conditioner_passes_and_so_does_every_kind_of_head(conditioner: str, head: str) -> None:
    report = nw.check(conditioned(conditioner, head), lengths=[4])
    report.raise_if_failed()
    assert [row.verdict for row in rows_of(report).values()] == ["passed", "passed"]
    assert report.title == f"{head} with {conditioner} on GPT2LMHeadModel in float32"
    (source,) = (row for row in report.rows if row.name == "source padding")
    assert source.where == "auxiliary padding is tested separately"


@pytest.mark.slow
def test_the_toys_are_right(plant: Callable[..., CheckReport], plant_head: Callable[..., CheckReport]) -> None:
    plant(planted_conditioners.Right).raise_if_failed()
    plant_head(copying).raise_if_failed()
    plant_head(copying, "random").raise_if_failed()


@pytest.mark.slow
def test_a_saved_model_is_as_it_was(tmp_path: Path) -> None:
    model = conditioned({"conditioner": "bergpt", "start": "random"}, "pg")
    model.save_pretrained(tmp_path)
    assert nw.check(nw.load(tmp_path), lengths=[4]) == nw.check(model, lengths=[4])
    told = CliRunner().invoke(app, ["check", str(tmp_path)])
    assert told.exit_code == 0, told.output
    assert "pg with bergpt:start=random on GPT2LMHeadModel" in told.output
    assert re.search(r"auxiliary text +passed", told.output)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions_pass(dtype: torch.dtype) -> None:
    for conditioner in ("lmh:max", "bergpt:2"):
        nw.check(conditioned({"conditioner": conditioner, "start": "random"}).to(dtype), lengths=[4]).raise_if_failed()


def test_other_models_have_nothing_to_check() -> None:
    report = nw.check(nw.attach(new_gpt2(), "softmax"), lengths=[3])
    assert {row.where for row in rows_of(report).values()} == {"the model has no conditioner"}
    assert report.title == "softmax on GPT2LMHeadModel in float32"


def test_a_conditioner_that_adds_nothing_yet_need_not_be_heard() -> None:
    rows = rows_of(nw.check(conditioned("dau"), lengths=[4]))
    assert rows["auxiliary text"].verdict == "not checked"
    assert (
        rows["auxiliary text"].where
        == "the conditioner has no effect before training; train it, or use start = 'random'"
    )
    assert rows["auxiliary padding"].verdict == "passed"


@pytest.mark.few(1)
@pytest.mark.parametrize("head", ["pg", "copynet", "ps", "softmax+e"])
def test_a_copying_head_hears_the_text_by_itself(head: str) -> None:
    rows = rows_of(nw.check(conditioned("dau", head), lengths=[4]))
    assert rows["auxiliary text"].verdict == "passed"
    assert "words to copy" in rows["auxiliary text"].where


def test_given_texts_have_auxiliary_texts_too() -> None:
    report = nw.check(conditioned({"conditioner": "lmh", "start": "random"}, "pg"), [[3, 7, 5], [9]], lengths=[2])
    report.raise_if_failed()
    assert any("the given text" in row.where for row in report.rows)


@pytest.mark.slow
def test_places_of_both_models_are_kept_to() -> None:
    model = conditioned("prefix:8", positions=12)
    nw.check(model, [list(range(3, 39)) * 2], lengths=[1]).raise_if_failed()


# -- what a sample holds


def test_auxiliary_texts_have_lengths_of_their_own_and_ordinary_tokens() -> None:
    words = ProbeWords.of_model(conditioned("dau", "pg"), seed=0)
    sample = words.random_sample(17)
    assert sample.auxiliary is not None
    lengths = [len(text.ids) for text in sample.auxiliary]
    assert len({*lengths, *(len(row) for row in sample.rows)}) == 6
    every = torch.cat([text.ids for text in sample.auxiliary])
    assert 0 not in every  # BERT's padding
    assert any(len(text.ids.unique()) < len(text.ids) for text in sample.auxiliary)
    for text in sample.auxiliary:
        assert text.words is not None
        assert len(text.words.ids) == len(text.words.positions) != len(text.ids)
        assert int(text.words.positions.max()) < len(text.ids)
        assert 0 not in text.words.ids  # GPT-2's end of text
        assert words.auxiliary is not None
        other = words.auxiliary.other(text)
        assert other.words is not None
        assert not set(text.ids.tolist()) & set(other.ids.tolist())
        assert not set(text.words.ids.tolist()) & set(other.words.ids.tolist())


def test_a_batch_pads_and_selects_them() -> None:
    sample = ProbeWords.of_model(conditioned("dau", "pg"), seed=0).random_sample(6)
    batch = sample.batch("left", source_extra=2)
    assert batch.aux_ids is not None
    assert batch.aux_mask is not None
    assert batch.source_positions is not None
    assert batch.source_mask is not None
    assert not batch.aux_mask[:, -2:].any()
    assert torch.equal(batch.source_positions >= 0, batch.source_mask)
    swapped = batch.select(torch.tensor([2, 0, 1]))
    assert swapped.aux_ids is not None
    assert torch.equal(swapped.aux_ids[1], batch.aux_ids[0])
    assert ProbeWords.of_model(conditioned("dau"), seed=0).random_sample(6).batch().source_ids is None


# -- planted mistakes


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        (planted_conditioners.Deaf, {"auxiliary text"}),
        (planted_conditioners.DeafToMost, {"auxiliary text"}),
        # alone, a sequence has less padding
        (planted_conditioners.MeanOverPadding, {"auxiliary padding", "other sequences"}),
        (planted_conditioners.MaxOverPadding, {"auxiliary padding", "other sequences"}),
        (planted_conditioners.LastColumn, {"auxiliary padding", "other sequences"}),
        # another order has other neighbours, and one text everywhere another mean
        (planted_conditioners.MeanOverBatch, {"other sequences", "cache, reordered"}),
        (planted_conditioners.Neighbour, {"other sequences", "cache, reordered"}),
        (planted_conditioners.StaysBehind, {"cache, reordered"}),
    ],
)
def test_planted_mistake_fails_in_its_row(
    kind: type[Conditioner], rows: set[str], plant: Callable[..., CheckReport]
) -> None:
    assert failed(plant(kind)) == rows


def test_leak_of_a_text_is_told_from_a_leak_of_the_sequence() -> None:
    """The other sequences stay as they are; only their auxiliary texts are exchanged."""
    model = conditioned({"conditioner": "dau", "start": "random"})
    leak = model.conditioner.read
    model.conditioner.read = lambda states, valid: leak(states + 0.1 * states.roll(1, 0), valid)
    (one,) = (one for one in PROPERTIES if one.name == "other sequences")
    words = ProbeWords.of_model(model.eval(), seed=0)
    with torch.no_grad():
        measured = one.measure(Reader(model, "joint"), Case(model, words, words.random_sample(6)))
        found = {deviation.variant: deviation.value for deviation in measured}
    for row in range(3):
        assert found[f"all auxiliary texts but that of sequence {row} changed"] > 1e-4
        assert found[f"all but sequence {row} changed"] == 0


@pytest.mark.slow
def test_dropout_in_evaluation_is_found(plant: Callable[..., CheckReport]) -> None:
    assert {"same twice", "auxiliary padding"} <= failed(plant(planted_conditioners.Restless))


@pytest.mark.slow
def test_history_that_stays_behind_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    model = conditioned({"conditioner": "lmh", "start": "random"})
    assert nw.check(model, lengths=[4]).passed
    monkeypatch.setattr(DynamicHeadCache, "reorder", lambda self, index: None)
    assert failed(nw.check(model, lengths=[4])) == {"cache, reordered"}


def test_history_that_forgets_the_text_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    of_source = DynamicHeadCache.of_source

    def forgetful(self: DynamicHeadCache, make: Any, virtual: int = 0) -> dict[str, Tensor]:
        again, kept = self.knows_source, of_source(self, make, virtual)
        return {name: torch.zeros_like(thing) if again else thing for name, thing in kept.items()}

    model = conditioned({"conditioner": "lmh", "start": "random"})
    monkeypatch.setattr(DynamicHeadCache, "of_source", forgetful)
    assert failed(nw.check(model, lengths=[4])) == STEPS


@pytest.mark.slow
def test_padding_of_the_copied_words_is_found(plant_head: Callable[..., CheckReport]) -> None:
    found = failed(plant_head(lambda context: copying(context, masked=False)))
    # alone, a sequence has less padding
    assert found == {"auxiliary padding", "padding contents", "other sequences"}


@pytest.mark.few(1)
@pytest.mark.parametrize("start", ["unchanged", "random"])
def test_a_head_that_does_not_copy_what_it_reads_is_found(start: str, plant_head: Callable[..., CheckReport]) -> None:
    report = plant_head(lambda context: SoftmaxDistribution(context.vocabulary, context.states), start)
    assert failed(report) == {"auxiliary text"}
    assert "other words to copy" in rows_of(report)["auxiliary text"].where


@pytest.mark.slow
def test_copying_from_another_sequence_is_found(plant_head: Callable[..., CheckReport]) -> None:
    def make(context: Context) -> SoftmaxDistribution:
        assert context.source is not None
        other: Tensor = context.source.ids.roll(1, 0)
        return copying(replace(context, source=replace(context.source, ids=other)))

    assert "other sequences" in failed(plant_head(make))


@pytest.mark.slow
def test_frozen_encoder_in_training_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its dropout would give a text another encoding each time."""
    model = conditioned({"conditioner": "dau", "start": "random"})
    monkeypatch.setattr(model.auxiliary_encoder, "eval", lambda: model.auxiliary_encoder)
    monkeypatch.setattr(model.auxiliary_encoder, "train", lambda mode=True: model.auxiliary_encoder)
    for module in model.auxiliary_encoder.modules():
        module.training = True
    assert {"same twice", "auxiliary padding"} <= failed(nw.check(model, lengths=[4]))
