from __future__ import annotations

import pytest
from transformers import PreTrainedTokenizerFast

from nextword.experiments.tasks.expand_rows import SummaryPrompts
from nextword.runtime.corpora.gap_sentences import Pair
from tests.helpers.summaries import LENGTH, pair, save_encoder, small, write_pairs


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return small(write_pairs(tmp_path_factory.mktemp("news")), encoder=save_encoder(tmp_path_factory.mktemp("encoder")))


@pytest.fixture
def prompts(task):
    return SummaryPrompts(task.start.tokenizer(), LENGTH, longest=7)


def test_prompts_are_cut_summaries_with_a_line_end(task, prompts):
    tokenizer = task.start.tokenizer()
    whole = tokenizer(pair(3)["highlights"], add_special_tokens=False)["input_ids"]
    short, cut = prompts(["Dän", pair(3)["highlights"]])
    assert tokenizer.decode(short) == "Dän\n"
    assert len(whole) > 7
    assert cut == [*whole[:7], *tokenizer("\n")["input_ids"]]
    assert prompts.positions == 1 + 7 + 1 + LENGTH
    assert prompts([]) == []


def test_beginnings_are_the_first_tokens_with_the_bytes_they_cover(task, prompts):
    tokenizer = task.start.tokenizer()
    found = prompts.beginnings([task.data.pairs.test[0], Pair("too short", "Eve."), task.data.pairs.test[1]], "test")
    assert [one.number for one in found] == [0, 1]
    for one, given in zip(found, task.data.pairs.test, strict=False):
        assert one.ids == tokenizer(given.target, add_special_tokens=False)["input_ids"][:LENGTH]
        assert given.target.startswith(tokenizer.decode(one.ids))
        assert one.text_bytes == len(tokenizer.decode(one.ids).encode())
    with pytest.raises(ValueError, match=r"task\.length"):
        prompts.beginnings([Pair("too short", "Eve.")], "test")


def test_what_stands_before_a_text(task, prompts):
    given = prompts.beginnings(task.data.pairs.test, "test")
    alone, prompted = prompts.before(given, False), prompts.before(given, True)
    start = task.start.tokenizer().bos_token_id
    assert [prompt.context for prompt in alone] == [[start]] * len(given)
    assert [prompt.context for prompt in prompted] == [[start, *one.prompt] for one in given]
    assert [prompt.target for prompt in alone] == [prompt.target for prompt in prompted]
    assert [prompt.source for prompt in alone] == [one.summary for one in given]


def test_a_slow_tokenizer_is_refused(prompts):
    class Slow(PreTrainedTokenizerFast):
        is_fast = False

    slow = Slow(tokenizer_object=prompts.tokenizer.backend_tokenizer, eos_token="<eos>")
    with pytest.raises(ValueError, match="offsets"):
        SummaryPrompts(slow, LENGTH, 7).beginnings([Pair("a", "b")], "test")
