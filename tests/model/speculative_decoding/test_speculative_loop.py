"""With drafts ``generate`` writes what it writes without, in fewer passes; drawn texts follow the same distribution."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor
from transformers import LogitsProcessor, LogitsProcessorList
from transformers.cache_utils import DynamicSlidingWindowLayer

import nextword as nw
from nextword.distribution import FactorizedDistribution
from nextword.model.speculative_decoding.drafter import Decided, Draft, Drafter, KnownText
from nextword.model.speculative_decoding.speculative_decoding import FixedLength
from nextword.model.speculative_decoding.speculative_loop import SpeculativeLoop
from tests.helpers.conditioned_generating_models import auxiliary, model_of
from tests.helpers.generating_models import DECODERS, ENCODER_DECODERS, HYBRIDS, headed, left_padded, pairs, prompt
from tests.helpers.recomputation import assert_as_recomputed, generated

LONG = 20
COPIES = {
    "cache", "source cache", "softmax+c", "softmax+cpr:3,8+mi", "mos:2+p", "copynet", "pg", "pg+mi", "ps+mi",
    "softmax+cepr:3+mi",
}  # fmt: skip
"""Heads with places."""
ALL = {**DECODERS, **ENCODER_DECODERS}


def repeating(rows: int) -> Tensor:
    return prompt(rows).repeat(1, 2)


@cache
def copying(family: str, head: str) -> nw.NextWordModel:
    """A model that writes tokens of its source; ``pg+mi``, which points at nothing else, must be made to copy."""
    model = headed(family, head)
    if head != "pg+mi":
        return model
    model = deepcopy(model)
    with torch.no_grad():
        model.next_word_head.gate.bias.fill_(-8.0)
    return model


@pytest.mark.few(4)
@pytest.mark.parametrize(("family", "head"), pairs(ALL))
@pytest.mark.parametrize("rows", [1, 3])
def test_greedy_texts_are_the_same(family: str, head: str, rows: int) -> None:
    """Every head that copies by its places, every head by a lookup; a batch accepts unequally many tokens."""
    model, ids = copying(family, head), repeating(rows)
    plain = model.generate(ids, max_new_tokens=LONG).tolist()
    for by in ["prompt", *(["head"] if head in COPIES else [])]:
        decoding = nw.SpeculativeDecoding(by, FixedLength(4))
        assert model.generate(ids, max_new_tokens=LONG, draft=decoding).tolist() == plain
        assert decoding.tokens == rows * LONG
        assert decoding.verified, "nothing was drafted, so nothing was tested"


@pytest.mark.parametrize(("family", "head"), [("gpt2", "cache"), ("t5", "softmax+cepr:3+mi"), ("gpt2", "ps+mi")])
def test_batch_accepts_unequally(family: str, head: str) -> None:
    model, ids = headed(family, head), repeating(3)
    decoding = nw.SpeculativeDecoding("head", FixedLength(4))
    model.generate(ids, max_new_tokens=LONG, draft=decoding)
    accepted = [sum(one.accepted for one in decoding.verified if one.row == row) for row in range(3)]
    assert len(set(accepted)) > 1
    assert decoding.tokens_per_pass > 1.2


@pytest.mark.few(1)
@pytest.mark.parametrize("head", ["cache", "softmax+cpr:3,8+mi", "pg"])
def test_padded_prompts(head: str) -> None:
    model = headed("gpt2", head)
    ids, mask = left_padded(repeating(3), [0, 5, 2])
    plain = model.generate(ids, attention_mask=mask, max_new_tokens=LONG)
    for eos in (None, int(plain[1, -7])):  # without an end, and with rows that end apart
        settings = {"attention_mask": mask, "max_new_tokens": LONG, "eos_token_id": eos}
        expected = model.generate(ids, **settings).tolist()
        assert (
            model.generate(ids, draft=nw.SpeculativeDecoding("head", FixedLength(3)), **settings).tolist() == expected
        )


@pytest.mark.parametrize("family", sorted(set(HYBRIDS) - {"lfm2"}))  # its short convolutions are cropped
def test_states_that_cannot_go_back_are_refused(family: str) -> None:
    with pytest.raises(ValueError, match="cannot be removed"):
        headed(family, "cache").generate(repeating(1), max_new_tokens=4, draft="head")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("family", "conditioner", "head"),
    [("gpt2", "dau", "softmax+ce"), ("gpt2", "lmh", "cache"), ("gpt2", "prefix:3", "cache"), ("gpt2", "bergpt", "pg")],
)
@pytest.mark.parametrize("rows", [1, 3])
def test_conditioned(family: str, conditioner: str, head: str, rows: int) -> None:
    model = model_of(family, conditioner, head)
    given, ids = auxiliary(model, rows), repeating(rows)
    plain = model.generate(ids, max_new_tokens=LONG, **given).tolist()
    decoding = nw.SpeculativeDecoding("head", FixedLength(4))
    assert model.generate(ids, max_new_tokens=LONG, draft=decoding, **given).tolist() == plain
    assert decoding.verified


RULES: dict[str, dict[str, Any]] = {
    "repetition": {"repetition_penalty": 1.4, "no_repeat_ngram_size": 3},
    "least length": {"min_new_tokens": 9, "eos_token_id": 7},
    "sampled": {"do_sample": True, "top_k": 6, "top_p": 0.9, "temperature": 0.8, "repetition_penalty": 1.1},
}


@pytest.mark.slow
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@pytest.mark.parametrize("head", ["cache", "softmax+cpr:3,8+mi"])
def test_rules_of_generation_see_every_word(rules: dict[str, Any], head: str) -> None:
    """With the same numbers, sampling writes the same text whatever is drafted."""
    model, ids = headed("gpt2", head), repeating(2)
    numbers = torch.rand(2, LONG, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def written(longest: int) -> list[list[int]]:
        loop = SpeculativeLoop(nw.SpeculativeDecoding("head", FixedLength(longest)), numbers)
        out: list[list[int]] = model.generate(ids, max_new_tokens=LONG, custom_generate=loop, **rules).tolist()
        return out

    assert written(1) == written(6)
    if not rules.get("do_sample"):
        assert written(6) == model.generate(ids, max_new_tokens=LONG, **rules).tolist()


def test_seed_gives_the_same_text_whatever_is_drafted() -> None:
    model, ids = headed("gpt2", "cache"), repeating(2)
    texts = []
    for longest in (1, 3, 6):
        torch.manual_seed(5)
        decoding = nw.SpeculativeDecoding("head", FixedLength(longest))
        texts.append(model.generate(ids, max_new_tokens=LONG, do_sample=True, draft=decoding).tolist())
    assert texts[0] == texts[1] == texts[2]


PROCESSED = {"top_k": 5, "temperature": 2.0}
PENALISED = {"top_k": 6, "repetition_penalty": 1.5}
DRAWN = [
    ("ps+mi", PROCESSED),
    ("cache", PENALISED),
    ("f2 decoupled", {"top_k": 0}),  # no processor: only what decides is asked for
    *(pytest.param(head, PROCESSED, marks=pytest.mark.slow) for head in ("cache", "f2 decoupled")),
    *(pytest.param(head, PENALISED, marks=pytest.mark.slow) for head in ("ps+mi", "f2 decoupled")),
    *(pytest.param(head, {"top_k": 0}, marks=pytest.mark.slow) for head in ("cache", "f2")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("head", "rules"), DRAWN)
def test_drawn_texts_follow_the_same_distribution(head: str, rules: dict[str, Any]) -> None:
    """Chi-squared of the second and third new token, 1000 texts with drafts against 1000 without.

    False alarm 1e-4 for each case. Both tokens stand behind drafts that were accepted and that were refused; pairs
    of tokens that came less than 20 times are counted together.
    """
    model, ids = headed("gpt2", head), prompt(1).repeat(1, 2)
    torch.manual_seed(11)
    by = "head"
    if head.startswith("f2"):
        by = AlwaysRight(model.generate(ids, max_new_tokens=3, do_sample=True, **rules)[0].tolist())
    assert_same_distribution(model, ids, by, rules)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("conditioner", "head"), [("lmh", "cache:published"), pytest.param("bergpt", "pg", marks=pytest.mark.slow)]
)
def test_drawn_texts_of_conditioned_models_follow_the_same_distribution(conditioner: str, head: str) -> None:
    """As above."""
    model = model_of("gpt2", conditioner, head)
    torch.manual_seed(11)
    assert_same_distribution(model, prompt(1).repeat(1, 2), "head", PROCESSED, auxiliary(model, 1))


def assert_same_distribution(
    model: Any, ids: Tensor, by: Any, rules: dict[str, Any], given: dict[str, Tensor] | None = None
) -> None:
    """What is drawn with drafts, of which some tokens are accepted and some not, is what is drawn without."""
    draws, decoding = 1000, nw.SpeculativeDecoding(by, FixedLength(4))
    repeated = {name: one.expand(draws, *one.shape[1:]) for name, one in (given or {}).items()}
    settings = {"max_new_tokens": 3, "do_sample": True, **rules, **repeated}
    drafted = model.generate(ids.expand(draws, -1), draft=decoding, **settings)[:, -2:]
    plain = model.generate(ids.expand(draws, -1), **settings)[:, -2:]
    assert 0 < sum(one.accepted for one in decoding.verified) < sum(len(one.tokens) for one in decoding.verified)
    statistic, cells = two_samples(drafted, plain)
    assert statistic < chi2.isf(1e-4, cells - 1)
    assert cells > 5


def two_samples(one: Tensor, other: Tensor) -> tuple[float, int]:
    """Chi-squared of pairs of tokens in two samples, and how many kinds of pairs it counts."""
    counts = torch.stack(
        [torch.bincount(pair[:, 0] * 40 + pair[:, 1], minlength=1600).double() for pair in (one, other)]
    )
    often = counts.sum(0) >= 20
    rest = counts[:, ~often].sum(1, keepdim=True)
    table = torch.cat([counts[:, often], rest], 1)
    table = table[:, table.sum(0) > 0]
    expected = table.sum(1, keepdim=True) * table.sum(0) / table.sum()
    return float(((table - expected) ** 2 / expected).sum()), table.shape[1]


@pytest.mark.parametrize("settings", [{"do_sample": False}, {"do_sample": True, "top_k": 0}], ids=["greedy", "drawn"])
def test_classes_are_drawn_without_the_scores_of_others(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The texts are those with a processor that does nothing, for which all tokens get scores."""
    model, ids = headed("gpt2", "f2 decoupled"), repeating(1)
    numbers = torch.rand(1, LONG, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def written(longest: int, *processors: LogitsProcessor) -> list[list[int]]:
        torch.manual_seed(7)
        decoding = nw.SpeculativeDecoding("prompt", FixedLength(longest))
        out: list[list[int]] = model.generate(
            ids, max_new_tokens=LONG, custom_generate=SpeculativeLoop(decoding, numbers),
            logits_processor=LogitsProcessorList(processors), **settings,
        ).tolist()  # fmt: skip
        assert decoding.verified
        return out

    scored = written(3, Nothing())
    for makes_all in ("within", "_log_probs"):
        monkeypatch.setattr(FactorizedDistribution, makes_all, None)
    assert written(1) == written(5) == scored


class Nothing(LogitsProcessor):
    """Changes no score."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        return scores


def test_scores_are_made_for_a_few_places_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no processor acts; with one the scores of all places are kept."""
    model, ids = headed("gpt2", "softmax"), repeating(3)
    plain = model.generate(ids, max_new_tokens=LONG)
    rows: list[int] = []
    logits = type(model.next_word_head).logits
    monkeypatch.setattr(
        type(model.next_word_head), "logits", lambda head, asked: rows.append(len(asked)) or logits(head, asked)
    )
    with nw.score_memory(1e-3):
        drafted = model.generate(ids, max_new_tokens=LONG, draft=nw.SpeculativeDecoding("prompt", FixedLength(4)))
    assert torch.equal(drafted, plain)
    assert max(rows) < 3


def test_refused_word_is_told_by_the_place_where_it_stands() -> None:
    """Whoever guesses next learns where the last draft had the token in whose place the last token came."""
    model, ids = headed("gpt2", "pg"), repeating(1)
    plain = model.generate(ids, max_new_tokens=LONG)[0].tolist()
    drafter = WrongAt(plain, ids.shape[1] + 6)
    assert (
        model.generate(ids, max_new_tokens=LONG, draft=nw.SpeculativeDecoding(drafter, FixedLength(4)))[0].tolist()
        == plain
    )
    told = {count: of for count, of in drafter.told.items() if of is not None}
    assert told[ids.shape[1] + 7] == ("text", ids.shape[1] + 6)
    assert told[ids.shape[1] + 6] == ("text", ids.shape[1] + 5)


class AlwaysRight(Drafter):
    """Knows the text beforehand."""

    def __init__(self, text: list[int]) -> None:
        self.text = text

    def expect_fit(self, model: Any) -> None:
        pass

    def drafts(self, texts: Any, decided: Decided, longest: int) -> list[Draft | None]:
        known = [self.text[len(text.tokens) : len(text.tokens) + longest] for text in texts]
        return [Draft(tokens, "known") if tokens else None for tokens in known]


class WrongAt(AlwaysRight):
    """Knows the text but for one token; says that each draft stands where it will stand itself."""

    def __init__(self, text: list[int], place: int) -> None:
        super().__init__([*text[:place], (text[place] + 1) % 40, *text[place + 1 :]])
        self.told: dict[int, Any] = {}

    def drafts(self, texts: Any, decided: Decided, longest: int) -> list[Draft | None]:
        self.told |= {len(text.tokens): text.instead for text in texts}
        found = zip(super().drafts(texts, decided, longest), texts, strict=True)
        return [draft and replace(draft, found=("text", len(text.tokens))) for draft, text in found]


def test_right_drafts_take_few_passes() -> None:
    model, ids = headed("gpt2", "pg"), repeating(1)
    plain = model.generate(ids, max_new_tokens=LONG)
    decoding = nw.SpeculativeDecoding(AlwaysRight(plain[0].tolist()), FixedLength(4))
    assert torch.equal(model.generate(ids, max_new_tokens=LONG, draft=decoding), plain)
    assert decoding.passes == 1 + -(-(LONG - 1) // 5)


class AlwaysWrong(Drafter):
    """A token that the model does not write, and one that does not exist."""

    def expect_fit(self, model: Any) -> None:
        pass

    def drafts(self, texts: list[KnownText], decided: Decided, longest: int) -> list[Draft | None]:
        return [Draft([0, 0, -1, 10**6], "wrong") for _ in texts]


def test_wrong_drafts_change_nothing() -> None:
    model, ids = headed("gpt2", "softmax+cpr:3,8+mi"), repeating(2)
    decoding = nw.SpeculativeDecoding(AlwaysWrong(), FixedLength(4))
    plain = model.generate(ids, max_new_tokens=LONG, suppress_tokens=[0])
    out = model.generate(ids, max_new_tokens=LONG, suppress_tokens=[0], draft=decoding)
    assert torch.equal(out, plain)
    assert decoding.tokens_per_pass == 1
    assert {one.tokens for one in decoding.verified} <= {(0, 0), (0,)}


@pytest.mark.parametrize("head", ["cache", "softmax+mi:2x3"])
def test_call_goes_on_from_the_cache(head: str) -> None:
    """The returned cache has lost every rejected token."""
    model, ids = headed("gpt2", head), repeating(1)
    settings = {"max_new_tokens": 8, "return_dict_in_generate": True}
    first = model.generate(ids, draft=nw.SpeculativeDecoding("prompt", FixedLength(3)), **settings)
    mask = torch.ones_like(first.sequences)
    past = first.past_key_values
    second = generated(model, first.sequences, attention_mask=mask, past_key_values=past, max_new_tokens=8)
    assert_as_recomputed(model, second, {"input_ids": ids})


def test_a_sliding_window_keeps_no_more_of_a_long_prompt_than_it_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    model, ids = headed("mistral", "cache"), prompt(1).repeat(1, 4)
    window, kept = model.config.text_config.sliding_window, []

    def update(layer: Any, *states: Tensor, **settings: Any) -> Any:
        returned = own(layer, *states, **settings)
        kept.append(layer.keys.shape[-2])
        return returned

    own = DynamicSlidingWindowLayer.update
    monkeypatch.setattr(DynamicSlidingWindowLayer, "update", update)
    plain = model.generate(ids, max_new_tokens=LONG).tolist()
    assert kept
    kept.clear()
    decoding = nw.SpeculativeDecoding("prompt", FixedLength(4))
    assert model.generate(ids, max_new_tokens=LONG, draft=decoding).tolist() == plain
    assert decoding.verified
    assert max(kept) <= window - 1 + 5 < ids.shape[1]


def test_model_assists_under_the_same_argument() -> None:
    model, ids = headed("gpt2", "cache"), repeating(1)
    plain = model.generate(ids, max_new_tokens=LONG)
    assert torch.equal(model.generate(ids, max_new_tokens=LONG, draft=headed("gpt2", "softmax")), plain)


REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "beams": ("greedy search or sampling", {"num_beams": 3}),
    "scores": ("output_scores", {"output_scores": True, "return_dict_in_generate": True}),
    "no cache": ("cache", {"use_cache": False}),
    "static": ("cache", {"cache_implementation": "static"}),
    "lookup": ("greedy search or sampling", {"prompt_lookup_num_tokens": 3}),
    "loop": ("only loop", {"custom_generate": "x"}),
    "guidance": ("see every step", {"guidance_scale": 2.0}),
    "by row": ("see every step", {"prefix_allowed_tokens_fn": lambda row, ids: [5]}),
}


@pytest.mark.parametrize(("reason", "settings"), REFUSED.values(), ids=REFUSED)
def test_refused_with_a_reason(reason: str, settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=reason):
        headed("gpt2", "cache").generate(repeating(2), max_new_tokens=4, draft="head", **settings)


@pytest.mark.parametrize(
    ("draft", "reason"), [(3, "must be 'head'"), ("heed", "Did you mean 'head'"), ("head", "needs a head")]
)
def test_unfit_draft(draft: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        headed("gpt2", "softmax").generate(repeating(1), max_new_tokens=4, draft=draft)
