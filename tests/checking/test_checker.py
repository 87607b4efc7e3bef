"""The checker passes what is right, and each planted mistake fails in its own row."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar, Literal

import pytest
import torch
from rich.console import Console
from torch import Tensor
from transformers import BartForConditionalGeneration, GPT2Config, GPT2LMHeadModel

import nextword as nw
from nextword.checking.checker import PROPERTIES, CheckFailedError, CheckReport
from nextword.distribution import NextToken, SoftmaxDistribution
from nextword.functional.copy_scores import CopyScores
from nextword.heads import Head, HeadConfig, registry
from nextword.heads.context import Context
from nextword.model.head_cache.head_cache import DynamicHeadCache
from tests.helpers import planted

STEPS = {"cache, token by token", "cache, in chunks", "cache, reordered"}


# -- toy heads, each wrong in one thing


class PlantedConfig(HeadConfig):
    head: Literal["planted"] = "planted"


Make = Callable[[Context], NextToken]


@pytest.fixture
def plant(backbone: GPT2LMHeadModel) -> Iterator[Callable[..., CheckReport]]:
    """Checks a model whose head makes its distribution by a given function."""
    entries = dict(registry._entries)

    def check(make: Make, on: Any = backbone) -> CheckReport:
        @registry.register("planted")
        class PlantedHead(Head):
            Config = PlantedConfig
            modes: ClassVar[tuple[str, ...]] = ("joint",)
            remembers = not on.config.is_encoder_decoder  # type: ignore[assignment]
            reads_source = on.config.is_encoder_decoder  # type: ignore[assignment]

            def streams(self, states: Tensor, layers: tuple[Tensor, ...]) -> dict[str, Tensor]:
                return {"keys": states}

            def forward(self, context: Context, mode: str | None = None) -> NextToken:
                return make(context)

        return nw.check(nw.attach(on, "planted"), lengths=[4])

    yield check
    registry._entries = entries
    assert "planted" not in registry


def failed(report: CheckReport) -> set[str]:
    return {row.name for row in report.failures}


def cached(context: Context, ahead: int = 0, *, masked: bool = True) -> CopyScores:
    """A token is likelier where it stood before; visible up to ``ahead`` places after the position."""
    memory = context.memory
    assert memory is not None
    place = torch.arange(memory.ids.shape[1])
    valid = memory.valid if masked else torch.ones_like(memory.valid)
    visible = valid[context.row] & (place <= context.position[:, None] + ahead)
    return CopyScores(memory.ids, context.row, context.similarities(context.states, memory.streams["keys"]), visible)


def right(context: Context) -> SoftmaxDistribution:
    return SoftmaxDistribution(context.vocabulary, context.states, stored={"cache": cached(context)})


def test_the_toy_head_is_right(plant: Callable[..., CheckReport]) -> None:
    plant(right).raise_if_failed()


def of(kind: type[SoftmaxDistribution]) -> Make:
    return lambda context: kind(context.vocabulary, context.states)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        (planted.Unnormalised, {"sums to one", "logits"}),
        (planted.TooMuch, {"sums to one", "logits", "finite", "entropy"}),
        (planted.HiddenZero, {"log_prob"}),
        (planted.HiddenZeroInTraining, {"log_prob"}),
        (planted.LostSource, {"sources"}),
        (planted.NegativeSource, {"sources"}),
        (planted.NotANumber, {"sums to one", "finite", "logits", "sources"}),
        (planted.WrongEntropy, {"entropy"}),
        (planted.WrongTop, {"top_k"}),
    ],
)
def test_wrong_answer_fails_in_its_row(
    kind: type[SoftmaxDistribution], rows: set[str], plant: Callable[..., CheckReport]
) -> None:
    report = plant(of(kind))
    assert not report.passed
    # what is no distribution has no entropy that could be right
    assert failed(report) - {"entropy"} == rows - {"entropy"}


@pytest.mark.slow
def test_wrong_place_is_found(plant: Callable[..., CheckReport]) -> None:
    def make(context: Context) -> SoftmaxDistribution:
        return planted.PlaceBeside(context.vocabulary, context.states, stored={"cache": cached(context)})

    assert failed(plant(make)) == {"positions"}


@pytest.mark.slow
def test_dependence_on_chunks_is_found(plant: Callable[..., CheckReport]) -> None:
    assert "chunks" in failed(plant(of(planted.SumsOverRows)))


@pytest.mark.slow
def test_dropout_in_evaluation_is_found(plant: Callable[..., CheckReport]) -> None:
    found = failed(plant(of(planted.Dropped)))
    assert "same twice" in found
    assert not found & {"sums to one", "finite"}


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [1, 3])
def test_look_ahead_is_found(ahead: int, plant: Callable[..., CheckReport]) -> None:
    def make(context: Context) -> SoftmaxDistribution:
        return SoftmaxDistribution(context.vocabulary, context.states, stored={"cache": cached(context, ahead)})

    # in steps with a KV cache there is nothing ahead to look at, so these differ too
    assert failed(plant(make)) == {"future"} | STEPS


@pytest.mark.slow
def test_leak_from_the_next_sequence_is_found(plant: Callable[..., CheckReport]) -> None:
    def make(context: Context) -> SoftmaxDistribution:
        other = (context.row + 1) % context.layout.batch_size
        return SoftmaxDistribution(
            context.vocabulary, context.states, stored={"cache": replace(cached(context), row=other)}
        )

    found = failed(plant(make))
    assert "other sequences" in found
    # padding shifts places, a reordering or a packed row gives another neighbour, and it is not the text that was asked
    assert found <= {"other sequences", "padding", "padding contents", "packed rows", "cache, reordered", "positions"}


@pytest.mark.slow
def test_leak_of_a_mean_over_the_batch_is_found(plant: Callable[..., CheckReport]) -> None:
    def make(context: Context) -> SoftmaxDistribution:
        mean = torch.stack([context.states[context.position == place].mean(0) for place in context.position.tolist()])
        return SoftmaxDistribution(context.vocabulary, context.states + 0.1 * mean)

    found = failed(plant(make))
    assert "other sequences" in found
    assert not found & {"sums to one", "finite", "log_prob", "sources", "same twice"}


@pytest.mark.slow
def test_padding_in_memory_is_found(plant: Callable[..., CheckReport]) -> None:
    def make(context: Context) -> SoftmaxDistribution:
        return SoftmaxDistribution(context.vocabulary, context.states, stored={"cache": cached(context, masked=False)})

    found = failed(plant(make))
    assert found == {"padding", "padding contents"}


@pytest.mark.slow
def test_a_row_with_nothing_to_measure_is_not_called_passed(backbone: GPT2LMHeadModel) -> None:
    for spec, verdict in {"softmax": "not checked", "cache": "passed"}.items():
        (row,) = (row for row in nw.check(nw.attach(copy.deepcopy(backbone), spec)).rows if row.name == "positions")
        assert row.verdict == verdict
        assert (row.where == "no component of this head attributes probability to positions") is (spec == "softmax")


def test_places_counted_from_the_padding_are_found(plant: Callable[..., CheckReport]) -> None:
    def make(context: Context) -> SoftmaxDistribution:
        return SoftmaxDistribution(context.vocabulary, context.states * (1 + 0.1 * context.position[:, None]))

    assert failed(plant(make)) == {"padding"}


@pytest.mark.slow
def test_history_that_forgets_is_found(backbone: GPT2LMHeadModel, monkeypatch: pytest.MonkeyPatch) -> None:
    append = DynamicHeadCache.append

    def forgetful(self: DynamicHeadCache, *new: Any) -> Any:
        memory, past = append(self, *new)
        kept = memory.valid.clone()
        kept[:, :past] = False
        return replace(memory, valid=kept), past

    model = nw.attach(backbone, "cache")
    assert nw.check(model, lengths=[4]).passed
    monkeypatch.setattr(DynamicHeadCache, "append", forgetful)
    assert failed(nw.check(model, lengths=[4])) == STEPS


@pytest.mark.slow
def test_history_that_stays_behind_is_found(backbone: GPT2LMHeadModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beam search moves the keys and values; what the head remembers stays with the wrong sequence."""
    monkeypatch.setattr(DynamicHeadCache, "reorder", lambda self, index: None)
    assert failed(nw.check(nw.attach(backbone, "softmax"), lengths=[4])) == set()
    assert failed(nw.check(nw.attach(backbone, "cache"), lengths=[4])) == {"cache, reordered"}


@pytest.mark.slow
def test_mode_of_its_own_is_checked_too(backbone: GPT2LMHeadModel, monkeypatch: pytest.MonkeyPatch) -> None:
    from nextword.distribution import CacheDistribution

    honest = CacheDistribution._log_probs
    monkeypatch.setattr(CacheDistribution, "_log_probs", lambda self: honest(self) - 0.01)
    report = nw.check(nw.attach(backbone, "cache"), lengths=[4])
    (row,) = [row for row in report.rows if row.name == "sums to one"]
    assert not row.passed
    assert "mode cache_only" in row.where


@pytest.mark.slow
def test_padding_of_the_source_in_memory_is_found(
    bart: BartForConditionalGeneration, plant: Callable[..., CheckReport]
) -> None:
    def make(context: Context, *, masked: bool = True) -> SoftmaxDistribution:
        source = context.source
        assert source is not None
        visible = source.valid[context.row] if masked else torch.ones_like(source.valid)[context.row]
        entries = CopyScores(source.ids, context.row, context.similarities(context.states, source.states), visible)
        return SoftmaxDistribution(context.vocabulary, context.states, stored={"source": entries})

    assert failed(plant(make, bart)) == set()
    found = failed(plant(lambda context: make(context, masked=False), bart))
    # a shorter batch, or one without the others, has less padding
    assert {"source padding", "padding contents"} <= found <= {"source padding", "padding contents", "other sequences"}


def test_exception_is_a_finding_with_its_cause(plant: Callable[..., CheckReport]) -> None:
    class Refusing(planted.Planted):
        def _log_sources(self, ids: Tensor) -> dict[str, Tensor]:
            raise KeyError("no such source")

    report = plant(of(Refusing))
    # shares are asked for at padding, in chunks and of all tokens as well
    assert failed(report) == {"sources", "chunks", "padding contents", "positions"}
    with pytest.raises(CheckFailedError, match=r"sources:.*such source'") as caught:
        report.raise_if_failed()
    assert isinstance(caught.value.__cause__, KeyError)
    assert str(caught.value).count("no such source") == 1


# -- what check leaves behind, takes and refuses


@pytest.mark.slow
def test_nothing_is_changed(backbone: GPT2LMHeadModel) -> None:
    model = nw.attach(copy.deepcopy(backbone), "cache")
    model.train()
    model.backbone.transformer.h[0].eval()
    training = [module.training for module in model.modules()]
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    assert nw.check(model, lengths=[4]).passed
    assert [module.training for module in model.modules()] == training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert torch.is_grad_enabled()


def test_training_mode_comes_back_after_an_error(backbone: GPT2LMHeadModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    model = nw.attach(copy.deepcopy(backbone), "softmax").train()
    monkeypatch.setattr(model.backbone, "forward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        nw.check(model)
    assert all(module.training for module in model.modules())


@pytest.mark.slow
def test_same_seed_same_report(backbone: GPT2LMHeadModel) -> None:
    model = nw.attach(backbone, "cache")
    first, second = (nw.check(model, lengths=[4], seed=3) for _ in range(2))
    assert first == second


@pytest.mark.slow
@pytest.mark.parametrize("given", [[[3, 7, 5, 7, 9], [3, 7]], torch.tensor([[3, 7, 5, 7, 9]])])
def test_given_ids_are_checked(given: Any, backbone: GPT2LMHeadModel) -> None:
    report = nw.check(nw.attach(backbone, "cache"), given, lengths=[2])
    assert report.passed
    assert any("the given text" in row.where for row in report.rows)


@pytest.mark.slow
def test_given_texts_are_checked(backbone: GPT2LMHeadModel) -> None:
    class Letters:
        def __call__(self, text: str) -> Any:
            return type("Encoding", (), {"input_ids": [ord(letter) % 40 for letter in text]})

    model = nw.attach(backbone, "cache")
    assert nw.check(model, ["to be or not to be", "x"], tokenizer=Letters(), lengths=[2], max_length=9).passed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"texts_or_ids": ["a text"]}, "must have a tokenizer for texts"),
        ({"texts_or_ids": []}, r"texts must be at least one \(none given\)"),
        ({"texts_or_ids": [[3], []]}, r"text 1 must be one or more token ids \(shape \(0,\) given\)"),
        ({"texts_or_ids": [[3, 40]]}, "must have token ids below 40"),
        ({"texts_or_ids": [[-1]]}, "must have token ids below"),
        ({"lengths": []}, r"lengths must be one or more positive numbers \(\[\] given\)"),
        ({"lengths": [0, 3]}, r"lengths must be one or more positive numbers \(\[0, 3\] given\)"),
    ],
)
def test_bad_input_is_refused(arguments: dict[str, Any], message: str, backbone: GPT2LMHeadModel) -> None:
    with pytest.raises(ValueError, match=message):
        nw.check(nw.attach(backbone, "softmax"), **arguments)


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(ValueError, match=r"transformers.*\(function given"):
        nw.check(lambda prefixes: prefixes)


def sees_one_ahead(context: Context) -> SoftmaxDistribution:
    return SoftmaxDistribution(context.vocabulary, context.states, stored={"cache": cached(context, 1)})


@pytest.mark.few(1)
@pytest.mark.parametrize(("make", "length"), [(of(planted.Unnormalised), 1), (sees_one_ahead, 2)])
def test_the_smallest_input_that_shows_a_fault_is_found(
    make: Make, length: int, plant: Callable[..., CheckReport]
) -> None:
    found = plant(make).findings[0]
    assert found.fault == ("sum" if length == 1 else "future")
    assert [len(text) for text in found.texts] == [length]


@pytest.mark.slow
def test_a_failure_is_a_finding_by_name(plant: Callable[..., CheckReport]) -> None:
    found = plant(sees_one_ahead)
    assert "future" in {one.fault for one in found.findings}
    assert all(one.texts and one.sentence for one in found.findings)
    assert found.exit_code == 1


@pytest.mark.slow
def test_lengths_stay_within_the_models_positions() -> None:
    config = GPT2Config(vocab_size=40, n_embd=16, n_layer=1, n_head=2, n_positions=8, bos_token_id=0, eos_token_id=0)
    torch.manual_seed(0)
    model = nw.attach(GPT2LMHeadModel(config), "cache")
    nw.check(model, [list(range(3, 30))], lengths=[1, 50]).raise_if_failed()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_tolerance_follows_the_precision(dtype: torch.dtype, backbone: GPT2LMHeadModel) -> None:
    report = nw.check(nw.attach(copy.deepcopy(backbone).to(dtype), "cache"), lengths=[4])
    report.raise_if_failed()
    tolerances = {row.name: row.tolerance for row in report.rows}
    assert tolerances["sums to one"] == (1e-10 if dtype == torch.float64 else 1e-5)
    assert tolerances["future"] >= (1e-10 if dtype == torch.float64 else 1e-2)
    assert report.dtype == str(dtype).removeprefix("torch.")


# -- the report


def test_report_reads_as_text_and_as_a_table(backbone: GPT2LMHeadModel, plant: Callable[..., CheckReport]) -> None:
    good, bad = nw.check(nw.attach(backbone, "mos:2"), lengths=[3]), plant(of(planted.Unnormalised))
    assert len(good.rows) == len(PROPERTIES)
    for report in (good, bad):
        console = Console(width=200, record=True, file=io.StringIO())
        console.print(report)
        for shown in (str(report), console.export_text()):
            assert all(row.name in shown for row in report.rows)
            assert "not checked" in shown
            assert ("FAILED" in shown) == (not report.passed)
    assert good.title == "mos:2 on GPT2LMHeadModel in float32"
    assert "Check the head's normaliser" in str(bad)
    good.raise_if_failed()
    with pytest.raises(CheckFailedError, match=r"(?s)deviation"):
        bad.raise_if_failed()


def test_every_property_says_what_it_means_and_what_to_look_at() -> None:
    assert len({one.name for one in PROPERTIES}) == len(PROPERTIES)
    assert all(one.meaning and one.look_at.startswith(("Look", "Check", "Training")) for one in PROPERTIES)


@pytest.mark.parametrize("ours", [True, False])
def test_weights_that_are_no_numbers_are_named_and_no_part_of_the_head(backbone: GPT2LMHeadModel, ours: bool) -> None:
    backbone = copy.deepcopy(backbone)
    with torch.no_grad():
        backbone.transformer.h[0].mlp.c_fc.weight[0, 0] = torch.nan
    report = nw.check(nw.attach(backbone, "cache") if ours else backbone, lengths=[3])
    failed = {row.name: row for row in report.failures}
    assert "finite" in failed
    assert {row.look_at for row in failed.values()} == {failed["finite"].look_at}
    assert "mlp.c_fc.weight are not finite numbers" in failed["finite"].explain()
