from __future__ import annotations

from collections import Counter

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from nextword.corpora.gaps import Pair
from nextword.tasks.parts.expand.article_encoding import Beginning, SummaryPrompts, with_other_summaries
from tests.helpers.summaries import LENGTH, attached, pair, save_encoder, small, write_pairs


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return small(write_pairs(tmp_path_factory.mktemp("news")), encoder=save_encoder(tmp_path_factory.mktemp("encoder")))


@pytest.fixture
def prompts(task):
    return SummaryPrompts(task.tokenizer(), LENGTH, longest=7)


def beginnings(*texts):
    return [Beginning(number, summary, [number], [1], 1, article) for number, (summary, article) in enumerate(texts)]


def test_prompts_are_cut_summaries_with_a_line_end(task, prompts):
    tokenizer = task.tokenizer()
    whole = tokenizer(pair(3)["highlights"], add_special_tokens=False)["input_ids"]
    short, cut = prompts(["Dän", pair(3)["highlights"]])
    assert tokenizer.decode(short) == "Dän\n"
    assert len(whole) > 7
    assert cut == [*whole[:7], *tokenizer("\n")["input_ids"]]
    assert prompts.positions == 1 + 7 + 1 + LENGTH
    assert prompts([]) == []


def test_beginnings_are_the_first_tokens_with_the_bytes_they_cover(task, prompts):
    tokenizer = task.tokenizer()
    found = prompts.beginnings([task.test[0], Pair("too short", "Eve."), task.test[1]], "test")
    assert [one.number for one in found] == [0, 1]
    for one, given in zip(found, task.test, strict=False):
        assert one.ids == tokenizer(given.target, add_special_tokens=False)["input_ids"][:LENGTH]
        assert given.target.startswith(tokenizer.decode(one.ids))
        assert one.text_bytes == len(tokenizer.decode(one.ids).encode())
    with pytest.raises(ValueError, match=r"all 1 test articles are shorter than task\.length \(12 tokens\)"):
        prompts.beginnings([Pair("too short", "Eve.")], "test")


def test_what_stands_before_a_text(task, prompts):
    given = prompts.beginnings(task.test, "test")
    alone, prompted = prompts.before(given, False), prompts.before(given, True)
    start = task.tokenizer().bos_token_id
    assert [prompt.ids for prompt in alone] == [[start]] * len(given)
    assert [prompt.ids for prompt in prompted] == [[start, *one.prompt] for one in given]
    assert [prompt.reference for prompt in alone] == [prompt.reference for prompt in prompted]


def test_everybody_gets_another_article_s_summary():
    given = beginnings(*[(f"summary {number}", f"article {number}") for number in range(7)])
    others = with_other_summaries(given, seed=0)
    assert [one.article for one in others] == [one.article for one in given]
    assert Counter(one.summary for one in others) == Counter(one.summary for one in given)
    for one, other in zip(given, others, strict=True):
        assert one.summary != other.summary
        assert other.prompt == [int(other.summary.split()[1])]
    assert with_other_summaries(given, seed=0) == others
    assert any(with_other_summaries(given, seed=seed) != others for seed in (1, 2, 3))


def test_pairs_that_share_an_article_or_a_summary_do_not_swap():
    given = beginnings(("a", "x"), ("b", "x"), ("c", "y"), ("c", "z"))
    for seed in range(20):
        others = with_other_summaries(given, seed)
        assert {one.summary for one in others[:2]} == {"c"}
        assert {one.summary for one in others[2:]} == {"a", "b"}
    with pytest.raises(ValueError, match="the 3 test articles cannot get another article's summary each"):
        with_other_summaries(given[:3], 0)
    with pytest.raises(ValueError, match="the 1 test articles cannot"):
        with_other_summaries(given[:1], 0)


def test_a_slow_tokenizer_is_refused(prompts):
    class Slow(PreTrainedTokenizerFast):
        is_fast = False

    slow = Slow(tokenizer_object=prompts.tokenizer.backend_tokenizer, eos_token="<eos>")
    with pytest.raises(ValueError, match=r"has no offsets \(it is a slow one\)"):
        SummaryPrompts(slow, LENGTH, 7).beginnings([Pair("a", "b")], "test")


def test_a_guide_tells_conditioned_models_only_and_reads_each_summary_once(task, prompts, monkeypatch):
    given = prompts.beginnings(task.test, "test")
    assert task.guide(attached(task), task.tokenizer())(given) == {}
    model = attached(task, conditioner="dau")
    guide = task.guide(model, task.tokenizer())
    encode, read = model.encode, []
    monkeypatch.setattr(model, "encode", lambda ids, mask: read.append(len(ids)) or encode(ids, mask))
    with torch.no_grad():
        told = guide(given[:3])
        again = guide([given[2], given[0], given[4]])
    assert set(told) == {"aux_states", "aux_attention_mask"}
    assert read == [3, 1]
    inputs = guide.auxiliary([given[0].summary])
    with torch.no_grad():
        alone = encode(inputs["aux_input_ids"], inputs["aux_attention_mask"])[0]
    torch.testing.assert_close(again["aux_states"][1, : len(alone)], alone)
    assert again["aux_attention_mask"].sum(dim=1)[1] == len(alone)


def test_a_guide_tells_the_words_to_heads_that_copy_them(task, prompts):
    given = prompts.beginnings(task.test, "test")
    with torch.no_grad():
        told = task.guide(attached(task, "pg", "bergpt"), task.tokenizer())(given)
    assert set(told) == {"aux_states", "aux_attention_mask", "source_ids", "source_places"}
    rows = zip(given, told["source_ids"], told["source_places"], strict=True)
    assert all(task.tokenizer().decode(ids[places >= 0]) == one.summary for one, ids, places in rows)
